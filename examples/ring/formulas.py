"""The formulas: bytes and scales. e is the bytes of an element."""

import math

QWEN = {"B": 1, "heads": 28, "kv_heads": 4, "S": 16384, "d": 128, "dtype": "bf16"}


def pass_bytes(B, kv_heads, S, d, P, e=2):
    """What a rank sends in one pass: its present k and v, 2·B·H_kv·S/P·d·e. There are P - 1 passes."""
    return 2 * B * kv_heads * (S // P) * d * e


def one_gpu_bytes(B, heads, kv_heads, S, d, e=2):
    """The peak of flash_part() on the whole sequence, without a split of K and V: q, k, v, o, the LSE, 24 bytes of dropout's state."""
    return 2 * B * (heads + kv_heads) * S * d * e + 4 * B * heads * S + 24


def ring_bytes(B, heads, kv_heads, S, d, P, e=2):
    """The peak of ring_attention() on each GPU; it is reached in merge_into(). Equal for every mode; s = S / P.

    inputs        q, k, v of the rank
    buffers       k and v twice; once when P = 2, since the last step receives nothing
    accumulators  o in fp32, and the LSE
    part          o of the kernel in the dtype of q, and its LSE
    weights       the new LSE, and e^(lse - new LSE), fp32
    Raises ValueError when P does not divide S.
    """
    if P < 1 or S % P:
        raise ValueError(f"P = {P} does not divide S = {S}")
    s = S // P
    inputs = B * (heads + 2 * kv_heads) * s * d * e
    buffers = min(2, P - 1) * 2 * B * kv_heads * s * d * e
    accumulators = 4 * B * heads * s * d + 4 * B * heads * s
    part = B * heads * s * d * e + 4 * B * heads * s
    weights = 2 * 4 * B * heads * s
    return inputs + buffers + accumulators + part + weights


def by_head_bytes(B, heads, kv_heads, S, d, P, e=2):
    """The peak of ring_by_head() for B = 1: q, k, v, o of the rank, and what the ring of one KV head adds to its own q, k, v."""
    s, group = S // P, heads // kv_heads
    return 2 * B * (heads + kv_heads) * s * d * e + ring_bytes(B, group, 1, S, d, P, e) - B * (group + 2) * s * d * e


def least_shard(flops, link, group, causal=False, e=2):
    """The least S / P for which a step's kernel lasts as long as the pass beside it: s such that 4·H·s²·d / flops >= 2·H_kv·s·d·e / link.

    flops in FLOP/s, link in bytes/s and direction. H, H_kv, d and B cancel except for the group H / H_kv. Under a causal mask
    with zigzag sharding a step has half the work, and s doubles.
    """
    return math.ceil((2 if causal else 1) * e * flops / (2 * group * link))


def sizes_of(P, B=1, heads=28, kv_heads=4, d=128):
    """{impl: S -> bytes} of the three programs on the shape of Qwen2.5-7B."""
    return {
        "one GPU": lambda S: one_gpu_bytes(B, heads, kv_heads, S, d),
        "ring": lambda S: ring_bytes(B, heads, kv_heads, S // P * P, d, P),
        "ring by head": lambda S: by_head_bytes(B, heads, kv_heads, S // P * P, d, P),
    }
