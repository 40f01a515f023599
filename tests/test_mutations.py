"""The cheap mutations of tools/mutations.py are caught; the runner itself is not content too early; every field report has its place."""
import csv
import re
import subprocess
import sys

import mutations
import pytest
from support import TOP

REPORTS = TOP / "tests" / "field_reports.tsv"
COUNT = {"a": 21, "b": 20, "c": 10, "d": 24, "e": 11, "f": 12, "g": 10}   # of each group
NAMES = [mutation.name for mutation in mutations.MUTATIONS]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with mutations.Place(tmp_path_factory.mktemp("mutations")) as made:
        yield made


@pytest.mark.parametrize("mutation", mutations.QUICK, ids=lambda mutation: mutation.name)
def test_a_broken_promise_is_red(place, mutation):
    """Its check runs by itself in this suite: no baseline."""
    wrong, _ = mutations.verdict(place, mutation)
    assert not wrong, f"{mutation.name}: {wrong}"


def test_there_are_enough_each_with_a_name_and_a_check():
    assert len(mutations.MUTATIONS) >= 60 and len(mutations.QUICK) >= 20 and len(set(NAMES)) == len(NAMES)
    for mutation in mutations.MUTATIONS:
        assert re.fullmatch(r"[a-z0-9-]+", mutation.name.replace("_", "-")) and (mutation.check != mutations.BUILD or mutation.says), mutation.name


def test_every_row_still_stands_in_its_file():
    """`make mutate` runs seldom: a row whose text has moved away would be silent until then."""
    gone = []
    for mutation in mutations.MUTATIONS:
        texts = {}
        for file, old, new in mutation.edits:
            text = texts[file] if file in texts else (TOP / file).read_text("utf-8") if (TOP / file).is_file() else ""
            texts[file] = mutations.edit(text, old, new)
            if texts[file] == text:
                gone.append(f"{mutation.name}: {file} has no {old!r}")
    assert not gone, "mend these rows:\n" + "\n".join(gone)


NODE = "tests/test_placeholders.py::test_kernel_names"
HARMLESS = [("README.md", "# FlashAttention", "# Flash attention")]
PROBES = [
    (mutations.Mutation("harmless", HARMLESS, NODE), "stays green"),
    (mutations.Mutation("no-such-text", [("README.md", "this text is nowhere", "")], NODE), "no longer applies"),
    (mutations.Mutation("no-such-file", [("NOWHERE.md", "a", "b")], NODE), "no longer applies"),
    (mutations.Mutation("no-such-check", HARMLESS, "tests/test_placeholders.py::test_of_nothing"), "did not fail but broke"),
    (mutations.Mutation("broken-on-the-way", [("docs/hooks/core/placeholders.py", "import re\n", "import nothing_of_that_name\n")], NODE), "did not fail but broke"),
    (mutations.Mutation("another-reason", [("docs/hooks/core/measured.py", "rsplit(\"::\", 1)[-1]", "rsplit(\"::\", 1)[0]")], NODE, "words that nobody says"), "red for another reason"),
]


def test_what_is_no_catch_is_told(place):
    wrong = mutations.run([probe for probe, _ in PROBES[:2]], check_baseline=False)[0]   # by the pool, as `make mutate` does
    wrong |= {probe.name: mutations.verdict(place, probe)[0] for probe, _ in PROBES[2:]}
    for probe, said in PROBES:
        assert said in wrong[probe.name], f"{probe.name}: {wrong[probe.name] or 'taken for a catch'}"


def test_a_check_that_is_red_by_itself_proves_nothing(place):
    assert mutations.baseline(place, [NODE]) == []
    with place.edited([("docs/hooks/core/measured.py", "rsplit(\"::\", 1)[-1]", "rsplit(\"::\", 1)[0]")]):
        assert "test_kernel_names" in "\n".join(mutations.baseline(place, [NODE]))
    assert mutations.baseline(place, [NODE]) == [], "a mutation was not undone"


def reports():
    with REPORTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_every_field_report_has_its_place():
    rows = reports()
    assert len({row["id"] for row in rows}) == len(rows) == sum(COUNT.values())
    for group, count in COUNT.items():
        assert sum(row["id"].startswith(group) for row in rows) == count, group
    for row in rows:
        assert re.fullmatch(r"[a-g]\d\d", row["id"]) and re.fullmatch(r"[\w.-]+/[\w.-]+ (issue|PR) #\d+", row["report"]) and len(row["symptom"]) > 20, row
        for part in row["here"].split("; "):
            assert re.fullmatch(r"mutation [\w-]+|test [\w/.]+(::\w+)?|cannot occur: .{20,}", part) or row["here"].startswith("cannot occur: "), f"{row['id']}: {part}"
            assert not part.startswith("mutation ") or part.split()[1] in NAMES, f"{row['id']}: there is no {part}"


def test_every_named_test_is_there():
    named = {part.removeprefix("test ") for row in reports() for part in row["here"].split("; ") if part.startswith("test ")}
    named |= {re.sub(r"\[.*", "", node) for mutation in mutations.MUTATIONS if mutation.check != mutations.BUILD for node in mutations.nodes(mutation.check)}
    missing = []
    for node in sorted(named):
        file, _, test = node.partition("::")
        path = TOP / file
        if not path.is_file() or test and not re.search(rf"^(async )?def {test}\(", path.read_text("utf-8"), re.M):
            missing.append(node)
    assert not missing, f"no such test: {', '.join(missing)}"


def test_the_command_lists_and_refuses():
    command = [sys.executable, "tools/mutations.py"]
    listed = subprocess.run([*command, "--list"], cwd=TOP, capture_output=True, text=True)
    assert listed.returncode == 0 and len(listed.stdout.splitlines()) == len(NAMES)
    unknown = subprocess.run([*command, "no-such-mutation"], cwd=TOP, capture_output=True, text=True)
    assert unknown.returncode == 2 and "no-such-mutation" in unknown.stderr
