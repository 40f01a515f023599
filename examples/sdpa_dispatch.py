"""Which kernel does scaled_dot_product_attention take, why not flash, and what does that cost in memory?

SDPA is a dispatcher: the same line runs cuDNN, flash, the memory-efficient kernel or plain matmuls, as dtype, head dimension,
mask, grouped heads, lengths and strides allow. Each case is run and compared with fp64, its kernels are named by the profiler,
PyTorch's own words say why flash was refused, and the memory above the inputs is weighed at S and at 2S: it doubles, or it
quadruples. cuDNN builds a plan for each shape before it runs; to keep this short, the cases that it takes behind the first
group are weighed at S alone.

    python sdpa_dispatch.py        a CUDA GPU of compute capability 8.0 or newer; about 15 s on an H200

Parts: "order", who is asked first; "dispatch", one row a case; "masked_row", what a query gets that may see no key;
"mask_and_causal", what attn_mask together with is_causal=True does. In PyTorch 2.11 cuDNN is asked first on compute capability 9
and 10 and nowhere else, so each case is also shown without cuDNN: that is the order of the other cards (what such a card supports
may still differ; run this file on it).
Source of the rules: PyTorch, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp (can_use_flash_attention and its neighbours)
and aten/src/ATen/native/transformers/attention.cpp. They change from version to version: probe, do not remember.
Left out: dropout, nested tensors, head dimensions of v other than d, ROCm. MiB is 2^20 bytes.
"""

import contextlib
import math
import re
import sys
import warnings

try:
    from kit.backends import BACKENDS
    from kit.card import ended
    from kit.command import command
    from kit.inputs import DTYPES, SEED
    from kit.kernels import kernels_of, once, short, which_kernel
    from kit.memory import attempt, mib, release
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/sdpa_dispatch.py of the lesson's site.", file=sys.stderr) or 2)

HEADS = 28
PLAIN = {"dtype": "bf16", "d": 128, "mask": "none", "kv_heads": HEADS, "enable_gqa": False, "S_q": 1024, "S_kv": 1024,
         "layout": "BHSD", "grad": False, "deterministic": False}
GQA = {"kv_heads": 4, "enable_gqa": True}
HEAD_DIMS = (32, 64, 96, 100, 128, 192, 256, 320, 512)
WORDS = {"causal": "causal", "boolean": "boolean mask", "float": "float mask", "learned": "learned mask"}


# The cases.

def cases():
    """The cases as flat dicts, those that a reader meets first in front. `group` says where one belongs, `case` names it.

    mask    none; causal (is_causal=True); boolean and float, one [S_q, S_kv] for all heads; learned, a float mask with a gradient
    layout  BHSD, contiguous; BSHD and packed, views of [B, S, H, d] and of [B, S, 3H, d] as projections give them; strided, each head
            kept as [d, S]; expanded, one KV head shown H times by expand()
    """
    odd = [{"d": d, **gqa, "mask": mask} for d in (100, 320, 512) for gqa in ({}, GQA) for mask in ("none", "boolean")]
    groups = {
        "first": (
            {}, {"mask": "causal"}, {"mask": "boolean"}, {"mask": "float"}, GQA, {**GQA, "mask": "causal"}, {**GQA, "mask": "boolean"},
            {"kv_heads": 4}, {"dtype": "fp16"}, {"dtype": "fp32"}, {"dtype": "fp32", **GQA}, {"d": 100}, {"d": 256}, {"d": 320},
            {"S_q": 1, "S_kv": 4096}, {"grad": True},
        ),
        "head_dim": ({"d": 32}, {"d": 192}, {"d": 64, **GQA, "mask": "boolean"}, *odd),
        "dtype": (
            *({"dtype": "fp16", **more} for more in ({**GQA, "mask": "boolean"}, {"d": 100}, {"d": 320})),
            *({"dtype": "fp32", "d": d, **gqa} for d in HEAD_DIMS for gqa in ({}, GQA)),
            *({"dtype": "fp32", "mask": mask} for mask in ("causal", "boolean", "float")), {"dtype": "fp32", **GQA, "mask": "boolean"},
        ),
        "mask": ({**GQA, "mask": "float"}, {"d": 320, "mask": "causal"}, {"d": 320, "mask": "float"}, {**GQA, "d": 320, "mask": "float"}),
        "heads": ({"kv_heads": 1, "enable_gqa": True}, {"kv_heads": 1}),
        "length": (
            {"S_q": 256, "S_kv": 1024, "mask": "causal"}, {"S_q": 1024, "S_kv": 256, "mask": "causal"}, {"S_q": 1001, "S_kv": 1001},
        ),
        "layout": (
            {"layout": "BSHD"}, {"layout": "packed"}, {"layout": "expanded"}, {"layout": "strided"},
            {"layout": "strided", **GQA}, {"layout": "strided", "mask": "boolean"}, {"layout": "strided", "dtype": "fp32"},
        ),
        "training": (
            *({"grad": True, **more} for more in ({"mask": "boolean"}, {"mask": "learned"}, {"d": 100}, {"dtype": "fp32"})),
            {"deterministic": True}, {"deterministic": True, "grad": True}, {"deterministic": True, "mask": "boolean"},
        ),
    }
    found = {}
    for group, changes in groups.items():
        for change in changes:
            case = {**PLAIN, **change}
            found.setdefault(name_of(case), {"group": group, "case": name_of(case), **case})
    return list(found.values())


def name_of(case):
    """What sets a case apart from PLAIN, in words; no comma, so that a page's filter can quote it."""
    words = [case["dtype"]] if case["dtype"] != PLAIN["dtype"] else []
    if case["kv_heads"] != HEADS:
        words.append(("GQA" if case["kv_heads"] > 1 else "MQA") + ("" if case["enable_gqa"] else " without enable_gqa"))
    if case["d"] != PLAIN["d"]:
        words.append(f"d {case['d']}")
    if case["S_q"] != PLAIN["S_q"] or case["S_kv"] != PLAIN["S_kv"]:
        words.append(f"S {case['S_q']}" if case["S_q"] == case["S_kv"] else f"S_q {case['S_q']} S_kv {case['S_kv']}")
    words += [WORDS[case["mask"]]] if case["mask"] != "none" else []
    words += [case["layout"]] if case["layout"] != PLAIN["layout"] else []
    words += [word for word, key in (("grad", "grad"), ("deterministic", "deterministic")) if case[key]]
    return " + ".join(words) or "plain"


def tensors_of(case, times=1, device="cuda", random=False):
    """(q, k, v, mask) of a case, `times` as long; S_q = 1 stays 1. q [1, H, S_q, d], k and v [1, H_kv, S_kv, d].

    Without `random` nothing is written into them, so that no kernel but those of attention is launched.
    """
    import torch

    kind = {"dtype": getattr(torch, DTYPES[case["dtype"]]), "device": device}
    make = torch.randn if random else torch.empty
    S_q, S_kv = case["S_q"] * (times if case["S_q"] > 1 else 1), case["S_kv"] * times
    d, sizes = case["d"], ((HEADS, S_q), (case["kv_heads"], S_kv), (case["kv_heads"], S_kv))
    if case["layout"] == "BSHD":
        q, k, v = (make(1, S, heads, d, **kind).transpose(1, 2) for heads, S in sizes)
    elif case["layout"] == "packed":
        q, k, v = make(1, S_q, 3 * HEADS, d, **kind).transpose(1, 2).split(HEADS, dim=1)
    elif case["layout"] == "strided":
        q, k, v = (make(1, heads, d, S, **kind).transpose(2, 3) for heads, S in sizes)
    elif case["layout"] == "expanded":
        q, k, v = make(1, HEADS, S_q, d, **kind), *(make(1, 1, S_kv, d, **kind).expand(1, HEADS, S_kv, d) for _ in "kv")
    else:
        q, k, v = (make(1, heads, S, d, **kind) for heads, S in sizes)
    mask = None
    if case["mask"] == "boolean":
        mask = torch.rand(S_q, S_kv, device=device) < 0.8 if random else torch.empty(S_q, S_kv, dtype=torch.bool, device=device)
        mask = mask.index_fill(1, torch.tensor([0], device=device), True) if random else mask        # key 0 is seen by all
    elif case["mask"] in ("float", "learned"):
        mask = make(S_q, S_kv, **kind).requires_grad_(case["mask"] == "learned")
    if case["grad"]:
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    return q, k, v, mask


def attend(q, k, v, mask=None, causal=False, enable_gqa=False):
    """The call under test. q [B, H, S_q, d], k and v [B, H_kv, S_kv, d], mask [S_q, S_kv] (True: takes part; float: is added)."""
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=enable_gqa)


@contextlib.contextmanager
def allowing(*backends, deterministic=False):
    """Only these backends (none named: all, in PyTorch's own order), and deterministic algorithms if asked for."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before, fill = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = False        # else every empty tensor is filled with NaN by a kernel
    try:
        with sdpa_kernel([getattr(SDPBackend, BACKENDS[name]) for name in backends]) if backends else contextlib.nullcontext():
            yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def other_cards(case):
    """What a card is left with on which cuDNN does not come first."""
    return allowing("flash", "efficient", "math", deterministic=case["deterministic"])


def default(case):
    """Whatever PyTorch prefers on this card."""
    return allowing(deterministic=case["deterministic"])


COPIED = ("error", "rel_err", "backend", "launches", "extra_mib", "growth", "score_bytes", "kernel")
SETTINGS = {"": default, "no_cudnn_": other_cards}         # prefix of the columns, what is allowed


# What was chosen, and why.

def chosen(case, tensors):
    """The backend that the dispatcher names for these tensors, without running it: math, flash, efficient, cudnn, or error."""
    import torch
    from torch.nn.attention import SDPBackend

    q, k, v, mask = tensors
    number = int(torch._fused_sdp_choice(q, k, v, mask, 0.0, case["mask"] == "causal", enable_gqa=case["enable_gqa"]))
    return {int(getattr(SDPBackend, member)): name for name, member in BACKENDS.items()}.get(number, "error")


def why_not_flash(case, tensors):
    """PyTorch's own words when flash is the only backend allowed; None when it accepts."""
    with allowing("flash", deterministic=case["deterministic"]), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            if chosen(case, tensors) == "flash":
                return None
        except RuntimeError:                               # No available kernel: the warnings say why
            pass
    said = [plain_words(warning.message) for warning in said]
    after = [i + 1 for i, text in enumerate(said) if text.startswith("Flash attention kernel not used because")]
    reason = said[after[0]] if after and after[0] < len(said) else ""
    return reason if reason and "kernel not used because" not in reason else "no reason given"


def plain_words(message):
    """A message of PyTorch's on one line, without the place in its source that it ends with."""
    return " ".join(re.sub(r"\(Triggered internally at [^)]*\)\.?", "", str(message)).split())


def backend_of(names):
    """The backend that kernels of these names belong to."""
    text = " ".join(names).lower()
    if "cudnn" in text:
        return "cudnn"
    if "flash_fwd" in text:
        return "flash"
    if "fmha" in text or "attentionkernel" in text:
        return "efficient"
    return "math" if names else "error"


def attention_kernel(names):
    """The kernel that computes attention among those launched; for the math path all of them, shortened."""
    fused = [name for name in names if backend_of([name]) != "math"]
    return fused[0] if fused else once([short(name) for name in names]) or "none"


# The rows of the dispatch.

def call_of_case(case, setting):
    """A call for which_kernel(): makes the tensors, without a kernel, and attends under `setting`."""
    def call():
        q, k, v, mask = tensors_of(case)
        with setting(case):
            attend(q, k, v, mask, case["mask"] == "causal", case["enable_gqa"])

    return call


def tried(case, setting):
    """(what a case raises in one line, or None; its relative error against fp64, or None) on random numbers."""
    import torch

    torch.manual_seed(SEED)
    q, k, v, mask = tensors_of(case, random=True)
    try:
        with setting(case):
            o = attend(q, k, v, mask, case["mask"] == "causal", case["enable_gqa"]).detach()
        torch.cuda.synchronize()
    except RuntimeError as error:
        if "out of memory" in str(error).lower():
            raise
        return plain_words(error).split(" Exception raised from")[0], None
    right = exact(q.detach(), k.detach(), v.detach(), None if mask is None else mask.detach(), case["mask"] == "causal")
    return None, off_by(o, right)


def extra_bytes(case, times, setting):
    """Peak bytes requested above the inputs, the output included."""
    import torch

    torch.cuda.synchronize()
    q, k, v, mask = tensors_of(case, times)
    torch.cuda.reset_peak_memory_stats()
    with_inputs = torch.cuda.memory_stats()["requested_bytes.all.current"]
    with setting(case):
        o = attend(q, k, v, mask, case["mask"] == "causal", case["enable_gqa"])
    torch.cuda.synchronize()
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    del o
    return peak - with_inputs


def grown(case, setting, doubled=True):
    """(MiB above the inputs at S, how many times as much at 2S, bytes for each score); the last two are None unless doubled."""
    small = extra_bytes(case, 1, setting)
    if not doubled:
        return mib(small), None, None
    large = extra_bytes(case, 2, setting)
    return mib(small), large / small, bytes_per_score(case, small, large)


def bytes_per_score(case, small, large):
    """The part of the memory that quadruples, over the H·S_q·S_kv scores. None with one query, which only doubles its keys.

    If memory is a·S + b·S², then at 2S it is 2·a·S + 4·b·S²: b·S² is half of what `large` has above 2·small. Scores in fp32 held twice make 8.
    A mask that is converted for all heads at once grows as S² too, but makes a fraction of a byte.
    """
    return (large - 2 * small) / 2 / (HEADS * case["S_q"] * case["S_kv"]) if case["S_q"] > 1 else None


def dispatch_rows():
    """One row a case. All kernels are seen in one session of the profiler, after each case has run once."""
    rows, calls = [], {}
    for case in cases():
        tensors = tensors_of(case)
        row = {"part": "dispatch", **case, "heads": HEADS, "reason": why_not_flash(case, tensors)}
        for prefix, setting in SETTINGS.items():
            with setting(case):
                row[prefix + "choice"] = chosen(case, tensors)
            if not prefix or row[prefix + "choice"] != row["choice"]:       # else it is the same run
                row[prefix + "error"], row[prefix + "rel_err"] = tried(case, setting)
                if not row[prefix + "error"]:
                    calls[case["case"], prefix] = call_of_case(case, setting)
        rows.append((case, row))
    names = dict(zip(calls, kernels_of(*calls.values())))
    for case, row in rows:
        for prefix, setting in SETTINGS.items():
            if prefix + "error" in row:
                row.update(findings(case, setting, prefix, names.get((case["case"], prefix))))
            else:
                row.update({prefix + key: row[key] for key in COPIED})
        row["status"] = "ok" if row["error"] or row["extra_mib"] is not None else "oom"
        yield row


def findings(case, setting, prefix, names):
    """The columns of one run of a case: whose kernels they are, how many, and what they need above the inputs. names: None when it was refused."""
    ran, names = names is not None, names or []
    doubled = case["group"] == "first" or backend_of(names) != "cudnn"
    size, growth, score_bytes = (attempt(grown, case, setting, doubled) if ran else None) or (None, None, None)
    found = {"backend": backend_of(names), "launches": len(names), "extra_mib": size, "growth": growth, "score_bytes": score_bytes,
             "kernel": attention_kernel(names)}
    return {prefix + key: value for key, value in found.items()}


# The two traps: a query that may see no key, and a mask beside is_causal.

def trap_inputs(mask, hidden_row=None, device="cuda", S=128, d=64):
    """(q, k, v, seen, given): q, k, v [1, 2, S, d] in bf16; seen [S, S], True on the diagonal and on 70 % of the rest; given, the
    same as a mask of the kind."""
    import torch

    torch.manual_seed(SEED)
    q, k, v = (torch.randn(1, 2, S, d, device=device, dtype=torch.bfloat16) for _ in range(3))
    seen = (torch.rand(S, S, device=device) < 0.7) | torch.eye(S, dtype=torch.bool, device=device)
    if hidden_row is not None:
        seen[hidden_row] = False
    return q, k, v, seen, (seen if mask == "boolean" else additive(seen, q.dtype))


def additive(seen, dtype):
    """A boolean mask as numbers to add: 0 where it is True, -inf where it is False."""
    import torch

    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, -math.inf)


def textbook(q, k, v, mask):
    """Attention in three lines in the dtype of q; a boolean mask hides with -inf, a float mask is added."""
    import torch

    s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])   # [B, H, S_q, S_kv]
    s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask
    return torch.softmax(s, dim=-1) @ v


def trap_rows(part, impls, causal, hidden_row=None):
    """Rows of a trap: each backend is asked for attention under a mask, and its answer is held against what it can mean.

    causal is given to SDPA beside the mask; hidden_row is the query that may see no key.
    """
    rows, calls = {}, {}
    for mask in ("boolean", "float"):
        for impl in impls:
            tensors = trap_inputs(mask, hidden_row)
            call = trap_call(impl, tensors, causal)
            try:
                o, error = call(), None
            except RuntimeError as refusal:
                error = plain_words(refusal)
            if error:
                seen = {"result": "refused" if re.search("No (available kernel|viable backend)", error) else "error", "rest_rel_err": None}
            else:
                seen = what_a_hidden_row_gets(o, tensors, hidden_row) if hidden_row is not None else what_applies(o, tensors)
                calls[impl, mask] = call
            rows[impl, mask] = {"part": part, "impl": impl, "mask": mask, **seen, "error": error}
    kernels = dict(zip(calls, kernels_of(*calls.values())))
    for (impl, mask), row in rows.items():
        names = kernels.get((impl, mask), [])
        yield {**row, "backend": impl if impl == "textbook" else backend_of(names), "kernel": attention_kernel(names), "status": "ok"}


def trap_call(impl, tensors, causal):
    """The question to one backend, as a call without arguments."""
    q, k, v, _, given = tensors

    def call():
        if impl == "textbook":
            return textbook(q, k, v, given)
        with allowing(*([] if impl == "default" else [impl])), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return attend(q, k, v, given, causal)

    return call


def what_a_hidden_row_gets(o, tensors, row):
    """What the query got that may see no key, and the relative error of all other queries against fp64."""
    q, k, v, seen, _ = tensors
    others = [i for i in range(q.shape[2]) if i != row]
    rest = off_by(o[:, :, others], exact(q, k, v, seen)[:, :, others])
    return {"result": kind_of_row(o[:, :, row], exact(q, k, v)[:, :, row], v), "rest_rel_err": rest}


def what_applies(o, tensors):
    """Which takes effect when attn_mask and is_causal=True are given together, and the relative error against fp64 of that reading."""
    q, k, v, seen, _ = tensors
    past = seen.new_ones(seen.shape).tril()
    off = {name: off_by(o, exact(q, k, v, like)) for name, like in (("both applied", seen & past), ("mask only", seen), ("causal only", past))}
    name = min(off, key=off.get)
    return {"result": name if off[name] <= 0.03 else "other", "rest_rel_err": off[name]}


def kind_of_row(o, unmasked, v):
    """zeros, NaN, unmasked softmax, mean of v, or other. o and unmasked [B, H, d], v [B, H, S, d]."""
    if o.isnan().any():
        return "NaN"
    if (o == 0).all():
        return "zeros"
    for name, like in (("unmasked softmax", unmasked), ("mean of v", v.double().mean(2))):
        if (o.double() - like).norm() <= 0.03 * like.norm():
            return name
    return "other"


# The check: SDPA means what this file takes it to mean.

def exact(q, k, v, mask=None, causal=False):
    """Attention in fp64, head by head, without SDPA: keys that a query does not see get the weight 0. A query without keys gives NaN.

    q [B, H, S_q, d], k and v [B, H_kv, S_kv, d]; a boolean mask says which keys take part, a float one is added to the scaled
    scores; is_causal counts from the top left: query i sees keys 0 ... i.
    """
    import torch

    B, H, S_q, d = q.shape
    group, S_kv = H // k.shape[1], k.shape[2]
    seen = torch.ones(S_q, S_kv, dtype=torch.bool, device=q.device)
    if causal:
        seen = torch.arange(S_kv, device=q.device)[None, :] <= torch.arange(S_q, device=q.device)[:, None]
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    o = torch.empty(B, H, S_q, v.shape[3], dtype=torch.float64, device=q.device)
    for b in range(B):
        for h in range(H):
            keys, values = k[b, h // group].double(), v[b, h // group].double()
            s = torch.einsum("id,jd->ij", q[b, h].double(), keys) * d**-0.5
            if mask is not None and mask.dtype != torch.bool:
                s = s + mask
            weights = torch.exp(s - s.max()) * seen
            o[b, h] = torch.einsum("ij,jd->id", weights, values) / weights.sum(1, keepdim=True)
    return o


def off_by(o, right):
    """The relative error of o (Frobenius norm); infinite where o is not a number."""
    rel_err = ((o.double() - right).norm() / right.norm()).item()
    return math.inf if math.isnan(rel_err) else rel_err


def check(attention=attend, device=None):
    """Raises AssertionError unless attention(q, k, v, mask, causal, enable_gqa) is exact() on a case of every kind, to 2 % (relative).

    A boolean mask says True where a key takes part, a float mask is added after the division by sqrt(d), is_causal starts at the top left
    even when S_q and S_kv differ, and query head h reads KV head h // (H / H_kv). cuDNN is left out for the sake of its plans;
    measure() compares it with exact() in each case that it takes.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    short_ones = {"S_q": 96, "S_kv": 96}
    for change in (
        {}, {"mask": "causal"}, {"mask": "boolean"}, {"mask": "float"}, GQA, {**GQA, "mask": "causal"}, {**GQA, "mask": "boolean"},
        {"dtype": "fp32"}, {"dtype": "fp16", "d": 100}, {"d": 320}, {"layout": "BSHD"}, {"layout": "packed"}, {"layout": "strided"},
        {"S_q": 40, "mask": "causal"}, {"S_q": 96, "S_kv": 40, "mask": "causal"}, {"S_q": 40, "mask": "boolean"}, {"S_q": 1},
    ):
        case = {**PLAIN, **short_ones, **change}
        torch.manual_seed(SEED)
        q, k, v, mask = tensors_of(case, device=device, random=True)
        causal = case["mask"] == "causal"
        right = exact(q, k, v, mask, causal)
        with other_cards(case):
            o = attention(q, k, v, mask, causal, case["enable_gqa"])
        rel_err = off_by(o, right)
        if not rel_err <= 0.02:
            raise AssertionError(f"SDPA is off by {rel_err:.1e} (relative) on: {name_of(case)}")


# Rows, values and text.

def measure():
    """Yields one flat dict a row: the order, the cases, the masked row, the mask beside is_causal."""
    release()
    which_kernel(lambda: attend(*tensors_of(PLAIN)))       # the first call settles the order
    yield order_row()
    yield from dispatch_rows()
    yield from trap_rows("masked_row", ("textbook", "default", *BACKENDS), causal=False, hidden_row=5)
    yield from trap_rows("mask_and_causal", ("default", *BACKENDS), causal=True)


def order_row():
    """The order in which backends are asked on this card, and the kernel that the plain case gets."""
    import torch
    from torch.nn.attention import SDPBackend

    names = {int(getattr(SDPBackend, member)): name for name, member in BACKENDS.items()}
    order = getattr(torch._C, "_get_sdp_priority_order", list)()
    return {"part": "order", "order": " then ".join(names[i] for i in map(int, order) if i in names) or None,
            "cudnn": torch.backends.cudnn.version(), "kernel": attention_kernel(which_kernel(call_of_case(PLAIN, default))), "status": "ok"}


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    rows_of = {part: [row for row in rows if row["part"] == part] for part in ("order", "dispatch", "masked_row", "mask_and_causal")}
    cases_run = rows_of["dispatch"]
    found = {
        "cases": len(cases_run),
        "order": next((row["order"] for row in rows_of["order"]), None),
        "choice_misses": sum(row["backend"] != row["choice"] for row in cases_run if not row["error"]),
        "wrong": sum(row[prefix + "rel_err"] is None or row[prefix + "rel_err"] > 0.02 for row in cases_run for prefix in SETTINGS if not row[prefix + "error"]),
        "flash_refused": sum(row["reason"] is not None for row in cases_run),
        "quadratic": sum(quadratic(row["score_bytes"]) for row in cases_run),
        "no_cudnn_quadratic": sum(quadratic(row["no_cudnn_score_bytes"]) for row in cases_run),
    }
    for backend in BACKENDS:
        found[f"{backend}_cases"] = sum(row["backend"] == backend for row in cases_run)
        found[f"no_cudnn_{backend}_cases"] = sum(row["no_cudnn_backend"] == backend for row in cases_run)
    for part in ("masked_row", "mask_and_causal"):
        for impl in ("textbook", "default", *BACKENDS):
            found[f"{part}_{impl}"] = next((row["result"] for row in rows_of[part] if (row["impl"], row["mask"]) == (impl, "boolean")), None)
    return found


def quadratic(score_bytes):
    """A byte or more for every score of every head: S x S was there."""
    return score_bytes is not None and score_bytes >= 1


def header(part):
    """The lines above the first row of a part."""
    return {
        "order": "B = 1, 28 query heads, bf16, d = 128, S = 1024 unless a case says otherwise",
        "dispatch": "\ngrowth: memory above the inputs, at 2S over that at S (2: linear, 4: S^2); B/score: the part that grows as S^2, in bytes for\n"
                    "each score of each head; both for cuDNN in the first cases only. On the right the same without cuDNN, as on other cards\n"
                    f"{'case':42} {'backend':9} growth  B/score  {'no cuDNN':9} growth  B/score  kernel; why not flash",
        "masked_row": f"\nA query that may see no key gets\n{'asked':10} {'mask':8} {'result':17} {'backend':10} kernel",
        "mask_and_causal": f"\nattn_mask together with is_causal=True\n{'asked':10} {'mask':8} {'result':17} {'backend':10} kernel",
    }[part]


def line(row):
    """A row as text."""
    def number(value, width):
        return f"{value:{width}.2f}" if value is not None else "-".rjust(width)

    kernel = " + ".join(short(name) for name in (row["kernel"] or "-").split(" + "))
    if row["part"] == "order":
        return f"asked in this order: {row['order']} (cuDNN {row['cudnn']}); the plain case takes {kernel}"
    if row["part"] == "dispatch":
        growth, no_cudnn = (f"{number(row[prefix + 'growth'], 6)}  {number(row[prefix + 'score_bytes'], 7)}" for prefix in SETTINGS)
        why = row["error"] or row["reason"]
        return (f"{row['case']:42} {row['backend']:9} {growth}  {row['no_cudnn_backend']:9} {no_cudnn}  {shorten(kernel, 60)}"
                + (f"; {shorten(why, 110)}" if why else "")).encode("ascii", "replace").decode()
    said = f"; {shorten(row['error'], 100)}" if row["error"] else ""
    return f"{row['impl']:10} {row['mask']:8} {row['result']:17} {row['backend']:10} {shorten(kernel, 60)}{said}"


def shorten(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


def footer(found):
    """What values() found, as lines."""
    return (f"\n{found['cases']} cases. Flash refuses {found['flash_refused']}. "
            f"S x S is made in {found['quadratic']}; without cuDNN in {found['no_cudnn_quadratic']}.\n"
            f"taken: " + ", ".join(f"{backend} {found[f'{backend}_cases']}" for backend in BACKENDS)
            + f"; the dispatcher's own answer and the kernel disagree in {found['choice_misses']}; "
            f"wrong against fp64: {found['wrong']}")


def main(argv=None):
    return command(argv, __doc__, check, "masks, lengths, grouped heads and layouts mean what this file says", measure, header, line, values, footer)


if __name__ == "__main__":
    sys.exit(ended(main))
