"""Small changes to rendered pages: file names become links, exempt code says why it is not run."""
import html
import re

NOTEST = re.compile(r'<div class="([^"]*highlight[^"]*)" data-notest="([^"]*)">')


def link_files(content, served, root):
    """Turn the title of a code block that is a served example's name into a link to the whole file."""
    def put(match):
        name = html.unescape(match[1])
        if name not in served:
            return match[0]
        return f'<span class="filename"><a href="{root}examples/{name}" download>{match[1]}</a></span>'

    return re.sub(r'<span class="filename">([^<]*)</span>', put, content)


def explain_exempt(content, word):
    """Write under a code block that tests do not run the reason that its `data-notest` gives."""
    parts, position = [], 0
    for match in NOTEST.finditer(content):
        end = content.index("</pre></div>", match.end()) + len("</pre></div>")
        parts += [content[position:end], f'<p class="notest">{word}{match[2]}</p>']
        position = end
    return "".join(parts) + content[position:]
