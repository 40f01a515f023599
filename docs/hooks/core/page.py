"""A page's way: Markdown in, HTML out, in one direction. What it needs stands in the Book and in its Place; between two steps stands text.

    draft = Page(book, place).draft(markdown)              placeholders
    MkDocs                                                  Markdown to HTML
    body(html, …)                                           glossary, figures
    tex.find, KaTeX, tex.place                              formulas
    finish(html, …)                                         names and links
    MkDocs                                                  the theme around it
    dress(html, words)                                      controls, code, no-break spaces, parts
"""
from . import glossary, html, parts, typography


def body(content, draft, book, place, address):
    """The rendered Markdown with the glossary's links and with its figures, formulas marked. address: of the glossary from this page, None on the glossary itself.

    draft  placeholders.Draft that it was, None for a notebook
    """
    known = book.glossary.get(place.lang)
    if address and known:
        content = glossary.link(content, known.entries, known.finder, address)
    return draft.place_figures(content) if draft else content


def finish(content, draft, book, place):
    """What MkDocs puts into the theme's page."""
    if draft:
        content = html.explain_exempt(html.link_files(content, book.examples, place.root), book.words[place.lang])
    return html.tidy(content, book.words[place.lang])


def dress(page, words):
    """The whole page of a language: controls for a keyboard, code with its copy button, what stays on one line and what is not translated, parts that are laid out when they come near."""
    return html.lighten(html.keep(parts.divide(typography.bind(html.code(html.controls(page, words), words)))))
