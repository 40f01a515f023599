"""Two workers run the suite: each test once, none left out, and one that measures time has the machine for itself."""
import json
import os
import subprocess
import sys

import pytest
from support import TOP

TESTS = """
import json, os, pathlib, time, pytest
LOG = pathlib.Path(__file__).with_name("log")

def spent(name):
    began = time.monotonic()
    time.sleep(0.3)
    with LOG.open("a") as file:
        file.write(json.dumps([name, began, time.monotonic(), os.environ.get("PYTEST_XDIST_WORKER")]) + "\\n")

@pytest.mark.alone
def test_measures(site):
    spent("alone")
    assert site.joinpath("index.html").is_file()

@pytest.mark.parametrize("number", range(8))
def test_shares(number, site):
    spent("shared")

@pytest.mark.alone
def test_measures_too(site):
    spent("alone")
"""
ONE_BUILD = """
import conftest, pathlib

def build(top, folder, **options):
    with pathlib.Path(__file__).with_name("builds").open("a") as file:
        file.write("built\\n")
    folder.mkdir()
    folder.joinpath("index.html").touch()
    return type("Run", (), {"returncode": 0})

conftest.build = build
"""
LOSES = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    return True if "6" in item.name else None
"""


@pytest.fixture
def suite(tmp_path):
    """Run the tests above, in an empty folder, under the conftest.py of these tests. `more` is a plugin beside it."""
    (tmp_path / "test_them.py").write_text(TESTS, "utf-8")

    def run(*options, more=""):
        (tmp_path / "more.py").write_text(ONE_BUILD + more, "utf-8")
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run([sys.executable, "-m", "pytest", "-p", "conftest", "-p", "more", "-p", "no:cacheprovider", "--rootdir", ".", "--basetemp", "temp", *options], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              env={**env, "PYTHONPATH": os.pathsep.join(map(str, (TOP / "tests", TOP / "tools", TOP / "docs" / "hooks", tmp_path))), "PYTHONDONTWRITEBYTECODE": "1"})

    return run


def test_two_workers_share_one_site_and_leave_the_machine_to_one_that_measures(suite, tmp_path):
    done = suite("-n", "2", "--dist", "worksteal")
    assert done.returncode == 0 and "10 of 10 collected tests ran" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "builds").read_text() == "built\n"
    spans = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert len(spans) == 10 and len({worker for *_, worker in spans}) == 2
    overlap = [(one, other) for one in spans for other in spans if one is not other and one[1] < other[2] and other[1] < one[2]]
    assert overlap, "two workers, and nothing ran side by side"
    assert not [pair for pair in overlap if "alone" in (pair[0][0], pair[1][0])]


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_a_test_that_never_ran_is_red(suite, workers):
    done = suite(*workers, more=LOSES)
    assert done.returncode == 1 and "collected and never run: test_them.py::test_shares[6]" in done.stdout, done.stdout + done.stderr
