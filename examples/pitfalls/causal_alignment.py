"""Pitfall: is_causal=True counts from the top left. With a KV cache the mask must be aligned at the bottom right.

Query 0 sees key 0 and no other, however many keys there are: the newest token attends to the oldest. With S_q = S_kv
both alignments are the same, so prefill works and generation is wrong. flash-attn aligns at the bottom right since
2.1.
"""

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa


def wrong(q, k, v):
    """Causal attention whose last query sees every key.

    q [B, H, S_q, d], k and v [B, H, S_kv, d] -> [B, H, S_q, d]
    """
    return sdpa(q, k, v, is_causal=True)


def right(q, k, v):
    """Causal attention whose last query sees every key.

    q [B, H, S_q, d], k and v [B, H, S_kv, d] -> [B, H, S_q, d]
    """
    return sdpa(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]))


LENGTHS = {"prefill": (6, 6), "chunk  ": (3, 6), "decode ": (1, 6)}


def seen(attention, S_q, S_kv):
    """The keys that each query sees: v is the unit matrix, so o is the probabilities."""
    torch.manual_seed(2026)
    q, k = torch.randn(1, 1, S_q, S_kv), torch.randn(1, 1, S_kv, S_kv)
    p = attention(q, k, torch.eye(S_kv)[None, None])[0, 0]
    return [[j for j in range(S_kv) if row[j] > 0] for row in p.tolist()]


def check(wrong=wrong, right=right):
    """Raise AssertionError unless both agree for S_q = S_kv, and otherwise only `right` lets the last query see all keys."""
    for S_q, S_kv in LENGTHS.values():
        bottom_right = [list(range(i + S_kv - S_q + 1)) for i in range(S_q)]
        top_left = [list(range(i + 1)) for i in range(S_q)]
        if not seen(right, S_q, S_kv) == bottom_right:
            raise AssertionError("the right one is right")
        if not seen(wrong, S_q, S_kv) == top_left:
            raise AssertionError("the wrong one counts from the top left")
    if not top_left != bottom_right:
        raise AssertionError


def main():
    check()
    print("         S_q  S_kv   keys seen by the last query")
    for name, (S_q, S_kv) in LENGTHS.items():
        keys = [seen(attention, S_q, S_kv)[-1] for attention in (wrong, right)]
        print(f"{name}  {S_q:3}  {S_kv:4}   wrong {str(keys[0]):18}  right {keys[1]}")


if __name__ == "__main__":
    main()
