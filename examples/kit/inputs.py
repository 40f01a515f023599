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
