"""`make quick` sees what a changed sentence, number or placeholder breaks: each mutation of a page has its check among those that it runs."""
import re

import mutations
import pytest
from support import SLOW, TOP

PROSE = re.compile(r"docs/(en|zh)/[\w-]+\.md|docs/(quiz|words)/\w+\.yml|mkdocs\.\w+\.yml")
BROWSER = {"output-can-be-copied", "drawing-has-a-text-beyond-its-box", "chinese-search-is-not-split", "search-lacks-a-synonym", "search-lacks-a-term"}   # seen in a browser only: the button that copies (test_fences.py asks for .no-copy too), how wide a text is drawn, what the search answers


def quick():
    """What the recipe of `make quick` hands to pytest."""
    stems = re.search(r"^QUICK = \$\(addprefix tests/test_,\$\(addsuffix \.py,(.*?)\)\) (.*)$", (TOP / "Makefile").read_text("utf-8"), re.M)
    return {*(f"tests/test_{stem}.py" for stem in stems[1].split()), *stems[2].split()}


ROWS = [mutation for mutation in mutations.MUTATIONS if all(PROSE.fullmatch(file) for file, *_ in mutation.edits)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_breakage_of_prose_is_seen(row):
    if row.check == mutations.BUILD:
        return   # the site of these tests is built strictly
    if row.name in BROWSER:
        return
    for node in mutations.nodes(row.check):
        file, _, test = node.partition("::")
        if file.startswith("docs/"):
            assert file.rpartition("/")[0] in quick()
            continue
        assert file in quick(), f"{file} is not among QUICK of the Makefile"
        written = re.search(rf"^def {test.partition('[')[0]}\((.*?)\):", (TOP / file).read_text("utf-8"), re.M)
        needs = SLOW & set(re.findall(r"\w+", written[1]))
        assert not needs, f"{node} needs {needs}"


def test_there_are_rows():
    assert len(ROWS) > 50 and BROWSER <= {row.name for row in ROWS}


def test_what_is_named_is_there():
    """One name that is gone, and pytest runs nothing at all."""
    assert not [path for path in quick() if not (TOP / path).exists()]
