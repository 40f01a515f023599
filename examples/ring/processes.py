"""The processes: torchrun, and what each of them does."""

import json
import os
import re
import subprocess
import sys

from kit.card import gpu_problem, stop
from ring.clock import PATIENCE, control

LOST = "(?i)connection (closed|reset|refused)|broken pipe|socket|remote process|timed out|timeout|NCCL"


class CannotRun(RuntimeError):
    """This machine, or this S, will not do; the message says why, in one line."""

    cannot_run_here = True                                 # run.py then says "skipped" and not "failed"


def ring_problem():
    """Why there can be no ring of GPUs here, in one line; None when there can."""
    problem = gpu_problem()
    if problem:
        return f"{problem} Without GPUs: torchrun --nproc-per-node 4 ring_attention.py --device cpu"
    import torch

    if torch.cuda.device_count() < 2:
        return ("A ring needs two GPUs in one machine, and PyTorch sees one. Without a second: "
                "torchrun --nproc-per-node 4 ring_attention.py --device cpu")
    return None


def started(program, arguments, P):
    """torchrun with P processes of a file, its standard output a pipe."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(P), os.path.abspath(program), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"OMP_NUM_THREADS": "1", **os.environ})


def rows_of_processes(rows, P, arguments=()):
    """What rows() yields in each of P processes of its file, as it comes. Raises RuntimeError when one of them ends badly; torchrun ends the others then."""
    process = started(rows.__globals__["__file__"], [f"--{rows.__name__}", *arguments], P)
    try:
        for text in process.stdout:
            word, _, row = text.partition(" ")
            if word == "row":
                yield json.loads(row)
            else:
                print(text, end="", file=sys.stderr)
        if process.wait():
            raise RuntimeError(f"one of the {P} processes of the ring ended badly (torchrun's status {process.returncode}); its own message is above")
    finally:
        process.terminate()
        process.wait()


def work(options, rows, lengths, cut, show):
    """What one of torchrun's processes does. Returns its exit status.

    rows(device, lengths, say) checks, calls say(), and yields rows; show() prints them. cut(S, P) raises CannotRun where it cannot.
    """
    import torch
    import torch.distributed as dist

    rank, P, on_cpu = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), options.device == "cpu" or not torch.cuda.is_available()
    try:
        problem = None if on_cpu else ring_problem()
        if P < 2:
            problem = "A ring needs two processes or more: torchrun --nproc-per-node 2 ring_attention.py"
        elif not (problem or on_cpu) and P > torch.cuda.device_count():
            problem = f"{P} processes were started, and PyTorch sees {torch.cuda.device_count()} GPUs: each process needs one of its own"
        for S in () if problem else options.S if on_cpu else lengths:
            cut(S, P)
    except CannotRun as error:
        problem = str(error)
    if problem:
        return stop(problem) if rank == 0 else 2
    device = torch.device("cpu") if on_cpu else torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if not on_cpu:
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if on_cpu else "nccl", timeout=PATIENCE, **({} if on_cpu else {"device_id": device}))
    try:
        control()
        if rank or options.ring_rows:
            for row in rows(device.type, options.S):
                if rank == 0:
                    print("row", json.dumps(row), flush=True)
        else:
            print(f"{P} processes on {'a CPU' if on_cpu else torch.cuda.get_device_name(device)}, PyTorch {torch.__version__}, {dist.get_backend()}")
            show(rows(device.type, options.S, lambda: print(
                "check: the ring, the ring by head and PyTorch's context_parallel agree with fp64 attention\n", flush=True)))
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or not re.search(LOST, str(error)):
            raise
        print(f"rank {rank} of {P}: a neighbour in the ring is gone, so its keys and values will not come. Look for the rank that ended first. "
              f"({' '.join(str(error).split())[:160]})", file=sys.stderr, flush=True)
        return 1
    dist.barrier(control())                                # a rank that leaves first can abort one that still closes its connections
    dist.destroy_process_group()
    return 0
