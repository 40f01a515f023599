"""Pitfall: asking for the attention map. Flash never has it, so whoever insists gets the S x S program back.

torch.nn.MultiheadAttention returns averaged probabilities unless need_weights=False, and makes the whole map for
that. If you want to look at a few queries, compute their rows: each costs S numbers, and is exact.
"""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import TorchDispatchMode


def wrong(q, k, v, queries):
    """Attention, and the map's rows of some queries.  q, k, v [H, S, d], queries [n] -> o [H, S, d], p [H, n, S]"""
    p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)        # [H, S, S]
    return p @ v, p[:, queries]


def right(q, k, v, queries):
    """Attention, and the map's rows of some queries.  q, k, v [H, S, d], queries [n] -> o [H, S, d], p [H, n, S]"""
    p = torch.softmax(q[:, queries] @ k.mT / math.sqrt(q.shape[-1]), -1)    # [H, n, S]
    return sdpa(q[None], k[None], v[None])[0], p


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that an operator makes."""
    elements = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.numel())
        return result


H, S, D = 4, 512, 32
QUERIES = torch.tensor([0, 100, 511])


def example():
    torch.manual_seed(2026)
    return tuple(torch.randn(H, S, D) for _ in range(3))


def largest(attention):
    q, k, v = example()
    with Largest() as seen:
        attention(q, k, v, QUERIES)
    return seen.elements


def largest_of_layer(need_weights):
    """The same for torch.nn.MultiheadAttention, ready for training."""
    layer, x = torch.nn.MultiheadAttention(H * D, H, batch_first=True), torch.randn(1, S, H * D)
    with Largest() as seen:
        layer(x, x, x, need_weights=need_weights)
    return seen.elements


def check(wrong=wrong, right=right):
    """Raise AssertionError unless both give the same o and rows, `wrong` makes H·S·S elements, and `right` far fewer."""
    q, k, v = (x.double() for x in example())
    for a, b in zip(wrong(q, k, v, QUERIES), right(q, k, v, QUERIES)):
        if not torch.allclose(a, b):
            raise AssertionError("both are attention")
    if not largest(wrong) == H * S * S:
        raise AssertionError("the whole map was expected")
    if not largest(right) <= H * S * D:
        raise AssertionError("nothing larger than q was expected")
    if not largest_of_layer(True) == H * S * S > 2 * largest_of_layer(False):
        raise AssertionError("need_weights decides in MultiheadAttention")


def main():
    check()
    print("3 rows of the map, 4 heads, S = 512, d = 32; elements of the largest tensor made")
    for name, attention in (("wrong", wrong), ("right", right)):
        print(f"{name}  {largest(attention):9,}")
    print("torch.nn.MultiheadAttention, the whole layer")
    for need_weights in (True, False):
        print(f"need_weights={need_weights!s:5}  {largest_of_layer(need_weights):9,}")


if __name__ == "__main__":
    main()
