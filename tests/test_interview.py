"""Interview: at least 25 questions in three levels, each with a short and a deep answer, and a link to the place that proves it."""
import re

import pytest
from support import LANGUAGES, TOP


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_question_has_a_level_two_answers_and_a_proof(lang):
    page = (TOP / "docs" / lang / "interview.md").read_text("utf-8")
    levels = re.findall(r"(?ms)^## [^\n]*\{ #(\w+) \}\n(.*?)(?=^## |\Z)", page)
    assert [name for name, _ in levels] == ["easy", "medium", "hard"]
    numbers, marks = [], set()
    for level, text in levels:
        for number, answer in re.findall(r'(?ms)^\?\?\? question "(\d+)\. [^\n]*"\n(.*?)(?=^\?\?\?|\Z)', text):
            found = re.findall(r"^    (\*\*[^*\n]+\*\*)", answer, re.M)
            assert len(found) == 2, f"question {number}: two paragraphs begin with a mark, the short answer and the deep one: {found}"
            short, deep = found
            numbers.append(int(number))
            marks.add((short, deep))
            assert len(answer[answer.index(short):answer.index(deep)]) < 420, f"question {number}: the short answer takes more than one breath"
            assert re.search(r"\]\((?!glossary)[\w-]+\.md#[\w-]+\)", answer[answer.index(deep):]), f"question {number} points to no place that proves it"
        assert len(re.findall(r"^\?\?\?", text, re.M)) >= 5, level
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 25
    assert len(marks) == 1, f"every question has the same two marks: {marks}"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_further_reading_says_what_to_read(lang):
    for page, heading in (("lesson", "summary"), ("versions", "reading")):
        text = re.search(rf"\{{ #{heading} \}}\n(.*?)(?=^## |\Z)", (TOP / "docs" / lang / f"{page}.md").read_text("utf-8"), re.S | re.M)[1]
        rows = re.findall(r"^ *\| (.*?https://[^ |]*) \| (.*) \|$", text, re.M)
        assert len(rows) >= 8 and all(len(note) > (20 if lang == "en" else 8) for _, note in rows), f"{lang}/{page}: {rows}"
