"""The proof: an instrument is believed once it has been seen to move, and a card once nobody else is seen on it."""

import os
import sys
import time

from kit.kernels import which_kernel

SWITCHES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
OTHERS_MIB, SPREAD_PCT = 2048, 20                          # above these a card is not idle: a desktop and a CUDA context stay below


def unproven(device=0):
    """Which instrument shows nothing on GPU number `device`, in one line; None when memory, clock and profiler tell what was done there."""
    import torch

    with torch.cuda.device(device):
        return blind_counter() or wrong_clock() or blind_profiler()


def blind_counter(n=2**22):
    """Allocate n bytes and see the allocator's counters move by them."""
    import torch

    def counted(which):
        return [torch.cuda.memory_stats().get(f"{kind}_bytes.all.{which}", 0) for kind in ("requested", "allocated")]

    torch.cuda.reset_peak_memory_stats()
    before = counted("current")
    x = torch.empty(n, dtype=torch.uint8, device="cuda")
    moved = [b - a for a, b in zip(before * 2, counted("current") + counted("peak"))]
    del x
    if moved[0] == moved[2] == n <= min(moved[1], moved[3]):
        return None
    found = [f"{name}={os.environ[name]}" for name in SWITCHES if os.environ.get(name)]
    return (f"PyTorch's memory counter moved by {moved[0]} bytes when {n} were allocated, so no peak can be measured: "
            + (f"unset {', '.join(found)}." if found else "another allocator than PyTorch's own seems to be at work."))


def wrong_clock(cycles=20_000_000):
    """Let the GPU wait, and see its events count the milliseconds that pass here: three tries, for this process may be held up."""
    import torch

    torch.cuda._sleep(1)                                   # loaded now, not while the clock runs
    for _ in range(3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin = time.perf_counter()
        start.record()
        torch.cuda._sleep(cycles)
        end.record()
        torch.cuda.synchronize()
        here, there = 1e3 * (time.perf_counter() - begin), start.elapsed_time(end)
        if 0.5 * here <= there <= 1.05 * here + 0.1:
            return None
    return f"The GPU's events say {there:.3f} ms for what took {here:.3f} ms here, so no time can be measured: is the driver older than PyTorch wants?"


def blind_profiler():
    """Multiply two matrices, and see the profiler name a kernel."""
    import torch

    a = torch.ones(64, 64, device="cuda")
    try:
        if which_kernel(lambda: a @ a) or which_kernel(lambda: a @ a):     # a first session may come too late
            return None
        why = "saw no kernel of a matrix product"
    except Exception as error:
        why = f"failed ({' '.join(str(error).split())[:120]})"
    return f"torch.profiler {why}, so no number could name what ran: end other profilers (ncu, nsys, DCGM), or allow the GPU's counters to this user."


def company():
    """Whether others use the card, as a flat dict: what they hold of its memory, by how much the slowest copies of the same bytes exceed the median."""
    import torch

    free, total = torch.cuda.mem_get_info()
    others = max(0, total - free - torch.cuda.memory_reserved()) / 2**20
    spread = None
    if free > 2**30:
        a = torch.empty(2**26, dtype=torch.uint8, device="cuda")
        b, marks = torch.empty_like(a), [torch.cuda.Event(enable_timing=True) for _ in range(33)]
        for mark in [*marks[:1] * 32, *marks]:             # the card wakes up first
            for _ in range(16):
                b.copy_(a)
            mark.record()
        torch.cuda.synchronize()
        ms = sorted(one.elapsed_time(two) for one, two in zip(marks, marks[1:]))
        spread = 100 * (ms[-4] / ms[len(ms) // 2] - 1)
        del a, b
        torch.cuda.empty_cache()
    return {"idle": others <= OTHERS_MIB and (spread is None or spread <= SPREAD_PCT), "others_mib": others, "spread_pct": spread}


def warned(found):
    """What company() found; a card that is not idle is said on stderr."""
    if not found["idle"]:
        spread = "" if found["spread_pct"] is None else f", and the same copy takes up to {found['spread_pct']:.0f} % longer than usual"
        print(f"Warning: this card is not idle. Others hold {found['others_mib']:.0f} MiB of it{spread}: times are not the card's own.", file=sys.stderr, flush=True)
    return found
