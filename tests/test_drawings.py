"""The hand-made drawings: filled in each language, two colour schemes, legible on a phone, no text beyond its box, nothing from outside."""

import base64
import re
import xml.etree.ElementTree as ET

import pytest
from core import drawings
from support import LANGUAGES, TOP, WORDS

THEME = TOP / "docs" / "theme"
DRAWINGS = sorted((THEME / "drawings").glob("*.svg"))
FIGURES_CSS = THEME / "css" / "figures.css"
SVG = "{http://www.w3.org/2000/svg}"
PAGE = {"default": "#ffffff", "slate": "#1e2129"}  # Material's page backgrounds
PHONE_PX, LEAST_PX = 358, 11  # the text column of a 390 px phone, which is also the half of a desktop's, and the smallest text allowed there
PAINT = {"fill", "stroke", "color", "stop-color", "flood-color"}
VARIABLE = re.compile(r"var\(--fig-([a-z]+), (CanvasText|Canvas|currentColor|transparent)\)")

drawing = pytest.mark.parametrize("path", DRAWINGS, ids=lambda p: p.stem)
language = pytest.mark.parametrize("lang", LANGUAGES)


def filled(path, lang):
    return drawings.fill(path.read_text("utf-8"), WORDS[lang].drawings[path.stem])


def parse(path, lang="en"):
    return ET.fromstring(filled(path, lang))


def name(element):
    return element.tag.removeprefix(SVG)


def schemes():
    css = FIGURES_CSS.read_text(encoding="utf-8")
    blocks = re.findall(r'\[data-md-color-scheme="(\w+)"\] \{(.*?)\}', css, re.S)
    return {scheme: dict(re.findall(r"--fig-([a-z]+): (#[0-9a-f]{6});", body)) for scheme, body in blocks}


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def test_the_drawings_are_there():
    assert {"tiling", "merge"} <= {p.stem for p in DRAWINGS}


@drawing
def test_a_drawing_holds_keys_and_no_words(path):
    root = ET.fromstring(path.read_text("utf-8"))
    assert root.find(f"{SVG}title").text == "{{title}}" and root.find(f"{SVG}desc").text == "{{desc}}" and not [e for e in root.iter() if "lang" in e.attrib]
    for text in root.iter(f"{SVG}text"):
        if "monospace" in text.get("font-family", ""):     # code
            continue
        upright = [text.text or ""]  # formulas are italic tspans
        for span in text:
            upright += ["" if span.get("font-style") == "italic" else "".join(span.itertext()), span.tail or ""]
        words = set(re.findall(r"[A-Za-z]{3,}|[\u4e00-\u9fff]", re.sub(r"\{\{[\w-]+\}\}", "", " ".join(upright))))
        assert words <= {"kernel", "softmax", "max", "LSE", "GPU"}, f"{words} belongs into docs/words, under drawings: {path.stem}:"


@drawing
@language
def test_every_key_is_filled_in_and_letters_are_set_as_letters(path, lang):
    assert not re.search(r"[{}$]", filled(path, lang))


def test_a_letter_may_have_an_index():
    made = drawings.fill("<text>{{a}} {{b}}</text>", {"a": "the $S_kv$ grid", "b": "$ℓ$"})
    assert re.sub(r"<[^>]*>|&#8203;", "", made) == "the Skv grid ℓ" and made.count("<tspan") == 4 and 'font-style="italic" font-weight="400" font-size="1.15em">S</tspan>' in made


BEYOND = """() => {
  const svg = document.querySelector("svg"), whole = svg.viewBox.baseVal, found = [];
  const inside = (box, other) => box.x >= other.x - 1 && box.x + box.width <= other.x + other.width + 1;
  const texts = [...svg.querySelectorAll("text")].map((text) => ({ said: text.textContent, box: text.getBBox() }));
  const rects = [...svg.querySelectorAll("rect")].map((rect) => rect.getBBox());
  for (const { said, box } of texts) {
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const around = rects.filter((r) => x > r.x && x < r.x + r.width && y > r.y && y < r.y + r.height).sort((a, b) => a.width * a.height - b.width * b.height)[0];
    if (!inside(box, whole) || box.y < whole.y - 1 || box.y + box.height > whole.y + whole.height + 1) found.push(`beyond the drawing: ${said}`);
    else if (around && !inside(box, around)) found.push(`beyond its box: ${said}`);
  }
  for (const [i, a] of texts.entries()) for (const b of texts.slice(i + 1)) {
    const wide = Math.min(a.box.x + a.box.width, b.box.x + b.box.width) - Math.max(a.box.x, b.box.x), high = Math.min(a.box.y + a.box.height, b.box.y + b.box.height) - Math.max(a.box.y, b.box.y);
    if (wide > 1 && high > a.box.height / 2) found.push(`over each other: ${a.said} / ${b.said}`);
  }
  return found;
}"""


def test_no_text_is_wider_than_its_place(chromium):
    """In the browser's own measure; a text may be worded anew as long as it has room."""
    page, found = chromium.new_page(viewport={"width": 440, "height": 900}), []
    fonts = {"KaTeX_Main": "KaTeX_Main-Regular", "KaTeX_Math": "KaTeX_Math-Italic"}
    data = {name: base64.b64encode((TOP / f"node_modules/katex/dist/fonts/{file}.woff2").read_bytes()).decode() for name, file in fonts.items()}
    style = "".join(f"@font-face {{ font-family: {name}; src: url(data:font/woff2;base64,{font}); }}" for name, font in data.items())
    for path in DRAWINGS:
        for lang in LANGUAGES:
            for one in re.findall(r"<svg.*?</svg>", drawings.panels(filled(path, lang)), re.S):
                page.set_content(f'<style>{style}</style><body style="margin: 0; font-family: sans-serif">{one}')
                page.evaluate("document.fonts.ready")
                found.extend(f"docs/words/{lang}.yml, drawings: {path.stem}: {line}" for line in page.evaluate(BEYOND))
    page.close()
    assert not found, "\n".join(found)


@drawing
def test_the_panels_of_a_drawing_are_the_drawing(path):
    """Each an SVG as wide as the whole, all its parts in one of them; the name and the description once, and nobody hears the others."""
    svg = filled(path, "en")
    shown = [ET.fromstring(one) for one in re.findall(r"<svg.*?</svg>", drawings.panels(svg), re.S)]
    count = lambda roots: sum(name(e) in {"text", "rect", "path", "circle"} for root in roots for e in root.iter())
    assert count(shown) == count([ET.fromstring(svg)]) and len(shown) == max(1, svg.count("data-panel"))
    boxes = [[float(part) for part in root.get("viewBox").split()] for root in shown]
    assert all(x == 0 and width == 440 for x, _, width, _ in boxes) and all(top >= above + high for (_, above, _, high), (_, top, _, _) in zip(boxes, boxes[1:]))
    assert [root.get("role") for root in shown] == ["img", *[None] * (len(shown) - 1)] and all(root.get("aria-hidden") == "true" and root.find(f"{SVG}title") is None for root in shown[1:])


@drawing
@language
def test_the_sides_of_a_tile_have_one_name(path, lang):
    """B with an index, as in the formulas; Br and Bc are code and what a screen reader says."""
    for text in parse(path, lang).iter(f"{SVG}text"):
        upright = "".join(part for part in [text.text or "", *["".join(span.itertext()) if span.get("font-style") != "italic" else "," for span in text], *[span.tail or "" for span in text]])
        assert not re.search(r"\bB[rc]\b", upright) and not any(span.text in ("Br", "Bc") for span in text.iter(f"{SVG}tspan")), "write $B_r$ in docs/words"


def test_the_bars_of_bytes_are_to_scale():
    """Naive moves 1 + S / d times the bytes of flash and holds 1 + S / 2d times its memory, at S = 4096 and d = 128."""
    for panel, times in zip(parse(THEME / "drawings/bytes.svg").findall(f"{SVG}g"), (1 + 4096 / 128, 1 + 4096 / 256)):
        *naive, flash = [float(bar.get("width")) for bar in panel.iter(f"{SVG}rect")]
        assert abs(sum(naive) / flash - times) < 0.01


@drawing
def test_chinese_punctuation_and_spacing(path):
    for element in parse(path, "zh").iter():
        if name(element) not in {"text", "title", "desc"}:
            continue
        text = "".join(element.itertext()).replace("\u200b", "")
        han = r"[\u4e00-\u9fff]"
        assert not re.search(rf"{han}[,;:?!]|[,;:?!]{han}", text), f"half-width punctuation: {text}"
        assert not re.search(rf"{han}[A-Za-z0-9]|[A-Za-z0-9]{han}", text), f"no space between scripts: {text}"


@drawing
def test_ids_and_accessible_name(path):
    root, stem = parse(path), path.stem
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)), "an id stands twice"
    assert all(i.startswith(f"{stem}-") for i in ids), "ids start with the drawing's name: pages hold several drawings"
    assert {f"{stem}-title", f"{stem}-desc"} <= set(ids)
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{stem}-title {stem}-desc"
    known = {e.get("id") for e in root.iter()}
    used = {i for e in root.iter() for v in e.attrib.values() for i in re.findall(r"url\(#([^)]+)\)", v)}
    assert used <= known


@drawing
def test_nothing_active_or_external(path):
    for element in parse(path).iter():
        assert name(element) not in {"script", "style", "image", "use", "a", "foreignObject", "animate", "set"}
        for attribute, value in element.attrib.items():
            assert "href" not in attribute and not attribute.startswith("on") and attribute not in {"style", "class"}
            assert "://" not in value and re.sub(r"url\(#[\w-]+\)", "", value).find("url(") < 0


@drawing
def test_colours_are_theme_variables(path):
    root, defined = parse(path), schemes()
    assert root.get("fill"), "without a fill on the root, text is black in the dark theme"
    for element in root.iter():
        for attribute in PAINT & set(element.attrib):
            value = element.get(attribute)
            if value == "none":
                continue
            match = VARIABLE.fullmatch(value)
            assert match, f"{attribute}={value!r}: use var(--fig-…, fallback)"
            assert all(match[1] in colours for colours in defined.values())


@drawing
@language
def test_scales_with_the_page_and_stays_legible_on_a_phone(path, lang):
    root = parse(path, lang)
    assert "width" not in root.attrib and "height" not in root.attrib
    width = float(root.get("viewBox").split()[2])

    def walk(element, size):
        own = element.get("font-size")
        if own:
            size = size * float(own[:-2]) if own.endswith("em") else float(own)
        if name(element) in {"text", "tspan"}:
            px = size * PHONE_PX / width
            assert px >= LEAST_PX, f"{''.join(element.itertext())!r} is {px:.1f} px on a phone"
        for child in element:
            walk(child, size)

    walk(root, 16.0)


@drawing
@language
def test_raised_and_lowered_letters_return_to_the_line(path, lang):
    for text in parse(path, lang).iter(f"{SVG}text"):
        assert sum(float(t.get("dy", 0)) for t in text.iter(f"{SVG}tspan")) == 0, "".join(text.itertext())


def test_contrast_in_both_schemes():
    found = schemes()
    assert set(found) == set(PAGE)
    assert set(found["default"]) == set(found["slate"])
    for scheme, c in found.items():
        for text in ("ink", "muted", "naive", "flash", "accent"):
            for ground in (PAGE[scheme], c["paper"], c["hbm"], c["sram"]):
                assert contrast(c[text], ground) >= 4.5, f"{scheme}: --fig-{text} on {ground}"
        for fill in ("naive", "flash", "accent"):
            assert contrast(c["paper"], c[fill]) >= 4.5, f"{scheme}: text of --fig-paper on --fig-{fill}"


@language
def test_counts_in_tiling(lang):
    n, texts = 6, WORDS[lang].drawings.tiling
    counts = {key: [int(number) for number in re.findall(r"\d+", texts[key])] for key in ("whole", "masked", "skipped")}
    assert counts == {"whole": [n * (n - 1) // 2], "masked": [n], "skipped": [n * (n - 1) // 2]}
