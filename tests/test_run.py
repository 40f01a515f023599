"""run.py without a GPU: a copy of it beside small labs, on a stand-in for torch. What it writes, when, and what it refuses."""
import datetime
import functools
import getpass
import hashlib
import importlib
import inspect
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

import bundle
import jsonschema
import pytest
from core import results

import flash_vs_naive_memory
import run as runner
from kit.identity import identity
from kit.table import report

EXAMPLES = pathlib.Path(runner.__file__).resolve().parent
TOP = EXAMPLES.parent
SCHEMA = json.loads((EXAMPLES / "results" / "schema.json").read_text("utf-8"))

TORCH = '''
import types
version = types.SimpleNamespace(cuda="13.0", hip=None)
__version__ = "2.11.0+cu130"
import contextlib, os, sys, time
bfloat16, uint8 = "bf16", "u8"
WRONG = os.environ.get("WRONG", "")                          # which instrument shows nothing
class Ones:
    def __matmul__(self, other): launched.append("gemm_kernel"); return self
    def sum(self): return self
    def item(self): return 4096
    def copy_(self, other): pass
    def __init__(self, n=0): self.n = n; cuda.held += n
    def __del__(self): cuda.held -= self.n
ones = lambda *a, **k: Ones()
empty, empty_like, launched = lambda n, **k: Ones(n), lambda x: Ones(x.n), []
autograd = types.SimpleNamespace(DeviceType=types.SimpleNamespace(CUDA="cuda"))
profiler = sys.modules["torch.profiler"] = types.ModuleType("torch.profiler")
profiler.ProfilerActivity = types.SimpleNamespace(CUDA=1)
@contextlib.contextmanager
def profile(**k):
    launched.clear()
    event = lambda i, name: types.SimpleNamespace(device_type="cuda", name=name, time_range=types.SimpleNamespace(start=i))
    yield types.SimpleNamespace(events=lambda: [] if WRONG == "profiler" else [event(*one) for one in enumerate(launched)])
profiler.profile = profile
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91501))
class Event:
    turn = 0
    def __init__(self, **k): pass
    def record(self): self.at = time.perf_counter()
    def elapsed_time(self, other):
        Event.turn += 1
        if other.at - self.at < 1e-3: return 3.0 if os.environ.get("BUSY") == "spread" and Event.turn % 4 == 0 else 1.0
        return 1e3 * (other.at - self.at) * (1000 if WRONG == "clock" else 1)
class cuda:
    Event, held = Event, 0
    device = staticmethod(lambda i: contextlib.nullcontext())
    _sleep = staticmethod(lambda cycles: time.sleep(cycles / 1e10))
    synchronize = reset_peak_memory_stats = empty_cache = staticmethod(lambda: None)
    memory_reserved = staticmethod(lambda: 0)
    mem_get_info = staticmethod(lambda: (150e9 - (20e9 if os.environ.get("BUSY") == "memory" else 1e8), 150e9))
    memory_stats = staticmethod(lambda: {} if WRONG == "counter" else {f"{kind}_bytes.all.{which}": cuda.held for kind in ("requested", "allocated") for which in ("current", "peak")})
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    set_device = staticmethod(lambda i: None)
    get_device_name = staticmethod(lambda i=0: os.environ.get("CARD", "NVIDIA H200"))
    get_device_capability = staticmethod(lambda i=0: (9, 0))
    get_device_properties = staticmethod(lambda i=0: types.SimpleNamespace(
        name=os.environ.get("CARD", "NVIDIA H200"), total_memory=int(os.environ.get("MEMORY", 150_000_000_000)), multi_processor_count=132, L2_cache_size=62914560))
'''
LAB = '''
import math, os
SEED = 7
SAID = []
def check(): pass
def measure():
    yield {"part": "a", "S": 1, "ms": 1.5, "kernel": "k<1>", "status": "ok"}
    SAID.append("Tried to allocate 2.00 GiB")
    yield {"part": "a", "S": 2, "ms": math.nan, "kernel": None, "status": "oom"}
    yield {"part": "b", "S": 3, "ms": math.inf, "kernel": "k<1>", "status": "ok"}
def values(rows): return {"count": len(rows), "nothing": None}
def header(part): return f"part {part}"
def line(row): return f"S = {row['S']}" if row["S"] != 2 else ""
def footer(found): return f"{found['count']} rows"
'''


class Folder:
    """A folder with run.py and labs in it."""

    def __init__(self, path):
        self.path = path
        (path / "stand-in").mkdir()
        (path / "stand-in" / "torch.py").write_text(TORCH)
        (path / "run.py").write_text(bundle.bundle(EXAMPLES / "run.py"), "utf-8")

    def lab(self, name, text=LAB, **changes):
        for old, new in changes.items():
            text = text.replace(f"def {old}", f"def old_{old}") + new
        (self.path / f"{name}.py").write_text(text)

    def start(self, *arguments, path=None, env={}, **streams):
        env = {**os.environ, "PYTHONPATH": str(self.path / "stand-in"), "PYTHONDONTWRITEBYTECODE": "1", **({"PATH": path} if path is not None else {}), **env}
        return subprocess.Popen([sys.executable, str(self.path / "run.py"), *map(str, arguments)], cwd=self.path.parent, env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments, **more):
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def result(self, name, results=None):
        return json.loads(((results or self.path / "results") / "nvidia-h200" / f"{name}.json").read_text("utf-8"),
                          parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "somewhere"
    path.mkdir()
    return Folder(path)


SHA = "0123456789abcdef0123456789abcdef01234567"


def test_a_result_has_every_field_and_fits_the_schema(folder):
    folder.lab("small")
    done = folder.run("small", "--commit", SHA, "--clean")
    assert done.returncode == 0 and done.stderr == ""
    result = folder.result("small")
    jsonschema.Draft202012Validator(SCHEMA).validate(result)
    assert [row["ms"] for row in result["rows"]] == [1.5, None, None]
    assert result["source"] == {"path": "examples/small.py", "id": identity(folder.path / "small.py"), "commit": SHA, "dirty": False}
    assert result["run"]["command"] == "python examples/run.py small" and result["run"]["seed"] == 7
    assert result["run"]["card"]["idle"] is True and result["rows"][1]["oom"] == "Tried to allocate 2.00 GiB"
    assert result["machine"]["gpu"] == "NVIDIA H200" and result["software"]["cudnn"] == "91501"
    assert "part a\nS = 1\npart b\nS = 3\n3 rows\n" in done.stdout and result.keys() == {"schema", "lab", "source", "run", "machine", "software", "rows"}
    lines = (folder.path / "results" / "nvidia-h200" / "small.json").read_text("utf-8").splitlines()
    assert [json.loads(line.rstrip(",")) for line in lines if line.startswith("  ")] == result["rows"], "one row a line"


def test_no_host_user_or_path(folder):
    folder.lab("small")
    assert folder.run("--commit", SHA, "--dirty").returncode == 0
    text = (folder.path / "results" / "nvidia-h200" / "small.json").read_text("utf-8")
    assert folder.result("small")["source"]["dirty"] is True
    for secret in (socket.gethostname(), str(folder.path), str(pathlib.Path.home()), sys.prefix, os.getcwd()):
        assert len(secret) < 2 or secret not in text
    user = getpass.getuser()
    assert f'"{user}"' not in text and f"/{user}" not in text and f"{user}@" not in text


@pytest.mark.parametrize("path", [[], ["schema"], ["lab"], ["source"], ["run"], ["machine"], ["software"], ["rows"],
                                  *(["source", name] for name in ("path", "id", "commit", "dirty")),
                                  *(["run", name] for name in ("started", "seconds", "command", "seed", "status", "error")),
                                  *(["machine", name] for name in ("gpu", "memory", "driver", "sms", "l2", "cpu", "os")),
                                  *(["software", name] for name in ("python", "torch", "cuda", "cudnn", "triton")),
                                  *(["rows", 0, name] for name in ("kernel", "status"))], ids=lambda path: "/".join(map(str, path)) or "complete")
def test_a_missing_field_is_refused(complete, path):
    validator = jsonschema.Draft202012Validator(SCHEMA)
    result = json.loads(json.dumps(complete))
    if not path:
        validator.check_schema(SCHEMA)
        validator.validate(result)
        return
    holder = result
    for name in path[:-1]:
        holder = holder[name]
    del holder[path[-1]]
    with pytest.raises(jsonschema.ValidationError, match=str(path[-1])):
        validator.validate(result)


@pytest.mark.parametrize("change", [
    lambda r: r["source"].update(commit=None), lambda r: r["source"].update(dirty=None), lambda r: r["source"].update(commit=None, dirty=True), lambda r: r["source"].update(id="x"), lambda r: r["source"].update(sha256="a" * 64),
    lambda r: r["run"].update(status="running"), lambda r: r["run"].update(status="failed", error="ValueError"),
    lambda r: r["rows"].clear(), lambda r: r["rows"][0].update(kernel=None), lambda r: r["rows"][0].update(status="fine"),
    lambda r: r["rows"][0].update(naive_mib=0.0), lambda r: r["rows"][0].update(peak_mib=0), lambda r: r["rows"][0].update(ms=0.0), lambda r: r["rows"][0].update(flash_bwd_ms=0), lambda r: r["rows"][1].update(oom="no"),
    lambda r: r["run"].update(card={"idle": True, "others_mib": 0.0, "spread_pct": 0.0}), lambda r: r["run"].update(card={"idle": True}),
    lambda r: r["rows"][0].update(list=[1]), lambda r: r.update(host="me"), lambda r: r["machine"].update(host="me"),
    lambda r: r.update(schema=1), lambda r: r.update(schema=3), lambda r: r.update(output="a\n"), lambda r: r.update(values={"a": 1}), lambda r: r["machine"].update(memory="139 GiB"),
])
def test_what_is_incomplete_or_foreign_is_refused(complete, change):
    change(complete)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(complete)


@pytest.mark.parametrize("path", [[], ["values"], ["output"], ["source", "sha256"]], ids=lambda path: "/".join(path) or "complete")
def test_a_result_of_the_first_schema_is_still_read(complete, path):
    """run.py wrote the file's sha256, values and output until the identity came."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    del complete["source"]["id"]
    result = {**complete, "schema": 1, "source": {**complete["source"], "sha256": "a" * 64}, "values": {"a": 1}, "output": "a\n"}
    validator.validate(result)
    if path:
        del functools.reduce(dict.get, path[:-1], result)[path[-1]]
        with pytest.raises(jsonschema.ValidationError, match=path[-1]):
            validator.validate(result)


@pytest.fixture
def complete():
    return {
        "schema": 2, "lab": "small", "source": {"path": "examples/small.py", "id": "a" * 64, "commit": SHA, "dirty": False},
        "run": {"started": "2026-11-29T12:00:00Z", "seconds": 1.5, "command": "python examples/run.py small", "seed": None, "status": "ok", "error": None},
        "machine": {"gpu": "NVIDIA H200", "memory": 1, "driver": None, "sms": 132, "l2": None, "cpu": "x86_64", "os": "Linux x86_64"},
        "software": {"python": "3.12.3", "torch": "2.11.0", "cuda": "13.0", "cudnn": None, "triton": None},
        "rows": [{"S": 1, "kernel": "k", "status": "ok"}, {"S": 2, "kernel": None, "status": "oom"}],
    }


def test_rows_are_on_disk_before_the_next_is_measured_and_survive_a_kill(folder):
    folder.lab("slow", measure='''
def measure():
    import time
    for S in range(1, 3):
        yield {"part": "a", "S": S, "kernel": "k", "status": "ok"}
    time.sleep(60)
''')
    process = folder.start("slow")
    file = folder.path / "results" / "nvidia-h200" / "slow.json"
    until = time.monotonic() + 30
    while time.monotonic() < until and not (file.exists() and len(json.loads(file.read_text())["rows"]) == 2):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    result = folder.result("slow")
    assert [row["S"] for row in result["rows"]] == [1, 2] and result["run"]["status"] == "running"
    assert os.listdir(file.parent) == ["slow.json"]


def test_an_interrupt_keeps_the_rows(folder):
    folder.lab("slow", measure='''
def measure():
    yield {"part": "a", "S": 1, "kernel": "k", "status": "ok"}
    raise KeyboardInterrupt
''')
    done = folder.run("slow")
    assert done.returncode == 130 and len(done.stderr.splitlines()) == 1
    assert folder.result("slow")["run"]["status"] == "failed" and len(folder.result("slow")["rows"]) == 1


def test_one_failure_leaves_its_rows_and_the_other_labs(folder):
    folder.lab("a_good")
    folder.lab("b_bad", measure='''
def measure():
    yield {"part": "a", "S": 1, "kernel": "k", "status": "ok"}
    raise ValueError("in " + __file__)
''')
    folder.lab("c_good")
    folder.lab("d_wrong", check="\ndef check(): raise AssertionError('not attention')\n")
    done = folder.run("--commit", SHA, "--clean")
    assert done.returncode == 1
    assert "2 of 4 labs failed: b_bad, d_wrong" in done.stderr and "not attention" in done.stderr
    bad = folder.result("b_bad")
    assert len(bad["rows"]) == 1 and bad["run"]["status"] == "failed" and bad["run"]["error"] == "ValueError" and str(folder.path) not in json.dumps(bad)
    for name in ("a_good", "c_good"):
        jsonschema.Draft202012Validator(SCHEMA).validate(folder.result(name))
    assert not (folder.path / "results" / "nvidia-h200" / "d_wrong.json").exists()


SKIPS = '''
class Missing(RuntimeError):
    cannot_run_here = True
def measure():
    raise Missing("The tool is missing.\\nGet it there.")
    yield
'''


def test_a_lab_that_cannot_run_here_is_skipped_in_one_line_and_the_others_run(folder):
    folder.lab("a_good")
    folder.lab("b_skips")
    assert folder.run("--commit", SHA, "--clean").returncode == 0
    before = folder.result("b_skips")
    folder.lab("b_skips", measure=SKIPS)
    folder.lab("c_good")
    done = folder.run("--commit", SHA, "--clean")
    assert done.returncode == 0, "what can run here ran"
    assert done.stderr.splitlines() == ["b_skips: skipped: The tool is missing. Get it there.", "1 of 3 labs skipped, as they cannot run here: b_skips"]
    assert folder.result("b_skips") == before and folder.result("c_good")["run"]["status"] == "ok"


def test_failed_and_skipped_are_told_apart(folder):
    folder.lab("a_skips", measure=SKIPS)
    folder.lab("b_bad", check="\ndef check(): raise AssertionError('not\\nattention')\n")
    folder.lab("c_late", measure=SKIPS.replace("    raise", "    yield {'part': 'a', 'S': 1, 'kernel': 'k', 'status': 'ok'}\n    raise"))
    folder.lab("d_good")
    done = folder.run("--commit", SHA, "--clean")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "a_skips: skipped: The tool is missing. Get it there.", "b_bad: failed: AssertionError: not attention",
        "c_late: failed: Missing: The tool is missing. Get it there.",
        "2 of 4 labs failed: b_bad, c_late. Rows measured before that are kept.", "1 of 4 labs skipped, as they cannot run here: a_skips"]
    late = folder.result("c_late")
    assert len(late["rows"]) == 1 and late["run"]["status"] == "failed" and late["run"]["error"] == "Missing"
    assert folder.result("d_good")["run"]["status"] == "ok"


def test_without_counters_the_traffic_lab_is_skipped():
    from kit import counters

    assert runner.verdict(counters.NoCounters(counters.NO_NCU)) == ("skipped", counters.NO_NCU)
    for error, rows in ((counters.NoCounters("no"), [{}]), (counters.NcuFailed("ncu ended with status 1"), []), (RuntimeError("no"), [])):
        assert runner.verdict(error, rows)[0] == "failed"


def test_a_lab_that_fails_its_check_keeps_the_last_result(folder):
    folder.lab("small")
    assert folder.run().returncode == 0
    before = folder.result("small")
    folder.lab("small", check="\ndef check(): raise AssertionError('no')\n")
    assert folder.run().returncode == 1 and folder.result("small") == before


def test_the_list_and_unknown_names(folder):
    folder.lab("small")
    (folder.path / "no_lab.py").write_text("def other(): pass\nraise SystemExit('imported')\n")
    assert folder.run("--list").stdout == "small\n"
    done = folder.run("smal")
    assert done.returncode == 2 and done.stderr == "There is no lab smal. The labs are: small\n" and done.stdout == ""


def test_a_folder_that_cannot_be_written(folder):
    folder.lab("small")
    taken = folder.path / "taken"
    taken.write_text("a file")
    done = folder.run("--results", taken / "results")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("Cannot write into") and len(done.stderr.splitlines()) == 1


def test_another_results_folder(folder, tmp_path):
    folder.lab("small")
    assert folder.run("--results", tmp_path / "mine").returncode == 0
    assert folder.result("small", tmp_path / "mine")["rows"] and not (folder.path / "results").exists()


@pytest.mark.parametrize("script, driver", [
    (None, None), ("echo 580.159.04\necho 580.159.04", "580.159.04"), ("echo 580; exit 9", None), ("echo", None), ("exec sleep 60", None)],
    ids=["missing", "two cards", "fails", "empty", "hangs"])
def test_the_driver_is_null_when_nvidia_smi_does_not_answer(tmp_path, monkeypatch, script, driver):
    if script:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin" if script else str(tmp_path))
    ask = runner.ask
    monkeypatch.setattr(runner, "ask", lambda *command, cwd=None: ask(*command, cwd=cwd, seconds=1))
    import torch
    import types

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(name="Card", total_memory=1, multi_processor_count=2))
    found = runner.machine()
    assert found["driver"] == driver and found["l2"] is None and found["gpu"] == "Card"


def test_commit_and_dirty_come_from_git(folder):
    folder.lab("small")
    git = lambda *arguments: subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=folder.path, check=True, capture_output=True, text=True).stdout.strip()
    assert folder.run().returncode == 0 and folder.result("small")["source"]["commit"] is None
    git("init", "-q"), git("add", "small.py"), git("commit", "-qm", "a")
    assert folder.run().returncode == 0
    assert (folder.result("small")["source"]["commit"], folder.result("small")["source"]["dirty"]) == (git("rev-parse", "HEAD"), False)
    folder.lab("small", LAB + "\n# changed\n")
    assert folder.run().returncode == 0 and folder.result("small")["source"]["dirty"] is True


def test_line_ends_do_not_change_the_id(tmp_path):
    (tmp_path / "a.py").write_bytes(b"def measure():\n    return 1\n")
    (tmp_path / "b.py").write_bytes(b"def measure():\r\n    return 1\r\n")
    assert runner.source(tmp_path / "a.py", "c", False)["id"] == runner.source(tmp_path / "b.py", "c", False)["id"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    file = tmp_path / "gpu" / "lab.json"
    runner.write(file, {"a": 0})
    held = file.open()                                       # a reader in the middle of the old file keeps the old file
    runner.write(file, {"a": 1})
    assert json.load(held) == {"a": 0}
    with pytest.raises(TypeError):
        runner.write(file, {"a": object()})
    assert json.loads(file.read_text()) == {"a": 1} and os.listdir(file.parent) == ["lab.json"]


def test_slugs():
    assert [runner.slug(name) for name in ("NVIDIA H200", "NVIDIA GeForce RTX 4090", "Tesla V100-SXM2-16GB ")] == [
        "nvidia-h200", "nvidia-geforce-rtx-4090", "tesla-v100-sxm2-16gb"]


def test_the_helper_is_the_lab_s_own():
    assert inspect.getsource(runner.gpu_problem) == inspect.getsource(flash_vs_naive_memory.gpu_problem)


def test_labs_are_found_without_importing():
    assert "flash_vs_naive_memory" in runner.find_labs() and "run" not in runner.find_labs() and "online_softmax" not in runner.find_labs()


def test_committed_results_fit_the_schema():
    for path in results.files(EXAMPLES / "results"):
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("path", results.files(EXAMPLES / "results"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_committed_result_says_what_it_is_and_is_as_run_py_writes_it(path):
    result = json.loads(path.read_text("utf-8"))
    assert result["schema"] == 1 or path.read_text("utf-8") == runner.as_text(result)
    assert result["lab"] == path.stem and result["source"]["path"] == f"examples/{path.stem}.py" and result["source"]["dirty"] in (False, None)
    assert runner.slug(result["machine"]["gpu"]) == path.parent.name and result["run"]["command"].endswith(f"run.py {path.stem}")


@pytest.mark.parametrize("path", results.files(EXAMPLES / "results"), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_pages_show_as_output_is_what_the_lab_prints(path, capsys):
    """Derived at build from the rows, by the lab's own header, line and footer."""
    result, program = json.loads(path.read_text("utf-8")), EXAMPLES / f"{path.stem}.py"
    values, output = results.Lab(path.stem, bundle.bundle(program), program).derived(result["rows"])
    lab = importlib.import_module(path.stem)
    report(iter(result["rows"]), lab.header, lab.line)
    assert values == runner.strict(lab.values(result["rows"])) and output == capsys.readouterr().out + lab.footer(values) + "\n"


RUNS = {path.relative_to(TOP).as_posix(): (lambda result: (result["source"], result["run"]["started"])) for path in results.files(EXAMPLES / "results")}
RUNS |= {path.relative_to(TOP).as_posix(): (lambda notebook: ({**(run := notebook["measured"]), "path": run["source"]}, run["date"])) for path in sorted((EXAMPLES / "results").glob("*/*.cells.json"))}


@pytest.mark.parametrize("name", RUNS)
def test_what_was_measured_names_the_commit_of_its_program_and_a_day_after_it(name):
    """A date cannot be moved before the commit, nor a commit be named that holds another program. A copy of the tree without its history knows of no commit."""
    source, date = run_of(name)
    measured = datetime.datetime.fromisoformat(date).timestamp()
    assert measured < time.time() + 86400, f"{name}: measured on {date}, which is yet to come"
    if source["commit"] is None:
        assert source["id"] in stale_ids(), f"{name}: a commit holds this program now; measure again"
        return
    made = committed(source["commit"])
    if made is None:
        assert not any(committed(run_of(other)[0]["commit"]) for other in RUNS), f"{name}: there is no commit {source['commit']}; measure again, from a commit that is here"
    else:
        program = git("show", f"{source['commit']}:{source['path']}").stdout
        same = source["id"] == identity_at(source["commit"], source["path"]) if "id" in source else source["sha256"] == hashlib.sha256(program).hexdigest()
        assert same, f"{name}: {source['path']} of commit {source['commit'][:9]} is another program"
        assert made <= measured, f"{name}: measured on {date}, before its commit was made"


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=TOP, capture_output=True)


@functools.cache
def stale_ids():
    """Identities of committed results whose programs have changed since: their pages say so."""
    return {result["source"].get("id") for result in results.load(EXAMPLES / "results", EXAMPLES).values() if result["stale"]}


@functools.cache
def identity_at(commit, path):
    """The identity of a program as it stood at a commit, with its kit; None where it was not there."""
    with tempfile.TemporaryDirectory() as folder:
        packed = git("archive", commit, "examples")
        tarfile.open(fileobj=io.BytesIO(packed.stdout)).extractall(folder, filter="data")
        program, own = pathlib.Path(folder, path), pathlib.Path(folder, "examples/kit/identity.py")
        found = runner.load(own).identity if own.is_file() else identity          # as it was computed then
        return found(program) if program.is_file() else None


@functools.cache
def committed(commit):
    """Seconds of a commit of this repository; None for one that is not here."""
    done = git("log", "-1", "--no-show-signature", "--format=%ct", commit, "--")
    return int(done.stdout) if done.returncode == 0 else None


def run_of(name):
    """(source, date) of a result or a notebook."""
    return RUNS[name](json.loads((TOP / name).read_text("utf-8")))


# What an instrument that lies, a second card or a foreign repository must not do.

@pytest.mark.parametrize("wrong, says", [("counter", "memory counter"), ("clock", "no time can be measured"), ("profiler", "saw no kernel")])
def test_an_instrument_that_shows_nothing_is_one_line_and_nothing_is_written(folder, wrong, says):
    folder.lab("small")
    done = folder.run("small", env={"WRONG": wrong})
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1 and says in done.stderr
    assert not (folder.path / "results" / "nvidia-h200").exists()


@pytest.mark.parametrize("busy", ["memory", "spread"])
def test_a_card_that_others_use_is_said_and_kept(folder, busy):
    folder.lab("small")
    done = folder.run("small", "--commit", SHA, "--clean", env={"BUSY": busy})
    card = folder.result("small")["run"]["card"]
    assert done.returncode == 0 and "not idle" in done.stderr and card["idle"] is False
    assert card["others_mib"] > 15_000 if busy == "memory" else card["spread_pct"] > 100
    jsonschema.Draft202012Validator(SCHEMA).validate(folder.result("small"))


@pytest.mark.parametrize("row, says", [('"kernel": None, "status": "oom"', "no allocation failed"), ('"kernel": None, "status": "ok"', "the profiler saw no kernel"), ('"kernel": "", "status": "ok"', "the profiler saw no kernel")])
def test_a_row_that_no_lab_can_have_seen_fails_the_lab(folder, row, says):
    folder.lab("small", measure='\ndef measure():\n    yield {"part": "a", "S": 1, "kernel": "k", "status": "ok"}\n    yield {"part": "a", "S": 2, %s}\n' % row)
    done = folder.run("small")
    assert done.returncode == 1 and says in done.stderr and folder.result("small")["run"]["status"] == "failed" and len(folder.result("small")["rows"]) == 1


def test_another_card_of_the_same_name_replaces_nothing(folder):
    folder.lab("small")
    assert folder.run("small", env={"MEMORY": str(12 * 2**30)}).returncode == 0
    before = folder.result("small")
    done = folder.run("small", env={"MEMORY": str(8 * 2**30)})
    assert done.returncode == 1 and "12.0 GiB" in done.stderr and "8.0 GiB" in done.stderr and "--results" in done.stderr and folder.result("small") == before
    assert folder.run("small", env={"MEMORY": str(12 * 2**30 - 2**20)}).returncode == 0, "the same card, whose driver keeps a little more"


@pytest.mark.parametrize("name", ["", " ", "--"])
def test_a_card_without_a_name_is_refused(folder, name):
    folder.lab("small")
    done = folder.run("small", env={"CARD": name})
    assert done.returncode == 2 and "no name" in done.stderr and not (folder.path / "results").exists() or not list((folder.path / "results").iterdir())


def test_a_repository_that_only_surrounds_the_program_gives_no_commit(folder):
    folder.lab("small")
    git = lambda *arguments: subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], cwd=folder.path.parent, check=True, capture_output=True)
    git("init", "-q"), (folder.path.parent / "mine.txt").write_text("a"), git("add", "mine.txt"), git("commit", "-qm", "a")
    assert folder.run("small").returncode == 0
    assert (folder.result("small")["source"]["commit"], folder.result("small")["source"]["dirty"]) == (None, None)


def test_what_cannot_run_here_fails_nothing_unless_nothing_can(folder):
    folder.lab("skips", measure=SKIPS)
    assert folder.run("skips").returncode == 3
    folder.lab("small")
    done = folder.run()
    assert done.returncode == 0 and "skipped: The tool is missing" in done.stderr


def test_a_run_whose_reader_is_gone_ends_quietly_and_keeps_its_rows(folder):
    folder.lab("small", measure='''
def measure():
    import time
    for S in range(1000):
        yield {"part": "a", "S": S, "kernel": "k", "status": "ok"}
        time.sleep(0.01)
''')
    process = folder.start("small")
    for _ in range(5):
        process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(timeout=60) == 141
    assert folder.result("small")["run"]["status"] == "failed"
