"""What every rung takes and what it refuses: q [B, H, S_q, d], k and v [B, H_kv, S_kv, d], contiguous, d = 64 or 128.

fp16 and bf16 on a GPU. On a CPU the Triton rungs run in Triton's interpreter (TRITON_INTERPRET=1 before the import), in
fp16 and fp32: it multiplies the bit patterns of bf16 (triton #11584). The mask is aligned at the bottom right: the last
query sees every key, and with S_q > S_kv the first S_q - S_kv queries see none: o = 0, lse = -inf.
"""

import math

import torch
import triton

TRITON = "3.6.0"                                           # Gluon is experimental: others may differ
LOG2E = math.log2(math.e)


def outputs(q, k, v, causal):
    """o like q and lse [B, H, S_q] in fp32, not filled. ValueError with the argument's name for what no rung takes."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        refuse(not isinstance(x, torch.Tensor) or x.dim() != 4, name, "must be a tensor [B, H, S, d]")
        kinds = (torch.float16, torch.bfloat16) if x.is_cuda else (torch.float16, torch.float32)
        refuse(x.dtype not in kinds, name, f"is {x.dtype}; on this device it must be {kinds[0]} or {kinds[1]}")
        refuse(x.dtype != q.dtype or x.device != q.device, name, "must have the dtype and the device of q")
        refuse(0 in x.shape, name, f"is empty: {tuple(x.shape)}")
        refuse(x.shape[3] not in (64, 128), name, f"has d = {x.shape[3]}; it must be 64 or 128")
        refuse(not x.is_contiguous(), name, "must be contiguous")
        refuse(x.data_ptr() % 16 != 0, name, "must start at a multiple of 16 bytes")
    refuse(k.shape[::3] != q.shape[::3], "k", f"is {tuple(k.shape)}, and B or d is not that of q, {tuple(q.shape)}")
    refuse(q.shape[1] % k.shape[1] != 0, "k", f"has {k.shape[1]} heads, which do not divide the {q.shape[1]} of q")
    refuse(v.shape != k.shape, "v", f"is {tuple(v.shape)} and k is {tuple(k.shape)}: every key needs its value")
    refuse(not isinstance(causal, bool), "causal", "must be True or False")
    for name, x in (("q", q), ("k", k)):
        refuse(x.shape[2] * x.shape[3] >= 2**31, name, "has 2^31 elements a head or more")
    return torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)


def refuse(wrong, name, why):
    if wrong:
        raise ValueError(f"{name} {why}")


def cannot_run(hopper=True):
    """Why the rungs cannot run here, in one line; None when they can. Those with TMA need Hopper, the others 8.0."""
    if triton.__version__ != TRITON:
        return f"The kernels need Triton {TRITON}, and this is {triton.__version__}: pip install triton=={TRITON}"
    if not torch.cuda.is_available():
        return "No CUDA GPU is visible, and the kernels run on NVIDIA GPUs."
    name, capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    if capability < (8, 0) or hopper and capability != (9, 0):
        needed = "9.0 (Hopper)" if hopper else "8.0 or more"
        return f"{name} has compute capability {capability[0]}.{capability[1]}; these kernels need {needed}."
    return None
