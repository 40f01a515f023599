"""Graders accept what is right, however it is written, and reject what is wrong; skeletons are solutions without the answer."""
import ast
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import types

import exercises
import pytest
from core.exercises import definitions
from support import LANGUAGES, WORDS, said as pattern
from exercises import FOLDER, NAMES, source

ENGINE = {lang: WORDS[lang].graders.engine for lang in LANGUAGES}
SEEDS = (0, None)   # one that can be repeated, one afresh: what a property is there for it catches with any
FORMS = {
    "right": 5,
    "wrong": 30,
}


def load(path):
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def served(name):
    """A served file as a module."""
    module = types.ModuleType(name)
    exec(compile(source(name), f"{name}.py", "exec"), vars(module))
    return module


GRADERS = {name: served(f"grade_{name}") for name in NAMES}


def solutions(kind):
    """(exercise, name, function) of each exercise's <kind>.py: functions with the parameters of the exercise."""
    for name in NAMES:
        wanted = list(inspect.signature(getattr(served(name), name)).parameters)
        module = load(FOLDER / name / f"{kind}.py")
        for key, function in [*vars(module).items(), *getattr(module, kind.upper(), {}).items()]:
            if inspect.isfunction(function) and function.__module__ == module.__name__ and list(inspect.signature(function).parameters) == wanted:
                yield name, key, function


CASES = {kind: list(solutions(kind)) for kind in FORMS}
ids = lambda value: value if isinstance(value, str) else ""
failing = lambda results: [result for result in results if not result["passed"]]


@pytest.mark.parametrize("name", NAMES)
def test_enough_solutions_are_tried(name):
    for kind, least in FORMS.items():
        assert sum(exercise == name for exercise, *_ in CASES[kind]) >= least, f"examples/exercises/{name}/{kind}.py"


@pytest.mark.parametrize("name, key, function", CASES["right"], ids=ids)
def test_a_right_solution_passes(name, key, function):
    for seed in SEEDS:
        assert failing(GRADERS[name].grade(function, seed=seed)) == []


@pytest.mark.parametrize("name, key, function", CASES["wrong"], ids=ids)
def test_a_wrong_solution_fails(name, key, function):
    for seed in SEEDS:
        bad = failing(GRADERS[name].grade(function, seed=seed))
        assert bad, f"{key} passes the grader of {name}"
        for result in bad:
            assert all(result[part] for part in ("input", "expected", "got", "hint")) and len(result["input"]) < 400, result


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes_as_function_module_and_dict(name):
    module = served(name)
    for solution in (getattr(module, name), module, vars(module)):
        for seed in range(3):
            assert failing(GRADERS[name].grade(solution, seed=seed)) == []
    with pytest.raises(LookupError):
        GRADERS[name].grade({})


@pytest.mark.parametrize("name", NAMES)
def test_every_property_rejects_something(name):
    seen = {result["property"] for exercise, _, function in CASES["wrong"] if exercise == name for result in failing(GRADERS[name].grade(function, seed=0))}
    assert {attempt.__name__ for attempt in GRADERS[name].PROPERTIES} == seen == set(GRADERS[name].TEXTS)


@pytest.mark.parametrize("name", NAMES)
def test_the_skeleton_is_the_solution_without_the_answer(name):
    skeleton, solution = source(f"{name}_skeleton"), source(name)
    assert skeleton.count("raise NotImplementedError") == 1 and ast.get_docstring(ast.parse(skeleton)) == ast.get_docstring(ast.parse(solution))
    assert len(exercises.answer(source(name))) >= 3
    long = [line for line in exercises.answer(source(name)) if len(line) > 12]
    for file in (f"{name}_skeleton", f"grade_{name}"):
        assert not [line for line in long if line in source(file)], f"{file}.py gives the answer away"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_what_is_said_is_in_one_language_and_gives_no_answer_away(name, lang):
    skeleton = getattr(served(f"{name}_skeleton"), name)
    results = GRADERS[name].grade(skeleton, lang)
    assert len(failing(results)) == len(results) >= 8
    for result in results:
        said = " ".join([result["title"], result["hint"], result["got"]])
        assert bool(re.search("[\u4e00-\u9fff]", said)) == (lang == "zh"), said
        assert re.search("[\u4e00-\u9fff]", result["title"] + result["hint"]) is None or lang == "zh"
        assert not re.search("[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", said), f"a space belongs between Chinese and Latin: {said}"
        assert not [line for line in exercises.answer(source(name)) if len(line) > 12 and line in said]


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_drawn_afresh_and_a_seed_repeats_them(name):
    wrong = lambda *args: None
    inputs = lambda seed: [result["input"] for result in GRADERS[name].grade(wrong, seed=seed) if not result["passed"]]
    assert inputs(3) == inputs(3) != inputs(4)
    assert inputs(None) != inputs(None)


def test_there_is_one_engine():
    """An exercise says how its function is called and its arguments are written, and nothing else of the engine."""
    engine = {name for part in definitions((FOLDER / "grader.py").read_text("utf-8")) for name in part.names}
    for name in NAMES:
        own = {defined for part in definitions((FOLDER / name / "properties.py").read_text("utf-8")) for defined in part.names}
        assert own & engine <= {"PROPERTIES", "ARGUMENTS", "call", "written"}, name
        said = GRADERS[name].WORDS
        assert said["en"].keys() == said["zh"].keys()


@pytest.mark.parametrize("name", NAMES)
def test_an_example_in_the_docstring_is_true(name):
    function = getattr(served(name), name)
    call, _, result = re.search(r"^ {8}(\w+\(.*\))  (→)  (.*)$", function.__doc__, re.M).groups()
    got = eval(call, {name: function, "inf": float("inf")})
    assert GRADERS[name].agrees(got, eval(result.replace("693147…", repr(0.6931471805599453)[2:])))


# The command line, the grader alone in a folder.


def command(folder, *args, **env):
    done = subprocess.run([sys.executable, "-I", "-S", *args], cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=60, env={**os.environ, "PYTHONUTF8": "1", "LC_ALL": "C", **env})
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path):
    exercises.put(tmp_path, *(f"grade_{name}" for name in NAMES))
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_the_grader_runs_alone(name, folder):
    (folder / "my_solution.py").write_text(source(name), "utf-8")
    status, said = command(folder, f"grade_{name}.py", "my_solution.py")
    count = len(GRADERS[name].PROPERTIES)
    assert status == 0 and ENGINE["en"]["no"].text not in said and re.search(pattern(ENGINE["en"].count, passed=count, all=count), said), said
    (folder / f"{name}.py").write_text(source(f"{name}_skeleton"), "utf-8")
    assert command(folder, f"grade_{name}.py") == (1, f"{name}: {ENGINE['en'].unwritten.text}\n")
    assert command(folder, f"grade_{name}.py", "--lang", "zh") == (1, f"{name}: {ENGINE['zh'].unwritten.text}\n")
    (folder / f"{name}.py").write_text(f"def {name}(*args, **named):\n    print('here')\n    return 1 / 0\n", "utf-8")
    status, said = command(folder, f"grade_{name}.py", "--seed", "7")
    assert status == 1 and ENGINE["en"]["no"].text in said and "ZeroDivisionError" in said and re.search(pattern(ENGINE["en"].raised, line=3, code="return 1 / 0"), said) and "--seed 7" in said and "here" in said, said
    status, said = command(folder, f"grade_{name}.py", LC_ALL="zh_CN.UTF-8")
    assert status == 1 and ENGINE["zh"]["no"].text in said and re.search(pattern(ENGINE["zh"].raised, line=3), said), said


@pytest.mark.parametrize("text, status, said", [
    (None, 2, ("missing", {})),
    ("def f(:\n", 2, ("syntax", {"line": 1})),
    ("x = 1\n", 2, ("nothing", {"name": "online_row"})),
    ("online_row = 1\n", 2, ("nothing", {"name": "online_row"})),
    ("import torch_that_is_not_there\n", 2, ("module", {"module": "torch_that_is_not_there"})),
    ("1 / 0\n", 2, ("failing", {"error": "ZeroDivisionError: division by zero"})),
    ("import sys\nsys.exit(0)\n", 2, ("failing", {})),
    ("while True: pass\n", 3, ("late", {"seconds": 1})),
    ("def online_row(stream):\n    while True: pass\n", 3, ("late", {"seconds": 1})),
    ("def online_row(stream):\n    return online_row(stream)\n", 1, "RecursionError"),
    ("def online_row(stream):\n    print('x' * 10**7)\n    return [1.0]\n", 1, ("no", {})),
    ("def online_row(stream):\n    exit(0)\n", 1, ("no", {})),
    ("def online_row(stream):\n    return 'é 中' * 10**6\n", 1, ("no", {})),
    ("def online_row():\n    pass\n", 1, "TypeError"),
    ("def online_row(stream):\n    return [float(x) for x in '注意力']\n", 1, "ValueError"),
], ids=range(15))
def test_what_is_not_a_solution_is_told_in_a_line(text, status, said, folder):
    if text is not None:
        (folder / "mine.py").write_text(text, "utf-8")
    got, shown = command(folder, "grade_online_row.py", "mine.py", "--seconds", "1" if status == 3 else "20", "--lang", "en")
    wanted = said if isinstance(said, str) else pattern(ENGINE["en"][said[0]], file="mine.py", **said[1])
    assert got == status and re.search(wanted, shown) and "Traceback" not in shown and len(shown) < 20_000, shown


def test_json_is_one_line(folder):
    (folder / "mine.py").write_text("def online_row(stream):\n    print('{\"results\": 1}')\n", "utf-8")
    status, said = command(folder, "grade_online_row.py", "mine.py", "--json", "--lang", "zh", "--seed", "5")
    data = json.loads(said)
    assert status == 1 and data["seed"] == 5 and data["problem"] == "" and len(data["printed"]) <= 2000
    assert data["results"][0]["got"] == "None" and not data["results"][0]["passed"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_mistake_of_programming_is_told_apart_from_one_of_mathematics(folder, lang):
    """Seen in a walk: a TypeError in the last line got the hint about weights, and no line was marked."""
    for text, line, slipped in [("    return [0.0] / 2\n", 2, True), ("    for s, v in stream:\n        pass\n    return vv\n", 4, True), ("    from math import exp\n    return [exp(1e4)]\n", 3, False), ("    return [1 / 0]\n", 2, False)]:
        (folder / "mine.py").write_text("def online_row(stream):\n" + text, "utf-8")
        first = json.loads(command(folder, "grade_online_row.py", "mine.py", "--json", "--lang", lang)[1])["results"][0]
        assert first["line"] == line and (ENGINE[lang].mend.text in first["hint"]) == slipped, first
    (folder / "mine.py").write_text("def online_row(stream):\n    return 0.0\n", "utf-8")
    first = json.loads(command(folder, "grade_online_row.py", "mine.py", "--json", "--lang", lang)[1])["results"][0]
    assert first["line"] is None and ENGINE[lang].mend.text not in first["hint"]


def test_what_is_printed_is_that_of_the_first_input_that_fails(folder):
    """Seen in a walk: a print in the loop showed the keys of every property, one behind the other, and ended in the middle of a word."""
    (folder / "mine.py").write_text("print('module')\ndef online_row(stream):\n    pairs = list(stream)\n    print(pairs)\n    return [sum(v[c] for s, v in pairs) / len(pairs) for c in range(len(pairs[0][1]))]\n", "utf-8")
    data = json.loads(command(folder, "grade_online_row.py", "mine.py", "--json")[1])
    first = next(result for result in data["results"] if not result["passed"])
    assert data["printed"] == "module\n" + first["input"].removeprefix("online_row(iter(").removesuffix("))") + "\n"
    (folder / "mine.py").write_text("def online_row(stream):\n    print('x' * 10**6)\n", "utf-8")
    assert json.loads(command(folder, "grade_online_row.py", "mine.py", "--json")[1])["printed"].endswith("x\n…")
    assert len(command(folder, "grade_online_row.py", "mine.py", "--json")[1]) < 30_000, "a page cuts what is printed after 100,000 characters"
