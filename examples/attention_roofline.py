"""Where naive, flash and cuDNN attention stand under the roofline of the card: measured ceilings, measured times.

The roof is measured first, on the same card and for as long as every row: the rate of a device-to-device copy (bytes read
plus bytes written) and of a bf16 matmul of 8192 x 8192 matrices, both on random data. Then the forward pass of attention on
the shape of Qwen2.5-7B with a KV head for each query head (B = 1, 28 heads, d = 128, bf16), S = 64 to 32768:

    naive   matmul, division, mask, softmax, matmul: each a kernel, the scores in device memory between them
    flash   PyTorch's own flash kernel (FlashAttention-2), forced
    cudnn   cuDNN's fused attention, forced

    python attention_roofline.py             a CUDA GPU of compute capability 8.0 or newer; about 20 s on an H200
    python attention_roofline.py --predict   FLOPs, bytes and intensities alone: no GPU, no PyTorch

FLOPs are those of the function, 4·H·S²·d, half of them under a causal mask, whoever computes more. Bytes are a model, not
counters: what each kernel must move when it reads its inputs once and writes its result once. A cache can do better (rows
marked in_l2), re-reading does worse. `ms` is time on the GPU with launches hidden; `alone_ms` is one call on an idle GPU,
launches included, as the host sees it. Inputs and outputs take turns, so that they do not stay in the L2 cache.
Sources: Williams, Waterman and Patterson, "Roofline" (2009); FlashAttention (arXiv 2205.14135), section 3.2, for the bytes.
Left out: the backward pass, and GQA, which lowers the bytes of k and v alone. GB is 10^9 bytes.
"""

import gc
import itertools
import sys

try:
    from kit.backends import only, sdpa
    from kit.card import ended, l2_bytes
    from kit.clock import alone, copy_row, median_and_spread, quantile, timed
    from kit.command import command
    from kit.errors import reference, relative_difference
    from kit.inputs import BYTES, inputs, SEED
    from kit.kernels import kernels_of, named, shortened, which_kernel
    from kit.memory import attempt, outcome, release
    from kit.table import cell, yes_no
    from flash_vs_naive_memory import naive
    from hbm_traffic import dram_model, floor_bytes
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/attention_roofline.py of the lesson's site.", file=sys.stderr) or 2)

SECONDS = 0.03                                             # how long every row and both ceilings are sampled
SHORT = (64, 128, 256)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
STEPS_AT = 4096
QWEN = {"B": 1, "heads": 28, "kv_heads": 28, "S": 1024, "d": 128, "dtype": "bf16", "causal": False}
FUSED = ("flash", "cudnn")


# The three sides. naive() is that of flash_vs_naive_memory.py, where naive_bytes() is its peak memory.

SIDES = {"naive": naive, "flash": sdpa, "cudnn": sdpa}


# The model: FLOPs of the function; bytes that each side's kernels must move, by the model that hbm_traffic.py holds against counters.

def attention_flops(B, heads, S, d, causal=False):
    """Two matmuls of 2·S²·d FLOPs a head; under a causal mask half of the scores are not part of the function."""
    return (2 if causal else 4) * B * heads * S * S * d


def step_work(B, heads, S, d, e=2, causal=False):
    """What the kernels of naive() must do, as {step: (FLOPs in matmuls, bytes)}. e is the bytes of an element."""
    steps = ("scores", "scale", *(["mask"] if causal else []), "softmax", "output")
    matmul = 2 * B * heads * S * S * d
    return {step: (matmul if step in ("scores", "output") else 0, sum(dram_model(step, B, heads, S, d, e))) for step in steps}


def naive_traffic(B, heads, S, d, e=2, causal=False):
    """Bytes that naive() must move: 6·B·H·S²·e + 4·B·H·S·d·e, three round trips of the scores and q, k, v, o.

    A mask adds a fourth round trip (it is applied in place), and its own S² bytes: written, half of them zeroed, read. The
    kernel reads them again for each head; that is left to the L2 cache.
    """
    made = 3 * S * S // 2 if causal else 0
    return sum(size for _, size in step_work(B, heads, S, d, e, causal).values()) + made


def work_of(impl, shape):
    """(FLOPs, bytes) of a side on a shape like QWEN with as many KV heads as query heads. flash and cudnn: the floor."""
    B, heads, S, d, e, causal = (*(shape[name] for name in ("B", "heads", "S", "d")), BYTES[shape["dtype"]], shape["causal"])
    moved = naive_traffic(B, heads, S, d, e, causal) if impl == "naive" else floor_bytes(B, heads, S, d, e)
    return attention_flops(B, heads, S, d, causal), moved


def under_the_roof(flops, moved, ms, ceilings):
    """Columns of a row: where `flops` and `moved` bytes in `ms` milliseconds stand under the ceilings.

    ceilings  {"copy_gbps", "matmul_tflops"}. roof_tflops is the least of the two ceilings at this intensity; of_roof_pct is
    the time that the larger of FLOPs and bytes takes at its ceiling, as a share of the time taken.
    """
    by_flops, by_bytes = flops / ceilings["matmul_tflops"] / 1e9, moved / ceilings["copy_gbps"] / 1e6      # ms
    intensity = flops / moved
    return {
        "traffic_bytes": moved, "intensity": intensity,
        "tflops": flops / ms / 1e9 if ms else None, "traffic_gbps": moved / ms / 1e6 if ms else None,
        "bound": "compute" if by_flops > by_bytes else "memory",
        "roof_tflops": min(ceilings["matmul_tflops"], intensity * ceilings["copy_gbps"] / 1e3),
        "floor_ms": max(by_flops, by_bytes),
        "of_roof_pct": 100 * max(by_flops, by_bytes) / ms if ms else None,
    }


def ridge(ceilings):
    """The intensity, in FLOP/B, at which the two ceilings meet."""
    return ceilings["matmul_tflops"] * 1e3 / ceilings["copy_gbps"]


def predicted_table():
    """The model as text: intensities of naive and flash, with and without mask."""
    out = ["Predicted by formula, not measured: B = 1, 28 heads, d = 128, bf16. GB = 10^9 bytes; intensity in FLOP/B",
           "     S  causal    GFLOP   naive GB   flash GB    ratio  naive int.  flash int."]
    for causal in (False, True):
        for S in SHORT + LENGTHS:
            (flops, a), (_, b) = (work_of(impl, {**QWEN, "S": S, "causal": causal}) for impl in ("naive", "flash"))
            out.append(f"{S:6}  {yes_no(causal):>6} {flops / 1e9:8.1f} {a / 1e9:10.4f} {b / 1e9:10.4f} {a / b:8.1f} {flops / a:11.1f} {flops / b:11.1f}")
    return "\n".join(out)


# The check: same numbers first.

def check(attention=None, baseline=naive, device=None, lengths=None):
    """Raises AssertionError unless every side computes attention: |side16 - ref64| <= 2·|naive16 - ref64| + 1e-5.

    attention(q, k, v, causal) is checked alone if given; else flash and, on a GPU that has it, cuDNN. The largest difference
    counts, with and without mask, on two lengths of which one is odd. The baseline has to be within 2 % of the reference
    itself (relative, Frobenius norm), or the rule would allow anything.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = torch.device(device).type == "cuda"
    sides = {"attention": attention} if attention else {impl: SIDES[impl] for impl in (FUSED if on_gpu else ["flash"])}
    for S, causal in itertools.product(lengths or ((193, 1024) if on_gpu else (77, 128)), (False, True)):
        q, k, v = inputs({**QWEN, "S": S}, device)
        ref = reference(q, k, v, causal)
        off_naive = baseline(q, k, v, causal).double() - ref
        rel_err = (off_naive.norm() / ref.norm()).item()
        if not rel_err <= 0.02:
            raise AssertionError(f"naive is not attention: relative error {rel_err:.1e} against fp64 (causal={causal}, S={S})")
        for impl, side in sides.items():
            with only(impl):
                status, o = outcome(side, q, k, v, causal)
            if status == "refused" and not attention:
                continue
            if status != "ok":
                raise AssertionError(f"{impl} gives nothing: {status} (causal={causal}, S={S})")
            worst, allowed = (o.double() - ref).abs().max().item(), 2 * off_naive.abs().max().item() + 1e-5
            if not worst <= allowed:
                raise AssertionError(f"{impl} is off by {worst:.1e}, allowed are {allowed:.1e} (causal={causal}, S={S})")


# The measurement.

def input_sets(shape):
    """As many sets of q, k, v as it takes to make four times the L2 cache, and one at least: in turns, none stays in it."""
    e = BYTES[shape["dtype"]]
    size = shape["B"] * (shape["heads"] + 2 * shape["kv_heads"]) * shape["S"] * shape["d"] * e
    return [inputs(shape) for _ in range(max(1, -(-4 * l2_bytes() // size)))]


def kernel_times(call, repeats=10):
    """[(name, milliseconds)] of the kernels of one call, in order, by the profiler's clock: medians over `repeats` calls.

    Raises RuntimeError when the calls do not all launch the same number of kernels.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
    events = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    events = [event for event in sorted(events, key=lambda event: event.time_range.start)
              if ("(" in event.name or "_" in event.name) and not event.name.startswith(("Memcpy", "Memset"))]
    n, rest = divmod(len(events), repeats)
    if rest or not n:
        raise RuntimeError(f"{len(events)} kernels in {repeats} calls")
    return [(events[i].name, quantile([event.time_range.elapsed_us() / 1e3 for event in events[i::n]], 0.5)) for i in range(n)]


def matmul_row(when, n=8192, device="cuda"):
    """The rate of a bf16 matmul of two n x n matrices of normal random numbers."""
    import torch

    torch.manual_seed(SEED)
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)

    def call():
        torch.matmul(a, b, out=c)

    row = {"part": "ceiling", "impl": "matmul", "when": when, "traffic_bytes": 6 * n * n, **median_and_spread(timed([call], SECONDS))}
    return {**row, "gbps": None, "tflops": 2 * n**3 / row["ms"] / 1e9, **named(which_kernel(call)), "status": "ok"}


def clocked(impl, sets, causal):
    """(samples of timed(), alone(), the output on the first set) of one side. Outputs take turns in memory as inputs do."""
    outputs = [None] * len(sets)

    def call(i):
        q, k, v = sets[i]
        outputs[i] = SIDES[impl](q, k, v, causal)

    calls = [lambda i=i: call(i) for i in range(len(sets))]
    with only(impl):
        samples = timed(calls, SECONDS)
        return samples, alone(calls), outputs[0]


def attention_rows(part, shape, ceilings):
    """One row a side on one shape: timed, compared with naive, its kernels named."""
    release()
    sets, causal = input_sets(shape), shape["causal"]
    found = {}
    for impl in SIDES:
        found[impl] = outcome(clocked, impl, sets, causal)
        if impl == "naive":
            release()                                      # or what the others keep is cut out of blocks that naive needs again, whole
    ran = [impl for impl, (status, _) in found.items() if status == "ok"]

    def call_of_side(impl):
        def call():
            with only(impl):
                SIDES[impl](*sets[0], causal)
        return call

    kernels = dict(zip(ran, attempt(kernels_of, *(call_of_side(impl) for impl in ran)) or [[] for _ in ran]))
    naive_samples, naive_alone, naive_o = found["naive"][1] or (None, None, None)
    square = shape["B"] * shape["heads"] * shape["S"] ** 2 * BYTES[shape["dtype"]]
    for impl, (status, clock) in found.items():
        samples, alone_ms, o = clock or (None, None, None)
        times = median_and_spread(samples) if samples else {"ms": None, "p10_ms": None, "p90_ms": None, "samples": 0}
        rel_err = relative_difference(o, naive_o) if impl != "naive" and o is not None and naive_o is not None else None
        if rel_err is not None and not rel_err <= 0.02:
            raise AssertionError(f"{impl} and naive differ by {rel_err:.1e} (relative, Frobenius norm) on {shape}")
        yield {
            "part": part, "impl": impl, **shape, **times, "alone_ms": alone_ms,
            **under_the_roof(*work_of(impl, shape), times["ms"], ceilings),
            "speedup": quantile(naive_samples, 0.5) / times["ms"] if naive_samples and samples else None,
            "alone_speedup": naive_alone / alone_ms if naive_alone and alone_ms else None,
            "in_l2": impl == "naive" and 2 * square <= l2_bytes(), "sets": len(sets), "rel_err": rel_err,
            **named(kernels.get(impl, [])), "status": status,
        }


def step_rows(ceilings):
    """The kernels of naive() one by one, by the profiler's clock, without mask. No rows when they are not the four of step_work()."""
    shape = {**QWEN, "S": STEPS_AT}
    q, k, v = inputs(shape)
    seen = attempt(kernel_times, lambda: naive(q, k, v)) or []
    steps = step_work(shape["B"], shape["heads"], shape["S"], shape["d"], BYTES[shape["dtype"]])
    if len(seen) != len(steps):
        return
    for (step, (flops, moved)), (name, ms) in zip(steps.items(), seen):
        yield {"part": "step", "impl": "naive", "step": step, **shape, "ms": ms, **under_the_roof(flops, moved, ms, ceilings),
               **named([name]), "status": "ok"}


# Rows, values and text.

def measure():
    """Yields one flat dict a row: the ceilings, short and long sequences, the steps of naive, the ceilings again."""
    release()
    gc.freeze()                                            # what is imported stays: the collections of release() need not walk it again
    copy, matmul = copy_row("before", SECONDS), matmul_row("before")
    yield copy
    yield matmul
    ceilings = {"copy_gbps": copy["gbps"], "matmul_tflops": matmul["tflops"]}
    for part, lengths in (("short", SHORT), ("grid", LENGTHS)):
        for causal, S in itertools.product((False, True), lengths):
            yield from attention_rows(part, {**QWEN, "causal": causal, "S": S}, ceilings)
    release()
    yield from step_rows(ceilings)
    release()
    yield copy_row("after", SECONDS)
    yield matmul_row("after")


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def ceiling(impl, when, column):
        return next((row[column] for row in rows if row["part"] == "ceiling" and (row["impl"], row["when"]) == (impl, when)), None)

    def best(impl, column):
        return max((row[column] for row in rows if row["part"] == "grid" and row["impl"] == impl and row["status"] == "ok"), default=None)

    copy_gbps, matmul_tflops = ceiling("copy", "before", "gbps"), ceiling("matmul", "before", "tflops")
    both = copy_gbps and matmul_tflops
    found = {
        "copy_gbps": copy_gbps, "matmul_tflops": matmul_tflops,
        "ridge_intensity": ridge({"copy_gbps": copy_gbps, "matmul_tflops": matmul_tflops}) if both else None,
        "copy_after_gbps": ceiling("copy", "after", "gbps"), "matmul_after_tflops": ceiling("matmul", "after", "tflops"),
        "sample_seconds": SECONDS,
    }
    found |= account(rows)
    for impl in SIDES:
        found[f"{impl}_best_tflops"], found[f"{impl}_best_of_roof_pct"] = best(impl, "tflops"), best(impl, "of_roof_pct")
    for impl, clock, causal in itertools.product(FUSED, ("", "alone_"), (False, True)):
        name = f"{impl}_%s_{clock}{'causal_' if causal else ''}S"
        wins, losses = races(rows, impl, f"{clock}ms", causal)
        found[name % "wins_from"], found[name % "loses_at"] = wins, losses
    return found


def account(rows, S=4096, heads=28):
    """What the speed-up over naive at one length is made of: naive if each of its kernels ran at the copy's rate, and what launches add.

    Three round trips of the squares are the program measured; two would be left without a kernel for the division.
    """
    at = {row["impl"]: row for row in rows if row["part"] == "grid" and (row["S"], row["kv_heads"], row["causal"], row["status"]) == (S, heads, False, "ok")}
    copy = next((row["gbps"] for row in rows if (row["part"], row["impl"], row.get("when")) == ("ceiling", "copy", "before")), None)
    if copy is None or any(impl not in at for impl in ("naive", "flash", "cudnn")):
        return {}
    three = at["naive"]["floor_ms"]
    two = three - 2 * BYTES[at["naive"]["dtype"]] * heads * S * S / copy / 1e6
    found = {"perfect_two_ms": two, "naive_over_perfect_three": at["naive"]["ms"] / three}
    for impl in ("flash", "cudnn"):
        found[f"perfect_three_over_{impl}"], found[f"perfect_two_over_{impl}"] = three / at[impl]["ms"], two / at[impl]["ms"]
    return found | {f"{impl}_launch_ms": at[impl]["alone_ms"] - at[impl]["ms"] for impl in at}


def races(rows, impl, column, causal):
    """(the smallest S from which on `impl` is faster than naive at every S measured, the S where it is not, as text).

    None, None when no S was measured on both sides.
    """
    times = {side: {row["S"]: row[column] for row in rows if row["part"] in ("short", "grid") and row["impl"] == side
                    and row["causal"] == causal and row["status"] == "ok"} for side in (impl, "naive")}
    lengths = sorted(times[impl].keys() & times["naive"].keys())
    if not lengths:
        return None, None
    lost = [S for S in lengths if times[impl][S] >= times["naive"][S]]
    later = [S for S in lengths if S > max(lost, default=0)]
    return (later[0] if later else None), (", ".join(map(str, lost)) or "none")


def header(part):
    """The lines above the first row of a part."""
    columns = "     S  causal  impl         ms       p10       p90     alone   speed-up  TFLOP/s   FLOP/B     roof   of roof  bound    status   kernel"
    return {
        "ceiling": f"The ceilings, sampled for {SECONDS:g} s like every row. GB = 10^9 bytes, read plus written",
        "short": "\nShort sequences. B = 1, 28 heads, d = 128, bf16. Times in ms: on the GPU (median, p10, p90), and alone on an idle GPU\n" + columns,
        "grid": "\n" + columns,
        "step": f"\nThe kernels of naive at S = {STEPS_AT}, no mask, by the profiler's clock\nstep             ms     GB/s  TFLOP/s   of roof  bound    kernel",
    }[part]


def line(row):
    """A row as text."""
    kernel = shortened(row["kernel"])
    if row["part"] == "ceiling":
        rate = f"{row['gbps']:8.0f} GB/s" if row["impl"] == "copy" else f"{row['tflops']:8.1f} TFLOP/s"
        return f"{row['impl']:6}  {row['when']:6}  {row['ms']:.4f} ms ({row['p10_ms']:.4f} to {row['p90_ms']:.4f}) {rate}  {kernel}"
    if row["part"] == "step":
        return (f"{row['step']:9} {cell(row['ms'], 9, 4)} {cell(row['traffic_gbps'], 8, 0)} {cell(row['tflops'] or None, 8)} "
                f"{cell(row['of_roof_pct'], 7)} %  {row['bound']:7}  {kernel}")
    return (f"{row['S']:6}  {yes_no(row['causal']):>6}  {row['impl']:5} {cell(row['ms'], 9, 4)} {cell(row['p10_ms'], 9, 4)} {cell(row['p90_ms'], 9, 4)} "
            f"{cell(row['alone_ms'], 9, 4)} {cell(row['speedup'], 10, 2)} {cell(row['tflops'], 8)} {cell(row['intensity'], 8)} "
            f"{cell(row['roof_tflops'], 8)} {cell(row['of_roof_pct'], 7)} %  {row['bound']:7}  {row['status']:7}  {kernel}")


def footer(found):
    """What values() found, as lines."""
    if not found["ridge_intensity"]:
        return ""
    lines = [f"\nCeilings: copy {found['copy_gbps']:.0f} GB/s, matmul {found['matmul_tflops']:.1f} TFLOP/s: they meet at {found['ridge_intensity']:.0f} FLOP/B"]
    if found["matmul_after_tflops"]:
        lines.append(f"After all rows: copy {found['copy_after_gbps']:.0f} GB/s, matmul {found['matmul_after_tflops']:.1f} TFLOP/s")
    for impl in FUSED:
        for clock, where in (("", "on the GPU"), ("alone_", "alone on an idle GPU")):
            told = [f"{mask} from S = {found[f'{impl}_wins_from_{clock}{causal}S']} on (not at: {found[f'{impl}_loses_at_{clock}{causal}S']})"
                    for mask, causal in (("no mask", ""), ("causal", "causal_"))]
            lines.append(f"{impl} beats naive {where}: {'; '.join(told)}")
    return "\n".join(lines)


def main(argv=None):
    return command(argv, __doc__, check, "naive, flash and cuDNN agree with fp64 attention, with and without mask\n", measure, header, line, values, footer, predicted_table)


if __name__ == "__main__":
    sys.exit(ended(main))
