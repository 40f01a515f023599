"""The quiz: what its questions must hold, its key a second time, its numbers against the labs' Python, and the page in a real browser."""
import json
import math
import random
import re
import struct

import pytest
import test_claims as claims
from core import quiz, tex, widgets
from core.book import Book, Place
from core.errors import PageError
from core.measured import Numbers
from support import LANGUAGES, TOP, WORDS, bundled, said, violations
from test_parity import chinese_fault

roofline, decode, memory = map(bundled, ("attention_roofline", "decode_attention", "flash_vs_naive_memory"))
FILE = TOP / "docs/quiz/lesson.yml"
TEXT = FILE.read_text("utf-8")
QUESTIONS = {question["id"]: question for question in quiz.load("lesson", TEXT, LANGUAGES)}
CHOICES = {name: question for name, question in QUESTIONS.items() if "choices" in question}
NUMBERS = {name: question for name, question in QUESTIONS.items() if "number" in question}
MIB, GIB = 2**20, 2**30
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

KEY = {   # a second time, by hand: a slip in the file must not pass for an answer. Ids say what a choice says; its words are free
    "why-faster": "bytes", "bytes-not-time": "on-chip", "read-once": "dram", "parts-without-max": "no-scale", "lse-merge": "mean-log", "rescale-forgotten": "max-first",
    "fixed-base": "nan", "loops": "state-stays", "causal-short": "longest-block", "closer": "scores", "more-flops": "rescale-more", "naive-longer": "same",
    "short-prompt": "partials", "gqa-memory": "no-less", "unsplit": "slower", "more-users": "unchanged", "backward-p": "lse-kept", "delta": "do-o", "mask-gqa": "math",
    "proof": "profiler", "alignment": "oldest", "clock": "queueing", "first-row": "library", "named-backend": "fails", "chunk": "strip", "fa3-overlap": "overlap", "fa4-base": "cancels",
}

SEE = {   # and where it is proven
    "lesson": "why-faster#intuition parts-without-max#online-softmax lse-merge#online-softmax causal-short#tiling more-flops#tiling short-prompt#lab-result gqa-memory#lab-result proof#lab-kernel naive-peak#score-matrix flash-peak#lab-predict largest-s#lab-oom",
    "roofline": "bytes-not-time#flash-sits read-once#l2 naive-longer#s2-bytes floor-intensity#prefill-decode", "pitfalls": "rescale-forgotten#no-rescale fixed-base#no-running-max alignment#causal-alignment clock#timing first-row#memory-baseline",
    "versions": "loops#fa2 fa3-overlap#fa3 fa4-base#fa4", "measured": "closer#accuracy mask-gqa#dispatch", "decode": "unsplit#split-kv more-users#intensity decode-time#intensity", "backward": "backward-p#kept delta#gradients", "vllm": "named-backend#choosing chunk#prefill",
}


def texts(question, lang):
    """Every text of a question in a language, in order; 90% in Chinese is 90 % (test_typography.py)."""
    return [re.sub(r"(?<=\d)%", " %", text) for text in _texts(question, lang)]


def _texts(question, lang):
    if "number" in question:
        return [question[lang], question["number"]["why"][lang], *(slip[lang] for slip in question["number"]["slips"])]
    return [question[lang], *(text for choice in question["choices"] for text in (choice[lang], choice["why"][lang]))]


# The file.


def test_the_key_is_the_one_written_here():
    assert len(QUESTIONS) >= 22 and len(NUMBERS) >= 4
    assert {name: next(c["id"] for c in question["choices"] if "right" in c) for name, question in CHOICES.items()} == KEY


def test_an_answer_leads_to_where_it_is_proven():
    assert {name: question["see"] for name, question in QUESTIONS.items()} == {name: f"{page}.md#{anchor}" for page, pairs in SEE.items() for name, anchor in (pair.split("#") for pair in pairs.split())}


def test_the_whole_site_is_asked():
    pages = {question["see"].partition("#")[0] for question in QUESTIONS.values()}
    assert pages == {f"{name}.md" for name in ("lesson", "roofline", "decode", "backward", "measured", "pitfalls", "versions", "vllm")}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_length_does_not_give_the_answer_away(lang):
    longest = 0
    for name, question in CHOICES.items():
        lengths = {choice["id"]: len(re.sub(r"`", "", choice[lang])) for choice in question["choices"]}
        others = [length for choice, length in lengths.items() if choice != KEY[name]]
        assert lengths[KEY[name]] <= max(1.35 * max(others), max(others) + 6), f"{name}: the right choice is much the longest: {lengths}"
        longest += lengths[KEY[name]] > max(others)
    assert longest <= 0.5 * len(CHOICES), f"in {longest} of {len(CHOICES)} questions the right choice is the longest"


@pytest.mark.parametrize("name", QUESTIONS)
def test_both_languages_say_the_same_with_the_same_numbers_code_and_links(name):
    for en, zh in zip(texts(QUESTIONS[name], "en"), texts(QUESTIONS[name], "zh")):
        counted = {"1", "2", "3", "4"}   # which one language may say in words
        for pattern in (r"`[^`]*`", r"\$[^$]*\$", r"\{\{.*?\}\}", r"\]\([^)]*\)", r"\{\w+\}", r"\d[\d.,]*\d|\d"):
            assert set(re.findall(pattern, en)) - counted == set(re.findall(pattern, zh)) - counted, f"{name}: {en} / {zh}"
        assert not (fault := chinese_fault(zh)), f"{name}: {fault} in: {zh}"
        assert not re.search(r"[\u4e00-\u9fff]", en) and not re.search(r"[—–]", en), f"{name}: {en}"


FIGURES = {   # typed in the quiz: the figure as written, its value in that unit
    "62 FLOP": roofline.attention_flops(1, 28, 4096, 128) / (memory.naive_bytes(1, 28, 28, 4096, 128) + 2 * 28 * 4096**2 * 2),
    "2048 FLOP": roofline.attention_flops(1, 28, 4096, 128) / roofline.floor_bytes(1, 28, 4096, 128),
    "164": 165.2e12 / 1008e9, "0.8 %": 100 / (2 * 64), "0.37": math.exp(-1), "3.8 %": 100 * (math.exp(0.25 / math.sqrt(128) + 2**-6) - 1), "28 KiB": 4 * 28 * 256 / 2**10,
    "896 MiB": 28 * 4096**2 * 2 / MIB, "28 MiB": roofline.floor_bytes(1, 28, 1024, 128) / MIB, "112": 28 * 256 / 64, "256 MiB": decode.kv_bytes(1, 4, 131072, 128) / MIB, "2.7 %": 100 * 7 / 256,
    "904": 5000 - 2 * 2048, "8": 1024 / 128, "43 %": 100 * (1 - decode.kv_bytes(1, 28 + 4, 4096, 128) / decode.kv_bytes(1, 56, 4096, 128)),
    "7": 4 * 28 * 128 / (2 * 4 * 128 * 2), "256": 2**8,
}
OTHERS = {"13 %": "FlashAttention-1, Fig. 2", "0.05 ms": "an invented reading of a clock", "2 MiB": "less than: a block of PyTorch's allocator", "24 GiB": "a card", "1008 GB/s": "a data sheet"}


def spaced(text):
    """Chinese puts no space before a per cent sign."""
    return re.sub(r"(?<=\d)%", " %", text)


@pytest.mark.parametrize("figure", FIGURES)
def test_typed_arithmetic_is_the_value_of_its_expression_and_stands_in_both_languages(figure):
    number = re.match(r"[\d.]+", figure)[0]
    assert abs(FIGURES[figure] - float(number)) <= 0.5000001 * 10 ** -len(number.partition(".")[2]), FIGURES[figure]
    for lang in LANGUAGES:
        assert any(re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d]|\.\d)", spaced(text)) for question in QUESTIONS.values() for text in texts(question, lang)), f"'{figure}' stands nowhere in {lang}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_figure_is_typed_that_nothing_recomputes(lang):
    for name, question in QUESTIONS.items():
        for text in texts(question, lang):
            for figure in re.findall(r"(?<![\w.])\d[\d,.]* (?:[KMG]iB|[MG]B|GB/s|ms|µs|s|%|G?FLOP)(?![A-Za-z/])", re.sub(r"\{\{.*?\}\} ?\w*", "", spaced(text))):
                assert figure in FIGURES or figure in OTHERS, f"{name}: '{figure}' is typed: recompute it in FIGURES"


def test_answers_that_can_be_computed_are_so():
    o, weights = (1.0, 3.0), [math.exp(2 - 2)] * 2
    assert sum(w * x for w, x in zip(weights, o)) / sum(weights) == sum(o) / 2 and math.log(math.exp(2) + math.exp(2)) == pytest.approx(2 + math.log(2))
    assert struct.unpack("f", struct.pack("f", math.exp(-150)))[0] == 0 < struct.unpack("f", struct.pack("f", math.exp(-100)))[0], "fixed-base: underflow in fp32"
    assert memory.flash_bytes(1, 28, 28, 256, 128) > memory.naive_bytes(1, 28, 28, 256, 128) and memory.kv_splits(1, 28, 256, 128, 132) > 1
    assert memory.naive_bytes(1, 28, 4, 4096, 128) >= memory.naive_bytes(1, 28, 28, 4096, 128)
    intensity = [roofline.attention_flops(1, 28, S, 128) / roofline.naive_traffic(1, 28, S, 128) for S in (4096, 32768)]
    assert intensity[1] < 1.05 * intensity[0]
    per_byte = {B: 4 * 28 * 4096 * 128 * B / decode.kv_bytes(B, 4, 4096, 128) for B in (1, 2, 64)}
    assert set(per_byte.values()) == {7.0}


def test_answers_that_rest_on_results_are_borne_by_them():
    assert claims.row("sdpa_dispatch", part="dispatch", case="GQA + boolean mask")["no_cudnn_backend"] == "math"
    assert claims.row("sdpa_dispatch", part="dispatch", case="boolean mask")["no_cudnn_backend"] == "efficient"
    assert claims.row("sdpa_dispatch", part="dispatch", case="GQA")["no_cudnn_backend"] == "flash"
    assert claims.row("decode_attention", part="trap", impl="default")["sees"] == "key 0"
    assert claims.decode("single")[1, 131072] > claims.decode("grouped")[1, 131072]
    flash = {row["S"]: row["ms"] for row in claims.rows("attention_roofline", part="grid", impl="flash") if row["causal"]}
    full = {row["S"]: row["ms"] for row in claims.rows("attention_roofline", part="grid", impl="flash") if not row["causal"]}
    assert flash[1024] > 0.95 * full[1024] and flash[16384] < 0.6 * full[16384]
    relative = {rounded: claims.row("attention_error", part="ablation", dtype="bf16", rounded=rounded)["rel_err"] for rounded in ("scores", "p")}
    assert claims.row("decode_attention", part="trap", impl="flash")["sees"] == "refused"
    assert relative["scores"] > 1.5 * relative["p"]
    assert all("pytorch_flash::flash_fwd_kernel<" in row["kernel_full"] for row in claims.rows("ring_attention", part="grid")), "proof: PyTorch's namespace"
    assert claims.row("attention_roofline", part="grid", impl="cudnn", S=4096, causal=False)["ms"] < full[4096]


# What the build refuses.

GOOD = """
- id: one
  see: lesson.md#here
  en: Which?
  zh: 哪个？
  choices:
  - {id: a, en: This, zh: 这个, why: {en: No., zh: 不是。}}
  - {id: b, right: true, en: That, zh: 那个, why: {en: Yes., zh: 是。}}
  - {id: c, en: None, zh: 都不是, why: {en: No., zh: 不是。}}
- id: two
  see: lesson.md
  en: How many at {S}?
  zh: "{S} 时多少？"
  number: {unit: MiB, within: 1, example: {S: 1, answer: "2"}, why: {en: "2 at {S}.", zh: "{S} 时是 2。"}, slips: [{id: s, en: Half., zh: 一半。}]}
"""


def numbers(text=GOOD, lang="en"):
    pages = {"lesson.md": "# Lesson { #top }\n\n```text\n## Not { #code }\n```\n\n## 1. Here `x` { #here }\n", "index.md": "# Home\n"}
    result = {"lab": "lab", "stale": False, "machine": {"gpu": "Card"}, "software": {"torch": "2"}, "run": {"started": "2026-11-29"}, "values": {"x": 42}, "rows": []}
    return Numbers(Book(results={("card", "lab"): result}, pages={lang: pages}, quizzes={"q": text}, words=WORDS), Place(lang, "lesson.md", "../../", "", "card"))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_good_file_is_rendered_in_the_page_language(lang):
    made = widgets.render("quiz", {"name": "q"}, numbers(lang=lang))
    assert made.count("<details>") == 2 and made.count(" data-right") == 1 and '<li data-id="b" data-right>' in made
    assert '<a href="#here">1. Here <code>x</code></a>' in made and f'<a href="../../{lang}/lesson/">Lesson</a>' in made
    assert '<span data-slot="S">1</span>' in made and ("这个" in made) == (lang == "zh") and ("This" in made) == (lang == "en")


def test_inline_markdown_formulas_links_and_measured_numbers():
    made = widgets.render("quiz", {"name": "q"}, numbers(GOOD.replace("en: Which?", 'en: "`a < b` **or** $s_j$ or {{ lab.x }} or [there](index.md) or 1 < 2?"')))
    assert '<code>a &lt; b</code> <strong>or</strong> <span class="arithmatex" data-from="docs/quiz/q.yml, question one">\\(s_j\\)</span> or <data class="measured" value="42" title="Card, torch 2, 2026-11-29">42</data> or <a href="../../en/">there</a> or 1 &lt; 2?' in made


@pytest.mark.parametrize("old, new, complaint", [
    ("- id: one", "- id: One", "question One: it needs an id"),
    ("- id: two", "- id: one", "question one: the id 'one' is taken"),
    ("  zh: 哪个？\n", "", "question one: the question has no text in zh"),
    ("en: Which?", "en: ' '", "question one: the question has no text in en"),
    ("  see: lesson.md#here\n", "", "question one: it lacks 'see'"),
    ("right: true, ", "", "question one: one choice must be right, and none is"),
    ("{id: a, ", "{id: a, right: true, ", "question one: one choice must be right, and a, b are"),
    ("right: true, ", "right: false, ", "write 'right: true', or nothing"),
    (", why: {en: Yes., zh: 是。}", "", r"question one: the explanation \(why\) of choice b has no text in en"),
    ("zh: 这个, ", "", "question one: choice a has no text in zh"),
    ("why: {en: No., zh: 不是。}}\n  - {id: b", "why: {en: No.}}\n  - {id: b", r"the explanation \(why\) of choice a has no text in zh"),
    ("{id: c,", "{id: a,", "the id 'a' is taken"),
    ("en: None,", "en: This,", "two choices are the same in en"),
    ("  - {id: c, en: None, zh: 都不是, why: {en: No., zh: 不是。}}\n", "", "3 to 5 choices"),
    ("  choices:", "  number: {}\n  choices:", "either 'choices' or a 'number'"),
    ("  choices:", "  hint: x\n  choices:", "it has 'hint', which means nothing"),
    ("  en: Which?", "  en: Which?\n  en: Twice?", r"q.yml:\d+: 'en' stands twice"),
    ("  en: Which?", "  en: [Which?", r"q.yml:\d+: "),
    ("lesson.md#here", "lesson.md#there", "question one: the link lesson.md#there leads to no heading"),
    ("lesson.md#here", "lesson.md#code", "question one: the link lesson.md#code leads to no heading"),
    ("lesson.md#here", "lessons.md#here", "question one: the link lessons.md#here leads to no page"),
    ("en: No., zh", "en: 'No, [see](lesson.md#gone).', zh", "question one: the link lesson.md#gone"),
    ('answer: "2"', 'answers: "2"', "question two: its example lacks answer"),
    ("{S: 1, ", "{", "question two: its example lacks S"),
    ("en: How many at {S}?", "en: How many?", "different numbers in braces"),
    ("within: 1,", "within: 5,", "'within' is a number of per cent"),
    ("unit: MiB, ", "", "number lacks 'unit'"),
    (", slips: [{id: s, en: Half., zh: 一半。}]", "", "number lacks 'slips'"),
    ("zh: 一半。", "zh: ''", "slip s has no text in zh"),
], ids=lambda value: value[:30])
def test_a_malformed_question_is_refused_with_its_file_and_id(old, new, complaint):
    assert old in GOOD
    with pytest.raises(PageError, match=complaint) as error:
        widgets.render("quiz", {"name": "q"}, numbers(GOOD.replace(old, new, 1)))
    assert "docs/quiz/q.yml" in str(error.value)


def test_a_formula_that_fails_names_its_question():
    content = widgets.render("quiz", {"name": "q"}, numbers(GOOD.replace("en: Which?", "en: 'Which $\\frac{1$?'")))
    formulas = tex.find(content)
    assert formulas == [("\\frac{1", False)]
    with pytest.raises(PageError, match=r"^docs/quiz/q.yml, question one: formula '\\frac\{1': no$") as error:
        tex.place(content, formulas, [{"error": "no"}], "\\frac{1")
    assert error.value.line is None, "no line of the page"


def test_the_build_refuses_it_too_and_serve_watches_the_file(tree):
    assert re.search(r"^watch: \[.*\bdocs/quiz\b", (TOP / "mkdocs.yml").read_text("utf-8"), re.M)
    tree.edit("docs/quiz/lesson.yml", "see: vllm.md#choosing", "see: vllm.md#no-such-heading")
    run = tree.build()
    assert run.returncode != 0 and re.search(r"docs/en/lesson.md:\d+: docs/quiz/lesson.yml, question named-backend: the link vllm.md#no-such-heading", run.stdout), run.stdout
    tree.edit("docs/quiz/lesson.yml", "see: vllm.md#no-such-heading", "see: vllm.md#choosing")
    tree.edit("docs/quiz/lesson.yml", "workspace_mib }} MiB", "workspace_mib }} GiB")
    run = tree.build()
    assert run.returncode != 0 and re.search(r"question first-row: .*'GiB' is written behind it", run.stdout), run.stdout


# The page.

class Quiz:
    def __init__(self, page, lang):
        self.page, self.lang, self.words = page, lang, WORDS[lang].quiz
        page.locator(".widget-quiz").scroll_into_view_if_needed()
        self.box = page.locator(".widget-quiz")
        if (start := self.box.locator(".start button")).count():
            start.click()
        self.box.locator(".say").wait_for(state="attached")
        self.form, self.say, self.status, self.state = self.box.locator("form:visible"), self.box.locator(".say"), self.box.locator(".status"), self.box.locator(":scope > .state")
        self.restart = self.box.locator(".bar").first.locator("button")
        self.back, self.check, self.next = (self.box.locator(".say + .bar button").nth(i) for i in range(3))

    def name(self):
        return self.form.get_attribute("data-id")

    def order(self):
        return self.form.locator("input[type=radio]").evaluate_all("all => all.map(input => input.value)")

    def radio(self, choice):
        return self.form.locator(f"input[value={choice}]")

    def go(self, name):
        while self.name() != name:
            self.next.click()

    def numbers(self):
        """What the visible question has drawn."""
        slots = self.form.locator("legend [data-slot]").evaluate_all("all => all.map(e => [e.dataset.slot, e.textContent])")
        return {slot: text if slot == "card" else int(text.replace(",", "")) for slot, text in slots}

    def shown(self, slot):
        return self.form.locator(f"[data-slot={slot}]").first.text_content()

    def answer(self, text):
        self.form.locator("input").fill(text)
        self.check.click()


def opened(chromium, served, lang, script=None, anchor="#quiz", **options):
    browser = chromium.new_context(reduced_motion="reduce", **options)
    if script:
        browser.add_init_script(script)
    page = browser.new_page()
    page.problems, page.asked = [], []
    page.on("console", lambda m: m.type in ("error", "warning") and page.problems.append(f"{m.type}: {m.text}"))
    page.on("pageerror", lambda e: page.problems.append(str(e)))
    page.on("request", lambda r: page.asked.append(r.url))
    page.goto(served + f"{lang}/lesson/{anchor}", wait_until="networkidle")
    return page


def closed(page):
    assert not page.problems, page.problems
    page.context.close()


def plain(text):
    """Letters and digits alone, as a person would compare a Markdown text with what the page shows."""
    return re.sub(r"[\W_]", "", re.sub(r"\{\{.*?\}\}", "", text))


# What the visible question shows, in one look: a look costs as much as a click, and there are thousands.
SHOWN = """() => {
  const box = document.querySelector(".widget-quiz"), form = [...box.querySelectorAll("form")].find((e) => e.checkVisibility()), all = (what) => [...form.querySelectorAll(what)];
  const seen = (what) => all(what).filter((e) => e.checkVisibility());
  return { name: form.dataset.id, status: box.querySelector(".status").innerText, told: box.querySelector(".say").innerText, explained: seen(".why, .see").length, sources: seen(".see a").length,
    open: all("input:enabled").length, check: box.querySelectorAll(".say + .bar button")[1].checkVisibility(),
    choices: all(".choice").map((e) => ({ id: e.querySelector("input").value, why: e.querySelector(".why").innerText, right: e.matches(".right"), chosen: e.matches(".chosen") })) };
}"""


@pytest.mark.parametrize("lang", LANGUAGES)
def test_exactly_the_right_choice_scores_and_every_choice_is_explained(chromium, served, lang):
    """By click, every choice of every question."""
    page = opened(chromium, served, lang)
    one, words = Quiz(page, lang), WORDS[lang].quiz
    for turn in range(max(len(question["choices"]) for question in CHOICES.values())):
        right = 0
        for done, (name, question) in enumerate(CHOICES.items(), 1):
            choices, told = {choice["id"]: choice for choice in question["choices"]}, lambda which: words["right" if which == KEY[name] else "wrong"].text  # noqa: B023
            before = page.evaluate(SHOWN)
            assert before["name"] == name and not before["explained"], "an explanation before the answer"
            assert sorted(shown["id"] for shown in before["choices"]) == sorted(choices)
            choice = question["choices"][turn % len(choices)]
            one.radio(choice["id"]).check()
            one.check.click()
            after = page.evaluate(SHOWN)
            right += choice["id"] == KEY[name]
            assert words.score.text.format(right=right, done=done) in after["status"], f"{name}: {choice['id']}"
            assert after["told"].startswith(told(choice["id"])), f"{name}: {after['told']}"
            assert plain(choice["why"][lang])[-20:] in plain(after["told"]) and (choice["id"] == KEY[name] or plain(choices[KEY[name]][lang])[-15:] in plain(after["told"]))
            for shown in after["choices"]:
                other = choices[shown["id"]]
                assert shown["why"].startswith(told(shown["id"])) and plain(other["why"][lang])[-20:] in plain(shown["why"])
                assert shown["right"] == (shown["id"] == KEY[name]) and shown["chosen"] == (other is choice)
            assert not after["open"] and not after["check"] and after["sources"] == 1
            one.next.click()
        assert one.form.get_attribute("data-id") == list(NUMBERS)[0]
        one.restart.click()
        assert one.status.inner_text().find("·") < 0 and one.name() == list(CHOICES)[0]
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_by_keyboard_alone_with_the_focus_where_it_belongs(chromium, served, lang):
    page = opened(chromium, served, lang)
    one, words = Quiz(page, lang), WORDS[lang].quiz
    focus = lambda: page.evaluate("[document.activeElement.tagName, document.activeElement.value || document.activeElement.textContent]")  # noqa: E731
    page.locator("#quiz .headerlink").focus()
    while focus()[0] != "INPUT":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert one.say.inner_text() == words.choose.text and focus()[0] == "INPUT", "nothing chosen: told, and not scored"
    for name in list(CHOICES)[:3]:
        page.keyboard.press("Space")
        for _ in range(one.order().index(KEY[name])):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert one.say.get_attribute("role") == "status" and one.say.inner_text().startswith(words.right.text)
        assert focus() == ["BUTTON", one.next.inner_text()], "after the answer: on to the next"
        page.keyboard.press("Enter")
        assert focus()[0] == "FIELDSET" and page.evaluate("document.activeElement === document.querySelector('.widget-quiz form:not([hidden]) fieldset')"), "the new question is read out"
        assert one.say.inner_text() == ""
        page.keyboard.press("Tab")
    for _ in range(len(CHOICES) - 3):
        one.next.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("?")
    page.keyboard.press("Enter")
    assert re.fullmatch(said(words.unread_unit, text="?"), one.say.inner_text()) and focus() == ["INPUT", "?"]
    page.keyboard.press("Control+A")
    page.keyboard.type(str(answers("naive-peak", one.numbers())[0]))
    page.keyboard.press("Enter")
    assert one.say.inner_text().startswith(words.right.text) and words.score.text.format(right=4, done=4) in one.status.inner_text()
    for _ in NUMBERS:
        one.next.press("Enter")
    assert page.evaluate("document.activeElement.classList.contains('result')") and words.total.text.format(right=4, all=len(QUESTIONS)) in page.evaluate("document.activeElement.innerText")
    closed(page)


# Numbers: the answer and what each slip gives, from the labs' Python.


def answers(name, shape):
    """(answer, {slip: value}) of a question with these numbers, in its unit."""
    B, H, K, S, d = (shape.get(key) for key in ("B", "H", "K", "S", "d"))
    if name == "naive-peak":
        found = memory.naive_bytes(B, H, H, S, d)
        square = B * H * S * S * 2
        return found / MIB, {"one-square": (found - square) / MIB, "elements": found / 2 / MIB, "megabytes": found / 1e6, "squares-only": 2 * square / MIB}
    if name == "flash-peak":
        assert memory.kv_splits(B, H, S, d, 132) == 1, "the question says that the keys are not split"
        found = memory.flash_bytes(B, H, K, S, d)
        inputs = 2 * B * H * S * d * 2 + decode.kv_bytes(B, K, S, d)
        return found / MIB, {"all-heads": memory.flash_bytes(B, H, H, S, d) / MIB, "with-squares": (inputs + 2 * B * H * S * S * 2) / MIB, "elements": found / 2 / MIB, "megabytes": found / 1e6}
    if name == "largest-s":
        def fits(limit, e=2):
            return memory.largest_S(int(limit), lambda S: memory.naive_bytes(1, H, H, S, d, e))
        return fits(shape["gib"] * GIB), {"one-square": fits(shape["gib"] * GIB, 1), "four-bytes": fits(shape["gib"] * GIB, 4), "gigabytes": fits(shape["gib"] * 1e9)}
    if name == "floor-intensity":
        flops, moved = roofline.attention_flops(1, H, S, d, True), roofline.floor_bytes(1, H, S, d)
        return flops / moved, {"twice": 2 * flops / moved, "half": flops / moved / 2, "with-squares": flops / (moved + 4 * H * S * S * 2)}
    if name == "decode-time":
        assert shape["rate"] == {"RTX 4090": 1008, "H200": 4800}[shape["card"]]
        found = decode.kv_bytes(B, K, S, 128) / (shape["rate"] * 1e9) * 1e6
        return found, {"query-heads": found * H / K, "one-of-two": found / 2, **({"one-sequence": found / B} if B > 1 else {})}
    raise AssertionError(f"no Python for {name}")


def as_shown(x):
    """A number as the page writes it."""
    return f"{round(x):,}" if x == int(x) or x >= 1000 else f"{float(f'{x:.4g}'):g}"


@pytest.fixture(scope="module")
def script(chromium, served):
    """The page's own module, to be asked directly."""
    page = opened(chromium, served, "en")
    yield lambda body, *args: page.evaluate("async (args) => { const quiz = await import(document.querySelector('script[type=module]').src.replace('site.js', 'quiz.js')); " + body + " }", list(args))
    closed(page)


@pytest.mark.parametrize("name", NUMBERS)
def test_hundreds_of_drawn_shapes_have_the_answers_of_the_labs(script, name):
    rng = random.Random(2026)
    found = script("return args[1].map((row) => { let i = 0; const shape = quiz.NUMBERS[args[0]].draw((...from) => from[Math.floor(row[i++] * from.length)]); return [shape, quiz.NUMBERS[args[0]].work(shape)]; })",
                   name, [[rng.random() for _ in range(8)] for _ in range(300)])
    assert len({json.dumps(shape) for shape, _ in found}) >= 16, "the numbers hardly vary"
    slips = set()
    for shape, work in found:
        answer, wrong = answers(name, shape)
        assert work["answer"] == pytest.approx(answer, rel=1e-12) and work["slips"] == pytest.approx(wrong, rel=1e-12), shape
        apart = NUMBERS[name]["number"]["within"] / 100
        assert all(abs(value - answer) > apart * answer for value in wrong.values()), f"{shape}: a slip passes for the answer"
        slips |= set(wrong)
    assert slips == {slip["id"] for slip in NUMBERS[name]["number"]["slips"]}, "the slips of the file and those that are recognised"


@pytest.mark.parametrize("name", NUMBERS)
def test_the_example_without_scripts_is_computed(script, name):
    example = NUMBERS[name]["number"]["example"]
    answer, _ = answers(name, example)
    work = script("return quiz.NUMBERS[args[0]].work(args[1])", name, example)
    assert example["answer"] == as_shown(answer)
    for slot, value in work["shown"].items():
        assert example[slot] == as_shown(value) == script("return quiz.show(args[0])", value), slot


@pytest.mark.parametrize("text, unit, value", [
    ("1904", "MiB", 1904), (" 1,904 MiB ", "MiB", 1904), ("1.904e3", "MiB", 1904), ("1904mib", "MiB", 1904), ("１９０４", "MiB", 1904), ("1，904 MiB", "MiB", 1904), ("1 904", "MiB", 1904),
    ("1.5 GiB", "MiB", 1536), ("1,5 GiB", "MiB", 1536), ("0,875 MiB", "MiB", 0.875), ("2097152 bytes", "MiB", 2), ("2097152 B", "MiB", 2), ("2097152 字节", "MiB", 2), ("1.048576 MB", "MiB", 1), ("512 KiB", "MiB", 0.5),
    ("1,234,567.5", "MiB", 1234567.5), (".5", "MiB", 0.5), ("5.", "MiB", 5), ("-3", "MiB", -3),
    ("0.0666 ms", "µs", 66.6), ("66.6us", "µs", 66.6), ("66.6 μs", "µs", 66.6), ("15,041 tokens", "", 15041), ("1024 FLOP/B", "FLOP/B", 1024), ("1024 flop/byte", "FLOP/B", 1024),
    *((text, "MiB", None) for text in ("", " ", "MiB", "abc", "1904 ms", "12 34 x", "1.2.3", "1,90,4", "NaN", "Infinity", "1e999", "e5", ".", "1904 constructor", "=2*3", "--3")),
    ("5 GiB", "µs", None), ("5 GiB", "", None),
])
def test_what_a_reader_types_is_read_or_refused(script, text, unit, value):
    found = script("return quiz.parse(...args)", text, unit)
    assert found == (None if value is None else pytest.approx(value, rel=1e-12))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_typed_in_the_page_is_graded_and_its_slip_explained(chromium, served, lang, name):
    page = opened(chromium, served, lang)
    one, words, within = Quiz(page, lang), WORDS[lang].quiz, NUMBERS[name]["number"]["within"] / 100
    one.go(name)
    slips = {slip["id"]: slip[lang] for slip in NUMBERS[name]["number"]["slips"]}
    drawn = set()
    for turn in range(6):
        shape = one.numbers()
        drawn.add(json.dumps(shape))
        answer, wrong = answers(name, shape)
        one.answer("nothing")
        assert re.fullmatch(f"{said(words.unread)}|{said(words.unread_unit)}", one.say.inner_text()) and one.check.is_visible()
        typed, right = [(answer, True), (answer * (1 + 0.9 * within), True), (answer * (1 - 0.9 * within), True), (answer * (1 + 1.2 * within), False), (-answer, False), (0, False)][turn]
        one.answer(f"{typed:.12g}")
        assert one.say.inner_text().startswith(words["right" if right else "wrong"].text), (shape, typed, answer)
        assert words.score.text.format(right=int(right), done=1) in one.status.inner_text()
        assert one.shown("answer") == as_shown(answer) and one.form.locator(".why").is_visible() and one.form.locator(".slip:visible").count() == 0
        one.form.locator(".ask button").click()
        assert one.form.locator("input").is_enabled() and one.form.locator(".why").is_hidden() and one.restart.is_disabled()
    assert len(drawn) > 1, "always the same numbers"
    for slip in slips:
        while slip not in (wrong := answers(name, one.numbers())[1]):
            one.form.locator(".ask button").click()
        one.answer(f"{wrong[slip]:.12g}")
        shown = one.form.locator(".slip:visible")
        assert shown.count() == 1 and all(plain(part) in plain(shown.inner_text()) for part in re.split(r"\{\w+\}", slips[slip])) and one.say.inner_text().startswith(words.wrong.text), slip
        one.form.locator(".ask button").click()
    closed(page)


# What is kept.


def test_order_and_numbers_stand_over_a_reload_and_change_with_a_visit(chromium, served):
    page = opened(chromium, served, "en")

    def seen():
        one, found = Quiz(page, "en"), []
        for _ in QUESTIONS:
            found.append(one.order() or one.numbers())
            one.next.click()
        return found

    first = seen()
    page.reload()
    assert seen() == first
    other = page.context.new_page()                        # another visit: its own session
    page.close()
    page = other
    page.problems = []
    page.goto(served + "en/lesson/#quiz", wait_until="networkidle")
    second = seen()
    assert second != first and [sorted(order) for order in second[: len(CHOICES)]] == [sorted(order) for order in first[: len(CHOICES)]]
    places = [order.index(KEY[name]) for order, name in zip(first + second, [*QUESTIONS, *QUESTIONS]) if name in KEY]
    assert len(set(places)) >= 3, "the right choice stands where it always stands"
    closed(page)


def test_answers_last_over_a_reload_and_a_change_of_language_and_can_be_repeated(chromium, served):
    page = opened(chromium, served, "en")
    one = Quiz(page, "en")
    first, second = list(CHOICES)[:2]
    one.radio(KEY[first]).check()
    one.check.click()
    one.next.click()
    wrong = next(choice for choice in one.order() if choice != KEY[second])
    one.radio(wrong).check()
    one.check.click()
    assert WORDS["en"].quiz.kept.text in one.state.inner_text()
    one.go("naive-peak")
    shape = one.numbers()
    one.answer(str(answers("naive-peak", shape)[0]))
    page.goto(served + "zh/lesson/#quiz", wait_until="networkidle")
    one = Quiz(page, "zh")
    assert one.name() == list(CHOICES)[2] and WORDS["zh"].quiz.score.text.format(right=2, done=3) in one.status.inner_text(), "opens at the first that is open"
    one.back.click()
    assert one.radio(wrong).is_checked() and one.form.locator(".why:visible").count() == 4
    one.go("naive-peak")
    assert one.numbers() == shape
    for _ in NUMBERS:
        one.next.click()
    result = one.box.locator(".result")
    assert result.locator("li").count() == 1 and result.locator("li a").get_attribute("href").endswith(QUESTIONS[second]["see"].partition("#")[2])
    result.locator("button").click()
    assert one.name() == second and one.form.locator("input:enabled").count() == 4 and WORDS["zh"].quiz.score.text.format(right=2, done=2) in one.status.inner_text()
    one.restart.click()
    page.reload()
    assert Quiz(page, "zh").name() == first and page.evaluate("localStorage.getItem('quiz:lesson')") is None
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_storage_it_works_and_says_so(chromium, served, lang):
    off = "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError'); } });"
    page = opened(chromium, served, lang, off)
    one = Quiz(page, lang)
    order = one.order()
    one.radio(KEY[one.name()]).check()
    one.check.click()
    assert WORDS[lang].quiz.score.text.format(right=1, done=1) in one.status.inner_text() and WORDS[lang].quiz.unkept.text in one.state.inner_text()
    one.next.click()
    one.back.click()
    assert one.order() == order
    page.problems = [problem for problem in page.problems if "denied" not in problem]   # other parts of the theme
    closed(page)


@pytest.mark.parametrize("kept", [
    "{", "null", "[]", '"x"', "7", '{"answers": 7}', '{"answers": null}', '{"answers": {"why-faster": "no-such-choice"}}', '{"answers": {"why-faster": 1, "gone": "x"}}', '{"answers": {"naive-peak": "x"}}', '{"answers": {"why-faster": {"right": true}}}',
    '{"answers": {"naive-peak": {"shape": {"B": 0}, "text": "1"}}}', '{"answers": {"naive-peak": {"text": "1"}}}', '{"answers": {"decode-time": {"shape": {"B": 1, "S": 8, "H": 1, "K": 1, "rate": 1008, "card": "x"}, "text": 5}}}',
])
def test_what_somebody_else_left_in_the_storage_is_no_answer(chromium, served, kept):
    page = opened(chromium, served, "en", f"if (!sessionStorage.begun) {{ sessionStorage.begun = 1; localStorage.setItem('quiz:lesson', {json.dumps(kept)}); sessionStorage.setItem('quiz:lesson', {json.dumps(kept)}); }}")
    one = Quiz(page, "en")
    assert one.name() == list(CHOICES)[0] and "·" not in one.status.inner_text()
    one.radio(KEY[one.name()]).check()
    one.check.click()
    assert one.words.score.text.format(right=1, done=1) in one.status.inner_text()
    closed(page)


# Phone, themes, paper, no scripts.


@pytest.mark.parametrize("lang", LANGUAGES)
def test_axe_finds_nothing_open_and_answered_and_a_phone_holds_it(chromium, served, lang):
    page = opened(chromium, served, lang, viewport={"width": 320, "height": 800})
    one = Quiz(page, lang)
    assert violations(page, ".widget-quiz") == []
    for i, name in enumerate(QUESTIONS):
        if name in CHOICES:
            order = one.order()
            one.radio(order[i % len(order)]).check()
            one.check.click()
        else:
            one.answer("1")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, name
        if name in (list(CHOICES)[0], "naive-peak"):
            assert violations(page, ".widget-quiz") == []
        one.next.click()
    assert violations(page, ".widget-quiz") == []
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_script_is_fetched_when_the_reader_starts_and_the_first_question_has_the_focus(chromium, served, lang):
    page = opened(chromium, served, lang)
    start = page.locator(".widget-quiz .start button")
    start.wait_for()
    assert page.locator(".widget-quiz .questions > li").count() == len(QUESTIONS), "what stands there before is what stands there without scripts"
    late = [url for url in page.asked if url.endswith(("quiz.js", "formulas.js"))]
    assert not late, late
    start.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".widget-quiz .say", state="attached", timeout=20_000)
    assert start.count() == 0 and page.evaluate("document.activeElement.closest('.widget-quiz form') !== null"), "the focus was lost"
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_scripts_every_question_is_a_collapsible_that_teaches(chromium, served, lang):
    browser = chromium.new_context(java_script_enabled=False)
    page = browser.new_page()
    page.goto(served + f"{lang}/lesson/")
    items = page.locator(".widget-quiz .questions > li")
    assert items.count() == len(QUESTIONS)
    for item, (name, question) in zip(items.all(), QUESTIONS.items()):
        item.locator("summary").click()
        shown = item.inner_text()
        for text in texts(question, lang):
            assert all(plain(part) in plain(shown) for part in re.split(r"\{\{.*?\}\}|\{\w+\}", text)), f"{name}: {text}"
        if "number" in question:
            assert question["number"]["example"]["answer"] in shown and "{" not in shown
        else:
            assert item.locator(f"[data-id={KEY[name]}] .why").inner_text().startswith(WORDS[lang].quiz.right.text)
            assert item.locator(f"li:not([data-id={KEY[name]}]) .why").all_inner_texts() and all(why.startswith(WORDS[lang].quiz.wrong.text) for why in item.locator(f"ul > li:not([data-id={KEY[name]}]) .why").all_inner_texts())
        assert item.locator(".see a").count() == 1
    browser.close()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_paper_shows_all_questions_with_their_answers(chromium, served, lang):
    page = opened(chromium, served, lang)
    Quiz(page, lang)
    page.emulate_media(media="print")
    forms = page.locator(".widget-quiz form")
    assert forms.count() == len(QUESTIONS) and all(form.is_visible() and form.locator(".why").first.is_visible() for form in forms.all())
    assert page.locator(".widget-quiz button:visible").count() == 0
    closed(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_lessons_own_questions_stay_collapsible(site, lang):
    page = (site / lang / "lesson/index.html").read_text("utf-8")
    section = page[page.index('id="self-test"'):page.index('id="quiz"')]
    assert section.count("<details") >= 3
