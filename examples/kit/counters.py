"""The counters: what Nsight Compute (ncu) reads of the hardware while a program runs, kernel by kernel."""

import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

PASSES = "profiler__replayer_passes"                       # ncu adds it to what it is asked for
SECTOR = 32                                                # bytes
COUNTED = ("dram_read", "dram_write", "sm_read", "tex_read", "tex_write", "l2", "ns")
NO_NCU = ("Nsight Compute (ncu) is missing. It comes with the CUDA toolkit (put its bin folder on PATH) "
          "or by itself: https://developer.nvidia.com/nsight-compute")
NO_PERMISSION = ("The driver keeps performance counters for administrators (ERR_NVGPUCTRPERM), as shared machines do. Run as root, in a container with "
                 "--cap-add=SYS_ADMIN, or have the module nvidia loaded with NVreg_RestrictProfilingToAdminUsers=0.")


class NoCounters(RuntimeError):
    """The counters cannot be read here; the message says why, in one line."""

    cannot_run_here = True                                 # run.py then says "skipped" and not "failed"


class NcuFailed(NoCounters):
    """ncu started and went wrong, or what it ran did: a failure, not a missing right."""

    cannot_run_here = False


def find_ncu():
    """The path of ncu: on PATH, or where the CUDA toolkit puts it. Raises NoCounters."""
    found = shutil.which("ncu") or shutil.which("ncu", path=os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"))
    if not found:
        raise NoCounters(NO_NCU)
    return found


def version_of(ncu):
    """'2025.3.1.0', as ncu says it; None when it does not."""
    said = subprocess.run([ncu, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"Version (\S+)", said)
    return found[1] if found else None


def metrics_of(major):
    """{our name: ncu's metric} for a compute capability."""
    op = "op_" if major == 12 else ""
    return {
        "dram_read": f"dram__bytes_{op}read.sum", "dram_write": f"dram__bytes_{op}write.sum",
        "sm_read": "l1tex__m_xbar2l1tex_read_bytes.sum", "l2": "lts__t_bytes.sum", "ns": "gpu__time_duration.sum",
        "tex_read": "lts__t_sectors_srcunit_tex_op_read.sum", "tex_write": "lts__t_sectors_srcunit_tex_op_write.sum",
        "waves": "launch__waves_per_multiprocessor",
    }


def count(ncu, metrics, program, child, device):
    """Start ncu on a program with --<name of child> FILE --device N: that function writes a line of JSON a case into FILE. Returns (kernels as read_csv() gives them, the child's cases, passes). Raises NoCounters, NcuFailed."""
    with tempfile.TemporaryDirectory() as folder:
        log, manifest = os.path.join(folder, "ncu.csv"), os.path.join(folder, "cases.jsonl")
        command = [
            ncu, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled", "--log-file", log,
            "--metrics", ",".join(metrics.values()), "--replay-mode", "kernel", "--cache-control", "all", "--clock-control", "none",
            "--profile-from-start", "off", "--target-processes", "all",
            sys.executable, os.path.abspath(program), f"--{child.__name__}", manifest, "--device", str(device),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=1200,
                              env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "1"})
        said = read(log) + "\n" + done.stdout
        lines = read(manifest).splitlines()
    kernels = read_csv(said, metrics)
    if "ERR_NVGPUCTRPERM" in said:
        raise NoCounters(NO_PERMISSION)
    if done.returncode or not kernels:
        why = [printed.removeprefix("==ERROR==").strip() for printed in said.splitlines() if printed.startswith("==ERROR==")]
        last = [printed.strip() for printed in done.stdout.splitlines() if printed.strip() and not printed.startswith("==")]
        raise NcuFailed(f"ncu ended with status {done.returncode} after {len(kernels)} kernels: {'; '.join(why[:1] + last[-1:]) or 'no message'}")
    missing = [metrics[name] for name in COUNTED if any(kernel.get(name) is None for kernel in kernels)]
    if missing:
        raise NoCounters(f"ncu does not count {', '.join(missing)} on this card")
    passes = [kernel["passes"] for kernel in kernels if kernel.get("passes")] or map(int, re.findall(r" - (\d+) pass", said))
    return kernels, [json.loads(case) for case in lines], max(passes, default=None)


def read(path):
    """The text of a file, empty when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as text:
            return text.read()
    except FileNotFoundError:
        return ""


def read_csv(text, metrics):
    """The kernels in ncu's CSV, in order: [{name, grid, block, our name of each metric: number or None}, …].

    Both forms are read: --page raw (a column a metric, the units in the second line) and --page details (a line a metric).
    Bytes, sectors and nanoseconds, whatever prefix the units have.
    """
    ours = {PASSES: "passes", **{metric: name for name, metric in metrics.items()}}
    kernels, columns, units = {}, [], {}
    for cells in csv.reader(printed for printed in text.splitlines() if printed.startswith('"')):
        row = dict(zip(columns, cells))
        if cells[0] == "ID":
            columns, units = cells, {}
        elif not cells[0]:
            units = row
        else:
            kernel = kernels.setdefault(row["ID"], {
                "name": tidy(row["Kernel Name"]), "grid": dimensions(row["Grid Size"]), "block": dimensions(row["Block Size"])})
            if "Metric Name" in row:
                found = {row["Metric Name"]: (row["Metric Value"], row["Metric Unit"])}
            else:
                found = {name: (value, units.get(name, "")) for name, value in row.items()}
            for name, (value, unit) in found.items():
                if name in ours:
                    kernel[ours[name]] = number(value, unit if ours[name] in COUNTED else "")
    return list(kernels.values())


def number(text, unit):
    """'1,234.5', 'Kbyte' -> 1234500: in bytes, sectors, nanoseconds or without unit. None for n/a. ncu's prefixes are powers of ten."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    nanoseconds = {"nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    prefix = re.fullmatch(r"([kmgt]?)(byte|b|(?:\w+_)?sector|)", unit.lower())
    if unit in nanoseconds:
        value *= nanoseconds[unit]
    elif prefix:
        value *= {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[prefix[1]]
    else:
        raise ValueError(f"ncu gives a number in '{unit}', which this file does not know")
    return int(value) if value == int(value) else value


def dimensions(text):
    """'(32, 1, 28)' -> [32, 1, 28]."""
    return [int(part) for part in re.findall(r"\d+", text)]


def tidy(name):
    """A kernel's name as PyTorch's profiler writes it: ncu says (int)128, (bool)0 and <unnamed>; unnamed namespaces are left out."""
    name = name.replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    name = re.sub(r"\(bool\)([01])", lambda found: ("false", "true")[int(found[1])], name)
    return re.sub(r"\((?:unsigned )?(?:int|long|short|char)\)(-?\d)", r"\1", name)


def by_mark(kernels):
    """The kernels behind each mark: [[kernel, …], …]. Those before the first mark are nobody's."""
    groups = []
    for kernel in kernels:
        if "spin_kernel" in kernel["name"]:
            groups.append([])
        elif groups:
            groups[-1].append(kernel)
    return groups
