"""Exercises in the page, in a real browser: failed and passed in both languages, endless loops ended, progress kept and saved."""
import json
import re
import time

import exercises
import pytest
from support import LANGUAGES, WORDS, said, violations

WORD = {lang: WORDS[lang].exercise for lang in LANGUAGES}
ENGINE = {lang: WORDS[lang].graders.engine for lang in LANGUAGES}
UNWRITTEN = {lang: f"online_row: {ENGINE[lang].unwritten.text}" for lang in LANGUAGES}
MEAN = "def online_row(stream):\n    pairs = list(stream)\n    return [sum(v[c] for s, v in pairs) / len(pairs) for c in range(2)]\n"


def counted(lang):
    """What the page says of MEAN: from the grader, whose titles are free to change."""
    grader, mine = {"__name__": "grader"}, {}
    exec(exercises.source("grade_online_row"), grader)
    exec(MEAN, mine)
    results = grader["grade"](mine, lang)
    return WORD[lang].count.text.format(passed=sum(one["passed"] for one in results), all=len(results), first=next(one["title"] for one in results if not one["passed"]))


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Exercise:
    def __init__(self, page, name="online_row"):
        self.page, self.box = page, page.locator(f"[data-widget=exercise][data-exercise={name}]")
        self.area, self.status, self.results = self.box.locator("textarea"), self.box.locator(".status"), self.box.locator(".results")
        self.check, self.stop, self.reset = (self.box.locator(".bar button").nth(i) for i in range(3))
        self.box.locator(".bar").wait_for()

    def begin(self, text=None):
        if text is not None:
            self.area.fill(text)
        self.check.click()

    def finish(self, timeout=60):
        end = time.time() + timeout
        while self.check.is_disabled():
            assert time.time() < end, self.status.inner_text()
            time.sleep(0.02)
        return self.status.inner_text()

    def go(self, text=None):
        self.begin(text)
        return self.finish()


def opened(chromium, served, lang, script=None, **options):
    context = chromium.new_context(**options)
    if script:
        context.add_init_script(script)
    page = context.new_page()
    page.problems, page.asked = [], []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("request", lambda r: page.asked.append(r.url))
    page.goto(served + f"{lang}/exercises/", wait_until="networkidle")
    return page


def closed(page):
    assert not page.problems, page.problems
    page.context.close()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_fail_and_pass(chromium, served, lang, tmp_path):
    word = WORD[lang]
    page = opened(chromium, served, lang, viewport={"width": 390, "height": 800})
    assert not [url for url in page.asked if "pyodide" in url or "grade_" in url], "fetched before a click"
    one = Exercise(page)
    assert one.area.input_value() == exercises.source("online_row_skeleton")
    assert one.go() == UNWRITTEN[lang]
    assert one.go(MEAN) == counted(lang)
    first = one.results.locator("details[open]")
    shown = first.inner_text()
    assert first.count() == 1 and "online_row(iter([(" in shown and word.hint.text in shown
    assert violations(page, ".widget-exercise") == []
    assert len(first.locator("dd").nth(1).inner_text()) > 5 and first.locator("dd").nth(1).inner_text() != first.locator("dd").nth(2).inner_text()
    assert not [line for line in exercises.answer(exercises.source("online_row")) if len(line) > 12 and line in one.results.inner_text()]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    one.go()
    assert first.inner_text() != shown, "the same inputs twice"
    assert re.search(said(ENGINE[lang].syntax, line=2), one.go("x = 1\ndef online_row(:\n")) and one.box.locator(".gutter .wrong").inner_text() == "2"
    assert re.search(said(ENGINE[lang].module, module="torch"), one.go("import torch\n"))
    one.go("def online_row(stream):\n    for s, v in stream:\n        print(s)\n    return [0.0] / 2\n")
    assert one.box.locator(".gutter .wrong").inner_text() == "4", "the line that raised is marked"
    assert one.results.locator("pre").text_content().count("\n") == first.locator("dd").first.inner_text().count("[") - 1, "what was printed for the input that is shown"
    one.go("def online_row(stream):\n    return [0.0] * 10**9\n")
    assert "MemoryError" in first.inner_text()
    one.go("def online_row(stream):\n    print('é中' * 10**6)\n    return None\n")
    assert len(one.results.locator("pre").text_content()) <= 2000
    one.area.fill(exercises.source("online_row"))
    one.area.press("Control+Enter")
    assert one.finish() == word.solved.text and one.results.locator("li.no").count() == 0
    assert re.search(said(WORDS[lang].progress.solved, n=1, all=len(exercises.NAMES)), page.locator("[data-widget=progress]").inner_text())
    page.reload()
    one = Exercise(page)
    assert one.area.input_value() == exercises.source("online_row") and re.search(said(word.before), one.status.inner_text())
    with page.expect_download() as download:
        page.locator("[data-widget=progress] button").click()
    download.value.save_as(tmp_path / "kept.json")
    kept = json.loads((tmp_path / "kept.json").read_text("utf-8"))["exercises"]
    assert kept["online_row"]["code"] == exercises.source("online_row") and kept["online_row"]["solved"] and kept["merge_parts"] == {"solved": None, "code": None}
    one.reset.click()
    assert one.area.input_value() == exercises.source("online_row_skeleton")
    closed(page)


def test_an_endless_loop_ends_and_the_page_lives(chromium, served):
    hurry = "{ const set = window.setTimeout; window.setTimeout = (f, ms, ...rest) => set(f, ms === 20000 && !window.patient ? 1500 : ms, ...rest); }"
    page = opened(chromium, served, "en", hurry)
    one = Exercise(page)
    endless = "def online_row(stream):\n    while True: pass\n"
    assert re.search(said(WORD["en"].late, seconds=20), one.go(endless))
    one.begin()
    page.wait_for_function("box => box.querySelector('.status').textContent.startsWith(" + repr(WORD["en"].checking.text.split("{")[0]) + ")", arg=one.box.element_handle())
    one.stop.click()
    assert one.finish(5) == WORD["en"].stopped.text
    page.evaluate("window.patient = true")                                      # a busy machine may need longer for what does end
    assert one.go(exercises.source("online_row")) == WORD["en"].solved.text
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_exercise_can_be_solved_in_the_page(chromium, served, lang):
    page = opened(chromium, served, lang)
    assert sorted(box.get_attribute("data-exercise") for box in page.locator("[data-widget=exercise]").all()) == exercises.NAMES
    for name in exercises.NAMES:
        assert Exercise(page, name).go(exercises.source(name)) == WORD[lang].solved.text, name
    closed(page)


def test_two_at_once(chromium, served):
    page = opened(chromium, served, "en")
    pair = [Exercise(page, name) for name in ("merge_parts", "masked_row")]
    pair[0].begin(exercises.source("merge_parts"))
    pair[1].begin(exercises.source("masked_row"))
    assert [one.finish() for one in pair] == [WORD["en"].solved.text] * 2
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_storage_it_says_so(chromium, served, lang):
    page = opened(chromium, served, lang, "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };")
    one = Exercise(page)
    one.area.fill("x = 1\n")
    assert WORD[lang].unkept.text in one.box.inner_text()
    closed(page)


def test_a_grader_that_does_not_come_is_told(chromium, served):
    page = opened(chromium, served, "en")
    page.route("**/grade_online_row.py", lambda route: route.fulfill(status=404, body=""))
    assert re.search(said(WORD["en"].unavailable, why="grade_online_row.py: 404"), Exercise(page).go())
    page.unroute("**/grade_online_row.py")
    assert Exercise(page).go() == UNWRITTEN["en"]
    page.context.close()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_scripts_skeleton_grader_and_command_are_there(chromium, served, lang):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served + f"{lang}/exercises/")
    for name in exercises.NAMES:
        box = page.locator(f"[data-exercise={name}]")
        assert box.locator("textarea").text_content() == exercises.source(f"{name}_skeleton")
        for link, file in zip(box.locator("a").all(), (f"{name}_skeleton", f"grade_{name}")):
            assert context.request.get(page.evaluate("a => a.href", link.element_handle())).text() == exercises.source(file)
        box.scroll_into_view_if_needed()
        box.get_by_text(f"python grade_{name}.py {name}.py").first.wait_for()
    context.close()
