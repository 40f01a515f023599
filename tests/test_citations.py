"""Every number that a page quotes names its paper and the place in it, and no number of unknown origin stands on a page.

A number in prose is a placeholder (measured), or arithmetic (FIGURES of test_arithmetic), or quoted (QUOTES below), or plain:
a version, a section, a date, a shape, a count. Counts without a unit are not asked for; whatever has a unit of time, rate,
size or share, a decimal point or an exponent is. A quotation needs the name of its source and the place within the same
paragraph, table row or list item; the name may stand in the heading above.
"""
import re

import pytest
from support import LANGUAGES, TOP
from test_arithmetic import FIGURES, spaced
from test_parity import NAMES, prose

FA1, FA2, FA3, FA4 = (rf"FlashAttention-{n}\b|arXiv {paper}" for n, paper in enumerate((r"2205\.14135", r"2307\.08691", r"2407\.08608", r"2603\.05451"), 1))
FA1 += r"|^FlashAttention\b(?!-)"
FA3 += r"|NeurIPS"
POST = r"Flash-Decoding"
ABSTRACT = r"abstract|摘要"

def marked(name):
    """What <span data-quote="name">…</span> holds: a quotation whose number is too common to be known by itself."""
    return rf"⟦{name}: [^⟧]*⟧"


QUOTES = [  # (what is quoted, its source, the place in it)
    (r"(?<![\d.])13 %", FA1, r"Fig\. 2"),
    (r"(?<![\d.])4\.4 GB|40\.3 GB", FA1, r"Fig\. 2"),
    (marked("fa1-training"), FA1, ABSTRACT),
    (r"1\.7 (?:to|到) 1\.8", FA2, r"§3\.1\.1"),
    (marked("fa2-flop"), FA2, r"§3\.1(?!\.)"),
    (r"50 (?:% )?(?:to|到) 73 %|25 (?:% )?(?:to|到) 40 %", FA2, ABSTRACT),
    (r"(?<![\d.])35 %", FA3, ABSTRACT),
    (r"3\.9 T(?![A-Za-z])", FA3, r"§3\.1"),
    (r"\b661\b|\b582\b|\b570\b(?! %)", FA3, r"Table 2"),
    (r"2\.4e-2|9\.1e-3|9\.3e-3|1\.9e-4|3\.2e-4", FA3, r"Table 3"),
    (marked("fa3-sign"), FA3, r"Algorithm 1\b"),                 # the sign slip again: seen in the arXiv version's text; FlashAttention-4's is right
    (r"\b740\b|\b840\b|1\.2 PFLOP|1\.3 PFLOP|" + marked("fa3-share") + r"|(?<![\d.])85 %", FA3, ABSTRACT),
    (r"8192 FLOP", FA4, r"Feeds and Speeds"),
    (r"(?<![\d.])10 (?:% )?(?:to|到) 25 %|8\.8e-5|3\.9e-3", FA4, r"§3\.1\.3"),
    (r"τ = (?:log₂ 256 = )?8\b", FA4, r"§3\.1\.4"),
    (r"20 (?:to|到) 30 (?:times|倍)", FA4, ABSTRACT),
    (r"\b1613\b|\b1605\b|(?<![\d.])71 %|1\.3 (?:times|倍)|2\.7 (?:times|倍)", FA4, ABSTRACT),
    (r"2664 µs|4592 µs|106\.6 µs", POST, r"\btable\b|微基准表"),
    (r"20\.4 (?:% )?(?:to|到) 38\.2 %", r"PagedAttention", r"Fig\. 2"),
]
SHEETS = [  # (from a data sheet, which is one table, or from a white paper's table of a card; named once on a page, or by the paper that quotes it)
    (r"165\.2\b|\b1008 GB/s", r"Ada (?:GPU )?(?:architecture )?whitepaper|Ada (?:架构)?白皮书"),
    (r"4\.8 TB/s|\b1979\b", r"data sheet|产品手册"),
    (r"\b989\b", rf"data sheet|产品手册|(?:{FA3}).*§3\.1|§3\.1.*(?:{FA3})"),
]
EVERYWHERE = {"2 bytes", "4 bytes", "24 bytes", "2 字节", "4 字节", "24 字节", "24 GB", "24 GiB", "1e4"}   # sizes of fp16 and fp32, of the random state and of a card; an input of tests
PLAIN = {  # page: figures that are neither measured nor computed nor quoted, and why
    "backward": {"2 倍": "four products over two, in English words"},
    "calculator": {"7 FLOP": "the heading of the page on decode that is linked"},
    "decisions": {"2.6": "a version of PyTorch", "200 %": "a zoom of the browser"},
    "decode": {"100 KiB": "shared memory of a multiprocessor, CUDA's table of compute capabilities", "40 times": "a question's choice", "2 倍": "the same", "7 倍": "the same", "40 倍": "the same", "80 %": "PyTorch's rule, in kv_splits of the lab", "100 %": "of a copy", "20 %": "an example of a bad report"},
    "glossary": {"900 GB/s": "data sheet of the H200, both directions", "1 MiB": "a definition", "1 MB": "a definition", "1 GiB": "a definition", "1 GB": "a definition"},
    "gpu": {
        "10 ms": "the least length of a sample, test_gpu", "1e-4": "TOLERANCE of gpu-attention.js", "128 MiB": "the least that WebGPU's specification grants a storage binding", "2 GiB": "an example of a limit, test_gpu",
    },
    "interview": {"70 GiB": "vLLM's rule, in the evidence"},
    "lesson": {
        "4 GB": "what the lab asks for", "100 KiB": "as in decode", "0.60": "an example of a price", "0.05": "the same", "1.80": "the same", "0.15": "the same", "2 MiB": "a step of PyTorch's allocator", "1e-15": "a bound in a test", "1e-12": "a bound in a test",
        "70 GiB": "vLLM's rule, in the evidence", "8192 bytes": "a product written out", "8192 字节": "the same",
    },
    "measured": {
        "0.1 ms": "the method", "100 ms": "the method", "0.06 ms": "a question's kernel", "10 %": "a percentile", "90 %": "a percentile", "44 %": "an example of a bad report",
        "4 GiB": "the copy", "5 %": "the rule of compare.py",
    },
    "ring": {
        "1 MiB": "a size of message", "50 %": "a question's choice", "67 %": "the same", "7 %": "test_claims", "5 %": "test_claims", "1 %": "test_claims", "100 %": "of the passes alone", "350 TFLOP/s": "about what was measured; test_claims",
        "900 GB/s": "data sheet of the H200, both directions", "4.0": "PCIe's version",
    },
    "roofline": {"5 %": "what the lab calls leaving the floor, and test_claims", "32 times": "two sizes of M", "32 倍": "the same", "800 TFLOP/s": "the measured ceiling, rounded; test_claims", "330 TFLOP/s": "a question's profile"},
    "versions": {"1.0e-4": "test_exp2_polynomial"},
    "vllm": {"160 GiB": "vLLM's rule, in the evidence"},
}


def blocks(lang, name):
    """(heading above, text) of each paragraph, row and item, without code, formulas, placeholders and addresses."""
    heading, text = "", "\n".join(prose(TOP / "docs" / lang / name))
    for line in re.sub(r"(?s)\$\$.*?\$\$", "", text).splitlines():
        if found := re.match(r"#{2,3} (.*?) \{ #", line):
            heading = found[1]
        elif not re.match(r"#|\{\{|\s*--8<", line):
            line = re.sub(r'<span data-quote="([\w-]+)">(.*?)</span>', r"⟦\1: \2⟧", line)
            plain = re.sub(r"`[^`]*`|\$[^$\n]*\$|\{\{.*?\}\}|\]\([^)]*\)|<[^>]*>|\*", " ", line)
            yield heading, re.sub(r" +", " ", spaced(plain))


def uncited(found):
    """What is quoted in these blocks without a source or a place."""
    wrong = []
    for heading, text in found:
        for figure, source, place in QUOTES:
            if quoted := re.search(figure, text):
                named = re.search(source, text) or re.search(source, heading)
                if not named or not re.search(place, text):
                    wrong.append(f"'{quoted[0]}' needs {'its place ' + place if named else 'its source ' + source}: {text.strip()[:160]}")
    page = "\n".join(text for _, text in found)
    for figure, source in SHEETS:
        if (quoted := re.search(figure, page)) and not re.search(source, page):
            wrong.append(f"'{quoted[0]}' needs its source: {source}")
    return wrong


NOT_A_FIGURE = re.compile(
    r"§ ?\d+(?:\.\d+)*|(?:sections?|[Pp]itfalls?|第|误区|决定|decision|Theorem|定理|Table|Fig\.|Algorithm|Proposition|命题|[Ll]ines?) \d+(?:\.\d+)*(?: (?:and|to|和|到) \d+(?:\.\d+)*)?"
    r"|\[\d\.\d+(?:\.\d+)?|\b3\.[123]\b(?! ?(?:%|ms|GB|T|times|倍))"   # the lesson's sections
    r"|(?:PyTorch|Python|vLLM|cuDNN|CUDA|arXiv|MkDocs|version|[Vv]ersions?|版本|capability|能力|since|from|In|in)(?: of)? (?:is )?\d+\.\d+(?:\.\d+)?(?: (?:and|to|和|到) \d+\.\d+(?:\.\d+)?)*"
    r"|\d\.\d+(?= 版)|\d+\.\d+\.\d+|Qwen2\.5-7B|(?:8\.0|8\.9|9\.0|10\.0|12\.0)(?= (?:\||A100|RTX|H100|B200|是))|\(?2\.11 (?:prefers|只)|(?<![\w.])[2-3]\.1[0-9](?![\d.])"
)
NUMBER = re.compile(
    r"(?<![\w.,^/·])(\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?)( ?(?:%|ms\b|µs\b|[GT]B/s|[TPGM]?FLOP(?:/s)?|M(?![A-Za-z])|[GMT]B\b|[GMK]iB\b|T(?![A-Za-z])|bytes?\b|字节|times\b|倍))?"
)


def unknown(lang, name):
    """Figures of a page that nobody answers for."""
    page = name.removesuffix(".md")
    computed = {figure for figure, _, where in FIGURES if where == page}       # with its unit, or without one
    quoted = [figure for figure, *_ in [*QUOTES, *SHEETS]]
    for _, text in blocks(lang, name):
        text = re.sub("|".join(quoted), " ", NOT_A_FIGURE.sub(" ", text))
        for number, unit in NUMBER.findall(text):
            if (unit or re.search(r"[.e]", number)) and not {number, (number + unit).strip()} & computed and (number + unit).strip() not in EVERYWHERE | set(PLAIN.get(page, ())):
                yield f"{number}{unit} in: {text.strip()[:140]}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_is_quoted_names_its_source_and_the_place_in_it(lang, name):
    wrong = uncited(list(blocks(lang, name)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_figure_is_measured_computed_quoted_or_plain(lang, name):
    wrong = list(unknown(lang, name))
    assert not wrong, "measure it, or add it to FIGURES, QUOTES or PLAIN:\n" + "\n".join(wrong)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_citation_that_is_removed_is_missed(lang, name):
    """Each place and each source that a paragraph names is struck out in turn."""
    found = list(blocks(lang, name))
    for i, (heading, text) in enumerate(found):
        for figure, source, place in QUOTES:
            if re.search(figure, text):
                for strike, above in ((place, heading), (source, "")):
                    assert uncited([(above, re.sub(strike, " ", text))]), f"{strike} can go unnoticed: {text}"
    for figure, source in SHEETS:
        if any(re.search(figure, text) for _, text in found):
            assert uncited([(heading, re.sub(source, " ", text)) for heading, text in found])


def test_every_quotation_of_the_list_is_on_a_page_of_each_language():
    for lang in LANGUAGES:
        pages = "\n".join(text for name in NAMES for _, text in blocks(lang, name))
        for figure, *_ in [*QUOTES, *SHEETS]:
            assert re.search(figure, pages), f"{lang}: {figure} is quoted nowhere: drop it"
