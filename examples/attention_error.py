"""How far from exact is attention in 16 bits, and are two implementations ever equal bit for bit?

Every implementation gets the same 16-bit q, k, v and is held against attention in fp64 on those numbers: the textbook version,
PyTorch's math path, its flash kernel, cuDNN, the memory-efficient kernel. In exact arithmetic they are one function; in floating
point each rounds elsewhere and adds in another order.

    python attention_error.py      a CUDA GPU of compute capability 8.0 or newer; about 8 s on an H200

Parts: "error", each implementation in bf16 and fp16, on normal inputs and on inputs with outliers; "ablation", the textbook
version with one rounding after the other taken out, which says where its error comes from; "bits", pairs of results compared bit
by bit, among them one algorithm with two tile widths.
Sources: the rule |flash16 - ref| <= 2·|naive16 - ref| is that of flash-attention's own tests; the outliers are those of Shah et
al., FlashAttention-3 (arXiv 2407.08608), Table 3: N(0, 1) + N(0, 100)·Bernoulli(0.001), 100 being a variance.
Left out: fp8, the backward pass, causal masks, and what an error does to a model.
"""

import math
import sys
import warnings

try:
    from kit.backends import only, sdpa
    from kit.card import ended
    from kit.command import command
    from kit.errors import reference
    from kit.inputs import DTYPES, inputs
    from kit.kernels import kernels_of, short
    from kit.memory import release
    from kit.table import yes_no
    from flash_vs_naive_memory import flash, naive
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/attention_error.py of the lesson's site.", file=sys.stderr) or 2)

SHAPE = {"B": 1, "heads": 28, "kv_heads": 28, "S": 4096, "d": 128, "dtype": "bf16", "causal": False}
INPUTS = ("normal", "outliers")
FUSED = ("math", "flash", "cudnn", "efficient")
TILES = (64, 128)


# The implementations. q, k, v and o [B, H, S, d], one dtype and device.

def backend(name):
    """attention(q, k, v) by one backend of SDPA and no other. Raises RuntimeError (No available kernel) where it cannot run."""
    def attention(q, k, v):
        with only(name):
            return sdpa(q, k, v)

    return attention


def ablated(round_scores, round_p):
    """The textbook version in fp32, rounding to the dtype of q only what is asked for: naive() rounds all of it.

    round_scores   the raw product, and again after the division by sqrt(d)
    round_p        the probabilities, before they meet v
    The output is rounded in any case. Every matmul adds in fp32, as tensor cores do.
    """
    import torch

    def attention(q, k, v):
        def rounded(x, wanted):
            return x.to(q.dtype).float() if wanted else x

        heads = []
        for h in range(q.shape[1]):                        # head by head: S x S in fp32 is large
            s = rounded(q[:, h].float() @ k[:, h].float().transpose(-2, -1), round_scores)        # [B, S, S]
            s = rounded(s / math.sqrt(q.shape[-1]), round_scores)
            p = rounded(torch.softmax(s, dim=-1), round_p)
            heads.append((p @ v[:, h].float()).to(q.dtype))                                       # [B, S, d]
        return torch.stack(heads, 1)

    return attention


ABLATIONS = {
    "scores and p": (True, True),
    "scores": (True, False),
    "p": (False, True),
    "nothing": (False, False),
}


def tiled(Bc, rounded=False):
    """Online softmax over KV tiles of Bc columns, in fp32; rounded: the result in the dtype of q, else left in fp32."""
    import torch

    def attention(q, k, v):
        q32 = q.float() / math.sqrt(q.shape[-1])
        m = q32.new_full((*q.shape[:3], 1), -math.inf)     # [B, H, S, 1]
        l, o = torch.zeros_like(m), torch.zeros_like(q32)  # [B, H, S, 1], [B, H, S, d]
        for j in range(0, k.shape[2], Bc):
            s = q32 @ k[:, :, j : j + Bc].float().transpose(-2, -1)                               # [B, H, S, Bc]
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            rescale, p = torch.exp(m - m_new), torch.exp(s - m_new)
            l = rescale * l + p.sum(-1, keepdim=True)
            o = rescale * o + p @ v[:, :, j : j + Bc].float()
            m = m_new
        return (o / l).to(q.dtype) if rounded else o / l

    return attention


# The inputs, and what is exact.

def outliers(shape, device="cuda"):
    """q, k, v as inputs() makes them, with N(0, 100) added to one number in a thousand; 100 is the variance."""
    import torch

    made = inputs({**shape, "dtype": "fp32"}, device)
    return tuple((x + 10 * torch.randn_like(x) * (torch.rand_like(x) < 0.001)).to(getattr(torch, DTYPES[shape["dtype"]])) for x in made)


def drawn(kind, shape, device="cuda"):
    """q, k, v of a kind of INPUTS."""
    return (outliers if kind == "outliers" else inputs)(shape, device)


def exact(q, k, v):
    """reference() head by head, so that its fp64 scores fit on a small card."""
    import torch

    return torch.cat([reference(q[:, h : h + 1], k[:, h : h + 1], v[:, h : h + 1], False) for h in range(q.shape[1])], 1)


def errors(o, ref):
    """{rel_err, rmse, max_err} of o against ref: relative in the Frobenius norm, root mean square, largest."""
    off = o.double() - ref
    return {"rel_err": (off.norm() / ref.norm()).item(), "rmse": off.square().mean().sqrt().item(), "max_err": off.abs().max().item()}


def allowed(naive_max_err):
    """What the rule leaves the largest error of a 16-bit implementation."""
    return 2 * naive_max_err + 1e-5


def check(attention=flash, baseline=naive, device=None, S=None):
    """Raises AssertionError unless attention(q, k, v) keeps the rule in bf16 and fp16, on normal inputs and on outliers.

    The rule: its largest error against fp64 is at most twice that of the baseline, + 1e-5. The baseline itself has to be within 3 % (bf16) or
    0.5 % (fp16) of fp64 (relative, Frobenius norm), or the rule would allow anything.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    S = S or (1024 if torch.device(device).type == "cuda" else 160)
    for dtype, limit in (("bf16", 0.03), ("fp16", 0.005)):
        for kind in INPUTS:
            q, k, v = drawn(kind, {**SHAPE, "heads": 4, "kv_heads": 4, "S": S, "dtype": dtype}, device)
            ref = reference(q, k, v, False)
            base, found = errors(baseline(q, k, v), ref), errors(attention(q, k, v), ref)
            if not base["rel_err"] <= limit:
                raise AssertionError(f"the baseline is not attention: relative error {base['rel_err']:.1e} ({dtype}, {kind})")
            if not found["max_err"] <= allowed(base["max_err"]):
                raise AssertionError(f"off by {found['max_err']:.1e}, allowed are {allowed(base['max_err']):.1e} ({dtype}, {kind})")


# Bits.

def ordered_bits(x):
    """The numbers of x as integers that count: neighbours in floating point differ by one. -0 and 0 are the same."""
    import torch

    size = {2: torch.int16, 4: torch.int32}[x.element_size()]
    bits = x.contiguous().view(size).long()
    return bits.where(bits >= 0, -(bits & (2 ** (8 * x.element_size() - 1) - 1)))


def compare_bits(a, b):
    """How many numbers of a and b differ, by how much, and how many of those are neighbours in floating point."""
    steps = (ordered_bits(a) - ordered_bits(b)).abs()
    differing = int((steps > 0).sum())
    return {
        "elements": a.numel(), "differing": differing, "differing_pct": 100 * differing / a.numel(), "identical": differing == 0,
        "neighbours_pct": 100 * int((steps == 1).sum()) / differing if differing else None, "max_diff": (a.double() - b.double()).abs().max().item(),
    }


# Rows, values and text.

def implementations():
    """{name: attention(q, k, v)}: the textbook version first, then SDPA's backends."""
    return {"naive": naive, **{name: backend(name) for name in FUSED}}


def kernel_text(names):
    """Kernels as one text: a fused one by its full name, several by their short ones, each told once."""
    return names[0] if len(names) == 1 else " + ".join(dict.fromkeys(short(name) for name in names)) or "none"


def ran(attention, q, k, v):
    """(o, None), or (None, why) where a backend refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return attention(q, k, v), None
    except RuntimeError as error:
        if "No available kernel" not in str(error) and "No viable backend" not in str(error):
            raise
        return None, "refused"


def error_rows(dtype, kind, shape=SHAPE, device="cuda"):
    """One row an implementation: its errors against fp64, those of naive beside them, and whether the rule holds."""
    shape = {**shape, "dtype": dtype}
    q, k, v = drawn(kind, shape, device)
    ref, found, off_naive = exact(q, k, v), {}, None
    for name, attention in implementations().items():
        o, refused = ran(attention, q, k, v)
        found[name] = None if refused else errors(o, ref)
        del o
    calls = {name: lambda attention=attention: attention(q, k, v) for name, attention in implementations().items() if found[name]}
    kernels = dict(zip(calls, kernels_of(*calls.values())))
    off_naive = found["naive"]
    for name, off in found.items():
        numbers = off or {"rel_err": None, "rmse": None, "max_err": None}
        yield {
            "part": "error", "dtype": dtype, "inputs": kind, "impl": name, **{key: shape[key] for key in ("B", "heads", "S", "d", "causal")}, **numbers,
            "allowed_max_err": allowed(off_naive["max_err"]), "within_rule": off["max_err"] <= allowed(off_naive["max_err"]) if off else None,
            "naive_over_this": off_naive["rel_err"] / off["rel_err"] if off else None,
            "kernel": kernel_text(kernels.get(name, [])), "status": "ok",
        }


def ablation_rows(dtype, shape=SHAPE, device="cuda"):
    """One row an ablation of naive(), on normal inputs: what is still rounded to 16 bits besides the output."""
    shape = {**shape, "dtype": dtype}
    q, k, v = drawn("normal", shape, device)
    ref = exact(q, k, v)
    one = [x[:, :1] for x in (q, k, v)]
    kernels = kernels_of(*(lambda what=what: ablated(*what)(*one) for what in ABLATIONS.values()))
    for (name, what), names in zip(ABLATIONS.items(), kernels):
        yield {"part": "ablation", "dtype": dtype, "inputs": "normal", "rounded": name, **{key: shape[key] for key in ("B", "heads", "S", "d", "causal")},
               **errors(ablated(*what)(q, k, v), ref), "kernel": kernel_text(names), "status": "ok"}


def bits_rows(dtype="bf16", shape=SHAPE, device="cuda"):
    """One row a pair of results on the same inputs. `in_dtype` is what their bits are compared in."""
    shape = {**shape, "dtype": dtype}
    q, k, v = drawn("normal", shape, device)
    narrow, wide = TILES
    sides = {f"{name} {Bc}": tiled(Bc, rounded) for Bc in TILES for name, rounded in (("fp32 tiles of", False), ("tiles of", True))}
    sides.update(implementations())
    pairs = [(f"fp32 tiles of {narrow}", f"fp32 tiles of {wide}"), (f"tiles of {narrow}", f"tiles of {wide}"), (f"tiles of {narrow}", f"tiles of {narrow}"),
             ("naive", "flash"), ("naive", "math"), ("flash", "cudnn"), ("flash", "efficient"), ("flash", "flash"), ("cudnn", "cudnn")]
    for a, b in pairs:
        (first, refused_a), (second, refused_b) = ran(sides[a], q, k, v), ran(sides[b], q, k, v)
        if refused_a or refused_b:
            continue
        names = kernels_of(*(lambda side=sides[side]: side(q, k, v) for side in dict.fromkeys((a, b))))
        yield {"part": "bits", "a": a, "b": b, "again": a == b, "dtype": dtype, "in_dtype": next(name for name, full in DTYPES.items() if str(first.dtype).endswith(full)),
               **{key: shape[key] for key in ("B", "heads", "S", "d", "causal")}, **compare_bits(first, second),
               "kernel": kernel_text([name for one in names for name in one]), "status": "ok"}


def measure():
    """Yields one flat dict a row: errors, ablations, bits."""
    release()
    for dtype in ("bf16", "fp16"):
        for kind in INPUTS:
            yield from error_rows(dtype, kind)
    for dtype in ("bf16", "fp16"):
        yield from ablation_rows(dtype)
    yield from bits_rows()
    release()


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def number(part, key="rel_err", **fields):
        return next((row[key] for row in rows if row["part"] == part and all(row[name] == value for name, value in fields.items())), None)

    measured = [row for row in rows if row["part"] == "error" and row["rel_err"] is not None]
    bits = [row for row in rows if row["part"] == "bits"]
    found = {
        "rows": len(measured), "rule_broken": sum(not row["within_rule"] for row in measured),
        "closer_than_naive": sum(row["rel_err"] < number("error", dtype=row["dtype"], inputs=row["inputs"], impl="naive") for row in measured if row["impl"] != "naive"),
        "pairs": len([row for row in bits if not row["again"]]), "identical_pairs": sum(row["identical"] for row in bits if not row["again"]),
        "repeats": len([row for row in bits if row["again"]]), "identical_repeats": sum(row["identical"] for row in bits if row["again"]),
    }
    for dtype in ("bf16", "fp16"):
        for name in ("naive", "flash"):
            found[f"{name}_{dtype}_rel_err"] = number("error", dtype=dtype, inputs="normal", impl=name)
    return found


def header(part):
    """The lines above the first row of a part."""
    return {
        "error": "28 heads, S = 4096, d = 128, not causal, against attention in fp64 on the same 16-bit inputs\n"
                 f"{'dtype':6} {'inputs':9} {'impl':10} rel. error      RMSE   largest   allowed  rule  naive/this  kernel",
        "ablation": f"\nNaive with roundings taken out\n{'dtype':6} {'still rounded':14} rel. error      RMSE   largest",
        "bits": f"\nThe same inputs in bf16, two results, bit by bit\n{'a':20} {'b':20} differing  of them neighbours  largest difference  identical",
    }[part]


def line(row):
    """A row as text."""
    def number(value, width=9):
        return f"{value:{width}.1e}" if value is not None else "-".rjust(width)

    if row["part"] == "error":
        times = f"{row['naive_over_this']:10.2f}" if row["naive_over_this"] is not None else "-".rjust(10)
        kept = "-" if row["within_rule"] is None else "kept" if row["within_rule"] else "BROKEN"
        kernel = " + ".join(short(name) for name in row["kernel"].split(" + "))
        return (f"{row['dtype']:6} {row['inputs']:9} {row['impl']:10} {number(row['rel_err'], 10)} {number(row['rmse'])} {number(row['max_err'])} "
                f"{number(row['allowed_max_err'])}  {kept:4}  {times}  {kernel[:70]}")
    if row["part"] == "ablation":
        return f"{row['dtype']:6} {row['rounded']:14} {number(row['rel_err'], 10)} {number(row['rmse'])} {number(row['max_err'])}"
    neighbours = f"{row['neighbours_pct']:17.1f} %" if row["neighbours_pct"] is not None else "-".rjust(19)
    return f"{row['a']:20} {row['b']:20} {row['differing_pct']:7.2f} % {neighbours} {number(row['max_diff'], 19)}  {yes_no(row['identical'])}"


def footer(found):
    """What values() found, as lines."""
    return (f"\n{found['rows']} results: the rule is broken by {found['rule_broken']}; {found['closer_than_naive']} are closer to fp64 than naive is\n"
            f"{found['identical_pairs']} of {found['pairs']} pairs of implementations are equal bit for bit; the same one run again: {found['identical_repeats']} of {found['repeats']}")


def main(argv=None):
    return command(argv, __doc__, check, "flash keeps the rule in bf16 and fp16, on normal inputs and with outliers", measure, header, line, values, footer)


if __name__ == "__main__":
    sys.exit(ended(main))
