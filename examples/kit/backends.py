"""The backends: of scaled_dot_product_attention, forced by their names."""

import contextlib

from kit.inputs import check_input

BACKENDS = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}


def sdpa(q, k, v, causal=False):
    """PyTorch's scaled_dot_product_attention, by whichever backend is allowed where it is called. Shapes as in naive().

    Raises ValueError, naming the argument, when shapes do not fit, or causal meets S_q other than S_kv: PyTorch would align at the top left.
    """
    import torch.nn.functional as F

    check_input(q, k, v, causal)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def only(impl):
    """A context in which sdpa() has the backend of `impl` and no other; nothing is forced where BACKENDS has no `impl`.

    Where the kernel cannot run, sdpa() then raises RuntimeError (No available kernel) instead of taking another silently.
    """
    if impl not in BACKENDS:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([getattr(SDPBackend, BACKENDS[impl])])
