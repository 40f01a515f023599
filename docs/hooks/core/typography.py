"""What is read as one stands on one line, and an amount is written in one way: no-break spaces and commas, put into a page's text by the build.

    S = 4096    S × S    24 GiB    90 %         the blank does not break
    1904 MiB    4592.5 µs                       what is counted in a unit has commas: 1,904 MiB, 4,592.5 µs
    S = 131072, 4096 tokens                     what a reader types into a program has none

Only text is changed: no code, formula, figure or attribute. The search index is made before and keeps plain blanks.
"""
import re

from .parts import ARTICLE
from .policy import ATTRIBUTES

UNITS = r"(?:[KMGT]iB|[kMGT]B|B(?!\s=)|bytes?|[GT]B/s|[GTP]?FLOPs?(?:/[sB])?|ns|[mµ]?s|%|字节)(?![\w/])"   # B = 1 is the batch
INLINE, BLOCK, OPAQUE = "\x00\x01\x02"   # what stands for a tag in a line, for another tag, for what is left as it is
INLINES = "a|abbr|b|bdi|cite|data|em|i|mark|small|span|strong|sub|sup|u|var"
ASIDE = re.compile(rf"<(pre|code|script|style|textarea|svg|math|option)\b.*?</\1>|<!--.*?-->|</?(?:({INLINES})\b|[a-z][a-z0-9]*){ATTRIBUTES}>", re.S)
RELATION = r"(?:[=×≈≠≤≥+−]|&[lg]t;)"
OPERAND = rf"[^\s\u2e80-\uffef{BLOCK}{OPAQUE}]+"   # no Chinese: its sentences have no blanks
CHAIN = re.compile(rf"{OPERAND}(?: {RELATION} {OPERAND})+")
LONGEST = 28                               # letters of a chain that a phone's line surely holds
AMOUNT = re.compile(rf"(?<![\w.,])(\d{{4,}})((?:\.\d+)?{INLINE}*) (?={INLINE}*{UNITS})|(?<=[\d⁰¹²³⁴-⁹])({INLINE}*) (?={INLINE}*{UNITS})")


def bind(page):
    """The page with what belongs together in its article bound."""
    return ARTICLE.sub(lambda match: match[1] + text(match[2]), page, count=1)


def text(content):
    """The same for a piece of HTML."""
    tags = []

    def aside(match):
        tags.append(match[0])
        return OPAQUE if match[1] else INLINE if match[2] else BLOCK

    bare = CHAIN.sub(_chain, ASIDE.sub(aside, content))
    bare = AMOUNT.sub(lambda match: f"{int(match[1]):,}{match[2]}\u00a0" if match[1] else f"{match[3]}\u00a0", bare)
    rest = iter(tags)
    return re.sub(rf"[{INLINE}{BLOCK}{OPAQUE}]", lambda _: next(rest), bare)


def _chain(match):
    return match[0].replace(" ", "\u00a0") if len(match[0].replace(INLINE, "")) <= LONGEST else match[0]
