"""One token at a time: what attention costs in decode, and what reading the KV cache has to do with it.

Decode has one query a sequence (S_q = 1) and S cached keys and values. There is no S x S matrix to avoid: the scores of a
head are one row. Every program must read the cache once, B·S·4·128·2·2 bytes for one layer of Qwen2.5-7B (28 query heads,
4 KV heads, d = 128, bf16), so the measure is the rate at which it is read, beside what the card can copy and read.

    repeat   k and v copied until there are 28 heads, then matmul, division, softmax, matmul
    grouped  the same four kernels on q reshaped to [B, 4, 7, d]: the seven heads of a group share k and v, nothing is copied
    flash    PyTorch's flash kernel, forced; it groups the heads itself, and cuts the keys into parts when blocks are few
    single   the flash kernel kept from cutting: one block walks over all keys of a KV head
    default  whatever scaled_dot_product_attention takes by itself

    python decode_attention.py             a CUDA GPU of compute capability 8.0 or newer; about 20 s on an H200
    python decode_attention.py --predict   bytes and numbers of parts alone: no GPU, no PyTorch

After that table: the keys cut by hand into 1 to 256 parts and merged by their LSE (split_kv.py has the merge), and what
is_causal=True does to a single query (it sees key 0 and no other). `ms` is time on the GPU with launches hidden, `alone_ms`
one call on an idle GPU, launches included. Sets of inputs take turns until they are four times the L2 cache, so that it
holds none of them. Sources: Flash-Decoding (Dao, Haziza, Massa, Sizov, 2023); num_splits_heuristic in
aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp of PyTorch 2.11.
Left out: paged caches, sequences of different length, the projections around attention. GB is 10^9 bytes, MiB 2^20.
"""

import argparse
import contextlib
import ctypes
import functools
import gc
import itertools
import math
import re
import sys
import time
import warnings

SEED = 2026
SECONDS = 0.02                                             # how long every row and the ceilings are sampled
MIB = 2**20
BATCHES = (1, 4, 16, 64)
LENGTHS = (4096, 16384, 65536, 131072)
PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
QWEN = {"B": 1, "heads": 28, "kv_heads": 4, "S": 4096, "d": 128, "dtype": "bf16"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}


# The sides. repeat is naive() of flash_vs_naive_memory.py, where naive_bytes() is its peak memory.

def naive(q, k, v, causal=False):
    """Attention as the textbook writes it; naive_bytes() is the formula of exactly this function.

    q [B, H, S, d], k and v [B, H_kv, S, d], one dtype and device. Returns o [B, H, S, d].
    KV heads are copied until there are H of them; the mask is one S x S tensor of bool and is applied in place. It is made
    before the scores: made after the division, it would be cut out of the block that the raw product has just left, and p
    would need a third block of that size (on an H200 that ran out of memory at S = 32768, where two are 112 GiB).
    """
    import torch

    S, d = q.shape[2:]
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k = k.repeat_interleave(group, dim=1)              # [B, H, S, d]
        v = v.repeat_interleave(group, dim=1)              # [B, H, S, d]
    if causal:
        future = torch.ones(S, S, dtype=torch.bool, device=q.device).triu_(1)
    s = q @ k.transpose(-2, -1) / math.sqrt(d)             # [B, H, S, S], twice until the division is done
    if causal:
        s.masked_fill_(future, -math.inf)
    p = torch.softmax(s, dim=-1)                           # [B, H, S, S]
    return p @ v                                           # [B, H, S, d]


def grouped(q, k, v):
    """naive() for one query without a copy of k and v: the G heads of a group become G rows of one matmul.

    q [B, H, 1, d], k and v [B, H_kv, S, d]. Returns o [B, H, 1, d].
    """
    import torch

    B, H, _, d = q.shape
    q = q.reshape(B, k.shape[1], H // k.shape[1], d)       # [B, H_kv, G, d]
    s = q @ k.transpose(-2, -1) / math.sqrt(d)             # [B, H_kv, G, S]
    p = torch.softmax(s, dim=-1)                           # [B, H_kv, G, S]
    return (p @ v).reshape(B, H, 1, d)                     # [B, H, 1, d]


def sdpa(q, k, v, causal=False):
    """PyTorch's scaled_dot_product_attention, by whichever backend is allowed where it is called. Shapes as in naive()."""
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def only(impl):
    """A context in which sdpa() has the backend of `impl` and no other; nothing is forced where BACKENDS has no `impl`.

    Where the kernel cannot run, sdpa() then raises RuntimeError (No available kernel) instead of taking another silently.
    """
    if impl not in BACKENDS:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([getattr(SDPBackend, BACKENDS[impl])])


def by_hand(q, k, v, parts):
    """Attention of one query over the keys in `parts` equal parts, each by PyTorch's flash kernel, merged by their LSE.

    Shapes as in grouped(); S must be a multiple of parts. A part of a KV head's keys is a sequence of its own to the
    kernel, with the G queries of the group as its rows, so the kernel neither cuts nor groups anything itself. The partial
    o come out in the dtype of q, where the kernel's own split-KV keeps them in fp32. One part needs no merge.
    Raises ValueError where parts does not divide S.
    """
    import torch

    (B, H, _, d), (_, H_kv, S, _) = q.shape, k.shape
    if S % parts:
        raise ValueError(f"parts = {parts} does not divide S = {S}")
    G, heads = H // H_kv, B * H_kv
    rows = q.reshape(heads, 1, G, d).expand(-1, parts, -1, -1).reshape(-1, 1, d)              # [B·H_kv·parts·G, 1, d]
    o, lse = flash_sequences(rows, k.reshape(-1, 1, d), v.reshape(-1, 1, d), heads * parts, G, S // parts)
    if parts == 1:
        return o.reshape(B, H, 1, d)
    o, lse = o.reshape(heads, parts, G, d), lse.reshape(heads, parts, G, 1)
    w = torch.softmax(lse, dim=1)                          # e^(lse - lse of all): sums to 1 over the parts
    return (w * o).sum(dim=1).to(q.dtype).reshape(B, H, 1, d)


def flash_sequences(q, k, v, count, rows, keys):
    """(o, lse) of `count` sequences laid end to end, each of `rows` queries and `keys` keys, by PyTorch's flash kernel.

    q [count·rows, H, d], k and v [count·keys, H, d]. This is the operator behind torch.nn.attention.varlen.
    """
    import torch

    offsets = [multiples(step, count, str(q.device)) for step in (rows, keys)]
    return torch.ops.aten._flash_attention_forward(q, k, v, *offsets, rows, keys, 0.0, False, False)[:2]


@functools.lru_cache(maxsize=256)
def multiples(step, count, device):
    """0, step, 2·step, … count·step as int32: where sequences of equal length begin and end.  # [count + 1]"""
    import torch

    return torch.arange(0, step * count + 1, step, dtype=torch.int32, device=device)


def single(q, k, v):
    """The flash kernel with the keys in one part: by_hand() without anything to merge."""
    return by_hand(q, k, v, 1)


SIDES = {"repeat": naive, "grouped": grouped, "flash": sdpa, "single": single, "default": sdpa}


# The model.

def kv_bytes(B, kv_heads, S, d, e=2):
    """The KV cache that one call reads: k and v of one layer."""
    return 2 * B * kv_heads * S * d * e


def kv_parts(blocks, tiles, sms):
    """Into how many parts PyTorch's flash kernel cuts the keys, by num_splits_heuristic in flash_api.cpp, in its arithmetic.

    blocks  Q tiles of 64 rows over all heads and sequences. tiles: KV tiles of 128 keys (d = 128). sms: multiprocessors.
    One part when the blocks fill 80 % of the slots, two a multiprocessor; else the smallest number of parts whose last wave
    is at least 85 % as full as the best one's, of at most 128.
    """
    slots = 2 * sms
    if blocks >= fp32(fp32(0.8) * slots):
        return 1
    fill = {}
    for n in range(1, min(128, slots, tiles) + 1):
        if n == 1 or -(-tiles // n) != -(-tiles // (n - 1)):    # one part more changes nothing: not a choice
            waves = fp32(fp32(blocks * n) / slots)
            fill[n] = fp32(waves / math.ceil(waves))
    return next(n for n, full in fill.items() if full >= 0.85 * max(fill.values()))


def decode_parts(B, heads, kv_heads, S, sms=132):
    """kv_parts() for one query a sequence at d = 128: the heads of a group are the rows of one Q tile."""
    return kv_parts(B * kv_heads * -(-(heads // kv_heads) // 64), -(-S // 128), sms)


def fp32(x):
    """x rounded to fp32."""
    return ctypes.c_float(x).value


def added_bytes(impl, B, heads, kv_heads, S, d, e=2, sms=132):
    """Bytes alive at the peak of one call beside q, k and v, o included; None for default, whose kernel is not ours to know.

    grouped  two rows of scores a head (s and p live together), and o
    repeat   the same and k and v once for each query head
    single   o, the LSE, and 24 bytes of the state of a random generator that dropout would use
    flash    the same and, with n > 1 parts, a partial o and LSE of each part in fp32
    """
    row, o = B * heads * S * e, B * heads * d * e
    if impl in ("repeat", "grouped"):
        return 2 * row + o + (2 * B * heads * S * d * e if impl == "repeat" else 0)
    if impl in ("flash", "single"):
        n = decode_parts(B, heads, kv_heads, S, sms) if impl == "flash" else 1
        return o + 4 * B * heads + 24 + (4 * n * B * heads * (1 + d) if n > 1 else 0)
    return None


def parts_from(added, B, heads, d, e=2):
    """The number of parts that the flash kernel's extra bytes reveal; None when they are not those of a whole number."""
    accumulators = added - (B * heads * d * e + 4 * B * heads + 24)
    n, rest = divmod(accumulators, 4 * B * heads * (1 + d))
    return None if rest or n < 0 or n == 1 else max(n, 1)


def predicted_table(sms=132):
    """Bytes and parts as text, for a card of `sms` multiprocessors."""
    out = [f"Predicted by formula, not measured: 28 query heads, 4 KV heads, d = 128, bf16, {sms} multiprocessors. MiB = 2^20 bytes",
           "   B       S    KV MiB   repeat adds  grouped adds  flash adds  parts"]
    shape = {name: QWEN[name] for name in ("heads", "kv_heads")}
    for B, S in itertools.product(BATCHES, LENGTHS):
        added = [added_bytes(impl, B, *shape.values(), S, 128, 2, sms) / MIB for impl in ("repeat", "grouped", "flash")]
        out.append(f"{B:4} {S:7} {kv_bytes(B, 4, S, 128) / MIB:9.0f} {added[0]:13.1f} {added[1]:13.2f} {added[2]:11.3f} {decode_parts(B, **shape, S=S, sms=sms):6}")
    return "\n".join(out)


# The check: same numbers first.

def reference(q, k, v, causal):
    """Attention in fp64, written without anything that naive() or flash() uses: grouped einsum and logsumexp."""
    import torch

    B, H, S, d = q.shape
    q, k, v = q.double().reshape(B, k.shape[1], -1, S, d), k.double(), v.double()      # q [B, H_kv, G, S, d]
    s = torch.einsum("bhgid,bhjd->bhgij", q, k) * d**-0.5                              # [B, H_kv, G, S, S]
    if causal:
        at = torch.arange(S, device=q.device)
        s = torch.where(at[None, :] > at[:, None], -torch.inf, s)
    p = torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True))                        # [B, H_kv, G, S, S]
    return torch.einsum("bhgij,bhjd->bhgid", p, v).reshape(B, H, S, d)                 # [B, H, S, d]


def cache(B, S, kv_heads=4, device="cuda"):
    """q [B, 28, 1, d], k and v [B, kv_heads, S, d] in bf16: the same normal random numbers each time."""
    import torch

    torch.manual_seed(SEED)
    kind = {"dtype": getattr(torch, DTYPES[QWEN["dtype"]]), "device": device}
    d = QWEN["d"]
    return torch.randn(B, QWEN["heads"], 1, d, **kind), *(torch.randn(B, kv_heads, S, d, **kind) for _ in range(2))


def check(attention=None, baseline=naive, device=None):
    """Raises AssertionError unless every side computes attention of one query: |side16 - ref64| <= 2·|naive16 - ref64| + 1e-5.

    attention(q, k, v) is checked alone if given; else every side that runs here, and by_hand() with 4 and 8 parts. The
    largest difference counts, for one and three sequences; the later half of the keys points along the query, so that the
    parts weigh differently. The baseline has to be within 2 % of the reference itself (relative, Frobenius norm).
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = torch.device(device).type == "cuda"
    sides = {impl: side for impl, side in SIDES.items() if on_gpu or impl != "single"}
    if on_gpu:
        sides.update({f"by_hand {n}": functools.partial(by_hand, parts=n) for n in (4, 8)})
    if attention:
        sides = {"attention": attention}
    for B, S in ((1, 264), (3, 1000)):
        q, k, v = cache(B, S, device=device)
        k[:, :, S // 2 :] += 0.1 * q.unflatten(1, (4, 7)).mean(2)                            # [B, 4, 1, d]
        ref = reference(q, k, v, False)
        off_naive = baseline(q, k, v).double() - ref
        rel_err = (off_naive.norm() / ref.norm()).item()
        if not rel_err <= 0.02:
            raise AssertionError(f"naive is not attention: relative error {rel_err:.1e} against fp64 (B={B}, S={S})")
        for impl, side in sides.items():
            with only(impl):
                o = side(q, k, v)
            if o.shape != ref.shape:
                raise AssertionError(f"{impl} gives {tuple(o.shape)}, expected {tuple(ref.shape)} (B={B}, S={S})")
            worst, allowed = (o.double() - ref).abs().max().item(), 2 * off_naive.abs().max().item() + 1e-5
            if not worst <= allowed:
                raise AssertionError(f"{impl} is off by {worst:.1e}, allowed are {allowed:.1e} (B={B}, S={S})")


# The clock, as in attention_roofline.py.

def timed(calls, seconds=SECONDS):
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


def l2_bytes():
    """The GPU's L2 cache; 64 MiB where this PyTorch does not say, which is more than most cards have."""
    import torch

    return getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0) or 64 * 2**20


# The measurement.

def attempt(measure, *args):
    """measure(*args), or None when the GPU's memory does not suffice.

    The cleaning stands after the except block: inside it the exception still holds every frame, and they hold the tensors.
    """
    result = None
    try:
        result = measure(*args)
    except RuntimeError as error:
        if "out of memory" not in str(error).lower():
            raise
    if result is None:
        release()
    return result


def release():
    """Hand everything that no tensor uses back to the driver."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def outcome(measure, *args):
    """(status, measure(*args)): ok, oom, or refused when PyTorch has no such kernel for these arguments."""
    try:
        result = attempt(measure, *args)
    except RuntimeError as error:
        if not re.search("No available kernel|No viable backend|cuDNN Frontend error", str(error)):
            raise
        return "refused", None
    return ("oom" if result is None else "ok"), result


def which_kernel(call):
    """The names of the GPU kernels that call() launches, in order, as torch.profiler saw them."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        call()
        torch.cuda.synchronize()
    events = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    names = [event.name for event in sorted(events, key=lambda event: event.time_range.start)]
    return [name for name in names if ("(" in name or "_" in name) and not name.startswith(("Memcpy", "Memset"))]


def kernels_of(*calls):
    """which_kernel() of each call, in one session of the profiler: a kernel that only waits marks where one begins."""
    import torch

    def all_of_them():
        for call in calls:
            torch.cuda._sleep(1000)                        # its kernel is called spin_kernel
            call()

    runs = []
    for name in which_kernel(all_of_them):
        if "spin_kernel" in name:
            runs.append([])
        elif runs:
            runs[-1].append(name)
    if len(runs) == len(calls) and all(runs):
        return runs
    return [which_kernel(call) for call in calls]


def short(name):
    """A kernel's name without return type, namespaces and template arguments."""
    name = re.sub(r"^void\s+", "", name).replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", name)[0].rsplit("::", 1)[-1]


def named(names):
    """Columns of a row: its kernel by its full name, several by their short ones; and all of them as the profiler saw them."""
    return {"kernel": once(names if len(names) == 1 else [short(name) for name in names]), "kernel_full": once(names)}


def once(names):
    """The names in order, neighbours that repeat told once, as one text; None when there are none."""
    return " + ".join(name for i, name in enumerate(names) if i == 0 or name != names[i - 1]) or None


def copy_row(when, n=2**30, device="cuda"):
    """The rate of b.copy_(a) on n random fp32, 4 GiB: bytes read plus bytes written. PyTorch hands it to cudaMemcpyAsync."""
    import torch

    torch.manual_seed(SEED)
    a = torch.randn(n, device=device)
    b = torch.empty_like(a)

    def call():
        b.copy_(a)

    samples = timed([call])
    if not torch.equal(a, b):
        raise AssertionError("the copy differs from its source")
    moved = 2 * a.numel() * a.element_size()
    row = {"part": "ceiling", "impl": "copy", "when": when, "traffic_bytes": moved, **median_and_spread(samples)}
    names = which_kernel(call) or ["Memcpy DtoD"]                # which_kernel() leaves copies out
    return {**row, "gbps": moved / row["ms"] / 1e6, "tflops": None, **named(names), "status": "ok"}


def read_row(n=2**30, device="cuda"):
    """The rate at which a sum over n random fp32, 4 GiB, reads them: the ceiling for a program that writes next to nothing."""
    import torch

    torch.manual_seed(SEED)
    a = torch.randn(n, device=device)

    def call():
        a.sum()

    moved = a.numel() * a.element_size()
    row = {"part": "ceiling", "impl": "read", "when": "before", "traffic_bytes": moved, **median_and_spread(timed([call]))}
    return {**row, "gbps": moved / row["ms"] / 1e6, "tflops": None, **named(which_kernel(call)), "status": "ok"}


def rates(ms, size, ceilings):
    """Columns of a row: the rate at which `size` bytes of KV cache were read in `ms`, also in percent of the ceilings."""
    gbps = size / ms / 1e6 if ms else None
    return {
        "kv_mib": size / MIB, "gbps": gbps, "of_copy_pct": gbps and 100 * gbps / ceilings["copy_gbps"],
        "of_read_pct": gbps and 100 * gbps / ceilings["read_gbps"],
    }


def clocked_and_weighed(side, sets):
    """(samples of timed(), alone(), bytes alive at the peak of one call beside its inputs) of side(q, k, v)."""
    import torch

    calls = [lambda i=i: side(*sets[i]) for i in range(len(sets))]
    samples, alone_ms = timed(calls), alone(calls)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    o = calls[0]()
    torch.cuda.synchronize()
    return samples, alone_ms, torch.cuda.memory_stats()["requested_bytes.all.peak"] - before


def decode_rows(B, S, ceilings, sms):
    """One row a side for B sequences of S keys."""
    release()
    shape = {**QWEN, "B": B, "S": S}
    size = kv_bytes(B, shape["kv_heads"], S, shape["d"])
    first = attempt(cache, B, S)
    if first is None:
        for impl in SIDES:
            yield row_of(impl, shape, ("oom", None), 0, None, [], ceilings, sms)
        return
    sets = [first, *(cache(B, S) for _ in range(-(-4 * l2_bytes() // size) - 1))]

    def clock(impl):
        with only(impl):
            return clocked_and_weighed(SIDES[impl], sets)

    def copies():
        _, k, v = first
        group = shape["heads"] // shape["kv_heads"]
        return k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)

    def call_of_side(impl):
        def call():
            with only(impl):
                SIDES[impl](*first)
        return call

    found = {impl: outcome(clock, impl) for impl in SIDES}
    repeat = found["repeat"][1]
    copy_ms = quantile(timed([copies]), 0.5) if repeat and quantile(repeat[0], 0.5) < 60 else None
    ran = [impl for impl, (status, _) in found.items() if status == "ok"]
    kernels = dict(zip(ran, attempt(kernels_of, *(call_of_side(impl) for impl in ran)) or [[] for _ in ran]))
    for impl in SIDES:
        yield row_of(impl, shape, found[impl], len(sets), copy_ms, kernels.get(impl, []), ceilings, sms)


def row_of(impl, shape, found, sets, copy_ms, kernels, ceilings, sms):
    """A row from what outcome(clocked_and_weighed) found for a side."""
    B, heads, kv_heads, S, d = (shape[name] for name in ("B", "heads", "kv_heads", "S", "d"))
    status, clock = found
    samples, alone_ms, added = clock or (None, None, None)
    times = median_and_spread(samples) if samples else {"ms": None, "p10_ms": None, "p90_ms": None, "samples": 0}
    size, added_predicted = kv_bytes(B, kv_heads, S, d), added_bytes(impl, B, heads, kv_heads, S, d, 2, sms)
    parts = {"flash": decode_parts(B, heads, kv_heads, S, sms), "single": 1}.get(impl)
    return {
        "part": "decode", "impl": impl, **shape, **times, "alone_ms": alone_ms, **rates(times["ms"], size, ceilings),
        "copy_ms": copy_ms if impl == "repeat" else None,
        "added_mib": None if added is None else added / MIB, "added_predicted_mib": None if added_predicted is None else added_predicted / MIB,
        "added_diff_bytes": None if None in (added, added_predicted) else added_predicted - added,
        "added_of_kv_pct": None if added is None else 100 * added / size,
        "parts": parts, "parts_seen": parts_from(added, B, heads, d) if added is not None and impl in ("flash", "single") else None,
        "in_l2": False, "sets": sets, **named(kernels), "status": status,
    }


def parts_rows(ceilings, B=1, S=131072):
    """One sequence, its keys cut by hand: time against the number of parts. The blocks are parts times KV heads."""
    release()
    shape = {**QWEN, "B": B, "S": S}
    q, k, v = cache(B, S)
    calls = [lambda n=n: by_hand(q, k, v, n) for n in PARTS]
    for n, call, kernels in zip(PARTS, calls, kernels_of(*calls)):
        times = median_and_spread(timed([call]))
        yield {
            "part": "parts", "impl": "by_hand", **shape, "parts": n, "blocks": n * B * shape["kv_heads"], **times, "alone_ms": alone([call]),
            **rates(times["ms"], kv_bytes(B, shape["kv_heads"], S, shape["d"]), ceilings), **named(kernels), "status": "ok",
        }


TRAPS = ("default", "flash", "cudnn", "efficient", "math", "lower_right")


def trap_row(impl, S=4096, device="cuda"):
    """What one query sees of S keys under is_causal=True, or under causal_lower_right(1, S), which aligns the mask as decode needs it.

    28 KV heads, so that every backend may answer. sees: "key 0" when o is v of key 0, "all keys" when o is attention,
    "neither", or "refused". off_v0 is the largest difference from v of key 0.
    """
    q, k, v = cache(1, S, 28, device)
    side = lower_right if impl == "lower_right" else causal
    row = {"part": "trap", "impl": impl, **QWEN, "kv_heads": 28, "S": S}
    with only(impl), warnings.catch_warnings():
        warnings.simplefilter("ignore")                    # a refusal is a row; PyTorch's reasons are in sdpa_dispatch.py
        status, o = outcome(side, q, k, v)
        if status != "ok":
            return {**row, "sees": status, "equals_v0": None, "off_v0": None, "kernel": "none", "kernel_full": None, "status": "ok"}
        kernels = which_kernel(lambda: side(q, k, v)) if q.is_cuda else []
    v0, everything = v[:, :, :1].double(), reference(q, k, v, False)
    near = [name for name, expected in (("key 0", v0), ("all keys", everything)) if ((o.double() - expected).norm() / expected.norm()).item() <= 0.02]
    return {**row, "sees": near[0] if near else "neither", "equals_v0": bool((o == v[:, :, :1]).all()), "off_v0": (o.double() - v0).abs().max().item(),
            **named(kernels), "status": "ok"}


def causal(q, k, v):
    """sdpa() with is_causal=True: the mask is aligned at the top left, so that query 0 sees key 0."""
    return sdpa(q, k, v, True)


def lower_right(q, k, v):
    """Attention under a causal mask aligned at the bottom right: the last query sees every key."""
    import torch.nn.functional as F
    from torch.nn.attention.bias import causal_lower_right

    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]))


# Rows, values and text.

def measure():
    """Yields one flat dict a row: the ceilings, every side on every B and S, the keys cut by hand, the trap."""
    import torch

    release()
    gc.freeze()                                            # what is imported stays: the collections of release() need not walk it again
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    copy, read = copy_row("before"), read_row()
    yield copy
    yield read
    ceilings = {"copy_gbps": copy["gbps"], "read_gbps": read["gbps"]}
    for B, S in itertools.product(BATCHES, LENGTHS):
        yield from decode_rows(B, S, ceilings, sms)
    yield from parts_rows(ceilings)
    for impl in TRAPS:
        yield trap_row(impl)


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def ms(impl, **fields):
        wanted = {"part": "decode", "impl": impl, **fields}
        return next((row["ms"] for row in rows if all(row.get(name) == value for name, value in wanted.items())), None)

    def ratio(a, b, **fields):
        over, under = ms(a, **fields), ms(b, **fields)
        return over / under if over and under else None

    def largest(a, b):
        return max(filter(None, (ratio(a, b, B=B, S=S) for B, S in itertools.product(BATCHES, LENGTHS))), default=None)

    def ceiling(impl):
        return next((row["gbps"] for row in rows if row["part"] == "ceiling" and row["impl"] == impl), None)

    def trap(impl, column):
        return next((row[column] for row in rows if row["part"] == "trap" and row["impl"] == impl), None)

    found = {"copy_gbps": ceiling("copy"), "read_gbps": ceiling("read"), "sample_seconds": SECONDS}
    for impl in SIDES:
        best = max((row for row in rows if row["part"] == "decode" and row["impl"] == impl and row["ms"]), key=lambda row: row["gbps"], default={})
        found.update({f"{impl}_best_gbps": best.get("gbps"), f"{impl}_best_of_copy_pct": best.get("of_copy_pct"),
                      f"{impl}_best_B": best.get("B"), f"{impl}_best_S": best.get("S")})
    by_hand_rows = {row["parts"]: row["ms"] for row in rows if row["part"] == "parts"}
    best_parts = min(by_hand_rows, key=by_hand_rows.get, default=None)
    pairs = [(B, S) for B, S in itertools.product(BATCHES, LENGTHS) if ms("grouped", B=B, S=S) and ms("flash", B=B, S=S)]
    return {
        **found,
        "repeat_over_default": ratio("repeat", "default", B=16, S=131072), "repeat_over_default_largest": largest("repeat", "default"),
        "repeat_copy_ms": next((row["copy_ms"] for row in rows if row["part"] == "decode" and (row["impl"], row["B"], row["S"]) == ("repeat", 16, 131072)), None),
        "grouped_over_default": ratio("grouped", "default", B=16, S=131072), "grouped_over_default_largest": largest("grouped", "default"),
        "single_over_flash": ratio("single", "flash", B=1, S=131072), "single_over_grouped": ratio("single", "grouped", B=1, S=131072),
        "grouped_beats_flash": sum(ms("grouped", B=B, S=S) < ms("flash", B=B, S=S) for B, S in pairs) if pairs else None,
        "combinations": len(pairs) or None,
        "best_parts": best_parts, "best_parts_ms": by_hand_rows.get(best_parts), "one_part_ms": by_hand_rows.get(1),
        "best_parts_speedup": by_hand_rows[1] / by_hand_rows[best_parts] if 1 in by_hand_rows else None,
        "trap_default_sees": trap("default", "sees"), "trap_default_kernel": trap("default", "kernel"),
        "trap_flash_sees": trap("flash", "sees"), "trap_lower_right_sees": trap("lower_right", "sees"),
    }


def header(part):
    """The lines above the first row of a part."""
    return {
        "ceiling": f"The ceilings, sampled for {SECONDS:g} s like every row. GB = 10^9 bytes; the copy counts bytes read plus written",
        "decode": "\nS_q = 1, 28 query heads, 4 KV heads, d = 128, bf16. Times in ms: on the GPU (median, p10, p90), and alone on an idle GPU\n"
                  "   B       S  impl          ms       p10       p90     alone   KV MiB     GB/s  of copy   adds MiB      off  parts  status   kernel",
        "parts": "\nOne sequence, the keys cut by hand and merged by their LSE\nparts  blocks        ms     alone     GB/s  of copy  kernel",
        "trap": "\nis_causal=True with one query and S = 4096 keys, 28 KV heads\nimpl         sees       off v of key 0  kernel",
    }[part]


def line(row):
    """A row as text."""
    def number(value, width, digits=1):
        return f"{value:{width}.{digits}f}" if value is not None else "-".rjust(width)

    kernel = " + ".join(short(name) for name in (row["kernel"] or "-").split(" + "))
    if row["part"] == "ceiling":
        return f"{row['impl']:6} {row['ms']:.4f} ms ({row['p10_ms']:.4f} to {row['p90_ms']:.4f}) {row['gbps']:8.0f} GB/s  {kernel}"
    if row["part"] == "parts":
        return (f"{row['parts']:5}  {row['blocks']:6} {number(row['ms'], 9, 4)} {number(row['alone_ms'], 9, 4)} {number(row['gbps'], 8, 0)} "
                f"{number(row['of_copy_pct'], 6)} %  {kernel}")
    if row["part"] == "trap":
        return f"{row['impl']:11}  {row['sees']:9}  {number(row['off_v0'], 14, 4)}  {kernel}"
    parts = "-" if row["parts"] is None else str(row["parts"]) if row["parts"] == row["parts_seen"] else f"{row['parts']}/{row['parts_seen']}"
    return (f"{row['B']:4} {row['S']:7}  {row['impl']:7} {number(row['ms'], 9, 4)} {number(row['p10_ms'], 9, 4)} {number(row['p90_ms'], 9, 4)} "
            f"{number(row['alone_ms'], 9, 4)} {number(row['kv_mib'], 8, 0)} {number(row['gbps'], 8, 0)} {number(row['of_copy_pct'], 6)} % "
            f"{number(row['added_mib'], 10, 2)} {number(row['added_diff_bytes'], 8, 0)} {parts:>6}  {row['status']:7}  {kernel}")


def footer(found):
    """What values() found, as lines."""
    if not found["copy_gbps"]:
        return ""
    lines = [f"\nCeilings: copy {found['copy_gbps']:.0f} GB/s, read {found['read_gbps']:.0f} GB/s"]
    for impl in SIDES:
        if found[f"{impl}_best_gbps"]:
            lines.append(f"{impl} reads the cache at {found[f'{impl}_best_gbps']:.0f} GB/s at best, {found[f'{impl}_best_of_copy_pct']:.1f} % of the copy "
                         f"(B = {found[f'{impl}_best_B']}, S = {found[f'{impl}_best_S']})")
    if found["combinations"]:
        lines.append(f"grouped beats flash in {found['grouped_beats_flash']} of {found['combinations']} combinations")
    if found["best_parts_speedup"]:
        lines.append(f"by hand: {found['best_parts']} parts are {found['best_parts_speedup']:.1f} times as fast as one")
    if found["trap_default_sees"]:
        lines.append(f"is_causal=True with one query: the default sees {found['trap_default_sees']}, flash: {found['trap_flash_sees']}, "
                     f"causal_lower_right sees {found['trap_lower_right_sees']}")
    return "\n".join(lines)


def report(rows):
    """Print rows as they come, a header above each part; returns them as a list."""
    kept = []
    for row in rows:
        if not kept or kept[-1]["part"] != row["part"]:
            print(header(row["part"]), flush=True)
        kept.append(row)
        if line(row):
            print(line(row), flush=True)
    return kept


def gpu_problem(device=0):
    """Why flash attention cannot run on GPU number `device` here, in one line; None when it can."""
    try:
        import torch
    except ImportError:
        return "PyTorch is missing. Install it: https://pytorch.org/get-started/locally/"
    hip, cuda = getattr(torch.version, "hip", None), getattr(torch.version, "cuda", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        available = torch.cuda.is_available()
    if not available and hip:
        return f"PyTorch {torch.__version__} is a ROCm build and finds no GPU. Is the driver loaded, and may this user open it?"
    if not available and not cuda:
        return f"PyTorch {torch.__version__} is a CPU-only build. Install a build with CUDA: https://pytorch.org/get-started/locally/"
    if not available:
        try:
            torch.cuda.init()
            why = "no CUDA GPU is visible"
        except Exception as error:
            why = " ".join(str(error).split())
        if "too old" in why:
            return f"The NVIDIA driver is older than PyTorch {torch.__version__} (CUDA {cuda}) needs. Update the driver, or install a build for an older CUDA."
        return f"PyTorch {torch.__version__} (CUDA {cuda}) finds no NVIDIA GPU or driver here. Check nvidia-smi and CUDA_VISIBLE_DEVICES."
    if not 0 <= device < torch.cuda.device_count():
        return f"There is no GPU number {device}: PyTorch sees {torch.cuda.device_count()}."
    name, (major, minor) = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    if not hip and major < 8:
        return f"{name} has compute capability {major}.{minor}; the flash kernel needs 8.0 (Ampere) or newer. Older cards have SDPA's memory-efficient backend, in fp16."
    try:
        a = torch.ones(16, 16, dtype=torch.bfloat16, device=f"cuda:{device}")
        ok = (a @ a).sum().item() == 4096
    except Exception as error:
        why = " ".join(str(error).split())[:120]
        built = " ".join(torch.cuda.get_arch_list())
        return f"{name} ({major}.{minor}) runs no kernel of PyTorch {torch.__version__}, built for {built}: {why}. Install a build that names this card."
    return None if ok else f"{name} computes a wrong 16 x 16 matmul: the installation or the card is broken."


def main(argv=None):
    """Command line. Exit status 2 and one line on stderr where it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", action="store_true", help="print bytes and numbers of parts and stop (no GPU, no PyTorch)")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the GPU, as PyTorch counts them (0)")
    options = parser.parse_args(argv)
    if options.predict:
        print(predicted_table())
        return 0
    problem = gpu_problem(options.device)
    if problem:
        return stop(problem)
    import torch

    torch.cuda.set_device(options.device)
    print(f"{torch.cuda.get_device_name(options.device)}, PyTorch {torch.__version__}", flush=True)
    check()
    print("check: every side agrees with fp64 attention\n", flush=True)
    print(footer(values(report(measure()))), flush=True)
    return 0


def stop(why):
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
