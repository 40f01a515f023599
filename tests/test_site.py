"""The built site against its sources: pages, licences, formulas, code, results; and what must break the build. What the built files tell alone: check_site.py."""
import json
import re

import check_site
import bundle
import exercises
import pytest
from core import book
from support import LANGUAGES, SITE_URL, TOP, WORDS

RESULT = "examples/results/nvidia-h200/flash_vs_naive_memory.json"


def test_the_built_site_has_no_finding(site):
    findings = check_site.check(site, SITE_URL)
    assert not findings, "\n".join(map(str, findings))


def test_every_page_of_both_languages_is_there(site):
    for lang in LANGUAGES:
        for path in (TOP / "docs" / lang).rglob("*.md"):
            page = path.relative_to(TOP / "docs" / lang).with_suffix("")
            folder = page.parent if page.name == "index" else page
            assert (site / lang / folder / "index.html").is_file(), f"{lang}/{page}"


def test_what_others_made_is_named_with_its_licence(site):
    notices = (TOP / "THIRD-PARTY.md").read_text("utf-8")
    for folder in {path.name for path in site.glob("assets/*") if path.is_dir()} - {"images"}:
        assert f"`assets/{folder}" in notices, f"THIRD-PARTY.md does not say whose assets/{folder} is"
    for package in json.loads((TOP / "package.json").read_text("utf-8"))["dependencies"]:
        assert package in notices.lower(), package


def test_the_licence_of_a_package_is_its_own():
    notices = (TOP / "THIRD-PARTY.md").read_text("utf-8")
    for package in json.loads((TOP / "package.json").read_text("utf-8"))["dependencies"]:
        licence = json.loads((TOP / "node_modules" / package / "package.json").read_text("utf-8"))["license"]
        rows = [line for line in notices.splitlines() if line.startswith("|") and package in line.lower()]
        assert rows and all(licence in row for row in rows), f"{package} is under {licence}"


def test_every_formula_is_rendered_once_with_mathml(site):
    for lang in LANGUAGES:
        page = (site / lang / "lesson/index.html").read_text("utf-8")
        assert page.count('class="math"') == len(re.findall(r"<math[ >]", page)) > 20 and "arithmatex" not in page


def test_each_example_is_served_byte_for_byte(site):
    sources = {name: text.encode("utf-8") for name, text in bundle.published().items()} | {f"exercises/{name}": text.encode("utf-8") for name, text in exercises.SERVED.items()}
    assert sources.keys() == {path.relative_to(site / "examples").as_posix() for path in (site / "examples").rglob("*.py")}
    for name, source in sources.items():
        assert (site / "examples" / name).read_bytes() == source
        assert b"8<" not in source
    for lang in LANGUAGES:
        page = (site / lang / "lesson/index.html").read_text("utf-8")
        assert re.search(r'<a href="../../examples/online_softmax.py"[^>]* download[^>]*>online_softmax.py</a>', page), "a block's title leads to its file"


def test_report_and_repository_links_come_from_one_setting(site, tree):
    assert "report" not in re.findall(r'class="(\w+)"', (site / "en/lesson/index.html").read_text("utf-8"))
    assert tree.build(REPO_URL="https://code.example/lesson").returncode == 0
    for lang in LANGUAGES:
        page = tree.page(f"{lang}/lesson/index.html")
        assert 'href="https://code.example/lesson"' in page and 'href="https://code.example/lesson/issues/new?title=' in page


# What must turn the build red or change the pages.

def test_a_number_edited_in_the_json_changes_on_the_pages_of_both_languages(tree):
    result = json.loads(tree.path(RESULT).read_text("utf-8"))
    for row in result["rows"]:
        if row.get("part") == "grid" and row["S"] == 4096 and row["kv_heads"] == 28 and not row["causal"]:
            row["naive_mib"] = 98765.0
    tree.path(RESULT).write_text(json.dumps(result), "utf-8")
    assert tree.build().returncode == 0
    for lang in LANGUAGES:
        assert "98,765" in tree.page(f"{lang}/lesson/index.html"), lang


def test_a_second_card_stands_beside_the_first(tree):
    result = json.loads(tree.path(RESULT).read_text("utf-8"))
    result["machine"]["gpu"] = "Other Card"
    for row in result["rows"]:
        if row.get("part") == "grid" and row["S"] == 4096:
            row["naive_mib"] = 54321.0
    other = tree.path("examples/results/other-card/flash_vs_naive_memory.json")
    other.parent.mkdir()
    other.write_text(json.dumps(result), "utf-8")
    run = tree.build()
    assert run.returncode == 0, run.stdout
    for lang in LANGUAGES:
        page = tree.page(f"{lang}/lesson/index.html")
        assert "54,321" in page and "1,904" in page and re.search(r"<label[^>]*>Other Card</label>", page), lang


STALE = {lang: (WORDS[lang].provenance.stale, WORDS[lang].page.stale) for lang in LANGUAGES}   # beside its numbers, and above the page
MEASURES = {   # one of each kind that measures, each in a lab of its own: [(old, new)]
    "flash_vs_naive_memory": [("CAP_GIB = ", "CAP_GIB = 1 + ")],                                    # a constant
    "flash_backward": [("attention=flash, baseline=naive", "attention=naive, baseline=naive")],     # a default
    "hbm_traffic": [("\ndef check(", "\n@functools.cache\ndef check("), ("import argparse\n", "import argparse\nimport functools\n")],   # a decorator
}


def test_a_change_of_what_a_lab_measures_marks_every_page_that_shows_its_numbers(tree):
    before = {lab for (_, lab), result in book.read(TOP).results.items() if result["stale"]}
    for lab, edits in MEASURES.items():
        for old, new in edits:
            tree.edit(f"examples/{lab}.py", old, new)
    done = tree.build()
    assert done.returncode == 0, done.stdout
    for lang in LANGUAGES:
        for path in sorted(tree.path(f"docs/{lang}").glob("*.md")):
            shown = tree.page(f"{lang}/{'' if path.stem == 'index' else path.stem + '/'}index.html")
            uses = set(re.findall(r"\{\{ (\w+)\.", path.read_text("utf-8"))) & (MEASURES.keys() | before)
            banner = re.search(rf"{re.escape(STALE[lang][1])}((?:\s|<code>\w+</code>|[,、])*)", shown)
            assert set(re.findall(r"<code>(\w+)</code>", banner[1]) if banner else ()) == uses, f"{lang}/{path.name}: the banner above the page"
        lesson = tree.page(f"{lang}/lesson/index.html")
        assert all(words in lesson for words in STALE[lang])


def test_what_only_prints_changes_the_output_on_the_page_and_marks_nothing(tree):
    """A comment, a docstring, a label, a header, the order of a line's columns: no GPU is needed, and what is shown as printed follows at once."""
    path = tree.path("examples/decode_attention.py")
    text = path.read_text("utf-8")
    lesson = tree.path("docs/en/lesson.md")
    lesson.write_text(lesson.read_text("utf-8") + "\n```{.text .no-copy}\n{{ decode_attention.output }}\n```\n", "utf-8")
    other = tree.path("docs/zh/lesson.md")
    other.write_text(other.read_text("utf-8") + "\n```{.text .no-copy}\n{{ decode_attention.output }}\n```\n", "utf-8")
    label = re.search(r'\ndef footer\(found\):(?:.|\n)*?f"(?:\\n)?([^{]*)', text)[1]
    text = text.replace(label, "a new label: ", 1)
    path.write_text(text.replace('"""', '"""Said in other words. ', 1) + "\n# a comment\n", "utf-8")
    done = tree.build()
    assert done.returncode == 0, done.stdout
    for lang in LANGUAGES:
        assert "a new label" in tree.page(f"{lang}/lesson/index.html")
    before, after = ({key: result["stale"] for key, result in book.read(top).results.items()} for top in (TOP, tree.top))
    assert after == before, "what was up to date is, and what waits for a GPU waits"


@pytest.mark.parametrize("name, old, new, complaint", [
    ("docs/en/lesson.md", "{{ flash_vs_naive_memory.", "{{ flash_vs_naive_memories.", r"docs/en/lesson.md:\d+: no result 'flash_vs_naive_memories'"),
    ("docs/zh/lesson.md", '--8<-- "online_softmax.py:online_steps"', '--8<-- "online_softmax.py:online_step"', "online_step' could not be located"),
    ("docs/en/lesson.md", '--8<-- "online_softmax.py', '--8<-- "online_sofmax.py', "online_sofmax.py"),
    ("examples/online_softmax.py", "def online_steps(", "def online_stepz(", "online_steps' could not be located"),
    ("docs/en/index.md", "](lesson.md", "](lessons.md", "lessons.md"),
    ("docs/zh/index.md", "](lesson.md", "](lesson.md#no-such-place", "no-such-place"),
    ("docs/zh/lesson.md", "  tiling: ", "  tilings: ", "docs/zh/lesson.md: synonyms in the front matter name 'tilings'"),
    ("docs/en/lesson.md", "$$\n", "$$\n\\frac{1 ", r"docs/en/lesson.md:\d+: formula"),
    (RESULT, '"driver"', '"drive"', "machine: 'driver' is a required"),
    (RESULT, '"rows"', '"rowz"', "'rows' is a required"),
    (RESULT, '"status": "ok"', '"status": NaN', "not strict JSON"),
], ids=lambda value: value[:40])
def test_a_build_that_must_fail(tree, name, old, new, complaint):
    tree.edit(name, old, new)
    run = tree.build()
    assert run.returncode != 0, f"green in spite of {new!r} in {name}"
    assert re.search(complaint, run.stdout), run.stdout
