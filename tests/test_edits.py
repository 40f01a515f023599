"""tools/edits.py: honest edits stay green, all at once here and one at a time in `make edits`; each stands beside a breakage of the same kind that is red."""
import re
import subprocess
import sys

import edits
import mutations
import pytest
from support import TOP
from trials import Place

NAMES = [edit.name for edit in edits.EDITS]


def test_each_edit_still_stands_in_its_file():
    gone = []
    for row in edits.EDITS:
        texts = {}
        for file, old, new in row.edits:
            text = texts.get(file) or (TOP / file).read_text("utf-8")
            texts[file] = mutations.edit(text, old, new)
            if texts[file] == text:
                gone.append(f"{row.name}: {file} has no {old.pattern!r}")
    assert not gone, "mend these rows:\n" + "\n".join(gone)


def test_beside_each_edit_stands_a_breakage():
    there = {mutation.name for mutation in mutations.MUTATIONS}
    assert len(set(NAMES)) == len(NAMES) >= 15
    assert not [(row.name, name) for row in edits.EDITS for name in row.beside if name not in there] and all(row.beside for row in edits.EDITS)


def test_the_readers_of_a_file_are_found():
    assert {"tests/test_flash_vs_naive_memory.py", "tests/test_arithmetic.py", "tests/test_quiz.py"} <= set(edits.readers("examples/flash_vs_naive_memory.py"))
    assert "tests/test_quiz.py" in edits.readers("docs/quiz/lesson.yml") and "tests/test_parts.py" in edits.readers("docs/zh/lesson.md")
    assert edits.readers("docs/en/a-page-that-is-" + "nowhere.md") == []


@pytest.mark.parametrize("edit, says", [
    (edits.E("no-such-text", "README.md", "this text is nowhere", ""), "no longer applies"),
    (edits.E("breaks", "docs/zh/decode.md", r"\{ #sides \}", "{ #side }"), "test_the_same"),
], ids=lambda value: getattr(value, "name", ""))
def test_an_edit_that_is_red_is_told(tmp_path, edit, says):
    with Place(tmp_path / "place") as place:
        assert re.search(says, "\n".join(edits.judged(place, [edit], ["tests/test_parity.py"])))


def test_all_edits_at_once_stay_green(tmp_path):
    with Place(tmp_path / "place") as place:
        red = edits.together(place, browser=False)
    assert not red, "`make edits` tells which edit it is:\n" + "\n".join(red)


def test_the_command_lists_and_refuses():
    listed = subprocess.run([sys.executable, "tools/edits.py", "--list"], cwd=TOP, capture_output=True, text=True)
    assert listed.returncode == 0 and len(listed.stdout.splitlines()) == len(NAMES)
    unknown = subprocess.run([sys.executable, "tools/edits.py", "no-such-edit"], cwd=TOP, capture_output=True, text=True)
    assert unknown.returncode == 2 and "no-such-edit" in unknown.stderr
