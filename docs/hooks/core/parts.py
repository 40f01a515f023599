"""What stands between two headings becomes a part that the browser lays out when it comes near (content-visibility), in a space of about its height.

With 18,000 elements the lesson took the phone that Lighthouse simulates seconds to lay out; the theme asks for the layout several times as it starts.
The estimate only keeps the scroll bar steady: below the reader nothing moves that is seen, and a part once seen keeps its true height.
"""
import re

ARTICLE = re.compile(r"(<article\b[^>]*>)(.*?)(?=</article>)", re.S)
HEADING = re.compile(r"(?=<h[1-4][ >])")
NESTING = re.compile(r"<(/?)(?:div|details|figure|table|ul|ol|dl|blockquote|section|form|fieldset)\b")
UNSEEN = re.compile(r'<(script|template|form|textarea)\b.*?</\1>|<ol class="questions">.*?</ol>|<span class="katex-mathml">.*?</span>', re.S)
SHUT = re.compile(r"(<details(?![^>]*\bopen\b)[^>]*>\s*<summary.*?</summary>).*?</details>", re.S)
CODE = re.compile(r"""( output">(?:<span class="filename">[^<]*</span>)?)?(<pre.*?</pre>)""", re.S)
SCROLLS = 25   # lines of a notebook's output; what is longer scrolls inside itself (css/site.css)
# Heights in rem, on a wide screen and on a phone; fitted to Chromium's, which test_budgets.py compares.
EACH = {
    "unit": (0.0127, 0.0276),   # of text: a Latin letter; a Chinese one is two
    "text": (1.13, 1.31),       # a paragraph or an item of a list: half a line, and its margin
    "code": (3.1, 3.1), "line": (1.054, 1.054),
    "row": (2.1, 2.0), "figure": (24, 16), "drawing": (-14, 3), "math": (6.4, 7),
    "widget": (14, 6.6), "fold": (1.7, 1.7), "exercise": (17, 27),
}


def divide(page):
    """A page whose article has the space between headings wrapped in parts. What opens in one and closes in another stays as it is."""
    return ARTICLE.sub(lambda match: match[1] + _divided(match[2]), page, count=1)


def _divided(article):
    first, *sections = HEADING.split(article)
    made, held, opened = [first], "", 0
    for number, section in enumerate(sections):
        opened += sum(-1 if match[1] else 1 for match in NESTING.finditer(section))
        held += section
        if opened:
            continue
        head, body = held[: (end := held.index(f"</{held[1:3]}>") + 5)], held[end:]
        made.append(f"{head}{_part(body)}" if number and body.strip() else held)   # what follows the title is seen at once
        held = ""
    return "".join(made) + held


def _part(body):
    wide, narrow = estimate(body)
    return f'<div class="part" style="--wide:{wide:.0f}rem;--narrow:{narrow:.0f}rem">{body}</div>'


def estimate(body):
    """About how high a piece of a page is, in rem, on a wide screen and on a phone."""
    body = SHUT.sub(r"\1", UNSEEN.sub("", body))
    counts = {"figure": body.count("<figure"), "drawing": body.count('<figure class="drawing"'), "math": body.count('<div class="math"'), "widget": body.count("data-widget="), "row": body.count("<tr"), "fold": body.count("<details"),
              "exercise": body.count('data-widget="exercise"')}
    body = re.sub(r'<svg.*?</svg>|<div class="math".*?</div>', "", body, flags=re.S)
    blocks = [min(match[2].count("\n"), SCROLLS if match[1] else 10**6) for match in CODE.finditer(body)]
    body = CODE.sub("", body)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", body))
    counts |= {"code": len(blocks), "line": sum(blocks), "text": len(re.findall(r"<(?:p|summary|dt|dd)[ >]|<li\b[^>]*>(?!<details)", body))}
    counts["unit"] = len(text) + len(re.findall(r"[\u2e80-\uffef]", text))
    return tuple(sum(counts[name] * EACH[name][screen] for name in EACH) for screen in (0, 1))
