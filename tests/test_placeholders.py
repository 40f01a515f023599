"""Placeholders are pure text to text: what they print, and that each mistake names itself and its line."""
import copy
import re

import markdown
import pytest
from core import measured, placeholders, results
from core.book import Book, Place
from core.errors import PageError
from support import TOP, WORDS

RESULT = {
    "lab": "lab", "url": "examples/results/card/lab.json", "stale": False,
    "source": {"commit": "0123456789abcdef", "dirty": False},
    "machine": {"gpu": "Card <1>", "driver": "580.1"}, "software": {"torch": "2.11.0"}, "run": {"started": "2026-11-29T12:00:00Z"},
    "values": {"peak_mib": 1904.0, "misses": 0, "name": "a<b|c"},
    "rows": [
        {"S": 1024, "kv_heads": 28, "causal": False, "naive_mib": 140.0, "flash_mib": 28.0, "ratio": 5.0, "gap_bytes": 117440512, "kernel": "void ns::flash_fwd<int, 2>(args)", "status": "ok"},
        {"S": 2048, "kv_heads": 28, "causal": False, "naive_mib": None, "flash_mib": 56.25, "ratio": None, "gap_bytes": None, "kernel": "flash", "status": "oom"},
        {"S": 2048, "kv_heads": 4, "causal": True, "naive_mib": 500.5, "flash_mib": 0.0001, "ratio": 3.14159, "gap_bytes": 1, "kernel": "flash", "status": "ok"},
    ],
    "output": "S naive\n1024 140\n",
}


@pytest.fixture(autouse=True)
def sketched(monkeypatch):
    """Charts that say what they were asked to draw."""
    monkeypatch.setattr(placeholders.charts, "line", lambda rows, labels, unit, words, ceilings: f"<svg>{len(rows)} {unit} {list(labels)}</svg>")
    monkeypatch.setattr(placeholders.charts, "roofline", lambda rows, labels, values, words: f"<svg>roof {len(rows)} {list(labels)}</svg>")


def page(lang="en", result=RESULT, cards=1, **more):
    other = copy.deepcopy(result)
    other["values"]["peak_mib"] = 7.0
    other["rows"][0]["naive_mib"] = 999.0
    other["machine"]["gpu"] = "Other"
    results = {("card", "lab"): result, ("other-card", "lab" if cards == 2 else "elsewhere"): other}
    return placeholders.Page(Book(results=results, drawings={"plan": "<svg>plan</svg>"}, words=WORDS, **more), Place(lang, "page.md", "../../", "https://host/", "card"))


def text(markdown, lang="en", cards=2):
    return re.sub(r"<(?!wbr)[^>]*>", "", page(lang, cards=cards).expand(markdown)).replace("<wbr>", "")


@pytest.mark.parametrize("written, shown", [
    ("{{ lab.peak_mib }} MiB", "1,904 MiB"),
    ("{{ lab@other-card.peak_mib }} MiB", "7 MiB"),
    ("{{lab.misses}} of 100", "0 of 100"),
    ("{{ lab.naive_mib[S=1024] }} MiB", "140 MiB"),
    ("{{ lab.naive_mib[S=2048, kv_heads=4] }}", "500.5"),
    ("{{ lab.ratio[causal=true] | .1f }} times", "3.1 times"),
    ("{{ lab.gap_bytes[S=1024] }} bytes", "117,440,512 bytes"),
    ("{{ lab.S[causal=true] }}", "2048"),
    ("{{ lab.kernel[S=1024] }}", "flash_fwd"),
    ("{{ lab.naive_mib[S=2048, kv_heads=28] }}", WORDS["en"].results.oom),
    ("{{ lab.name }}", "a&lt;b|c"),
    ("from {{ site.url }}examples/x.py", "from https://host/examples/x.py"),
    (r"$e^{{m-m}}$ and {{m}} and ${{\ell}}_{j}$", r"$e^{{m-m}}$ and {{m}} and ${{\ell}}_{j}$"),
])
def test_values(written, shown):
    assert text(written) == shown


def test_a_value_carries_its_source_and_escapes_what_the_json_says():
    shown = page().expand("{{ lab.peak_mib }}")
    assert shown == '<data class="measured" value="1904.0" title="Card &lt;1&gt;, torch 2.11.0, 2026-11-29">1,904</data>'


def test_inside_a_fence_there_is_no_markup():
    assert page().expand("```text\n{{ lab.peak_mib }}\n{{ lab.output }}\n```") == "```text\n1,904\nS naive\n1024 140\n```"


def test_rows_become_table_rows_and_gain_their_provenance():
    table = page().expand("| S | naive (MiB) | kernel |\n|--:|--:|---|\n{{ lab.rows[kv_heads=28]: S naive_mib kernel }}\n")
    rows = table.splitlines()
    assert rows[2].startswith("| 1024 | 140 | <code") and rows[3].startswith(f"| 2048 | {WORDS['en'].results.oom} |")
    assert "Card &lt;1&gt;" in table and f"{WORDS['en'].provenance.commit} 012345678" in table and 'href="../../examples/results/card/lab.json"' in table
    zh = page("zh").expand("| S | 朴素 (MiB) | 因果 |\n|--:|--:|---|\n{{ lab.rows: S naive_mib causal }}\n")
    said = WORDS["zh"]
    assert said.results.oom in zh and f"| {said.results['true']} |" in zh and f"{said.provenance.measured}<strong" in zh


def test_a_header_s_cell_brings_its_column_along():
    """Cells that change places take their columns with them, and any words may stand in them."""
    written = "| {} | {} |\n|--:|--:|\n{{{{ lab.rows[kv_heads=28] }}}}\n"
    one, other = (page().expand(written.format(*cells)) for cells in (("S", "in words, MiB {naive_mib}"), ("otherwise (MiB) {naive_mib}", "S")))
    assert one.startswith("| S | in words, MiB |\n|--:|--:|\n| 1024 | 140 |") and other.startswith("| otherwise (MiB) | S |\n|--:|--:|\n| 140 | 1024 |")
    two = page(cards=2).expand(written.format("S", "MiB {naive_mib}"))
    assert two.count("    | S | MiB |\n") == 2 and "{naive" not in two


def test_a_second_card_makes_tabs_beside_the_first():
    written = "| S | naive (MiB) |\n|--:|--:|\n{{ lab.rows[kv_heads=28]: S naive_mib }}\n\nafter"
    one, two = page().expand(written), page(cards=2).expand(written)
    assert "===" not in one
    assert two.index('=== "Card &lt;1&gt;"') < two.index("    | S | naive (MiB) |") < two.index("| 1024 | 140 |") < two.index('=== "Other"') < two.index("| 1024 | 999 |")
    assert two.count("provenance") == 2 and two.count("| S | naive (MiB) |") == 2 and two.endswith("after")
    only = page(cards=2).expand(written.replace("lab.rows", "lab@other-card.rows"))
    assert "===" not in only and "| 1024 | 999 |" in only


def test_a_roofline_names_its_series():
    rows = [{"impl": "flash", "S": 1, "intensity": 2.0, "tflops": 3.0, "kernel": "k", "status": "ok"}]
    one = page(result={**RESULT, "rows": rows})
    one.expand('{{ lab.roofline: flash="flash" }}\n: What to see.')
    assert "roof 1 ['flash']" in one.figures[0]
    with pytest.raises(PageError, match="impl cudnn"):
        one.expand('{{ lab.roofline: flash="f" cudnn="c" }}')


def test_a_stale_result_is_marked_in_table_and_text():
    stale = {**RESULT, "stale": True}
    assert WORDS["en"].provenance.stale in page(result=stale).expand("| S |\n|---|\n{{ lab.rows: S }}\n")
    assert 'class="stale"' in page(result=stale).expand("{{ lab.peak_mib }}")
    assert "stale" not in page().expand("{{ lab.peak_mib }}")


def test_dirty_results_say_so():
    dirty = {**RESULT, "source": {"commit": "0" * 40, "dirty": True}}
    assert WORDS["en"].provenance.dirty in page(result=dirty).expand("| S |\n|---|\n{{ lab.rows: S }}\n")


def test_figures_wait_until_markdown_has_run():
    one = page()
    body = one.expand('{{ drawing.plan }}\n: A *plan*: {{ lab.misses }}.\n\n    {{ lab.chart[kv_heads=28]: S="length S" naive_mib="naive" flash_mib="flash" }}\n    : In a fold.')
    assert "<svg>" not in body
    placed = one.place_figures(markdown.markdown("x\n" + body.replace("    ", "")))
    assert "<svg>plan</svg>" in placed and "<svg>2 MiB ['S', 'naive_mib', 'flash_mib']</svg>" in placed and WORDS["en"].provenance.measured in placed
    assert placed.index("<svg>plan") < placed.index("<svg>2 MiB"), "each in its own place"
    assert re.search(r"\n    <figure data-figure=\"1\"></figure>\n\n    <span data-caption=\"1\"></span>In a fold", body), "as deep as it was written"
    first, second = (WORDS["en"].page.figure.text.format(n=n) for n in (1, 2))
    shown = re.sub(r"<data[^>]*>|</data>", "", placed)
    assert f"<figcaption><strong>{first}</strong>A <em>plan</em>: 0.</figcaption></figure>" in shown and f"<figcaption><strong>{second}</strong>In a fold.</figcaption></figure>" in shown and "data-caption" not in shown


@pytest.mark.parametrize("written", ["{{ drawing.plan }}", "{{ drawing.plan }}\n\n: Too late.", '{{ lab.chart[kv_heads=28]: S="S" flash_mib="flash" }}\nAnd so on.'])
def test_a_figure_without_a_caption_is_refused_with_its_line(written):
    with pytest.raises(PageError, match="needs a caption") as error:
        page().expand("a\n\n" + written)
    assert error.value.line == 3


@pytest.mark.parametrize("written, complaint", [
    ("{{ labb.peak_mib }}", "no result 'labb'"),
    ("{{ lab@third.peak_mib }}", "no result 'lab' of 'third'"),
    ("{{ lab.peek_mib }}", "no value 'peek_mib'"),
    ("{{ lab.naive_gib[S=1024] }}", "mind the unit"),
    ("{{ lab.nothing[S=1024] }}", "no column 'nothing'"),
    ("{{ lab.naive_mib[T=1] }}", "no column 'T'"),
    ("{{ lab.naive_mib[S=2048] }}", "selects 2 rows"),
    ("{{ lab.naive_mib[S=3] }}", "selects 0 rows"),
    ("{{ lab.naive_mib[S] }}", "cannot read the filter"),
    ("{{ lab.peak_mib }} GiB", "'GiB' is written behind it"),
    ("{{ lab.peak_mib }} MB", "'MB' is written behind it"),
    ("**{{ lab.peak_mib }}**&nbsp;MB", "'MB' is written behind it"),
    ("{{ lab.peak_mib | %d%q }}", "format"),
    ("| S | naive, MiB |\n|---|---|\n{{ lab.rows }}", "missing in 'naive, MiB'"),
    ("| length | naive, MiB {naive_mib} |\n|---|---|\n{{ lab.rows }}", "no column 'length'"),
    ("| S | flash, MiB {naive_mib} |\n|---|---|\n{{ lab.rows }}", "names flash, and stands over naive_mib"),
    ('{{ lab.chart[kv_heads=28]: S="S" naive_mib="flash" flash_mib="naive" }}', "names flash, and stands over naive_mib"),
    ("{{ lab.peak_mib[S=1024 }}", "cannot read the placeholder"),
    ("{{ lab.output }}", "belongs inside"),
    ("see {{ lab.rows: S }}", "by itself"),
    ("{{ drawing.other }}", "no docs/theme/drawings/other.svg"),
    ("{{ lab.rows: S }}", "must follow a header"),
    ("| S | naive (MiB) |\n|---|---|\n{{ lab.rows: S }}", "2 cells, the placeholder names 1"),
    ("| S | naive (MB) |\n|---|---|\n{{ lab.rows: S naive_mib }}", "must say its unit, MiB"),
    ("| S |\n|---|\n{{ lab.rows[S=3]: S }}", "selects no row"),
    ("| S |\n|---|\n{{ lab.rows: S }}\ntext", "an empty line must follow"),
    ("| S |\n|---|\n{{ lab.rows: Z }}", "no column 'Z'"),
    ("{{ lab.chart: S naive_mib }}", "labels"),
    ('{{ lab.chart: S="S" naive_mib="n" ratio="r" }}', "one unit"),
])
def test_mistakes_name_themselves_and_their_line(written, complaint):
    lines = written.count("\n") + 1 if "empty line" not in complaint else 3
    with pytest.raises(PageError, match=complaint.replace("[", r"\[")) as caught:
        page().expand("first\n\n" + written, first_line=10)
    assert caught.value.line == 11 + lines


@pytest.mark.parametrize("name, short", [
    ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Traits<128, 64>, false>(pytorch_flash::Params)", "flash_fwd_kernel"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<c10::BFloat16, float>(float*)", "cunn_SoftMaxForwardReg"),
    ("softmax", "softmax"),
])
def test_kernel_names(name, short):
    assert measured.short_kernel(name) == short


EVIDENCE = {
    "versions": {"0.26.0": {"version": "0.26.0"}, "newest": {"version": "0.33.0"}}, "checked": "2026-11-29",
    "statements": [
        {"id": "a", "topic": "choose", "en": "The flag is `x|y`.", "zh": "参数是 `x`。", "0.26.0": {"file": "vllm/a_b.py", "line": 3}, "newest": {"file": "vllm/a_b.py", "line": 3, "status": "same"}},
        {"id": "b", "topic": "choose", "en": "B.", "zh": "乙。", "0.26.0": {"file": "vllm/b.py", "line": 4}, "newest": {"file": None, "line": None, "status": "changed", "en": "Now C.", "zh": "现在是丙。"}},
    ],
}


def test_evidence_becomes_a_table_with_its_places():
    one = page(evidence={"vllm": EVIDENCE})
    table, said = one.expand("{{ evidence.vllm[topic=choose] }}"), WORDS["en"].evidence
    assert f"| {said.statement} | 0.26.0 | 0.33.0 |" in table and r"x\|y" in table
    assert f'<code class="place">a_<wbr>b.py<wbr><span>:3</span></code> | {said.same} |' in table and f"{said.changed} {said.gone} Now C." in table
    assert '<a href="../../evidence/vllm.json">' in table and "2026-11-29" in table
    for wrong in ("{{ evidence.vllm[topic=none] }}", "{{ evidence.vllm[tropic=choose] }}", "{{ evidence.other }}", "see {{ evidence.vllm }}"):
        with pytest.raises(PageError):
            one.expand(wrong)


def test_words_of_a_result_are_said_in_chinese_and_names_stay():
    result = copy.deepcopy(RESULT)
    result["rows"] = [{"impl": impl, "sees": sees, "status": "ok"} for impl, sees in (("textbook", "unmasked softmax"), ("flash", "refused"))]
    table = "| 程序 | 看到 |\n|---|---|\n{{ lab.rows: impl sees }}\n"
    for lang in WORDS:
        said = WORDS[lang].results
        assert f"| {said.textbook} | {said['unmasked softmax']} |\n| flash | {said.refused} |" in page(lang, result).expand(table)
    result["rows"][0]["sees"] = "never heard of"
    assert "never heard of" in page("en", result).expand(table), "the programs speak English"
    for shown in (table, "{{ lab.sees[impl=textbook] }}"):
        with pytest.raises(PageError, match="shows 'never heard of' in column 'sees'"):
            page("zh", result).expand(shown)


def test_a_result_links_to_its_own_file():
    found = results.load(TOP / "examples/results", TOP / "examples")
    assert found and all(result["url"] == f"examples/results/{gpu}/{lab}.json" and result["lab"] == lab for (gpu, lab), result in found.items())


@pytest.mark.parametrize("damage", ["gone", None, 0, -1, 1e300, "", "a word that no language knows", True], ids=str)
@pytest.mark.parametrize("column", ["S", "naive_mib", "kernel", "status", "kv_heads", "causal"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_damaged_row_of_a_contributed_card_is_shown_or_its_file_named(lang, column, damage):
    """Whatever a result of another card holds, the build that stops says which file it is."""
    found = page(lang, cards=2)
    other = found.numbers.book.results["other-card", "lab"]
    other["url"] = "examples/results/other-card/lab.json"
    for one in other["rows"]:
        one.update({column: damage}) if damage != "gone" else one.pop(column, None)
    try:
        shown = found.expand("| S | naive (MiB) | kernel | causal | status |\n|--:|--:|---|---|---|\n{{ lab.rows[kv_heads=28]: S naive_mib kernel causal status }}\n")
    except PageError as error:
        assert "other-card" in str(error)
    else:
        assert shown.count('=== "') == 2


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_card_that_was_not_idle_is_said_where_its_numbers_stand(lang):
    busy = {**RESULT, "run": {**RESULT["run"], "card": {"idle": False, "others_mib": 20480.0, "spread_pct": 31.4}}}
    idle = {**RESULT, "run": {**RESULT["run"], "card": {"idle": True, "others_mib": 5.0, "spread_pct": 1.0}}}
    said = WORDS[lang].provenance.busy.format(mib=20480, spread=31)
    assert said in page(lang, result=busy).expand("{{ lab.provenance }}") and "20480" not in page(lang, result=idle).expand("{{ lab.provenance }}")


def test_a_difference_of_two_programs_is_their_changed_lines_escaped():
    """Every line of the later program stands in it or in the earlier one, and nothing in it is HTML."""
    examples = {"kernels/one.py": "a = 1\nb = 2\nc = 3\n", "kernels/two.py": "a = 1\nb = x < y & z\nc = 3\n<script>\n"}
    shown = page(examples=examples)
    assert '<figure data-figure="0">' in shown.expand("{{ difference.two[since=one] }}")
    made = shown.figures[0]
    assert re.findall("<ins>(.*?)</ins>", made) == ["+b = x &lt; y &amp; z", "+&lt;script&gt;"] and re.findall("<del>(.*?)</del>", made) == ["-b = 2"]
    assert "<script" not in made and "one.py" in made and ": 2 " in made
    for wrong in ("difference.two[since=none]", "difference.none[since=one]", "difference.two"):
        with pytest.raises(PageError, match="kernels/"):
            page(examples=examples).expand(f"{{{{ {wrong} }}}}")
    with pytest.raises(PageError, match="line by itself"):
        page(examples=examples).expand("so {{ difference.two[since=one] }} it is")
