"""Drawings hold keys, {{rescale}}; the words stand in docs/words under drawings: <name>:, where $S_q$ is a letter of a formula with its index.

A drawing is as wide as a phone. Its groups with `data-panel="top height"` stand beside each other where there is room (css/figures.css).
"""
import re

PANEL = re.compile(r'<g data-panel="([\d.]+) ([\d.]+)">')
LETTER = re.compile(r"\$([A-Za-z]|ℓ)(?:_(\w+))?\$")


def fill(svg, texts):
    """The SVG in one language, on one line per element, ready to stand in a page. texts: the words of this drawing."""
    svg = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"\{\{([\w-]+)\}\}", lambda key: LETTER.sub(_letter, texts[key[1]]), svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def panels(svg):
    """The drawing as one SVG a panel; the first has its name and description, and what the others refer to. On a page the theme has every colour."""
    svg = re.sub(r"var\((--fig-\w+), \w+\)", r"var(\1)", svg)
    first, *rest = re.split(PANEL.pattern, svg)
    if not rest:
        return svg
    whole = re.search(r'viewBox="0 0 ([\d.]+) [\d.]+"', first)
    plain = re.sub(r'role="img" aria-labelledby="[^"]*"', 'aria-hidden="true"', first[:first.index(">") + 1])
    made = []
    for top, height, body in zip(rest[::3], rest[1::3], rest[2::3]):
        head = first if not made else plain
        made.append(head.replace(whole[0], f'viewBox="0 {top} {whole[1]} {height}"') + body[:body.rindex("</g>")] + "</svg>")
    return "".join(made)


def _letter(match):
    """A letter in the type of the site's formulas, which looks small beside the text."""
    font = "KaTeX_Main, serif" if match[1] == "ℓ" else 'KaTeX_Math, serif" font-style="italic'
    made = f'<tspan font-family="{font}" font-weight="400" font-size="1.15em">{match[1]}</tspan>'
    if match[2]:
        made += f'<tspan dy="4" font-size="14" font-family="KaTeX_Main, serif" font-weight="400">{match[2]}</tspan><tspan dy="-4">&#8203;</tspan>'
    return made
