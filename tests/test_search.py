"""Search as a reader uses it: typed into the theme's search box in a browser, the right page is among the first three, and a term's own section is the first.

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
# What a term, or a colleague's word for it, must find before all else: the first hit's page and its first section.
SECTIONS = {
    "en": {
        "IO-aware": "glossary#io-aware", "io aware": "glossary#io-aware",
        "materialize": "lesson#score-matrix", "materialise scores": "lesson#score-matrix",
        "FlashDecoding": "decode#split-kv", "flash decoding": "decode#split-kv",
        "AutoDL": "lesson#lab-card", "rent gpu": "lesson#lab-card",
        "GEMM": "glossary#cublas", "FFN": "pitfalls#operator-share", "mlp share": "pitfalls#operator-share",
        "head_dim": "glossary#head", "head dimension": "glossary#head",
        "TTFT": "glossary#ttft", "time to first token": "glossary#ttft", "first token latency": "glossary#ttft",
        "TPOT": "glossary#tpot", "inter-token latency": "glossary#tpot",
        "speculative decoding": "decode#intensity", "draft tokens": "decode#intensity",
        "rescaling": "glossary#rescale", "rescaling factor": "glossary#rescale",
        "running maximum": "glossary#running-max", "causal mask": "glossary#causal-mask",
        "speedup": "lesson#speed-up", "how much faster": "lesson#speed-up",
        "tflops": "roofline#measured-roofline", "nsight compute": "measured#counters",
        "tensor cores": "glossary#tensor-core", "memory bound": "glossary#memory-bound",
        "warp specialization": "glossary#warp-specialisation", "output_attentions": "pitfalls#attention-map",
        "left padding": "glossary#padding", "kv cache": "glossary#kv-cache", "dq determinism": "backward#determinism",
    },
    "zh": {
        "IO-aware": "glossary#io-aware", "感知 IO": "glossary#io-aware",
        "物化": "lesson#score-matrix", "materialize": "lesson#score-matrix",
        "FlashDecoding": "decode#split-kv", "flash decoding": "decode#split-kv",
        "AutoDL": "lesson#lab-card", "租 GPU": "lesson#lab-card",
        "GEMM": "glossary#cublas", "FFN": "pitfalls#operator-share", "mlp 占比": "pitfalls#operator-share",
        "head_dim": "glossary#head", "头维度": "glossary#head",
        "TTFT": "glossary#ttft", "首 token 延迟": "glossary#ttft",
        "TPOT": "glossary#tpot", "token 间延迟": "glossary#tpot",
        "投机解码": "decode#intensity", "投机采样": "decode#intensity", "speculative decoding": "decode#intensity",
        "重标定": "glossary#rescale", "重缩放": "glossary#rescale", "重缩放 系数": "glossary#rescale",
        "运行最大值": "glossary#running-max", "running max": "glossary#running-max",
        "因果掩码": "glossary#causal-mask", "causal mask": "glossary#causal-mask",
        "加速比": "lesson#speed-up", "快多少倍": "lesson#speed-up",
        "tflops": "roofline#measured-roofline", "性能计数器": "measured#counters",
        "张量核心": "glossary#tensor-core", "访存受限": "glossary#memory-bound",
        "上下文并行": "glossary#context-parallelism", "左侧 填充": "glossary#padding", "kernel 融合": "glossary#kernel-fusion", "dq 确定性": "backward#determinism",
    },
}


def first_hits(page, query):
    """(page, its first section) of the first results, in order, as the search box lists them."""
    box = page.locator(".md-search__input")
    box.fill("")
    page.wait_for_function("() => document.querySelectorAll('.md-search-result__item').length === 0")
    box.fill(query)
    page.wait_for_function("""() => document.querySelectorAll('.md-search-result__item').length
        || /no match|没有找到/i.test(document.querySelector('.md-search-result__meta').textContent)""", timeout=15000)
    found = page.eval_on_selector_all(".md-search-result__list > .md-search-result__item", """items => items.map((item) => {
        const [own, ...sections] = [...item.querySelectorAll('a')].map((a) => new URL(a.href));
        return [own.pathname, sections[0]?.hash ?? ''];
    })""")
    return [(re.sub(r"^.*/(?:en|zh)/|/$", "", path) or "index", section) for path, section in found[:FIRST]]


def ask(chromium, served, lang, queries, without=None):
    """{query: hits}, all from one page and its one search worker; `without` is a field that the index then lacks."""
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
        found = {query: first_hits(page, query) for query in queries}
        assert not refused, refused
        return found
    finally:
        context.close()


def in_vain(answers, queries):
    pages = {query: [page for page, _ in hits] for query, hits in answers.items()}
    return [f"{query!r}: {', '.join(pages[query]) or 'nothing'}, not {page}" for query, page in queries.items() if page not in pages[query]]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_right_page_is_among_the_first_three(chromium, served, lang, capsys):
    assert len(QUERIES[lang]) >= 30
    start = time.monotonic()
    answers = ask(chromium, served, lang, QUERIES[lang])
    wrong = in_vain(answers, QUERIES[lang])
    with capsys.disabled():
        first = sum(page in dict(answers[query][:1]) for query, page in QUERIES[lang].items())
        print(f"\n{lang}: {len(QUERIES[lang]) - len(wrong)} of {len(QUERIES[lang])} searches have the right page among the first {FIRST}, {first} in the first place")
    assert not wrong, f"{lang}: searched in vain; add words to `synonyms` in the front matter of the page that answers:\n" + "\n".join(wrong)
    assert time.monotonic() - start < SECONDS / 2


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_term_finds_its_section_first(chromium, served, lang):
    answers = ask(chromium, served, lang, SECTIONS[lang])
    first = {query: "".join(hits[0]) if hits else "nothing" for query, hits in answers.items()}
    wrong = [f"{query!r}: {first[query]}, not {place}" for query, place in SECTIONS[lang].items() if first[query] != place]
    assert not wrong, f"{lang}: add words to `synonyms` in the front matter of the page, or take them from others:\n" + "\n".join(wrong)


@pytest.mark.parametrize("lang, query", [("en", "running max"), ("en", "causal mask"), ("zh", "因果掩码"), ("zh", "重缩放")])
def test_the_first_hit_names_what_found_it_and_the_page_marks_it(chromium, served, lang, query):
    """A page that only its sections let find leads to its top; the theme gives it no words to mark."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(f"{served}{lang}/decisions/", wait_until="networkidle")
        page.locator(".md-search__input").click()
        first_hits(page, query)
        hits = page.eval_on_selector_all(".md-search-result__item", "items => items.map((item) => new URL(item.querySelector('a').href).searchParams.get('h'))")
        assert hits and all(hits), hits
        page.locator(".md-search-result__item a").first.click()
        page.wait_for_selector("mark[data-md-highlight]", state="attached", timeout=15000)
    finally:
        context.close()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_single_digit_or_letter_is_refused(chromium, served, lang):
    answers = ask(chromium, served, lang, [*"0123456789", *"bdklmoqsv"])
    assert answers["2"] and answers["4"] and answers["8"]


def test_lunr_keeps_two_numbers_apart(site):
    """Which numbers it took for one depends on all words of the index: any edit could bring it back, so the worker itself is looked at."""
    workers = list(site.glob("*/assets/javascripts/workers/search.*.js"))
    assert len(workers) == len(LANGUAGES) and all('.id+","}' in worker.read_text("utf-8") for worker in workers)
    with pytest.raises(PageError, match="in 0 places"):
        search.mend(workers[0].read_text("utf-8"))


@pytest.mark.parametrize("lang, some", [("en", ["OOM", "vram", "backprop", "logsumexp", "practice problems"]), ("zh", ["OOM", "为什么decode不快", "重计算", "分页注意力", "编程练习"])])
def test_the_synonyms_are_what_finds_some(chromium, served, lang, some):
    queries = {query: QUERIES[lang][query] for query in some}
    assert len(in_vain(ask(chromium, served, lang, queries, without="synonyms"), queries)) == len(some)


@pytest.mark.parametrize("query, page", [("在线softmax", "lesson"), ("寄存", "glossary"), ("GQA分组查询", "glossary")])
def test_chinese_without_blanks_and_half_a_word_find_too(chromium, served, query, page):
    assert page in dict(ask(chromium, served, "zh", [query])[query])


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
