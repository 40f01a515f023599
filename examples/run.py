"""Run labs on the GPU at hand and write what they measured: check, then measure, then JSON, row by row.

    python examples/run.py                          every lab of this folder
    python examples/run.py flash_vs_naive_memory    one of them
    python examples/run.py --list
    python examples/run.py compare A B              two folders of results side by side (compare.py beside this file)

A lab is a file beside this one with a function measure(). It has check(), which raises when the code is wrong; measure(),
which yields one flat dict a row; values(rows), one flat dict; header(part), line(row), footer(values), the text of its table.
The result goes to <results>/<gpu>/<lab>.json, one row a line, replaced atomically after every row. It holds no host, user or
path, and nothing that follows from its rows. results/schema.json describes it. A run that stops early keeps its rows and says so in run.status.
A row that ran names its kernel, and one that ran out of memory says what the allocator said: a lab reports nothing that it did not see.
An exception of a lab's with `cannot_run_here` (counters without permission, say) before the first row makes it "skipped" and not
"failed", and leaves its last result alone. Neither stops the labs behind it.
"""

import argparse
import ast
import datetime
import gc
import importlib.metadata
import importlib.util
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time

try:
    from kit.card import ended, gpu_problem, stop
    from kit.identity import identity, loaded_by_name, Module
    from kit.memory import SAID
    from kit.proof import company, warned
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/run.py of the lesson's site.", file=sys.stderr) or 2)

HERE = pathlib.Path(__file__).resolve().parent


def find_labs(folder=HERE):
    """{name: path} of the files in `folder` that define measure(), found without importing any; a file that is no Python is one that will fail."""
    labs = {}
    for path in sorted(folder.glob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            labs[path.stem] = path
            continue
        if any(isinstance(node, ast.FunctionDef) and node.name == "measure" for node in tree.body):
            labs[path.stem] = path
    return labs


def load(path):
    """The lab as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lab)
    return lab


def run_lab(name, path, results, commit=None, dirty=None, device=0):
    """Check and measure one lab, writing the result after every row. Returns None, or ("failed" or "skipped", why in one line)."""
    print(f"{name}: check", flush=True)
    started, begin = now(), time.monotonic()
    try:
        lab = load(path)
        lab.check()
    except (Exception, SystemExit) as error:               # a lab that calls exit(0) has not passed
        return verdict(error)
    gc.collect()
    gc.freeze()                                            # what is imported stays: a lab's collections need not walk it again
    said_before = len(SAID)
    result = {
        "schema": 2, "lab": name, "source": source(path, commit, dirty),
        "run": {"started": started, "seconds": None, "command": f"python examples/run.py {name}", "seed": getattr(lab, "SEED", None),
                "status": "running", "error": None, "card": warned(company())},
        "machine": machine(device), "software": software(), "rows": [],
    }
    target = results / slug(result["machine"]["gpu"]) / f"{name}.json"
    if other := another_card(target, result["machine"]):
        return "failed", f"{other}. Choose another: --results DIR"

    def say(text):
        if text:
            print(text, flush=True)

    def save(status="running", error=None):
        result["run"].update(seconds=round(time.monotonic() - begin, 1), status=status, error=error)
        write(target, result)

    print(f"{name}: measure", flush=True)
    try:
        for row in lab.measure():
            if not result["rows"] or row.get("part") != result["rows"][-1].get("part"):
                say(lab.header(row.get("part")))
            result["rows"].append(witnessed(row, getattr(lab, "SAID", SAID)[said_before:]))
            say(lab.line(row))
            save()
        say(lab.footer(lab.values(result["rows"])))
        if not result["rows"]:
            raise ValueError("measure() gave no row")
        result["run"]["card"] = worse(result["run"]["card"], company())
        save("ok")
    except BaseException as error:
        try:
            if result["rows"]:
                save("failed", type(error).__name__)       # the message may name a path: it goes to the screen only
        except Exception as unsaved:                       # the disk is full, or the last row is nothing that JSON can say
            print(f"{name}: the last row is not saved: {' '.join(str(unsaved).split())}", file=sys.stderr, flush=True)
        if isinstance(error, BrokenPipeError) or not isinstance(error, (Exception, SystemExit)):
            raise
        return verdict(error, result["rows"])
    print(f"{name}: {len(result['rows'])} rows in {result['run']['seconds']:.0f} s -> {slug(result['machine']['gpu'])}/{name}.json", flush=True)
    return None


def witnessed(row, said):
    """The row; with what the allocator said last, when it ran out of memory. Raises ValueError for what no lab can have seen."""
    if row.get("status") == "oom" and not row.get("oom"):
        if not said:
            raise ValueError("a row says oom, and no allocation failed")
        return {**row, "oom": said[-1]}
    if row.get("status") == "ok" and not row.get("kernel"):
        raise ValueError("a row says ok, and the profiler saw no kernel: end what else profiles on this card, and measure again")
    return row


def worse(before, after):
    """What company() found before a lab and after it: the larger of each."""
    most = {name: max((found[name] for found in (before, after) if found[name] is not None), default=None) for name in ("others_mib", "spread_pct")}
    return {"idle": before["idle"] and after["idle"], **most}


def another_card(path, machine):
    """Why a result may not be replaced by one of this card, in one line: it is of a card with the same name and other memory; None when it may."""
    try:
        had = json.loads(path.read_text("utf-8"))["machine"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    one, two = had.get("memory"), machine["memory"]
    if not isinstance(one, int) or abs(one - two) <= 0.03 * max(one, two):
        return None
    return (f"{path.parent.name}/{path.name} is of a {had.get('gpu')} with {one / 2**30:.1f} GiB, and this one has {two / 2**30:.1f} GiB: "
            "two cards of one name need two folders")


def verdict(error, rows=()):
    """("skipped", why) for an exception that says that the lab cannot run here, when it gave no row; else ("failed", why)."""
    why = " ".join(str(error).split())
    if getattr(error, "cannot_run_here", False) and not rows:
        return "skipped", why
    return "failed", f"{type(error).__name__}: {why}"


def summary(left, count):
    """What became of the labs that gave no result, as lines. left: {name: what run_lab() returned}; count: how many were asked for."""
    failed, skipped = ([name for name, (word, _) in left.items() if word == which] for which in ("failed", "skipped"))
    said = [f"{name}: {word}: {why}" for name, (word, why) in left.items()]
    said += [f"{len(failed)} of {count} labs failed: {', '.join(failed)}. Rows measured before that are kept."] if failed else []
    said += [f"{len(skipped)} of {count} labs skipped, as they cannot run here: {', '.join(skipped)}"] if skipped else []
    return "\n".join(said)


def write(path, result):
    """Replace `path` by the result as strict JSON, so that a reader sees the old file or the new one and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = as_text(result)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")   # two runs at once write two files
    part.unlink(missing_ok=True)
    try:
        with open(part, "x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def as_text(result):
    """The result as strict JSON: a line for each field, and one for each row."""
    def said(value):
        return json.dumps(strict(value), ensure_ascii=False, allow_nan=False)

    fields = []
    for name, value in result.items():
        rows = isinstance(value, list) and value
        fields.append(f" {said(name)}: " + ("[\n" + ",\n".join(f"  {said(row)}" for row in value) + "\n ]" if rows else said(value)))
    return "{\n" + ",\n".join(fields) + "\n}\n"


def strict(value):
    """The value with null for every number that JSON cannot say (NaN, infinities)."""
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Where a result comes from: nothing here names a host, a user or a folder.

def source(path, commit=None, dirty=None):
    """The program: its name, the identity of what measures in it, the commit, and whether it, or what it imports from beside it, differs from that commit's version."""
    if commit is None and git("ls-tree", "HEAD", "--", path.name):       # else the repository around this folder is somebody else's
        commit = git("rev-parse", "HEAD")
    if dirty is None and commit:
        program = Module(path)
        changes = git("status", "--porcelain", "--", *map(str, [path, *program.loaded, *(part.path for _, part in loaded_by_name(program, {}))]))
        dirty = None if changes is None else changes != ""
    return {"path": f"examples/{path.name}", "id": identity(path), "commit": commit, "dirty": dirty}


def git(*arguments):
    """What git says in this folder, or None where there is no git or no repository."""
    return ask("git", *arguments, cwd=HERE)


def ask(*command, cwd=None, seconds=10):
    """A command's output without surrounding blanks; None when it is missing, hangs or fails."""
    try:
        run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def machine(device=0):
    """The card as PyTorch sees it (memory and l2 in bytes), the driver as nvidia-smi says, the processor, the system."""
    import torch

    card = torch.cuda.get_device_properties(device)
    driver = ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "gpu": card.name, "memory": card.total_memory, "driver": (driver or "").split("\n")[0].strip() or None,
        "sms": card.multi_processor_count, "l2": getattr(card, "L2_cache_size", None),
        "cpu": processor(), "os": f"{platform.system()} {platform.machine()}",
    }


def processor():
    """The processor's model where Linux tells it, else its architecture."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text("utf-8", "replace"), re.MULTILINE)
    except OSError:
        found = None
    name = found[1].strip() if found else ""
    return name if name and name.lower() != "unknown" else platform.machine()


def software():
    """Versions. cuda is PyTorch's, or ROCm's on a ROCm build; what is not installed is null."""
    import torch

    cudnn = torch.backends.cudnn.version()
    try:
        triton = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = None
    return {
        "python": platform.python_version(), "torch": str(torch.__version__), "cuda": torch.version.cuda or getattr(torch.version, "hip", None),
        "cudnn": str(cudnn) if cudnn else None, "triton": triton,
    }


def slug(name):
    """'NVIDIA H200' -> 'nvidia-h200'. Nothing else than letters, digits and hyphens, and never nothing."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:100].strip("-") or "gpu"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def cannot_write(folder):
    """Why nothing can be written into `folder`, in one line; None when it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"Cannot write into {folder}: {error.strerror}. Choose another folder: --results DIR"


def main(argv=None):
    """Command line. Exit status 0, 1 when a lab failed, 2 when nothing could be started, 3 when none can run here; what was skipped is said."""
    if (argv := sys.argv[1:] if argv is None else argv)[:1] == ["compare"]:
        return load(HERE / "compare.py").main(argv[1:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="run.py compare A B: two folders of results side by side; see compare --help")
    parser.add_argument("labs", nargs="*", metavar="LAB", help="labs to run (all)")
    parser.add_argument("--list", action="store_true", help="print the labs and stop")
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results", metavar="DIR", help="where results go (examples/results)")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the GPU, as PyTorch counts them (0)")
    parser.add_argument("--commit", metavar="SHA", help="the commit of the program, where there is no git to ask")
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--dirty", dest="dirty", action="store_true", default=None, help="the program differs from that commit")
    state.add_argument("--clean", dest="dirty", action="store_false", help="the program is that of the commit")
    options = parser.parse_args(argv)
    labs = find_labs()
    if options.list:
        print("\n".join(labs))
        return 0
    unknown = [name for name in options.labs if name not in labs]
    if unknown:
        named = ", ".join(name if name.isprintable() and name.strip() else ascii(name) for name in unknown)
        return stop(f"There is no lab {named}. The labs are: {', '.join(labs)}")
    problem = gpu_problem(options.device) or cannot_write(options.results)
    if problem:
        return stop(problem)
    import torch

    if not re.search("[a-z0-9]", torch.cuda.get_device_name(options.device).lower()):
        return stop("This card has no name, and results are kept under the card's. A driver that is newer may tell it.")
    torch.cuda.set_device(options.device)
    asked, left = list(dict.fromkeys(options.labs or labs)), {}
    for name in asked:
        gave_up = run_lab(name, labs[name], options.results, options.commit, options.dirty, options.device)
        if gave_up:
            left[name] = gave_up
            print(f"{name}: {gave_up[0]}", flush=True)
    if not left:
        return 0
    return stop(summary(left, len(asked)), 1 if any(word == "failed" for word, _ in left.values()) else 3 if len(left) == len(asked) else 0)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")      # a character that this terminal lacks ends no measurement
    try:
        sys.exit(ended(main))
    except KeyboardInterrupt:
        sys.exit(stop("Interrupted. Rows measured before that are kept.", 130))
