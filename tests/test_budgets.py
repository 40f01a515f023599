"""Budgets of what a reader's first visit fetches and of how steady the page stands, from a server that compresses as GitHub Pages does. Printed, and held.

Weights are what the server sent, headers included. The search, its worker and its index, comes when the reader turns to it (js/late.js).
"""
import json
import re
import sys
import time

import audit
import growth
import pytest
from support import LANGUAGES, TOP, copied


WEIGHT, SCRIPT, REQUESTS, SHIFT, AT_ONCE = 250_000, 60_000, 30, 0.02, 3_500
BUILD = 10   # seconds of processor time; a warm build takes 7.5 and the clock of a quiet machine shows about as much
VIEWS = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
# Every shift that no click or key caused, as the browser reports it. Wheel and scroll count as no input.
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => { for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push([entry.value,
  entry.sources.map(({ node }) => node?.nodeType === 1 ? `<${node.tagName.toLowerCase()} class="${node.className}">` : (node?.textContent ?? "what has left the page").trim().slice(0, 40))]); })
  .observe({ type: "layout-shift", buffered: true });
"""
# Down the page by half screens, and up again.
SCROLL = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight / 2) { scrollTo({ top: y, behavior: "instant" }); await frame(); }
  scrollTo({ top: 0, behavior: "instant" });
  await frame();
}"""


class Late(audit.Compressed):
    """Every file takes a fifth of a second, as on a slow line: what the page asks for late arrives after it is drawn."""

    def do_GET(self):
        time.sleep(0.2)
        super().do_GET()


class Counted(audit.Compressed):
    """Keeps what it sent: [(path, bytes with headers)]. The browser's own count misses what workers fetch."""

    sent = []

    def send_header(self, name, value):
        super().send_header(name, value)
        if name == "Content-Length":
            self.body = int(value)

    def end_headers(self):
        self.sent.append((self.path.lstrip("/"), sum(map(len, self._headers_buffer)) + 2 + self.body))
        super().end_headers()


@pytest.fixture(scope="module")
def host(site):
    """Function (handler) → address of a server of the built site."""
    servers = []

    def start(handler):
        servers.append(audit.serve(site, handler))
        return f"http://127.0.0.1:{servers[-1].server_port}/"

    yield start
    for server in servers:
        server.shutdown()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_first_visit_of_the_lesson_is_light(chromium, host, lang, capsys):
    handler = type("CountedHere", (Counted,), {"sent": []})
    context = chromium.new_context(viewport=VIEWS["desktop"])
    page = context.new_page()
    page.goto(f"{host(handler)}{lang}/lesson/", wait_until="networkidle")
    page.evaluate(SCROLL)   # what is fetched on the way down counts too
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)
    fonts = page.evaluate("performance.getEntriesByType('resource').filter((e) => /KaTeX_(Main-Regular|Math-Italic)/.test(e.name)).map((e) => e.initiatorType)")
    context.close()
    assert fonts == ["link", "link"], f"the two fonts that set how wide a formula is come by {fonts}: fetched with the page (theme/main.html), no line breaks anew"
    files = sorted(((size, path) for path, size in handler.sent), reverse=True)
    scripts = [(size, path) for size, path in files if path.endswith((".js", ".mjs", ".wasm"))]
    listed = "\n".join(f"{size:>12,}  {path}" for size, path in files)
    rows = [("the page", sum(size for size, _ in files), WEIGHT), ("its script before any click", sum(size for size, _ in scripts), SCRIPT), ("requests", len(files), REQUESTS)]
    with capsys.disabled():
        print(f"\n{lang}/lesson/, first visit{'bytes':>20}{'budget':>10}")
        print("\n".join(f"  {what:<28}{is_:>10,}{budget:>10,}" for what, is_, budget in rows))
    paths = [path for _, path in files]
    assert f"{lang}/lesson/" in paths and f"{lang}/js/site.js" in paths and any(path.endswith(".woff2") for path in paths), listed
    assert not [path for path in paths if re.search("search_index|/workers/|/lunr/", path)], f"the search was fetched before anybody turned to it:\n{listed}"
    for what, is_, budget in rows:
        assert 0 < is_ <= budget, f"{what}: {is_:,}, budget {budget:,}. Heaviest first:\n{listed}"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("view", VIEWS)
def test_what_lies_far_below_is_laid_out_later_in_a_space_of_its_height(chromium, host, site, lang, view, capsys):
    """The first paint waits for few elements, and the scroll bar tells where one is (core/parts.py)."""
    address, context = host(audit.Compressed), chromium.new_context(viewport=VIEWS[view])
    page = context.new_page()
    rows = []
    for path in sorted(path.parent.relative_to(site).as_posix() + "/" for path in (site / lang).rglob("index.html")):
        page.goto(address + path)
        rows.append([path, *page.evaluate("""async () => {
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const height = () => document.documentElement.scrollHeight, every = [...document.body.querySelectorAll("*")], estimated = height();
          const now = every.filter((e) => e.checkVisibility({ contentVisibilityAuto: true })).length;
          for (const part of document.querySelectorAll(".part")) part.style.contentVisibility = "visible";
          const tall = [...document.querySelectorAll("figure")].filter((figure) => figure.firstElementChild.getBoundingClientRect().height > (innerWidth > 1000 ? 800 : innerHeight) - 48).map((figure) => figure.textContent.trim().slice(-60));
          return [now, every.length, estimated / height(), tall];
        }""")])
    context.close()
    high = [f"{path}: {figure}" for path, *_, tall in rows for figure in tall]
    assert not high, f"higher than the window, at {VIEWS[view]}: {high}"
    rows = [row[:4] for row in rows]
    with capsys.disabled():
        print(f"\n{lang}, {view}: most elements laid out at once (budget {AT_ONCE:,}): " + ", ".join(f"{path} {now:,} of {every:,}" for path, now, every, _ in sorted(rows, key=lambda row: -row[1])[:3]))
        low, high = (pick(rows, key=lambda row: row[3]) for pick in (min, max))
        print(f"  estimated heights against real ones: {low[0]} {low[3]:.2f} to {high[0]} {high[3]:.2f}")
    assert len(rows) > 10
    for path, now, every, ratio in rows:
        assert 100 < now <= AT_ONCE, f"{path}: {now:,} of {every:,} elements"
        assert 0.85 < ratio < 1.18, f"{path}: estimated {ratio:.2f} times as high as it is (docs/hooks/core/parts.py, EACH)"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_moves_under_the_reader(chromium, host, site, lang, view, capsys):
    address = host(Late)
    context = chromium.new_context(viewport=VIEWS[view], has_touch=view == "phone")
    context.add_init_script(SHIFTS)
    page = context.new_page()
    rows, wrong = [], []
    for path in sorted(path.parent.relative_to(site).as_posix() + "/" for path in (site / lang).rglob("index.html")):
        page.goto(address + path, wait_until="networkidle")
        page.evaluate(SCROLL)
        shifts = page.evaluate("shifts")
        score = sum(value for value, _ in shifts)
        rows.append((score, path))
        if score > SHIFT:
            wrong.append(f"{path} ({view}): {score:.3f}, at most {SHIFT}: {json.dumps(sorted(shifts, reverse=True)[:4], ensure_ascii=False)}")
    context.close()
    with capsys.disabled():
        print(f"\n{lang}, {view}: largest layout shifts (budget {SHIFT}): " + ", ".join(f"{path} {score:.4f}" for score, path in sorted(rows, reverse=True)[:3]))
    assert len(rows) > 10 and not wrong, "\n".join(wrong)


@pytest.mark.alone
def test_a_warm_build_is_quick_and_a_page_costs_as_much_among_many(tmp_path, capsys):
    tree = copied(tmp_path / "tree")
    growth.seconds(tree, 0)   # fills the cache of rendered notebooks
    empty, few, many = (growth.seconds(tree, pages) for pages in (0, 60, 240))
    first, later = (few - empty) / 60, (many - few) / 180
    with capsys.disabled():
        print(f"\nwarm strict build: {empty:.1f} s of processor time (budget {BUILD}); {first * 1000:.0f} ms for each of 60 more pages, {later * 1000:.0f} ms for each of 180 on top")
    assert empty <= BUILD, f"{empty:.1f} s of processor time, budget {BUILD}: `python -m cProfile -s cumulative -m mkdocs build` says where it goes"
    assert later <= 2 * max(first, 0.02), f"a page costs {first * 1000:.0f} ms among 60 and {later * 1000:.0f} ms among 240: what is done for each page grows with their number"
