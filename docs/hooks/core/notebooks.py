"""Notebook pages: what mkdocs-jupyter renders, in this site's own elements.

It gives JupyterLab's whole page: half a megabyte of styles, scripts of other hosts, a copy button of its own, headings whose ids
are empty in Chinese. Of that only the text, the coloured code and the outputs are taken; styles, copy button and formulas are the site's.
A heading's id is its cell's, the same in both languages.
"""
import json
import re

from .errors import PageError

CELL = re.compile(r'<div class="jp-Cell jp-(Markdown|Code)Cell jp-Notebook-cell[^"]*" id="cell-id=([a-z][\w-]*)">')
TEXT = re.compile(r'<div class="jp-RenderedHTMLCommon jp-RenderedMarkdown[^"]*" data-mime-type="text/markdown">\n?(.*?)(?:\s*</div>){4}', re.S)
CODE = re.compile(r'<div class="highlight-ipynb hl-python ?">(<pre>.*?)\s*</pre></div>', re.S)
OUTPUT = re.compile(r'<div class="jp-RenderedText jp-OutputArea-output[^"]*" data-mime-type="([^"]+)"[^>]*>\s*<pre>(.*?)\s*</pre>', re.S)
HEADING = re.compile(r'<h([1-6]) id="[^"]*">(.*?)<a class="anchor-link"[^>]*>[^<]*</a></h\1>', re.S)


def read(text):
    """The notebook in `text`. Raises PageError for one that is not JSON, or that was published with an error in it."""
    try:
        notebook = json.loads(text)
    except ValueError as error:
        raise PageError(f"the notebook is not JSON: {error}.", getattr(error, "lineno", None)) from None
    if not re.match(r"# .+\n\n\S", "".join(notebook["cells"][0]["source"]) if notebook["cells"] else ""):
        raise PageError("a notebook opens with a Markdown cell: `# ` and its title, an empty line, a paragraph.")
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                raise PageError(f"cell {cell.get('id', '?')} raises {output['ename']}: {output['evalue']}. A notebook is published when every cell ran: `make notebooks-run`.")
    return notebook


def shape(content, notebook, words, links):
    """(content, blocks, headings) of what mkdocs-jupyter rendered; headings are (level, id, HTML).

    The code and its outputs are not in the content, where a comment marks each place: they would be most of the search index and
    of its time. `place` puts them in at the end.
    links  HTML that stands below the title
    Raises PageError where the rendered page does not hold the notebook's cells as this module knows them.
    """
    found = list(CELL.finditer(content))
    if [match[2] for match in found] != [cell.get("id") for cell in notebook["cells"]]:
        raise PageError("mkdocs-jupyter renders other cells than the notebook has: see CELL in docs/hooks/core/notebooks.py.")
    headings, blocks, out = [], [], []
    for match, following, cell in zip(found, [*found[1:], None], notebook["cells"]):
        part = content[match.end() : following.start() if following else len(content)]
        if match[1] == "Markdown":
            out.append(_text(_only(TEXT, part, cell), cell["id"], headings))
        else:
            outputs = OUTPUT.findall(part)
            if len(outputs) != len(cell["outputs"]):
                raise PageError(f"mkdocs-jupyter renders {len(outputs)} outputs of cell {cell['id']}, not {len(cell['outputs'])}: see OUTPUT in docs/hooks/core/notebooks.py.")
            made = [_block(_only(CODE, part, cell), "language-python highlight")]
            made += [_output(text, words.notebook.stderr if kind.endswith("stderr") else words.notebook.output) for kind, text in outputs]
            out.append(f"<!-- cell {len(blocks)} -->")
            blocks.append("\n".join(made))
    return "\n".join(out).replace("</h1>", f"</h1>\n{links}", 1), blocks, headings


def place(output, blocks):
    """The finished page with its code and outputs. Raises PageError where one has no place."""
    output, count = re.subn(r"<!-- cell (\d+) -->", lambda match: blocks[int(match[1])], output)
    if count != len(blocks):
        raise PageError(f"the page has places for {count} of {len(blocks)} code cells: comments were taken out of it, and docs/hooks/core/notebooks.py needs them.")
    return output


def links(lab, lang, words, root, gpu, repository):
    """The line below the title: the file, Colab where the repository is known and on GitHub, and where to read on. root: relative address of the site's root."""
    made = [f'<a class="md-button md-button--primary" href="{lab}.ipynb" download>{words.notebook.download}</a>']
    if match := re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", repository or ""):
        made.append(f'<a class="md-button" href="https://colab.research.google.com/github/{match[1]}/blob/notebooks/{lang}/{lab}.ipynb">{words.notebook.colab}</a>')
    more = [(f"{root}{lang}/notebooks/#run", words.notebook.run, ""), (f"{root}examples/{lab}.py", words.notebook.program, " download"),
            (f"{root}examples/results/{gpu}/{lab}.json", words.notebook.json, ""), (f"{root}{lang}/notebooks/", words.notebook.all, "")]
    return f'<p class="notebook">{" ".join(made)} <span>{" · ".join(f"<a href={json.dumps(href)}{extra}>{text}</a>" for href, text, extra in more)}</span></p>'


def description(notebook, lang):
    """What search engines show: the whole sentences below the title, as many as have room, without formulas."""
    paragraph = "".join(notebook["cells"][0]["source"]).split("\n\n")[1]
    said, room, gap = "", *((100, "") if lang == "zh" else (200, " "))
    for sentence in re.split(r"(?<=[。？！])|(?<=[.?!]) ", paragraph):
        if sentence and "$" not in sentence and len(said) + len(gap) + len(sentence) <= room:
            said += (gap if said else "") + sentence.replace("`", "")
    return said


def toc(headings):
    """The headings as Python-Markdown's tokens, for the page's table of contents."""
    tokens = []
    for level, name, text in headings:
        token = {"level": level, "id": name, "name": re.sub(r"<[^>]*>", "", text), "html": text, "data-toc-label": "", "children": []}
        below = tokens
        while below and below[-1]["level"] < level:
            below = below[-1]["children"]
        below.append(token)
    return tokens


def _text(inner, name, headings):
    """A Markdown cell: its heading gets the cell's id, its formulas are marked for tex.py."""
    def head(match):
        if any(name == known for _, known, _ in headings):
            raise PageError(f"cell {name} has two headings; give each a cell of its own.")
        headings.append((int(match[1]), name, match[2]))
        return f'<h{match[1]} id="{name}">{match[2]}<a class="headerlink" href="#{name}" title="">#</a></h{match[1]}>'

    inner = HEADING.sub(head, inner.strip())
    parts = re.split(r"(<(pre|code)\b.*?</\2>)", inner, flags=re.S)
    for i in range(0, len(parts), 3):                      # split() gives text, whole element, its name, text, …
        parts[i] = re.sub(r"\$\$(.+?)\$\$", r'<div class="arithmatex">\\[\1\\]</div>', parts[i], flags=re.S)
        parts[i] = re.sub(r"\$([^$\n]+)\$", r'<span class="arithmatex">\\(\1\\)</span>', parts[i])
    return "".join(part for i, part in enumerate(parts) if i % 3 != 2)


def _only(pattern, part, cell):
    match = pattern.search(part)
    if not match:
        raise PageError(f"mkdocs-jupyter renders cell {cell['id']} in another way than docs/hooks/core/notebooks.py knows.")
    return match[1]


def _block(pre, classes, title=""):
    """A block of code as the site's own: the theme adds its copy button."""
    code = pre.removeprefix("<pre>").removeprefix("<span></span>")
    return f'<div class="{classes}">{title}<pre><span></span><code>{code}\n</code></pre></div>'


def _output(text, title):
    return _block(text, "highlight no-copy output", f'<span class="filename">{title}</span>')
