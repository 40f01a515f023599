"""The first use of a glossary's word on a page becomes a quiet link to its entry. Pure: Markdown and HTML in, HTML out.

An entry of glossary.md is a heading of level two with an id, and a definition below it. The words that mean it are those of
the heading, or, where these would not do, those that the front matter gives for its id, separated by semicolons:

    words:
      hbm: HBM; device memory; DRAM
"""
import re
from dataclasses import dataclass

from .errors import PageError

ENTRY = re.compile(r"^## (?P<title>.+?) \{ #(?P<id>[\w-]+) \}\n+(?P<first>[^\n]+)", re.M)
ATTRIBUTES = r"""(?:[^<>"']|"[^"]*"|'[^']*')*"""
# Where no link is put: other links, code, headings, formulas, heads of tables, what is pressed, what was measured, figures.
CLOSED = "a|button|caption|code|data|figure|h1|h2|h3|h4|h5|h6|kbd|label|math|pre|script|style|summary|svg|textarea|th"
CLOSED_CLASS = "arithmatex|admonition-title|headlines|provenance|widget"
SKIPPED = re.compile(rf"""<!--.*?-->|<({CLOSED})\b{ATTRIBUTES}>.*?</\1>|<(div|p|span)\b(?=[^<>]*\bclass=["'][^"']*\b(?:{CLOSED_CLASS})\b){ATTRIBUTES}>|<{ATTRIBUTES}>""", re.S)


@dataclass(frozen=True)
class Entry:
    """id: the anchor; words: what means it on a page; short: the first sentence of the definition, as plain text."""

    id: str
    words: tuple
    short: str


@dataclass(frozen=True)
class Glossary:
    """The entries of one language, and what finds their words."""

    entries: tuple
    finder: re.Pattern

    @classmethod
    def of(cls, markdown, given):
        made = entries(markdown, given)
        return cls(tuple(made), pattern([word for entry in made for word in entry.words]))


def entries(markdown, given):
    """The entries of a glossary page. given: {id: "word; word"} of its front matter. Raises PageError for an id without entry, or a word of two."""
    made, seen = [], {}
    for match in ENTRY.finditer(markdown):
        own = given.get(match["id"])
        names = [name.strip() for name in (own.split(";") if own else re.split(r"[，,（）]", match["title"])) if name.strip()]
        made.append(Entry(match["id"], tuple(names), _first_sentence(match["first"])))
        for name in names:
            if seen.setdefault(name.lower(), match["id"]) != match["id"]:
                raise PageError(f"the glossary's word '{name}' belongs to #{seen[name.lower()]} and to #{match['id']}.")
    unknown = set(given) - {entry.id for entry in made}
    if unknown:
        raise PageError(f"the glossary's front matter has words for #{', #'.join(sorted(unknown))}, and no such entry.")
    return made


def pattern(names):
    """Matches the longest of `names`: a capital may begin it and a plural s end it, unless it is written in Chinese."""
    rest = {}
    for name in sorted(names, key=len, reverse=True):
        first, own = name[0], re.escape(name[1:]).replace(r"\ ", r"\s+") + (r"(?:s|es)?(?![\w-])" if name[-1].isascii() else "")
        plain = first.isascii() and first.isalpha() and not any(letter.isupper() for letter in name[1:])
        for letter in sorted({first.lower(), first.upper()} if plain else {first}):   # the same in every process: pages are kept by it
            rest.setdefault(letter, []).append(own)
    # One set of first letters, so that the search leaps from one to the next; what may follow each; no letter of a name before it.
    follow = [rf"(?<={re.escape(letter)})" + (r"(?<![\w./-].)" if letter.isascii() else "") + f"(?:{'|'.join(own)})" for letter, own in rest.items()]
    return re.compile(rf"[{re.escape(''.join(rest))}](?:{'|'.join(follow)})", re.A | re.S)


def link(content, glossary, finder, address):
    """`content` with the first use of each entry linked to `address`#id. A link to the entry that the author wrote counts as the first use.

    finder  what pattern() makes of all words of the glossary
    """
    of = {name.lower(): entry for entry in glossary for name in entry.words}
    done, out, position = set(), [], 0
    written = re.compile(rf"""<a\b[^>]*?href=["']{re.escape(address)}#([\w-]+)["']""")

    def put(match):
        text = re.sub(r"\s+", " ", match[0]).lower()
        entry = next(of[form] for form in (text, text[:-1], text[:-2]) if form in of)
        if entry.id in done:
            return match[0]
        done.add(entry.id)
        return f'<a class="term" href="{address}#{entry.id}">{match[0]}</a>'

    while skipped := SKIPPED.search(content, position):
        end = _end_of(skipped[2], content, skipped.end()) if skipped[2] else skipped.end()
        out += [finder.sub(put, content[position:skipped.start()]), content[skipped.start():end]]
        done.update(written.findall(out[-1]) if skipped[1] == "a" or skipped[2] else ())
        position = end
    return "".join([*out, finder.sub(put, content[position:])])


def _end_of(tag, content, position):
    """Where the element ends whose opening tag ends at `position`."""
    depth = 1
    for mark in re.compile(rf"<(/?){tag}\b").finditer(content, position):
        depth += -1 if mark[1] else 1
        if not depth:
            return content.index(">", mark.end()) + 1
    return len(content)


def _first_sentence(markdown):
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]", "", markdown))
    return re.split(r"(?<=[.])\s+(?=[A-Z])|(?<=。)", plain)[0]
