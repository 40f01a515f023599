import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "docs" / "hooks"), str(TOP / "examples"), str(TOP / "tests")]
sys.dont_write_bytecode = True   # an edited file is never shadowed by its cache, and no folder that `serve` watches changes

import browser  # noqa: E402

SITE_URL = "https://lesson.example/repo/"
LANGUAGES = ("en", "zh")


def build(top, site_dir, site_url=SITE_URL, **env):
    """Run a strict build of the tree at `top`; returns the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site_dir)], cwd=top, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        env={**os.environ, "SITE_URL": site_url, "NO_MKDOCS_2_WARNING": "1", "PYTHONUTF8": "1", **env},
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built site, published for SITE_URL."""
    folder = tmp_path_factory.mktemp("site")
    run = build(TOP, folder)
    assert run.returncode == 0, run.stdout
    return folder


@pytest.fixture
def tree(tmp_path):
    """A copy of everything that a build reads, to be broken on purpose. `.build()` builds it."""
    top = tmp_path / "tree"
    top.mkdir()
    for name in ("docs", "examples"):
        shutil.copytree(TOP / name, top / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [*TOP.glob("mkdocs*.yml"), TOP / "package.json"]:
        shutil.copy(path, top)
    (top / "node_modules").symlink_to(TOP / "node_modules")
    return Tree(top)


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


@pytest.fixture(scope="session")
def served(site, tmp_path_factory):
    """Address of the built site on another host, port and path than SITE_URL."""
    top = tmp_path_factory.mktemp("host")
    (top / "elsewhere").mkdir()
    (top / "elsewhere" / "deep").symlink_to(site)
    handler = functools.partial(QuietHandler, directory=str(top))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/elsewhere/deep/"
    server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def chromium():
    if browser.find() is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: `make browser` installs one")
        pytest.skip("no Chromium: `make browser` installs one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        instance = browser.launch(playwright)
        yield instance
        instance.close()
