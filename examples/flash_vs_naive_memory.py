"""How much memory does attention take? The naive version against FlashAttention, predicted to the byte, then measured.

Both sides compute softmax(q kᵀ / sqrt(d)) v on the attention shape of Qwen2.5-7B (28 query heads, 28 or 4 KV heads,
d = 128, B = 1, bf16), with the same mask, and are shown to give the same numbers before their memory is compared.

    python flash_vs_naive_memory.py                      a CUDA GPU of compute capability 8.0 or newer; about 20 s on an H200
    python flash_vs_naive_memory.py --predict --gib 24   the formulas alone: no GPU, no PyTorch
    python flash_vs_naive_memory.py --device cpu         without a GPU: resident memory of a child process a row

What is counted: the bytes that PyTorch's allocator was asked for, at their peak, above a baseline taken before q, k and v
exist (`requested_bytes.all.peak`). The allocator hands out more, in whole blocks (`allocated_bytes`, shown beside it), the
cuBLAS workspace belongs to the baseline, and the CUDA context is in neither: nvidia-smi shows more than this table.
Sources: the forward pass of PyTorch 2.11's own flash kernel, a FlashAttention-2
(aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp), and Dao, arXiv 2307.08691.
Left out: the backward pass, dropout, and S = 1, where PyTorch regroups the heads. MiB is 2^20 bytes.
"""

import argparse
import gc
import json
import math
import os
import random
import re
import subprocess
import sys

try:
    from kit.card import ended, gpu_problem, stop
    from kit.errors import reference, relative_difference
    from kit.inputs import BYTES, check_input, inputs, SEED
    from kit.kernels import kernels_of, once, short, shortened
    from kit.memory import attempt, GIB, mib, MIB, minus, release, SAID
    from kit.proof import company, warned
    from kit.sizes import kv_splits, largest_S, round_up
    from kit.table import cell, report, yes_no
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/flash_vs_naive_memory.py of the lesson's site.", file=sys.stderr) or 2)

CAP_GIB = 24
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
HEADS = ((28, False), (4, False), (4, True))               # (KV heads, causal)
QWEN = {"B": 1, "heads": 28, "kv_heads": 28, "S": 1024, "d": 128, "dtype": "bf16", "causal": False}


# The two sides.

def naive(q, k, v, causal=False):
    """Attention as the textbook writes it; naive_bytes() is the formula of exactly this function.

    q [B, H, S, d], k and v [B, H_kv, S, d], one dtype and device. Returns o [B, H, S, d].
    KV heads are copied until there are H of them; the mask is one S x S tensor of bool and is applied in place. It is made
    before the scores: made after the division, it would be cut out of the block that the raw product has just left, and p
    would need a third block of that size (on an H200 that ran out of memory at S = 32768, where two are 112 GiB).
    """
    import torch

    check_input(q, k, v, causal)
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


def flash(q, k, v, causal=False):
    """The same function by PyTorch's flash kernel and no other. Shapes as in naive(); flash_bytes() is its formula.

    Raises RuntimeError (No available kernel) where the kernel cannot run, instead of taking another one silently.
    """
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    check_input(q, k, v, causal)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


# The formulas: bytes requested at the peak, q, k, v and o included.

def naive_moments(B, heads, kv_heads, S, d, e=2, causal=False):
    """The bytes alive in naive(), moment by moment, as {moment: bytes}. e is the bytes of an element.

    inputs    q, k, v, and the expanded k and v when there are fewer KV heads than query heads
    mask      S² bytes, one a position, shared by all heads; its name lives until the end
    square    one tensor of scores, B·H·S²·e. Two live at a time: first the raw product and s, then s and p
              (the raw product is freed as soon as the division is done; s is held by its name until the end as well)
    output    o, B·H·S·d·e, made while s and p still live: that is the peak
    """
    rows = B * heads * S * d * e
    inputs = rows + 2 * B * kv_heads * S * d * e + (2 * rows if kv_heads < heads else 0)
    square = B * heads * S * S * e
    mask = S * S if causal else 0
    return {
        "mask": inputs + mask,
        "q @ k.T": inputs + mask + square,
        "s = ... / sqrt(d)": inputs + mask + 2 * square,
        "p = softmax(s)": inputs + mask + 2 * square,
        "o = p @ v": inputs + mask + 2 * square + rows,
    }


def naive_bytes(B, heads, kv_heads, S, d, e=2, causal=False):
    """The peak of naive(). With as many KV heads as query heads and no mask: 2·B·H·S²·e + 4·B·H·S·d·e."""
    return max(naive_moments(B, heads, kv_heads, S, d, e, causal).values())


def flash_bytes(B, heads, kv_heads, S, d, e=2, sms=132):
    """The peak of flash() on a CUDA GPU with `sms` multiprocessors; a mask costs nothing. S > 1, d up to 256.

    inputs         q, k, v
    padded         copies of q, k, v when d is not a multiple of 8: the kernel reads 16 bytes at a time
    output         o; its rows are as wide as the padded ones
    lse            4 bytes (fp32) for each query: m + ln l
    rng            24 bytes: the seed and offset that dropout would use, made even without dropout
    accumulators   with n > 1 parts (kv_splits), a partial o and lse of each part in fp32, the rows rounded up to 32
                   elements, above 128 to 64 (PyTorch 2.11; it has rounded otherwise before)
    """
    d8 = round_up(d, 8)
    inputs = (B * heads + 2 * B * kv_heads) * S * d * e
    padded = (B * heads + 2 * B * kv_heads) * S * d8 * e if d8 > d else 0
    output = B * heads * S * d8 * e
    lse = 4 * B * heads * S
    rng = 24
    n = kv_splits(B, heads, S, d8, sms)
    accumulators = 4 * n * B * heads * S * (1 + round_up(d8, 32 if d8 <= 128 else 64)) if n > 1 else 0
    return inputs + padded + output + lse + rng + accumulators


def predicted(shape, sms=132):
    """(naive, flash) in bytes for a shape like QWEN."""
    B, heads, kv_heads, S, d = (shape[name] for name in ("B", "heads", "kv_heads", "S", "d"))
    e = BYTES[shape["dtype"]]
    return naive_bytes(B, heads, kv_heads, S, d, e, shape["causal"]), flash_bytes(B, heads, kv_heads, S, d, e, sms)


def predicted_table(gib):
    """The table of the formulas for a card of `gib` GiB, as text of at most 72 columns."""
    out = [
        f"Predicted by formula, not measured: a card of {gib:g} GiB",
        "B = 1, 28 query heads, d = 128, bf16. MiB = 2^20 bytes.",
        "",
        "KV heads  causal       S   naive MiB  flash MiB   ratio  naive fits",
    ]
    for kv_heads, causal in HEADS:
        for S in LENGTHS:
            a, b = predicted({**QWEN, "kv_heads": kv_heads, "causal": causal, "S": S})
            fits = "yes" if a <= gib * GIB else "no"
            out.append(f"{kv_heads:8}  {yes_no(causal):>6}  {S:6}  {a / MIB:10.1f}  {b / MIB:9.1f}  {a / b:6.1f}  {fits:>10}")
        shape = {**QWEN, "kv_heads": kv_heads, "causal": causal}
        most = [largest_S(gib * GIB, lambda S: predicted({**shape, "S": S})[side]) for side in (0, 1)]
        out += [f"          the largest S in {gib:g} GiB: naive {most[0]}, flash {most[1]}", ""]
    out += [
        "q, k, v and o are included. The CUDA context, the cuBLAS workspace",
        "and all else on the card come on top, so a real card holds less.",
    ]
    return "\n".join(out)


def random_shapes(count=100, seed=SEED):
    """`count` shapes, the same for the same seed: half of them small, where the kernel splits K and V."""
    rng = random.Random(seed)
    shapes = []
    for i in range(count):
        small = i % 2 == 0
        group, kv_heads = rng.choice((1, 1, 2, 4, 7)), rng.randint(1, 2 if small else 4)
        shapes.append({
            "B": 1 if small else rng.randint(1, 4), "heads": group * kv_heads, "kv_heads": kv_heads,
            "S": rng.randint(130, 1500) if small else rng.randint(2, 2000),
            "d": rng.choice((32, 64, 96, 128, 160, 192, 256)) if rng.random() < 0.5 else rng.randint(8, 256),
            "dtype": rng.choice(("bf16", "fp16")), "causal": rng.random() < 0.5,
        })
    return shapes


# The check: same numbers first.

def check(attention=flash, baseline=naive, device=None, S=None):
    """Raises AssertionError unless both sides compute attention: |flash16 - ref64| <= 2·|naive16 - ref64| + 1e-5.

    The largest difference counts, with 28/28 heads, with 28/4, and with 28/4 and a causal mask. The baseline has to be
    within 2 % of the reference itself (relative, Frobenius norm), or the rule would allow anything.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    S = S or (1024 if torch.device(device).type == "cuda" else 128)
    for kv_heads, causal in HEADS:
        case = f"kv_heads={kv_heads}, causal={causal}, S={S}"
        q, k, v = inputs({**QWEN, "kv_heads": kv_heads, "S": S}, device)
        ref = reference(q, k, v, causal)
        off_naive, off_flash = baseline(q, k, v, causal).double() - ref, attention(q, k, v, causal).double() - ref
        rel_err = (off_naive.norm() / ref.norm()).item()
        if not rel_err <= 0.02:
            raise AssertionError(f"naive is not attention: relative error {rel_err:.1e} against fp64 ({case})")
        worst, allowed = off_flash.abs().max().item(), 2 * off_naive.abs().max().item() + 1e-5
        if not worst <= allowed:
            raise AssertionError(f"flash is off by {worst:.1e}, allowed are {allowed:.1e} ({case})")


# The measurement.

def weigh(attention, shape):
    """Peak bytes (requested, allocated) of q, k, v and attention(q, k, v) above what was alive before, and o itself."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    q, k, v = inputs(shape)                                # named: from Python 3.12 on, *arguments are freed too early
    o = attention(q, k, v, shape["causal"])
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    requested, allocated = (after[f"{kind}_bytes.all.peak"] - before[f"{kind}_bytes.all.current"] for kind in ("requested", "allocated"))
    return requested, allocated, o


def call_of(side, shape):
    """side() on tensors that are made without a kernel, for which_kernel()."""
    return lambda: side(*inputs(shape, filled=False), shape["causal"])


def warm_up():
    """Run every path once, so that what libraries keep for good is there before the first baseline. Returns those MiB.

    The first matmul makes cuBLAS keep a workspace (32 MiB on an H200, 8.125 MiB on an RTX 4090). What labs before this one, in the same
    process, made it keep is dropped first: autograd's thread has one of its own.
    """
    import torch
    import torch.nn.functional as F

    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    release()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    for dtype in ("bf16", "fp16"):
        for kv_heads, causal in HEADS:
            for d in (128, 100):
                small = inputs({**QWEN, "kv_heads": kv_heads, "S": 256, "d": d, "dtype": dtype})
                relative_difference(naive(*small, causal), flash(*small, causal))
    small = inputs({**QWEN, "S": 256})
    F.scaled_dot_product_attention(*small)
    del small
    torch.cuda.synchronize()
    release()
    return (torch.cuda.memory_stats()["requested_bytes.all.current"] - before) / MIB


def pair_row(part, shape, sms, kernels=None):
    """One row: both sides weighed on one shape, their outputs compared, their kernels named (or given)."""
    naive_peak, naive_alloc, naive_o = attempt(weigh, naive, shape) or (None, None, None)
    flash_peak, flash_alloc, flash_o = attempt(weigh, flash, shape) or (None, None, None)
    both = naive_peak is not None and flash_peak is not None
    rel_err = relative_difference(flash_o, naive_o) if both else None
    del naive_o, flash_o
    if rel_err is not None and not rel_err <= 0.02:
        raise AssertionError(f"naive and flash differ by {rel_err:.1e} (relative, Frobenius norm) on {shape}")
    if kernels is None:
        calls = {side: call_of({"naive": naive, "flash": flash}[side], shape) for side, peak in (("naive", naive_peak), ("flash", flash_peak)) if peak is not None}
        seen = attempt(kernels_of, *calls.values()) or attempt(kernels_of, *calls.values()) or [[] for _ in calls]   # again with the cache emptied
        kernels = dict(zip(calls, seen))
        release()
    naive_predicted, flash_predicted = predicted(shape, sms)
    return {
        "part": part, **shape,
        "naive_mib": mib(naive_peak), "flash_mib": mib(flash_peak),
        "naive_predicted_mib": mib(naive_predicted), "flash_predicted_mib": mib(flash_predicted),
        "naive_diff_bytes": minus(naive_predicted, naive_peak), "flash_diff_bytes": minus(flash_predicted, flash_peak),
        "naive_alloc_mib": mib(naive_alloc), "flash_alloc_mib": mib(flash_alloc),
        "delta_bytes": minus(naive_peak, flash_peak), "ratio": naive_peak / flash_peak if both else None, "rel_err": rel_err,
        "naive_kernel": once([short(name) for name in kernels.get("naive", [])]), "kernel": once(kernels.get("flash", [])),
        "status": "ok" if both else "oom",
    }


def default_row(workspace_mib):
    """What scaled_dot_product_attention takes at S = 4096 when nobody forces a backend."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend

    def default(q, k, v, causal):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    shape = {**QWEN, "S": 4096}
    peak = (attempt(weigh, default, shape) or (None,))[0]
    q, k, v = inputs(shape)
    choice = torch._fused_sdp_choice(q, k, v, None, 0.0, False)
    backend = {int(member.value): name for name, member in SDPBackend.__members__.items()}.get(int(choice), str(choice))
    return {
        "part": "default", **shape, "default_mib": mib(peak), "backend": backend, "workspace_mib": workspace_mib,
        "kernel": None if peak is None else once(kernels_of(lambda: default(q, k, v, False))[0]), "status": "oom" if peak is None else "ok",
    }


def random_rows(sms):
    """The rows of random_shapes(). The kernels of all of them are seen in one session of the profiler, before."""
    shapes = random_shapes()
    calls = [call_of(side, shape) for shape in shapes for side in (naive, flash)]
    seen = attempt(kernels_of, *calls) or [[] for _ in calls]
    for shape, naive_kernels, flash_kernels in zip(shapes, seen[::2], seen[1::2]):
        yield pair_row("random", shape, sms, {"naive": naive_kernels, "flash": flash_kernels})


# A smaller card, emulated: PyTorch's allocator may reserve no more than 24 GiB, in a fresh process a row.

def start_capped(count=5):
    """`count` child processes that import PyTorch and wait for a job; none on a card that is not larger than the cap."""
    import torch

    if torch.cuda.mem_get_info()[1] < (CAP_GIB + 2) * GIB or "__file__" not in globals():
        return []
    return [child_process(capped_child) for _ in range(count)]


def child_process(work):
    """This file again, in a process of its own that runs work(): it reads a line of JSON and answers with one."""
    command = [sys.executable, os.path.abspath(__file__), "--child", work.__name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def send(child, job):
    child.stdin.write(json.dumps(job) + "\n")
    child.stdin.flush()


def answer(child, seconds=240):
    """The child's JSON. Raises RuntimeError with its last line of stderr when it failed, MemoryError when it was killed."""
    out, err = child.communicate(timeout=seconds)
    if child.returncode < 0:
        raise MemoryError(f"a child process was ended by signal {-child.returncode}")
    if child.returncode:
        raise RuntimeError(f"a child process failed: {(err.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(out.strip().splitlines()[-1])


def reply(result):
    """What a child answers."""
    sys.stdout.write(json.dumps(result) + "\n")


def give_jobs(children, workspace_mib):
    """Cut the rows of the emulated card into batches that fit on this one together, and start the first.

    naive around the S of the arithmetic in steps of 32, flash at S = 131072; a batch is a list of (child, job).
    """
    import torch

    near = arithmetic_S(CAP_GIB, workspace_mib) // 32 * 32
    jobs = [("flash", 131072), *(("naive", near + step) for step in (-32, 0, 32, 64))]
    jobs = [{"impl": impl, "S": S, "cap_gib": CAP_GIB, "device": torch.cuda.current_device()} for impl, S in jobs]
    at_once = max(1, int((torch.cuda.mem_get_info()[0] - 4 * GIB) // ((CAP_GIB + 1) * GIB)))
    pairs = list(zip(children, jobs))
    batches = [pairs[i : i + at_once] for i in range(0, len(pairs), at_once)]
    for child, job in batches[0] if batches else []:
        send(child, job)
    return batches


def capped_rows(batches):
    """The rows of the emulated card as the children answer; the first batch is at work already."""
    for i, batch in enumerate(batches):
        for child, job in batch if i else []:
            send(child, job)
        for child, _ in batch:
            yield answer(child)


def capped_child():
    """One row of the emulated card. The fraction limits what the allocator reserves; the CUDA context is not in it."""
    import torch

    job = json.loads(sys.stdin.readline() or "null")
    if job is None:
        return
    torch.cuda.set_device(job["device"])
    torch.cuda.set_per_process_memory_fraction((job["cap_gib"] * GIB + 0.5) / torch.cuda.mem_get_info()[1])
    workspace_mib = warm_up()
    side, shape = {"naive": naive, "flash": flash}[job["impl"]], {**QWEN, "S": job["S"]}
    sms = torch.cuda.get_device_properties(job["device"]).multi_processor_count
    size = dict(zip(("naive", "flash"), predicted(shape, sms)))[job["impl"]]
    peak = (attempt(weigh, side, shape) or (None,))[0]
    reserved = torch.cuda.memory_stats()["reserved_bytes.all.peak"]
    release()
    reply({
        "part": "cap", "impl": job["impl"], **shape, "cap_gib": job["cap_gib"], "peak_mib": mib(peak), "predicted_mib": mib(size),
        "diff_bytes": minus(size, peak), "reserved_mib": mib(reserved), "workspace_mib": workspace_mib,
        "kernel": None if peak is None else once(kernels_of(call_of(side, shape))[0]), **({"status": "oom", "oom": SAID[-1]} if peak is None else {"status": "ok"}),
    })


def arithmetic_S(cap_gib, workspace_mib):
    """The largest S whose naive peak fits into the cap beside the cuBLAS workspace, by the formula alone (28/28 heads).

    With 32 MiB of workspace and 24 GiB: 15031. The allocator reserves memory in steps of 2 MiB, and q, k, v, o and the two
    squares each end in a part of such a step, so the true limit lies a little below: 15029.
    """
    return largest_S(cap_gib * GIB - workspace_mib * MIB, lambda S: predicted({**QWEN, "S": S})[0])


# Without a GPU: the resident memory of a child process, where S² shows as well.

def resident_rows(lengths=LENGTHS[:3]):
    """Rows measured on a CPU in fp32: both sides at 28/28 heads, a child process each, as long as memory suffices."""
    for S in lengths:
        shape = {**QWEN, "S": S, "dtype": "fp32"}
        sizes = resident_bytes(shape)
        row = {"part": "resident", **shape, "naive_mib": None, "flash_mib": None,
               "naive_predicted_mib": mib(sizes[0]), "flash_predicted_mib": mib(sizes[1]), "ratio": None, "kernel": None, "status": "ok"}
        for impl in ("naive", "flash"):
            if sizes[impl == "flash"] > 0.7 * available_bytes():
                row["status"] = "oom"
                continue
            child = child_process(resident_child)
            try:
                send(child, {"impl": impl, "S": S})
                found = answer(child, 600)
            except MemoryError:
                row["status"] = "oom"
                continue
            finally:
                child.kill()
            row.update({f"{impl}_mib": found["peak_mib"], "kernel": found["kernel"]})
        if row["status"] == "ok":
            row["ratio"] = row["naive_mib"] / row["flash_mib"] if row["flash_mib"] else None
        yield row


def resident_bytes(shape):
    """(naive, flash) predicted for a CPU: as on a GPU, without what only the CUDA kernel makes (q, k, v, o and lse stay)."""
    B, heads, kv_heads, S, d, e = (*(shape[name] for name in ("B", "heads", "kv_heads", "S", "d")), BYTES[shape["dtype"]])
    return naive_bytes(B, heads, kv_heads, S, d, e, shape["causal"]), 2 * B * (heads + kv_heads) * S * d * e + 4 * B * heads * S


def resident_child():
    """Peak resident memory of one side above that of this process after a small run, and the operator that ran."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):
        seen = []

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            self.seen.append(operator.name())
            return operator(*args, **(kwargs or {}))

    job = json.loads(sys.stdin.readline() or "null")
    if job is None:
        return
    side = {"naive": naive, "flash": flash}[job["impl"]]
    small = inputs({**QWEN, "S": 64, "dtype": "fp32"}, "cpu")
    with Operators():
        side(*small)
    before = max_resident_bytes()
    q, k, v = inputs({**QWEN, "S": job["S"], "dtype": "fp32"}, "cpu")
    Operators.seen.clear()
    with Operators():
        side(q, k, v)
    peak = max_resident_bytes() - before
    kernel = next((name for name in Operators.seen if "scaled_dot_product" in name), None) or once(Operators.seen)
    reply({"peak_mib": mib(peak), "kernel": kernel})


def max_resident_bytes():
    """The most memory this process has had resident.

    Linux: VmHWM. ru_maxrss would do on macOS alone (in bytes; elsewhere in KiB): on Linux a child inherits its parent's.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (FileNotFoundError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def available_bytes():
    """Memory for a new process: what Linux and its control group leave; elsewhere half of what the machine has."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (FileNotFoundError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as most, open("/sys/fs/cgroup/memory.current", encoding="ascii") as now:
            return min(free, int(most.read()) - int(now.read()))
    except (FileNotFoundError, ValueError):                # no control group, or one without a limit ("max")
        return free


# Rows, values and text.

def measure():
    """Yields one flat dict a row. On a GPU: the grid, the default backend, 100 random shapes, the 24 GiB emulation."""
    import torch

    if not torch.cuda.is_available():
        yield from resident_rows()
        return
    release()
    gc.freeze()                                            # what is imported stays: the collections of release() need not walk it again
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    children = start_capped()
    try:
        workspace_mib = warm_up()
        for kv_heads, causal in HEADS:
            for S in LENGTHS:
                yield pair_row("grid", {**QWEN, "kv_heads": kv_heads, "causal": causal, "S": S}, sms)
        release()
        batches = give_jobs(children, workspace_mib)       # they work while this process measures what needs little memory
        yield default_row(workspace_mib)
        yield from random_rows(sms)
        yield from capped_rows(batches)
    finally:
        for child in children:
            child.kill()


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def part(name, **fields):
        return [row for row in rows if row["part"] == name and all(row[key] == value for key, value in fields.items())]

    def misses(name):
        sides = ("naive_diff_bytes", "flash_diff_bytes")
        return sum(any(row[side] for side in sides) for row in part(name))

    default = next(iter(part("default")), {})
    workspace_mib = default.get("workspace_mib")
    capped = part("cap")
    return {
        "grid_rows": len(part("grid")), "grid_misses": misses("grid"),
        "random_shapes": len(part("random")), "random_misses": misses("random"),
        "random_splits": sum("splitkv" in (row["kernel"] or "") for row in part("random")),
        "workspace_mib": workspace_mib,
        "default_kernel": default.get("kernel"), "default_backend": default.get("backend"),
        "cap_arithmetic_S": arithmetic_S(CAP_GIB, workspace_mib) if capped else None,
        "cap_last_fit_S": max((row["S"] for row in part("cap", impl="naive", status="ok")), default=None),
        "cap_first_fail_S": min((row["S"] for row in part("cap", impl="naive", status="oom")), default=None),
        "cap_flash_S": max((row["S"] for row in part("cap", impl="flash", status="ok")), default=None),
    }


def header(part):
    """The lines above the first row of a part."""
    return {
        "grid": "B = 1, 28 query heads, d = 128, bf16. Peak MiB (2^20 bytes) above the baseline; off = predicted - measured, in bytes\n"
                "KV heads  causal      S  naive MiB      off  flash MiB      off  ratio  status  flash kernel",
        "default": "\nWhat scaled_dot_product_attention takes when nothing is forced",
        "random": "\n100 random shapes (only those the formulas miss are listed)",
        "cap": f"\nA card of {CAP_GIB} GiB, emulated: the allocator may reserve no more, a fresh process a row (the CUDA context is not in it)",
        "resident": "No CUDA: peak RESIDENT memory of a child process a row, on the CPU, in fp32 (not GPU memory; a few MiB of it are the process)\n"
                    "     S  naive MiB  predicted  flash MiB  predicted  ratio  status  flash operator",
    }[part]


def line(row):
    """A row as text; empty for a random shape that the formulas hit."""
    kernel = shortened(row["kernel"])
    if row["part"] in ("grid", "random"):
        text = (f"{row['kv_heads']:8}  {yes_no(row['causal']):>6} {row['S']:6} {cell(row['naive_mib'], 10)} {cell(row['naive_diff_bytes'], 8, 0)} "
                f"{cell(row['flash_mib'], 10)} {cell(row['flash_diff_bytes'], 8, 0)} {cell(row['ratio'], 6)}  {row['status']:6}  {kernel}")
        if row["part"] == "grid":
            return text
        missed = row["naive_diff_bytes"] or row["flash_diff_bytes"] or row["status"] != "ok"
        return f"{text}  B={row['B']} heads={row['heads']} d={row['d']} {row['dtype']}" if missed else ""
    if row["part"] == "default":
        return f"S = {row['S']}, 28 KV heads: {cell(row['default_mib'], 0)} MiB, backend {row['backend']}, {row['status']}, {kernel}"
    if row["part"] == "cap":
        return (f"{row['impl']} S = {row['S']:6}  predicted {cell(row['predicted_mib'], 8)} MiB, measured {cell(row['peak_mib'], 8)}, "
                f"reserved {cell(row['reserved_mib'], 8)}  {row['status']:3}  {kernel if row['impl'] == 'flash' else ''}").rstrip()
    return (f"{row['S']:6} {cell(row['naive_mib'], 10)} {cell(row['naive_predicted_mib'], 10)} {cell(row['flash_mib'], 10)} "
            f"{cell(row['flash_predicted_mib'], 10)} {cell(row['ratio'], 6)}  {row['status']:6}  {kernel}")


def footer(found):
    """What values() found, as lines."""
    lines = []
    if found["random_shapes"]:
        lines.append(f"{found['random_misses']} of {found['random_shapes']} random shapes and {found['grid_misses']} of {found['grid_rows']} rows "
                     f"missed; {found['random_splits']} of the shapes split K and V")
    if found["workspace_mib"] is not None:
        lines.append(f"cuBLAS workspace, in the baseline: {found['workspace_mib']:g} MiB")
    if found["cap_arithmetic_S"]:
        lines.append(f"naive in {CAP_GIB} GiB: fits at S = {found['cap_last_fit_S']}, fails at {found['cap_first_fail_S']}, by arithmetic the last is "
                     f"{found['cap_arithmetic_S']}; flash runs at {found['cap_flash_S']}")
    elif found["random_shapes"]:
        lines.append(f"No emulation of {CAP_GIB} GiB: this card is not larger than that.")
    return "\n".join(lines)


def main(argv=None):
    """Command line. Exit status 2 and one line on stderr where it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", action="store_true", help="print the table of the formulas and stop (no GPU, no PyTorch)")
    parser.add_argument("--gib", type=float, default=24, help="memory of the card for --predict, in GiB (24)")
    parser.add_argument("--device", default="cuda:0", help="cuda:N as PyTorch counts them, or cpu (cuda:0)")
    parser.add_argument("--child", choices=["capped_child", "resident_child"], help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.predict:
        print(predicted_table(options.gib))
        return 0
    if options.child:
        {"capped_child": capped_child, "resident_child": resident_child}[options.child]()
        return 0
    found = re.fullmatch(r"(?:cuda:?)?(\d*)|cpu", options.device)
    if not found:
        parser.error(f"--device {options.device}: write cuda:0 or cpu")
    try:
        import torch
    except ImportError:
        return stop(gpu_problem())
    index = int(found[1] or 0)
    problem = "asked for" if options.device == "cpu" else gpu_problem(index)
    if problem and options.device != "cpu" and torch.cuda.is_available():
        return stop(problem)
    if problem:
        if options.device != "cpu":
            print(problem)
        if not hasattr(os, "sysconf"):
            return stop("Without a GPU this counts resident memory as Linux and macOS tell it, and this system does not. Use WSL, or --predict.")
        check(device="cpu")
        report(resident_rows(), header, line)
        return 0
    torch.cuda.set_device(index)
    if torch.version.hip:
        print("ROCm build: the formula of flash describes the CUDA kernel; here its prediction is off.")
    print(f"{torch.cuda.get_device_name(index)}, PyTorch {torch.__version__}", flush=True)
    warned(company())
    check()
    print("check: naive and flash agree with fp64 attention, 28/28 and 28/4 heads, with and without mask", flush=True)
    print("\n" + footer(values(report(measure(), header, line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
