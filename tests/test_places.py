"""What belongs together stands together: a figure in its section, an output under its command, an exercise under its heading, a count in words beside what it counts.

Each of these was exchanged once, in both languages alike, and every other check stayed green.
"""
import json
import pkgutil
import re

import outputs
import pytest
import ring_attention
import run as runner
import test_notebooks
import torch
from core import results
from core.drawings import fill
from support import LANGUAGES, TOP, WORDS
from test_parity import NAMES, columns, prose

DRAWINGS = {   # page, id of the heading above
    "bytes": ("lesson.md", "thirty-seconds"), "square": ("lesson.md", "score-matrix"), "merge": ("lesson.md", "online-softmax"), "intensity": ("lesson.md", "tiling"), "split": ("lesson.md", "where-it-helps"),
    "packed": ("lesson.md", "tiled-attention-py"), "moments": ("lesson.md", "lab-predict"), "corner": ("lesson.md", "pitfalls"), "tiling": ("lesson.md", "tiling"), "ring": ("ring.md", "picture"), "vllm-path": ("vllm.md", "path"),
}
NUMBERS = {"en": "no one two three four five six seven eight nine ten eleven twelve".split(), "zh": "零 一 二 三 四 五 六 七 八 九 十 十一 十二".split()}


def source(lang, name):
    return (TOP / "docs" / lang / name).read_text("utf-8")


def section(lang, name, anchor):
    """The text below a heading, up to the next of its level or above."""
    found = re.search(rf"(?ms)^(#+) [^\n]*\{{ #{anchor} \}}\n(.*?)(?=^#{{1,2}} |\Z)", source(lang, name))
    assert found, f"{lang}/{name} has no heading #{anchor}"
    return found[2]


def under(lang, name, wanted):
    """(id of the nearest heading above, match) of each line that holds `wanted`."""
    heading = None
    for line in source(lang, name).splitlines():
        if found := re.match(r"#+ .*\{ #([\w-]+) \}$", line):
            heading = found[1]
        for match in re.finditer(wanted, line):
            yield heading, match


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_drawing_stands_in_its_section(lang):
    found = {match[1]: (name, heading) for name in NAMES for heading, match in under(lang, name, r"\{\{ drawing\.([\w-]+) \}\}")}
    assert found == {drawing: (page, heading) for drawing, (page, heading) in DRAWINGS.items()}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_name_of_a_drawing_is_its_own(lang):
    """What a screen reader says of it: two drawings never share a title or a description, and none has a title for its description."""
    shown = {path.stem: fill(path.read_text("utf-8"), WORDS[lang].drawings[path.stem]) for path in (TOP / "docs/theme/drawings").glob("*.svg")}
    assert shown.keys() == DRAWINGS.keys()
    for kind in ("title", "desc"):
        said = [text for stem, svg in shown.items() for text in re.findall(rf'<{kind} id="{stem}-{kind}"[^>]*>(.+?)</{kind}>', svg, re.S)]
        assert len(set(said)) == len(said) == len(DRAWINGS), f"two drawings have one {kind}"
    for path in (TOP / "docs/theme/drawings").glob("*.svg"):
        assert re.findall(rf'<(title|desc) id="{path.stem}-\1"[^>]*>{{{{\1}}}}<', path.read_text("utf-8")) == ["title", "desc"], f"{path.name}: not one title and desc of its own words"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_output_stands_under_the_command_that_prints_it(lang, name):
    text = source(lang, name)
    shown = re.findall(r'```\{\.text \.no-copy[^}]*?title="python ([^"]*)"\}\n\s*--8<-- "outputs/([^"]+)"', text)
    assert len(shown) == text.count('--8<-- "outputs/'), f"{lang}/{name}: an output needs its command as title: python NAME.py …"
    for command, file in shown:
        program, *arguments = outputs.COMMANDS[file]
        assert command.split() == [program.removeprefix("pitfalls/"), *arguments], f"{lang}/{name}: outputs/{file} is printed by python {' '.join(outputs.COMMANDS[file])}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_exercise_and_its_solution_stand_under_its_heading(lang):
    for wanted in (r"\{\{ widget\.exercise\[name=(\w+)\] \}\}", r'title="exercises/(\w+)\.py"', r'--8<-- "exercises/(\w+)\.py"'):
        found = [(heading, match[1]) for heading, match in under(lang, "exercises.md", wanted)]
        assert len(found) >= 8 and all(heading == name.replace("_", "-") for heading, name in found), f"{wanted}: {found}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_pitfall_and_its_output_stand_under_its_heading(lang):
    for wanted in (r'title="pitfalls/(\w+)\.py"', r'--8<-- "pitfalls/(\w+)\.py:?', r'--8<-- "outputs/pitfalls-(\w+)\.txt"'):
        found = [(heading, match[1]) for heading, match in under(lang, "pitfalls.md", wanted)]
        assert len(found) >= 24 and all(heading == name.replace("_", "-") for heading, name in found), f"{wanted}: {[pair for pair in found if pair[0] != pair[1].replace('_', '-')]}"


WIDGETS = {"theatre[form=home]": ("index.md", "home"), "theatre[form=lesson]": ("lesson.md", "mental-model"), "calculator": ("calculator.md", "calculator"), "progress": ("exercises.md", "ways"), "stepper[file=online_softmax.py]": ("lesson.md", "online-softmax"), "run[file=online_softmax.py]": ("lesson.md", "online-softmax-py"), "quiz[name=lesson]": ("lesson.md", "quiz"),
           "gpu[form=short]": ("lesson.md", "lab-browser"), "gpu[form=whole]": ("gpu.md", "your-gpu"), "wgsl[name=flash]": ("gpu.md", "change")}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_widget_stands_in_its_section(lang):
    assert {match[1]: (name, heading) for name in NAMES for heading, match in under(lang, name, r"\{\{ widget\.((?!exercise)[^}]*?) \}\}")} == WIDGETS


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_notebook_is_linked_under_its_lab(lang):
    found = [(heading, match[1]) for heading, match in under(lang, "notebooks.md", r"\]\(notebooks/(\w+)\.ipynb\)")]
    assert sorted(found) == sorted((lab.replace("_", "-"), lab) for lab in test_notebooks.LABS)


@pytest.mark.parametrize("name", NAMES)
def test_no_two_tables_of_a_page_show_the_same_rows(name):
    """A table that was copied and kept its filter."""
    lines = source("en", name).splitlines()
    shown = [(match[1], *(columns(above) if match[2] == "rows" else ())) for above, line in zip(["", "", *lines], lines) if (match := re.match(r"\s*\{\{ (.*\.(rows|chart|roofline)\b.*) \}\}$", line))]
    assert len(set(shown)) == len(shown), [one for one in shown if shown.count(one) > 1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_counts_in_words_are_right(lang):
    """A count that may grow stands in <span data-count="what">…</span>."""
    there = {
        "interview": len(re.findall(r"(?m)^\?\?\? question", source(lang, "interview.md"))), "questions": len(re.findall(r"(?m)^ *\d+\. \[", section(lang, "lesson.md", "interview"))),
        "mistakes": len(re.findall(r"(?m)^\| \[", section(lang, "lesson.md", "pitfalls"))), "pitfalls": len(list((TOP / "examples/pitfalls").glob("*.py"))),
        "papers": len(re.findall(r"(?m)^ *\| .*https://", section(lang, "lesson.md", "summary"))),
    }
    said = [(page, name, number) for page in NAMES for name, number in re.findall(r'<span data-count="(\w+)">(.*?)</span>', source(lang, page))]
    assert {name for _, name, _ in said} == there.keys()
    for page, name, number in said:
        assert number.lower() in {str(there[name]), *NUMBERS[lang][there[name]:there[name] + 1]}, f"{lang}/{page}: it says {number} {name}, there are {there[name]}"


@pytest.fixture(scope="module")
def there():
    """(cards that somebody measured on, names of the labs)"""
    return {json.loads(path.read_text("utf-8"))["machine"]["gpu"] for path in results.files(TOP / "examples/results")}, runner.find_labs().keys()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_prose_names_cards_labs_shapes_and_functions_that_are_there(there, lang, name):
    (measured, labs), text = there, "\n".join(prose(TOP / "docs" / lang / name))
    assert {f"NVIDIA {card}" for card in re.findall(r"NVIDIA ([A-Z]{1,3}\d+\w*)", text) if not re.search(rf"NVIDIA {card}[^。.]*(?:data sheet|产品手册)", text)} <= measured, "a card that nobody measured on"
    assert set(re.findall(r"\bLAB=(\w+)", source(lang, name))) <= labs
    assert {int(heads) for heads in re.findall(r"(\d+)(?: query heads| 个 query 头)", text)} <= {ring_attention.QWEN["heads"], *{"lesson.md": {14}, "interview.md": {7}}.get(name, ())}, "the shape of Qwen2.5-7B, one of the random ones, or a group of its heads"
    for dotted in set(re.findall(r"`(torch(?:\.\w+)+)\b(?!\.?[/\w])", text)):
        if not dotted.startswith("torch.ops._vllm"):
            assert known(dotted), f"{lang}/{name}: there is no `{dotted}` in PyTorch {torch.__version__}"


def known(dotted):
    """Whether PyTorch has this name, as a module or in one."""
    try:
        pkgutil.resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def test_decisions_are_numbered_in_order():
    for lang in LANGUAGES:
        numbers = re.findall(r"(?m)^## (\d{4}) .*\{ #r(\d{4}) \}$", source(lang, "decisions.md"))
        assert numbers == [(f"{n:04}", f"{n:04}") for n in range(1, len(numbers) + 1)] and len(numbers) >= 15


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_link_that_names_a_number_leads_there(lang, name):
    """'section 3.2', 'pitfall 6.7', 'decision 0004': the heading that the link leads to has that number."""
    wrong, seen = [], 0
    for text, page, anchor in re.findall(r"\[([^\]\[]*)\]\(([\w-]+\.md)?#([\w-]+)\)", "\n".join(prose(TOP / "docs" / lang / name))):
        numbers = re.findall(r"(?<![\w.])(\d{4}|\d+(?:\.\d+)?)(?![\w%]|\.\d)", text)
        heading = re.search(rf"(?m)^#+ (.*) \{{ #{anchor} \}}$", source(lang, page or name))
        own = heading and re.match(r"(\d{4}|\d+(?:\.\d+)?)\.? ", heading[1])
        if own and len(numbers) == 1:
            seen += 1
            if numbers[0] != own[1]:
                wrong.append(f"[{text}] leads to '{heading[1]}'")
    assert not wrong, f"{lang}/{name}: " + "; ".join(wrong)
    assert seen or name not in ("decode.md", "lesson.md", "roofline.md"), "no numbered link was understood"
