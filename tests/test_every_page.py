"""Every built page in a real browser, on a desktop, on a phone and at 200 %: loads clean, nothing lies on anything, all that can be clicked is reached by Tab.

Every page of the sources, one browser context for each view.
"""
import pathlib
from urllib.parse import urljoin, urlsplit

import pytest
from support import LANGUAGES, PAGES, SITE_URL

HOLDS = (pathlib.Path(__file__).parent / "every_page.js").read_text("utf-8")
VIEWS = {   # 200 % of a window is half as many pixels, each twice as large
    "desktop": {"viewport": {"width": 1440, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "200 percent": {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2},
}


NOWHERE = ["404.html", *(f"{lang}/404.html" for lang in LANGUAGES)]


@pytest.fixture(scope="module", params=VIEWS)
def view(request, chromium):
    """(name, page) of one browser context for all pages. `page.said` is what the browser complained of, `page.base` where it may ask."""
    context = chromium.new_context(locale="en-US", reduced_motion="reduce", **VIEWS[request.param])
    page = context.new_page()
    page.said, page.base = [], ""
    page.on("console", lambda m: m.type in ("error", "warning") and page.said.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.said.append(f"error: {e}"))
    page.on("response", lambda r: r.status >= 400 and page.said.append(f"{r.status} {r.url}"))
    page.on("requestfailed", lambda r: page.said.append(f"failed: {r.url}: {r.failure}"))
    page.on("request", lambda r: r.url.startswith((page.base, "data:", "blob:")) or page.said.append(f"foreign: {r.url}"))
    yield request.param, page
    context.close()


def test_no_built_page_is_left_out(site):
    built = {path.relative_to(site).as_posix().removesuffix("index.html") for path in site.rglob("*.html")}
    assert built == {*PAGES, *NOWHERE, ""}   # the root page leads on at once: test_browser.py


@pytest.mark.parametrize("path", [*PAGES, *NOWHERE])
def test_a_page_holds(view, served, path):
    name, page = view
    page.goto("about:blank")
    page.said.clear()
    # Where no page is, the host gives 404.html from any depth: its links lead to the published address.
    page.base = urljoin(served, urlsplit(SITE_URL).path) if path in NOWHERE else served
    page.goto(page.base + path, wait_until="networkidle")
    page.evaluate(HOLDS)
    found = []
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("the page scrolls sideways")
    if page.evaluate("document.querySelector('.katex-error, .arithmatex') !== null"):
        found.append("a formula was not rendered")
    if name == "desktop":
        found += on_paper(page)
    page.evaluate("holds.openAll()")
    found += page.evaluate("holds.overlaps()") + page.evaluate("holds.covered()")
    if name == "desktop":
        found += by_keyboard(page)
    found += page.said
    assert not found, "\n".join(found)


BROKEN = {   # what each check must see, made in a page that is right: script → a part of the finding
    "text on text": ("document.querySelectorAll('article p')[1].style.marginTop = '-2.5em'", "overlaps", "lies on"),
    "a button on text": ("document.querySelector('article p').insertAdjacentHTML('beforebegin', '<button style=\"position: absolute\">on top of it</button>')", "overlaps", "on top of it"),
    "a veil over a link": ("document.querySelector('article p a').parentElement.insertAdjacentHTML('afterbegin', '<span style=\"position: absolute; inset: 0; z-index: 9\"></span>'); document.querySelector('article p a').parentElement.style.position = 'relative'", "covered", "is covered by <span>"),
    "a control that Tab passes by": ("document.querySelector('article p a').tabIndex = -1", "keyboard", "not reached by Tab"),
    "a picture that takes clicks": ("document.querySelector('article p').insertAdjacentHTML('beforebegin', '<div style=\"cursor: pointer\">more</div>')", "keyboard", '<div> "more" can be clicked'),
    "focus that is not seen": ("document.adoptedStyleSheets = [new CSSStyleSheet()]; document.adoptedStyleSheets[0].replaceSync('article a:focus { outline: none !important; color: var(--md-typeset-a-color) !important; box-shadow: none !important }')", "keyboard", "looks the same with and without the focus"),
    "cut off on paper": ("document.querySelector('article p').style.cssText = 'white-space: nowrap; overflow-x: hidden'", "paper", "is cut off on paper"),
    "pale on paper": ("document.querySelector('article p').style.color = '#ddd'", "paper", "printed pale"),
    "menus on paper": ("document.querySelector('.md-header').style.setProperty('display', 'block', 'important')", "paper", "is printed"),
}


def test_the_checks_see_what_is_broken(chromium, served):
    context = chromium.new_context(reduced_motion="reduce", **VIEWS["desktop"])
    page = context.new_page()
    checks = {"overlaps": lambda: page.evaluate("holds.overlaps()"), "covered": lambda: page.evaluate("holds.covered()"), "keyboard": lambda: by_keyboard(page), "paper": lambda: on_paper(page)}
    blind = []
    for name, (script, check, finding) in BROKEN.items():
        page.goto(served + "en/versions/", wait_until="networkidle")
        page.evaluate(HOLDS)
        page.evaluate(f"() => {{ {script} }}")
        found = checks[check]()
        if not any(finding in line for line in found):
            blind.append(f"{name}: {check} found {found[:3]}")
    context.close()
    assert not blind, "\n".join(blind)


def on_paper(page):
    """What is wrong on a sheet of A4, printed from the dark theme."""
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 794, "height": 1123})
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    found = page.evaluate("holds.paper()")
    page.evaluate("document.body.dataset.mdColorScheme = 'default'")
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size(VIEWS["desktop"]["viewport"])
    return found


def by_keyboard(page):
    """What Tab, held down from the page's top until it leaves the page, did not reach or did not show."""
    page.evaluate("document.activeElement.blur()")
    stops = page.evaluate("holds.listen()")
    leave = page.locator("textarea").count() > 0   # an editor keeps Tab for itself until Escape, and says so
    for _ in range(stops // 20 + 2):
        for _ in range(20):
            if leave:
                page.keyboard.press("Escape")
            page.keyboard.down("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    return page.evaluate("holds.missed()")
