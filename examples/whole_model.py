"""What does a whole model gain? 28 layers of Qwen2.5-7B's shape, in which nothing but attention is exchanged.

The layers (hidden 3584, 28 query heads, 4 KV heads, d = 128, feed-forward 18944, bf16) have random weights, since time and
memory do not depend on what the weights say. Everything but attention is the same in every row: RMS norm, projections, RoPE, the
KV cache, SwiGLU, plain PyTorch without a compiler. In the place of attention stands one of

    none    q is handed on as o: what all the rest takes
    naive   matmul, division, mask, softmax, matmul, with k and v copied for every query head (flash_vs_naive_memory.py)
    flash   PyTorch's own flash kernel (FlashAttention-2), forced
    cudnn   cuDNN's fused attention, forced

    python whole_model.py             a CUDA GPU of compute capability 8.0 or newer with 40 GB or more; most of a minute on an H200
    python whole_model.py --predict   FLOPs, bytes and shares alone: no GPU, no PyTorch

First each attention is timed by itself, and the rest of the model follows from its FLOPs and bytes at the card's own ceilings:
`predicted_ms` is made before any layer runs. Prefill is a prompt of S tokens through all layers (a time to first token), decode one
step of B sequences with S tokens each, as one CUDA graph (a time per output token). At the end the allocator may reserve no
more than 24 GiB, and the longest prompt and the largest batch that still fit are searched around the S and B of the formulas.
Sources: Amdahl (1967); the shape is that of Qwen2.5-7B-Instruct's config.json.
Left out: embedding and the product with the vocabulary, biases, sampling, batches of prompts, paged caches. MiB is 2^20 bytes.
"""

import contextlib
import functools
import gc
import itertools
import math
import sys

try:
    from kit.backends import only, sdpa
    from kit.card import ended
    from kit.clock import alone, copy_row, median_and_spread, quantile, timed
    from kit.command import command
    from kit.errors import reference
    from kit.inputs import SEED
    from kit.kernels import named, shortened, which_kernel
    from kit.memory import attempt, GIB, mib, MIB, minus, outcome, release
    from kit.sizes import largest_S
    from kit.table import cell
    from attention_roofline import attention_flops, matmul_row
    from decode_attention import added_bytes
    from flash_vs_naive_memory import naive, naive_bytes
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/whole_model.py of the lesson's site.", file=sys.stderr) or 2)

MODEL = {"layers": 28, "hidden": 3584, "heads": 28, "kv_heads": 4, "d": 128, "ffn": 18944}
PROMPTS = (1024, 2048, 4096, 8192, 16384, 32768)           # S of prefill, B = 1
STEPS = ((1, 4096), (1, 32768), (16, 4096), (16, 32768))   # (B, S) of decode
CARD_GIB, STEP_S = 24, 4096                                # the emulated card, and the context of its batch
SAMPLED = 0.4                                              # seconds that one program's passes are sampled
GRAIN = {"prompt": 64, "batch": 1}                         # what fits is searched by a percent at a time, in multiples of this


# The model. A step of decode is the same pass with one token a sequence and a cache that is full but for its place.

def drawn(model, device="cuda"):
    """The weights of every layer: a list of {name: [in, out]}, normal random numbers over sqrt(in), norms of ones."""
    import torch

    torch.manual_seed(SEED)
    q, kv = model["heads"] * model["d"], model["kv_heads"] * model["d"]
    shapes = {"q": (model["hidden"], q), "k": (model["hidden"], kv), "v": (model["hidden"], kv), "o": (q, model["hidden"]),
              "gate": (model["hidden"], model["ffn"]), "up": (model["hidden"], model["ffn"]), "down": (model["ffn"], model["hidden"])}
    kind = {"dtype": torch.bfloat16, "device": device}
    return [{**{name: torch.empty(shape, **kind).normal_(0, shape[0] ** -0.5) for name, shape in shapes.items()},
             **{name: torch.ones(model["hidden"], **kind) for name in ("before", "between")}} for _ in range(model["layers"])]


def rope_tables(S, d, device="cuda", base=1e6):
    """(cos, sin) of the angle by which RoPE turns pair i at position s, each twice side by side.  # [S, d]"""
    import torch

    angle = torch.arange(S, device=device, dtype=torch.float32)[:, None] * base ** (-torch.arange(0, d, 2, device=device, dtype=torch.float32) / d)
    return tuple(torch.cat((f(angle), f(angle)), -1).bfloat16() for f in (torch.cos, torch.sin))


def turned(x, cos, sin):
    """x [B, heads, S, d] after RoPE: halves (a, b) become (a cos - b sin, b cos + a sin)."""
    import torch

    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def attend(w, x, cache, at, cos, sin, d, attention):
    """What attention adds to x [B, S_q, hidden]; k and v of these tokens are put into cache [2, B, H_kv, S, d] from position `at` on."""
    import torch.nn.functional as F

    y = F.rms_norm(x, x.shape[-1:], w["before"], 1e-6)
    q, k, v = ((y @ w[name]).unflatten(-1, (-1, d)).transpose(1, 2) for name in "qkv")       # [B, heads, S_q, d]
    end = at + x.shape[1]
    cos, sin = cos[at:end], sin[at:end]
    q, k = turned(q, cos, sin), turned(k, cos, sin)
    cache[0, :, :, at:end], cache[1, :, :, at:end] = k, v
    return attention(q, cache[0, :, :, :end], cache[1, :, :, :end]).transpose(1, 2).flatten(2) @ w["o"]


def feed_forward(w, x):
    """What SwiGLU adds to x [B, S_q, hidden]; silu and the product in place."""
    import torch.nn.functional as F

    y = F.rms_norm(x, x.shape[-1:], w["between"], 1e-6)
    return F.silu(y @ w["gate"], inplace=True).mul_(y @ w["up"]) @ w["down"]


def passed(weights, x, caches, at, tables, attention):
    """x [B, S_q, hidden] through all layers; caches [layers, 2, B, H_kv, S, d] are read up to at + S_q and written from `at` on."""
    for w, cache in zip(weights, caches):
        x = x + attend(w, x, cache, at, *tables, cache.shape[-1], attention)
        x = x + feed_forward(w, x)
    return x


def none(q, k, v, causal=False):
    return q


def products(weights, x):
    """The matrix products of all layers alone, on x in every place (the heads are together as wide as `hidden`)."""
    for w in weights:
        for name in ("q", "k", "v", "o", "up"):
            x @ w[name]
        x @ w["gate"] @ w["down"]


SIDES = {"none": none, "naive": naive, "flash": sdpa, "cudnn": sdpa}


# The formulas.

def layer_flops(model, tokens):
    """FLOPs of the matrix products of one layer around attention, for so many tokens."""
    h, q, kv = model["hidden"], model["heads"] * model["d"], model["kv_heads"] * model["d"]
    return 2 * tokens * (2 * h * q + 2 * h * kv + 3 * h * model["ffn"])


def weight_bytes(model, e=2):
    return model["layers"] * (layer_flops(model, 1) // 2 + 2 * model["hidden"]) * e


def glue_bytes(model, tokens, e=2):
    """Bytes that the kernels of one layer between its matrix products read and write, each tensor once a kernel.

    two norms and two sums   2·2 + 2·3 of `hidden`
    RoPE of q and k          ten of (H + H_kv)·d: x cos, a negated half, cat, its product with sin, the sum
    the cache                k and v read and written
    SwiGLU                   silu 2, product 3 of `ffn`
    """
    turned_width, kv = (model["heads"] + model["kv_heads"]) * model["d"], model["kv_heads"] * model["d"]
    return tokens * e * (10 * model["hidden"] + 10 * turned_width + 4 * kv + 5 * model["ffn"])


def cache_bytes(model, B, S, e=2):
    return model["layers"] * 2 * B * model["kv_heads"] * S * model["d"] * e


def rest_ms(model, tokens, ceilings):
    """What the model takes without attention: the longer of products and weights at their ceilings, and the kernels between."""
    by_flops = model["layers"] * layer_flops(model, tokens) / ceilings["matmul_tflops"] / 1e9
    by_bytes = weight_bytes(model) / ceilings["copy_gbps"] / 1e6
    return max(by_flops, by_bytes) + model["layers"] * glue_bytes(model, tokens) / ceilings["copy_gbps"] / 1e6


def prefill_bytes(impl, model, S, e=2):
    """Bytes alive at the peak of a prompt's pass above the weights, B = 1: cache, RoPE tables, the prompt, and the larger of two moments.

    feed-forward   x, its norm, gate and up
    attention      x, its norm, and what naive_bytes() counts; the fused kernels need less than the feed-forward
    """
    token = S * e
    held = cache_bytes(model, 1, S, e) + 2 * token * model["d"] + token * model["hidden"]
    moment = token * (2 * model["hidden"] + 2 * model["ffn"])
    if impl == "naive":
        moment = max(moment, 2 * token * model["hidden"] + naive_bytes(1, model["heads"], model["kv_heads"], S, model["d"], e, True))
    return held + moment


def decode_bytes(impl, model, B, S, e=2):
    """Bytes alive at the peak of a step above the weights: caches, tables, and what attention adds in one layer; rows of activations are left out."""
    added = added_bytes({"naive": "repeat", "flash": "single"}[impl], B, model["heads"], model["kv_heads"], S, model["d"], e)
    return cache_bytes(model, B, S, e) + 2 * S * e * model["d"] + added


def share_pct(model, S):
    """Percent of a prompt's FLOPs that causal attention has."""
    of_attention = attention_flops(1, model["heads"], S, model["d"], True)
    return 100 * of_attention / (of_attention + layer_flops(model, S))


def predicted_table():
    """The formulas as text."""
    out = ["Predicted by formula, not measured: 28 layers of Qwen2.5-7B's shape, bf16. MiB = 2^20 bytes",
           f"weights {weight_bytes(MODEL) / MIB:.0f} MiB", "",
           "     S  TFLOP of a prompt  attention's, %  cache MiB  naive adds MiB  flash adds MiB"]
    for S in PROMPTS:
        flops = MODEL["layers"] * (layer_flops(MODEL, S) + attention_flops(1, MODEL["heads"], S, MODEL["d"], True))
        adds = [prefill_bytes(impl, MODEL, S) / MIB for impl in ("naive", "flash")]
        out.append(f"{S:6} {flops / 1e12:18.1f} {share_pct(MODEL, S):15.1f} {cache_bytes(MODEL, 1, S) / MIB:10.0f} {adds[0]:15.0f} {adds[1]:15.0f}")
    for what in GRAIN:
        most = [largest(what, impl, CARD_GIB * GIB - weight_bytes(MODEL)) for impl in ("naive", "flash")]
        out.append(f"the largest {what} in {CARD_GIB} GiB{'' if what == 'prompt' else f' at S = {STEP_S}'}: naive {most[0]}, flash {most[1]}")
    return "\n".join(out)


def largest(what, impl, room, model=MODEL):
    """The longest prompt, or the largest batch of sequences of STEP_S tokens, that the formulas put into `room` bytes beside the weights."""
    return largest_S(room, lambda n: prefill_bytes(impl, model, n) if what == "prompt" else decode_bytes(impl, model, n, STEP_S))


# The check: same numbers first.

TINY = {"layers": 2, "hidden": 96, "heads": 4, "kv_heads": 2, "d": 16, "ffn": 128}


def truth(weights, x, d):
    """The model in fp64, written without anything that passed() uses: RoPE by complex numbers, reference() for attention.  # [B, S, hidden]"""
    import torch

    x = x.double()
    at = torch.arange(x.shape[1], device=x.device, dtype=torch.float64)
    turn = torch.polar(torch.ones_like(at)[:, None], at[:, None] * 1e6 ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d))

    def normed(x):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    def heads(x, w):
        return torch.einsum("bsi,io->bso", x, w.double()).unflatten(-1, (-1, d)).transpose(1, 2)

    def rope(x):
        z = torch.complex(x[..., : d // 2], x[..., d // 2 :]) * turn
        return torch.cat((z.real, z.imag), -1)

    for w in weights:
        q, k, v = (heads(normed(x), w[name]) for name in "qkv")
        x = x + torch.einsum("bhsd,hdo->bso", reference(rope(q), rope(k), v, True), w["o"].double().unflatten(0, (-1, d)))
        y = normed(x)
        gate, up = (torch.einsum("bsi,io->bso", y, w[name].double()) for name in ("gate", "up"))
        x = x + torch.einsum("bsi,io->bso", gate / (1 + torch.exp(-gate)) * up, w["down"].double())
    return x


def check(attention=None, baseline=naive, device=None):
    """Raises AssertionError unless a small model computes what fp64 computes, with each attention: |side16 - ref64| <= 2·|naive16 - ref64| + 1e-3.

    attention(q, k, v, causal) is checked alone if given. A prompt of 40 tokens goes through at once, and again as 39 and a step of
    decode for the last. The model with the baseline has to be within 3 % of fp64 (relative, Frobenius norm).
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    sides = {"attention": attention} if attention else {impl: SIDES[impl] for impl in (("flash", "cudnn") if device != "cpu" else ("flash",))}
    model, S = {**TINY, "d": 64, "hidden": 256} if device != "cpu" else TINY, 40
    weights = drawn(model, device)
    x = torch.randn(2, S, model["hidden"], device=device).bfloat16()
    ref = truth(weights, x, model["d"])

    def whole(side):
        tables, caches = rope_tables(S, model["d"], device), torch.zeros(model["layers"], 2, 2, model["kv_heads"], S, model["d"], device=device, dtype=x.dtype)
        at_once = passed(weights, x, caches, 0, tables, lambda q, k, v: side(q, k, v, True))
        caches.zero_()
        before = passed(weights, x[:, :-1], caches, 0, tables, lambda q, k, v: side(q, k, v, True))
        return at_once, torch.cat((before, passed(weights, x[:, -1:], caches, S - 1, tables, lambda q, k, v: side(q, k, v, False))), 1)

    off_naive = [out.double() - ref for out in whole(baseline)]
    for off in off_naive:
        rel_err = (off.norm() / ref.norm()).item()
        if not rel_err <= 0.03:
            raise AssertionError(f"the model with naive is off by {rel_err:.1e} against fp64")
    for impl, side in sides.items():
        with only(impl):
            status, found = outcome(whole, side)
        if status == "refused" and not attention:
            continue
        for when, out, off in zip(("a prompt at once", "a prompt and a step"), found or (), off_naive):
            worst, allowed = (out.double() - ref).abs().max().item(), 2 * off.abs().max().item() + 1e-3
            if not worst <= allowed:
                raise AssertionError(f"{impl} is off by {worst:.1e}, allowed are {allowed:.1e} ({when})")
        if status != "ok":
            raise AssertionError(f"{impl} gives nothing: {status}")


# The measurement.

def state(model, B, S, S_q, device="cuda"):
    """(x [B, S_q, hidden], caches [layers, 2, B, H_kv, S, d] that are full, RoPE tables) for passed()."""
    import torch

    torch.manual_seed(SEED)
    kind = {"dtype": torch.bfloat16, "device": device}
    x = torch.randn(B, S_q, model["hidden"], **kind)
    caches = torch.empty(model["layers"], 2, B, model["kv_heads"], S, model["d"], **kind)
    for cache in caches if S_q == 1 else []:               # a prompt writes its own
        cache.normal_()
    return x, caches, rope_tables(S, model["d"], device)


def pass_of(weights, impl, x, caches, tables, side=None):
    """A function that runs the pass of `impl`: a prompt under a causal mask, or a step of decode, which sees all keys."""
    S_q, S = x.shape[1], caches.shape[-2]
    attention = functools.partial(side or SIDES[impl], causal=S_q > 1)

    def call():
        with only(impl):
            return passed(weights, x, caches, S - S_q, tables, attention)
    return call


def kernels_inside(weights, impl, x, caches, tables):
    """Names of the kernels that attention launches inside one layer, between two kernels that only wait; with none the layer's own."""
    import torch

    def marked(q, k, v, causal):
        torch.cuda._sleep(1000)                            # its kernel is called spin_kernel
        o = SIDES[impl](q, k, v, causal)
        torch.cuda._sleep(1000)
        return o

    names = which_kernel(pass_of(weights[:1], impl, x, caches[:1], tables, marked))
    marks = [i for i, name in enumerate(names) if "spin_kernel" in name]
    inside = names[marks[0] + 1 : marks[1]] if len(marks) == 2 else []
    return inside if impl != "none" else [name for name in names if "spin_kernel" not in name]


def in_turns(calls, seconds):
    """{name: milliseconds of whole passes}: in turn, so that each meets the same warm card. Each for `seconds` and three passes; fewer where they take over 3 s."""
    import torch

    found = {name: [] for name in calls}
    while todo := [name for name, ms in found.items() if len(ms) < 20 and (sum(ms) < 1e3 * seconds or len(ms) < 3 and sum(ms) < 3000)]:
        for name in todo:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            calls[name]()
            end.record()
            torch.cuda.synchronize()
            found[name].append(start.elapsed_time(end))
    return found


def weighed(call):
    """Bytes alive at the peak of call() above what was alive before."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    call()
    torch.cuda.synchronize()
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before


def row_of(part, impl, B, S, attention_ms, rest, found):
    """The columns that every row of the model begins with: the prediction, made before, and what Amdahl's law makes of it."""
    predicted = None if attention_ms is None else rest + attention_ms
    return {"part": part, "impl": impl, "B": B, "S": S, "layers_attention_ms": attention_ms, "rest_predicted_ms": rest, "predicted_ms": predicted,
            "predicted_attention_pct": predicted and 100 * attention_ms / predicted, **(median_and_spread(found) if found else {"ms": None, "p10_ms": None, "p90_ms": None, "samples": 0})}


def compared(rows):
    """The rows, with what attention took of each (the rest is the row of none), and the gain over naive, predicted and measured."""
    by = {row["impl"]: row for row in rows}

    def over(name, row):
        return by["naive"][name] / row[name] if by["naive"][name] and row[name] else None

    for row in rows:
        without = by["none"]["ms"]
        yield {**row, "attention_pct": 100 * (1 - without / row["ms"]) if row["ms"] and without else None,
               "over_naive": over("ms", row), "over_naive_predicted": over("predicted_ms", row),
               "off_pct": 100 * (row["predicted_ms"] / row["ms"] - 1) if row["ms"] and row["predicted_ms"] else None}


def attention_rows(model, prompts):
    """A row an attention and length: the operator by itself under a causal mask, as it stands in a layer."""
    import torch

    for S in prompts:
        for impl in list(SIDES)[1:]:
            release()
            torch.manual_seed(SEED)
            q, k, v = (torch.randn(1, S, heads, model["d"], device="cuda", dtype=torch.bfloat16).transpose(1, 2) for heads in (model["heads"], model["kv_heads"], model["kv_heads"]))
            k, v = k.contiguous(), v.contiguous()          # as they lie in the cache; q as the projection leaves it

            def call():
                with only(impl):
                    return SIDES[impl](q, k, v, True)

            status, found = outcome(timed, [call], SAMPLED / 20)
            times = median_and_spread(found) if found else {"ms": None, "p10_ms": None, "p90_ms": None, "samples": 0}
            seen = attempt(which_kernel, call) if found else None
            flops = attention_flops(1, model["heads"], S, model["d"], True)
            yield {"part": "attention", "impl": impl, "B": 1, "S": S, **times, "tflops": flops / times["ms"] / 1e9 if times["ms"] else None,
                   "share_pct": share_pct(model, S), **named(seen or []), "status": status}


def prefill_rows(weights, model, S, alone_ms, ceilings):
    """A row a side for a prompt of S tokens; alone_ms {impl: milliseconds of one attention by itself}."""
    peaks, kernels, calls, status = {}, {}, {}, {}
    for impl in SIDES:
        release()
        status[impl], peaks[impl] = outcome(weighed, lambda: pass_of(weights[:2], impl, *state(model, 1, S, S))())     # all caches, two layers: the peak
    release()
    x, caches, tables = state(model, 1, S, S)
    for impl in SIDES:
        if status[impl] == "ok":
            calls[impl] = pass_of(weights, impl, x, caches, tables)
            kernels[impl] = attempt(kernels_inside, weights, impl, x, caches, tables) or []
    found, rest = in_turns({**calls, "products": lambda: products(weights, x)}, SAMPLED), rest_ms(model, S, ceilings)
    by_themselves = {"products_ms": quantile(found["products"], 0.5), "products_predicted_ms": model["layers"] * layer_flops(model, S) / ceilings["matmul_tflops"] / 1e9}
    rows = [row_of("prefill", impl, 1, S, alone_ms[impl] and model["layers"] * alone_ms[impl], rest, found.get(impl)) for impl in SIDES]
    if rows[0]["ms"]:
        rows[0].update(predicted_ms=rest, predicted_attention_pct=0.0)
    for row in compared(rows):
        size, impl = prefill_bytes(row["impl"], model, S), row["impl"]
        yield {**row, **by_themselves, "tokens_per_s": 1e3 * S / row["ms"] if row["ms"] else None, "peak_mib": mib(peaks[impl]), "peak_predicted_mib": mib(size),
               "peak_diff_bytes": minus(size, peaks[impl]), **named(kernels.get(impl, [])), "status": status[impl]}


def graph_of(call):
    """A function that replays call() as one CUDA graph, as a server runs a step of decode."""
    import torch

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def decode_rows(weights, model, B, S, ceilings):
    """A row a side for one step of B sequences with S tokens each."""
    import torch

    release()
    x, caches, tables = state(model, B, S, 1)
    q = torch.randn(B, model["heads"], 1, model["d"], device=x.device).to(x.dtype)
    rest, rows, more = rest_ms(model, B, ceilings), [], []

    def by_itself(impl):
        with only(impl):
            return quantile(timed([lambda cache=cache: SIDES[impl](q, cache[0], cache[1], False) for cache in caches], SAMPLED / 20), 0.5)

    def stepped(impl):
        call = pass_of(weights, impl, x, caches, tables)
        kernels, plain = kernels_inside(weights, impl, x, caches, tables), alone([call])
        return timed([graph_of(call)], SAMPLED / 8), plain, kernels

    for impl in SIDES:
        one = 0.0 if impl == "none" else outcome(by_itself, impl)[1]
        status, found = outcome(stepped, impl)
        samples, plain, kernels = found or (None, None, [])
        release()
        rows.append(row_of("decode", impl, B, S, None if one is None else model["layers"] * one, rest, samples))
        more.append({"eager_ms": plain, "tokens_per_s": None, **named(kernels), "status": status})
    for row, rest_of_row in zip(compared(rows), more):
        yield {**row, **rest_of_row, "tokens_per_s": 1e3 * B / row["ms"] if row["ms"] else None}


@contextlib.contextmanager
def card_of(gib):
    """PyTorch's allocator may reserve no more than so many GiB of this card."""
    import torch

    torch.cuda.set_per_process_memory_fraction(min(1.0, (gib * GIB + 0.5) / torch.cuda.mem_get_info()[1]))
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def fit_rows(weights, model):
    """A row a side: the longest prompt, and the largest batch at STEP_S, that run on the emulated card, searched from the formula's size down."""
    import torch

    for what, impl in itertools.product(GRAIN, ("naive", "flash")):
        release()
        held = torch.cuda.memory_stats()["reserved_bytes.all.current"]         # weights, and the workspace of cuBLAS
        n = by_formula = largest(what, impl, CARD_GIB * GIB - held, model)
        failed, found = None, None
        with card_of(CARD_GIB):
            while n > 0 and (found := attempt(fitted, weights[:2], model, what, impl, n)) is None:
                failed, n = n, (n - max(1, n // 100)) // GRAIN[what] * GRAIN[what]
                release()
        peak, kernels = found or (None, [])
        yield {"part": "fit", "impl": impl, "what": what, "card_gib": CARD_GIB, "B": 1 if what == "prompt" else n, "S": n if what == "prompt" else STEP_S, "largest": n,
               "largest_predicted": by_formula, "failed": failed, "held_mib": mib(held), "peak_mib": mib(peak), **named(kernels), "status": "ok" if found else "oom"}


def fitted(weights, model, what, impl, n):
    """(peak bytes, kernels of attention) of a prompt of n tokens, or of a step of n sequences. All layers have their cache; two run, and so reach the peak."""
    kernels = []

    def run():
        x, caches, tables = state(model, *((1, n, n) if what == "prompt" else (n, STEP_S, 1)))
        pass_of(weights, impl, x, caches, tables)()
        kernels.extend(kernels_inside(weights, impl, x, caches, tables))
    return weighed(run), kernels


# Rows, values and text.

def measure():
    """Yields one flat dict a row: the ceilings, attention by itself, the prompts, the steps, what fits on a smaller card."""
    release()
    gc.freeze()                                            # what is imported stays: the collections of release() need not walk it again
    copy, matmul = copy_row("before", 0.03), matmul_row("before")
    yield copy
    yield matmul
    ceilings = {"copy_gbps": copy["gbps"], "matmul_tflops": matmul["tflops"]}
    alone_ms = {S: {"none": 0.0} for S in PROMPTS}
    for row in attention_rows(MODEL, PROMPTS):
        alone_ms[row["S"]][row["impl"]] = row["ms"]
        yield row
    release()
    weights = drawn(MODEL)
    for S in PROMPTS:
        yield from prefill_rows(weights, MODEL, S, alone_ms[S], ceilings)
    for B, S in STEPS:
        yield from decode_rows(weights, MODEL, B, S, ceilings)
    yield from fit_rows(weights, MODEL)


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def of(part, column, **fields):
        return next((row[column] for row in rows if row["part"] == part and all(row.get(name) == value for name, value in fields.items())), None)

    offs = {part: [abs(row["off_pct"]) for row in rows if row["part"] == part and row["off_pct"] is not None] for part in ("prefill", "decode")}
    found = {"copy_gbps": of("ceiling", "gbps", impl="copy"), "matmul_tflops": of("ceiling", "tflops", impl="matmul"), "weights_gb": weight_bytes(MODEL) / 1e9,
             **{f"{part}_off_most_pct": max(off, default=None) for part, off in offs.items()}}
    for impl in ("flash", "cudnn"):
        found.update({f"{impl}_ttft_{S}": of("prefill", "over_naive", impl=impl, S=S) for S in PROMPTS})
    for what, impl in itertools.product(GRAIN, ("naive", "flash")):
        found[f"{what}_{impl}"] = of("fit", "largest", what=what, impl=impl)
    return {**found, **{f"{what}_gain": found[f"{what}_flash"] / found[f"{what}_naive"] if found[f"{what}_naive"] else None for what in GRAIN}}


def header(part):
    """The lines above the first row of a part."""
    return {
        "ceiling": "The ceilings. GB = 10^9 bytes; the copy counts bytes read plus written",
        "attention": "\nAttention by itself, causal, 28 query heads, 4 KV heads, d = 128, bf16\n     S  impl          ms  TFLOP/s  kernel",
        "prefill": "\nA prompt through 28 layers. Predicted before any layer ran: 28 times attention by itself, the rest by FLOPs and bytes\n"
                   "     S  impl   predicted       ms       p10       p90  attention, %  predicted  / naive  predicted  peak MiB      off  status   kernel",
        "decode": "\nA step of decode, as a CUDA graph; eager: the same calls one by one\n"
                  "  B      S  impl   predicted       ms       p10       p90    eager  attention, %  predicted  / naive  predicted  status   kernel",
        "fit": f"\nA card of {CARD_GIB} GiB, emulated: the allocator may reserve no more\nwhat    impl   predicted  largest  failed first  peak MiB  kernel",
    }[part]


def line(row):
    """A row as text."""
    kernel = shortened(row["kernel"])[:80]
    if row["part"] == "ceiling":
        return f"{row['impl']:6} {row['ms']:.4f} ms  {cell(row['gbps'], 0, 0)} GB/s  {cell(row['tflops'], 0, 0)} TFLOP/s  {kernel}"
    if row["part"] == "attention":
        return f"{row['S']:6}  {row['impl']:6} {cell(row['ms'], 9, 4)} {cell(row['tflops'], 8)}  {kernel}"
    if row["part"] == "fit":
        return f"{row['what']:7} {row['impl']:6} {row['largest_predicted']:9} {row['largest']:8} {row['failed'] or '-':>13} {cell(row['peak_mib'], 9, 0)}  {kernel}"
    gain = f"{cell(row['attention_pct'], 13)} {cell(row['predicted_attention_pct'], 10)} {cell(row['over_naive'], 8, 2)} {cell(row['over_naive_predicted'], 10, 2)}"
    times = f"{row['impl']:6} {cell(row['predicted_ms'], 9, 2)} {cell(row['ms'], 8, 2)} {cell(row['p10_ms'], 9, 2)} {cell(row['p90_ms'], 9, 2)}"
    if row["part"] == "decode":
        return f"{row['B']:3} {row['S']:6}  {times} {cell(row['eager_ms'], 8, 2)} {gain}  {row['status']:7}  {kernel}"
    return f"{row['S']:6}  {times} {gain} {cell(row['peak_mib'], 9, 0)} {cell(row['peak_diff_bytes'], 8, 0)}  {row['status']:7}  {kernel}"


def footer(found):
    """What values() found, as lines."""
    if not found["copy_gbps"]:
        return ""
    lines = [f"\nCeilings: copy {found['copy_gbps']:.0f} GB/s, matmul {found['matmul_tflops']:.0f} TFLOP/s; weights {found['weights_gb']:.1f} GB"]
    for impl in ("flash", "cudnn"):
        gains = [f"{found[f'{impl}_ttft_{S}']:.2f} at {S}" for S in PROMPTS if found[f"{impl}_ttft_{S}"]]
        lines += [f"{impl}: a prompt is done so many times as early as with naive: {', '.join(gains)}"] if gains else []
    lines += [f"{what} in {CARD_GIB} GiB: naive {found[f'{what}_naive']}, flash {found[f'{what}_flash']}" for what in GRAIN if found[f"{what}_gain"]]
    return "\n".join(lines)


def main(argv=None):
    return command(argv, __doc__, check, "the model agrees with fp64, with every attention, at once and token by token\n", measure, header, line, values, footer, predicted_table)


if __name__ == "__main__":
    sys.exit(ended(main))
