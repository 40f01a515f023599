"""tools/bundle.py: one file of many, subject first, harness last, that says what its source says; and nothing stands twice in examples/."""
import ast
import builtins
import collections
import os
import shutil
import subprocess
import sys

import bundle
import pytest
from support import TOP

EXAMPLES = TOP / "examples"
PROGRAMS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*.py"))
MADE = [name for name in PROGRAMS if bundle.Module(EXAMPLES / name).local]


# A program and a kit of our own.

PROGRAM = '''"""A toy."""

import math
import sys

try:
    from kit.clock import timed
    from kit.units import MIB, mib
    from other import scale
except ModuleNotFoundError:
    sys.exit(print("the single file is elsewhere", file=sys.stderr) or 2)

SIZE = 2 * MIB


# The subject. It comes first.

def area(r):
    """Of a circle."""
    return math.pi * r * r                                 # r > 0


# The check.

def check(shape=scale, limit=MIB):
    return shape(area(1)) < limit


def main():
    print(check(), timed(area, 2), mib(SIZE))


if __name__ == "__main__":
    main()
'''
KIT = {
    "kit/__init__.py": "",
    "kit/clock.py": '"""The clock: how long a call takes. More here."""\n\nimport time\n\nfrom kit.units import mib\n\n\n# What is timed.\ndef timed(call, *args):\n'
                    '    begin = time.perf_counter()\n    call(*args)\n    return time.perf_counter() - begin < 9 and quick(1)\n\n\ndef quick(size):\n    return mib(size) < 1\n\n\ndef unused():\n    return 1\n',
    "kit/units.py": '"""Units."""\n\nMIB, GIB = 2**20, 2**30\nTABLE = {}\nTABLE["MiB"] = MIB\n\n\ndef mib(size):\n    return size / TABLE["MiB"]\n',
    "other.py": '"""Another program."""\n\nfrom functools import lru_cache\n\n\ndef scale(x):\n    return twice(x)\n\n\n@lru_cache(2)\ndef twice(x):\n    return 2 * x\n',
}


@pytest.fixture
def toy(tmp_path):
    """A folder with PROGRAM and KIT; call it to write a file."""
    def write(name, text):
        path = tmp_path / "examples" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    for name, text in KIT.items():
        write(name, text)
    write("toy.py", PROGRAM)
    return write


def run(path, *arguments, **env):
    return subprocess.run([sys.executable, str(path), *arguments], cwd=path.parent, capture_output=True, text=True, timeout=300,
                          env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", **env})


def test_subject_first_what_a_default_needs_before_it_and_the_harness_last(toy, tmp_path):
    path = toy("toy.py", PROGRAM)
    text = bundle.bundle(path)
    names = [getattr(node, "name", None) for node in ast.parse(text).body]
    assert [name for name in names if name] == ["area", "scale", "check", "main", "twice", "mib", "timed", "quick"]
    assert "import math\nimport sys\nimport time\nfrom functools import lru_cache\n\nMIB, GIB = 2**20, 2**30\nTABLE = {}\n" in text and "from kit" not in text
    assert text.index("# Units.\n\ndef mib") < text.index("# The clock: how long a call takes. More here.\n\n# What is timed.\ndef timed") < text.index("if __name__")
    assert "@lru_cache(2)\ndef twice" in text and '    """Of a circle."""' in text and "# r > 0" in text and "unused" not in text
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "toy.py").write_text(text)
    assert run(alone / "toy.py").stdout == run(path).stdout == "True True 2.0\n"
    assert all(block.strip() for block in text.split(bundle.GAP)) and "\n\n\n\n" not in text and text == bundle.bundle(path)


def test_a_file_that_imports_nothing_from_beside_it_is_its_own_bundle(toy):
    path = toy("plain.py", "import math\r\nx = 1\r\n")
    path.write_bytes(b"import math\r\nx = 1\r\n\r\n\r\n\r\n")
    assert bundle.bundle(path).encode() == path.read_bytes()


@pytest.mark.parametrize("change, message", [
    ((("def area(r)", "def mib(r)"), ("area(1)", "mib(1)"), ("(area", "(mib")), "mib is two things"),
    ((("SIZE = 2 * MIB", "SIZE = scale(2)"),), "put it behind two blank lines"),
    ((("    return math.pi", "\n\n\n    return math.pi"),), "two blank lines stand between"),
])
def test_what_cannot_be_one_file_is_named(toy, change, message):
    text = PROGRAM
    for old, new in change:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(bundle.BundleError, match=message):
        bundle.bundle(toy("toy.py", text))


# The programs.

@pytest.mark.parametrize("name", PROGRAMS)
def test_a_single_file_needs_the_standard_library_and_torch_and_nothing_else(name):
    text = bundle.bundle(EXAMPLES / name)
    found = {alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert {module.split(".")[0] for module in found} <= {*sys.stdlib_module_names, "torch"}
    assert "\n\n\n\n" not in text and text.endswith("\n") and not text.endswith("\n\n")


def test_whatever_is_served_binds_every_name_that_it_uses():
    """Also what has no __main__ to run, as the rungs of a kernel."""
    loose = {}
    for name, text in bundle.published().items():
        module = bundle.Module(None, text)
        used = {name for statement in module.tree.body if not bundle.is_import(statement) for name in bundle.globals_of(statement)}
        loose[name] = used - set(module.bound) - set(module.imports) - set(dir(builtins)) - {"__file__"}
    assert "kernels/fused.py" in loose and not any(loose.values()), {name: names for name, names in loose.items() if names}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_single_file_alone_says_what_its_source_says(name, tmp_path):
    (tmp_path / name).write_text(bundle.bundle(EXAMPLES / name), "utf-8")
    arguments = next((a for a in (["--predict"], ["--list"]) if a[0] in (EXAMPLES / name).read_text("utf-8")), ["--help"])
    if name == "run.py":
        arguments = ["--help"]                             # its list is what lies beside it
    done, source = run(tmp_path / name, *arguments), run(EXAMPLES / name, *arguments)
    assert done.returncode == source.returncode == 0, done.stderr + source.stderr
    assert done.stdout == source.stdout and done.stdout


@pytest.mark.parametrize("name", MADE)
def test_a_source_without_its_kit_says_in_one_line_where_the_single_file_is(name, tmp_path):
    shutil.copy(EXAMPLES / name, tmp_path)
    done = run(tmp_path / name)
    assert done.returncode == 2 and not done.stdout and len(done.stderr.splitlines()) == 1 and f"examples/{name}" in done.stderr


# Each thing once.

RUN = 6


def code_lines(path):
    """[(number, line)] of what is code and no import: no blanks, comments, docstrings."""
    text = path.read_text("utf-8")
    lines, skip = text.splitlines(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skip |= set(range(node.lineno, node.end_lineno + 1))
    return [(number, line.split("  #")[0].strip()) for number, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#") and number not in skip]


def copies(folder, exempt=()):
    """What stands in two files of `folder`: a run of RUN equal lines of code, told where."""
    seen, found = {}, []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(exempt) or path.name in ("right.py", "wrong.py"):
            continue
        lines = code_lines(path)
        for window in zip(*(lines[start:] for start in range(RUN))):
            key = tuple(line for _, line in window)
            if seen.setdefault(key, (name, window[0][0]))[0] != name:
                found.append(f"{name}:{window[0][0]} is {':'.join(map(str, seen[key]))}")
    return found


def test_no_run_of_six_lines_of_code_stands_in_two_files():
    found = copies(EXAMPLES, ("kernels/",))                # rungs of one ladder, whose shared lines are checked to be equal elsewhere
    assert not found, "move it into examples/kit, or import it from its home: " + "; ".join(found)


def test_a_copy_is_found_wherever_it_stands(tmp_path):
    (tmp_path / "kit").mkdir()
    lines = [f"x{n} = {n}" for n in range(RUN)]
    (tmp_path / "a.py").write_text("\n".join(["import os", *lines]))
    (tmp_path / "kit" / "b.py").write_text("def f():\n" + "\n\n".join(f"    {line}  # b" for line in lines[:-1]))
    assert not copies(tmp_path)
    (tmp_path / "kit" / "b.py").write_text("def f():\n" + "\n\n".join(f"    {line}  # b" for line in lines))
    assert copies(tmp_path) == ["kit/b.py:2 is a.py:2"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_source_is_short(name):
    count = len((EXAMPLES / name).read_text("utf-8").splitlines())
    assert count <= 650, f"{name} has {count} lines: what several labs need belongs into examples/kit, what is one lab's into a package of its own"


def test_the_kit_holds_what_several_files_use():
    """Nothing that belongs to one lab: each definition of the kit is reached from two programs, or is part of what identifies a measurement."""
    users = collections.defaultdict(set)
    for name in PROGRAMS:
        program = bundle.Module(EXAMPLES / name)
        for owner, statement in bundle._needed(program, [s for s in program.tree.body if not bundle.is_import(s)]).values():
            if owner.path.parent.name == "kit":
                for defined in bundle.binds(statement):
                    users[owner.path.stem, defined].add(name)
    defined = {(path.stem, name) for path in EXAMPLES.glob("kit/*.py") for name in bundle.Module(path).bound if path.stem != "identity"}
    assert not {key: users[key] for key in defined if len(users[key]) < 2 and key[1] != "GIB"}
