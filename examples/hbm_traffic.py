"""How many bytes does attention move? Hardware counters at device memory (DRAM) and at the L2 cache, beside the models.

Three implementations of softmax(q kᵀ / sqrt(d)) v on 28 heads of d = 128 in bf16 (the query side of Qwen2.5-7B, B = 1):
naive, in the steps that the textbook writes, PyTorch's flash kernel and cuDNN's.

    python hbm_traffic.py        a CUDA GPU of compute capability 8.0 or newer, and Nsight Compute (ncu) with the right
                                 to read counters; about 40 s on an H200

The file starts ncu on itself. The child runs each case once unseen and then RUNS times seen; a kernel that only waits
marks where each step begins. What is counted, for each kernel:

    read, write   dram__bytes_read/write.sum: what crosses between L2 and device memory while the kernel runs
    SMs           l1tex__m_xbar2l1tex_read_bytes.sum + lts__t_sectors_srcunit_tex_op_write.sum x 32: what the
                  multiprocessors are given and give. The model of the tiles is about this number
    L2            lts__t_bytes.sum: what is looked up in L2. On Hopper a request coalescer in front of L2 merges reads of
                  several multiprocessors (fewer bytes), and half of L2 asks the other half (more bytes)

ncu empties the caches before each kernel (--cache-control all). So every kernel pays for its first touch of every byte,
and what one kernel leaves in L2 for the next is not credited; real runs of short sequences move less. What is still dirty
in L2 when a kernel ends has not reached device memory and is not in `write`: up to the size of L2, which is everything at
short S and little at long S. The clocks are left alone; `ms` is a cold run under the profiler and no benchmark. `passes` is
how often ncu says that it ran a kernel to read all counters, null where it does not say.

What the models leave over, on an H200 (tests/test_hbm_traffic.py holds each of these to the committed result):

    SMs      cuDNN: the tile model to 0.02 %. flash: it loads 39/32 of what the model says, at each length, with and without
             mask, to 0.3 %. Under a mask L2 counts the same sectors looked up for the multiprocessors, so they are asked
             for and not miscounted. Why 7 bytes more in 32 is not explained here
    read     cuDNN reads q, k and v once at each length. flash does, to 5 %, while k and v of all heads fit into L2, and reads
             more from S = 8192 on (from 4096 with a mask). What runs at the same time would fit (kv_at_work_mib): unexplained
    write    flash writes more than o and the lse from S = 8192 on, a sixth to a fifth more at 16384: unexplained. Naive and
             cuDNN write the model less what stays in L2
    mask     the mask is one for all heads, and the model reads it once. From S = 4096 on the step reads 18 to 21 times its
             bytes beside the scores; 28 times would be once for each head
    L2       for flash 9 to 31 % above the tile model, with a mask 35 to 52 %: the traffic between the halves is in it

Source of the models: FlashAttention (arXiv 2205.14135), Algorithm 0 and Theorem 2; tiles as in FlashAttention-2.
Left out: fewer KV heads than query heads, the backward pass, split K and V. MiB is 2^20 bytes, GB and TB are 10^9 and 10^12.
"""

import argparse
import json
import math
import re
import statistics
import sys

try:
    from kit.backends import only, sdpa
    from kit.card import ended, gpu_problem, stop
    from kit.counters import by_mark, count, COUNTED, find_ncu, metrics_of, NoCounters, SECTOR, version_of
    from kit.errors import reference
    from kit.inputs import BYTES, inputs
    from kit.kernels import once, short
    from kit.memory import attempt, mib, release, SAID
    from kit.proof import company, warned
    from kit.table import cell, report, yes_no
    from io_counter import flash_traffic
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/hbm_traffic.py of the lesson's site.", file=sys.stderr) or 2)

RUNS = 3
SHOWN = 4096                                               # the S of the table of single kernels and of most values
LENGTHS = (1024, 2048, 4096, 8192, 16384)
QWEN = {"B": 1, "heads": 28, "kv_heads": 28, "S": 1024, "d": 128, "dtype": "bf16", "causal": False}


# The three implementations, in steps: each generator names the step that it is about to run, and returns o.

def naive_steps(q, k, v, causal=False, future=None):
    """Attention as the textbook writes it: each step is a kernel that reads and writes device memory. q, k, v [B, H, S, d].

    future [S, S] of bool is True where a key is hidden; it is made here unless it is given.
    """
    import torch

    S, d = q.shape[2:]
    if causal and future is None:
        future = future_of(S, q.device)
    yield "scores"
    s = q @ k.transpose(-2, -1)                            # [B, H, S, S]
    yield "scale"
    s = s / math.sqrt(d)                                   # [B, H, S, S]
    if causal:
        yield "mask"
        s.masked_fill_(future, -math.inf)
    yield "softmax"
    p = torch.softmax(s, dim=-1)                           # [B, H, S, S]
    yield "output"
    return p @ v                                           # [B, H, S, d]


def by_backend(name):
    """attention(q, k, v, causal) by one of PyTorch's fused kernels and no other. RuntimeError where it cannot run."""
    def attention(q, k, v, causal=False):
        with only(name):
            return sdpa(q, k, v, causal)
    return attention


def is_refusal(error):
    """Whether a RuntimeError says that the one backend allowed cannot run: in the words of a GPU, or of a CPU."""
    return "No available kernel" in str(error) or "No viable backend" in str(error)


FUSED = {"flash": by_backend("flash"), "cudnn": by_backend("cudnn")}


def fused_steps(impl):
    """A fused implementation as a generator: one step, which has its name."""
    def steps(q, k, v, causal=False, future=None):
        yield impl
        return FUSED[impl](q, k, v, causal)
    return steps


STEPS = {"naive": naive_steps, "flash": fused_steps("flash"), "cudnn": fused_steps("cudnn")}


def step_names(impl, causal):
    """What the generators name, in order, without running them."""
    return [impl] if impl in FUSED else ["scores", "scale", *(["mask"] if causal else []), "softmax", "output"]


def future_of(S, device):
    """True where a key lies behind the query.  # [S, S]"""
    import torch

    return torch.ones(S, S, dtype=torch.bool, device=device).triu_(1)


def through(steps):
    """Run a generator of steps to its end and return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


# The models, in bytes.

def dram_model(step, B, heads, S, d, e=2):
    """(read, written) at device memory by one step that touches each of its tensors once.

    Algorithm 0 makes two round trips over the S x S matrix, the division by sqrt(d) a third and a mask a fourth: 4 bytes x
    B·H·S² each in bf16. The fused kernels move q, k, v and o and nothing else; PyTorch's also stores the lse (fp32).
    """
    rows, square = B * heads * S * d * e, B * heads * S * S * e
    return {
        "scores": (2 * rows, square),
        "scale": (square, square),
        "mask": (square + S * S, square),
        "softmax": (square, square),
        "output": (square + rows, rows),
        "flash": (3 * rows, rows + 4 * B * heads * S),
        "cudnn": (3 * rows, rows),
    }[step]


def floor_bytes(B, heads, S, d, e=2):
    """The compulsory traffic: q, k and v in once, o out once."""
    return 4 * B * heads * S * d * e


def sm_model(tile, B, heads, S, d, causal, e=2):
    """What the multiprocessors load and store with a tile (Br, Bc), in bytes; None without a tile."""
    return B * heads * e * sum(flash_traffic(S, d, *tile, causal)) if tile else None


def tile_of(kernel, block):
    """(Br, Bc), read from the name of a flash kernel and its threads a block; None when the name does not say.

    PyTorch: Flash_fwd_kernel_traits<d, Br, Bc, …>. cuDNN, sm80: …_128x64x128_…, that is Br x Bc x d. cuDNN, sm90: M x Bc x d
    with the M = 64 rows of one warpgroup; a block has a warpgroup for each 128 threads, and one of them only loads.
    """
    if found := re.search(r"Flash_fwd_kernel_traits<\d+, (\d+), (\d+),", kernel):
        return int(found[1]), int(found[2])
    if found := re.search(r"sdpa_sm(80|90)_flash_fprop_.*?_(\d+)x(\d+)x\d+_", kernel):
        warpgroups = max(1, block // 128 - 1) if found[1] == "90" else 1
        return int(found[2]) * warpgroups, int(found[3])
    return None


def kv_at_work(tile, blocks, waves, sms, B, heads, S, d, e=2):
    """Bytes of K and V of the heads whose blocks run at the same time: what L2 has to hold. None where that is unknown.

    waves is ncu's number of times that the grid fills the GPU; heads follow each other in the grid.
    """
    if not tile or not waves:
        return None
    running = min(blocks, sms * max(1, round(blocks / (waves * sms))))
    return min(B * heads, math.ceil(running / math.ceil(S / tile[0]))) * 2 * S * d * e


# The check: the same function first.

def check(attention=None, device=None, S=None):
    """Raises AssertionError unless |x16 - ref64| <= 2·|naive16 - ref64| + 1e-5 for each implementation x that runs here.

    attention(q, k, v, causal) takes their place when it is given. Naive has to be within 2 % of the reference itself
    (relative, Frobenius norm), or the rule would allow anything.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    S = S or (1024 if torch.device(device).type == "cuda" else 128)
    for causal in (False, True):
        q, k, v = inputs({**QWEN, "S": S}, device)
        ref = reference(q, k, v, causal)
        off_naive = through(naive_steps(q, k, v, causal)).double() - ref
        rel_err = (off_naive.norm() / ref.norm()).item()
        if not rel_err <= 0.02:
            raise AssertionError(f"naive is not attention: relative error {rel_err:.1e} against fp64 (causal={causal}, S={S})")
        allowed = 2 * off_naive.abs().max().item() + 1e-5
        for name, side in ({"attention": attention} if attention else FUSED).items():
            try:
                off = (side(q, k, v, causal).double() - ref).abs().max().item()
            except RuntimeError as error:
                if not is_refusal(error):
                    raise
                continue                                   # its rows will say "refused"
            if not off <= allowed:
                raise AssertionError(f"{name} is off by {off:.1e}, allowed are {allowed:.1e} (causal={causal}, S={S})")


# The child: it runs the cases under ncu and writes down, a line of JSON a case, which steps it marked.

def cases():
    """Every case as a flat dict."""
    return [{"impl": impl, **QWEN, "S": S, "causal": causal} for causal in (False, True) for S in LENGTHS for impl in STEPS]


def counted_child(manifest, device):
    """Run all cases; to be started by ncu with --profile-from-start off. manifest: the file to write."""
    import torch

    torch.cuda.set_device(device)
    with open(manifest, "w", encoding="utf-8") as out:
        for case in cases():
            steps = []
            try:
                status = "ok" if attempt(run_counted, case, steps) else "oom"
            except RuntimeError as error:
                if not is_refusal(error):
                    raise
                status = "refused"
            out.write(json.dumps({"case": case, "steps": steps, "status": status, **({"oom": SAID[-1]} if status == "oom" else {})}) + "\n")
            out.flush()


def run_counted(case, steps):
    """One case: once unseen, then RUNS times under the counters. Appends each step that begins to `steps`."""
    import torch

    q, k, v = inputs(case)
    future = future_of(case["S"], q.device) if case["causal"] else None
    run = STEPS[case["impl"]]
    through(run(q, k, v, case["causal"], future))
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    try:
        for _ in range(RUNS):
            for step in run(q, k, v, case["causal"], future):
                steps.append(step)
                torch.cuda._sleep(1000)                    # its kernel is called spin_kernel
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
    return True


# Rows, values and text.

def rows_of(kernels, found, passes, sms, l2, ncu=None):
    """All rows: those of whole implementations (part "total"), then those of single steps (part "kernel").

    found: what the child wrote, a dict a case. sms and l2: the card's multiprocessors and bytes of L2.
    Raises RuntimeError when ncu saw another number of marks than the child set, or no kernel behind one.
    """
    groups = by_mark(kernels)
    marks = sum(len(entry["steps"]) for entry in found)
    if len(groups) != marks:
        raise RuntimeError(f"ncu saw {len(groups)} marks, and {marks} were set")
    groups, totals, singles = iter(groups), [], []
    common = {"runs": RUNS, "passes": passes, "ncu": ncu, "l2_cache_mib": mib(l2)}
    for entry in found:
        case = entry["case"]
        seen = [(step, next(groups)) for step in entry["steps"]]
        steps = step_names(case["impl"], case["causal"])
        each = {step: [launched for name, launched in seen if name == step] for step in steps}
        whole = [sum(run, []) for run in zip(*each.values())] if entry["status"] == "ok" else []
        if whole and not all(map(all, each.values())):
            raise RuntimeError(f"a step of {case['impl']} at S = {case['S']} launched no kernel that ncu saw")
        totals.append(row_of("total", case, steps, whole, entry["status"], sms) | common | ({"oom": entry["oom"]} if "oom" in entry else {}))
        if whole:
            singles += [row_of("kernel", case, [step], each[step], "ok", sms) | common for step in steps]
    return totals + singles


def row_of(part, case, steps, runs, status, sms):
    """One row: medians over `runs`, the kernels that each repetition of these steps launched; the models stand in rows without runs too.

    read, write, dram        bytes at device memory; model_*, off_pct: dram_model() and the deviation from it; floor_*: floor_bytes()
    sm_*                     bytes between the multiprocessors and L2; sm_model, sm_off_pct: flash_traffic() of the tile Br x Bc
    l2_mib, l2_sm_mib        looked up in L2, by anyone and by the multiprocessors; l2_off_pct: the former against sm_model
    grid, block, waves       of the longest kernel: blocks, threads a block, how often the grid fills the GPU
    kv_at_work_mib           K and V of the heads that run at the same time; ms_min, ms_max, spread_pct (of dram): over the runs
    """
    shape = {name: case[name] for name in ("B", "heads", "S", "d")}
    e = BYTES[case["dtype"]]
    model_read, model_write = (sum(side) for side in zip(*(dram_model(step, **shape, e=e) for step in steps)))
    model, floor = model_read + model_write, floor_bytes(**shape, e=e)
    sums = [{name: sum(kernel[name] for kernel in kernels) for name in COUNTED} for kernels in runs]
    mid = {name: statistics.median(run[name] for run in sums) if sums else None for name in COUNTED}
    dram, sm = plus(mid["dram_read"], mid["dram_write"]), plus(mid["sm_read"], times(mid["tex_write"], SECTOR))
    drams, ms = [run["dram_read"] + run["dram_write"] for run in sums], [run["ns"] / 1e6 for run in sums]
    names = [kernel["name"] for kernel in runs[0]] if runs else []
    longest = max(runs[0], key=lambda kernel: kernel["ns"]) if names else {"name": "", "grid": [], "block": []}
    blocks, threads, waves = math.prod(longest["grid"]), math.prod(longest["block"]), longest.get("waves")
    tile = tile_of(longest["name"], threads)
    streamed = sm_model(tile, **shape, causal=case["causal"], e=e)
    return {
        "part": part, "impl": case["impl"], "step": steps[0] if part == "kernel" else "all",
        **{name: case[name] for name in QWEN},
        "read_mib": mib(mid["dram_read"]), "write_mib": mib(mid["dram_write"]), "dram_mib": mib(dram),
        "model_read_mib": mib(model_read), "model_write_mib": mib(model_write), "model_mib": mib(model),
        "read_off_pct": off_pct(mid["dram_read"], model_read), "off_pct": off_pct(dram, model),
        "floor_mib": mib(floor), "floor_ratio": None if dram is None else dram / floor,
        "sm_mib": mib(sm), "sm_model_mib": mib(streamed), "sm_off_pct": off_pct(sm, streamed),
        "l2_mib": mib(mid["l2"]), "l2_off_pct": off_pct(mid["l2"], streamed),
        "l2_sm_mib": mib(times(plus(mid["tex_read"], mid["tex_write"]), SECTOR)),
        "Br": tile and tile[0], "Bc": tile and tile[1],
        "grid": "x".join(map(str, longest["grid"])) or None, "block": threads if names else None, "waves": waves,
        "kv_at_work_mib": mib(kv_at_work(tile, blocks, waves, sms, **shape, e=e)),
        "ms": statistics.median(ms) if ms else None, "ms_min": min(ms, default=None), "ms_max": max(ms, default=None),
        "dram_gbps": None if dram is None else dram / mid["ns"],
        "spread_pct": 100 * (max(drams) - min(drams)) / dram if dram else None,
        "read_bytes": mid["dram_read"], "write_bytes": mid["dram_write"], "sm_bytes": sm, "l2_bytes": mid["l2"],
        "model_bytes": model, "sm_model_bytes": streamed, "floor_bytes": floor,
        "kernels": len(names), "kernel": names[0] if len(names) == 1 else once([short(name) for name in names]), "status": status,
    }


def measure():
    """Yields one flat dict a row, all of them when ncu has finished. Raises NoCounters where counters cannot be read."""
    import torch

    ncu = find_ncu()
    device = torch.cuda.current_device()
    card = torch.cuda.get_device_properties(device)
    release()
    print(f"{len(cases())} cases, {RUNS} runs each, under ncu: no row appears until all are counted", file=sys.stderr, flush=True)
    kernels, found, passes = count(ncu, metrics_of(card.major), __file__, counted_child, device)
    yield from rows_of(kernels, found, passes, card.multi_processor_count, getattr(card, "L2_cache_size", None), version_of(ncu))


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured. GB are 10^9 bytes.

    *_leaves_floor_S: the S from which on reads exceed q, k and v by more than 5 %. *_off_pct: the largest deviation, with sign.
    """
    def totals(impl, **fields):
        return [row for row in rows if row["part"] == "total" and row["impl"] == impl and row["status"] == "ok"
                and all(row[name] == value for name, value in fields.items())]

    def at(impl, column, causal=False):
        return next((row[column] for row in totals(impl, S=SHOWN, causal=causal)), None)

    def worst(found, column):
        return max((row[column] for row in found if row[column] is not None), key=abs, default=None)

    def leaves_floor(impl, causal):
        beyond = None
        for row in sorted(totals(impl, causal=causal), key=lambda row: -row["S"]):
            if row["read_off_pct"] <= 5:
                break
            beyond = row["S"]
        return beyond

    naive, flash = at("naive", "dram_mib"), at("flash", "dram_mib")
    ok = [row for row in rows if row["status"] == "ok"]
    return {
        **{f"{impl}_{name}_gb": gb(at(impl, f"{name}_bytes")) for impl in STEPS for name in ("read", "write", "sm", "l2")},
        "flash_sm_model_gb": gb(at("flash", "sm_model_bytes")), "floor_gb": gb(floor_bytes(1, 28, SHOWN, 128)),
        "naive_model_gb": gb(at("naive", "model_bytes")),
        "ratio": naive / flash if naive and flash else None, "ratio_predicted": 1 + 1.5 * SHOWN / QWEN["d"],
        "naive_off_pct": worst([row for row in totals("naive") if row["S"] >= SHOWN], "off_pct"),
        "flash_sm_off_pct": worst(totals("flash"), "sm_off_pct"), "cudnn_sm_off_pct": worst(totals("cudnn"), "sm_off_pct"),
        "flash_l2_off_pct": worst(totals("flash", causal=False), "l2_off_pct"),
        **{f"{impl}_leaves_floor_S": leaves_floor(impl, False) for impl in ("flash", "cudnn")},
        **{f"{impl}_causal_leaves_floor_S": leaves_floor(impl, True) for impl in ("flash", "cudnn")},
        **{f"{impl}_{name}": at(impl, name) for impl in ("flash", "cudnn") for name in ("Br", "Bc", "kernel")},
        "l2_cache_mib": next((row["l2_cache_mib"] for row in rows), None),
        "spread_pct": worst(ok, "spread_pct"), "passes": next((row["passes"] for row in rows), None),
        "runs": RUNS, "ncu": next((row["ncu"] for row in rows), None),
    }


def header(part):
    """The lines above the first row of a part."""
    return {
        "total": "B = 1, 28 heads, d = 128, bf16. MiB (2^20 bytes). DRAM: read, written, off = measured / model - 1, times the floor.\n"
                 "SMs: what the multiprocessors load and store, off against the tile model; L2: what is looked up there\n"
                 "causal      S  impl      read    write    off %  x floor       SMs    off %        L2      ms  tile     kernel",
        "kernel": f"\nStep by step at S = {SHOWN}\n"
                  "causal  step         read    model    write    model    GB/s      ms  kernel",
    }[part]


def line(row):
    """A row as text; empty for the single steps of other lengths."""
    kernel = short(row["kernel"] or "-")[:40] if row["kernels"] < 2 else f"{row['kernels']} kernels"
    tile = f"{row['Br']}x{row['Bc']}" if row["Br"] else "-"
    if row["status"] != "ok":
        return f"{yes_no(row['causal']):>6} {row['S']:6}  {row['impl']:6}  {row['status']}"
    if row["part"] == "total":
        return (f"{yes_no(row['causal']):>6} {row['S']:6}  {row['impl']:6}{cell(row['read_mib'], 8)} {cell(row['write_mib'], 8)} {cell(row['off_pct'], 8)} "
                f"{cell(row['floor_ratio'], 8, 2)} {cell(row['sm_mib'], 9)} {cell(row['sm_off_pct'], 8)} {cell(row['l2_mib'], 9)} {cell(row['ms'], 7, 3)}  {tile:7}  {kernel}")
    if row["S"] == SHOWN:
        return (f"{yes_no(row['causal']):>6}  {row['step']:8}{cell(row['read_mib'], 9)} {cell(row['model_read_mib'], 8)} {cell(row['write_mib'], 8)} "
                f"{cell(row['model_write_mib'], 8)} {cell(row['dram_gbps'], 7, 0)} {cell(row['ms'], 7, 3)}  {kernel}")
    return ""


def footer(found):
    """What values() found, as lines."""
    def said(name, digits=2):
        return "-" if found[name] is None else f"{found[name]:.{digits}f}"

    def since(name):
        return f"from S = {found[name]} on" if found[name] else "nowhere here"

    return "\n".join((
        f"S = {SHOWN}: naive {said('naive_read_gb')} GB read and {said('naive_write_gb')} written, flash {said('flash_read_gb', 4)} and {said('flash_write_gb', 4)}: "
        f"naive moves {said('ratio', 1)} times the bytes, predicted {said('ratio_predicted', 1)}",
        f"flash between SMs and L2: {said('flash_sm_gb')} GB, the tile model says {said('flash_sm_model_gb')}; looked up in L2: {said('flash_l2_gb')}",
        f"reads exceed q, k, v by 5 %: flash {since('flash_leaves_floor_S')}, causal {since('flash_causal_leaves_floor_S')}; "
        f"cuDNN {since('cudnn_leaves_floor_S')}, causal {since('cudnn_causal_leaves_floor_S')}",
        f"ncu {found['ncu']}, passes: {found['passes']}, runs: {found['runs']}, differing by at most {said('spread_pct')} %",
    ))


def gb(size):
    return None if size is None else size / 1e9


def plus(a, b):
    return None if a is None or b is None else a + b


def times(a, b):
    return None if a is None else a * b


def off_pct(measured, model):
    """Measured over model, less one, in percent; None where one is missing."""
    return None if measured is None or not model else 100 * (measured / model - 1)


def main(argv=None):
    """Command line. Exit status 2 and one line on stderr where it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the GPU, as PyTorch counts them (0)")
    parser.add_argument("--counted_child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.counted_child:
        counted_child(options.counted_child, options.device)
        return 0
    problem = gpu_problem(options.device)
    if problem:
        return stop(problem)
    import torch

    if torch.version.hip:
        return stop("ncu counts on NVIDIA GPUs only, and this is a ROCm build.")
    torch.cuda.set_device(options.device)
    warned(company())
    try:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, ncu {version_of(find_ncu())}", flush=True)
        check()
        print("check: naive, flash and cuDNN agree with fp64 attention, with and without mask\n", flush=True)
        print("\n" + footer(values(report(measure(), header, line))), flush=True)
    except NoCounters as why:
        return stop(str(why))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
