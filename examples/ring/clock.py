"""The clock of several GPUs. Every rank calls these together."""

import datetime
import re
import subprocess

from kit.clock import median_and_spread, quantile
from kit.kernels import once, short, which_kernel

PATIENCE = datetime.timedelta(minutes=5)                   # for a rank that waits while another one measures


def gathered(value):
    """[value of rank 0, value of rank 1, …], on every rank, through the CPUs."""
    import torch.distributed as dist

    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, value, group=control())
    return everyone


def control():
    """A group that talks through the CPUs, so that talking touches no GPU. Made at the first call, which every rank makes."""
    import torch.distributed as dist

    if not hasattr(control, "group"):
        control.group = dist.new_group(backend="gloo", timeout=PATIENCE)
    return control.group


def together(call, samples):
    """[[ms of rank 0, ms of rank 1, …] of each sample]: call() on all GPUs, begun at the same moment, launches hidden.

    Each GPU first gets a kernel that only waits, while its process queues the rest: a reduction over all GPUs, which ends on
    all at the same time, then call() between two events.
    """
    import torch
    import torch.distributed as dist

    token, mine = torch.zeros(1, device="cuda"), []
    for _ in range(samples):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        torch.cuda.synchronize()
        dist.barrier(control())
        torch.cuda._sleep(6_000_000)                       # clock cycles: about 3 ms
        dist.all_reduce(token)
        marks[0].record()
        call()
        marks[1].record()
        torch.cuda.synchronize()
        mine.append(marks[0].elapsed_time(marks[1]))
    return [list(ranks) for ranks in zip(*gathered(mine))]


def alone_on(rank, call, samples):
    """Milliseconds of call() on the GPU of one rank while the others wait: a list of samples, on every rank."""
    import torch
    import torch.distributed as dist

    kept = []
    if dist.get_rank() == rank:
        for _ in range(samples):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            torch.cuda.synchronize()
            marks[0].record()
            call()
            marks[1].record()
            torch.cuda.synchronize()
            kept.append(marks[0].elapsed_time(marks[1]))
    return gathered(kept)[rank]


def by_rank(samples):
    """Columns of a row from together(): the slowest rank of each sample counts, then median and spread; and the first and the last rank."""
    return {**median_and_spread([max(ranks) for ranks in samples]),
            "rank0_ms": quantile([ranks[0] for ranks in samples], 0.5), "last_rank_ms": quantile([ranks[-1] for ranks in samples], 0.5)}


def repeats(flops):
    """How many samples of a call of so many FLOP: about two seconds of them at 350 TFLOP/s, 3 to 10; 2 of what takes longer than that."""
    seconds = flops / 350e12
    return 2 if seconds > 2 else max(3, min(10, int(2 / seconds)))


def weighed(tensors, call):
    """(peak bytes requested of call(*tensors), the tensors included; its kernels as the profiler saw them; its result)."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"] - sum(x.numel() * x.element_size() for x in tensors)
    kept = []
    kernels = which_kernel(lambda: kept.append(call(*tensors)))
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before, kernels, kept.pop()


def kernel_columns(names):
    """Columns of a row: the attention kernels and the kernels that move data between GPUs; what else ran is the merge."""
    flash = [name for name in names if "flash" in name or "fmha" in name]
    return {"kernel": once([short(name) for name in flash]), "kernel_full": once(flash),
            "link_kernel": once([short(name) for name in names if "nccl" in name])}


def link_kind():
    """How the first two GPUs are joined, as nvidia-smi calls it: NV18 for 18 NVLinks, PIX, NODE, SYS and so on for PCIe. None where it does not say."""
    try:
        said = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^\W*GPU0\s+X\s+(\w+)", said, re.MULTILINE)
    return found[1] if found else None
