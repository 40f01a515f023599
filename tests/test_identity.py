"""examples/kit/identity.py: what is measured changes it, what is said does not; a source, its single file and every Python agree."""
import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import types

import bundle
import pytest
from kit.identity import Module, globals_of, identity
from support import TOP, answering, measured

EXAMPLES = TOP / "examples"
LABS = sorted(path for path in EXAMPLES.glob("*.py") if "measure" in Module(path).bound)

LAB = '''"""A lab."""

import math
import statistics as st

from kit.clock import timed

LIMIT = 10
SIZES = (1, 2)
SIZES += (3,)
TABLE = {"a": 1}
TABLE["b"] = 2
TITLE = "rows"


class Base:
    factor = 2


class Doubled(Base):
    """Doubles."""

    def __call__(self, x):
        """It does."""
        return self.factor * x                             # twice


def check(side=Doubled(), limit=LIMIT):
    """Right?"""
    print("checking")
    if side(1) > limit or TABLE["b"] < 1:
        raise AssertionError("wrong")


def _row(size):
    label = [size for size in SIZES]
    return {"size": size, "ms": timed(lambda: math.sqrt(size)), "mean": st.mean(label)}


def measure():
    for size in SIZES:
        yield _row(size)


def header(part):
    return TITLE


def line(row):
    return f"{row['size']:6} {row['ms']:6}"


if __name__ == "__main__":
    print("run")
'''
CLOCK = '''"""The clock."""

import functools
import time

SCALE = 1e3


@functools.lru_cache(maxsize=2)
def timed(call, repeats=3):
    """Milliseconds."""
    return [_one(call) for _ in range(repeats)]


def _one(call):
    begin = time.perf_counter()
    call()
    return SCALE * (time.perf_counter() - begin)


def other():
    return 1
'''


@pytest.fixture
def lab(tmp_path):
    """lab(old, new) is the identity of LAB and CLOCK with an edit in either, of the source; the single file has the same."""
    def of(old="", new=""):
        assert (LAB + CLOCK).count(old) == 1 or not old
        (tmp_path / "kit").mkdir(exist_ok=True)
        (tmp_path / "kit/__init__.py").write_text("")
        (tmp_path / "kit/clock.py").write_text(CLOCK.replace(old, new) if old else CLOCK)
        (tmp_path / "lab.py").write_text(LAB.replace(old, new) if old else LAB)
        found = identity(tmp_path / "lab.py")
        assert found == identity(bundle.bundle(tmp_path / "lab.py"))
        return found
    return of


MEASURED = {
    "a constant": ("LIMIT = 10", "LIMIT = 11"), "a constant made in two steps": ("SIZES += (3,)", "SIZES += (4,)"), "an entry": ('TABLE["b"] = 2', 'TABLE["b"] = 3'),
    "a default": ("limit=LIMIT", "limit=9"), "a condition of the check": ("side(1) > limit", "side(1) >= limit"), "a base class": ("factor = 2", "factor = 3"),
    "a method": ("self.factor * x", "self.factor + x"), "a column": ('"mean": st.mean(label)', '"mean": st.median(label)'), "what an import means": ("import statistics as st", "import math as st"),
    "a constant of the kit": ("SCALE = 1e3", "SCALE = 1e6"), "a decorator of the kit": ("maxsize=2", "maxsize=3"), "a default of the kit": ("repeats=3", "repeats=4"),
    "a function of the kit": ("    call()\n", "    call()\n    call()\n"), "an argument's name, which callers may use": ("def _one(call):\n    begin = time.perf_counter()\n    call()", "def _one(it):\n    begin = time.perf_counter()\n    it()"),
    "which function": ("return [_one(call)", "return [other()"),
}
SAID = {
    "nothing": ("", ""), "a docstring": ('"""Right?"""', '"""Is it right, though?"""'), "a comment": ("# twice", "# two times"), "a docstring of a method": ('    """It does."""\n', ""),
    "a print": ('print("checking")', 'print("Checking", LIMIT)'), "a header": ('TITLE = "rows"', 'TITLE = "All rows"'), "the order of columns": ("{row['size']:6} {row['ms']:6}", "{row['ms']:6} {row['size']:6}"),
    "how it is run": ('print("run")', "print(1)"), "what is not used": ("    return 1\n", "    return 2\n"), "a docstring of the kit": ('"""Milliseconds."""', '"""In ms."""'),
    "the module's docstring": ('"""A lab."""', '"""Another lab."""'), "blanks": ("def check(side=Doubled(), limit=LIMIT):", "def check(\n    side=Doubled(),\n    limit=LIMIT,\n):"),
    "where a definition stands": ('class Base:\n    factor = 2\n\n\n', 'def header_of(part):\n    return 1\n\n\nclass Base:\n    factor = 2\n\n\n'),
}


@pytest.mark.parametrize("what", MEASURED)
def test_what_is_measured_changes_it(lab, what):
    assert lab(*MEASURED[what]) != lab()


@pytest.mark.parametrize("what", SAID)
def test_what_is_said_does_not(lab, what):
    assert re.fullmatch("[0-9a-f]{64}", lab()) and lab(*SAID[what]) == lab()


@pytest.mark.parametrize("old, new", [("_row", "_flat"), ("Doubled", "Twice"), ("SIZES", "LENGTHS"), ("st", "stat")])
def test_a_private_name_does_not(lab, tmp_path, old, new):
    before = lab()
    text = re.sub(rf"\b{old}\b", new, LAB)
    assert text != LAB
    (tmp_path / "lab.py").write_text(text)
    assert identity(tmp_path / "lab.py") == before


def test_a_local_name_like_a_global_one_reaches_nothing(lab, tmp_path):
    """`label` of _row() is no function of the module, and a loop variable neither."""
    before = lab()
    (tmp_path / "lab.py").write_text(LAB + "\n\ndef label():\n    return 1\n\n\ndef size():\n    return 2\n")
    assert identity(tmp_path / "lab.py") == before


STEPS = {
    "lab.py": 'import importlib\n\nFOLDER = "steps"\n\n\ndef measure():\n    yield {"ms": importlib.import_module(f"{FOLDER}.one").work(2)}\n',
    "steps/shared.py": "FACTOR = 3\n\n\ndef scaled(x):\n    return FACTOR * x\n",
    "steps/one.py": '"""A step."""\n\nfrom steps.shared import scaled\n\nSIZE = 2\n\n\ndef work(x):\n    return scaled(x) + SIZE\n\n\ndef idle():\n    return 1\n',
}


@pytest.mark.parametrize("name, old, new, counts", [
    ("steps/one.py", "SIZE = 2", "SIZE = 4", True), ("steps/one.py", "scaled(x) + SIZE", "scaled(x) - SIZE", True), ("steps/shared.py", "FACTOR = 3", "FACTOR = 5", True),
    ("lab.py", "work(2)", "idle()", True), ("steps/one.py", "A step.", "The only step.", False), ("steps/one.py", "return 1", "return 2", False), ("steps/shared.py", "scaled(x):\n", "scaled(x):   # larger\n", False),
])
def test_what_a_lab_loads_by_name_counts_as_far_as_it_may_call_it(tmp_path, name, old, new, counts):
    def of(files):
        for one, text in files.items():
            (tmp_path / one).parent.mkdir(exist_ok=True)
            (tmp_path / one).write_text(text)
        found, texts = identity(tmp_path / "lab.py"), bundle.published(tmp_path)
        assert found == identity(texts["lab.py"], texts)
        return found

    assert STEPS[name].count(old) == 1
    assert (of({**STEPS, name: STEPS[name].replace(old, new)}) != of(STEPS)) == counts


def test_a_program_that_measures_nothing_has_none():
    with pytest.raises(ValueError, match="nothing that measures"):
        identity("x = 1\n")


# The labs.

@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_single_file_has_the_identity_of_its_source(path):
    assert identity(path) == identity(bundle.bundle(path), served())


@functools.cache
def served():
    return bundle.published()


def pythons():
    """The Pythons of this machine from 3.11 on, beside the one that runs the tests."""
    found = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13, 14)]
    said = [subprocess.run([python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True) for python in filter(None, found)]
    return {done.stdout.strip(): python for done, python in zip(said, filter(None, found)) if done.returncode == 0} | {str(sys.version_info[:2]): sys.executable}


def test_every_python_here_says_the_same():
    script = f"import pathlib, sys; sys.path.insert(0, {str(EXAMPLES)!r}); from kit.identity import identity; print(*map(identity, map(pathlib.Path, sys.argv[1:])))"
    done = [subprocess.run([python, "-c", script, *map(str, LABS)], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}) for python in pythons().values()]
    assert {each.stdout.strip() for each in done} == {" ".join(map(identity, LABS))}, done


@pytest.mark.parametrize("text", ['x = f"a{1}" "b"', 'x = "a" f"{1:{2}}"', "def f(a, /, *b, c=1, **d) -> int: ...", "type_ = lambda *a: (yield)", 'x = u"a"', "match 1:\n    case [a, *b]: pass"])
def test_pythons_differ_in_nothing_that_is_compared(text):
    """Forms in which the syntax trees of Pythons differ, or did: f-strings, type parameters, kinds of text, empty fields."""
    text = f"{text}\ndef measure():\n    return x, f, type_\n"
    script = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); from kit.identity import identity; print(identity(sys.argv[1]))"
    said = {subprocess.run([python, "-c", script, text], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}).stdout.strip() for python in pythons().values()}
    assert said == {identity(text)}


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_no_measuring_code_reads_the_name_of_a_function(path):
    """Names are not in the identity, so no row may hold one; a child process alone is told by name what to run."""
    todo, seen, readers = [(Module(path), name) for name in ("check", "measure")], set(), set()
    for module, name in todo:                              # it grows
        owner, statements = module.find(name)
        for statement in [] if isinstance(statements, str) or (owner.path, name) in seen else statements:
            seen.add((owner.path, name))
            todo += [(owner, used) for used in globals_of(statement)]
            readers |= {(owner.path, name) for node in ast.walk(statement) if isinstance(node, ast.Attribute) and node.attr == "__name__"}
    assert {name for _, name in readers} <= {"child_process", "count", "rows_of_processes"}


@pytest.mark.parametrize("stale", [False, True])
def test_rows_answer_for_the_program_that_measured_them_alone(monkeypatch, stale):
    for path in LABS:
        if (EXAMPLES / "results/nvidia-h200" / f"{path.stem}.json").exists():
            assert measured(path.stem)["stale"] == (identity(path) != measured(path.stem)["source"]["id"]), path.stem
    marks = []
    monkeypatch.setattr("support.measured", lambda lab: {"lab": lab, "stale": stale})
    request = types.SimpleNamespace(module=types.SimpleNamespace(__name__="test_some_lab"), applymarker=lambda mark: marks.append(mark.mark))
    assert answering(request)["lab"] == "some_lab" and [(mark.name, mark.kwargs["strict"]) for mark in marks] == [("xfail", False)] * stale
