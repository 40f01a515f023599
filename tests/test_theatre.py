"""The tile theatre shows what the programs do when they run: each load and store in its order, its bytes at each moment, the same picture with and without scripts."""
import json
import re
import subprocess

import io_counter
import pytest
import tiled_attention
import torch
from core import theatre
from support import LANGUAGES, TOP, WORDS, measured, violations

SHAPES = [dict(S=S, d=3, Br=Br, Bc=Bc, causal=causal, H=H, kv=kv, e=2, l2=l2)
          for S, Br, Bc in ((1, 1, 1), (12, 4, 2), (13, 5, 4), (7, 9, 20), (24, 6, 6), (16, 3, 5)) for causal in (False, True) for H, kv in ((4, 4), (6, 2)) for l2 in (False, True)]
REAL = [dict(theatre.START, S=S, Br=Br, Bc=Bc, causal=causal, kv=kv, l2=l2) for S in theatre.CHOICES["S"] for Br in (64, 128) for Bc in (64, 128) for causal in (False, True) for kv in (28, 4) for l2 in (False, True)]
COUNTED = [dict(zip(("impl", "name", "S", "causal", "dram", "sm"), row)) for row in theatre.measured({("nvidia-h200", theatre.LAB): measured(theatre.LAB)}, "nvidia-h200")]
SCRIPT = """const { trace, naive, flash } = await import("%s"); let text = ""; for await (const part of process.stdin) text += part;
console.log(JSON.stringify(JSON.parse(text).map(([p, whole]) => Object.fromEntries(["naive", "flash"].map((side) => { const t = trace(side, p); return [side, { events: whole ? t.events : [], asked: t.asked.at(-1), crossed: t.crossed.at(-1), steps: whole ? [...t.asked] : [] }]; })))));"""


@pytest.fixture(scope="module")
def traces():
    asked = [(shape, True) for shape in SHAPES] + [(shape, False) for shape in REAL]
    done = subprocess.run(["node", "--no-warnings", "--input-type=module", "-e", SCRIPT % (TOP / "docs/theme/js/theatre.js").as_uri()], input=json.dumps(asked), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# The order, against the programs as they run.

class Cell(float):
    """A number of slow memory that knows what put it there: (event that stored it or name of the input, row, column)."""

    def __new__(cls, value, of):
        made = super().__new__(cls, value)
        made.of = of
        return made


class Recorder(io_counter.Chip):
    def __init__(self):
        super().__init__(10**9)
        self.events = []

    def load(self, rows):
        self.events.append(("load", [[x.of for x in row] for row in rows]))
        return super().load(rows)

    def store(self, tile):
        self.events.append(("store", (len(tile), len(tile[0]))))
        return [[Cell(x, (len(self.events) - 1, r, c)) for c, x in enumerate(row)] for r, row in enumerate(super().store(tile))]


def addressed(events):
    """What an order of addresses would load and store, as Recorder writes it: a load finds what was last stored there."""
    memory, seen = {}, []
    for op, name, r0, r1, c0, c1 in events:
        if op == "store":
            memory |= {(name, r, c): (len(seen), r - r0, c - c0) for r in range(r0, r1) for c in range(c0, c1)}
            seen.append((op, (r1 - r0, c1 - c0)))
        else:
            seen.append((op, [[memory.get((name, r, c), (name, r, c)) for c in range(c0, c1)] for r in range(r0, r1)]))
    return seen


def inputs(S, d):
    return ([[Cell(x, (name, r, c)) for c, x in enumerate(row)] for r, row in enumerate(rows)] for name, rows in zip("qkv", io_counter.random_head(S, d)))


@pytest.mark.parametrize("side, program", [("naive", io_counter.algorithm_0), ("flash", io_counter.flash_attention)])
def test_tiles_cross_in_the_order_of_the_program_that_counts(traces, side, program):
    for shape, found in zip(SHAPES, traces):
        chip = Recorder()
        program(chip, *inputs(shape["S"], shape["d"]), shape["Br"], shape["Bc"], shape["causal"])
        events = [event for event in found[side]["events"] if event[1] != "lse"]   # which that program leaves out
        assert addressed(events) == chip.events, shape


def test_tiles_cross_in_the_order_of_tiled_attention(traces):
    for shape, found in zip(SHAPES, traces):
        S, d, H, kv = (shape[name] for name in ("S", "d", "H", "kv"))
        q, k, v = torch.randn(1, H, S, d), torch.randn(1, kv, S, d), torch.randn(1, kv, S, d)
        events, names = [], {id(q): "q", id(k): "k", id(v): "v"}

        class Watch(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                made = func(*args, **(kwargs or {}))
                if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[1], tuple):
                    op = "load" if func is torch.Tensor.__getitem__ else "store"
                    name = names.get(id(args[0])) or {4: "o", 3: "lse"}[args[0].ndim] if op == "store" or id(args[0]) in names else None
                    if name:
                        rows = range(S)[args[1][2]]
                        events.append([op, name, rows[0], rows[-1] + 1, 0, 1 if name == "lse" else d])
                return made

        with Watch():
            tiled_attention.tiled_attention(q, k, v, shape["causal"], shape["Br"], shape["Bc"])
        assert events == found["flash"]["events"], shape


# The bytes.

def test_counters_end_at_the_formulas(traces):
    for p, found in zip(SHAPES + REAL, traces):
        S, d, H, kv, e = (p[name] for name in ("S", "d", "H", "kv", "e"))
        once, square, lse = S * d * e, S * S * e, 4 * S
        loads, stores = io_counter.algorithm_0_traffic(S, d, p["Br"])
        streamed, written = io_counter.flash_traffic(S, d, p["Br"], p["Bc"], p["causal"])
        naive, flash = H * (loads + stores) * e, H * (once + written * e + lse) + kv * (streamed * e - once)
        assert (found["naive"]["asked"], found["flash"]["asked"]) == (naive, flash), p
        if p["l2"]:
            naive, flash = H * (4 * square + 2 * once) + kv * 2 * once, H * (2 * once + lse) + kv * 2 * once
        assert (found["naive"]["crossed"], found["flash"]["crossed"]) == (naive, flash), p


def test_the_shape_that_was_measured_ends_at_its_models_and_near_its_counters(traces):
    """With L2 a side moves what the lab's model of device memory says; the rows of the lab stand beside it."""
    found = dict(zip(map(json.dumps, SHAPES + REAL), traces))
    rows, counted = [row for row in measured(theatre.LAB)["rows"] if row["part"] == "kernel" and not row["causal"]], {(row["impl"], row["S"]): row for row in COUNTED if not row["causal"]}
    for S in (1024, 2048, 4096, 8192):
        p = json.dumps(dict(theatre.START, S=S, Bc=64, l2=True))
        for side, steps in (("naive", ("scores", "softmax", "output")), ("flash", ("flash",))):
            own = [row for row in rows if row["impl"] == side and row["S"] == S and row["step"] in steps]
            assert found[p][side]["crossed"] == sum(row["model_bytes"] for row in own)
            assert counted[side, S]["dram"] == sum(row["read_bytes"] + row["write_bytes"] for row in own) and counted[side, S]["sm"] == sum(row["sm_bytes"] for row in own)
            assert S < 4096 or abs(counted[side, S]["dram"] / found[p][side]["crossed"] - 1) < 0.15
    assert ("naive", 4096) in counted and ("cudnn", 4096) in counted


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_ratios_that_stand_side_by_side_follow_from_the_shape(lang):
    S, d, H = 4096, 128, 28
    floors = [(2 * H + 2 * kv) * S * d for kv in (28, 28, 4)]
    wanted = [round((trips * 2 * H * S * S + floor) / floor) for trips, floor in zip((2, 3, 2), floors)]
    text = (TOP / f"docs/{lang}/lesson.md").read_text("utf-8")
    table = text[text.index("{ #speed-up }"):text.index("{ #where-it-helps }")].split("\n|")
    assert [int(cells[1]) for row in table if (cells := row.split("|")) and len(cells) > 1 and cells[1].strip().isdigit()] == wanted


# The page.

@pytest.fixture(scope="module", params=LANGUAGES)
def stage(request, chromium, served):
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.problems = []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.goto(served + f"{request.param}/")
    page.locator(".widget-theatre .now").first.hover()   # now its script comes
    page.wait_for_function(LOADED, timeout=60_000)
    page.lang = request.param
    yield page
    assert not page.problems, page.problems
    context.close()


LOADED = "() => document.querySelector('.widget-theatre .scrub').max != 1000"


def seen(page):
    return page.locator(".widget-theatre").evaluate("box => [...box.querySelectorAll('.scene g')].map(g => g.innerHTML).concat([...box.querySelectorAll('.count, .now')].map(e => e.textContent))")


def at(page):
    return int(page.locator(".widget-theatre .scrub").input_value())


def totals(page):
    return [float(text.split()[0]) for text in page.locator(".widget-theatre .count").all_inner_texts()]


def test_it_opens_as_the_picture_that_stands_there_without_scripts(stage, chromium, served):
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(served + f"{stage.lang}/")
    still = page.content()
    scenes = [re.findall(r'<svg class="scene".*?<g>(.*?)</g>', text, re.S) for text in (still, stage.content())]
    assert len(scenes[0]) == 2 and scenes[0] == scenes[1], "the page would jump when its script comes"
    plain = lambda text: text.replace("&nbsp;", " ").replace("\N{NO-BREAK SPACE}", " ")  # noqa: E731  the build binds a number and its unit
    assert all(plain(text) in plain(still) for text in seen(stage)[2:4]) and page.locator(".widget-theatre .scene").first.is_visible()
    assert not page.locator(".widget-theatre .play").is_visible(), "a button that does nothing"
    context.close()


def test_what_is_pressed_before_its_script_has_come_is_done_then(chromium, served):
    page = chromium.new_page()
    page.goto(served + "en/")
    page.locator(".widget-theatre .scrub").evaluate("(scrub) => scrub.focus()")
    page.locator(".widget-theatre [name=l2]").evaluate("(box) => box.click()")
    page.wait_for_function(LOADED, timeout=60_000)
    page.wait_for_function("() => !document.querySelector('.widget-theatre .scene .l2')", timeout=10_000)
    assert not page.locator(".widget-theatre [name=l2]").is_checked()
    page.close()


def test_steps_scrubs_and_ends_by_keyboard_and_mouse(stage):
    box, scrub = stage.locator(".widget-theatre"), stage.locator(".widget-theatre .scrub")
    box.locator("[name=l2]").uncheck()
    scrub.press("Home")
    assert at(stage) == 0 and totals(stage) == [0, 0] and box.locator(".back").is_disabled()
    scrub.press("ArrowRight")
    assert at(stage) == 1
    before = seen(stage)
    box.locator(".forward").click()
    assert at(stage) == 2 and seen(stage) != before
    box.locator(".back").click()
    assert at(stage) == 1 and seen(stage) == before
    place = scrub.bounding_box()
    stage.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    assert 0.3 < at(stage) / int(scrub.get_attribute("max")) < 0.7
    assert box.locator(".naive .scene .tile.s").count() and not box.locator(".flash .scene .square").count(), "the square of flash never exists"
    scrub.press("End")
    assert totals(stage) == [5.70, 1.94] and box.locator(".forward").is_disabled() and set(box.locator(".now").all_inner_texts()) == {WORDS[stage.lang].theatre.over.text}


def test_l2_and_the_sliders_change_what_crosses(stage):
    box = stage.locator(".widget-theatre")
    box.locator("details").evaluate("details => { details.open = true }")
    box.locator(".scrub").press("End")
    box.locator("[name=l2]").check()
    assert totals(stage) == [3.88, 118] and box.locator(".scene .l2").count() == 2
    counters = " ".join(box.locator(".counted").all_inner_texts())
    for row in COUNTED:
        if row["S"] == 4096 and not row["causal"]:
            assert (f"{row['dram'] / 1e9:.2f} GB" if row["dram"] >= 1e9 else f"{row['dram'] / 1e6:.0f} MB") in counters, (row, counters)
    box.locator("[name=kv]").press("End")
    assert totals(stage) == [3.82, 61] and not "".join(box.locator(".counted").all_inner_texts()).strip(), "nobody counted that"
    box.locator("[name=kv]").press("Home")
    box.locator("[name=l2]").uncheck()
    box.locator("[name=causal]").check()
    assert totals(stage) == [5.70, 1.03]
    box.locator("[name=causal]").uncheck()
    box.locator("[name=S]").press("ArrowLeft")
    assert totals(stage) == [1.44, 499]
    box.locator("[name=S]").press("ArrowRight")


def test_plays_and_pauses_and_shows_steps_to_who_wants_less_motion(stage):
    box, play = stage.locator(".widget-theatre"), stage.locator(".widget-theatre .play")
    for motion in ("no-preference", "reduce"):
        stage.emulate_media(reduced_motion=motion)
        box.locator(".scrub").press("Home")
        play.click()
        stage.wait_for_function("() => document.querySelector('.widget-theatre .scrub').value > 1", timeout=20_000)
        play.click()
        there = seen(stage)
        stage.wait_for_timeout(800)
        assert seen(stage) == there and play.inner_text() == WORDS[stage.lang].theatre.play.text
    whole = stage.locator(".widget-theatre .scrub").input_value()
    assert all(text in box.locator(".announced").inner_text() for text in box.locator(".now").all_inner_texts()), "told when it pauses"
    assert totals(stage) != [0, 0] and float(whole) > 100, "a step of who wants less motion is a large one"


@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_and_a_phone_holds_it(stage, width):
    stage.set_viewport_size({"width": width, "height": 844})
    stage.locator(".widget-theatre details").evaluate("details => { details.open = true }")
    stage.locator(".widget-theatre [name=l2]").check()
    assert violations(stage, ".widget-theatre") == []
    assert stage.evaluate("document.documentElement.scrollWidth") <= width
