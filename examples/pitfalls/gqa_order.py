"""Pitfall: k.repeat pairs query heads with the wrong KV heads. Neighbouring query heads share one.

With H query heads and H_kv KV heads, query head h reads KV head h // G, G = H / H_kv: repeat_interleave (0 0 1 1).
repeat gives h % H_kv instead (0 1 0 1). Shapes, dtypes and memory are the same; the model's answers are not.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa


def wrong(q, k, v):
    """Grouped-query attention.  q [B, H, S, d], k and v [B, H_kv, S, d] -> [B, H, S, d]"""
    G = q.shape[1] // k.shape[1]
    return sdpa(q, k.repeat(1, G, 1, 1), v.repeat(1, G, 1, 1))


def right(q, k, v):
    """Grouped-query attention.  q [B, H, S, d], k and v [B, H_kv, S, d] -> [B, H, S, d]"""
    return sdpa(q, k, v, enable_gqa=True)


H, H_KV = 6, 2


def read(attention):
    """The KV head that each query head reads: the values of KV head n are all n."""
    q, k = torch.randn(1, H, 3, 4), torch.randn(1, H_KV, 3, 4)
    v = torch.arange(H_KV, dtype=torch.float32).reshape(1, H_KV, 1, 1).expand(1, H_KV, 3, 4)
    return [round(x) for x in attention(q, k, v)[0, :, 0, 0].tolist()]


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `right` reads h // G as repeat_interleave does, and `wrong` reads h % H_kv."""
    torch.manual_seed(2026)
    G = H // H_KV
    if not read(right) == [h // G for h in range(H)] == [h for h in range(H_KV) for _ in range(G)]:
        raise AssertionError
    if not read(wrong) == [h % H_KV for h in range(H)] != read(right):
        raise AssertionError
    q, k, v = torch.randn(1, H, 3, 4), torch.randn(1, H_KV, 3, 4), torch.randn(1, H_KV, 3, 4)
    copied = sdpa(q, k.repeat_interleave(G, 1), v.repeat_interleave(G, 1))
    if not (torch.allclose(right(q, k, v), copied, atol=1e-6) and not torch.allclose(wrong(q, k, v), copied, atol=1e-2)):
        raise AssertionError


def main():
    check()
    print("query head     ", *range(H))
    print("wrong, reads KV", *read(wrong))
    print("right, reads KV", *read(right))


if __name__ == "__main__":
    main()
