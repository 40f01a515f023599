"""For readers with a phone, a keyboard or a screen reader: axe-core finds nothing, every control is reached and named, paper shows all."""
import re

import pytest
from mkdocs.config import load_config
from support import LANGUAGES, PAGES, TOP, UNSHADE, WORDS

AXE = TOP / "node_modules" / "axe-core" / "axe.min.js"

# What axe would check thousands of times alike stands there once: a formula as a box of its width, each kind of code token, eight rows of a table, no chart's strokes.
SHORTEN = """() => {
  document.querySelectorAll("details").forEach((e) => { e.open = true; });
  document.querySelectorAll(".part").forEach((e) => { e.style.contentVisibility = "visible"; });
  for (const formula of document.querySelectorAll(".katex")) {
    const box = document.createElement("span");
    box.textContent = "formula";
    box.style.cssText = `display: inline-block; overflow: hidden; width: ${formula.getBoundingClientRect().width}px`;
    formula.replaceWith(box);
  }
  const seen = new Set();
  for (const token of document.querySelectorAll(".highlight pre span")) {
    if (seen.has(token.className)) token.replaceWith(...token.childNodes); else seen.add(token.className);
  }
  document.querySelectorAll("article tr:nth-child(n + 9), figure.chart svg > *").forEach((e) => e.remove());
  document.body.normalize();
  return new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 50));
}"""
# In the second theme only the colours differ, so only the rules on colours run again.
RUN = """async (scheme) => {
  document.body.dataset.mdColorScheme = scheme;
  const which = scheme === "default" ? { rules: { "target-size": { enabled: true } } } : { runOnly: ["color-contrast", "link-in-text-block"] };
  const { violations } = await axe.run(document, { resultTypes: ["violations"], ...which });
  return violations.flatMap((v) => v.nodes.map((n) => `${scheme}: ${v.id}: ${n.html.slice(0, 160)}: ${n.failureSummary}`));
}"""
FOCUS = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), ring = getComputedStyle(e), form = getComputedStyle(e.closest("form") ?? e);
  return { name: e.getAttribute("aria-label") ?? e.textContent.trim(), tag: e.tagName, expanded: e.getAttribute("aria-expanded"), inside: e.closest(".md-sidebar, .md-search")?.dataset.mdComponent,
    ring: [ring, form].some((s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2),
    seen: box.width > 0 && box.right > 0 && box.left < innerWidth && e.checkVisibility({ visibilityProperty: true }) };
}"""


@pytest.fixture(scope="module")
def phone(chromium):
    context = chromium.new_context(viewport={"width": 390, "height": 844}, reduced_motion="reduce", color_scheme="light")
    yield context.new_page()
    context.close()


@pytest.fixture
def page(phone):
    phone.goto("about:blank")
    phone.set_viewport_size({"width": 390, "height": 844})
    return phone


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_timeout(40)
    return page.evaluate(FOCUS)


def axe(page):
    page.evaluate(SHORTEN)
    page.evaluate(UNSHADE)
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate(RUN, "default") + page.evaluate(RUN, "slate")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", ["404.html", "en/404.html"])
def test_axe_finds_nothing_where_no_page_is(page, served, path):
    page.goto(served + path)
    axe(page)


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_in_either_theme_and_the_narrowest_screen_holds_the_page(page, served, path):
    page.goto(served + path, wait_until="networkidle")   # its widgets have come to life
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.lang") == path[:2]
    levels = page.evaluate("[...document.querySelectorAll('article :is(h1, h2, h3, h4, h5, h6)')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    small = page.evaluate("""() => [...document.querySelectorAll("article :is(p, li, td, th, code, summary, a)")]
        .filter((e) => !e.closest("svg, .katex") && e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 11.5).map((e) => e.outerHTML.slice(0, 80))""")
    assert not small, small[:5]
    for name in page.evaluate("[...document.querySelectorAll('figure svg:not([aria-hidden=true])')].map((e) => e.getAttribute('aria-label') ?? e.querySelector('title')?.textContent ?? '')"):
        assert name and bool(re.search("[一-鿿]", name)) == path.startswith("zh"), f"a drawing is called {name!r}"
    page.set_viewport_size({"width": 390, "height": 844})
    axe(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_header_by_keyboard(page, served, lang):
    settings = load_config(str(TOP / f"mkdocs.{lang}.yml"))
    dark, light = (scheme["toggle"]["name"] for scheme in settings.theme["palette"])
    (other,) = {**settings.extra["languages"]}.keys() - {lang}
    page.goto(served + f"{lang}/versions/")
    assert press(page, "Tab")["seen"] and page.evaluate("document.activeElement.matches('.md-skip')")
    stops = [press(page, "Tab") for _ in range(4)]
    assert [stop["name"] for stop in stops] == [WORDS[lang].page.menu.text, dark, settings.extra["languages"][other], WORDS[lang].page.search.text]
    assert all(stop["ring"] and stop["seen"] for stop in stops)
    page.get_by_role("button", name=dark).focus()
    for key, name, scheme in (("Enter", light, "slate"), ("Space", dark, "default")):
        assert press(page, key)["name"] == name and page.evaluate("document.body.dataset.mdColorScheme") == scheme


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_skip_link_leads_past_the_header(page, served, lang):
    page.goto(served + f"{lang}/versions/")
    press(page, "Tab", "Enter", "Tab")
    assert page.evaluate("document.activeElement.closest('article') !== null")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_drawer_by_keyboard(page, served, lang):
    page.goto(served + f"{lang}/versions/")
    for stops in (16, 1):
        page.get_by_role("button", name=WORDS[lang].page.menu.text, exact=True).focus()
        assert press(page, "Enter")["inside"] == "sidebar"
        for _ in range(stops):   # all the way round: nothing behind the drawer takes the focus
            stop = press(page, "Tab")
            assert stop["tag"] == "BODY" or stop["inside"] == "sidebar" and stop["seen"] and stop["ring"], stop
        sections = page.locator("button[data-toggle=__toc][aria-expanded]")
        sections.focus()
        assert press(page, "Enter")["inside"] == "sidebar" and press(page, "Tab")["tag"] == "A"
        assert press(page, "Escape")["expanded"] == "false"
        assert press(page, "Escape")["name"] == WORDS[lang].page.menu.text
        assert not press(page, "Tab")["inside"], "the closed drawer takes the focus"
    page.get_by_role("button", name=WORDS[lang].page.menu.text, exact=True).focus()
    press(page, "Enter")
    sections.focus()
    press(page, "Enter", "Tab", "Tab", "Enter")
    page.wait_for_function("() => !document.getElementById('__drawer').checked && !document.getElementById('__toc').checked")
    press(page, "Tab")
    assert "#" in page.url and page.evaluate("document.activeElement.closest('article') !== null")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_search_by_keyboard(page, served, lang):
    page.goto(served + f"{lang}/versions/", wait_until="networkidle")
    opener = page.get_by_role("button", name=WORDS[lang].page.search.text, exact=True)
    opener.focus()
    assert press(page, "Enter")["tag"] == "INPUT"
    page.keyboard.insert_text({"en": "memory", "zh": "显存"}[lang])   # as dictation or an input method does
    page.wait_for_selector(".md-search-result__item a:visible")
    stops = [press(page, "Tab") for _ in range(4)]
    assert all(stop["inside"] == "search" and stop["ring"] for stop in stops) and "A" in [stop["tag"] for stop in stops]
    press(page, "Escape")
    assert page.evaluate("document.activeElement.dataset.toggle") == "__search"
    address = page.url
    press(page, "n", "p", "f")
    assert page.url == address and not page.evaluate("document.getElementById('__search').checked"), "a letter alone turned the page"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_scrolls_inside_itself_is_reached_named_and_moved_by_keyboard(page, served, lang):
    page.goto(served + f"{lang}/lesson/", wait_until="networkidle")
    page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.wait_for_timeout(500)   # observers of size report after the next drawing
    found = page.evaluate("""() => [...document.querySelectorAll("article *")].filter((e) => e.scrollWidth > e.clientWidth + 1
        && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)).map((e) => [e.tagName, e.tabIndex, e.getAttribute("aria-label")])""")
    words = WORDS[lang].site
    kinds = {words.code.text, words.table.text, words.formula.text}
    assert all(tabindex == 0 and name for _, tabindex, name in found), found
    assert {name.split(words.colon.text)[0] for *_, name in found} >= kinds
    page.locator("article pre > code[tabindex]").first.focus()
    assert press(page, "ArrowRight", "ArrowRight")["ring"]
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_white_and_shows_every_answer(chromium, served, lang, scheme):
    context = chromium.new_context(viewport={"width": 794, "height": 1100}, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(served + f"{lang}/interview/", wait_until="networkidle")
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate("[...document.querySelectorAll('details')].every((e) => e.lastElementChild.checkVisibility() && e.lastElementChild.getBoundingClientRect().height > 10)")
    link = page.evaluate("getComputedStyle(document.querySelector('article p a')).color")
    assert link == "rgb(11, 107, 99)", f"links are printed {link}"
    context.close()


def test_a_theme_whose_controls_changed_breaks_the_build():
    from core import errors, html

    with pytest.raises(errors.PageError, match="controls"):
        html.controls('<label class="md-header__button" for="__drawer"></label>', WORDS["en"])


def test_tables_options_and_charts_are_put_right():
    from core import html

    done = html.tidy('<th></th><th>S</th><code>--attention-backend FA</code><figure class="chart"><svg role="img" aria-label="a">', WORDS["zh"])
    assert done == '<td></td><th>S</th><code><span class="option">--attention-backend</span> FA</code><figure class="chart"><svg role="img" aria-label="' + WORDS["zh"].page.chart + 'a">'
