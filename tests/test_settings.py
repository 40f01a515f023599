"""What the settings promise: switches of the theme that break pages are off, and what is installed is pinned."""
import json
import re
import tomllib

import pytest
from support import TOP

OFF = {
    "navigation.instant": "pages are loaded whole, so that every script starts once on each",
    "content.code.annotate": "a marker in a code block is copied with it, and shown as text where the language has no comments",
    "navigation.tracking": "the address would change while reading",
}


@pytest.mark.parametrize("feature", OFF)
def test_what_breaks_pages_is_off(feature):
    for path in TOP.glob("mkdocs*.yml"):
        assert feature not in path.read_text("utf-8"), f"{path.name}: {feature} stays off: {OFF[feature]}"


def test_the_colour_schemes_are_the_themes_own():
    for path in TOP.glob("mkdocs*.yml"):
        assert re.findall(r"[ {,]scheme: (\w+)", path.read_text("utf-8")) == ["default", "slate"], f"{path.name}: drawings, charts and code have colours for default and slate"


def test_the_suite_runs_whole():
    """`make test` runs what stands in tests/ and every page; nothing is left out by a setting, and what may be skipped is counted here."""
    options = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    assert options == {"testpaths": ["tests", "docs/en", "docs/zh"], "addopts": "--markdown-docs -q", "pythonpath": ["tools", "tools/lighthouse", "docs/hooks", "examples"]}
    command = re.search(r"^test:.*\n((?:\t.*\n)+)", (TOP / "Makefile").read_text("utf-8"), re.M)[1]
    assert command == "\t@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 20 $(ARGS)\n", "workers share the tests, and ARGS alone leaves some out; that what was collected has run: test_workers.py"
    assert not [path for pattern in ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "tests/pytest.ini") for path in TOP.glob(pattern)], "a file that pytest would read in place of pyproject.toml"
    skips = re.compile(r"\b(?:mark\.skip|mark\.xfail|pytest\.skip\(|pytest\.xfail\(|importorskip|collect_ignore|deselect)\w*(?:.*reason=)?.*")
    found = {path.name: [match[0] for match in skips.finditer(path.read_text("utf-8"))] for path in sorted((TOP / "tests").glob("*.py")) if path.name not in ("test_settings.py",)}
    gpu = 'mark.skipif(torch.cuda.is_available(), reason="'
    others = {name: lines for name, lines in found.items() if [line for line in lines if not line.startswith(gpu)]}
    assert {name: len(lines) for name, lines in others.items()} == {"conftest.py": 1, "support.py": 1, "test_beat.py": 1, "test_kernels.py": 2, "test_run_widget.py": 1}, f"skipped in {others}"


def test_what_is_installed_is_pinned():
    groups = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    wanted = [entry for group in groups.values() for entry in group if isinstance(entry, str)]
    assert wanted and not [entry for entry in wanted if not re.fullmatch(r"[\w.-]+(\[[\w,]+\])?==[\w.]+(\s*;.*)?", entry)], "write name==version"
    package = json.loads((TOP / "package.json").read_text("utf-8"))
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name} {version}: write the version alone"
    assert [entry for entry in groups["site"] if isinstance(entry, str) and entry.startswith(("mkdocs==1.", "jieba==", "mkdocs-material==9."))][2:], "MkDocs 1, Material 9, and jieba for the Chinese search"
