"""compare.py: which rows of two result folders differ beyond their spread, on the committed results and on small ones; what it refuses."""
import copy
import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from core import results

import compare

EXAMPLES = pathlib.Path(compare.__file__).resolve().parent
CARD = EXAMPLES / "results" / "nvidia-h200"
LABS = {path.stem: json.loads(path.read_text("utf-8")) for path in results.files(CARD.parent) if path.parent == CARD}


def run(*arguments, program=("run.py", "compare")):
    return subprocess.run([sys.executable, str(EXAMPLES / program[0]), *program[1:], *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=30)


def small(rows, status="ok", gpu="Card X"):
    return {"schema": 1, "lab": "lab", "source": {"sha256": "0" * 64, "commit": "abcdef1234567", "dirty": False},
            "run": {"started": "2026-11-29T12:00:00Z", "status": status, "error": None if status == "ok" else "OutOfMemoryError"},
            "machine": {"gpu": gpu}, "software": {"torch": "2.11.0"}, "rows": rows, "values": {}, "output": ""}


def row(**cells):
    return {"part": "grid", "impl": "flash", "S": 1024, "causal": False, "ms": 1.0, "p10_ms": 0.99, "p90_ms": 1.01, "kernel": "flash_fwd_kernel", "status": "ok", **cells}


@pytest.fixture
def folders(tmp_path):
    """A function that writes rows (or results) as folders A and B of one card and compares them."""
    def put(a, b, *flags, card_b="card-x"):
        for side, what, card in (("A", a, "card-x"), ("B", b, card_b)):
            folder = tmp_path / side / card
            folder.mkdir(parents=True)
            (folder / "lab.json").write_text(json.dumps(what if isinstance(what, dict) else small(what)), "utf-8")
        return run(tmp_path / "A", tmp_path / "B", *flags)
    return put


@pytest.mark.parametrize("lab", LABS)
def test_settings_tell_the_rows_of_every_committed_lab_apart(lab):
    twice = [key for key, n in compare.keyed(LABS[lab]["rows"]) if n > 1]
    assert not twice, f"no setting tells these rows apart: {twice[:3]}. Name the column in SETTINGS of compare.py, or put it before the measured ones."


@pytest.mark.parametrize("lab", LABS)
def test_every_committed_lab_has_something_to_compare(lab):
    assert all(any(name not in ("status",) for name in compare.compared(one)) for one in LABS[lab]["rows"])


def test_a_folder_equals_itself():
    done = run(CARD, EXAMPLES / "results")
    assert done.returncode == 0 and done.stdout.endswith(f"0 of {sum(len(lab['rows']) for lab in LABS.values())} rows differ beyond spread.\n")


def test_one_changed_row_of_the_committed_results_is_found_and_no_other(tmp_path):
    shutil.copytree(CARD, tmp_path / "b" / "nvidia-h200")
    result = copy.deepcopy(LABS["attention_roofline"])
    changed = next(one for one in result["rows"] if one["part"] == "grid" and one["impl"] == "flash" and one["S"] == 4096 and one["causal"])
    for name in ("ms", "p10_ms", "p90_ms"):
        changed[name] *= 1.2
    (tmp_path / "b" / "nvidia-h200" / "attention_roofline.json").write_text(json.dumps(result), "utf-8")
    done = run(EXAMPLES / "results", tmp_path / "b")
    assert done.returncode == 1
    lines = [line for line in done.stdout.splitlines() if "%" in line]
    assert len(lines) == 1 and lines[0].split()[:5] == ["grid", "impl=flash", "S=4096", "causal=yes", "ms"] and "+20.0%" in lines[0]
    assert "\n1 of " in done.stdout


@pytest.mark.parametrize("change, moved", [
    ({"ms": 1.04, "p10_ms": 1.03, "p90_ms": 1.05}, False),               # ranges apart, but 4 %
    ({"ms": 1.06, "p10_ms": 1.05, "p90_ms": 1.07}, True),
    ({"ms": 0.94, "p10_ms": 0.93, "p90_ms": 0.95}, True),                # faster is a change too
    ({"ms": 1.30, "p10_ms": 1.005, "p90_ms": 1.60}, False),              # 30 %, but the ranges meet
    ({"ms": 1.09, "p10_ms": None, "p90_ms": None}, False),               # no range: 10 %
    ({"ms": 1.12, "p10_ms": None, "p90_ms": None}, True),
    ({"ms": None, "p10_ms": None, "p90_ms": None, "kernel": None, "status": "oom"}, True),
    ({"kernel": "pytorch_flash::other"}, True),
    ({"tflops": 99.0, "ratio": 7.0, "alone_ms": 5.0}, False),            # follows, or is the host's
], ids=str)
def test_what_counts_as_a_difference_of_a_time(folders, change, moved):
    done = folders([row()], [row(**change)])
    assert done.returncode == moved, done.stdout + done.stderr


@pytest.mark.parametrize("a, b, moved", [
    ({"peak_mib": 100.0}, {"peak_mib": 100.0}, False),
    ({"peak_mib": 100.0}, {"peak_mib": 100.01}, True),                   # requested bytes are exact
    ({"alloc_mib": 100.0}, {"alloc_mib": 104.0}, False),
    ({"read_mib": 100.0, "spread_pct": 0.5}, {"read_mib": 108.0, "spread_pct": 0.5}, False),
    ({"read_mib": 100.0, "spread_pct": 0.5}, {"read_mib": 112.0, "spread_pct": 0.5}, True),
    ({"read_mib": 100.0, "spread_pct": 20.0}, {"read_mib": 112.0, "spread_pct": 0.5}, False),
    ({"write_mib": 0.01, "spread_pct": 0.5}, {"write_mib": 0.05, "spread_pct": 0.5}, False),
    ({"rel_err": 1e-3}, {"rel_err": 1.4e-3}, False),
    ({"rel_err": 1e-3}, {"rel_err": 1.6e-3}, True),
    ({"diff_bytes": 0}, {"diff_bytes": 512}, True),
], ids=str)
def test_what_counts_as_a_difference_of_bytes_and_errors(folders, a, b, moved):
    done = folders([row(**a)], [row(**b)])
    assert done.returncode == moved, done.stdout + done.stderr


def test_rows_are_paired_by_settings_and_not_by_place(folders):
    a = [row(S=1024), row(S=2048, ms=2.0, p10_ms=1.99, p90_ms=2.01)]
    assert folders(a, a[::-1]).returncode == 0


def test_settings_after_the_first_measured_column_are_results(folders):
    predicted = {"part": "decode", "S": 1, "ms": 1.0, "p10_ms": 1.0, "p90_ms": 1.0, "parts": 4, "kernel": "k", "status": "ok"}
    done = folders([predicted], [{**predicted, "parts": 8}])
    assert done.returncode == 0 and "0 of 1 rows" in done.stdout


def test_rows_of_one_side_are_named_and_count(folders):
    done = folders([row(S=1024), row(S=2048)], [row(S=1024), row(S=4096)])
    assert done.returncode == 1 and "only in A: grid S=2048" in done.stdout and "only in B: grid S=4096" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 of 1 rows differ beyond spread; 2 rows or labs are in one folder only."


def test_an_interrupted_result_is_compared_and_called_so(folders):
    done = folders([row(S=1024), row(S=2048)], small([row(S=1024)], "failed"))
    assert done.returncode == 1 and "failed: OutOfMemoryError" in done.stdout


def test_two_cards_of_other_names_are_compared(folders):
    done = folders([row()], small([row(ms=3.0, p10_ms=2.9, p90_ms=3.1)], gpu="Card Y"), card_b="card-y")
    assert done.returncode == 1 and "card-x | card-y" in done.stdout and "+200.0%" in done.stdout and "Card Y, torch 2.11.0" in done.stdout


def test_markdown_begins_with_the_verdict_and_keeps_its_columns(folders):
    done = folders([row(kernel="a<1> | b")], [row(kernel="a<2> | b")], "--markdown")
    assert done.returncode == 1 and done.stdout.startswith("1 of 1 rows differ beyond spread.\n\n## card-x\n")
    table = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(table) == 3 and all(line.replace("\\|", "").count("|") == 6 for line in table), table
    assert "<1>" not in done.stdout and "a&lt;1> \\| b" in table[2]
    assert done.stdout.count("<details>") == done.stdout.count("</details>") == 1


def test_all_shows_every_cell_and_marks_those_that_differ(folders):
    done = folders([row(S=1), row(S=2)], [row(S=1), row(S=2, kernel="other")], "--all")
    cells = [line for line in done.stdout.splitlines() if line.startswith("    grid")]
    assert len(cells) == 6 and [line.split()[2:4] for line in cells if "*" in line] == [["*", "kernel"]]


def test_a_long_name_is_shown_where_it_differs(folders):
    name = "void pytorch_flash::flash_fwd_kernel<" + "x" * 200
    done = folders([row(kernel=name + "64>")], [row(kernel=name + "128>")])
    assert "64>" in done.stdout and "128>" in done.stdout and max(map(len, done.stdout.splitlines())) < 160


@pytest.mark.parametrize("text, why", [
    ("{", "no result: JSONDecodeError"), ('{"rows": [NaN]}', "NaN is not JSON"), ('{"rows": [', "no result"), ("[]", "no result"), ('{"rows": [1]}', "a row is not an object"), ('{"rows": []}', "no result: KeyError: 'machine'"),
], ids=str)
def test_what_is_no_result_is_refused_by_name(tmp_path, text, why):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "lab.json").write_text(text, "utf-8")
    done = run(CARD, tmp_path)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert "lab.json is no result" in done.stderr and why in done.stderr


@pytest.mark.parametrize("name, why", [("nothing", "There is no folder"), ("empty", "holds no results"), ("other", "no lab of the same card in common")])
def test_nothing_to_compare(tmp_path, name, why):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "card").mkdir(parents=True)
    (tmp_path / "other" / "card" / "else.json").write_text(json.dumps(small([row()])), "utf-8")
    done = run(CARD, tmp_path / name)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1 and why in done.stderr


def test_the_file_alone_compares_without_pytorch(tmp_path):
    shutil.copy(EXAMPLES / "compare.py", tmp_path)
    (tmp_path / "torch.py").write_text("raise ImportError")
    done = subprocess.run([sys.executable, "compare.py", str(CARD), str(CARD)], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
