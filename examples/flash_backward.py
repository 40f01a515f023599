"""The backward pass: what naive attention keeps for it and flash does not, in bytes, in time, and in forty lines of PyTorch.

Naive attention keeps the S x S probabilities between the two passes. Flash keeps o and one number a row, lse = m + ln l, and
computes each tile of p again: p = exp(s - lse). That costs a fifth matmul beside the four of any backward pass, and saves the square.

    python flash_backward.py                      a CUDA GPU of compute capability 8.0 or newer; about 20 s on an H200
    python flash_backward.py --predict --gib 24   the byte formulas alone: no GPU, no PyTorch
    python flash_backward.py --check              the tiled backward pass against autograd, on a CPU too

Parts: "training", forward and backward on the attention shape of Qwen2.5-7B, naive and flash; "variants", grouped heads, another
layout, d and length; "default", what SDPA takes when nothing is forced; "determinism", ten backward passes on the same numbers.
What is counted: bytes requested from PyTorch's allocator at their peak, above a baseline taken before q, k, v and do exist.
Sources: Dao, FlashAttention-2 (arXiv 2307.08691), section 3.1.2, Algorithm 2; for the bytes PyTorch 2.11,
aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_bwd) and attention_backward.cu (_flash_attention_backward).
Left out: dropout, S_q other than S_kv, d not a multiple of 8. MiB is 2^20 bytes.
"""

import argparse
import contextlib
import gc
import math
import sys
import warnings

try:
    from kit.backends import BACKENDS, only, sdpa
    from kit.card import ended, gpu_problem, stop
    from kit.errors import reference, relative_difference
    from kit.inputs import BYTES, check_input, SEED
    from kit.kernels import short, which_kernel
    from kit.memory import attempt, GIB, mib, minus, release
    from kit.proof import company, warned
    from kit.sizes import kv_splits, largest_S, round_up
    from kit.table import cell, report, yes_no
    from flash_vs_naive_memory import flash, naive
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/flash_backward.py of the lesson's site.", file=sys.stderr) or 2)

LENGTHS = (1024, 2048, 4096, 8192, 16384)
RUNS = 10
QWEN = {"B": 1, "heads": 28, "kv_heads": 28, "S": 1024, "d": 128, "dtype": "bf16", "causal": False, "layout": "BHSD"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}


# The algorithm: a backward pass that never holds S x S.

def tiled_forward(q, k, v, causal=False, Br=32, Bc=32):
    """(o, lse) by online softmax: all that tiled_backward() needs. q, o [B, H, S, d], k and v [B, H_kv, S, d], lse [B, H, S]."""
    import torch

    check_input(q, k, v, same_S=True)
    if min(Br, Bc) < 1:
        raise ValueError(f"Br = {Br}, Bc = {Bc}: a tile has at least one row and one column")
    S, group = q.shape[2], q.shape[1] // k.shape[1]
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    for i in range(0, S, Br):                              # outer loop: Q tiles
        q_i = q[:, :, i : i + Br]                          # [B, H, Br, d]
        m = q_i.new_full((*q_i.shape[:3], 1), -math.inf)   # [B, H, Br, 1]
        l, o_i = torch.zeros_like(m), torch.zeros_like(q_i)
        for j in range(0, min(S, i + Br) if causal else S, Bc):
            k_j, v_j = (x[:, :, j : j + Bc].repeat_interleave(group, dim=1) for x in (k, v))
            s = scores(q_i, k_j, i, j, causal)             # [B, H, Br, Bc]
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, rescale = torch.exp(s - m_new), torch.exp(m - m_new)
            l, o_i, m = rescale * l + p.sum(-1, keepdim=True), rescale * o_i + p @ v_j, m_new
        o[:, :, i : i + Br] = o_i / l
        lse[:, :, i : i + Br] = (m + torch.log(l)).squeeze(-1)
    return o, lse


def tiled_backward(q, k, v, o, lse, do, causal=False, Br=32, Bc=32):
    """(dq, dk, dv), tile by tile. p is computed again from lse; the largest tensor made is one tile or one of the gradients.

    q, o, do, dq [B, H, S, d]; k, v, dk, dv [B, H_kv, S, d]; lse [B, H, S]; one floating dtype. GQA: the G query heads of a group add
    their gradients of the KV head that they share. Raises ValueError, naming the argument, for other shapes and for tiles of nothing.
    """
    import torch

    check_input(q, k, v, same_S=True)
    for name, x, expected in (("o", o, q.shape), ("lse", lse, q.shape[:3]), ("do", do, q.shape)):
        if x.shape != expected:
            raise ValueError(f"{name} is {list(x.shape)}: {list(expected)} belongs to this q")
    if min(Br, Bc) < 1:
        raise ValueError(f"Br = {Br}, Bc = {Bc}: a tile has at least one row and one column")
    S, group, scale = q.shape[2], q.shape[1] // k.shape[1], 1 / math.sqrt(q.shape[-1])
    delta = (do * o).sum(-1, keepdim=True)                 # [B, H, S, 1], equal to the row sums of p * dp
    dq, dk, dv = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
    for j in range(0, S, Bc):                              # outer loop: KV tiles, whose gradients stay here
        k_j, v_j = (x[:, :, j : j + Bc].repeat_interleave(group, dim=1) for x in (k, v))   # [B, H, Bc, d]
        dk_j, dv_j = torch.zeros_like(k_j), torch.zeros_like(v_j)
        for i in range(j // Br * Br if causal else 0, S, Br):                              # Q tiles above the diagonal see none of it
            q_i, do_i, delta_i = (x[:, :, i : i + Br] for x in (q, do, delta))
            p = torch.exp(scores(q_i, k_j, i, j, causal) - lse[:, :, i : i + Br, None])    # [B, H, Br, Bc], matmul 1: q k^T
            dv_j += p.transpose(-2, -1) @ do_i                                             # matmul 2
            dp = do_i @ v_j.transpose(-2, -1)                                              # matmul 3
            ds = p * (dp - delta_i) * scale
            dq[:, :, i : i + Br] += ds @ k_j               # matmul 4: many KV tiles add to one dq tile: on a GPU, atomically
            dk_j += ds.transpose(-2, -1) @ q_i             # matmul 5
        dk[:, :, j : j + Bc] = of_groups(dk_j, group)
        dv[:, :, j : j + Bc] = of_groups(dv_j, group)
    return dq, dk, dv


def scores(q_i, k_j, i, j, causal):
    """One tile of q k^T / sqrt(d), with -inf where a query would see a later key. The tile starts at row i and column j."""
    import torch

    s = q_i @ k_j.transpose(-2, -1) / math.sqrt(q_i.shape[-1])                             # [B, H, Br, Bc]
    if causal:
        row = torch.arange(i, i + s.shape[-2], device=s.device)
        key = torch.arange(j, j + s.shape[-1], device=s.device)
        s = s.masked_fill(key > row[:, None], -math.inf)
    return s


def of_groups(x, group):
    """[B, H, Bc, d] -> [B, H_kv, Bc, d]: the heads of each group added up."""
    return x.unflatten(1, (-1, group)).sum(2)


def differentiable(q, k, v, causal=False, backward=tiled_backward, Br=32, Bc=32):
    """Attention as PyTorch's autograd sees it, with tiled_forward() and a backward pass of our own. Keeps q, k, v, o, lse."""
    import torch

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            o, lse = tiled_forward(q, k, v, causal, Br, Bc)
            ctx.save_for_backward(q, k, v, o, lse)
            return o

        @staticmethod
        def backward(ctx, do):
            return backward(*ctx.saved_tensors, do, causal, Br, Bc)

    return Attention.apply(q, k, v)


# The two sides, on the GPU.

def forced(backend):
    """side(q, k, v, causal) by one backend of SDPA, or by what PyTorch prefers for backend "default"."""
    def side(q, k, v, causal=False):
        with only(backend):
            return sdpa(q, k, v, causal)

    return side


# The formulas: bytes requested, q, k, v, do, o, dq, dk and dv included.

def naive_training(B, heads, kv_heads, S, d, e=2, causal=False):
    """The bytes alive in naive() and in autograd's way back through it, moment by moment, as {moment: bytes}.

    inputs    q, k, v and do; expanded: the copies of k and v when there are fewer KV heads, kept for the way back
    square    B·H·S²·e. p is kept between the passes, s is not; with a mask also S² bytes of bool
    ds        p, dp, their product, ds: PyTorch's softmax backward on CUDA writes p * dp into a tensor of its own
              (SoftMax.cu, softmax_backward_cuda_out). Four squares at once are the peak; v's copy is gone by then
    Later moments (the mask's, the division's) hold two squares, the last two matmuls one.
    """
    row, kv_row, square = B * heads * S * d * e, B * kv_heads * S * d * e, B * heads * S * S * e
    mask = S * S if causal else 0
    copy = row if kv_heads < heads else 0                  # of k, and again of v
    inputs = 2 * row + 2 * kv_row
    kept = inputs + 2 * copy + square + mask + row         # + p + mask + o
    return {
        "o = p @ v": kept + square,
        "between the passes": kept,
        "dv, dp": kept + row + square,
        "ds": kept - copy + row + 3 * square,
    }


def flash_training(B, heads, kv_heads, S, d, e=2, sms=132, layout="BHSD", deterministic=False):
    """The bytes alive in flash() and in its backward pass, moment by moment, as {moment: bytes}. A mask costs nothing. d % 8 == 0.

    between the passes   q, k, v, do, o; lse, 4 bytes a query; 24 bytes of random state, made even without dropout
    forward              with n > 1 parts (kv_splits) also a partial o and lse of each in fp32
    backward             do and o copied to [B, S, H, d], unless they have that layout; delta, 4 bytes a query, S rounded up to 128; dq
                         added up in fp32 (S rounded as well; d to 32, above 128 to 64), deterministic: once for each of the
                         sms / (B·H) blocks, rounded up, that share a head; dq, dk, dv; with fewer KV heads dk and dv of all query heads before they
                         are added up
    Raises ValueError when d is not a multiple of 8: the padded copies are not in the formula.
    """
    if d % 8:
        raise ValueError(f"d = {d} is not a multiple of 8")
    row, kv_row = B * heads * S * d * e, B * kv_heads * S * d * e
    S128, d32 = round_up(S, 128), round_up(d, 32 if d <= 128 else 64)
    kept = 2 * row + 2 * kv_row + row + 4 * B * heads * S + 24
    n = kv_splits(B, heads, S, d, sms)
    accumulators = 4 * n * B * heads * S * (1 + d32) if n > 1 else 0
    copies = 2 * row if layout == "BHSD" else 0
    dq_parts = -(-sms // (B * heads)) if deterministic else 1
    dq_fp32 = 4 * dq_parts * B * heads * S128 * d32
    gradients = row + 2 * kv_row + (2 * row if kv_heads < heads else 0)
    return {
        "forward": kept + accumulators,
        "between the passes": kept,
        "backward": kept + copies + 4 * B * heads * S128 + dq_fp32 + gradients,
    }


def predicted(shape, sms=132, deterministic=False):
    """{side: (peak, bytes between the passes)} for a shape like QWEN."""
    sizes = [shape[name] for name in ("B", "heads", "kv_heads", "S", "d")]
    e = BYTES[shape["dtype"]]
    moments = {"naive": naive_training(*sizes, e, shape["causal"]), "flash": flash_training(*sizes, e, sms, shape["layout"], deterministic)}
    return {side: (max(found.values()), found["between the passes"]) for side, found in moments.items()}


def flops(B, heads, S, d, causal=False, matmuls=2):
    """Floating-point operations of that many matmuls of S x S x d a head: 2 in the forward pass, 5 in flash's backward pass."""
    return matmuls * 2 * B * heads * S * S * d / (2 if causal else 1)


def predicted_table(gib):
    """The formulas for a card of `gib` GiB, as text of at most 72 columns."""
    out = [
        f"Predicted by formula, not measured: a card of {gib:g} GiB",
        "Forward and backward of one attention layer, B = 1, 28/28 heads,",
        "d = 128, bf16, not causal. MiB = 2^20 bytes.",
        "",
        "         kept between the passes            peak",
        "     S   naive MiB  flash MiB   naive MiB  flash MiB  naive fits",
    ]
    for S in LENGTHS:
        sides = predicted({**QWEN, "S": S})
        numbers = [mib(sides[side][which]) for which in (1, 0) for side in ("naive", "flash")]
        fits = "yes" if sides["naive"][0] <= gib * GIB else "no"
        out.append(f"{S:6}  {numbers[0]:10.1f} {numbers[1]:10.1f}  {numbers[2]:10.1f} {numbers[3]:10.1f}  {fits:>10}")
    most = [largest_S(gib * GIB, lambda S: predicted({**QWEN, "S": S})[side][0]) for side in ("naive", "flash")]
    out += ["", f"The largest S in {gib:g} GiB: naive {most[0]}, flash {most[1]}.",
            "q, k, v, o and their gradients are included, weights and the other", "layers are not."]
    return "\n".join(out)


# The check: gradients first.

def gradients(side, q, k, v, do, *args):
    """(dq, dk, dv) of side(q, k, v, *args) for the upstream gradient do, by autograd."""
    import torch

    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return torch.autograd.grad(side(q, k, v, *args), (q, k, v), do)


def check(backward=tiled_backward, attention=flash, baseline=naive, device=None):
    """Raises AssertionError unless the tiled backward pass is right, and flash's is as good as naive's.

    backward (as tiled_backward): on the CPU, in fp64, within 1e-10 of autograd's way through reference(), with and without mask, 4/4 and 4/2
    heads, tiles that divide S and tiles that do not; and torch.autograd.gradcheck, which compares with finite differences.
    attention (as flash): on the GPU where there is one, each gradient's largest error against fp64 at most twice baseline's + 1e-5, in bf16, on the same cases. The
    baseline has to be within 5 % of fp64 (relative, Frobenius norm), or the rule would allow anything.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    for kv_heads, causal in ((4, False), (4, True), (2, False), (2, True)):
        shape = {**QWEN, "B": 2, "heads": 4, "kv_heads": kv_heads, "S": 50, "d": 8, "dtype": "fp64"}
        *qkv, do = training_inputs(shape, "cpu")
        right = gradients(reference, *qkv, do, causal)
        for Br, Bc in ((16, 16), (7, 10), (10, 25), (64, 64)):
            case = f"kv_heads = {kv_heads}, causal = {causal}, Br = {Br}, Bc = {Bc}"
            found = gradients(differentiable, *qkv, do, causal, backward, Br, Bc)
            for name, a, b in zip(("dq", "dk", "dv"), found, right):
                off = (a - b).abs().max().item()
                if not (a.shape == b.shape and off <= 1e-10):
                    raise AssertionError(f"{name} is off by {off:.1e} ({case})")
        small = [x[:1, :, :6, :3].clone().requires_grad_() for x in qkv]
        if not torch.autograd.gradcheck(lambda q, k, v: differentiable(q, k, v, causal, backward, 4, 4), small, raise_exception=False):
            raise AssertionError(f"gradcheck fails (kv_heads = {kv_heads}, causal = {causal})")

        *qkv, do = training_inputs({**shape, "d": 64, "S": 256, "dtype": "bf16"}, device)
        right = gradients(reference, *(x.double() for x in qkv), do.double(), causal)
        base, found = (gradients(side, *qkv, do, causal) for side in (baseline, attention))
        for name, a, b, ref in zip(("dq", "dk", "dv"), found, base, right):
            rel_err = ((b.double() - ref).norm() / ref.norm()).item()
            if not rel_err <= 0.05:
                raise AssertionError(f"{name} of the baseline is off by {rel_err:.1e} (relative; kv_heads = {kv_heads}, causal = {causal})")
            worst, allowed = (a.double() - ref).abs().max().item(), 2 * (b.double() - ref).abs().max().item() + 1e-5
            if not worst <= allowed:
                raise AssertionError(f"{name} of flash is off by {worst:.1e}, allowed are {allowed:.1e} (kv_heads = {kv_heads}, causal = {causal})")


# The measurement.

def training_inputs(shape, device="cuda"):
    """q, k, v, do: q and do [B, H, S, d], k and v [B, H_kv, S, d]; with layout BSHD views of [B, S, H, d], as projections give them."""
    import torch

    torch.manual_seed(SEED)
    kind = {"dtype": getattr(torch, DTYPES[shape["dtype"]]), "device": device}
    B, S, d = shape["B"], shape["S"], shape["d"]
    sizes = [shape[heads] for heads in ("heads", "kv_heads", "kv_heads", "heads")]
    if shape["layout"] == "BSHD":
        return tuple(torch.randn(B, S, heads, d, **kind).transpose(1, 2) for heads in sizes)
    return tuple(torch.randn(B, heads, S, d, **kind) for heads in sizes)


def weigh_training(side, shape):
    """(peak, kept between the passes) in bytes requested above what was alive before, and the three gradients."""
    import torch

    def current():
        torch.cuda.synchronize()
        return torch.cuda.memory_stats()["requested_bytes.all.current"]

    before = current()
    torch.cuda.reset_peak_memory_stats()
    q, k, v, do = training_inputs(shape)
    for x in (q, k, v):
        x.requires_grad_()
    o = side(q, k, v, shape["causal"])
    kept = current() - before
    grads = torch.autograd.grad(o, (q, k, v), do)
    torch.cuda.synchronize()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before, kept, grads


def training_call(side, shape):
    """Forward and backward as a call without arguments, for which_kernel(); the inputs are made now."""
    q, k, v, do = training_inputs(shape)
    return lambda: gradients(side, q, k, v, do, shape["causal"])


def training_kernels(side, shape):
    """The kernels of one forward and backward pass, as one text of short names, each told once."""
    names = which_kernel(training_call(side, shape))
    return " + ".join(dict.fromkeys(short(name) for name in names)) or "none"


def time_training(side, shape, least=10):
    """{"fwd": [ms, …], "bwd": [ms, …]} by CUDA events, after 3 warm-ups; at least 10 repetitions, 5 when one takes over 100 ms.

    A sleeping kernel goes first, so that what the CPU needs to launch is not counted as the GPU's time.
    """
    import torch

    q, k, v, do = training_inputs(shape)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    times = {"fwd": [], "bwd": []}
    while len(times["fwd"]) < 3 + least:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        torch.cuda._sleep(4_000_000)                       # about 2 ms
        marks[0].record()
        o = side(q, k, v, shape["causal"])
        marks[1].record()
        torch.autograd.grad(o, (q, k, v), do)
        marks[2].record()
        del o
        torch.cuda.synchronize()
        for name, a, b in (("fwd", 0, 1), ("bwd", 1, 2)):
            times[name].append(marks[a].elapsed_time(marks[b]))
        if times["fwd"][-1] + times["bwd"][-1] > 100:
            least = min(least, 5)
    return {name: values[3:] for name, values in times.items()}


def spread(values):
    """(median, 10th percentile, 90th percentile), interpolated."""
    ordered = sorted(values)

    def at(share):
        place = share * (len(ordered) - 1)
        low = int(place)
        return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])

    return at(0.5), at(0.1), at(0.9)


def timing_columns(side_name, times):
    """Columns of the times of one side: median, 10th and 90th percentile, forward and backward; None where it did not run."""
    columns = {}
    for way in ("fwd", "bwd"):
        found = spread(times[way]) if times else (None, None, None)
        columns.update({f"{side_name}_{way}_{what}ms": value for what, value in zip(("", "p10_", "p90_"), found)})
    return columns


# Rows, values and text.

def training_row(part, shape, sides=("naive", "flash")):
    """One row: both sides weighed and timed on one shape, their gradients compared, their kernels named.

    in_l2 says whether q, k, v, do, o and lse fit into the L2 cache, where they then stay from one repetition to the next.
    """
    import torch

    card = torch.cuda.get_device_properties(torch.cuda.current_device())
    functions, found, guess = {"naive": naive, "flash": flash}, {}, predicted(shape, card.multi_processor_count)
    row = {"part": part, **shape}
    for name in ("naive", "flash"):
        peak, kept, found[name] = (attempt(weigh_training, functions[name], shape) if name in sides else None) or (None, None, None)
        row.update({f"{name}_mib": mib(peak), f"{name}_predicted_mib": mib(guess[name][0]), f"{name}_diff_bytes": minus(guess[name][0], peak),
                    f"{name}_kept_mib": mib(kept), f"{name}_kept_diff_bytes": minus(guess[name][1], kept)})
    for i, name in enumerate(("dq", "dk", "dv")):
        row[f"rel_err_{name}"] = relative_difference(found["flash"][i], found["naive"][i]) if found["naive"] and found["flash"] else None
    apart = max((row[f"rel_err_{name}"] or 0 for name in ("dq", "dk", "dv")))
    if not apart <= 0.05:
        raise AssertionError(f"the gradients of naive and flash differ by {apart:.1e} (relative, Frobenius norm) on {shape}")
    ran = {name: bool(found[name]) for name in functions}
    found.clear()
    release()
    for name, function in functions.items():
        times = attempt(time_training, function, shape) if ran[name] else None
        row.update(timing_columns(name, times))
        row["kernel" if name == "flash" else "naive_kernel"] = attempt(training_kernels, function, shape) if times else None
        release()
    both = all(row[f"{name}_fwd_ms"] is not None for name in functions)
    row.update({
        "ratio": row["naive_mib"] / row["flash_mib"] if ran["naive"] and ran["flash"] else None,
        "kept_ratio": row["naive_kept_mib"] / row["flash_kept_mib"] if ran["naive"] and ran["flash"] else None,
        "speedup": (row["naive_fwd_ms"] + row["naive_bwd_ms"]) / (row["flash_fwd_ms"] + row["flash_bwd_ms"]) if both else None,
        "flash_bwd_over_fwd": row["flash_bwd_ms"] / row["flash_fwd_ms"] if row["flash_fwd_ms"] else None,
        "naive_bwd_over_fwd": row["naive_bwd_ms"] / row["naive_fwd_ms"] if row["naive_fwd_ms"] else None,
        "flash_fwd_tflops": rate(shape, row["flash_fwd_ms"], 2), "flash_bwd_tflops": rate(shape, row["flash_bwd_ms"], 5),
        "in_l2": bool(guess["flash"][1] <= getattr(card, "L2_cache_size", 0)),
        "status": "ok" if all(ran[name] for name in sides) else "oom",
    })
    return row


def rate(shape, ms, matmuls):
    """TFLOP/s of a pass."""
    return flops(shape["B"], shape["heads"], shape["S"], shape["d"], shape["causal"], matmuls) / ms / 1e9 if ms else None


def default_row(shape):
    """What scaled_dot_product_attention takes when nobody forces a backend: memory, time, kernels."""
    import torch

    q, k, v, do = training_inputs(shape)
    q.requires_grad_()
    choice = int(torch._fused_sdp_choice(q, k, v, None, 0.0, shape["causal"]))
    from torch.nn.attention import SDPBackend

    backend = {int(getattr(SDPBackend, member)): name for name, member in BACKENDS.items()}.get(choice, str(choice))
    del q, k, v, do
    side = forced("default")
    peak, kept, grads = attempt(weigh_training, side, shape) or (None, None, None)
    del grads
    times = None if peak is None else attempt(time_training, side, shape)
    return {"part": "default", **shape, "backend": backend, "default_mib": mib(peak), "default_kept_mib": mib(kept), **timing_columns("default", times),
            "default_bwd_tflops": rate(shape, times and spread(times["bwd"])[0], 5), "kernel": attempt(training_kernels, side, shape) if times else None,
            "status": "ok" if times else "oom"}


@contextlib.contextmanager
def deterministic_algorithms(wanted):
    """torch.use_deterministic_algorithms(wanted) for a while, without filling every empty tensor with NaN."""
    import torch

    before, fill = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(wanted)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def determinism_row(impl, deterministic, shape):
    """Ten backward passes on the same numbers: how many of the nine later ones differ from the first in any bit, and by how much."""
    import torch

    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    row = {"part": "determinism", "impl": impl, "deterministic": deterministic, **shape, "runs": RUNS, "refused": False}
    side = forced(impl)
    with deterministic_algorithms(deterministic), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            row.update(repeated(side, shape))
        except RuntimeError as error:
            if "No available kernel" not in str(error):
                raise
            nothing = dict.fromkeys((*repetition_columns(), "bwd_ms", "bwd_p10_ms", "bwd_p90_ms", "peak_mib", "predicted_mib", "diff_bytes", "backend"))
            return {**row, **nothing, "refused": True, "kernel": "none", "status": "ok"}
        peak = weigh_training(side, shape)[0]
        times = spread(time_training(side, shape)["bwd"])
        kernel = training_kernels(side, shape)
    backend = backend_of(kernel)
    guess = predicted(shape, sms, deterministic)["flash"][0] if backend == "flash" else None
    return {**row, **dict(zip(("bwd_ms", "bwd_p10_ms", "bwd_p90_ms"), times)), "peak_mib": mib(peak), "predicted_mib": mib(guess),
            "diff_bytes": minus(guess, peak), "backend": backend, "kernel": kernel, "status": "ok"}


def backend_of(kernel):
    """The backend that kernels of these names belong to."""
    for mark, backend in (("cudnn", "cudnn"), ("flash_bwd", "flash"), ("fmha", "efficient"), ("attention", "efficient")):
        if mark in kernel.lower():
            return backend
    return "math"


def repetition_columns():
    return [f"{name}_{what}" for name in ("dq", "dk", "dv") for what in ("differing", "distinct", "max_diff")]


def repeated(side, shape):
    """{dq_differing, dq_distinct, dq_max_diff, …}: RUNS backward passes, each behind its own forward pass, against the first, bit for bit."""
    import torch

    q, k, v, do = training_inputs(shape)
    runs = [gradients(side, q, k, v, do, shape["causal"]) for _ in range(RUNS)]
    found = {}
    for name, grads in zip(("dq", "dk", "dv"), zip(*runs)):
        kinds = []
        for grad in grads:
            if not any(torch.equal(grad.view(torch.int16), kind.view(torch.int16)) for kind in kinds):
                kinds.append(grad)
        found[f"{name}_differing"] = sum(not torch.equal(grad.view(torch.int16), grads[0].view(torch.int16)) for grad in grads[1:])
        found[f"{name}_distinct"] = len(kinds)
        found[f"{name}_max_diff"] = max((grad.float() - grads[0].float()).abs().max().item() for grad in grads[1:])
    return found


def measure():
    """Yields one flat dict a row: training, variants, default, determinism."""
    release()
    gc.freeze()                                            # what is imported stays: the collections of release() need not walk it again
    for shape in ({**QWEN, "S": 256}, {**QWEN, "S": 256, "causal": True}):      # what libraries keep for good comes before the first baseline
        for side in (naive, flash, forced("default")):
            gradients(side, *training_inputs(shape), shape["causal"])
    release()
    for causal in (False, True):
        for S in LENGTHS:
            yield training_row("training", {**QWEN, "S": S, "causal": causal})
    for change in ({"kv_heads": 4}, {"kv_heads": 4, "causal": True}):
        yield training_row("variants", {**QWEN, "S": 4096, **change})
    for change in ({"layout": "BSHD"}, {"layout": "BSHD", "kv_heads": 4}, {"d": 64}, {"S": 1000}):
        yield training_row("variants", {**QWEN, "S": 4096, **change}, sides=("flash",))
    for causal in (False, True):
        yield default_row({**QWEN, "S": 4096, "causal": causal})
    for impl, deterministic, change in (
        ("flash", False, {}), ("flash", True, {}), ("flash", False, {"causal": True}), ("flash", False, {"kv_heads": 4}), ("cudnn", False, {}),
        ("cudnn", True, {}), ("efficient", False, {}), ("default", False, {}), ("default", True, {}),
    ):
        yield determinism_row(impl, deterministic, {**QWEN, "S": 4096, **change})
    release()


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def part(name, **fields):
        return [row for row in rows if row["part"] == name and all(row[key] == value for key, value in fields.items())]

    def cell(name, column, **fields):
        return next((row[column] for row in part(name, **fields)), None)

    weighed = part("training") + part("variants")
    columns = ("naive_diff_bytes", "flash_diff_bytes", "naive_kept_diff_bytes", "flash_kept_diff_bytes")
    return {
        "rows": len(weighed), "misses": sum(any(row[column] for column in columns) for row in weighed),
        "runs": RUNS,
        "flash_dq_differing": cell("determinism", "dq_differing", impl="flash", deterministic=False, causal=False, kv_heads=28),
        "flash_dk_differing": cell("determinism", "dk_differing", impl="flash", deterministic=False, causal=False, kv_heads=28),
        "flash_dv_differing": cell("determinism", "dv_differing", impl="flash", deterministic=False, causal=False, kv_heads=28),
        "deterministic_dq_differing": cell("determinism", "dq_differing", impl="flash", deterministic=True),
        "default_backend": cell("default", "backend", causal=False), "deterministic_default_backend": cell("determinism", "backend", impl="default", deterministic=True),
        "flash_kernel": cell("training", "kernel", S=4096, causal=False), "naive_kernel": cell("training", "naive_kernel", S=4096, causal=False),
        "kept_ratio": cell("training", "kept_ratio", S=4096, causal=False), "speedup": cell("training", "speedup", S=4096, causal=False),
        "bwd_over_fwd": cell("training", "flash_bwd_over_fwd", S=16384, causal=False),
    }


def header(part):
    """The lines above the first row of a part."""
    columns = ("     S  causal  KV   naive MiB      off  flash MiB      off  ratio    naive fwd + bwd ms    flash fwd + bwd ms  faster  status")
    return {
        "training": "Forward and backward, B = 1, 28 query heads, bf16. Peak MiB (2^20 bytes); off = predicted - measured, in bytes, at the peak\n" + columns,
        "variants": "\nGrouped heads, another layout, another d, an odd length\n" + columns,
        "default": "\nWhat scaled_dot_product_attention takes when nothing is forced",
        "determinism": f"\nThe backward pass {RUNS} times on the same numbers: how many of the {RUNS - 1} later ones differ from the first\n"
                       "asked      determ.  KV  causal  dq  dk  dv   largest dq difference  peak MiB      off     bwd ms  backend",
    }[part]


def line(row):
    """A row as text."""
    def pair(a, b):
        return f"{cell(a, 9, 3)} + {cell(b, 8, 3)}"

    if row["part"] in ("training", "variants"):
        kind = ("" if row["layout"] == QWEN["layout"] else f", {row['layout']}") + ("" if row["d"] == QWEN["d"] else f", d = {row['d']}")
        return (f"{row['S']:6}  {yes_no(row['causal']):>6}  {row['kv_heads']:2}  {cell(row['naive_mib'], 10)} {cell(row['naive_diff_bytes'], 8, 0)} "
                f"{cell(row['flash_mib'], 10)} {cell(row['flash_diff_bytes'], 8, 0)} {cell(row['ratio'], 6)}  {pair(row['naive_fwd_ms'], row['naive_bwd_ms'])} "
                f"{pair(row['flash_fwd_ms'], row['flash_bwd_ms'])} {cell(row['speedup'], 6)}  {row['status']}{kind}")
    if row["part"] == "default":
        return (f"causal {yes_no(row['causal'])}, S = {row['S']}: {row['backend']}, peak {cell(row['default_mib'], 0)} MiB, {cell(row['default_fwd_ms'], 0, 3)} + "
                f"{cell(row['default_bwd_ms'], 0, 3)} ms, {row['status']}, {row['kernel']}")
    counts = "".join(f"{'-' if row[f'{name}_differing'] is None else row[f'{name}_differing']:>4}" for name in ("dq", "dk", "dv"))
    biggest = f"{row['dq_max_diff']:23.1e}" if row["dq_max_diff"] is not None else "-".rjust(23)
    return (f"{row['impl']:10} {yes_no(row['deterministic']):>7}  {row['kv_heads']:2}  {yes_no(row['causal']):>6}{counts} {biggest} {cell(row['peak_mib'], 9)} "
            f"{cell(row['diff_bytes'], 8, 0)} {cell(row['bwd_ms'], 10, 3)}  {'refused' if row['refused'] else row['backend']}")


def footer(found):
    """What values() found, as lines."""
    return (f"\n{found['misses']} of {found['rows']} rows missed by the formulas; kept between the passes at S = 4096, naive over flash: {number_or_dash(found['kept_ratio'])}\n"
            f"flash, {found['runs']} backward passes: dq differs in {found['flash_dq_differing']}, dk in {found['flash_dk_differing']}, dv in {found['flash_dv_differing']}; "
            f"with deterministic algorithms dq in {found['deterministic_dq_differing']}\n"
            f"naive runs {found['naive_kernel']}\nflash runs {found['flash_kernel']}")


def number_or_dash(value):
    return f"{value:.1f}" if value is not None else "-"


def main(argv=None):
    """Command line. Exit status 2 and one line on stderr where it cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", action="store_true", help="print the table of the formulas and stop (no GPU, no PyTorch)")
    parser.add_argument("--gib", type=float, default=24, help="memory of the card for --predict, in GiB (24)")
    parser.add_argument("--check", action="store_true", help="check the tiled backward pass against autograd and stop (a CPU will do)")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="the GPU, as PyTorch counts them (0)")
    options = parser.parse_args(argv)
    if options.predict:
        print(predicted_table(options.gib))
        return 0
    problem = gpu_problem(options.device)
    if problem and (not options.check or "missing" in problem):
        return stop(problem)
    import torch

    if not problem:
        torch.cuda.set_device(options.device)
        print(f"{torch.cuda.get_device_name(options.device)}, PyTorch {torch.__version__}", flush=True)
        warned(company())
    check(device="cpu" if problem else None)
    print("check: the tiled backward pass is autograd's to 1e-10 in fp64 and passes gradcheck; flash's gradients are as good as naive's", flush=True)
    if not options.check:
        print(footer(values(report(measure(), header, line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
