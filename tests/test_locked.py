"""What is installed is what was locked: every pin of pyproject.toml, nothing extra, each file by its hash, for pip and for npm."""
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support import TOP
from test_commands import make, script

LOCKS = {path.stem: path for path in (TOP / "requirements").glob("*.txt")}
PYPROJECT = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))
GROUPS = PYPROJECT["dependency-groups"]
AGAIN = "`make lock` writes requirements/ again"


def pins(group):
    """{name: version} that pyproject.toml asks of a group."""
    found = {}
    for entry in GROUPS[group]:
        if isinstance(entry, dict):
            found |= pins(entry["include-group"])
        else:
            requirement = Requirement(entry)
            (one,) = requirement.specifier
            assert one.operator == "==", f"{entry} is not pinned"
            found[canonicalize_name(requirement.name)] = one.version
    return found


def locked(text):
    """{name: (requirement, hashes, what brought it)} of a lock file; every line of it must be understood."""
    entries = {}
    for line in text.replace("\\\n", " ").splitlines():
        if match := re.fullmatch(r" +# via (.*)", line):
            entries[name][2].update(re.sub(r" \(.*\)$", "", by) if "pyproject.toml" not in by else "pyproject.toml" for by in match[1].split(", "))
        elif line and not line.startswith("#"):
            wanted, *hashes = line.split(" --hash=")
            requirement = Requirement(wanted.strip())
            name = canonicalize_name(requirement.name)
            assert name not in entries, f"{name} is locked twice"
            entries[name] = (requirement, [h.strip() for h in hashes], set())
    return entries


ENTRIES = {group: locked(path.read_text("utf-8")) for group, path in LOCKS.items()}


def version(requirement):
    (one,) = requirement.specifier
    assert one.operator == "=="
    return one.version


def disagreements(pinned, entries):
    """What differs between the pins of a group and its lock file."""
    direct = {name: version(requirement) for name, (requirement, _, by) in entries.items() if "pyproject.toml" in by}
    wrong = [f"{name}: pyproject.toml asks {pinned.get(name)}, the lock has {direct.get(name)}" for name in {*pinned, *direct} if pinned.get(name) != direct.get(name)]
    reached = set(direct)
    while more := {name for name, (_, _, by) in entries.items() if name not in reached and reached & {canonicalize_name(b) for b in by}}:
        reached |= more
    return wrong + [f"{name}: nothing that pyproject.toml asks brings it" for name in entries.keys() - reached]


def test_every_group_but_torch_is_locked():
    assert GROUPS.keys() - LOCKS.keys() == {"lab"} and LOCKS.keys() <= GROUPS.keys(), AGAIN
    assert GROUPS["lab"] == [entry for entry in GROUPS["lab"] if entry.startswith("torch==")]


@pytest.mark.parametrize("group", sorted(LOCKS))
def test_a_lock_file_has_every_pin_nothing_extra_and_a_hash_for_each(group):
    entries = ENTRIES[group]
    assert not disagreements(pins(group), entries), (disagreements(pins(group), entries), AGAIN)
    for name, (_, hashes, _) in entries.items():
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), f"{name} has no hash: {AGAIN}"
    text = LOCKS[group].read_text("utf-8")
    assert "://" not in text and not re.search(r"^ *-", text.replace("\\\n    --hash", ""), re.M), "a lock file names files by hash, not where they lie"


@pytest.mark.parametrize("edit, complaint", [
    (lambda pinned, entries: pinned.update(mkdocs="1.6.2"), "mkdocs: pyproject.toml asks 1.6.2, the lock has 1.6.1"),
    (lambda pinned, entries: pinned.update(new="1"), "new: pyproject.toml asks 1, the lock has None"),
    (lambda pinned, entries: pinned.pop("matplotlib"), "matplotlib: pyproject.toml asks None"),
    (lambda pinned, entries: entries.update(locked("stray==1 --hash=sha256:0\n")), "stray: nothing that"),
    (lambda pinned, entries: entries.update(locked("stray==1 --hash=sha256:0\n    # via other\nother==1 --hash=sha256:0\n    # via stray\n")), "stray: nothing that"),
])
def test_a_difference_is_named(edit, complaint):
    pinned, entries = pins("site"), dict(ENTRIES["site"])
    edit(pinned, entries)
    assert complaint in "\n".join(disagreements(pinned, entries))


def test_all_groups_lock_one_version_of_a_package():
    versions = {}
    for entries in ENTRIES.values():
        for name, (requirement, _, _) in entries.items():
            versions.setdefault(name, set()).add(version(requirement))
    assert not {name: found for name, found in versions.items() if len(found) > 1}


def test_what_these_tests_run_with_is_what_was_locked():
    for name, (requirement, _, _) in (ENTRIES["site"] | ENTRIES["test"]).items():
        if requirement.marker is None or requirement.marker.evaluate():
            assert importlib.metadata.version(name) == version(requirement), f"{name}: remove .venv and run `make test`"


def test_the_oldest_python_is_the_same_everywhere():
    text = (TOP / "Makefile").read_text("utf-8")
    oldest = re.search(r"^OLDEST = (.*)$", text, re.M)[1]
    assert PYPROJECT["project"]["requires-python"] == f">={oldest}" and f"Python {oldest} or newer" in (TOP / "README.md").read_text("utf-8")


def test_make_installs_nothing_without_hashes_but_torch():
    text = (TOP / "Makefile").read_text("utf-8").replace("\\\n", " ")
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs and all("--require-hashes" in line or line.split("pip install")[1].split("||")[0].split()[-2:] == ["--group", "lab"] for line in installs), installs
    assert re.findall(r"^wheels = (.*)$", text, re.M) == ["--only-binary :all: --no-binary jieba --build-constraint requirements/build.txt"]
    for use in re.findall(r"\$\(locked\)(.*?)\|\|", text):
        assert "$(wheels)" in use or "requirements/pip.txt" in use, f"code built from source would bring what nobody locked: {use}"
    fetches = re.findall(r"\bnpm (?:ci|i|install|add|update)\b", text)
    assert fetches and set(fetches) == {"npm ci"}, f"only npm ci heeds the lock: {fetches}"
    for path in (TOP / ".github/workflows").glob("*.yml"):
        assert not re.search(r"(pip|uv|npm|npx) +(install|i|ci|--yes)\b", path.read_text("utf-8")), f"{path.name} installs past the Makefile"


@pytest.fixture
def wheel(tmp_path):
    """A package of one line, in a folder of its own."""
    path = tmp_path / "wheels" / "tiny-1-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", "here = True\n")
        archive.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        archive.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.dist-info/RECORD", "tiny.py,,\ntiny-1.dist-info/METADATA,,\ntiny-1.dist-info/WHEEL,,\ntiny-1.dist-info/RECORD,,\n")
    return path


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_make_refuses_a_file_with_another_hash(tmp_path, wheel, right):
    top, tools = tmp_path / "clone", tmp_path / "tools"
    for folder in (top / ".venv/bin", top / "requirements", tools):
        folder.mkdir(parents=True)
    shutil.copy(TOP / "Makefile", top)
    for name in ("sh", "touch", "make"):
        (tools / name).symlink_to(shutil.which(name))
    script(top / ".venv/bin", "python", f'exec {sys.executable} "$@"')
    (top / ".venv/bin/pip").touch()
    script(tools, "python3", f'exec {sys.executable} "$@"')
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest() if right else "0" * 64
    (top / "requirements/site.txt").write_text(f"tiny==1 --hash=sha256:{digest}\n")
    (top / "requirements/build.txt").write_text("")
    run = make(top, tools, ".venv/site.stamp", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheel.parent), PIP_TARGET=str(top / "installed"), PIP_CONFIG_FILE=os.devnull, PIP_NO_CACHE_DIR="1")
    assert (run.returncode == 0, (top / "installed/tiny.py").exists(), (top / ".venv/site.stamp").exists()) == (right, right, right), run.stdout + run.stderr
    assert right or "DO NOT MATCH THE HASHES" in run.stderr and "requirements/site.txt" in run.stderr and "do not use it" in run.stderr


@pytest.mark.parametrize("folder", [".", *(path.parent.relative_to(TOP).as_posix() for path in TOP.glob("tests/*/package.json"))])
def test_npm_packages_are_locked_by_hash_and_name_no_host(folder):
    packages = json.loads((TOP / folder / "package-lock.json").read_text("utf-8"))["packages"]
    wanted = json.loads((TOP / folder / "package.json").read_text("utf-8"))
    for kind in ("dependencies", "devDependencies"):
        assert packages[""].get(kind, {}) == wanted.get(kind, {}), f"{kind} of {folder}/package.json: run npm install there"
        for name, pinned in wanted.get(kind, {}).items():
            assert packages[f"node_modules/{name}"]["version"] == pinned, f"{name} is not pinned"
    for name, package in packages.items():
        assert not name or package["integrity"].startswith("sha512-"), f"{name} has no hash"
        assert "resolved" not in package, f"{name} names the host it came from: see .npmrc"
    assert "omit-lockfile-registry-resolved=true" in (TOP / folder / ".npmrc").read_text("utf-8").splitlines()
