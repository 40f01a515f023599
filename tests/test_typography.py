"""Numbers are written in one way, and what is read as one stands on one line: docs/hooks/core/typography.py puts it into every page."""
import json
import re

import pytest
from core import parts, typography
from core.policy import ATTRIBUTES
from support import LANGUAGES, TOP

SOURCES = [path for lang in LANGUAGES for path in [*sorted((TOP / "docs" / lang).glob("*.md")), TOP / f"docs/words/{lang}.yml"]] + sorted((TOP / "docs/quiz").glob("*.yml"))
HAN = re.compile("[\u4e00-\u9fff]")
LEFT = re.compile(r"<(pre|code|script|style|textarea|svg|math|option)\b.*?</\1>", re.S)


@pytest.mark.parametrize("before, after", [
    ("S = 4096, d = 128", "S_=_4096, d_=_128"),
    ("the S × S matrix, 128 × 64", "the S_×_S matrix, 128_×_64"),
    ("d &lt; 128, S ≥ 1024", "d_&lt;_128, S_≥_1024"),
    ("24 GiB, 3.5 ms, 90 %, 582 TFLOP/s", "24_GiB, 3.5_ms, 90_%, 582_TFLOP/s"),
    ("长度 S = 4096 时占 24 GiB", "长度 S_=_4096 时占 24_GiB"),
    ("<strong>24</strong> <a href='x'>GiB</a>", "<strong>24</strong>_<a href='x'>GiB</a>"),
    ('<data class="measured" value="28896.109" title="a > b">28896.109</data> MiB', '<data class="measured" value="28896.109" title="a > b">28,896.109</data>_MiB'),
    ("10<sup>6</sup> FLOPs, 2⁻⁶ %", "10<sup>6</sup>_FLOPs, 2⁻⁶_%"),
    ("1904 MiB, 4592 µs, 117440512 bytes", "1,904_MiB, 4,592_µs, 117,440,512_bytes"),
    ("S = 131072, 4096 tokens, RTX 4090, in 2026", "S_=_131072, 4096 tokens, RTX 4090, in 2026"),
    ("B = 1, H = 28", "B_=_1, H_=_28"),
    ("H = 28 B = 1", "H_=_28 B_=_1"),
])
def test_what_is_read_as_one(before, after):
    assert typography.text(before).replace("\u00a0", "_") == after
    assert typography.text(typography.text(before)) == typography.text(before)


@pytest.mark.parametrize("same", [
    "<code>S = 4096</code>", "<pre><span>4096</span> MiB</pre>", '<a title="24 GiB" href="#S = 1">x</a>', "<script>1 = 2 ms</script>", "<svg><text>24 GiB</text></svg>",
    "<p>4</p> <p>ms</p>", "5 so on", "3 people", "2 × 28 × 4096 × 4096 × 2 × 7 × 128 × 3", "a line\n= 3",
])
def test_what_stays_as_it_is(same):
    assert typography.text(same) == same


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_page_is_bound_and_the_search_index_is_not(site, lang):
    pages, bound = sorted((site / lang).rglob("index.html")), 0
    for path in pages:
        article = re.sub(rf"</?\w+{ATTRIBUTES}>", "<>", LEFT.sub("", parts.ARTICLE.search(path.read_text("utf-8"))[2]))
        loose = re.findall(r"[^<>]{,30}\d (?:[KMG]iB|GB|ms|µs|GB/s|TFLOP/s|%)(?![\w/])|[^<>]{,30}\bS (?:=|×) (?:\d|S)", article)
        assert not loose, f"{path.relative_to(site)}: {loose[:3]}"
        assert not (bare := re.findall(r"(?<![\w.,])\d{4,}(?:\.\d+)?(?:<>)*\u00a0(?:[KMG]iB|ms|µs|GB/s|bytes)\b", article)), f"{path.relative_to(site)}: {bare}"
        bound += article.count("\u00a0")
    assert len(pages) > 20 and bound > 300
    assert "\\u00a0" not in (text := (site / lang / "search/search_index.json").read_text("utf-8")) and "\u00a0" not in text
    assert any("24 GiB" in doc["text"] for doc in json.loads(text)["docs"]), "what readers type is found"


WRITTEN = [
    (re.compile(r"(?<=[\w)²])×(?=[\w(])"), "blanks belong around ×: S × S"),
    (re.compile(r"\b[A-Za-z]\w{,3} ?[=≈≤≥] ?\d{1,3},\d{3}|\d,\d{3} (?:keys?|tokens?|个 (?:key|token))\b"), "what a reader types into a program has no comma: S = 131072"),
]


def faults(line):
    """What a line of a page, of the words or of the quiz does against the one format of numbers."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$", "", re.sub(r"\{\{.*?\}\}", "0", line))
    found = [(match[0], why) for pattern, why in WRITTEN for match in pattern.finditer(plain)]
    per_cent = (r"\d %", "Chinese writes 90%") if HAN.search(plain) else (r"\d%", "English writes 90 %")
    return found + [(match[0], per_cent[1]) for match in re.finditer(per_cent[0], plain)]


@pytest.mark.parametrize("line, wrong", [
    ("the S×S matrix", "S×S"[1:2]), ("S = 131,072", "S = 131,072"), ("4,096 keys", "4,096 key"), ("about 90%", "0%"), ("约 90 %", "0 %"), ("约 {{ lab.x_pct }} %", "0 %"),
])
def test_another_format_is_seen(line, wrong):
    assert wrong in [found for found, _ in faults(line)][0]


def test_numbers_have_one_format():
    said = []
    for path in SOURCES:
        fence = False
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            mark = re.match(r"\s*(`{3,})", line)
            fence ^= bool(mark)
            said += [f"{path.relative_to(TOP)}:{number}: {found!r}: {why}" for found, why in ([] if fence or mark else faults(line))]
    assert not said, "\n".join(said)


BROKEN = r"""() => {
  for (const part of document.querySelectorAll(".part")) part.style.contentVisibility = "visible";
  for (const fold of document.querySelectorAll("article details")) fold.open = true;
  const walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT), at = [];
  let text = "";
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (node.parentElement.closest("pre, code, svg, script, style, textarea, button, .katex, .widget")) continue;
    for (let i = 0; i < node.data.length; i++) at.push([node, i]);
    text += node.data;
  }
  const where = ([node, i]) => { const range = document.createRange(); range.setStart(node, i); range.setEnd(node, i + 1); return range.getBoundingClientRect(); };
  const block = ([node]) => node.parentElement.closest("p, li, td, th, dd, summary, h1, h2, h3, figcaption, div");
  const seen = { pairs: 0, broken: [] };
  for (const match of text.matchAll(/\d\s(?:[KMG]iB|ms|µs|GB\/s|TFLOP\/s|%)(?![\w/])|[\w²]\s[=×]\s[\w]/g)) {
    const [first, last] = [at[match.index], at[match.index + match[0].length - 1]];
    if (block(first) !== block(last)) continue;
    const [a, b] = [where(first), where(last)];
    if (!a.height) continue;
    seen.pairs++;
    if (Math.abs(a.bottom - b.bottom) > 0.7 * a.height) seen.broken.push(text.slice(match.index - 20, match.index + 12));
  }
  for (const formula of document.querySelectorAll("article [data-short]")) {
    const [first, ...rest] = [...formula.querySelectorAll(".katex-html > .base")].map((base) => base.getBoundingClientRect());
    seen.pairs++;
    if (getComputedStyle(formula).whiteSpace !== "nowrap" || rest.some((base) => base.top >= first.bottom)) seen.broken.push(formula.textContent);
  }
  return seen;
}"""


@pytest.mark.parametrize("path", [f"{lang}/{name}/" for lang in LANGUAGES for name in ("lesson", "decode")])
def test_no_line_breaks_inside(chromium, served, path):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(served + path)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            seen = page.evaluate(BROKEN)
            assert seen["pairs"] > 40 and not seen["broken"], f"{path} at {width} px: {len(seen['broken'])} of {seen['pairs']}: {seen['broken'][:8]}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    finally:
        context.close()
