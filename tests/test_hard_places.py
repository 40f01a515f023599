"""The site where it is hard for it: storage blocked, files that do not come, two tabs, print, touch, a system whose colours change. In a browser, each widget alike."""
import functools
import http.server
import pathlib
import re
import threading

import pytest
from core import glossary
from support import LANGUAGES, TOP, UNSHADE, WORDS, QuietHandler, said

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SITE = {lang: words.site for lang, words in WORDS.items()}
BLOCKED = "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('off', 'SecurityError'); } })"
EDITORS = {"run": "lesson/", "exercise": "exercises/", "wgsl": "gpu/"}   # what a reader types a program into, and the page that has it


@pytest.fixture
def visit(chromium, served):
    """Function (path, options of the context) → a page; at the end no page has thrown."""
    opened = []

    def to(path, script=None, context=None, address=served, clock=False, **options):
        context = context or chromium.new_context(**options)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        if clock:
            page.clock.install()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(address + path)
        opened.append(page)
        return page

    yield to
    errors = [error for page in opened for error in page.errors]
    for page in opened:
        page.context.close()
    assert not errors


def scheme(page):
    return page.evaluate("document.body.dataset.mdColorScheme")


def find(page, lang):
    page.locator(".md-search__input").focus()
    page.keyboard.insert_text({"en": "memory", "zh": "显存"}[lang])
    page.locator(".md-search-result__item a").first.wait_for(timeout=15_000)


def test_one_choice_of_colours_for_the_site_and_the_systems_until_then(visit, served):
    page = visit("en/lesson/", color_scheme="dark")
    assert scheme(page) == "slate" and page.evaluate("localStorage.length") == 0, "nothing is kept that the reader did not choose"
    page.emulate_media(color_scheme="light")
    page.wait_for_function("() => document.body.dataset.mdColorScheme === 'default'")
    page.locator("button[data-press]:visible").click()
    assert scheme(page) == "slate"
    other = visit("zh/notebooks/flash_vs_naive_memory/", context=page.context)
    assert scheme(other) == "slate", "the other language, deeper in the site"
    other.emulate_media(color_scheme="dark")
    other.locator("button[data-press]:visible").click()
    page.wait_for_function("() => document.body.dataset.mdColorScheme === 'default'")
    page.emulate_media(color_scheme="dark")
    page.goto(served + "en/")
    assert scheme(page) == "default", "the choice stays when the system changes"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_needs_storage(visit, lang, served):
    page = visit(f"{lang}/lesson/", BLOCKED, color_scheme="light")
    page.locator(".widget-quiz .start button").click()
    page.locator(".widget-quiz form:visible").wait_for()
    page.locator("button[data-press]:visible").click()
    assert scheme(page) == "slate"
    page.evaluate("scrollTo({ top: 3000, behavior: 'instant' })")   # what would be kept of the place, and what leaving the page keeps
    find(page, lang)
    for path in ("exercises/", "calculator/", "gpu/"):
        page.goto(f"{served}{lang}/{path}")
        page.locator(".widget .bar button").first.wait_for()
        for area in page.locator(".widget textarea").all()[:1]:
            area.fill("mine")
            assert area.locator("xpath=ancestor::*[@data-widget]").get_by_role("button", name=re.compile("reset|again|还原|重", re.I)).first.is_enabled()


SCREENS, APART = 30, 3   # of 1280 x 800, with every fold shut: how long the lesson is, and how far one picture is from the next
PICTURES = """() => {
  for (const part of document.querySelectorAll(".part")) part.style.contentVisibility = "visible";
  const article = document.querySelector("article").getBoundingClientRect(), shown = [...document.querySelectorAll("article :is(figure, .widget-theatre, .widget-stepper)")].filter((e) => !e.closest("details"));
  let end = 0, apart = [];
  for (const e of [...shown, null]) {
    const { top, bottom } = e?.getBoundingClientRect() ?? { top: article.bottom };
    apart.push([(top + scrollY - end) / innerHeight, e ? e.textContent.trim().slice(0, 40) : "the end"]);
    end = bottom + scrollY;
  }
  for (const part of document.querySelectorAll(".part")) part.style.contentVisibility = "";
  return [article.height / innerHeight, apart];
}"""


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_lesson_is_short_and_shows_the_place_is_kept_and_what_is_folded_opens_on_arrival(visit, served, lang):
    page = visit(f"{lang}/lesson/", viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    page.evaluate("document.fonts.ready")
    screens, apart = page.evaluate(PICTURES)
    assert screens <= SCREENS, f"{screens:.1f} screens: fold it, or say it on the page that has it"
    assert max(apart)[0] <= APART and len(apart) > 8, f"{max(apart)[0]:.1f} screens without a picture before: {max(apart)[1]}"
    offer, ticks = page.locator(".resume"), page.locator(".md-nav--secondary a[data-read]")
    assert not offer.is_visible() and ticks.count() == 0, "nobody was here yet"
    for anchor in (page.evaluate("document.querySelector('details:not([open]) [id]').id"), "corrected"):
        page.evaluate("anchor => { document.querySelector('article').insertAdjacentHTML('afterbegin', `<a href='#${anchor}'></a>`); document.querySelector('article > a').click(); }", anchor)   # an address typed by hand opens it by the browser alone
        if anchor == "corrected":   # the fold right under a heading
            page.goto(f"{served}{lang}/lesson/?#{anchor}")
        page.wait_for_function("""anchor => {
          const target = document.getElementById(anchor), fold = target.closest("details") ?? document.querySelector(`#${anchor} + .part > details:first-child`);
          return fold.open && target.checkVisibility();   // that the page stays there: test_parts.py
        }""", arg=anchor)
    page.keyboard.press("Shift")   # the reader moves: the page stays at no anchor any longer
    page.locator("#intuition").evaluate("heading => heading.scrollIntoView({ behavior: 'instant', block: 'center' })")   # the end of what stands before it is seen
    page.wait_for_function("() => document.querySelector('.md-nav--secondary a[data-read][href=\"#before-you-start\"]')")
    page.locator("#tiling").evaluate("heading => heading.scrollIntoView({ behavior: 'instant' })")
    page.goto(f"{served}{lang}/")
    page.goto(f"{served}{lang}/lesson/")
    offer.wait_for()
    assert offer.locator("a").get_attribute("href") == "#tiling" and re.search(r"\d+\D+\d+", offer.inner_text()) and ticks.count() >= 1
    offer.locator("a").click()
    page.wait_for_function("() => { const { top } = document.getElementById('tiling').getBoundingClientRect(); return top >= 0 && top < innerHeight; }")
    assert not offer.is_visible()


# Files that do not come.

class Broken(QuietHandler):
    """Serves the site; of the files whose path ends as `ways` says: another page in their place, a refusal, half, or nothing at all."""

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_GET(self):
        path = self.path.split("?")[0]
        way = next((way for end, way in self.server.ways.items() if path.endswith(end)), None)
        if way is None:
            return super().do_GET()
        if way == "403":
            return self.send_error(403)
        if way == "never":
            return self.server.end.wait(60)
        body = b"<!doctype html><title>Sign in</title>" if way == "page" else pathlib.Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if way == "type" else "text/html" if way == "page" else self.guess_type(path))
        self.send_header("Content-Length", len(body))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if way == "cut" else body)
        self.close_connection = True


@pytest.fixture(scope="module")
def broken(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Broken, directory=str(site)))
    server.ways, server.end, server.address = {}, threading.Event(), f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.end.set()
    server.shutdown()


PYTHON = [(name, way) for name in ("pyodide.asm.wasm", "python_stdlib.zip", "pyodide.mjs", "python-worker.js") for way in ("page", "403", "cut")]
LOADS = {   # what a widget fetches when it is pressed: its page, its button, the line that says what came of it, its word for a failure, the files
    "run": ("lesson/", ".widget-run .bar button.primary", ".widget-run .status", "run.unavailable", [*PYTHON, ("pyodide.asm.wasm", "never")]),
    "exercise": ("exercises/", ".widget-exercise .bar button.primary >> nth=0", ".widget-exercise .status >> nth=0", "exercise.unavailable", [("grade_online_row.py", way) for way in ("page", "403", "cut", "never")]),
    "stepper": ("lesson/", ".widget-stepper .own .bar button", ".widget-stepper .own > .hint", "stepper.failed", [("online_trace.py", way) for way in ("page", "403", "never")]),
}


@pytest.mark.parametrize("widget", LOADS)
def test_what_a_widget_fetches_and_does_not_get_is_said_and_can_be_tried_again(visit, broken, widget):
    path, pressed, line, word, files = LOADS[widget]
    word = functools.reduce(lambda words, part: words[part], word.split("."), WORDS["en"])
    broken.ways = {}
    page = visit(f"en/{path}", address=broken.address, clock=True)
    if widget == "stepper":
        page.locator(".widget-stepper .own > summary").click()
    for name, way in files:
        broken.ways = {name: way}
        page.locator(pressed).click()
        if way == "never":
            page.clock.fast_forward(61_000)
        try:
            page.wait_for_function("([button, line, said]) => !document.querySelector(button).disabled && new RegExp(said).test(document.querySelector(line).textContent)",
                                   arg=[pressed.split(" >> ")[0], line.split(" >> ")[0], said(word)], timeout=20_000)
        except Exception as error:
            raise AssertionError(f"{name}, {way}: {page.locator(line).inner_text()}") from error
    page.errors.clear()   # what Python's loader throws behind the line that was said
    broken.ways = {".wasm": "type"}   # a server that does not know .wasm
    page.locator(pressed).click()
    page.wait_for_function("([button, line, said]) => !document.querySelector(button).disabled && !new RegExp(said).test(document.querySelector(line).textContent)",
                           arg=[pressed.split(" >> ")[0], line.split(" >> ")[0], said(word)], timeout=60_000)


@pytest.mark.parametrize("widget, path", [("quiz", "lesson/"), ("gpu", "gpu/"), ("run", "lesson/"), ("calculator", "calculator/")])
def test_a_widget_whose_script_does_not_come_says_so_and_comes_when_asked_again(visit, broken, widget, path):
    broken.ways = {f"/{widget}.js": "403"}
    page = visit(f"zh/{path}", address=broken.address)
    box = page.locator(f"[data-widget={widget}]").first
    if box.get_attribute("data-ask"):
        box.locator(".start button").click()
    again = box.locator(".missing button")
    again.wait_for()
    broken.ways = {f"/{widget}.js": "page"}
    again.click()
    again.wait_for()
    broken.ways = {}
    again.click()
    box.locator(".bar:not(.start) button").first.wait_for(state="attached")
    assert box.locator(".missing, .start").count() == 0


@pytest.mark.parametrize("name, way", [("search_index.json", way) for way in ("page", "403", "cut", "never")] + [(".min.js", "403"), (".min.js", "never")])
def test_a_search_that_does_not_come_is_said_and_comes_when_asked_again(visit, broken, name, way):
    broken.ways = {}
    page = visit("en/versions/", address=broken.address, clock=True)
    broken.ways = {name: way}
    page.locator(".md-search__input").focus()
    if way == "never":
        page.wait_for_timeout(300)
        page.clock.fast_forward(31_000)
    again = page.locator(".md-search-result__meta button")
    again.wait_for(timeout=10_000)
    broken.ways = {}
    again.click()
    if (name, way) != (".min.js", "never"):   # the browser waits for the first answer before it asks for the same again
        find(page, "en")


# What the reader typed.

def editor(page, widget):
    box = page.locator(f"[data-widget={widget}]").first
    box.locator(".bar").first.wait_for()
    return box.locator("textarea"), box.locator(".bar button").nth(1 if widget == "wgsl" else 2), box.locator(".note button")


@pytest.mark.parametrize("widget", EDITORS)
def test_nothing_typed_is_lost(visit, widget):
    """Reset can be undone, after a reload too; a tab never overwrites unseen what another has kept, and taking it can be undone."""
    page = visit("en/" + EDITORS[widget])
    area, reset, take = editor(page, widget)
    first = area.input_value()
    area.fill("mine")
    reset.click()
    assert area.input_value() == first and reset.inner_text() == SITE["en"].undo.text
    page.reload()
    assert area.input_value() == first
    reset.click()
    assert area.input_value() == "mine" and reset.inner_text() != SITE["en"].undo.text
    other = visit("zh/" + EDITORS[widget], context=page.context)
    theirs, their_reset, _ = editor(other, widget)
    assert theirs.input_value() == "mine"
    theirs.fill("theirs")
    take.click()
    assert area.input_value() == "theirs" and not take.is_visible()
    reset.click()
    assert area.input_value() == "mine"
    other.locator(f"[data-widget={widget}]").first.locator(".note button").wait_for()
    page.goto("about:blank")
    page.go_back()
    assert editor(page, widget)[0].input_value() == "mine"


def test_answers_fields_and_numbers_that_were_typed_come_back(visit):
    page = visit("en/calculator/")
    field, reset = page.locator("[id$=-S]"), page.locator(".widget-calculator .bar button").nth(1)
    field.fill("12345")
    reset.click()
    assert field.input_value() != "12345"
    reset.click()
    assert field.input_value() == "12345" and "S=12345" in page.url
    page = visit("en/lesson/", reduced_motion="reduce")
    quiz = page.locator(".widget-quiz")
    quiz.locator(".start button").click()
    restart = quiz.locator(".bar button").first
    quiz.locator("form:visible input[type=radio]").first.check()
    quiz.get_by_role("button", name=WORDS["en"].quiz.check.text, exact=True).click()
    score = quiz.locator(".status").inner_text().split("·")[1]
    restart.click()
    assert "·" not in quiz.locator(".status").inner_text()
    page.reload()
    quiz.locator(".start button").click()
    restart.click()
    assert score in quiz.locator(".status").inner_text()
    while not quiz.locator("form:visible input[type=text]").count():
        quiz.get_by_role("button", name=WORDS["en"].quiz.next.text, exact=True).click()
    number = quiz.locator("form:visible input[type=text]")
    name = quiz.locator("form:visible").get_attribute("data-id")
    number.fill("31")
    scores = page.locator(".widget-stepper .own input")
    page.locator(".widget-stepper .own > summary").click()
    scores.fill("1, 2, 3")
    page.reload()
    quiz.locator(".start button").click()
    quiz.locator("form").first.wait_for(state="attached")
    assert quiz.locator(f"form[data-id={name}] input[type=text]").input_value() == "31" and scores.input_value() == "1, 2, 3"


# Zoom.

IN_REACH = """async (kind) => {
  const covered = [], frame = () => new Promise((done) => requestAnimationFrame(done));
  document.querySelectorAll(`${kind} details`).forEach((e) => { e.open = true; });
  for (const e of document.querySelectorAll(`${kind} :is(button, input, select, textarea, summary)`)) {
    if (e.disabled || !e.checkVisibility({ visibilityProperty: true })) continue;
    e.focus();
    await frame();
    const box = e.getBoundingClientRect(), seen = document.elementFromPoint((box.left + box.right) / 2, Math.max(box.top, 0) + Math.min(box.height / 2, 8));
    if (box.left < 0 || box.right > innerWidth || box.top < 0 || !seen || !(e === seen || e.contains(seen) || [...e.labels ?? []].some((l) => l.contains(seen))))
      covered.push(`${e.outerHTML.slice(0, 120)} at ${Math.round(box.left)}, ${Math.round(box.top)} to ${Math.round(box.right)}, ${Math.round(box.bottom)} under ${seen?.outerHTML.slice(0, 60)}`);
  }
  return covered;
}"""


@pytest.mark.parametrize("lang, path", [("en", "lesson/"), ("zh", "calculator/"), ("zh", "exercises/"), ("en", "gpu/")])
def test_at_200_percent_whatever_takes_the_focus_is_seen_and_nothing_runs_off_the_side(visit, lang, path):
    """Half as many pixels, each twice as large. Nothing that stays in place covers the control that the keyboard has come to."""
    page = visit(f"{lang}/{path}", viewport={"width": 640, "height": 360}, device_scale_factor=2, reduced_motion="reduce")
    if path == "lesson/":
        page.locator(".widget-quiz .start button").click()
        page.locator(".widget-quiz form:visible").wait_for()
    page.locator(".widget .bar button").first.wait_for()
    assert page.evaluate(IN_REACH, ".widget") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# Paper, translation, edges, touch.

@pytest.mark.parametrize("widget", EDITORS)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without"])
def test_paper_has_the_whole_program_and_every_step(visit, widget, scripts):
    page = visit("zh/" + EDITORS[widget], java_script_enabled=scripts)
    page.emulate_media(media="print")
    box = page.locator(f"[data-widget={widget}]").first
    if scripts:
        box.locator(".paper").wait_for(state="attached")
    area = box.locator("textarea")
    lines = area.evaluate("area => area.value.split('\\n').length")
    shown = box.locator(".paper" if scripts else "textarea")
    height, whole = shown.evaluate("e => [e.clientHeight, e.scrollHeight]")
    assert height >= whole and height > lines * 12 and shown.is_visible()
    if widget == "run":
        assert page.locator(".widget-stepper .walk tbody tr").last.is_visible() and not page.locator(".widget-stepper .stage").is_visible()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_browser_that_translates_leaves_code_and_formulas_alone(site, lang):
    for path in (site / lang).rglob("index.html"):
        article = re.search(r"<article.*</article>", path.read_text("utf-8"), re.S)[0]
        wrong = [tag for tag in re.findall(r'<(?:code|kbd|(?:var|div) class="math")[^>]*>', article) if 'translate="no"' not in tag]
        assert not wrong, f"{path}: {wrong[:3]}"


EDGE = """() => {
  const boxes = { code: "article pre > code", table: ".md-typeset__scrollwrap", formula: "article div.math" };
  document.querySelectorAll("details").forEach((e) => { e.open = true; });
  return Object.values(boxes).map((kind) => { const all = [...document.querySelectorAll(kind)]; const cut = all.find((e) => e.scrollWidth > e.clientWidth + 30), whole = all.find((e) => e.scrollWidth <= e.clientWidth && e.clientHeight > 20);
    [cut, whole].forEach((e, n) => e?.setAttribute(n ? "data-whole" : "data-cut", "")); return Boolean(cut); });
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_what_is_cut_at_the_edge_shows_it(visit, width):
    """A strip at the right edge with and without the shade: another picture where there is more, the same where all is seen or it was scrolled to its end."""
    page = visit("zh/lesson/", viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page.wait_for_load_state("networkidle")
    found = page.evaluate(EDGE)
    assert found[0] and (width > 1000 or all(found)), found

    def strip(box):
        for _ in range(20):                                # what is laid out on the way moves it
            box.scroll_into_view_if_needed()
            page.wait_for_timeout(60)
            rect = box.bounding_box()
            if 0 <= rect["y"] < 700:
                break
        return page.screenshot(clip={"x": rect["x"] + rect["width"] - 8, "y": rect["y"] + 4, "width": 8, "height": min(rect["height"] - 8, 300)})

    for name, shaded in (("cut", True), ("whole", False)):
        for box in page.locator(f"[data-{name}]").all():
            before = strip(box)
            box.evaluate("e => { e.style.backgroundImage = 'none'; }")
            assert (strip(box) != before) == shaded, box.evaluate("e => e.outerHTML.slice(0, 200)")
            box.evaluate("e => { e.style.backgroundImage = ''; e.scrollLeft = 10 ** 6; }")
            before = strip(box)
            box.evaluate("e => { e.style.backgroundImage = 'none'; }")
            assert strip(box) == before, "scrolled to its end"


def test_a_finger_and_a_keyboard_reach_what_a_title_says(visit):
    page = visit("en/lesson/", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce")
    tip, address = page.locator(".glance"), page.url
    for target in (page.locator("article a.term").first, page.locator("article data.measured").first):
        target.scroll_into_view_if_needed()
        target.tap()
        tip.wait_for()
        assert target.get_attribute("title") in tip.inner_text() and page.url == address
        box = tip.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
        page.keyboard.press("Escape")
        assert not tip.is_visible()
    number = page.locator("article data.measured").first
    number.focus()
    page.keyboard.press("Enter")
    assert number.get_attribute("title") in tip.inner_text()
    page.keyboard.press("Escape")
    assert number.evaluate("e => e === document.activeElement")
    term = page.locator("article a.term").first
    term.tap()
    tip.wait_for()
    tip.locator("a").tap()
    page.wait_for_url("**/glossary/#*")
    page = visit("en/lesson/")   # with a mouse, which can rest on it, it is a link
    page.locator("article a.term").first.click()
    page.wait_for_url("**/glossary/#*")


@pytest.mark.parametrize("lang, text", [("en", "The flag's value becomes a field."), ("en", "The page has the values."), ("en", "Cut into 2P chunks."), ("en", "Every key that is pressed."), ("en", "Merging the kernels."), ("en", "80 % of the slots."), ("zh", "做拷贝或填充的 kernel。")])
def test_a_word_in_another_sense_leads_nowhere(lang, text):
    source = (TOP / f"docs/{lang}/glossary.md").read_text("utf-8")
    words = dict(re.findall(r"^  ([\w-]+): (.*)$", source.split("synonyms:")[0], re.M))
    made = glossary.Glossary.of(source, words)
    linked = re.findall(r"#([\w-]+)", glossary.link(f"<p>{text}</p>", made.entries, made.finder, ""))
    assert not {"query", "chunked-prefill", "merge", "slot", "padding"} & set(linked), linked


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_open_drawer_has_contrast(visit, colours):
    page = visit("en/lesson/", viewport={"width": 390, "height": 844}, color_scheme=colours, reduced_motion="reduce")
    page.locator("button[data-toggle=__drawer]").first.click()
    page.evaluate((TOP / "node_modules/axe-core/axe.min.js").read_text("utf-8"))
    page.evaluate(UNSHADE)
    for section in (False, True):
        if section:
            page.locator("button.md-nav__link[data-toggle=__toc]").click()
            page.wait_for_timeout(100)
        found = page.evaluate("async () => (await axe.run('.md-sidebar--primary', { runOnly: ['color-contrast'] })).violations.flatMap((v) => v.nodes.map((n) => n.html.slice(0, 120) + n.failureSummary))")
        assert not found, found
        close = page.locator(".drawer-close").evaluate("e => [getComputedStyle(e).color, getComputedStyle(e.parentElement).color]")
        assert close[0] == close[1], f"the close mark is {close[0]} beside a title in {close[1]}"
