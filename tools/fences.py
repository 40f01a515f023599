"""Code fences of a page exactly as the site renders them, for pytest-markdown-docs.

The page goes through Python-Markdown with the site's own configuration (snippets, admonitions, tabs, details), and superfences
hands over each fence it renders. Fences written but not rendered are an error.
"""
import functools
import os
import pathlib
import re
import types

import markdown
from mkdocs.config import load_config

TOP = pathlib.Path(__file__).resolve().parents[1]
OPENING = re.compile(r"^\s*(?:>\s?)*(?P<fence>`{3,}|~{3,})\s*(?P<info>\S.*)?$")


class Fence(types.SimpleNamespace):
    """language, options (set of classes), title, reason (of not being run, or None), code, line (of its opening, from 1)"""


class Parser:
    """What pytest_markdown_docs_markdown_it returns: `parse` gives tokens as markdown-it would."""

    def parse(self, text):
        return [
            types.SimpleNamespace(
                type="fence", map=[fence.line - 1, fence.line], content=fence.code,
                info=" ".join([fence.language, *sorted(fence.options), *(["notest"] if fence.reason else [])]),
            )
            for fence in rendered(text)
        ]


def rendered(text):
    """Every fence of a page, in order, as superfences rendered it."""
    found = []
    body = _without_front_matter(text)
    extensions, configs = _site_markdown()

    def keep(source, language, css_class, options, md, classes=None, id_value="", attrs=None, **kwargs):
        attrs = attrs or {}
        found.append(Fence(
            language=language, options=set(classes or []) & {"continuation"}, title=options.get("title") or attrs.get("title"),
            reason=attrs.get("data-notest"), code=source + "\n", line=0,
        ))
        return "<pre></pre>"

    configs = {**configs, "pymdownx.superfences": {"custom_fences": [{"name": "*", "class": "", "format": keep, "validator": _accept}]}}
    markdown.markdown(body, extensions=extensions, extension_configs=configs)
    lines = openings(text)
    if len(lines) != len(found):
        raise ValueError(f"{len(lines)} code fences are written (lines {lines}), {len(found)} are rendered: one is not where Markdown sees it (indentation, missing end).")
    for fence, line in zip(found, lines):
        fence.line = line
    return found


def openings(text):
    """The lines (from 1) on which code fences open."""
    lines, fence = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = OPENING.match(line)
        if fence is None and match:
            fence = match["fence"]
            lines.append(number)
        elif fence is not None and match and match["fence"].startswith(fence) and not match["info"]:
            fence = None
    return lines


def _accept(language, inputs, options, attrs, md):
    options.update({key: value for key, value in inputs.items() if key in ("title", "hl_lines", "linenums")})
    attrs.update({key: value for key, value in inputs.items() if key not in ("title", "hl_lines", "linenums")})
    return True


def _without_front_matter(text):
    match = re.match(r"\A---\n.*?\n---\n", text, re.S)
    return text[match.end():] if match else text


@functools.lru_cache(maxsize=1)
def _site_markdown():
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    config = load_config(str(TOP / "mkdocs.en.yml"))
    config.plugins.run_event("config", config)
    return list(config.markdown_extensions), dict(config.mdx_configs)
