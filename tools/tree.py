"""The tree: its places, a strict build, a copy of it to break or to edit."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TOP / "docs/hooks"))
from core.words import languages  # noqa: E402

SITE_URL = "https://lesson.example/repo/"
LANGUAGES = tuple(languages(TOP))
# Addresses of every page and notebook below the site's root, from the sources.
_NOTEBOOKS = re.findall(r"\]\((notebooks/\w+)\.ipynb\)", (TOP / "docs" / "en" / "notebooks.md").read_text("utf-8"))
_NAMES = sorted({*(path.relative_to(TOP / "docs" / "en").with_suffix("").as_posix() for path in (TOP / "docs" / "en").rglob("*.md")), *_NOTEBOOKS})
PAGES = [f"{lang}/{'' if name == 'index' else name + '/'}" for lang in LANGUAGES for name in _NAMES]


def build(top, site_dir, site_url=SITE_URL, timeout=300, **env):
    """Run a strict build of the tree at `top`; returns the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(pathlib.Path(top) / "mkdocs.yml"), "--site-dir", str(site_dir)],
        cwd=pathlib.Path(site_dir).parent, text=True,   # the same from any folder
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
        env={**os.environ, "SITE_URL": site_url, "NO_MKDOCS_2_WARNING": "1", "PYTHONUTF8": "1", **env},
    )


def copied(top):
    """A Tree at the new folder `top`: everything that a build reads."""
    top.mkdir()
    for name in ("docs", "examples"):
        shutil.copytree(TOP / name, top / name, ignore=shutil.ignore_patterns("__pycache__"))
    (top / "tools").mkdir()
    shutil.copy(TOP / "tools" / "bundle.py", top / "tools")
    for path in [*TOP.glob("mkdocs*.yml"), TOP / "package.json", TOP / "LICENSE"]:
        shutil.copy(path, top)
    (top / "node_modules").symlink_to(TOP / "node_modules")
    warmed(top)
    return Tree(top)


def warmed(top):
    """Hand the tree at `top` what builds here have kept, by the hash of all that it is made of: ten seconds of its first build."""
    for kept in ("notebooks", "pages", "templates"):
        if (TOP / ".cache" / kept).is_dir():
            shutil.copytree(TOP / ".cache" / kept, top / ".cache" / kept, ignore=lambda folder, names: [name for name in names if not (pathlib.Path(folder) / name).exists()])


class Tree:
    def __init__(self, top):
        self.top, self.out = top, top / "site"

    def path(self, name):
        return self.top / name

    def edit(self, name, old, new, count=1):
        path = self.top / name
        text = path.read_text("utf-8")
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new, count), "utf-8")

    def build(self, **env):
        return build(self.top, self.out, **env)

    def page(self, name):
        return (self.out / name).read_text("utf-8")
