"""The calculator: formulas.js is the labs' Python to the byte, and the page shows what it says."""
import json
import random
import re
import urllib.parse

import bundle
import pytest
from core import calculator, results
from core.errors import PageError
from core.measured import short_kernel
from support import LANGUAGES, TOP, WORDS, bundled, measured, said, violations
from test_arithmetic import H200, RTX_4090

roofline, decode, memory, traffic = map(bundled, ("attention_roofline", "decode_attention", "flash_vs_naive_memory", "hbm_traffic"))
FORMULAS = TOP / "docs/theme/js/formulas.js"
SEED, COUNT = 2026, 10_000
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# formulas.js against the Python that the labs ran, in a browser.


def random_shapes(count=COUNT, seed=SEED):
    """Shapes as dicts: a third small, where the kernel splits; a third of real size; a third far beyond 2^53 bytes."""
    rng = random.Random(seed)
    for i in range(count):
        kind = i % 3
        group, kv_heads = rng.choice((1, 1, 2, 4, 7, 8, rng.randint(1, 80))), rng.choice((1, 2, 4, 8, rng.randint(1, 40)))
        shape = {
            "B": (rng.randint(1, 2), rng.randint(1, 64), 2 ** rng.randint(0, 20) + rng.randint(0, 9))[kind],
            "heads": group * kv_heads, "kv_heads": kv_heads,
            "S": (rng.randint(1, 3000), rng.choice((2 ** rng.randint(8, 20), rng.randint(1, 2**20))), rng.randint(2**20, 2**60))[kind],
            "d": rng.choice((64, 80, 96, 128, 256)) if rng.random() < 0.4 else rng.randint(1, 256),
            "e": rng.choice((1, 2, 2, 2, 4)), "sms": rng.choice((58, 108, 128, 132, 148, rng.randint(1, 300))), "causal": rng.random() < 0.5,
            "limit": rng.choice((0, rng.randint(0, 10**6), rng.randint(1, 200) * 2**30, rng.randint(2**53, 2**70))),
            "blocks": rng.randint(1, 400), "tiles": rng.randint(1, 5000), "a": rng.randint(0, 2 ** rng.randint(1, 200)), "b": rng.randint(1, 2 ** rng.randint(1, 100)),
            "ms": rng.choice((None, 10 ** rng.uniform(-4, 6))),
            "ceilings": {"copy_gbps": rng.uniform(50, 9000), "matmul_tflops": rng.uniform(10, 3000)},
        }
        if i % 8 == 0:                                     # a limit that is met exactly
            shape["limit"] = memory.naive_bytes(*(shape[name] for name in ("B", "heads", "kv_heads", "S", "d", "e", "causal")))
        yield shape


def said_by_python(B, heads, kv_heads, S, d, e, sms, causal, limit, blocks, tiles, a, b, ms, ceilings):
    """{name of formulas.js: what the labs' functions give}, one entry an export or an option of one."""
    d8 = memory.round_up(d, 8)
    flops, moved = roofline.attention_flops(B, heads, S, d, causal), roofline.naive_traffic(B, heads, S, d, e, causal)
    assert traffic.floor_bytes(B, heads, S, d, e) == roofline.floor_bytes(B, heads, S, d, e)
    return {
        "naiveMoments": memory.naive_moments(B, heads, kv_heads, S, d, e, causal), "naiveBytes": memory.naive_bytes(B, heads, kv_heads, S, d, e, causal),
        "flashBytes": memory.flash_bytes(B, heads, kv_heads, S, d, e, sms), "kvSplits": memory.kv_splits(B, heads, S, d8, sms),
        "largestS": [memory.largest_S(limit, lambda S: memory.naive_bytes(B, heads, kv_heads, S, d, e, causal)),
                     memory.largest_S(limit, lambda S: memory.flash_bytes(B, heads, kv_heads, S, d, e, sms))],
        "roundUp": d8, "fp32": memory.fp32(S / sms), "quotient": a / b,
        "attentionFlops": flops, "floorBytes": roofline.floor_bytes(B, heads, S, d, e), "naiveTraffic": moved,
        "stepWork": roofline.step_work(B, heads, S, d, e, causal),
        "dramModel": [traffic.dram_model(step, B, heads, S, d, e) for step in ("scores", "scale", "mask", "softmax", "output", "flash", "cudnn")],
        "kvBytes": decode.kv_bytes(B, kv_heads, S, d, e), "kvParts": decode.kv_parts(blocks, tiles, sms), "decodeParts": decode.decode_parts(B, heads, kv_heads, S, sms),
        "addedBytes": [decode.added_bytes(impl, B, heads, kv_heads, S, 128, e, sms) for impl in ("repeat", "grouped", "flash", "single", "default")],
        "underTheRoof": roofline.under_the_roof(flops, moved, ms, ceilings), "ridge": roofline.ridge(ceilings),
    }


IN_THE_PAGE = """async ([address, shapes]) => {
  const f = await import(address);
  const one = (shape, i) => {
    const { causal, ms, ceilings, ...counts } = shape;
    const take = (text) => (i % 2 && Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text));   // both kinds go in
    const { B, heads, kv_heads, S, d, e, sms, limit, blocks, tiles, a, b } = Object.fromEntries(Object.entries(counts).map(([name, text]) => [name, take(text)]));
    const d8 = f.roundUp(d, 8), flops = f.attentionFlops(B, heads, S, d, causal), moved = f.naiveTraffic(B, heads, S, d, e, causal);
    return {
      naiveMoments: f.naiveMoments(B, heads, kv_heads, S, d, e, causal), naiveBytes: f.naiveBytes(B, heads, kv_heads, S, d, e, causal),
      flashBytes: f.flashBytes(B, heads, kv_heads, S, d, e, sms), kvSplits: f.kvSplits(B, heads, S, d8, sms),
      largestS: [f.largestS(limit, (S) => f.naiveBytes(B, heads, kv_heads, S, d, e, causal)), f.largestS(limit, (S) => f.flashBytes(B, heads, kv_heads, S, d, e, sms))],
      roundUp: d8, fp32: f.fp32(Number(S) / Number(sms)), quotient: f.quotient(a, b),
      attentionFlops: flops, floorBytes: f.floorBytes(B, heads, S, d, e), naiveTraffic: moved, stepWork: f.stepWork(B, heads, S, d, e, causal),
      dramModel: ["scores", "scale", "mask", "softmax", "output", "flash", "cudnn"].map((step) => f.dramModel(step, B, heads, S, d, e)),
      kvBytes: f.kvBytes(B, kv_heads, S, d, e), kvParts: f.kvParts(blocks, tiles, sms), decodeParts: f.decodeParts(B, heads, kv_heads, S, sms),
      addedBytes: ["repeat", "grouped", "flash", "single", "default"].map((impl) => f.addedBytes(impl, B, heads, kv_heads, S, 128, e, sms)),
      underTheRoof: f.underTheRoof(flops, moved, ms, ceilings), ridge: f.ridge(ceilings),
    };
  };
  return { exports: Object.keys(f), found: JSON.stringify(JSON.parse(shapes).map(one), (_, value) => (typeof value === "bigint" ? `${value}n` : value)) };
}"""


def as_json(value):
    """Integers as text with an n, as the page sends its BigInt: 1 and 1.0 are not the same."""
    if isinstance(value, dict):
        return {name: as_json(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(inner) for inner in value]
    return f"{value}n" if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.fixture(scope="module")
def expected():
    return [as_json(said_by_python(**shape)) for shape in random_shapes()]


def said_by_page(chromium, served, text=None, count=COUNT):
    """(exports, what formulas.js, or the changed `text` in its place, says of the first `count` shapes)."""
    shapes = list(random_shapes())[:count]
    sent = json.dumps([{name: str(value) if isinstance(value, int) and not isinstance(value, bool) else value for name, value in shape.items()} for shape in shapes])
    browser = chromium.new_context()
    page = browser.new_page()
    if text is not None:
        page.route("**/formulas.js", lambda route: route.fulfill(body=text, content_type="text/javascript"))
    page.goto(served + "en/glossary/")
    answer = page.evaluate(IN_THE_PAGE, [served + "en/js/formulas.js", sent])
    browser.close()
    return answer["exports"], json.loads(answer["found"], parse_int=float)


def test_formulas_of_the_page_are_the_labs_on_ten_thousand_shapes(chromium, served, expected):
    exports, found = said_by_page(chromium, served)
    assert set(exports) == set(expected[0]), "every export is compared"
    assert len(found) == COUNT
    for shape, ours, theirs in zip(random_shapes(), expected, found):
        assert theirs == ours, shape


def test_the_random_shapes_reach_what_they_must(expected):
    shapes = list(random_shapes())
    beyond = [int(said["naiveBytes"][:-1]) > 2**53 for said in expected]
    assert sum(beyond) > COUNT / 4 and sum(int(said["kvSplits"][:-1]) > 1 for said in expected) > COUNT / 20
    assert sum(shape["d"] % 8 != 0 for shape in shapes) > COUNT / 4 and sum(shape["heads"] > shape["kv_heads"] for shape in shapes) > COUNT / 4
    assert sum(shape["causal"] for shape in shapes) > COUNT / 4 and sum(int(said["decodeParts"][:-1]) > 1 for said in expected) > COUNT / 20
    assert {said["underTheRoof"]["bound"] for said in expected} == {"compute", "memory"} and sum(shape["ms"] is None for shape in shapes) > COUNT / 4


MUTANTS = [
    ("const mask = causal ? S * S : 0n", "const mask = causal ? S * S * e : 0n", {"naiveMoments", "naiveBytes", "largestS"}),
    ("const lse = 4n * B", "const lse = 2n * B", {"flashBytes", "largestS"}),
    ("const rng = 24n", "const rng = 16n", {"flashBytes", "largestS"}),
    ("d8 <= 128n ? 32n : 64n", "32n", {"flashBytes", "largestS"}),
    ("d8 > d ?", "false ?", {"flashBytes", "largestS"}),
    ("fp32(fp32(0.8) * Number(slots))", "0.75 * Number(slots)", {"kvSplits", "kvParts", "flashBytes", "decodeParts", "addedBytes"}),
    ("full >= 0.85 * best", "full >= 0.95 * best", {"kvSplits", "kvParts", "flashBytes", "decodeParts", "addedBytes"}),
    ("fp32(waves / Math.ceil(waves))", "fp32(waves / Math.floor(waves + 1))", {"kvParts"}),
    ("return Math.fround(Number(x))", "return Number(x)", {"fp32"}),
    ("if (size(middle) <= limit)", "if (size(middle) < limit)", {"largestS"}),
    ("(causal ? 2n : 4n)", "4n", {"attentionFlops", "underTheRoof"}),
    ("(3n * S * S) / 2n", "S * S", {"naiveTraffic", "underTheRoof"}),
    ("const intensity = quotient(flops, moved)", "const intensity = Number(flops) / Number(moved)", {"underTheRoof"}),
    ("/ 2 ** Number(more)", "/ 2 ** Number(more - 1n)", {"quotient", "underTheRoof"}),
    ("sticky = scaled % b ? 1n : 0n", "sticky = 0n", {"quotient"}),
    ("ceil(heads / kvHeads, 64n)", "1n", {"decodeParts", "addedBytes"}),
    ("return 2n * B * kvHeads * S * d * e;", "return BigInt(2 * Number(B) * Number(kvHeads) * Number(S) * Number(d) * Number(e));", {"kvBytes"}),
]


@pytest.mark.parametrize("old, new, caught", MUTANTS, ids=[new[:40] for _, new, _ in MUTANTS])
def test_a_changed_formula_is_caught(chromium, served, expected, old, new, caught):
    text = FORMULAS.read_text("utf-8")
    assert text.count(old) == 1
    _, found = said_by_page(chromium, served, text.replace(old, new), 2000)
    differ = {name for ours, theirs in zip(expected, found) for name in ours if ours[name] != theirs[name]}
    assert differ and differ >= caught


REFUSED = [
    ("naiveBytes", "1, 28, 28, 0, 128", "S must be at least 1, got 0."),
    ("naiveBytes", "1, 28, 28, -4, 128", "S must be at least 1, got -4."),
    ("naiveBytes", "1, 28, 28, 4096.5, 128", "S must be a whole number (beyond 2^53: a BigInt), got 4096.5."),
    ("naiveBytes", "1, 28, 28, 2 ** 53, 128", "S must be a whole number (beyond 2^53: a BigInt), got 9007199254740992."),
    ("naiveBytes", "1, 28, 28, '4096', 128", 'S must be a whole number (beyond 2^53: a BigInt), got "4096".'),
    ("naiveBytes", "1, 28, 28, undefined, 128", "S must be a whole number (beyond 2^53: a BigInt), got undefined."),
    ("naiveBytes", "1, 28, 28, NaN, 128", "S must be a whole number (beyond 2^53: a BigInt), got NaN."),
    ("flashBytes", "1, 28, 5, 4096, 128", "heads must be a multiple of kvHeads (5), got 28."),
    ("flashBytes", "1, 4, 8, 4096, 128", "heads must be a multiple of kvHeads (8), got 4."),
    ("flashBytes", "1, 28, 28, 4096, 257", "d must be at most 256: the flash kernel takes no larger head dimension, got 264."),
    ("flashBytes", "1, 28, 28, 4096, 128, 2, 0", "sms must be at least 1, got 0."),
    ("naiveTraffic", "1, 28, 4096, 128, 2, 'yes'", 'causal must be true or false, got "yes".'),
    ("dramModel", "'sleep', 1, 28, 4096, 128", 'step must be one of scores, scale, mask, softmax, output, flash, cudnn, got "sleep".'),
    ("addedBytes", "'flash', 1, 28, 4, 4096, 64", "d must be 128: the parts of decode are known there, got 64."),
    ("addedBytes", "'fast', 1, 28, 4, 4096, 128", 'impl must be one of repeat, grouped, flash, single, default, got "fast".'),
    ("largestS", "-1, (S) => S", "limit must be at least 0, got -1."),
    ("ridge", "{ copy_gbps: 0, matmul_tflops: 989 }", "copy_gbps must be a number above 0, got 0."),
    ("underTheRoof", "1, 1, 0, { copy_gbps: 1, matmul_tflops: 1 }", "ms must be a number above 0, got 0."),
]


def test_what_is_outside_the_domain_is_refused_in_words(chromium, served):
    browser = chromium.new_context()
    page = browser.new_page()
    page.goto(served + "en/glossary/")
    for name, arguments, message in REFUSED:
        said = page.evaluate("async ([address, name]) => { const f = await import(address); try { return String(f[name](GIVEN)); } catch (error) { return `${error.name}: ${error.message}`; } }".replace("GIVEN", arguments),
                             [served + "en/js/formulas.js", name])
        assert said == f"RangeError: {message}", (name, arguments)
    browser.close()


# What the build gives the page.


RESULTS = {lab: measured(lab) for lab in calculator.LABS.values()}


SHEETS = {   # sms, gib, gbps, tflops of each data sheet, a second time by hand
    "rtx-4090": (128, 24, 1008, 165.2), "l4": (58, 24, 300, 242 / 2), "a100": (108, 80, 2039, 312), "h100": (132, 80, 3350, 989), "h200": (132, 141, 4800, 989), "b200": (148, 180, 7700, 4500 / 2),
}


def test_a_card_has_every_number_and_says_where_it_stands():
    assert {card["key"]: tuple(card[name] for name in ("sms", "gib", "gbps", "tflops")) for card in calculator.CARDS} == SHEETS
    for card in calculator.CARDS:
        assert all(card[name] > 0 for name in ("sms", "gib", "gbps", "tflops"))
        assert all("NVIDIA" in text and {"RTX": "Ada", "B200": "Blackwell"}.get(word := card["name"].split()[0], word) in text for text in (WORDS[lang].calculator.cards[card["key"]].text for lang in LANGUAGES)), card["key"]
    # what the lesson quotes, and what the measured card says of itself
    assert [calculator.CARDS[0][name] for name in ("gib", "gbps", "tflops")] == [24, RTX_4090["bytes"] / 1e9, RTX_4090["flops"] / 1e12]
    h200 = calculator.CARDS[4]
    assert [h200["gbps"], h200["tflops"]] == [H200["bytes"] / 1e9, H200["flops"] / 1e12]
    assert h200["sms"] == RESULTS["attention_roofline"]["machine"]["sms"]
    assert h200["gib"] - calculator.RESERVE < RESULTS["attention_roofline"]["machine"]["memory"] / 2**30, "the reserve covers what the driver keeps"


def test_measured_ceilings_are_a_preset_only_where_there_is_a_result():
    loaded = results.load(TOP / "examples/results", TOP / "examples")
    with_result, without = calculator.cards(loaded, WORDS["en"]), calculator.cards({}, WORDS["en"])
    assert [card["key"] for card in without] == [card["key"] for card in calculator.CARDS]
    ceiling = next(card for card in with_result if card["key"] == "h200-measured")
    values = RESULTS["attention_roofline"]["values"]
    assert ceiling["gbps"] == round(values["copy_gbps"]) and ceiling["tflops"] == round(values["matmul_tflops"]) and "NVIDIA H200" in ceiling["source"]


def test_every_measured_row_of_a_shape_is_handed_over_exactly():
    found = calculator.measured(results.load(TOP / "examples/results", TOP / "examples"))["nvidia-h200"]
    rows = [row for row in RESULTS["flash_vs_naive_memory"]["rows"] if row["part"] in ("grid", "random")]
    assert len({calculator.shape_key(row) for row in rows}) == len(found["memory"])
    for row in rows:
        cells = found["memory"][calculator.shape_key(row)]
        assert cells["naive"][0] / 2**20 == row["naive_mib"] and cells["flash"][0] / 2**20 == row["flash_mib"]
        assert found["kernels"][cells["flash"][1]].endswith(short_kernel(row["kernel"].split(" + ")[-1]))
    for row in RESULTS["decode_attention"]["rows"]:
        if row["part"] == "decode":
            assert found["decode"][calculator.shape_key(row)][row["impl"]][:3] == [row["ms"], row["p10_ms"], row["p90_ms"]]
    failed = {**RESULTS["flash_vs_naive_memory"], "url": "", "stale": False, "rows": [{**rows[0], "naive_mib": None, "status": "oom"}]}
    assert calculator.measured({("x", "flash_vs_naive_memory"): failed})["x"]["memory"][calculator.shape_key(rows[0])]["naive"] is None
    with pytest.raises(PageError, match="no whole number of bytes"):
        calculator.exact(1.5)


def test_the_page_names_the_number_of_shapes_that_are_compared():
    for lang in LANGUAGES:
        assert f"{COUNT:,}" in (TOP / f"docs/{lang}/calculator.md").read_text("utf-8")


# The page.


class Calculator:
    def __init__(self, page, lang, served):
        self.page, self.lang, self.words, self.address = page, lang, WORDS[lang].calculator, served + f"{lang}/calculator/"
        self.box = page.locator(".widget-calculator")

    def open(self, query=""):
        self.page.goto(self.address + query)
        self.page.wait_for_selector(".widget-calculator form", timeout=60_000)

    def field(self, name):
        return self.box.locator(f"[id$='-{name}']")

    def wrong(self, name):
        return self.box.locator(f"[id$='-{name}-wrong']").inner_text() if self.box.locator(f"[id$='-{name}-wrong']").is_visible() else ""

    def row(self, heading, label):
        """Texts of the cells of a row of the table under the heading number `heading`."""
        table = self.box.locator("h2").nth(heading).locator("xpath=following-sibling::div[contains(@class,'scroll')][1]//table")
        rows = table.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.innerText))")
        return next((cells for name, *cells in rows if name == label), None)

    def seen(self, heading):
        """{program: cells} of the table of measured programs under the heading."""
        table = self.box.locator("h2").nth(heading).locator("xpath=following-sibling::*[position() < 5]").locator("xpath=self::div[contains(@class,'seen')]//table").first
        rows = table.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.innerText))")
        return {name: cells for name, *cells in rows}

    def formulas(self):
        """[(what is written, the number behind it)] of every formula with its numbers filled in."""
        return self.box.locator("dd:has(.filled)").evaluate_all("all => all.map(dd => [dd.querySelector('.filled').textContent, dd.querySelector('b').textContent])")

    def query(self):
        return {name: values[0] for name, values in urllib.parse.parse_qs(self.page.evaluate("location.search").removeprefix("?")).items()}


@pytest.fixture(scope="module", params=LANGUAGES)
def calculating(request, chromium, served):
    browser = chromium.new_context(reduced_motion="reduce", permissions=["clipboard-read", "clipboard-write"])
    page = browser.new_page()
    page.problems, page.asked = [], []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("request", lambda r: page.asked.append(r.url))
    yield Calculator(page, request.param, served)
    assert not page.problems and all(url.startswith((served, "data:", "blob:")) for url in page.asked), page.problems
    browser.close()


def evaluated(filled):
    """The value of a formula as the page writes it."""
    text = filled.removeprefix("= ").replace("·", "*").replace("²", "**2")
    return eval(re.sub(r"⌊(.*?)/2⌋", r"(\1)//2", text))


def test_what_opens_is_the_lessons_shape_by_the_labs_functions(calculating):
    calculating.open()
    worked = calculator.worked({f"{lab}.py": bundle.bundle(TOP / f"examples/{lab}.py") for lab in calculator.LABS.values()})
    assert "?" not in calculating.page.url, "the address stays clean until something is changed"
    cells = calculating.row(0, calculating.words.predicted.text)
    assert [f"{worked['bytes'][side]:,}" in cell for side, cell in zip(("naive", "flash"), cells)] == [True, True]
    assert calculating.row(0, calculating.words.largest.text) == [f"{worked['largest'][side]:,}" for side in ("naive", "flash")]
    assert worked["bytes"]["naive"] == memory.naive_bytes(1, 28, 28, 4096, 128) and worked["largest"]["flash"] == memory.largest_S(22 * 2**30, lambda S: memory.flash_bytes(1, 28, 28, S, 128, 2, 128))
    assert f"{worked['roof']['flash']['floor_ms']:.3f} ms" in calculating.box.locator(".summary").inner_text()


@pytest.mark.parametrize("query", ["", "?Hkv=4&causal=1", "?B=3&H=32&Hkv=8&S=200&d=100&gpu=l4", "?B=64&S=1000000000&d=256&gpu=b200&dtype=fp16&causal=1", "?S=777&d=50&dtype=fp32", "?H=7&Hkv=7&S=777&d=173&gpu=h200-measured"])
def test_formulas_as_written_give_the_numbers_behind_them(calculating, query):
    """Whoever copies a formula from the page and computes it gets the page's number, to the byte."""
    calculating.open(query)
    shape = {"B": "1", "H": "28", "Hkv": "28", "S": "4096", "d": "128", "dtype": "bf16", "causal": "0", "gpu": "rtx-4090"} | calculating.query()
    B, heads, kv_heads, S, d = (int(shape[name]) for name in ("B", "H", "Hkv", "S", "d"))
    e, causal, sms = memory.BYTES[shape["dtype"]], shape["causal"] == "1", next(card["sms"] for card in calculator.CARDS if shape["gpu"].startswith(card["key"]))
    written = calculating.formulas()
    assert len(written) == (5 if e == 4 else 7)
    numbers = [int(number.split()[1].replace(",", "")) for _, number in written]
    assert [evaluated(filled) for filled, _ in written] == numbers
    flash = [] if e == 4 else [memory.flash_bytes(B, heads, kv_heads, S, d, e, sms)]
    cache, everyone = decode.kv_bytes(B, kv_heads, S, d, e), decode.kv_bytes(B, heads, S, d, e)
    copies = cache + everyone if kv_heads < heads else 0
    floor = [] if e == 4 else [roofline.floor_bytes(B, heads, S, d, e) - everyone + cache]
    assert numbers == [memory.naive_bytes(B, heads, kv_heads, S, d, e, causal), *flash, roofline.attention_flops(B, heads, S, d, causal),
                       roofline.naive_traffic(B, heads, S, d, e, causal) + copies, *floor, roofline.attention_flops(B, heads, S, d) // S, cache]


def test_typing_changes_everything_and_the_address(calculating):
    calculating.open()
    calculating.field("S").fill("8192")
    calculating.field("Hkv").fill("4")
    calculating.field("causal").check()
    expected = memory.naive_bytes(1, 28, 4, 8192, 128, 2, True), memory.flash_bytes(1, 28, 4, 8192, 128, 2, 128)
    assert all(f"{size:,}" in cell for size, cell in zip(expected, calculating.row(0, calculating.words.predicted.text)))
    assert calculating.query() == {"B": "1", "H": "28", "Hkv": "4", "S": "8192", "d": "128", "dtype": "bf16", "gpu": "rtx-4090", "reserve": "2", "causal": "1"}
    calculating.page.wait_for_function("() => document.querySelector('.widget-calculator .announced').textContent.includes('GiB')", timeout=10_000)
    assert calculating.box.locator(".announced").get_attribute("role") == "status"
    calculating.field("S").fill("８１９２")   # as a Chinese input method writes it
    assert all(f"{size:,}" in cell for size, cell in zip(expected, calculating.row(0, calculating.words.predicted.text)))
    calculating.field("S").fill("8,192")
    assert calculating.wrong("S") == "" and f"{expected[0]:,}" in calculating.row(0, calculating.words.predicted.text)[0]


def test_presets_fill_the_card_and_a_changed_card_is_ones_own(calculating):
    calculating.open()
    for card in calculator.CARDS:
        calculating.field("gpu").select_option(card["key"])
        assert [float(calculating.field(name).input_value()) for name in ("sms", "gib", "gbps", "tflops")] == [card[name] for name in ("sms", "gib", "gbps", "tflops")]
        assert calculating.words.cards[card["key"]].text in calculating.box.locator("fieldset .hint").first.inner_text()
    bound = roofline.under_the_roof(roofline.attention_flops(1, 28, 4096, 128), roofline.floor_bytes(1, 28, 4096, 128), None, {"copy_gbps": 7700, "matmul_tflops": 2250})
    assert f"{1000 * bound['floor_ms']:.1f} µs" in calculating.box.locator(".summary").inner_text()
    calculating.field("gib").fill("7.5")
    assert calculating.field("gpu").input_value() == "own" and calculating.query()["gib"] == "7.5" and calculating.query()["sms"] == "148"
    assert calculating.row(0, calculating.words.largest.text)[0] == f"{memory.largest_S(int(5.5 * 2**30), lambda S: memory.naive_bytes(1, 28, 28, S, 128)):,}"
    calculating.field("gib").fill("2.5")
    assert calculating.words["not"].text in "".join(calculating.box.locator("tbody").first.inner_text())


def test_a_shared_address_opens_the_same_in_another_browser_and_in_the_other_language(calculating, chromium, served):
    calculating.open()
    calculating.field("S").fill("2000")
    calculating.field("gpu").select_option("a100")
    calculating.field("tflops").fill("250.5")
    calculating.field("dtype").select_option("fp16")
    calculating.box.locator(".bar button").first.click()
    calculating.page.wait_for_function("([text]) => document.querySelector('.widget-calculator .status').textContent === text", arg=[calculating.words.copied.text])
    shared = calculating.page.evaluate("navigator.clipboard.readText()")
    assert shared == calculating.page.url
    summary, numbers = calculating.box.locator(".summary").inner_text(), calculating.formulas()
    other = chromium.new_context()
    page = other.new_page()
    page.goto(shared)
    page.wait_for_selector(".widget-calculator .summary")
    assert page.locator(".widget-calculator .summary").inner_text() == summary
    assert page.locator("[id$='-tflops']").input_value() == "250.5" and page.locator("[id$='-gpu']").input_value() == "own"
    language = {"en": "zh", "zh": "en"}[calculating.lang]
    page.click(f"a[data-language={language}]")
    page.wait_for_url(f"**/{language}/calculator/?**")
    page.wait_for_selector(".widget-calculator .summary")
    assert Calculator(page, language, served).formulas() == numbers
    other.close()


def test_where_the_clipboard_is_closed_the_address_stands_there_to_be_copied(chromium, served):
    context = chromium.new_context()
    page = context.new_page()
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(served + "en/calculator/?S=512")
    page.locator(".widget-calculator .bar button").first.click()
    link = page.locator(".widget-calculator .bar input")
    link.wait_for()
    assert link.input_value() == page.url and page.evaluate("getSelection().toString()") == page.url
    context.close()


NONSENSE = [   # what is typed, and the word that answers it
    ("S", "0", "small_S"), ("S", "1", "small_S"), ("S", "-4096", "small"), ("S", "−1", "small"), ("S", "2048.5", "fraction"), ("S", "", "empty"), ("S", "many", "letters"),
    ("S", "1e5", "letters"), ("S", "9" * 30, "big_S"), ("S", "NaN", "letters"), ("Hkv", "5", "group"), ("Hkv", "56", "group"), ("d", "257", "big_d"),
    ("B", "<img src=x onerror=alert(1)>", "letters"), ("H", "20000", "big"), ("gib", "0", "small"), ("gbps", "-1", "small"), ("reserve", "24", "nothing"), ("sms", "1.5", "fraction"),
]


def test_nonsense_is_explained_typed_or_in_the_address(calculating):
    calculating.open()
    before = calculating.page.url
    for name, value, word in NONSENSE:
        field = calculating.field(name)
        kept = field.input_value()
        field.fill(value)
        assert re.fullmatch(said(calculating.words[word], text=value), calculating.wrong(name)), (name, value)
        assert field.get_attribute("aria-invalid") == "true" and calculating.wrong(name) and field.get_attribute("aria-describedby").endswith(f"-{name}-wrong")
        assert calculating.box.locator(".answers > *").count() == 0, "no number stands beside nonsense"
        assert calculating.box.locator(".wrongs").is_visible()
        calculating.box.locator(".bar button").first.click()
        assert calculating.box.locator(".status").inner_text() == calculating.words.mend.text
        field.fill(kept)
        assert calculating.wrong(name) == "" and calculating.box.locator(".summary").count() == 1
    assert before.split("?")[0] == calculating.page.url.split("?")[0]
    for name, value, word in NONSENSE:
        calculating.open("?" + urllib.parse.urlencode({"gpu": "own", "sms": 132, "gib": 24, "gbps": 1008, "tflops": 165.2} | {name: value}))
        assert re.fullmatch(said(calculating.words[word]), calculating.wrong(name)), (name, value)
    calculating.open("?gpu=potato&dtype=int4&causal=maybe&S=64&utm=x")
    notice = calculating.box.locator(".note").first.inner_text()
    assert all(word in notice for word in ("potato", "int4", "maybe", "RTX 4090")) and calculating.field("S").input_value() == "64"
    assert calculating.box.locator(".summary").count() == 1


def test_what_was_measured_stands_beside_the_prediction_as_the_json_has_it(calculating):
    for query, kv_heads, S, causal in (("?gpu=h200", 28, 4096, False), ("?gpu=h200-measured&Hkv=4&causal=1&S=16384", 4, 16384, True)):
        calculating.open(query)
        row = next(row for row in RESULTS["flash_vs_naive_memory"]["rows"] if row["part"] == "grid" and (row["kv_heads"], row["S"], row["causal"]) == (kv_heads, S, causal))
        cells = calculating.row(0, calculating.words.measured_on.text.format(gpu="NVIDIA H200"))
        for side, cell, kernel in (("naive", cells[0], row["naive_kernel"]), ("flash", cells[1], row["kernel"])):
            assert f"{int(row[f'{side}_mib'] * 2**20):,}" in cell and calculating.words.exactly.text in cell and short_kernel(kernel.split(" + ")[-1]) in cell
    calculating.open("?gpu=h200")
    seen = calculating.seen(1)
    assert set(seen) == {calculating.words.naive.text, "flash", "cudnn"}
    for row in RESULTS["attention_roofline"]["rows"]:
        if row["part"] == "grid" and (row["S"], row["causal"]) == (4096, False):
            ms, over, moved, kernel = seen[calculating.words.naive.text if row["impl"] == "naive" else row["impl"]]
            assert [float(x) for x in re.findall(r"[\d.]+", ms)] == [float(f"{row[name]:.4g}") for name in ("ms", "p10_ms", "p90_ms")]
            assert short_kernel(row["kernel"].split(" + ")[-1]) in kernel
            counted = next(r for r in RESULTS["hbm_traffic"]["rows"] if r["part"] == "total" and r["impl"] == row["impl"] and (r["S"], r["causal"]) == (4096, False))
            size = counted["read_bytes"] + counted["write_bytes"]
            assert moved == (f"{size / 1e9:.4g} GB" if size >= 1e9 else f"{size / 1e6:.4g} MB")
    calculating.open("?gpu=h200&Hkv=4&B=16&S=131072")
    seen = calculating.seen(2)
    rows = {row["impl"]: row for row in RESULTS["decode_attention"]["rows"] if row["part"] == "decode" and (row["B"], row["S"]) == (16, 131072)}
    assert set(seen) == set(rows)
    for impl, row in rows.items():
        assert float(re.match(r"[\d.]+", seen[impl][0])[0]) == float(f"{row['ms']:.4g}")
        bound = 1000 * row["kv_mib"] * 2**20 / 4800e9
        assert float(seen[impl][1]) == float(f"{row['ms'] / bound:.4g}")


def test_what_was_not_measured_says_so_and_leads_to_what_was(calculating):
    calculating.open("?S=5000&gpu=h200")
    assert calculating.row(0, calculating.words.measured_on.text.format(gpu="NVIDIA H200")) is None and calculating.row(0, calculating.words.predicted.text)
    assert calculating.box.locator(".provenance").count() == 0 and calculating.box.locator(".unmeasured").count() == 3
    calculating.open()   # on an RTX 4090, which nobody measured
    assert calculating.box.locator(".provenance").count() == 0
    calculating.box.locator(".unmeasured button").first.click()
    assert calculating.field("gpu").input_value() == "h200" and calculating.row(0, calculating.words.measured_on.text.format(gpu="NVIDIA H200"))
    link = calculating.box.locator(".provenance a").first.get_attribute("href")
    answer = calculating.page.request.get(urllib.parse.urljoin(calculating.page.url, link))
    assert answer.json()["rows"] == RESULTS["flash_vs_naive_memory"]["rows"]


def test_it_works_by_keyboard(calculating):
    calculating.open()
    calculating.field("B").focus()
    order = []
    for _ in range(14):
        order.append(calculating.page.evaluate("document.activeElement.id.split('-').at(-1) || document.activeElement.textContent"))
        calculating.page.keyboard.press("Tab")
    assert order[:13] == ["B", "H", "Hkv", "S", "d", "dtype", "causal", "gpu", "sms", "gib", "gbps", "tflops", "reserve"]
    calculating.field("causal").focus()
    calculating.page.keyboard.press("Space")
    assert calculating.query()["causal"] == "1"
    calculating.field("S").press("Enter")   # sends nothing anywhere
    assert calculating.box.locator(".summary").count() == 1


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("query", ["?gpu=h200", "?Hkv=4&B=16&S=131072&gpu=h200", "?S=0&d=999&gpu=potato", "?dtype=fp32&S=100000000&B=1000"])
def test_axe_finds_nothing_and_a_phone_holds_it(calculating, query, width):
    calculating.page.set_viewport_size({"width": width, "height": 800})
    calculating.open(query)
    calculating.box.locator("details").evaluate_all("all => all.forEach((details) => { details.open = true; })")
    assert violations(calculating.page, ".widget-calculator") == []
    assert calculating.page.evaluate("document.documentElement.scrollWidth") <= width
    calculating.page.set_viewport_size({"width": 1280, "height": 800})


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_scripts_one_example_and_the_command_stand_there(chromium, served, lang):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served + f"{lang}/calculator/")
    page.locator(".widget-calculator .worked").scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    text = page.locator(".widget-calculator .worked").inner_text()
    limit = (24 - calculator.RESERVE) * 2**30
    for number in (memory.naive_bytes(1, 28, 28, 4096, 128), memory.flash_bytes(1, 28, 28, 4096, 128, 2, 128), memory.largest_S(limit, lambda S: memory.naive_bytes(1, 28, 28, S, 128)),
                   memory.largest_S(limit, lambda S: memory.flash_bytes(1, 28, 28, S, 128, 2, 128)), roofline.attention_flops(1, 28, 4096, 128), roofline.floor_bytes(1, 28, 4096, 128), roofline.naive_traffic(1, 28, 4096, 128), decode.kv_bytes(1, 28, 4096, 128)):
        assert f"{number:,}" in text
    assert "python flash_vs_naive_memory.py --predict --gib 24" in page.locator(".widget-calculator .command").inner_text()
    assert page.locator(".widget-calculator form").count() == 0
    context.close()
