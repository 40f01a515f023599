"""The kernel, rung by rung: what each step of examples/kernels/ is worth, beside PyTorch's flash, cuDNN and a matmul.

One function, attention(q, k, v, causal) -> (o, lse), from three kernels that meet in device memory to one that stays on its
multiprocessor for the whole launch. All programs of a shape, and a bf16 matmul of 8192 x 8192 matrices as the ceiling, take
turns in random order, each as a CUDA graph (a launch from Python takes longer than a short kernel), because the card's power
limit moves every time by several per cent within a run: ratios are of medians of the same turns.

    python examples/kernel_ladder.py       a Hopper GPU (compute capability 9.0), Triton 3.6.0, the folder kernels/ beside it

Parts: "grid" and "shapes" (GQA, d = 64), FLOPs of the function, half of them under a mask; "decode", one query over the shape
of Qwen2.5-7B, inputs that take turns until they are four times the L2 cache; "code", what the compiler made of each rung;
"traffic", what Nsight Compute counts of one launch at S = 4096, caches emptied before, or why it cannot (kit/counters.py).
What bounds a rung: the largest of three shares of its time, or "waits" when none reaches 60 %: the multiplications at the
rate of the matmul; the bytes that must cross device memory at the rate of a copy; the exponentials at 16 a cycle and
multiprocessor, at the card's highest clock. The last is a lower bound: under its power limit the card clocks lower.
Left out: the backward pass, dropout, packed sequences of different length. MiB is 2^20 bytes, GB is 10^9.
"""

import argparse
import contextlib
import functools
import importlib
import json
import random
import sys

try:
    from kit.card import ended, gpu_problem, l2_bytes, stop
    from kit.clock import median_and_spread, quantile
    from kit.counters import by_mark, count, find_ncu, metrics_of, NoCounters, SECTOR, version_of
    from kit.kernels import named, which_kernel
    from kit.memory import mib
    from kit.table import report, yes_no
    from io_counter import flash_traffic
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/kernel_ladder.py of the lesson's site.", file=sys.stderr) or 2)

SEED = 2026
FOLDER = "kernels"                                         # beside this file: what is measured
TURNS = 11
TRAFFIC_S = 4096
RUNGS = ("unfused", "fused", "diagonal", "descriptors", "partitions", "pipelined", "persistent")
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
LENGTHS = (1024, 2048, 4096, 8192, 16384)
SHAPE = {"B": 1, "heads": 28, "kv_heads": 28, "d": 128, "dtype": "bf16"}
EXPONENTIALS = 16                                          # a cycle and multiprocessor, from compute capability 8.0 on
BUSY = 60                                                  # percent of its time from which on a unit is what bounds a kernel
DECODE = ((1, 4096), (1, 65536), (4, 16384), (16, 16384), (64, 4096), (64, 16384))


def rung(name):
    """The module of a rung, from the folder beside this file."""
    return importlib.import_module(f"{FOLDER}.{name}")


def sides(causal, rungs):
    """{name: function of q, k, v} of all programs; a rung's lse is left aside."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def sdpa(backend):
        def call(q, k, v):
            with sdpa_kernel([getattr(SDPBackend, backend)]):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
        return call

    def ours(name):
        return lambda q, k, v: rung(name).attention(q, k, v, causal)[0]

    return {**{name: sdpa(backend) for name, backend in BACKENDS.items()}, **{name: ours(name) for name in rungs}}


def drawn(B, heads, kv_heads, S_q, S, d):
    """q, k, v of normal random bf16 numbers."""
    import torch

    return tuple(torch.randn(B, h, n, d, device="cuda", dtype=torch.bfloat16) for h, n in ((heads, S_q), (kv_heads, S), (kv_heads, S)))


def graph(call, sets, fill_ms=1.0):
    """(a CUDA graph of calls on the sets in turn that lasts about fill_ms or more, how many calls it holds)."""
    import torch

    call(*sets[0])
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call(*sets[0])
    end.record()
    torch.cuda.synchronize()
    rounds = max(1, min(20, round(fill_ms / start.elapsed_time(end) / len(sets))))
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        for _ in range(rounds):
            for one in sets:
                call(*one)
    return made, rounds * len(sets)


def interleaved(calls, turns=TURNS):
    """{name: milliseconds a call, a list} of {name: (graph, calls in it)}: in every turn all of them, in random order, each warm."""
    import torch

    found, order = {name: [] for name in calls}, random.Random(SEED)
    for _ in range(turns):
        for name in order.sample(list(calls), len(calls)):
            made, count = calls[name]
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            made.replay()
            start.record()
            made.replay()
            end.record()
            torch.cuda.synchronize()
            found[name].append(start.elapsed_time(end) / count)
    return found


@functools.cache
def code(name, causal, S, d, kv_heads):
    """What the compiler made of the kernels that a call of a rung launches, one query where it is decode: columns as kernels/machine.py names them."""
    import torch

    q, k = (torch.empty(1, heads, rows, d, device="cuda", dtype=torch.bfloat16) for heads, rows in ((28, 1 if name == "decode" else S), (kv_heads, S)))
    return rung("machine").compiled(lambda: rung(name).attention(q, k, k, causal), 90)


def launched(name, call, *case):
    """Columns of a row: the kernels of one call, as the profiler saw those of PyTorch, and as Triton launches those of a rung."""
    return named(which_kernel(call) if name in BACKENDS else [kernel["name"] for kernel in code(name, *case)])


def cycles_per_ms():
    """Cycles of all multiprocessors in a millisecond at the card's highest clock; None where this PyTorch does not say."""
    import torch

    card = torch.cuda.get_device_properties(torch.cuda.current_device())
    return getattr(card, "clock_rate", 0) * card.multi_processor_count or None


def made(kernels):
    """Columns of a row: the largest of its kernels in registers and shared memory, and how many blocks of it a multiprocessor holds."""
    import torch

    card, kernel = torch.cuda.get_device_properties(torch.cuda.current_device()), max(kernels, key=lambda kernel: kernel["shared_bytes"])
    return {"registers": kernel["registers"], "shared_bytes": kernel["shared_bytes"], "warps": kernel["warps"],
            "blocks_per_sm": blocks(kernel["registers"], kernel["shared_bytes"], kernel["warps"], card.regs_per_multiprocessor,
                                    getattr(card, "shared_memory_per_multiprocessor", 228 * 1024), card.max_threads_per_multi_processor)}


def blocks(registers, shared_bytes, warps, all_registers, all_shared, threads):
    """How many blocks fit on a multiprocessor. Registers are given to a warp in 256s; a block pays 1 KiB of shared memory to the system."""
    of_a_warp = -(-32 * registers // 256) * 256
    return min(all_registers // of_a_warp // warps, all_shared // (shared_bytes + 1024), threads // (32 * warps))


def predicted(name, shape, S, causal):
    """Columns of a row: MiB that must cross device memory, and that pass between the multiprocessors and L2 with this rung's tiles."""
    B, heads, kv_heads, d = (shape[name] for name in ("B", "heads", "kv_heads", "d"))
    compulsory = 2 * B * (2 * heads + 2 * kv_heads) * S * d + 4 * B * heads * S
    if name == "unfused":                                  # s written, read twice, p written and read
        return {"dram_predicted_mib": mib(compulsory + 5 * 2 * B * heads * S * S), "sm_predicted_mib": None}
    tile = rung(name).tiles(d, causal)
    return {"dram_predicted_mib": mib(compulsory), "sm_predicted_mib": mib(2 * B * heads * sum(flash_traffic(S, d, tile["BR"], tile["BC"], causal)))}


def bound(of_matmul_pct, dram_pct, exp_pct):
    """What bounds a kernel, by how much of its time each unit has work for."""
    shares = {"tensor cores": of_matmul_pct, "memory": dram_pct, "exponentials": exp_pct or 0}
    first = max(shares, key=shares.get)
    return first if shares[first] >= BUSY else "waits"


def prefill_rows(part, shape, S, causal):
    """A row a program on one shape."""
    import torch

    B, heads, kv_heads, d = (shape[name] for name in ("B", "heads", "kv_heads", "d"))
    torch.manual_seed(SEED)
    size = B * (heads + 2 * kv_heads) * S * d * 2
    sets = [drawn(B, heads, kv_heads, S, S, d) for _ in range(max(1, min(8, -(-4 * l2_bytes() // size))))]
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    programs = sides(causal, [name for name in RUNGS if name != "unfused" or S <= 4096])
    source = torch.empty(2**29, device="cuda", dtype=torch.int8)
    target = torch.empty_like(source)
    calls = {"matmul": graph(torch.matmul, [(a, b)]), "copy": graph(lambda x, y: y.copy_(x), [(source, target)]), **{name: graph(call, sets) for name, call in programs.items()}}
    times = {name: median_and_spread(samples) for name, samples in interleaved(calls).items()}
    flops = (2 if causal else 4) * B * heads * S * S * d
    matmul, copied = 2 * 8192**3 / times.pop("matmul")["ms"] / 1e9, 2 * 2**29 / times.pop("copy")["ms"] / 1e6
    exp_ms = (0.5 if causal else 1) * B * heads * S * S / (EXPONENTIALS * cycles) if (cycles := cycles_per_ms()) else None
    for name, clock in times.items():
        tflops = flops / clock["ms"] / 1e9
        case, model = (causal, S, d, kv_heads), {}
        if name in RUNGS:
            model = {**predicted(name, shape, S, causal), **made(code(name, *case))}
            shares = {"dram_pct": 100 * model["dram_predicted_mib"] * 2**20 / copied / 1e6 / clock["ms"], "exp_pct": exp_ms and 100 * exp_ms / clock["ms"]}
            model |= {**shares, "bound": bound(100 * tflops / matmul, **shares)}
        yield {
            "part": part, "impl": name, **shape, "S": S, "causal": causal, **clock, "tflops": tflops, "matmul_tflops": matmul, "copy_gbps": copied,
            "of_matmul_pct": 100 * tflops / matmul, "over_cudnn": times["cudnn"]["ms"] / clock["ms"], "over_flash": times["flash"]["ms"] / clock["ms"],
            "sets": len(sets), **model, **launched(name, lambda: programs[name](*sets[0]), *case), "status": "ok",
        }


def decode_rows(B, S):
    """A row a program for B sequences of S keys."""
    import torch

    torch.manual_seed(SEED)
    size = 2 * B * 4 * S * 128 * 2
    sets = [drawn(B, 28, 4, 1, S, 128) for _ in range(max(1, -(-4 * l2_bytes() // size)))]
    programs = sides(False, ("decode",))
    times = {name: median_and_spread(samples) for name, samples in interleaved({name: graph(call, sets, 0.3) for name, call in programs.items()}).items()}
    for name, clock in times.items():
        yield {
            "part": "decode", "impl": name, **SHAPE, "kv_heads": 4, "B": B, "S": S, "causal": False, **clock, "us": 1e3 * clock["ms"], "kv_mib": size / 2**20,
            "gbps": size / clock["ms"] / 1e6, "over_cudnn": times["cudnn"]["ms"] / clock["ms"], "over_flash": times["flash"]["ms"] / clock["ms"],
            "sets": len(sets), **launched(name, lambda: programs[name](*sets[0]), False, S, 128, 4), "status": "ok",
        }


def code_rows():
    """A row a kernel and compute capability, compiled and not run: under a causal mask, d = 128."""
    import torch

    q = torch.zeros(1, 4, 1024, 128, device="cuda", dtype=torch.bfloat16)
    for name in RUNGS:
        for capability in (80, 90, 100) if name in ("unfused", "fused", "diagonal") else (90,):
            for kernel in rung("machine").compiled(lambda: rung(name).attention(q, q, q, True), capability):
                yield {"part": "code", "impl": name, "capability": capability, **kernel, "kernel": kernel["name"], "status": "ok"}


def traffic_cases():
    """[(program, causal), …] whose bytes are counted."""
    return [(name, causal) for causal in (False, True) for name in (*BACKENDS, *RUNGS)]


def counted_child(manifest, device):
    """Run each case once unseen and once behind a mark; to be started by ncu with --profile-from-start off. manifest: the file to write."""
    import torch

    torch.cuda.set_device(device)
    torch.manual_seed(SEED)
    q, k, v = drawn(SHAPE["B"], SHAPE["heads"], SHAPE["kv_heads"], TRAFFIC_S, TRAFFIC_S, SHAPE["d"])
    with open(manifest, "w", encoding="utf-8") as out:
        for name, causal in traffic_cases():
            call = sides(causal, RUNGS)[name]
            call(q, k, v)
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1000)                        # its kernel is called spin_kernel
            call(q, k, v)
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            out.write(json.dumps([name, causal]) + "\n")


def traffic_rows():
    """A row a program: MiB that crossed device memory, and that the multiprocessors were given and gave; one row that says why where nothing can be counted."""
    import torch

    device = torch.cuda.current_device()
    try:
        ncu = find_ncu()
        kernels, done, _ = count(ncu, metrics_of(torch.cuda.get_device_capability()[0]), __file__, counted_child, device)
    except NoCounters as why:
        yield {"part": "traffic", "impl": None, **SHAPE, "S": TRAFFIC_S, "kernel": None, "status": "refused", "why": str(why)}
        return
    for (name, causal), seen in zip(done, by_mark(kernels), strict=True):
        total = {key: sum(kernel[key] for kernel in seen) for key in ("dram_read", "dram_write", "sm_read", "tex_write")}
        yield {
            "part": "traffic", "impl": name, **SHAPE, "S": TRAFFIC_S, "causal": causal,
            "dram_mib": mib(total["dram_read"] + total["dram_write"]), "sm_mib": mib(total["sm_read"] + SECTOR * total["tex_write"]),
            **(predicted(name, SHAPE, TRAFFIC_S, causal) if name in RUNGS else {}), **named([kernel["name"] for kernel in seen]), "ncu": version_of(ncu), "status": "ok",
        }


def check(attention=None, device="cuda"):
    """Raises AssertionError unless every rung, or the attention given, computes o and lse as fp64 does, within twice the textbook's error."""
    import torch

    truth = rung("truth")
    if why := rung("arguments").cannot_run():
        error = RuntimeError(why)
        error.cannot_run_here = True
        raise error
    cases = [truth.case(S_q, S_kv, 128, torch.bfloat16, causal, 4, 2) for S_q, S_kv in ((200, 333), (333, 200)) for causal in (False, True)]
    for one in [attention] if attention else [rung(name).attention for name in RUNGS]:
        truth.check(one, cases, device)
    if not attention:
        truth.check(rung("decode").attention, [truth.case(1, 1000, 128, torch.bfloat16, False, 28, 4, 2)], device)


def measure():
    """Yields one flat dict a row."""
    for causal in (False, True):
        for S in LENGTHS:
            yield from prefill_rows("grid", SHAPE, S, causal)
    for shape in ({**SHAPE, "kv_heads": 4}, {**SHAPE, "d": 64}):
        for causal in (False, True):
            yield from prefill_rows("shapes", shape, 8192, causal)
    for B, S in DECODE:
        yield from decode_rows(B, S)
    yield from code_rows()
    yield from traffic_rows()


def values(rows):
    """The last rung beside cuDNN and flash over the grid, as a flat dict."""
    last = [row for row in rows if row["part"] == "grid" and row["impl"] == "persistent"]
    found = {}
    for mask, causal in (("full", False), ("causal", True)):
        ratios = [row["over_cudnn"] for row in last if row["causal"] == causal and row["S"] >= 4096]
        found[f"{mask}_over_cudnn_least"], found[f"{mask}_over_cudnn_most"] = min(ratios, default=None), max(ratios, default=None)
    rates = sorted({row["matmul_tflops"] for row in rows if row["part"] == "grid"})
    for S, name in ((4096, "short"), (16384, "long")):
        for row in last:
            if row["S"] == S:
                found[f"{name}_{'causal' if row['causal'] else 'full'}_over_flash"] = row["over_flash"]
    return {**found, "matmul_tflops": quantile(rates, 0.5) if rates else None, "turns": TURNS}


def header(part):
    """The lines above the first row of a part."""
    columns = "     S  causal  KV heads    d  impl           ms       p10       p90  TFLOP/s  of matmul  / cuDNN  / flash  blocks  bound by"
    return {"grid": "B = 1, 28 heads, bf16; medians of turns in random order\n" + columns, "shapes": "\n" + columns,
            "decode": "\nOne query, 28 heads, 4 KV heads, d = 128\n  B       S  impl           us     GB/s  / cuDNN  / flash",
            "traffic": f"\nMiB counted by ncu, S = {TRAFFIC_S}; in brackets predicted\ncausal  impl         device memory           multiprocessors",
            "code": "\nWhat the compiler made of it, d = 128, causal\n sm  impl         kernel    registers  shared  warps  mma.sync  wgmma  tcgen05  TMA  setmaxnreg"}[part]


def line(row):
    """A row as text."""
    if row["part"] == "code":
        return (f"{row['capability']:3}  {row['impl']:11}  {row['kernel']:8} {row['registers']:10} {row['shared_bytes']:7} {row['warps']:6} {row['mma_sync']:9} "
                f"{row['wgmma']:6} {row['tcgen05']:8} {row['tma_loads']:4}  {row['setmaxnreg'] or '-'}")
    if row["part"] == "traffic":
        if row["impl"] is None:
            return f"        not counted: {row['why']}"
        model = [f"({row[name]:9.1f})" if row.get(name) else " " * 11 for name in ("dram_predicted_mib", "sm_predicted_mib")]
        return f"{yes_no(row['causal']):>6}  {row['impl']:11} {row['dram_mib']:9.1f} {model[0]} {row['sm_mib']:9.1f} {model[1]}"
    if row["part"] == "decode":
        return f"{row['B']:3} {row['S']:7}  {row['impl']:7} {row['us']:9.1f} {row['gbps']:8.0f} {row['over_cudnn']:8.2f} {row['over_flash']:8.2f}"
    return (f"{row['S']:6}  {yes_no(row['causal']):>6}  {row['kv_heads']:8}  {row['d']:3}  {row['impl']:11} {row['ms']:8.4f} {row['p10_ms']:9.4f} {row['p90_ms']:9.4f} "
            f"{row['tflops']:8.1f} {row['of_matmul_pct']:8.1f} % {row['over_cudnn']:8.2f} {row['over_flash']:8.2f}"
            + (f" {row['blocks_per_sm']:7}  {row['bound']}" if row.get("bound") else ""))


def footer(found):
    """What values() found, as a line."""
    if not found["full_over_cudnn_least"]:
        return ""
    return (f"\nThe last rung over cuDNN from S = 4096 on: {found['full_over_cudnn_least']:.2f} to {found['full_over_cudnn_most']:.2f} without a mask, "
            f"{found['causal_over_cudnn_least']:.2f} to {found['causal_over_cudnn_most']:.2f} with one; matmul {found['matmul_tflops']:.0f} TFLOP/s")


def main(argv=None):
    """Command line. Exit status 2 and one line on stderr where it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counted_child", help=argparse.SUPPRESS)
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the GPU, as PyTorch counts them (0)")
    options = parser.parse_args(argv)
    if options.counted_child:
        counted_child(options.counted_child, options.device)
        return 0
    if problem := gpu_problem(options.device):
        return stop(problem)
    import torch

    torch.cuda.set_device(options.device)
    with contextlib.suppress(ImportError):
        if problem := rung("arguments").cannot_run():
            return stop(problem)
        check()
        print("check: every rung agrees with fp64 attention\n", flush=True)
        print(footer(values(report(measure(), header, line))), flush=True)
        return 0
    return stop("Triton is missing, or the folder kernels/ is not beside this file: take the archive of all examples.")


if __name__ == "__main__":
    sys.exit(ended(main))
