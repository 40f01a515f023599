"""Real browser: copy buttons give the tested source, the switcher keeps its place."""
import re
import subprocess
import sys

import fences
import pytest
from support import LANGUAGES, PAGES, TOP

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def page(chromium, served):
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"], locale="en-US")
    page = context.new_page()
    page.problems = []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("response", lambda r: r.status >= 400 and page.problems.append(f"{r.status} {r.url}"))
    page.on("request", lambda r: r.url.startswith((served, "data:", "blob:")) or page.problems.append(f"foreign: {r.url}"))
    yield page
    assert not page.problems, page.problems
    context.close()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_copy_gives_the_source_and_a_copied_file_runs(page, served, lang, tmp_path):
    page.goto(served + f"{lang}/lesson/", wait_until="networkidle")
    expected = fences.rendered((TOP / "docs" / lang / "lesson.md").read_text("utf-8"))
    blocks = page.locator(".md-content .highlight")
    assert blocks.count() == len(expected)
    for i, fence in enumerate(expected):
        block = blocks.nth(i)
        block.evaluate("block => { for (let e = block; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true }")
        if fence.language == "text":
            assert block.locator("button").count() == 0, f"output at line {fence.line} offers to copy"
            continue
        block.locator("button.md-code__button[data-md-type=copy]").click()
        copied = page.evaluate("navigator.clipboard.readText()")
        if "{{" not in fence.code:
            assert copied.rstrip("\n") == fence.code.rstrip("\n"), f"block at line {fence.line}"
        assert not any(line != line.rstrip() for line in copied.splitlines()), f"blanks at a line's end, block at line {fence.line}"
    printed = {fence.title.removeprefix("python "): fence.code for fence in expected if fence.language == "text" and re.fullmatch(r"python \w+\.py", fence.title or "")}
    assert len(printed) == 2
    for name, said in printed.items():   # the name above a block leads to the whole file
        address = page.locator(f'.highlight > .filename a:text-is("{name}")').first.evaluate("a => a.href")
        (tmp_path / name).write_bytes(page.request.get(address).body())
        run = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0 and run.stdout.rstrip("\n") == said.rstrip("\n"), run.stdout + run.stderr


@pytest.mark.parametrize("path", PAGES)
def test_the_switcher_keeps_page_and_anchor_both_ways(page, served, path):
    """The reader scrolls, with no anchor in the address; the heading above what is read comes into view in the other language, and back."""
    lang = path[:2]
    other = {"en": "zh", "zh": "en"}[lang]
    page.goto(served + path)
    anchor = page.evaluate("""async () => {
        const all = [...document.querySelectorAll("article h2[id]")], heading = all[Math.floor(all.length / 2)];
        for (let n = 0; heading && n < 3; n++) { heading.scrollIntoView({ behavior: "instant" }); await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }
        return heading && scrollY ? heading.id : "";
    }""")
    seen = page.evaluate("[...document.querySelectorAll('article :is(h2, h3, h4)[id]')].filter((e) => { const { top } = e.getBoundingClientRect(); return top > -1 && top < innerHeight; }).map((e) => e.id)")
    for to in (other, lang):
        page.click(f"a[data-language={to}]")
        page.wait_for_url(lambda url, to=to: url.startswith(served + to + path[2:]))
        page.wait_for_load_state()
        if anchor:
            assert page.url.partition("#")[2] in seen, page.url
            page.wait_for_function("() => { const { top } = document.querySelector(':target').getBoundingClientRect(); return top > -1 && top < innerHeight; }")


def test_the_root_page_follows_the_browser_and_remembers_the_reader(chromium, served):
    for locale, lang in (("zh-CN", "zh"), ("en-GB", "en"), ("fr-FR", "en")):
        context = chromium.new_context(locale=locale)
        page = context.new_page()
        page.goto(served)
        page.wait_for_url(served + lang + "/")
        other = {"en": "zh", "zh": "en"}[lang]
        page.click(f"a[data-language={other}]")
        page.wait_for_url(served + other + "/")
        page.goto(served)
        page.wait_for_url(served + other + "/")
        context.close()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(served)
    assert page.locator("nav.choice a").all_inner_texts() == ["English", "简体中文"]
    context.close()


@pytest.mark.parametrize("lang, queries", [("en", ["online softmax", "out of memory"]), ("zh", ["在线 softmax", "显存", "共享内存", "分块"])])
def test_search_has_hits(page, served, lang, queries):
    page.goto(served + f"{lang}/", wait_until="networkidle")
    for query in queries:
        page.goto(served + f"{lang}/?q={query}", wait_until="networkidle")
        page.wait_for_selector(".md-search-result__item", state="attached", timeout=10_000)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_answers_open_by_keyboard(page, served, lang):
    page.goto(served + f"{lang}/lesson/#self-test")
    answer = page.locator("#self-test + .part details").first
    assert not answer.evaluate("e => e.open")
    answer.locator("summary").focus()
    page.keyboard.press("Enter")
    assert answer.evaluate("e => e.open")
