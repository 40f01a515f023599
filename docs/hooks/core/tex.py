"""Formulas: found in rendered HTML, rendered by KaTeX in one batch (the shim asks it), put back as HTML and MathML."""
import html
import re

from .errors import PageError

FORMULA = re.compile(r'<(span|div) class="arithmatex"(?: data-from="([^"]*)")?>(\\\(|\\\[)(.*?)(\\\)|\\\])</\1>([.,;:!?)，。、；：！？）」』]*)', re.S)


def mark(tex, source):
    """A formula where it will stand in a line, as Markdown would mark it. source: the file and part that it comes from, to name where it fails."""
    return f'<span class="arithmatex" data-from="{html.escape(source, quote=True)}">\\({html.escape(tex)}\\)</span>'


def find(content):
    """The formulas of a rendered page, as (tex, display) in their order. Raises PageError for one that Markdown has changed."""
    for match in FORMULA.finditer(content):
        if "<" in match[4]:   # a < of the author's is escaped
            raise PageError(f"Markdown has changed the formula '{match[4]}': keep it apart from stars, underscores and links.")
    return [(html.unescape(m[4]).strip(), m[3] == r"\[") for m in FORMULA.finditer(content)]


def place(content, formulas, answers, markdown):
    """`content` with each formula replaced.

    formulas  as find() gives them
    answers   what KaTeX made of each: {"html": …} or {"error": …}
    markdown  the page's source, to name the line of a formula that fails
    Raises PageError naming the formula and, where it can be found, the line.
    """
    rendered = iter(zip(formulas, answers, strict=True))

    def put(match):
        (tex, display), answer = next(rendered)
        if "error" in answer:
            where = f"{html.unescape(match[2])}: " if match[2] else ""
            raise PageError(f"{where}formula '{tex}': {answer['error']}", None if match[2] else _line_of(tex, markdown))
        tag = "div" if display else "var"   # not an element that KaTeX nests: the search plugin would stop excluding at its end
        short = " data-short" if not display and len(tex) <= 24 else ""   # it stays on one line
        made = f'<{tag} class="math"{short} translate="no" data-search-exclude>{answer["html"]}</{tag}>'
        # Browsers break a line between a formula and the comma after it; a short formula keeps its comma.
        return f'<span class="together">{made}{match[6]}</span>' if match[6] and short else made + match[6]

    return FORMULA.sub(put, content)


def _line_of(tex, markdown):
    start = markdown.find(tex.splitlines()[0] if tex else "\0")
    return markdown.count("\n", 0, start) + 1 if start >= 0 else None
