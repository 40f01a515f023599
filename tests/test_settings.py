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


def test_what_is_installed_is_pinned():
    groups = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    wanted = [entry for group in groups.values() for entry in group if isinstance(entry, str)]
    assert wanted and not [entry for entry in wanted if not re.fullmatch(r"[\w.-]+(\[[\w,]+\])?==[\w.]+(\s*;.*)?", entry)], "write name==version"
    package = json.loads((TOP / "package.json").read_text("utf-8"))
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name} {version}: write the version alone"
    assert [entry for entry in groups["site"] if isinstance(entry, str) and entry.startswith(("mkdocs==1.", "jieba==", "mkdocs-material==9."))][2:], "MkDocs 1, Material 9, and jieba for the Chinese search"
