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

import functools
import gc
import itertools
import math
import sys
import warnings

try:
    from kit.backends import only, sdpa
    from kit.card import ended, l2_bytes
    from kit.clock import alone, copy_row, median_and_spread, quantile, timed
    from kit.command import command
    from kit.errors import reference
    from kit.inputs import check_input, DTYPES, SEED
    from kit.kernels import kernels_of, named, shortened, which_kernel
    from kit.memory import attempt, MIB, outcome, release
    from kit.sizes import kv_parts
    from kit.table import cell
    from flash_vs_naive_memory import naive
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/decode_attention.py of the lesson's site.", file=sys.stderr) or 2)

SECONDS = 0.02                                             # how long every row and the ceilings are sampled
BATCHES = (1, 4, 16, 64)
LENGTHS = (4096, 16384, 65536, 131072)
PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
QWEN = {"B": 1, "heads": 28, "kv_heads": 4, "S": 4096, "d": 128, "dtype": "bf16"}


# The sides. repeat is naive() of flash_vs_naive_memory.py, where naive_bytes() is its peak memory.

def grouped(q, k, v):
    """naive() for one query without a copy of k and v: the G heads of a group become G rows of one matmul.

    q [B, H, 1, d], k and v [B, H_kv, S, d]. Returns o [B, H, 1, d].
    """
    import torch

    check_query(q, k, v)
    B, H, _, d = q.shape
    q = q.reshape(B, k.shape[1], H // k.shape[1], d)       # [B, H_kv, G, d]
    s = q @ k.transpose(-2, -1) / math.sqrt(d)             # [B, H_kv, G, S]
    p = torch.softmax(s, dim=-1)                           # [B, H_kv, G, S]
    return (p @ v).reshape(B, H, 1, d)                     # [B, H, 1, d]


def by_hand(q, k, v, parts):
    """Attention of one query over the keys in `parts` equal parts, each by PyTorch's flash kernel, merged by their LSE.

    Shapes as in grouped(); S must be a multiple of parts. A part of a KV head's keys is a sequence of its own to the
    kernel, with the G queries of the group as its rows, so the kernel neither cuts nor groups anything itself. The partial
    o come out in the dtype of q, where the kernel's own split-KV keeps them in fp32. One part needs no merge.
    Raises ValueError where parts does not divide S, and what check_query() raises.
    """
    import torch

    check_query(q, k, v)
    (B, H, _, d), (_, H_kv, S, _) = q.shape, k.shape
    if parts < 1 or S % parts:
        raise ValueError(f"parts = {parts} does not divide S = {S}")
    G, heads = H // H_kv, B * H_kv
    rows = q.reshape(heads, 1, G, d).expand(-1, parts, -1, -1).reshape(-1, 1, d)              # [B·H_kv·parts·G, 1, d]
    o, lse = flash_sequences(rows, k.reshape(-1, 1, d), v.reshape(-1, 1, d), heads * parts, G, S // parts)
    if parts == 1:
        return o.reshape(B, H, 1, d)
    o, lse = o.reshape(heads, parts, G, d), lse.reshape(heads, parts, G, 1)
    w = torch.softmax(lse, dim=1)                          # e^(lse - lse of all): sums to 1 over the parts
    return (w * o).sum(dim=1).to(q.dtype).reshape(B, H, 1, d)


def check_query(q, k, v):
    """Raise a ValueError that names the argument when q is not one query a head, or k and v do not fit it."""
    check_input(q, k, v)
    if q.shape[2] != 1:
        raise ValueError(f"q has {q.shape[2]} rows: a step of decoding has one query")


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


def decode_parts(B, heads, kv_heads, S, sms=132):
    """kv_parts() for one query a sequence at d = 128: the heads of a group are the rows of one Q tile."""
    return kv_parts(B * kv_heads * -(-(heads // kv_heads) // 64), -(-S // 128), sms)


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


# The measurement.

def read_row(n=2**30, device="cuda"):
    """The rate at which a sum over n random fp32, 4 GiB, reads them: the ceiling for a program that writes next to nothing."""
    import torch

    torch.manual_seed(SEED)
    a = torch.randn(n, device=device)

    def call():
        a.sum()

    moved = a.numel() * a.element_size()
    row = {"part": "ceiling", "impl": "read", "when": "before", "traffic_bytes": moved, **median_and_spread(timed([call], SECONDS))}
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
    samples, alone_ms = timed(calls, SECONDS), alone(calls)
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
    copy_ms = quantile(timed([copies], SECONDS), 0.5) if repeat and quantile(repeat[0], 0.5) < 60 else None
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
        times = median_and_spread(timed([call], SECONDS))
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
    """SDPA with is_causal=True, which sdpa() refuses here: the mask is aligned at the top left, so that query 0 sees key 0."""
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


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
    copy, read = copy_row("before", SECONDS), read_row()
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
    kernel = shortened(row["kernel"])
    if row["part"] == "ceiling":
        return f"{row['impl']:6} {row['ms']:.4f} ms ({row['p10_ms']:.4f} to {row['p90_ms']:.4f}) {row['gbps']:8.0f} GB/s  {kernel}"
    if row["part"] == "parts":
        return (f"{row['parts']:5}  {row['blocks']:6} {cell(row['ms'], 9, 4)} {cell(row['alone_ms'], 9, 4)} {cell(row['gbps'], 8, 0)} "
                f"{cell(row['of_copy_pct'], 6)} %  {kernel}")
    if row["part"] == "trap":
        return f"{row['impl']:11}  {row['sees']:9}  {cell(row['off_v0'], 14, 4)}  {kernel}"
    parts = "-" if row["parts"] is None else str(row["parts"]) if row["parts"] == row["parts_seen"] else f"{row['parts']}/{row['parts_seen']}"
    return (f"{row['B']:4} {row['S']:7}  {row['impl']:7} {cell(row['ms'], 9, 4)} {cell(row['p10_ms'], 9, 4)} {cell(row['p90_ms'], 9, 4)} "
            f"{cell(row['alone_ms'], 9, 4)} {cell(row['kv_mib'], 8, 0)} {cell(row['gbps'], 8, 0)} {cell(row['of_copy_pct'], 6)} % "
            f"{cell(row['added_mib'], 10, 2)} {cell(row['added_diff_bytes'], 8, 0)} {parts:>6}  {row['status']:7}  {kernel}")


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


def main(argv=None):
    return command(argv, __doc__, check, "every side agrees with fp64 attention\n", measure, header, line, values, footer, predicted_table)


if __name__ == "__main__":
    sys.exit(ended(main))
