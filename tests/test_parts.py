"""Parts between headings: nothing is lost, nothing is cut in two, and a link into one far below arrives."""
import re

import pytest
from core import parts
from hypothesis import given
from hypothesis import strategies as st
from support import LANGUAGES

PAGE = "<nav><h2>not of the article</h2></nav><article class=x><h1 id=a>A</h1>\n<p>seen at once</p>\n<h2 id=b>B</h2>\n<p>one</p>\n<h3 id=c>C</h3>\n<h3 id=d>D</h3><div><p>two</p></div>\n</article><h2>nor this</h2><p>of the footer</p>"

WHERE = """() => {
  const seen = [...document.querySelectorAll("article p, article li, article h2, article h3, article td")].find((e) => e.checkVisibility() && e.getBoundingClientRect().top > 60);
  return [seen.textContent.slice(0, 80), seen.getBoundingClientRect().top];
}"""   # the first text below the header, and where it stands


def test_what_stands_between_two_headings_is_a_part():
    made = parts.divide(PAGE)
    bodies = re.findall(r'</h\d><div class="part" style="--wide:\d+rem;--narrow:\d+rem">(.*?)</div>(?=<h|</article>)', made, re.S)
    assert made.count('<div class="part"') == 2
    assert bodies == ["\n<p>one</p>\n", "<div><p>two</p></div>\n"]
    assert "<article class=x><h1 id=a>A</h1>\n<p>seen at once</p>\n<h2 id=b>B</h2><div" in made, "what follows the title is laid out at once"


def test_a_heading_inside_a_box_opens_no_part():
    box = "<article><h1>A</h1><h2>B</h2><details><summary>s</summary><h3>C</h3><p>in the box</p></details><p>behind</p><h2>D</h2><p>d</p></article>"
    made = parts.divide(box)
    assert made.count('<div class="part"') == 2 and "</details><p>behind</p></div><h2>D</h2>" in made


@given(st.lists(st.sampled_from(["<h2>x</h2>", "<h3>y</h3>", "<p>t</p>", "<div>", "</div>", "<details>", "</details>", "<table>", "</table>", "text"]), max_size=30))
def test_nothing_is_lost_and_nothing_is_cut_in_two(pieces):
    content = "<article><h1>A</h1>" + "".join(pieces) + "</article>"
    made = parts.divide(content)
    assert re.sub(r'<div class="part" [^>]*>', "", made).replace("</div>", "") == content.replace("</div>", "")
    assert made.count("<div") - made.count("</div") == content.count("<div") - content.count("</div")


def test_more_text_is_higher_and_higher_still_on_a_phone():
    one, two = parts.estimate("<p>" + "word " * 100 + "</p>"), parts.estimate("<p>" + "word " * 200 + "</p>")
    assert two[0] > one[0] and two[1] > one[1] and one[1] > one[0]
    assert parts.estimate("<p>" + "字" * 100 + "</p>") == parts.estimate("<p>" + "ab" * 100 + "</p>"), "a Chinese character is as wide as two letters"
    shut, opened = (parts.estimate(f"<details{state}><summary>s</summary><p>{'word ' * 100}</p></details>") for state in ("", " open"))
    assert shut[0] < one[0] < opened[0] and parts.estimate("<script>" + "x" * 9999 + "</script>") == (0, 0)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", (390, 1440))
def test_a_link_into_what_was_not_laid_out_arrives(chromium, served, lang, width):
    """By an address and by a click, to headings and into the middle of a part; and back again to where one was."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    address = f"{served}{lang}/lesson/"

    def top(anchor):
        return page.evaluate("anchor => document.getElementById(anchor).getBoundingClientRect().top", anchor)

    page.goto(address, wait_until="networkidle")
    anchors = page.evaluate("""() => {
      const headings = [...document.querySelectorAll("article > :is(h2, h3)[id]")].map((e) => e.id);
      const inside = [...document.querySelectorAll("article .part [id]")].filter((e) => !e.id.startsWith("__") && !e.closest("svg, pre, [data-widget]")).map((e) => e.id);
      return [...headings.filter((id, at) => at % 5 === 0 || id === "tiling"), inside.at(-1)].filter(Boolean);
    }""")
    assert len(anchors) > 6 and "tiling" in anchors
    for anchor in anchors:
        for way in ("address", "click"):
            page.goto("about:blank")
            page.goto(address + (f"#{anchor}" if way == "address" else ""), wait_until="networkidle")
            if way == "click":
                page.evaluate("anchor => { const link = document.createElement('a'); link.href = `#${anchor}`; document.querySelector('article').prepend(link); link.click(); }", anchor)
            page.wait_for_timeout(700)
            end = page.evaluate("document.documentElement.scrollHeight - innerHeight - scrollY < 2")
            assert 0 <= top(anchor) < (844 if end else 200), f"#{anchor} by {way}: {top(anchor):.0f} px below the window's top"
    context.close()


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", (390, 1440))
def test_a_reload_and_the_way_back_lead_to_where_one_was(chromium, served, lang, width):
    context = chromium.new_context(viewport={"width": width, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{served}{lang}/lesson/", wait_until="networkidle")
    for _ in range(20):
        page.mouse.wheel(0, 1400)
        page.wait_for_timeout(30)
    page.wait_for_timeout(200)
    text, top = page.evaluate(WHERE)
    assert page.evaluate("scrollY") > 20_000
    for way in ("reload", "back", "reload again"):
        if way == "back":
            page.goto(f"{served}{lang}/glossary/", wait_until="networkidle")
            page.go_back(wait_until="networkidle")
        else:
            page.reload(wait_until="networkidle")
        page.wait_for_timeout(700)
        now = page.evaluate(WHERE)
        assert now[0] == text and abs(now[1] - top) < 3, f"{way}: {now}, not {[text, top]}"
    context.close()


def test_a_link_to_another_page_moves_nothing_here(chromium, served):
    """On the way out it does not lead back to where the address points."""
    context = chromium.new_context(viewport={"width": 1440, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{served}en/lesson/#tiling", wait_until="networkidle")
    for _ in range(8):
        page.mouse.wheel(0, 1400)
        page.wait_for_timeout(30)
    page.wait_for_timeout(400)
    before = page.evaluate(WHERE)
    page.evaluate("""() => {
      const link = Object.assign(document.createElement("a"), { href: "../glossary/#lse" });
      link.addEventListener("click", (event) => event.preventDefault());   // the page stays, as it does until the next one answers
      document.querySelector(".md-footer").append(link);
      link.click();
      link.remove();
    }""")
    page.wait_for_timeout(300)
    assert page.evaluate(WHERE) == before
    context.close()


def test_who_scrolls_before_all_has_loaded_is_not_taken_back(chromium, served):
    context = chromium.new_context(viewport={"width": 1440, "height": 844}, reduced_motion="reduce")
    page = context.new_page()
    page.route("**/*.woff2", lambda route: (page.wait_for_timeout(1500), route.continue_()))
    page.goto(f"{served}en/lesson/#tiling", wait_until="domcontentloaded")
    page.wait_for_timeout(100)
    for _ in range(5):
        page.mouse.wheel(0, 1400)
        page.wait_for_timeout(30)
    page.wait_for_load_state("load")
    page.wait_for_timeout(700)
    assert page.evaluate("document.getElementById('tiling').getBoundingClientRect().top") < -3000
    context.close()


def test_an_address_with_a_broken_anchor_breaks_no_script(chromium, served):
    context = chromium.new_context()
    page = context.new_page()
    said = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{served}en/lesson/#%E0%A4%A", wait_until="networkidle")
    page.locator(".widget-stepper .stage").wait_for()
    context.close()
    assert not said, said
