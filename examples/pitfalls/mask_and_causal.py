"""Pitfall: attn_mask together with is_causal=True. What happens depends on the backend that runs.

The documentation of scaled_dot_product_attention promises an error. In PyTorch 2.13 the math path raises it; the
CPU's fused kernel applies both masks without a word. A program that runs today raises when a fallback sends it
elsewhere. Pass one mask.
"""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa


def wrong(q, k, v, tokens):
    """Causal attention without the padding.  q, k, v [B, H, S, d], tokens [S], True for a token -> [B, H, S, d]"""
    S = q.shape[2]
    return sdpa(q, k, v, attn_mask=tokens.expand(S, S), is_causal=True)


def right(q, k, v, tokens):
    """Causal attention without the padding.  q, k, v [B, H, S, d], tokens [S], True for a token -> [B, H, S, d]"""
    S = q.shape[2]
    causal = torch.ones(S, S, dtype=torch.bool, device=q.device).tril()
    return sdpa(q, k, v, attn_mask=tokens & causal)


BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "math ": SDPBackend.MATH}


def example():
    """(q, k, v, tokens): the last two of six positions are padding."""
    torch.manual_seed(2026)
    q, k, v = (torch.randn(1, 1, 6, 8, dtype=torch.float64) for _ in range(3))
    return q, k, v, torch.tensor([True] * 4 + [False] * 2)


def outcome(attention, backend):
    """ok, another result, or the error's first words."""
    q, k, v, tokens = example()
    try:
        with sdpa_kernel([backend]):
            o = attention(q, k, v, tokens)
    except RuntimeError as error:
        return f"error: {str(error).split(':')[-1].strip().split('. ')[0]}"
    keys = [min(i + 1, 4) for i in range(6)]               # how many keys query i sees
    expected = torch.stack([sdpa(q[:, :, i : i + 1], k[:, :, :n], v[:, :, :n])[0, 0, 0] for i, n in enumerate(keys)])
    return "ok" if torch.allclose(o[0, 0], expected) else "another result"


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` depends on the backend, and `right` is right with each."""
    found = [outcome(wrong, backend) for backend in BACKENDS.values()]
    if not (found[0] == "ok" and "attn_mask should not be set when is_causal=True" in found[1]):
        raise AssertionError(found)
    if not all(outcome(right, backend) == "ok" for backend in BACKENDS.values()):
        raise AssertionError("the right one is right")


def main():
    check()
    for name, backend in BACKENDS.items():
        print(f"{name}  wrong  {outcome(wrong, backend)}")
        print(f"{name}  right  {outcome(right, backend)}")


if __name__ == "__main__":
    main()
