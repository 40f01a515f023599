"""Drawings hold the texts of both languages; a page keeps its own."""
import re


def localise(svg, lang):
    """Return the SVG without the elements of other languages, on one line per element, ready to stand in a page."""
    svg = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", svg, flags=re.S)
    for other in {"en", "zh"} - {lang}:
        svg = re.sub(rf'<(text|title|desc|tspan)\b[^>]*\blang="{other}"[^>]*>.*?</\1>', "", svg, flags=re.S)
    return re.sub(r"\n\s*", "\n", svg).strip()
