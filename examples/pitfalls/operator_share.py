"""Pitfall: quoting the kernel's speed-up as the model's. Attention is one operator of a layer.

The projections and the feed-forward network are other kernels. FLOPs are taken here for time, as if all kernels ran
at the same rate: an estimate for prefill with fused attention. Shape: a layer of Qwen2.5-7B, causal.
"""

HIDDEN, H, H_KV, D, FFN = 3584, 28, 4, 128, 18944


def wrong(S, faster):
    """How many times faster prefill becomes when the attention kernel becomes `faster` times faster."""
    return faster


def right(S, faster):
    """How many times faster prefill becomes when the attention kernel becomes `faster` times faster (Amdahl's law)."""
    share = attention_flops(S) / (attention_flops(S) + other_flops())
    return 1 / (1 - share + share / faster)


def attention_flops(S):
    """FLOPs a token of q kᵀ and p v: half of the keys on average."""
    return 4 * H * D * S / 2


def other_flops():
    """FLOPs a token of the projections q, k, v, o and the three matrices of the feed-forward network."""
    return 2 * (2 * HIDDEN * H * D + 2 * HIDDEN * H_KV * D + 3 * HIDDEN * FFN)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `right` is the ratio of whole layers, and `wrong` promises far more."""
    for S in (1024, 4096, 32768):
        before, after = attention_flops(S) + other_flops(), attention_flops(S) / 2 + other_flops()
        if not abs(right(S, 2) - before / after) < 1e-12:
            raise AssertionError
        if not (wrong(S, 2) == 2 and right(S, 2) < 1.25):
            raise AssertionError


def main():
    check()
    print("attention twice as fast makes prefill faster by")
    print("    S     wrong   right")
    for S in (1024, 4096, 32768):
        print(f"{S:5}  {wrong(S, 2):8.2f}{right(S, 2):8.2f}")


if __name__ == "__main__":
    main()
