"""Drawings hold keys, {{rescale}}; the words stand in docs/words under drawings: <name>:, where $S_q$ is a letter of a formula with its index."""
import re

LETTER = re.compile(r"\$([A-Za-z]|ℓ)(?:_(\w+))?\$")


def fill(svg, texts):
    """The SVG in one language, on one line per element, ready to stand in a page. texts: the words of this drawing."""
    svg = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"\{\{([\w-]+)\}\}", lambda key: LETTER.sub(_letter, texts[key[1]]), svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _letter(match):
    """A letter in the type of the site's formulas, which looks small beside the text."""
    font = "KaTeX_Main, serif" if match[1] == "ℓ" else 'KaTeX_Math, serif" font-style="italic'
    made = f'<tspan font-family="{font}" font-weight="400" font-size="1.15em">{match[1]}</tspan>'
    if match[2]:
        made += f'<tspan dy="4" font-size="14" font-family="KaTeX_Main, serif" font-weight="400">{match[2]}</tspan><tspan dy="-4">&#8203;</tspan>'
    return made
