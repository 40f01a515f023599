"""make's targets say in one line what is wrong and what to do; the server rebuilds on every kind of edit."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from support import TOP


@pytest.fixture
def clone(tmp_path):
    """A fresh checkout with nothing installed, and a PATH of its own."""
    top = tmp_path / "clone"
    top.mkdir()
    for name in ("Makefile", "pyproject.toml", "package.json", "package-lock.json"):
        shutil.copy(TOP / name, top)
    shutil.copytree(TOP / "requirements", top / "requirements")
    (top / "examples").mkdir()
    shutil.copytree(TOP / "examples/kit", top / "examples/kit")
    shutil.copy(TOP / "examples/run.py", top / "examples")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "bash", "sed", "awk", "touch", "rm", "env", "make"):
        (tools / name).symlink_to(shutil.which(name))
    return top, tools


def make(top, tools, *arguments, **env):
    return subprocess.run(["make", *arguments], cwd=top, env={"PATH": str(tools), "HOME": str(top), **env}, capture_output=True, text=True, timeout=60)


def script(tools, name, body):
    path = tools / name
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)


def refused(run, *words):
    assert run.returncode != 0
    lines = [line for line in run.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1, run.stderr
    for word in words:
        assert word in lines[0], lines[0]


def test_no_python(clone):
    refused(make(*clone, "serve", PYTHON="python3"), "Install Python 3.11")


def test_python_too_old(clone):
    script(clone[1], "python3", "exit 1")
    refused(make(*clone, "serve"), "older than Python 3.11", "make PYTHON=")


def test_no_venv_module(clone):
    script(clone[1], "python3", 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac')
    refused(make(*clone, "serve"), "venv module")


def test_no_network(clone):
    script(clone[1], "python3", f'exec {sys.executable} "$@"')
    run = make(*clone, "serve", PIP_INDEX_URL="http://127.0.0.1:9/", PIP_RETRIES="0", PIP_DEFAULT_TIMEOUT="1", PIP_CONFIG_FILE=os.devnull)
    assert run.returncode != 0 and "check the network" in run.stderr.splitlines()[-2].lower()


def with_packages(clone):
    """Pretend that the packages are there, so that the next check is reached."""
    top, tools = clone
    (top / ".venv/bin").mkdir(parents=True)
    (top / ".venv/bin/python").symlink_to(sys.executable)
    for name in (".venv/bin/pip", ".venv/site.stamp"):
        (top / name).touch()
    script(tools, "python3", f'exec {sys.executable} "$@"')
    return clone


def test_no_node(clone):
    refused(make(*with_packages(clone), "site"), "Node.js is missing", "Node 20")


def test_node_too_old(clone):
    with_packages(clone)
    script(clone[1], "node", "exit 1")
    script(clone[1], "npm", "exit 0")
    refused(make(*clone, "site"), "older than 20")


def test_a_failing_test_or_site_fails_make_and_ci(clone):
    """A red test is a red `make test` and a red .ci/run; the site is built strictly; CI asks for a browser."""
    top, tools = with_packages(clone)
    (top / ".venv/bin/python").unlink()
    script(top / ".venv/bin", "python", f'echo "$CI" "$@" >> {top}/log; case "$*" in *pytest*) exit 1;; esac')
    script(top / ".venv/bin", "mkdocs", f'echo mkdocs "$@" >> {top}/log; exit 1')
    (top / "node_modules").mkdir()
    for name in ("node_modules/.stamp", ".venv/test.stamp"):
        (top / name).touch()
    (tools / "dirname").symlink_to(shutil.which("dirname"))
    shutil.copytree(TOP / ".ci", top / ".ci")
    assert make(top, tools, "site").returncode != 0 and "mkdocs build --strict" in (top / "log").read_text()
    assert make(top, tools, "test").returncode != 0
    (top / "log").unlink()
    assert subprocess.run([top / ".ci/run"], env={"PATH": str(tools), "HOME": str(top)}, capture_output=True).returncode != 0
    assert (top / "log").read_text().splitlines()[-2:] == ["true tools/browser.py", "true -m pytest --numprocesses 3 --dist worksteal --durations 20"]


def test_the_check_runs_both_commands_and_nothing_softens_them():
    text = (TOP / ".github/workflows/check.yml").read_text("utf-8")
    commands = re.findall(r"^ *- run: (.*)$", text, re.M)
    assert not re.search(r"mkdocs build.* --quiet", (TOP / "Makefile").read_text("utf-8")), "--quiet silences the warnings that --strict counts"
    assert "make test" in commands and "make site" in commands and "continue-on-error" not in text, commands


@pytest.mark.parametrize("ci, said", [("true", "1 error"), ("", "1 skipped")])
def test_a_missing_browser_is_red_in_ci_and_a_line_elsewhere(tmp_path, ci, said):
    run = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_browser.py", "-k", "root_page"], cwd=TOP, capture_output=True, text=True,
                         env={"PATH": str(tmp_path), "HOME": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path), "CI": ci, "PYTHONDONTWRITEBYTECODE": "1"})
    assert said in run.stdout and (run.returncode != 0) == bool(ci), run.stdout + run.stderr


def test_port_taken(clone):
    with_packages(clone)
    (clone[0] / "node_modules").mkdir()
    (clone[0] / "node_modules/.stamp").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused(make(*clone, "serve", f"PORT={taken.getsockname()[1]}"), "is taken", "make serve PORT=")


def test_labs_without_a_gpu(clone):
    script(clone[1], "python3", f'exec {sys.executable} "$@"')
    run = make(*clone, "labs", CUDA_VISIBLE_DEVICES="")
    assert run.returncode != 0 and len(run.stderr.strip().splitlines()) == 2, run.stderr   # ours, and make's own


def test_help_names_every_target(clone):
    shown = make(*clone, "help").stdout
    for target in ("serve", "site", "test", "labs", "outputs", "clean"):
        assert f"make {target}" in shown


class Server:
    def __init__(self, tree):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = tree.top.parent / "serve.log"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{self.port}"], cwd=tree.top,
            stdout=self.log.open("w"), stderr=subprocess.STDOUT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONUNBUFFERED": "1"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),   # a suite started in the background ignores Ctrl+C, and what it starts would too
        )

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=5) as answer:
            return answer.read().decode()

    def wait(self, path, text, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if text in self.get(path):
                    return
            except OSError:
                pass
            time.sleep(0.2)
        pytest.fail(f"{path} never showed {text!r}\n{self.log.read_text()[-3000:]}")

    def wait_log(self, text, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if text in self.log.read_text():
                return
            time.sleep(0.2)
        pytest.fail(f"the server never said {text!r}\n{self.log.read_text()[-3000:]}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=20)


@pytest.fixture
def server(tree):
    instance = Server(tree)
    yield instance
    instance.stop()


def append(path, text):
    with pathlib.Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


def test_serve_shows_both_languages_and_follows_every_kind_of_edit(tree, server):
    server.wait("en/lesson/", "Glossary", seconds=120)   # the first build makes everything
    server.wait("zh/lesson/", "术语表")
    server.wait("", "简体中文")
    assert "Content-Security-Policy" not in server.get("en/lesson/"), "the script that reloads a served page is an inline one"
    append(tree.path("docs/zh/index.md"), "\n刚刚写下的一句。\n")
    server.wait("zh/", "刚刚写下的一句")
    time.sleep(2)   # the first build was before the server watched: only one behind an edit can cause the next
    builds = server.log.read_text().count("Building zh")
    time.sleep(4)
    assert server.log.read_text().count("Building zh") == builds, "the server rebuilds without an edit"
    append(tree.path("docs/theme/css/site.css"), "\n.edited { color: red; }\n")
    server.wait("en/css/site.css", ".edited")
    tree.edit("docs/hooks/core/html.py", '" download>', '" download data-edited-core>')
    server.wait("en/lesson/", "data-edited-core")
    append(tree.path("docs/hooks/shim.py"), "\n# The hook itself is loaded once a process; an edit must not break the server.\n")
    tree.edit("examples/online_softmax.py", '"""', '"""An edited docstring. ')
    server.wait("examples/online_softmax.py", "An edited docstring.")
    path = tree.path("examples/results/nvidia-h200/flash_vs_naive_memory.json")
    path.write_text(path.read_text("utf-8").replace('"torch": "', '"torch": "9.9.'), "utf-8")
    server.wait("en/lesson/", "torch 9.9.")

    good = tree.path("docs/en/index.md").read_text("utf-8")
    append(tree.path("docs/en/index.md"), "\n{{ flash_vs_naive_memory.nothing_mib }}\n")
    server.wait_log(f"docs/en/index.md:{good.count(chr(10)) + 2}: flash_vs_naive_memory has no value 'nothing_mib'")
    tree.path("docs/en/index.md").write_text(good + "\nMended again.\n", "utf-8")
    server.wait("en/", "Mended again.")
