"""Both languages hold the same pages, heading levels and ids, code, links, placeholders and tables."""
import re

import fences
import pytest
from support import LANGUAGES, TOP

NAMES = sorted({path.relative_to(TOP / "docs" / lang).as_posix() for lang in LANGUAGES for path in (TOP / "docs" / lang).rglob("*.md")})


def test_the_same_pages():
    for lang in LANGUAGES:
        here = sorted(path.relative_to(TOP / "docs" / lang).as_posix() for path in (TOP / "docs" / lang).rglob("*.md"))
        assert here == NAMES, f"docs/{lang} lacks {set(NAMES) - set(here)}"


def test_the_same_navigation():
    files = {lang: re.findall(r":\s*([\w/-]+\.md)\s*$", (TOP / f"mkdocs.{lang}.yml").read_text("utf-8"), re.M) for lang in LANGUAGES}
    for lang, named in files.items():
        assert sorted(named) == NAMES, f"mkdocs.{lang}.yml: in one of nav and docs/{lang}, not in both: {sorted(set(named) ^ set(NAMES))}"
        assert named == files["en"], f"mkdocs.{lang}.yml: another order than mkdocs.en.yml"
    for title in re.findall(r"^ *- (.+?): [\w/-]+\.md\s*$", (TOP / "mkdocs.zh.yml").read_text("utf-8"), re.M):
        assert title == "Notebook" or re.search("[\u4e00-\u9fff]", title), f"mkdocs.zh.yml: the page is called {title!r} in the menu and at the foot of its neighbours"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["headings", "code", "links", "placeholders", "tables", "containers", "formulas", "blocks", "marks"])
def test_the_same(name, what):
    model, *others = ((lang, skeleton(TOP / "docs" / lang / name)[what]) for lang in LANGUAGES)
    for (one, mine), (other, theirs) in ((model, another) for another in others):
        for i, (a, b) in enumerate(zip(mine, theirs)):
            assert a == b, f"{name}: {what} {i + 1} differ: {one} {a!r}, {other} {b!r}"
        assert len(mine) == len(theirs), f"{name}: {len(mine)} {what} in {one}, {len(theirs)} in {other}; first without a partner: {max(mine, theirs, key=len)[min(len(mine), len(theirs)):][:1]}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_headings_have_explicit_ids_and_no_formula(name, lang):
    for line in prose(TOP / "docs" / lang / name):
        if re.match(r"#{1,6} ", line):
            assert re.search(r"\{ #[a-z][a-z0-9-]* \}$", line), f"{lang}/{name}: give this heading an explicit id: {line}"
            assert "$" not in line, f"{lang}/{name}: no formula in a heading: {line}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_section_is_empty(name, lang):
    lines = [line for line in re.sub(r"\A---\n.*?\n---\n", "", (TOP / "docs" / lang / name).read_text("utf-8"), flags=re.S).splitlines() if line.strip()]
    fence, headings = False, []
    for line in lines:
        fence ^= bool(re.match(r"\s*```", line))
        headings.append(0 if fence else len(m[1]) if (m := re.match(r"(#{1,6}) ", line)) else 0)
    for line, level, below in zip(lines, headings, [*headings[1:], 1]):
        assert not level or not below or below > level, f"{lang}/{name}: nothing stands under {line}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_numbered_headings_count_upwards(lang):
    """Sections that bear a number stand in its order, and the lesson has its nine."""
    for name in NAMES:
        chapter, counts = 0, {}
        for line in prose(TOP / "docs" / lang / name):
            if m := re.match(r"## (\d+)\. ", line):
                chapter += 1
                assert int(m[1]) == chapter, f"{lang}/{name}: section {chapter} is expected here: {line}"
            elif m := re.match(r"### (\d+)\.(\d+) ", line):
                counts[chapter] = counts.get(chapter, 0) + 1
                assert (int(m[1]), int(m[2])) == (chapter, counts[chapter]), f"{lang}/{name}: {chapter}.{counts[chapter]} is expected here: {line}"
        assert name != "lesson.md" or chapter == 9, f"{lang}/{name}: {chapter} numbered sections, the lesson has nine"


@pytest.mark.parametrize("name", NAMES)
def test_bold_does_not_end_in_full_width_punctuation(name):
    """**词，**后 is bold in one Markdown and literal stars in another."""
    for line in prose(TOP / "docs" / "zh" / name):
        parts = line.split("**")
        for bold, after in zip(parts[1::2], parts[2::2]):
            assert not re.fullmatch(r".*[，。、；：！？）」』]\n[\u4e00-\u9fff\w]", f"{bold}\n{after[:1]}"), f"zh/{name}: put the punctuation outside the stars: {line}"


@pytest.mark.parametrize("name", NAMES)
def test_chinese_typography(name):
    """Spaces between Chinese and Latin or digits, full-width punctuation in Chinese sentences."""
    for line in prose(TOP / "docs" / "zh" / name):
        assert not (fault := chinese_fault(line)), f"zh/{name}: {fault} in: {line}"


def chinese_fault(line):
    """What a line of Chinese does against the rules of spacing and punctuation, or None."""
    plain = re.sub(r"`[^`]*`|\$[^$]*\$|\{\{.*?\}\}|\{ ?[#.:][^}]*\}|\]\([^)]*\)|<[^>]*>|\*", "", line)
    if tight := re.search(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9%][\u4e00-\u9fff]", plain):
        return f"a space belongs between '{tight[0]}'"
    if half := re.search(r"[\u4e00-\u9fff][,;:!?]|[,;!?][\u4e00-\u9fff]", plain):
        return f"full-width punctuation at '{half[0]}'"
    return None


def prose(path):
    """The lines of a page outside code fences and front matter."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text("utf-8"), flags=re.S)
    return re.sub(r"(?ms)^\s*(`{3,})[^\n]*\n.*?^\s*\1\s*$", "", text).splitlines()


def skeleton(path):
    lines, text = prose(path), "\n".join(prose(path))
    whole = path.read_text("utf-8")
    return {
        "headings": [(m[1], m[2]) for line in lines if (m := re.match(r"(#{1,6}) .*?\{ #([\w-]+) \}$", line))],
        "code": [(f.language, sorted(f.options), f.title, bool(f.reason), _without_comments(f)) for f in fences.rendered(whole)],
        "links": [target for target in re.findall(r"\]\(([^)\s]+)\)", text)],
        "placeholders": [re.sub(r'"[^"]*"', '""', p) for p in re.findall(r"\{\{\s*[\w@-]+\.[^{}]*\}\}", whole)],
        "tables": [(line.count("|"), columns(line) if re.match(r"\s*\{\{ [\w@-]+\.rows\b", below) else None) for line, below in zip(lines, [*lines[2:], "", ""]) if line.lstrip().startswith("|")],
        "marks": sorted(re.findall(r'<span (data-[\w-]+="[^"]*")', text)),
        "containers": [(len(m[1]), m[2], m[3]) for line in lines if (m := re.match(r"( *)(!!!|\?\?\?\+?|===) ?([a-z]*)", line))],
        "formulas": [_wordless(f) for f in re.findall(r"\$\$.*?\$\$|\$[^$\n]+\$", re.sub(r"`[^`]*`", "", text), re.S)],
        "blocks": [(part.split(" }", 1)[0], len(re.findall(r"\n\s*\n(?=\s*\S)", part))) for part in re.split(r"(?m)^#{1,6} .*?\{ #", "\n" + text)],
    }


def columns(header):
    """The columns of measured rows that stand under a header."""
    return [cell.split()[-1].strip("{}") for cell in header.strip().strip("|").split("|")]


def _wordless(formula):
    """A formula without the words in it, which are the page's language."""
    return re.sub(r"\\(text|quad\\text)\{[^}]*\}", "", formula)


def _without_comments(fence):
    """Shell and text may carry words of the page's language; Python is the same to the letter."""
    return fence.code if fence.language == "python" else re.sub(r"#.*", "", fence.code) if fence.language == "bash" else None
