"""The stepper shows what examples/online_softmax.py computes, and nothing else: the trace, the DOM of every step, a reader's scores."""
import json
import re
import types

import online_softmax as lesson
import pytest
from core import online_trace, tex, widgets
from core.book import Book, Place
from core.errors import PageError
from core.measured import Numbers
from support import LANGUAGES, TOP, WORDS, violations

SOURCE = (TOP / "examples/online_softmax.py").read_text("utf-8")
OUTPUT = (TOP / "examples/outputs/online_softmax.txt").read_text("utf-8")
RESULT = re.findall(r"\[[\d., ]*\]", OUTPUT)[1]
PHASES = ["load", "scores", "max", "rescale", "weights", "l", "o"]
PART = {"load": ".keys", "scores": ".tile span:nth-of-type(1)", "max": ".state-m", "rescale": ".state-α", "weights": ".tile span:nth-of-type(2)", "l": ".state-ℓ", "o": ".state-O", "end": ".result"}
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# The trace.


def test_the_trace_is_the_lessons_walk_for_every_width_and_both_orders():
    for order, step in (("given", 1), ("reversed", -1)):
        K, V = lesson.K[::step], lesson.V[::step]
        data = online_trace.example(lesson)[order]
        assert data["scores"] == lesson.scores(lesson.q, K)
        assert [walk["block"] for walk in data["walks"]] == list(range(1, len(K) + 1))
        for walk in data["walks"]:
            states = list(lesson.online_steps(lesson.q, K, V, walk["block"]))
            assert [(tile["m"], tile["l"], tile["o"]) for tile in walk["tiles"]] == states
            assert [x for tile in walk["tiles"] for x in tile["s"]] == data["scores"]
            assert walk["result"] == lesson.online_attention(lesson.q, K, V, walk["block"])
            factors = [tile["rescale"] for tile in walk["tiles"][1:] if tile["m"] > tile["m_old"]]
            assert factors == lesson.rescales(lesson.q, K, V, walk["block"])
            assert all(sum(tile["p"]) == pytest.approx(tile["l_tile"]) for tile in walk["tiles"])
            S, d = len(K), len(lesson.q)
            assert walk["crossed"] == d + S * d + S * len(V[0]) + len(V[0])
            assert sum(numbers for _, numbers in walk["naive"]) == walk["crossed"] + 4 * S, "the row of scores and the row of weights, each written and read"


@pytest.mark.parametrize("old, new", [("l = rescale * l + l_tile", "l = l + l_tile"), ("rescale * old + new for", "old + new for"), ("exp(m - m_new)  ", "1.0  ")])
def test_a_program_that_walks_otherwise_is_refused(old, new):
    assert old in SOURCE
    wrong = types.ModuleType("wrong")
    exec(SOURCE.replace(old, new), wrong.__dict__)
    with pytest.raises(AssertionError, match="not the step of the lesson"):
        online_trace.example(wrong)


def test_a_readers_scores_are_taken_exactly():
    scores = [0.1, -1e4, 1 / 3, float("-inf"), 7.0]
    q, K, V = online_trace.problem(lesson, scores)
    assert lesson.scores(q, K) == scores and len(V) == 5
    for wrong in ([], [1.0] * 13, [float("nan")], [float("inf")], [1e308]):
        with pytest.raises(ValueError, match="1 to 12 scores"):
            online_trace.problem(lesson, wrong)


def numbers(text=SOURCE):
    return Numbers(Book(examples={"online_softmax.py": text}, words=WORDS), Place(root="../../"))


def test_each_line_of_code_is_found_in_the_file():
    page = widgets.render("stepper", {"file": "online_softmax.py"}, numbers())
    lines = SOURCE.splitlines()
    shown = re.findall(r'<span class="line">(\d+)</span>([^<]*)</code>', page)
    assert len(shown) == len(widgets.STEPS)
    for number, code in shown:
        assert lines[int(number) - 1].strip().startswith(code.replace("&gt;", ">")), (number, code)
    assert json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])["reversed"] == widgets.rounded(online_trace.example(lesson)["reversed"])


@pytest.mark.parametrize("old, new, complaint", [
    ("        m_new = max(m, *s)\n", "        largest = max(m, *s)\n        m_new = largest\n        m_new = m_new\n", "has 2 lines that begin with 'm_new = '"),
    ("l = rescale * l + l_tile", "l = l_tile + l * rescale", "has 0 lines that begin with 'l = rescale"),
    ("return [sum(a * b", "return [2 * sum(a * b", None),
])
def test_a_changed_file_is_walked_anew_or_refused(old, new, complaint):
    assert old in SOURCE
    changed = numbers(SOURCE.replace(old, new))
    if complaint is None:
        assert widgets.render("stepper", {"file": "online_softmax.py"}, changed) != widgets.render("stepper", {"file": "online_softmax.py"}, numbers())
        return
    with pytest.raises(PageError) as error:
        widgets.render("stepper", {"file": "online_softmax.py"}, changed)
    assert complaint in str(error.value)


def test_a_formula_of_the_stepper_that_fails_says_where_it_stands():
    content = widgets.render("stepper", {"file": "online_softmax.py"}, numbers())
    formulas = tex.find(content)
    assert [formula for formula, _ in formulas] == [formula for _, formula, _ in widgets.STEPS]
    with pytest.raises(PageError, match="widgets.py, STEPS: formula"):
        tex.place(content, formulas, [{"error": "no"}] * len(formulas), "")


# The page.


class Stepper:
    def __init__(self, page, lang):
        self.page, self.lang, self.box = page, lang, page.locator(".widget-stepper")
        self.stage, self.say, self.status = self.box.locator(".stage"), self.box.locator(".say"), self.box.locator(".bar .status").first
        self.order, self.width = self.box.locator("select").nth(0), self.box.locator("select").nth(1)
        self.start, self.back, self.play, self.forward, self.end = (self.box.locator(".bar").first.locator("button").nth(i) for i in range(5))

    def state(self):
        """{symbol: [before, after]} as the page shows it."""
        rows = self.box.locator(".state tbody tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.firstChild?.data ?? ''))")
        return {symbol: [cell.replace("−", "-") for cell in cells] for symbol, *cells in rows}

    def meters(self):
        return [[int(n) for n in re.findall(r"\d+", text.split("·")[0])] for text in self.box.locator(".meter").all_inner_texts()]

    def at(self):
        return [int(n) for n in re.findall(r"\d+", self.status.inner_text())]

    def walk(self):
        return online_trace.example(lesson)[self.order.input_value()]["walks"][int(self.width.input_value()) - 1]


@pytest.fixture(scope="module", params=LANGUAGES)
def stepper(request, chromium, served):
    browser = chromium.new_context(reduced_motion="reduce")
    page = browser.new_page()
    page.problems, page.asked = [], []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("request", lambda r: page.asked.append(r.url))
    page.goto(served + f"{request.param}/lesson/")
    page.wait_for_selector(".widget-stepper .bar", timeout=60_000)
    yield Stepper(page, request.param)
    assert not page.problems and all(url.startswith((served, "data:", "blob:")) for url in page.asked), page.problems
    browser.close()


def test_the_walk_that_opens_first_rescales_and_ends_at_the_tested_output(stepper):
    """By arrow keys alone, each step against the program's own numbers."""
    walk = stepper.walk()
    assert 0 < walk["tiles"][1]["rescale"] < 1, "the walk that opens first contains a rescale"
    stepper.stage.focus()
    stepper.page.keyboard.press("Home")
    said, last = set(), len(walk["tiles"]) * 7 + 1
    assert stepper.at() == [0, last]
    printed = re.findall(r"^ +\d  +(-?[\d.]+, +-?[\d.]+) +(-?[\d.]+) +(?:([\d.]+) +)?([\d.]+)$", OUTPUT, re.M)
    assert len(printed) == len(walk["tiles"])
    for step in range(1, last + 1):
        stepper.page.keyboard.press("ArrowRight")
        assert stepper.at() == [step, last]
        said.add(stepper.say.inner_text())
        n, phase = ((step - 1) // 7, PHASES[(step - 1) % 7]) if step < last else (len(walk["tiles"]) - 1, "end")
        tile, state = walk["tiles"][n], stepper.state()
        lit = stepper.box.locator(".steps .lit")
        assert lit.count() == 1 and lit.get_attribute("data-step") == phase and lit.get_attribute("aria-current") == "step"
        assert lit.locator("math").count() and lit.locator("code").inner_text().strip()
        parts = {part for part, selector in PART.items() if stepper.stage.locator(f"{selector}.lit, {selector}:has(.lit)").count() or stepper.stage.locator(f"{selector}").evaluate_all("all => all.some(e => e.classList.contains('lit'))")}
        assert parts == {phase}, f"step {step}: the picture lights {parts}, the formula {phase}"
        assert state["m"][0] == ("-∞" if n == 0 else f"{tile['m_old']:.3f}")
        if phase in ("o", "end"):
            scores, m, factor, l = printed[n]
            assert state["m"][1] == m and state["ℓ"][1] == l and state["α"][1] == (factor or "0.000000")
            assert state["O"][1] == f"({', '.join(f'{x:.3f}' for x in tile['o'])})"
        flash, naive = stepper.meters()
        assert flash == [2 * (walk["crossed"] if phase == "end" else tile["crossed"]), 2 * walk["crossed"]] and naive[0] <= naive[1] == 2 * sum(x for _, x in walk["naive"])
    assert naive[0] == naive[1] == 160 and flash == [112, 112]
    assert len(said) == last, "every step is announced in words of its own"
    assert stepper.box.locator(".result").inner_text() == f"o = {RESULT}"
    assert stepper.forward.is_disabled()
    stepper.page.keyboard.press("ArrowLeft")
    assert stepper.at() == [last - 1, last] and stepper.box.locator(".result").count() == 0


def test_every_width_and_order_ends_at_the_tested_output(stepper):
    for order in ("given", "reversed"):
        stepper.order.select_option(order)
        widths = stepper.width.locator("option").all_inner_texts()
        assert widths == [str(n) for n in range(1, len(lesson.K) + 1)]
        for width in widths:
            stepper.width.select_option(width)
            assert stepper.at()[0] == 0 and stepper.back.is_disabled()
            stepper.end.click()
            assert stepper.at() == [len(stepper.walk()["tiles"]) * 7 + 1] * 2
            assert stepper.box.locator(".result").inner_text() == f"o = {RESULT}"
            stepper.back.click()
            stepper.start.click()
            stepper.forward.click()
            assert stepper.at()[0] == 1


def test_play_goes_on_by_itself_pauses_and_does_not_talk_meanwhile(stepper):
    stepper.order.select_option("reversed")
    assert stepper.say.get_attribute("role") == "status"
    stepper.play.click()
    stepper.page.wait_for_function("() => document.querySelector('.widget-stepper .status').textContent.match(/\\d+/)[0] >= 2", timeout=20_000)
    assert stepper.say.get_attribute("aria-live") == "off"
    stepper.play.click()
    assert stepper.say.get_attribute("aria-live") == "polite"
    at = stepper.at()
    stepper.page.wait_for_timeout(2000)
    assert stepper.at() == at, "paused"


def test_who_asked_for_less_motion_sees_none(stepper):
    moving = stepper.box.evaluate("box => [...box.querySelectorAll('*')].filter(e => parseFloat(getComputedStyle(e).transitionDuration) > 0).length")
    assert moving == 0


def test_a_readers_scores_run_the_same_file_after_a_click(stepper):
    box = stepper.box
    assert not [url for url in stepper.page.asked if "pyodide" in url or "python-worker" in url]
    box.locator("summary").click()
    field, go, told = box.locator(".own input"), box.locator(".own button"), box.locator(".own .hint")
    for wrong in ("", "1, two", "nan", "inf", "1,2,3,4,5,6,7,8,9,10,11,12,13", "1e999", "__import__('os')"):
        field.fill(wrong)
        go.click()
        assert "12" in told.inner_text() and "-inf" in told.inner_text(), wrong
    assert not [url for url in stepper.page.asked if "pyodide" in url]
    field.fill("-inf, 0.5, 3，−2 1e4")
    go.click()
    stepper.page.wait_for_function("() => document.querySelector('.widget-stepper select').value === 'own'", timeout=60_000)
    assert [url for url in stepper.page.asked if url.endswith("/examples/online_softmax.py")]
    stepper.page.wait_for_function("() => !document.querySelector('.widget-stepper .own button').disabled")
    assert "Python 3." in told.inner_text()
    q, K, V = online_trace.problem(lesson, [float("-inf"), 0.5, 3.0, -2.0, 1e4])
    for width in range(1, 6):
        stepper.width.select_option(str(width))
        stepper.end.click()
        expected = [f"{x:.6f}" for x in lesson.online_attention(q, K, V, width)]
        assert re.findall(r"-?\d+\.\d+", box.locator(".result").inner_text()) == expected
    field.fill("-inf, -inf")
    field.press("Enter")
    stepper.page.wait_for_function("() => document.querySelectorAll('.widget-stepper .keys span').length === 2", timeout=60_000)
    stepper.end.click()
    assert "0.000000, 0.000000" in box.locator(".result").inner_text()


@pytest.mark.parametrize("width", [320, 1280])
def test_axe_finds_nothing_in_the_middle_of_a_walk_and_a_phone_holds_it(stepper, width):
    stepper.page.set_viewport_size({"width": width, "height": 800})
    stepper.order.select_option("reversed")
    for _ in range(11):
        stepper.forward.click()
    stepper.box.locator("details").evaluate("details => { details.open = true }")
    assert violations(stepper.page, ".widget-stepper") == []
    assert stepper.page.evaluate("document.documentElement.scrollWidth") <= width
    stepper.page.set_viewport_size({"width": 1280, "height": 800})


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_scripts_one_walk_stands_as_a_table(chromium, served, lang):
    browser = chromium.new_context(java_script_enabled=False)
    page = browser.new_page()
    page.goto(served + f"{lang}/lesson/")
    page.locator(".widget-stepper .walk").scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    assert page.locator(".widget-stepper .walk").is_visible()
    table = page.locator(".widget-stepper .walk").inner_text()
    for number in ("0.891366", "0.752014", "4.319560", "0.375, -0.095"):
        assert number in table
    assert page.locator(".widget-stepper .steps math").count() == len(widgets.STEPS)
    browser.close()


def test_the_page_serves_what_the_build_ran(site):
    assert (site / "assets/py/online_trace.py").read_bytes() == (TOP / "docs/hooks/core/online_trace.py").read_bytes()
