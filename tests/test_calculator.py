"""The calculator: formulas.js is the labs' Python to the byte, and the page shows what it says."""
import json
import random

import attention_roofline as roofline
import decode_attention as decode
import flash_vs_naive_memory as memory
import hbm_traffic as traffic
import pytest
from support import TOP

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
        said = page.evaluate("async ([address, name, given]) => { const f = await import(address); try { return String(f[name](...eval(`[${given}]`))); } catch (error) { return `${error.name}: ${error.message}`; } }",
                             [served + "en/js/formulas.js", name, arguments])
        assert said == f"RangeError: {message}", (name, arguments)
    browser.close()
