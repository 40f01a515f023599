"""Search as a reader uses it: typed into the theme's search box in a browser, the right page is among the first three.

The queries are written by hand, with the page that answers them: fragments, other words than the page's own, other case. Words that a
page does not say stand as `synonyms` in its front matter (docs/hooks/core/search.py).
"""
import json
import re
import time

import pytest
from core import search
from core.book import front_matter
from core.errors import PageError
from support import LANGUAGES, TOP

FIRST = 3
SECONDS = 60
ENGLISH = {
    "why is decode not faster": "decode",
    "flash attention 4": "versions",
    "kernel fallback": "pitfalls",
    "attn_mask none": "pitfalls",
    "OOM": "lesson",
    "cuda out of memory": "lesson",
    "gqa": "glossary",
    "grouped query": "glossary",
    "ONLINE SOFTMAX": "lesson",
    "streaming softmax": "lesson",
    "logsumexp": "glossary",
    "registers": "glossary",
    "shared memory": "glossary",
    "vram": "lesson",
    "arithmetic intensity": "roofline",
    "memory bandwidth bottleneck": "roofline",
    "backprop": "backward",
    "recomputation": "backward",
    "non-deterministic gradients": "backward",
    "split kv": "decode",
    "VLLM_ATTENTION_BACKEND": "vllm",
    "paged attention block table": "vllm",
    "is_causal wrong corner": "pitfalls",
    "nan": "pitfalls",
    "hopper tma": "versions",
    "fa2 vs fa3": "versions",
    "benchmark methodology": "measured",
    "reproduce on my gpu": "measured",
    "interview q&a": "interview",
    "practice problems": "exercises",
}
CHINESE = {
    "内存": "lesson",
    "显存": "lesson",
    "爆显存": "lesson",
    "OOM": "lesson",
    "寄存器": "glossary",
    "共享内存": "glossary",
    "GQA": "glossary",
    "gqa 分组": "glossary",
    "为什么 decode 不快": "decode",
    "为什么decode不快": "decode",
    "解码慢": "decode",
    "在线 softmax": "lesson",
    "在线softmax": "lesson",
    "分块": "lesson",
    "反向": "backward",
    "梯度": "backward",
    "重计算": "backward",
    "算术强度": "roofline",
    "访存瓶颈": "roofline",
    "带宽": "roofline",
    "回退": "pitfalls",
    "attn_mask none": "pitfalls",
    "数值溢出": "pitfalls",
    "flash attention 4": "versions",
    "hopper": "versions",
    "分页注意力": "vllm",
    "选后端": "vllm",
    "怎么测的": "measured",
    "面试题": "interview",
    "编程练习": "exercises",
}
QUERIES = {"en": ENGLISH, "zh": CHINESE}


def first_pages(page, query):
    """The pages of the first results, in order, as the search box lists them."""
    box = page.locator(".md-search__input")
    box.fill("")
    page.wait_for_function("() => document.querySelectorAll('.md-search-result__item').length === 0")
    box.fill(query)
    page.wait_for_function("""() => document.querySelectorAll('.md-search-result__item').length
        || /no match|没有找到/i.test(document.querySelector('.md-search-result__meta').textContent)""", timeout=15000)
    found = page.eval_on_selector_all(".md-search-result__list > .md-search-result__item", "items => items.map((item) => new URL(item.querySelector('a').href).pathname)")
    return [re.sub(r"^.*/(?:en|zh)/|/$", "", path) or "index" for path in found[:FIRST]]


def ask(chromium, served, lang, queries, without=None):
    """{query: pages}, all from one page and its one search worker; `without` is a field that the index then lacks."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    refused = []                                           # an asterisk inside an indexed word makes Lunr fail on its neighbours
    page.on("console", lambda message: refused.append(message.text) if "Invalid query" in message.text else None)

    def lacking(route):
        index = route.fetch().json()
        route.fulfill(json={**index, "docs": [{name: value for name, value in doc.items() if name != without} for doc in index["docs"]]})

    try:
        if without:
            page.route("**/search_index.json", lacking)
        page.goto(f"{served}{lang}/decisions/", wait_until="networkidle")
        page.locator(".md-search__input").click()
        found = {query: first_pages(page, query) for query in queries}
        assert not refused, refused
        return found
    finally:
        context.close()


def in_vain(answers, queries):
    return [f"{query!r}: {', '.join(answers[query]) or 'nothing'}, not {page}" for query, page in queries.items() if page not in answers[query]]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_right_page_is_among_the_first_three(chromium, served, lang, capsys):
    assert len(QUERIES[lang]) >= 30
    start = time.monotonic()
    answers = ask(chromium, served, lang, QUERIES[lang])
    wrong = in_vain(answers, QUERIES[lang])
    with capsys.disabled():
        first = sum([page] == answers[query][:1] for query, page in QUERIES[lang].items())
        print(f"\n{lang}: {len(QUERIES[lang]) - len(wrong)} of {len(QUERIES[lang])} searches have the right page among the first {FIRST}, {first} in the first place")
    assert not wrong, f"{lang}: searched in vain; add words to `synonyms` in the front matter of the page that answers:\n" + "\n".join(wrong)
    assert time.monotonic() - start < SECONDS / 2


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_single_digit_or_letter_is_refused(chromium, served, lang):
    answers = ask(chromium, served, lang, [*"0123456789", *"bdklmoqsv"])
    assert answers["2"] and answers["4"] and answers["8"]


@pytest.mark.parametrize("lang, some", [("en", ["OOM", "vram", "backprop", "logsumexp", "practice problems"]), ("zh", ["OOM", "为什么decode不快", "重计算", "分页注意力", "编程练习"])])
def test_the_synonyms_are_what_finds_some(chromium, served, lang, some):
    queries = {query: QUERIES[lang][query] for query in some}
    assert len(in_vain(ask(chromium, served, lang, queries, without="synonyms"), queries)) == len(some)


@pytest.mark.parametrize("query, page", [("在线softmax", "lesson"), ("寄存", "glossary"), ("GQA分组查询", "glossary")])
def test_chinese_without_blanks_and_half_a_word_find_too(chromium, served, query, page):
    assert page in ask(chromium, served, "zh", [query])[query]


def test_the_index_holds_words_only(site):
    for lang in LANGUAGES:
        text = (site / lang / "search/search_index.json").read_text("utf-8")
        assert "katex" not in text, "formulas are indexed: see data-search-exclude in docs/hooks/core/tex.py"
        index = json.loads(text)
        assert index["config"]["fields"]["synonyms"] and any("synonyms" in doc for doc in index["docs"])


def test_readers_do_not_see_the_synonyms(site):
    for lang in LANGUAGES:
        given, shown = front_matter((TOP / f"docs/{lang}/lesson.md").read_text("utf-8"))[0]["synonyms"], (site / lang / "lesson/index.html").read_text("utf-8")
        assert given and not [words for words in given.values() if " " in words and words in shown]


ENTRIES = [{"location": "x/", "title": "X"}, {"location": "x/#part", "title": "Part"}, {"location": "", "title": "Home"}]


def test_each_entry_gets_its_own_words():
    entries = [dict(entry) for entry in ENTRIES]
    search.add_synonyms(entries, {"top": "OOM VRAM", "part": "内存"}, "x/", "top")
    assert [entry.get("synonyms") for entry in entries] == ["OOM VRAM", "内存", None]


@pytest.mark.parametrize("synonyms, complaint", [
    ({"gone": "OOM"}, "'gone', which is no heading of this page"),
    ({"part": ""}, "map ids of headings to words"),
    ({"part": ["OOM"]}, "map ids of headings to words"),
    ({"part": None}, "map ids of headings to words"),
    (["OOM"], "map ids of headings to words"),
    ("OOM", "map ids of headings to words"),
    (None, "map ids of headings to words"),
])
def test_synonyms_that_lead_nowhere_are_an_error(synonyms, complaint):
    with pytest.raises(PageError, match=complaint):
        search.add_synonyms([dict(entry) for entry in ENTRIES], synonyms, "x/", "top")
