"""Pitfall: repeat_interleave of k and v before attention copies the whole KV cache, G times as large, at every step.

The result is right and the copy is not needed: in decode the G query heads of a group are G rows against one k.
Reshape q, which is small, and leave k and v alone. For S_q > 1 without a mask the same reshape works; with one, use
enable_gqa=True. What is counted: the bytes of every new tensor that the call makes, in Qwen2.5-7B's shape (28 heads
over 4) and fp32.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import TorchDispatchMode

H, H_KV, S, D = 28, 4, 1024, 128
MIB = 2**20


def wrong(q, k, v):
    """One decode step.  q [B, H, 1, d], k and v [B, H_kv, S, d] -> [B, H, 1, d]"""
    G = q.shape[1] // k.shape[1]
    return sdpa(q, k.repeat_interleave(G, dim=1), v.repeat_interleave(G, dim=1))


def right(q, k, v):
    """One decode step.  q [B, H, 1, d], k and v [B, H_kv, S, d] -> [B, H, 1, d]"""
    B, H, _, d = q.shape
    rows = q.reshape(B, k.shape[1], -1, d)                 # [B, H_kv, G, d]: the group's heads become rows
    return sdpa(rows, k, v).reshape(B, H, 1, d)


class Made(TorchDispatchMode):
    """Adds up the bytes of the storages that operators make."""

    def __init__(self):
        super().__init__()
        self.storages = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.storages[x.untyped_storage().data_ptr()] = x
        return result


def made_mib(attention, q, k, v):
    """MiB of new tensors that one call makes."""
    given = {x.untyped_storage().data_ptr() for x in (q, k, v)}
    with Made() as made:
        attention(q, k, v)
    return sum(x.untyped_storage().nbytes() for address, x in made.storages.items() if address not in given) / MIB


def example():
    torch.manual_seed(2026)
    return torch.randn(1, H, 1, D), torch.randn(1, H_KV, S, D), torch.randn(1, H_KV, S, D)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless both give the same numbers, `wrong` copies k and v to H heads, and `right` neither."""
    q, k, v = example()
    exact = sdpa(q.double(), k.double(), v.double(), enable_gqa=True)
    for attention in (wrong, right):
        if not (attention(q, k, v) - exact).abs().max() < 1e-5:
            raise AssertionError("both are attention")
    if not made_mib(wrong, q, k, v) >= 2 * H * S * D * 4 / MIB:
        raise AssertionError("k and v of 28 heads were expected")
    if not made_mib(right, q, k, v) < 0.1:
        raise AssertionError("only the output and its LSE were expected")


def main():
    check()
    q, k, v = example()
    print(f"KV cache of one layer, 1024 tokens, fp32: {(k.nbytes + v.nbytes) / MIB:.1f} MiB")
    for name, attention in (("wrong", wrong), ("right", right)):
        print(f"{name}  new tensors in one step: {made_mib(attention, q, k, v):5.1f} MiB")


if __name__ == "__main__":
    main()
