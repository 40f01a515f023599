"""Formulas: found in rendered HTML, given to a renderer in one batch, put back as HTML and MathML."""
import html
import re

from .errors import PageError

FORMULA = re.compile(r'<(span|div) class="arithmatex">(\\\(|\\\[)(.*?)(\\\)|\\\])</\1>([.,;:!?)，。、；：！？）」』]*)', re.S)


def render(content, renderer, markdown):
    """Return `content` with each formula replaced.

    renderer  function (list of (tex, display)) → list of {"html": …} or {"error": …}
    markdown  the page's source, to name the line of a formula that fails
    Raises PageError naming the formula and, where it can be found, the line.
    """
    for match in FORMULA.finditer(content):
        if "<" in match[3]:   # a < of the author's is escaped
            raise PageError(f"Markdown has changed the formula '{match[3]}': keep it apart from stars, underscores and links.")
    found = [(html.unescape(m[3]).strip(), m[2] == r"\[") for m in FORMULA.finditer(content)]
    if not found:
        return content
    answers = iter(zip(found, renderer(found)))

    def put(match):
        (tex, display), answer = next(answers)
        if "error" in answer:
            raise PageError(f"formula '{tex}': {answer['error']}", _line_of(tex, markdown))
        tag = "div" if display else "var"   # not an element that KaTeX nests: the search plugin would stop excluding at its end
        made = f'<{tag} class="math" data-search-exclude>{answer["html"]}</{tag}>'
        # Browsers break a line between a formula and the comma after it; a short formula keeps its comma.
        return f'<span class="together">{made}{match[5]}</span>' if match[5] and not display and len(tex) <= 24 else made + match[5]

    return FORMULA.sub(put, content)


def _line_of(tex, markdown):
    start = markdown.find(tex.splitlines()[0] if tex else "\0")
    return markdown.count("\n", 0, start) + 1 if start >= 0 else None
