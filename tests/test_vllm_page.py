"""Reading vLLM says nothing that the evidence does not hold; the figures on the page about versions name their place."""
import json
import re

import pytest
from support import LANGUAGES, TOP
from test_parity import prose
from verify import statements

EVIDENCE = json.loads((TOP / "docs/evidence/vllm.json").read_text("utf-8"))
ROWS = {row["id"]: row for row in EVIDENCE["statements"]}
CHECKED = json.dumps([[row["en"], row[statements.PINNED]["found"], row["newest"].get("en"), row["newest"]["found"]] for row in EVIDENCE["statements"]], ensure_ascii=False)
OTHER = {"--attention-backend FLASH_ATTN", "vllm/", "cmake/", "requirements/"}   # a command line and folders of the archive
UNIT = re.compile(r"\d ?(?:TFLOP|PFLOP|GB\b|µs|%)|\d ?T (?:expo|次)|\d[\d.]*e-\d")
PLACE = re.compile(r"§|Table \d|Fig\. \d|abstract|摘要|table\b|微基准表|post|博文|caption|图注")


def text(lang, name):
    return "\n".join(prose(TOP / "docs" / lang / f"{name}.md"))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_pages_show_every_statement(lang):
    shown = set(re.findall(r"^\{\{ evidence\.vllm\[topic=(\w+)\] \}\}$", text(lang, "vllm") + "\n" + text(lang, "ring") + "\n" + text(lang, "serving"), re.M))
    assert shown == {row["topic"] for row in ROWS.values()}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_name_of_vllm_on_the_page_is_in_the_evidence(lang):
    unknown = {code for code in re.findall(r"`([^`\n]+)`", text(lang, "vllm")) if json.dumps(code)[1:-1] not in CHECKED and code not in OTHER}
    assert unknown <= {"attn_metadata.causal", "attn_metadata.block_table"} and all(name in CHECKED for name in unknown), (
        f"say it in a statement of tools/verify/statements.py first: {unknown}")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_line_number_is_typed(lang):
    assert not re.search(r"\.py:\d", text(lang, "vllm")), "the tables of evidence have the lines"


LESSON = [  # (place as section 4b of the lesson types it, in order; `:N` is in the file named before; statement; release)
    ("registry.py:44", "registry", "0.26.0"), ("flash_attn.py:72", "dtypes", "0.26.0"), (":201", "capability", "0.26.0"),
    ("flash_attn.py:751", "scale-layer", "0.26.0"), (":776", "fa-log", "0.26.0"), ("flash_attn.py:1071", "write-arguments", "0.26.0"),
    ("flash_attn.py:811", "forward-arguments", "0.26.0"), ("flash_attn.py:1014", "inner-callee", "0.26.0"), ("flash_attn_interface.py:315", "kernels", "0.26.0"),
]


def lesson_4b(lang):
    return re.search(r"\{ #vllm \}\n(.*?)^## ", text(lang, "lesson"), re.S | re.M)[1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_lines_that_the_lesson_types_are_those_of_the_evidence(lang):
    section = lesson_4b(lang)
    assert re.findall(r"`([\w/]*(?:\.py)?:\d+)`", section) == [place for place, *_ in LESSON], "a place in section 4b of the lesson is in LESSON, in order, or not there"
    assert not re.search(r"\blines? \d|第 \d+ 行|#L\d", section), "give a line as `file.py:N`"
    file = None
    for place, statement, release in LESSON:
        named, line = place.split(":")
        file, found = named or file, ROWS[statement][release]
        assert found["file"].endswith(f"/{file}") and found["line"] == int(line), f"'{place}' is typed; {statement} stands at {found['file']}:{found['line']} in {release}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_lesson_names_the_releases_and_the_day_of_the_evidence(lang):
    newest, (year, month, day) = EVIDENCE["versions"]["newest"]["version"], EVIDENCE["checked"].split("-")
    months = "January February March April May June July August September October November December".split()
    date = {"en": f"{int(day)} {months[int(month) - 1]} {year}", "zh": f"{year} 年 {int(month)} 月 {int(day)} 日"}[lang]
    pages = text(lang, "lesson")
    assert set(re.findall(r"(?<![\d.])0\.\d\d\.\d+", pages)) == {statements.PINNED, newest} and newest in lesson_4b(lang)
    assert set(re.findall(r"\d+ (?:%s) 20\d\d|20\d\d 年 \d+ 月 \d+ 日" % "|".join(months), pages)) == {date}, "the evidence was made on another day"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_table_of_cards_is_the_evidence(lang):
    orders = ROWS["order-default"][statements.PINNED]["found"] | ROWS["order-sm100"][statements.PINNED]["found"]
    versions = ROWS["fa-version"][statements.PINNED]["found"]
    rows = re.findall(r"^\| (\d+\.\d) \| [^|]+ \| (\w+)[,、] ?(\w+)[,、].*? \| (\d) \|$", text(lang, "vllm"), re.M)
    assert {card: ([first, second], int(version)) for card, first, second, version in rows} == {card: (orders[card][:2], versions[card]) for card in versions}
    cards = re.findall(r"^\| [^|]+ \| (\d+\.\d) \| FlashAttention-2 \| (\d) \|$", text(lang, "versions"), re.M)
    assert {card: int(version) for card, version in cards} == versions


@pytest.mark.parametrize("lang", LANGUAGES)
def test_quoted_figures_name_their_place(lang):
    for line in text(lang, "versions").splitlines():
        assert not UNIT.search(line) or PLACE.search(line), f"say in which section, figure or table this stands: {line}"
