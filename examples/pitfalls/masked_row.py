"""Pitfall: a query that may see no key gets NaN from a plain softmax, and the NaN does not stay in its row.

Padding makes such rows, and a causal mask with more queries than keys does. Leaving the row out of the loss does not
help: the backward pass takes dv = pᵀ do, the row's p is NaN and its do is 0, and NaN · 0 is NaN, so the gradient of
every value is lost. Define the row as zeros, before the softmax and not after it.
"""

import math

import torch


def wrong(q, k, v, seen):
    """Masked attention.

    q [S_q, d], k and v [S_kv, d], seen [S_q, S_kv] of bool -> [S_q, d]
    """
    s = q @ k.mT / math.sqrt(q.shape[-1])                  # [S_q, S_kv]
    p = torch.softmax(s.masked_fill(~seen, -math.inf), -1)
    return p @ v


def right(q, k, v, seen):
    """The same; a query that sees no key gets zeros.

    q [S_q, d], k and v [S_kv, d], seen [S_q, S_kv] -> [S_q, d]
    """
    some = seen.any(-1, keepdim=True)                      # [S_q, 1]
    s = q @ k.mT / math.sqrt(q.shape[-1])                  # [S_q, S_kv]
    p = torch.softmax(s.masked_fill(~seen & some, -math.inf), -1)
    return (p * some) @ v


def example():
    """(q, k, v, seen): query 2 sees no key, query i of the others sees the keys 0 ... i."""
    torch.manual_seed(2026)
    q, k, v = (torch.randn(4, 8, dtype=torch.float64).requires_grad_() for _ in range(3))
    seen = torch.ones(4, 4, dtype=torch.bool).tril()
    seen[2] = False
    return q, k, v, seen


def rows_and_gradient(attention):
    """Which rows of o are finite, and which rows of the gradient of v when only the other rows enter the loss."""
    q, k, v, seen = example()
    o = attention(q, k, v, seen)
    o[[0, 1, 3]].sum().backward()
    return o.detach(), v.grad


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` loses row 2 and the whole gradient, and `right` neither."""
    q, k, v, seen = example()
    o, grad = rows_and_gradient(wrong)
    if not (o[2].isnan().all() and o[[0, 1, 3]].isfinite().all()):
        raise AssertionError("row 2 alone should be NaN")
    if not grad.isnan().all():
        raise AssertionError("the gradient of every value should be NaN")
    o, grad = rows_and_gradient(right)
    if not ((o[2] == 0).all() and grad.isfinite().all()):
        raise AssertionError("row 2 is zeros, the gradient is finite")
    for i in (0, 1, 3):
        p = torch.softmax(k[: i + 1] @ q[i] / math.sqrt(8), 0)          # [i + 1]
        if not torch.allclose(o[i], p @ v[: i + 1]):
            raise AssertionError(f"row {i} is off")


def main():
    check()
    print("query 2 sees no key and is left out of the loss")
    print("       rows of o that are NaN   values whose gradient is NaN")
    for name, attention in (("wrong", wrong), ("right", right)):
        o, grad = rows_and_gradient(attention)
        lost = [[i for i in range(4) if x[i].isnan().any()] for x in (o, grad)]
        print(f"{name}  {str(lost[0]):23}  {lost[1]}")


if __name__ == "__main__":
    main()
