"""Pitfall: scaled_dot_product_attention divides by sqrt(d) itself. Whoever keeps the old division scales twice.

It happens when a hand-written attention is replaced and q was scaled in the projection. The softmax becomes flatter,
nothing raises, and the error is small enough to pass for a rounding difference in a short test. Give scale=1.0, or
drop the division.
"""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa


def wrong(q, k, v):
    """Attention with scores q · k / sqrt(d).  q, k, v [B, H, S, d] -> [B, H, S, d]"""
    q = q / math.sqrt(q.shape[-1])
    return sdpa(q, k, v)


def right(q, k, v):
    """Attention with scores q · k / sqrt(d).  q, k, v [B, H, S, d] -> [B, H, S, d]"""
    q = q / math.sqrt(q.shape[-1])
    return sdpa(q, k, v, scale=1.0)


def largest_probability(attention, S=8, d=64):
    """The mean over queries of the largest probability: v is the unit matrix, so o shows them."""
    torch.manual_seed(2026)
    q, k = (torch.randn(1, 1, S, d) for _ in range(2))
    return attention(q, k, torch.eye(S, d)[None, None])[..., :S].amax(-1).mean().item()


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `right` is softmax(q kᵀ / sqrt(d)) v, and `wrong` is that with d instead of sqrt(d)."""
    torch.manual_seed(2026)
    q, k, v = (torch.randn(1, 2, 16, 64, dtype=torch.float64) for _ in range(3))
    for attention, divisor in ((right, math.sqrt(64)), (wrong, 64)):
        if not torch.allclose(attention(q, k, v), torch.softmax(q @ k.mT / divisor, -1) @ v):
            raise AssertionError


def main():
    check()
    print("8 keys, d = 64: the largest probability of a query, on average")
    for name, attention in (("wrong", wrong), ("right", right)):
        print(f"{name}    {largest_probability(attention):.3f}")
    print(f"uniform  {1 / 8:.3f}")


if __name__ == "__main__":
    main()
