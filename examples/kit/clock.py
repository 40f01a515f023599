"""The clock: milliseconds on the GPU, with launches hidden, and of one call on an idle one."""

import itertools
import math
import time

from kit.inputs import SEED
from kit.kernels import named, which_kernel


def timed(calls, seconds):
    """Milliseconds that one call takes on the GPU, as a list of samples. The calls take turns; launches are hidden.

    Every call runs once before, at least three in all. A sample is the mean of as many calls as fill 0.1 ms. Sampling lasts
    `seconds`, and gives at least 10 samples (5 when a call takes over 100 ms).
    """
    turn = itertools.cycle(calls)
    for _ in range(max(1, len(calls) - 2)):
        next(turn)()
    wait = 0.002
    first, host, late = batch(turn, 2, 1, wait)
    while late and wait < 0.1:
        wait *= 4
        first, host, late = batch(turn, 2, 1, wait)
    one = max(min(first), 1e-3)
    each = max(1, min(16, math.ceil(0.1 / one)))
    samples = max(1, min(64 // each, int(250 * seconds / (one * each))))
    wait = 5e-4 + host * samples * each                    # host is what two calls took: twice what is needed
    kept, begin = [], time.perf_counter()
    while len(kept) < (10 if one < 100 else 5) or time.perf_counter() - begin < seconds:
        found, _, late = batch(turn, samples, each, wait)
        if late and wait < 0.1:
            wait *= 2
        else:
            kept += found
    return kept


def batch(turn, samples, each, wait):
    """(milliseconds a call for each of `samples` runs of `each` calls, host seconds to queue them, whether that was too slow).

    The GPU first gets a kernel that only waits, for about `wait` seconds: when the whole batch is queued before the first
    call starts, nothing but kernels lies between two events.
    """
    import torch

    marks = [torch.cuda.Event(enable_timing=True) for _ in range(samples + 1)]
    torch.cuda.synchronize()
    torch.cuda._sleep(int(wait * 2e9))                     # in clock cycles, of which no GPU makes many more than 2e9 a second
    begin = time.perf_counter()
    marks[0].record()
    for mark in marks[1:]:
        for _ in range(each):
            next(turn)()
        mark.record()
    host = time.perf_counter() - begin
    late = marks[0].query()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / each for a, b in zip(marks, marks[1:])], host, late


def alone(calls):
    """Milliseconds from calling on an idle GPU to the end of its work, launches included: the median of 20 (of 5 over 2 ms, of 1 over 20)."""
    import torch

    turn, found = itertools.cycle(calls), []
    while len(found) < (20 if not found or found[0] < 2 else 5 if found[0] < 20 else 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        next(turn)()
        torch.cuda.synchronize()
        found.append(1e3 * (time.perf_counter() - begin))
    return quantile(found, 0.5)


def median_and_spread(samples):
    """Columns of a row: the median of the samples, the 10th and the 90th percentile, and how many there are."""
    return {"ms": quantile(samples, 0.5), "p10_ms": quantile(samples, 0.1), "p90_ms": quantile(samples, 0.9), "samples": len(samples)}


def quantile(samples, part):
    """The sample below which about `part` of the samples lie."""
    return sorted(samples)[round(part * (len(samples) - 1))]


def copy_row(when, seconds, n=2**30, device="cuda"):
    """The rate of b.copy_(a) on n random fp32, 4 GiB: bytes read plus bytes written. PyTorch hands it to cudaMemcpyAsync."""
    import torch

    torch.manual_seed(SEED)
    a = torch.randn(n, device=device)
    b = torch.empty_like(a)

    def call():
        b.copy_(a)

    samples = timed([call], seconds)
    if not torch.equal(a, b):
        raise AssertionError("the copy differs from its source")
    moved = 2 * a.numel() * a.element_size()
    row = {"part": "ceiling", "impl": "copy", "when": when, "traffic_bytes": moved, **median_and_spread(samples)}
    names = which_kernel(call) or ["Memcpy DtoD"]                # which_kernel() leaves copies out
    return {**row, "gbps": moved / row["ms"] / 1e6, "tflops": None, **named(names), "status": "ok"}
