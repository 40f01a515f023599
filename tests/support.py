"""What the tests share: the tree's places, a strict build, a copy of the tree to break."""
import http.server
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
SITE_URL = "https://lesson.example/repo/"
LANGUAGES = ("en", "zh")


def build(top, site_dir, site_url=SITE_URL, **env):
    """Run a strict build of the tree at `top`; returns the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site_dir)], cwd=top, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        env={**os.environ, "SITE_URL": site_url, "NO_MKDOCS_2_WARNING": "1", "PYTHONUTF8": "1", **env},
    )


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


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass
