"""The hand-made drawings: two languages, two colour schemes, legible on a phone, nothing from outside."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

THEME = Path(__file__).parents[1] / "docs" / "theme"
DRAWINGS = sorted((THEME / "drawings").glob("*.svg"))
FIGURES_CSS = THEME / "css" / "figures.css"
SVG = "{http://www.w3.org/2000/svg}"
LANGUAGES = {"en", "zh"}
PAGE = {"default": "#ffffff", "slate": "#1e2129"}  # Material's page backgrounds
PHONE_PX, LEAST_PX = 358, 11  # the text column of a 390 px phone, and the smallest text allowed there
PAINT = {"fill", "stroke", "color", "stop-color", "flood-color"}
VARIABLE = re.compile(r"var\(--fig-([a-z]+), (CanvasText|Canvas|currentColor|transparent)\)")

drawing = pytest.mark.parametrize("path", DRAWINGS, ids=lambda p: p.stem)


def parse(path):
    return ET.parse(path).getroot()


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
    assert {"hbm-line", "tiling", "merge"} <= {p.stem for p in DRAWINGS}


@drawing
def test_both_languages(path):
    """Every translated element has its twin right behind it, at the same place."""
    root = parse(path)
    translated = [e for e in root.iter() if "lang" in e.attrib]
    assert {name(e) for e in translated} <= {"text", "title", "desc"}, "lang belongs on text, title and desc only"
    counts = Counter((name(e), e.get("lang")) for e in translated)
    assert counts["title", "en"] == counts["title", "zh"] == counts["desc", "en"] == counts["desc", "zh"] == 1
    assert len(translated) % 2 == 0
    for english, chinese in zip(translated[::2], translated[1::2]):
        assert (english.get("lang"), chinese.get("lang")) == ("en", "zh"), f"no twin: {''.join(english.itertext())}"
        assert english.attrib | {"lang": ""} == chinese.attrib | {"lang": ""}
        assert not re.search(r"[\u3000-\u9fff\uff00-\uffef]", "".join(english.itertext()))


@drawing
def test_words_without_a_language_are_the_same_in_both(path):
    for text in parse(path).iter(f"{SVG}text"):
        if "lang" in text.attrib:
            continue
        upright = [text.text or ""]  # formulas are italic tspans
        for span in text:
            upright += ["" if span.get("font-style") == "italic" else "".join(span.itertext()), span.tail or ""]
        words = set(re.findall(r"[A-Za-z]{3,}", " ".join(upright)))
        assert words <= {"kernel", "softmax", "max", "LSE"}, f"{words} needs lang=\"en\" and lang=\"zh\""


@drawing
def test_chinese_punctuation_and_spacing(path):
    for element in parse(path).iter():
        if element.get("lang") != "zh":
            continue
        text = "".join(element.itertext()).replace("\u200b", "")
        han = r"[\u4e00-\u9fff]"
        assert not re.search(rf"{han}[,;:?!]|[,;:?!]{han}", text), f"half-width punctuation: {text}"
        assert not re.search(rf"{han}[A-Za-z0-9]|[A-Za-z0-9]{han}", text), f"no space between scripts: {text}"


@drawing
def test_ids_and_accessible_name(path):
    root, stem = parse(path), path.stem
    for language in LANGUAGES:
        ids = [e.get("id") for e in root.iter() if e.get("id") and e.get("lang", language) == language]
        assert len(ids) == len(set(ids)), "an id stands twice in one language"
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
def test_scales_with_the_page_and_stays_legible_on_a_phone(path):
    root = parse(path)
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
def test_raised_and_lowered_letters_return_to_the_line(path):
    for text in parse(path).iter(f"{SVG}text"):
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


def test_bytes_and_thickness_in_hbm_line():
    """One head, bf16: the labels and the widths of the arrows follow from S and d."""
    S, d, e = 4096, 128, 2
    scores, vectors, lse = S * S * e, S * d * e, S * 4
    root = parse(THEME / "drawings" / "hbm-line.svg")
    labels = " ".join("".join(t.itertext()) for t in root.iter(f"{SVG}text"))
    floor = 4 * vectors + lse
    for value in (f"{scores / 1e6:.1f} MB", f"{vectors / 1e6:.2f} MB", f"{lse / 1e3:.0f} kB",
                  f"{(4 * scores + 4 * vectors) / 1e6:.1f} MB", f"{floor / 1e6:.1f} MB"):
        assert value in labels
    thin = {float(p.get("stroke-width")) for p in root.iter(f"{SVG}path") if p.get("marker-end")}
    thick = [re.match(r"M\d+ (\d+)H.*V(\d+)H\d+z", p.get("d")) for p in root.iter(f"{SVG}path")]
    heights = {int(m[2]) - int(m[1]) for m in thick if m and "L" in m.string}
    assert len(thin) == len(heights) == 1
    assert heights.pop() / thin.pop() == scores / vectors


def test_counts_in_tiling():
    n = 6
    labels = " ".join("".join(t.itertext()) for t in parse(THEME / "drawings" / "tiling.svg").iter(f"{SVG}text"))
    assert f"{n * (n - 1) // 2} in full" in labels and f"{n} masked" in labels and f"{n * (n - 1) // 2} skipped" in labels
