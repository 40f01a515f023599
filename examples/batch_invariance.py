"""The same request in another batch: is its output the same, bit for bit? Which kernels keep the bits, what fixes the others, what that costs.

A server does not decide who shares a step with you. The rows of one sequence are its own in attention as in a matrix product, so no
neighbour can change the result; but a kernel that is chosen, or cut, by the size of the batch adds in another order, and last bits
change with the load. Every row here computes one sequence alone, and again as the last of B, and compares all bits of its output.

    naive       matmul, division, softmax, matmul by PyTorch (flash_vs_naive_memory.py)
    flash       PyTorch's flash kernel, forced: it cuts the keys into parts when blocks are few
    cudnn       cuDNN's fused attention, forced
    efficient   PyTorch's memory-efficient kernel, forced, k and v copied for every query head; math: the math path, forced
    one part    the flash kernel kept from cutting: what vLLM's VLLM_BATCH_INVARIANT asks of its own kernels (num_splits = 1)
    fixed size  the keys cut by hand into parts of 2048, whoever else is there, and merged by their LSE
    linear      x @ w of the model's shapes, x of one token a sequence: the layers around attention differ as well
    padded      the same product with x filled up to 256 rows, so that every batch up to 256 meets one kernel

    python batch_invariance.py             a CUDA GPU of compute capability 8.0 or newer; about 20 s on an H200
    python batch_invariance.py --predict   for which batches flash cuts otherwise, by its rule alone: no GPU, no PyTorch

For flash the answer is predicted before it runs: equal bits where num_splits_heuristic gives both batches the same number of parts.
Sources: He and Thinking Machines Lab, "Defeating Nondeterminism in LLM Inference" (2025); flash_api.cpp of PyTorch 2.11.
Left out: prefix caches and chunks, which move the border between prefill and decode, and sums over several GPUs.
"""

import itertools
import sys

try:
    from kit.backends import only, sdpa
    from kit.card import ended
    from kit.clock import median_and_spread, timed
    from kit.command import command
    from kit.errors import reference
    from kit.inputs import SEED
    from kit.kernels import kernels_of, named, shortened
    from kit.memory import outcome, release
    from kit.sizes import kv_splits
    from kit.table import cell, yes_no
    from attention_error import compare_bits
    from decode_attention import by_hand, decode_parts, single
    from flash_vs_naive_memory import naive
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/batch_invariance.py of the lesson's site.", file=sys.stderr) or 2)

HEADS, KV_HEADS, D = 28, 4, 128                            # Qwen2.5-7B
BATCHES = (2, 4, 16, 64)                                   # each against the sequence alone
DECODE, PREFILL = (4096, 32768), (256, 1024, 4096)         # S; a prompt stands in a batch of at most MOST tokens
MOST = 16384
PART = 2048                                                # keys of a part of fixed size
LINEAR = {"q": (3584, 3584), "up": (3584, 18944), "down": (18944, 3584)}      # in, out
ROWS = 256                                                 # rows that padded() fills up to
CLOCK_S = 0.02                                             # how long a time is sampled


# The sides.

def fixed_size(q, k, v):
    """Attention of one query with the keys in parts of PART, or in one where there are fewer. Shapes as in by_hand(), whose sum over the parts it uses."""
    return by_hand(q, k, v, max(1, k.shape[2] // PART))


def expanded(q, k, v, causal=False):
    """sdpa() with k and v copied for every query head: the memory-efficient kernel of PyTorch 2.11 takes no groups."""
    group = q.shape[1] // k.shape[1]
    return sdpa(q, k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1), causal)


def linear(x, w):
    """x [n, in] @ w [in, out], one row a token: cuBLAS chooses its kernel by n."""
    return x @ w


def padded(x, w, rows=ROWS):
    """linear() with x filled up by zeros to a multiple of `rows`: each block of them is one product of one shape, whatever n is.  # [n, out]"""
    import torch

    n = x.shape[0]
    x = torch.cat((x, x.new_zeros(-n % rows, x.shape[1])))
    return torch.cat([block @ w for block in x.split(rows)])[:n]


DECODING = {"naive": naive, "flash": sdpa, "cudnn": sdpa, "efficient": expanded, "math": sdpa, "one part": single, "fixed size": fixed_size}
PREFILLING = {impl: DECODING[impl] for impl in ("naive", "flash", "cudnn", "efficient", "math")}


# The prediction: the flash kernel adds in another order exactly where its rule cuts the keys otherwise.

def parts(when, B, S, sms=132):
    """Into how many parts PyTorch's flash kernel cuts the keys of B sequences of S tokens."""
    return decode_parts(B, HEADS, KV_HEADS, S, sms) if when == "decode" else kv_splits(B, HEADS, S, D, sms)


def same_parts(when, B, S, sms=132):
    """Whether a sequence alone and one of B are cut alike."""
    return parts(when, 1, S, sms) == parts(when, B, S, sms)


def cases():
    """(when, S, B) of every comparison of attention."""
    yield from (("decode", S, B) for S, B in itertools.product(DECODE, BATCHES))
    yield from (("prefill", S, B) for S, B in itertools.product(PREFILL, BATCHES) if B * S <= MOST)


def predicted_table(sms=132):
    """The prediction as text."""
    out = [f"Predicted by PyTorch's rule, not measured: 28 query heads, 4 KV heads, d = 128, {sms} multiprocessors",
           "when         S    B  parts alone  parts in the batch  equal bits"]
    for when, S, B in cases():
        out.append(f"{when:7} {S:6} {B:4} {parts(when, 1, S, sms):12} {parts(when, B, S, sms):19}  {yes_no(same_parts(when, B, S, sms)):>10}")
    return "\n".join(out)


# The check: same numbers first, and a comparison that sees one bit.

def drawn(when, B, S, device="cuda"):
    """q [B, 28, S_q, d], k and v [B, 4, S, d] in bf16, normal random numbers; the last sequence is the same in every batch."""
    import torch

    S_q, made = 1 if when == "decode" else S, []
    for heads, rows in ((HEADS, S_q), (KV_HEADS, S), (KV_HEADS, S)):
        torch.manual_seed(SEED + heads + len(made))
        ours = torch.randn(1, heads, rows, D, device=device, dtype=torch.bfloat16)
        made.append(torch.cat((torch.randn(B - 1, heads, rows, D, device=device, dtype=torch.bfloat16), ours)))
    return tuple(made)


def check(attention=None, baseline=naive, device=None):
    """Raises AssertionError unless every side computes attention, and compare_bits() sees one bit of one number.

    attention(q, k, v) is checked alone if given, on a step of decode: |side16 - ref64| <= 2·|naive16 - ref64| + 1e-5, and naive within
    2 % of fp64 (relative, Frobenius norm). padded() has to be a product too, with 3 rows and 300.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = torch.device(device).type == "cuda"
    sides = {"attention": attention} if attention else {impl: side for impl, side in DECODING.items() if on_gpu or side is sdpa and impl == "flash"}
    q, k, v = drawn("decode", 2, 2 * PART, device)
    k[:, :, PART:] += 0.1 * q.unflatten(1, (KV_HEADS, -1)).mean(2)                           # the parts weigh differently
    ref = reference(q, k, v, False)
    off = baseline(q, k, v).double() - ref
    if not (off.norm() / ref.norm()).item() <= 0.02:
        raise AssertionError("naive is not attention")
    for impl, side in sides.items():
        with only(impl):
            status, o = outcome(side, q, k, v)
        if status == "refused" and not attention:
            continue
        if status != "ok" or o.shape != ref.shape or not (o.double() - ref).abs().max().item() <= 2 * off.abs().max().item() + 1e-5:
            raise AssertionError(f"{impl} is not attention ({status})")
    same, other = q.clone(), q.clone()
    other.view(torch.int16)[0, 0, 0, 0] ^= 1
    if compare_bits(q, same)["differing"] or compare_bits(q, other)["differing"] != 1:
        raise AssertionError("the comparison does not see one bit")
    for n in (3, 300):
        x, w = (torch.randn(size, device=device, dtype=torch.bfloat16) for size in ((n, 64), (64, 32)))
        if not torch.allclose(padded(x, w).double(), x.double() @ w.double(), atol=0.1, rtol=0.02):
            raise AssertionError("padded is not a product")


# The measurement.

def attention_row(when, impl, S, B, sms):
    """A row: the last sequence of B beside the same alone, by one side."""
    side = DECODING[impl]
    q, k, v = drawn(when, B, S)
    causal = when == "prefill"

    def run(n):
        with only(impl):
            return side(q[-n:], k[-n:], v[-n:], causal) if causal else side(q[-n:], k[-n:], v[-n:])

    row = {"part": "attention", "when": when, "impl": impl, "B": B, "S": S, "parts_alone": parts(when, 1, S, sms) if impl == "flash" else None,
           "parts": parts(when, B, S, sms) if impl == "flash" else None, "predicted": same_parts(when, B, S, sms) if impl == "flash" else None}
    status, found = outcome(lambda: (run(1)[-1], run(B)[-1], run(B)[-1]))
    return filled(row, status, found, lambda: run(1), lambda: run(B))


def linear_row(impl, name, n):
    """A row: the last token of n beside the same alone, through one matrix."""
    import torch

    size, side = LINEAR[name], {"linear": linear, "padded": padded}[impl]
    torch.manual_seed(SEED)
    w = torch.randn(size, device="cuda", dtype=torch.bfloat16) * size[0] ** -0.5
    ours = torch.randn(1, size[0], device="cuda", dtype=torch.bfloat16)
    x = torch.cat((torch.randn(n - 1, size[0], device="cuda", dtype=torch.bfloat16), ours))
    row = {"part": "linear", "when": name, "impl": impl, "B": n, "S": None, "parts_alone": None, "parts": None, "predicted": True if impl == "padded" else None}
    status, found = outcome(lambda: (side(ours, w)[-1], side(x, w)[-1], side(x, w)[-1]))
    return filled(row, status, found, lambda: side(ours, w), lambda: side(x, w))


def filled(row, status, found, alone, among):
    """The row with its bits (alone against among; among against itself again), its times and its kernels."""
    bits = again = {}
    times, kernels = {}, ([], [])
    if status == "ok":
        bits, again = compare_bits(found[0], found[1]), compare_bits(found[1], found[2])
        kernels = kernels_of(alone, among)
        times = median_and_spread(timed([among], CLOCK_S))
    return {**row, "identical": bits.get("identical"), "differing": bits.get("differing"), "elements": found[0].numel() if found else None,
            "max_diff": bits.get("max_diff"), "again_identical": again.get("identical"), **{name: times.get(name) for name in ("ms", "p10_ms", "p90_ms")},
            "same_kernels": kernels[0] == kernels[1] if kernels[0] else None, "alone_kernel": named(kernels[0])["kernel"], **named(kernels[1]), "status": status}


def cost_rows():
    """A row a side and (B, S) of decode: what it costs to be cut alike in every batch, against the kernel's own choice."""
    for S, B in itertools.product(DECODE, (1, 4, 16)):
        release()
        q, k, v = drawn("decode", B, S)
        times = {}
        for impl in ("flash", "one part", "fixed size"):
            def call(side=DECODING[impl], impl=impl):
                with only(impl):
                    return side(q, k, v)

            times[impl] = median_and_spread(timed([call], CLOCK_S))
            yield {"part": "cost", "impl": impl, "B": B, "S": S, **times[impl], "over_flash": times[impl]["ms"] / times["flash"]["ms"], **named(kernels_of(call)[0]), "status": "ok"}


def measure():
    """Yields one flat dict a row: attention in decode and prefill, matrix products, the cost of what is cut alike."""
    import torch

    release()
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    for when, sides in (("decode", DECODING), ("prefill", PREFILLING)):
        for impl in sides:
            for case in cases():
                if case[0] == when:
                    yield attention_row(when, impl, *case[1:], sms)
    for impl, name, n in itertools.product(("linear", "padded"), LINEAR, (*BATCHES, ROWS)):
        yield linear_row(impl, name, n)
    yield from cost_rows()


# Rows, values and text.

def values(rows):
    """How many comparisons each side passed, as one flat dict."""
    found = {"comparisons": len([row for row in rows if row["part"] != "cost"])}
    for when in ("decode", "prefill", "linear"):
        for impl in ("linear", "padded") if when == "linear" else DECODING if when == "decode" else PREFILLING:
            ran = [row for row in rows if row["part"] == ("linear" if when == "linear" else "attention") and row["impl"] == impl and when in (row["when"], "linear") and row["status"] == "ok"]
            name = f"{when}_{impl}".replace(" ", "_")
            found[f"{name}_same"], found[f"{name}_of"] = (sum(row["identical"] for row in ran), len(ran)) if ran else (None, None)
    said = [row for row in rows if row["part"] == "attention" and row["impl"] == "flash" and row["status"] == "ok"]
    again = [row for row in rows if row["part"] != "cost" and row["status"] == "ok"]
    return {**found, "flash_predicted_right": sum(row["identical"] == row["predicted"] for row in said) if said else None, "flash_predicted_of": len(said) or None,
            "again_same": sum(row["again_identical"] for row in again) if again else None, "again_of": len(again) or None}


def header(part):
    """The lines above the first row of a part."""
    columns = f"{'when':8} {'impl':11}   B       S  predicted  equal bits   differing  of elements  largest difference        ms  same kernels  kernel in the batch"
    return {"attention": "A sequence alone against the same as the last of B\n" + columns, "linear": "\nA token alone against the same as the last of B, through one matrix\n" + columns,
            "cost": "\nDecode cut alike in every batch, against the kernel's own choice\nimpl          B       S        ms  / flash  kernel"}[part]


def line(row):
    """A row as text."""
    kernel = shortened(row["kernel"])[:70]
    if row["part"] == "cost":
        return f"{row['impl']:11} {row['B']:3} {row['S']:7} {cell(row['ms'], 9, 4)} {cell(row['over_flash'], 8, 2)}  {kernel}"
    said = ["-" if row[name] is None else yes_no(row[name]) for name in ("predicted", "identical", "same_kernels")]
    return (f"{row['when']:8} {row['impl']:11} {row['B']:3} {row['S'] or '-':>7} {said[0]:>10} {said[1]:>11} {cell(row['differing'], 11, 0)} {cell(row['elements'], 12, 0)} "
            f"{cell(row['max_diff'], 19, 6)} {cell(row['ms'], 9, 4)} {said[2]:>13}  {row['status'] if row['status'] != 'ok' else kernel}")


def footer(found):
    """What values() found, as lines."""
    lines = [f"{name}: {found[f'{name}_same']} of {found[f'{name}_of']} comparisons equal" for name in (key[:-5] for key in found if key.endswith("_same") and key != "again_same") if found[f"{name}_of"]]
    if found["flash_predicted_of"]:
        lines.append(f"flash: {found['flash_predicted_right']} of {found['flash_predicted_of']} predicted rightly")
    if found["again_of"]:
        lines.append(f"the same batch again: {found['again_same']} of {found['again_of']} equal")
    return "\n" + "\n".join(lines)


def main(argv=None):
    return command(argv, __doc__, check, "every side agrees with fp64 attention, and one bit is seen\n", measure, header, line, values, footer, predicted_table)


if __name__ == "__main__":
    sys.exit(ended(main))
