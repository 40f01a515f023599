"""A commit gives one site, byte for byte: in another folder, on another day, in another time zone, language and order of files."""
import gzip
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from support import SITE_URL, TOP

COMMITTED = 1_790_000_000   # 2026-09-21

# Another machine on another day: clocks 400 days ahead, folders listed backwards.
ELSEWHERE = """
import datetime, os, runpy, sys, time
AHEAD = 400 * 86400
now, scandir, listdir = time.time, os.scandir, os.listdir
time.time = lambda: now() + AHEAD
for name in ("localtime", "gmtime"):
    setattr(time, name, lambda seconds=None, real=getattr(time, name): real(time.time() if seconds is None else seconds))
time.strftime = lambda form, moment=None, real=time.strftime: real(form, time.localtime() if moment is None else moment)
class Moment(datetime.datetime):
    @classmethod
    def now(cls, tz=None): return cls.fromtimestamp(time.time(), tz)
    today = now
    @classmethod
    def utcnow(cls): return cls.fromtimestamp(time.time(), datetime.timezone.utc).replace(tzinfo=None)
class Day(datetime.date):
    @classmethod
    def today(cls): return cls.fromtimestamp(time.time())
datetime.datetime, datetime.date = Moment, Day
class Backwards:
    def __init__(self, path="."):
        with scandir(path) as entries: self.entries = iter(sorted(entries, key=lambda entry: os.fsdecode(entry.name), reverse=True))
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def __iter__(self): return self.entries
    def __next__(self): return next(self.entries)
    def close(self): pass
os.scandir = Backwards
os.listdir = lambda path=".": sorted(listdir(path), reverse=True)
sys.argv[0] = "mkdocs"
runpy.run_module("mkdocs", run_name="__main__", alter_sys=True)
"""


def built(top, out, *program, **env):
    run = subprocess.run([sys.executable, *program, "build", "--strict", "--site-dir", str(out)], cwd=top, capture_output=True, text=True, timeout=240, env={
        **{name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}, "SITE_URL": SITE_URL, "NO_MKDOCS_2_WARNING": "1", "PYTHONUTF8": "1", **env})
    assert run.returncode == 0, run.stdout + run.stderr
    archive = out.parent / "archives" / "offline.zip"
    subprocess.run([sys.executable, str(top / "docs/hooks/core/archive.py"), str(out), str(archive)], check=True, capture_output=True)
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()} | {"the offline archive": archive.read_bytes()}


def differences(one, two):
    """Which files differ, and where each begins to."""
    for name in sorted({*one, *two}):
        a, b = one.get(name), two.get(name)
        if a is None or b is None:
            yield f"{name}: in one only"
        elif a != b:
            at = next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            yield f"{name}, byte {at}: {a[max(at - 40, 0):at + 40]} against {b[max(at - 40, 0):at + 40]}"


def commit(top):
    git = ["git", "-C", str(top), "-c", "user.name=n", "-c", "user.email=e@e.example", "-c", "init.defaultBranch=main"]
    env = {**os.environ, "GIT_AUTHOR_DATE": f"{COMMITTED} +0000", "GIT_COMMITTER_DATE": f"{COMMITTED} +0000", "GIT_CONFIG_GLOBAL": os.devnull}
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *command], check=True, env=env, capture_output=True)


def test_two_builds_of_one_commit_are_equal_byte_for_byte(tree, tmp_path):
    commit(tree.top)
    other = tmp_path / "another-place" / "with a blank"
    shutil.copytree(tree.top, other, symlinks=True)
    for path in other.rglob("*"):
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    here = built(tree.top, tmp_path / "here" / "site", "-m", "mkdocs", TZ="UTC", PYTHONHASHSEED="1", LC_ALL="C")
    there = built(other, tmp_path / "there" / "out", "-c", ELSEWHERE, TZ="Asia/Kathmandu", PYTHONHASHSEED="2", LC_ALL="tr_TR.UTF-8", LANG="zh_CN.UTF-8")
    assert len(here) > 150 and not list(differences(here, there)), "\n".join(differences(here, there))
    for name in ("sitemap.xml.gz", "en/sitemap.xml.gz"):
        assert abs(int.from_bytes(here[name][4:8], "little") - COMMITTED) < 86400, f"{name} is not dated by the commit"
    for name, data in here.items():
        plain = gzip.decompress(data) if name.endswith(".gz") else data
        assert not any(str(folder).encode() in plain for folder in (tmp_path, TOP)), f"{name} names a folder of this machine"


def test_differences_are_found():
    assert list(differences({"a": b"1"}, {"a": b"1"})) == []
    assert [found.split(":")[0] for found in differences({"a": b"12", "b": b"", "d": b"1"}, {"a": b"13", "c": b"", "d": b"12"})] == ["a, byte 1", "b", "c", "d, byte 1"]


def test_the_date_is_the_commit_s_or_a_fixed_one(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("shim", TOP / "docs/hooks/shim.py")
    shim = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shim)
    monkeypatch.setattr(shim, "TOP", tmp_path)
    (tmp_path / "file").write_text("text")
    assert shim._commit_date() == "315532800", "without git"
    commit(tmp_path)
    assert shim._commit_date() == str(COMMITTED)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shim._commit_date() == "315532800", "without the program git"
    monkeypatch.undo()
    monkeypatch.setattr(shim, "TOP", tmp_path)
    shutil.rmtree(tmp_path / ".git/objects")
    assert shim._commit_date() == "315532800", "with a broken repository"


@pytest.mark.parametrize("given", ["1700000000"])
def test_a_date_that_is_given_counts(monkeypatch, given):
    spec = importlib.util.spec_from_file_location("shim", TOP / "docs/hooks/shim.py")
    shim = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shim)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    shim.on_startup("build", False)
    assert os.environ["SOURCE_DATE_EPOCH"] == given
