"""The inputs: the same random numbers each time.

q [B, H, S, d], k and v [B, H_kv, S, d].
"""

SEED = 2026
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}


def inputs(shape, device="cuda", filled=True):
    """q [B, H, S, d], k and v [B, H_kv, S, d]: the same random numbers each time, or whatever is in memory."""
    import torch

    torch.manual_seed(SEED)
    make = torch.randn if filled else torch.empty
    kind = {"dtype": getattr(torch, DTYPES[shape["dtype"]]), "device": device}
    B, S, d = shape["B"], shape["S"], shape["d"]
    return tuple(make(B, heads, S, d, **kind) for heads in (shape["heads"], shape["kv_heads"], shape["kv_heads"]))


def check_input(q, k, v, same_S=False):
    """Raise a ValueError that names the argument when q [B, H, S, d], k and v [B, H_kv, S_kv, d] do not fit; same_S: nor S and S_kv."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"{name} has {x.ndim} dimensions: it must be [B, H, S, d]")
    (B, H, S, d), (B_kv, H_kv, S_kv, d_kv) = q.shape, k.shape
    if v.shape != k.shape:
        raise ValueError(f"v is {list(v.shape)} and k is {list(k.shape)}: every key needs its value, with the same d")
    if B_kv != B:
        raise ValueError(f"k has batch B = {B_kv} and q has {B}")
    if H_kv == 0 or H % H_kv:
        raise ValueError(f"q has H = {H} heads: not a multiple of the H_kv = {H_kv} heads of k")
    if d_kv != d:
        raise ValueError(f"k has d = {d_kv} and q has d = {d}")
    if same_S and S_kv != S:
        raise ValueError(f"k has S = {S_kv} rows and q has S = {S}: here, as under any causal mask of this program, they must be equal")
