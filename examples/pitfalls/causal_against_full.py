"""Pitfall: comparing causal flash with non-causal naive. A program can beat itself by almost two that way.

Causal attention skips the tiles above the diagonal, about half of the work. Comparing speed or memory of two programs
is only meaningful when they compute the same function, so compare their outputs first. Counted here: the tiles that
one and the same program visits.
"""

import math

import torch


def wrong(candidate, baseline):
    """How many times less work the candidate does. Both: () -> (o, tiles)"""
    _, mine = candidate()
    _, theirs = baseline()
    return theirs / mine


def right(candidate, baseline):
    """The same. Raises ValueError when the two do not compute the same numbers. Both: () -> (o, tiles)"""
    o, mine = candidate()
    expected, theirs = baseline()
    if not torch.allclose(o, expected, atol=1e-5):
        raise ValueError(f"not the same function: outputs differ by {(o - expected).abs().max():.1f}")
    return theirs / mine


def tiled(q, k, v, causal, width=16):
    """Attention in tiles of width x width, those above the diagonal skipped.  q, k, v [S, d] -> o [S, d], tiles visited"""
    o, tiles = torch.empty_like(v), 0
    for i in range(0, len(q), width):
        q_i = q[i : i + width] / math.sqrt(q.shape[1])
        m, l, acc = torch.full((len(q_i), 1), -math.inf), torch.zeros(len(q_i), 1), torch.zeros(len(q_i), v.shape[1])
        for j in range(0, i + 1 if causal else len(k), width):
            s = q_i @ k[j : j + width].mT
            if causal and i == j:
                s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)
            m_new = torch.maximum(m, s.amax(1, keepdim=True))
            p, rescale = torch.exp(s - m_new), torch.exp(m - m_new)
            m, l, acc = m_new, rescale * l + p.sum(1, keepdim=True), rescale * acc + p @ v[j : j + width]
            tiles += 1
        o[i : i + width] = acc / l
    return o, tiles


def programs():
    """(causal, full): one program on the same q, k, v, with and without the mask."""
    torch.manual_seed(2026)
    q, k, v = (torch.randn(256, 32) for _ in range(3))
    return (lambda: tiled(q, k, v, True)), (lambda: tiled(q, k, v, False))


def outcome(compare, a, b):
    try:
        return f"{compare(a, b):.2f} times less work"
    except ValueError as error:
        return f"ValueError: {error}"


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` reports 256 / 136 for a program against itself, and `right` refuses that."""
    causal, full = programs()
    torch.manual_seed(2026)
    q, k, v = (torch.randn(256, 32) for _ in range(3))
    for program, flag in ((causal, True), (full, False)):
        expected = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=flag)[0]
        if not torch.allclose(program()[0], expected, atol=1e-5):
            raise AssertionError("both are attention")
    if not outcome(wrong, causal, full) == "1.88 times less work":
        raise AssertionError("256 tiles against 136")
    if not outcome(right, causal, full).startswith("ValueError: not the same function"):
        raise AssertionError
    if not outcome(right, causal, causal) == outcome(right, full, full) == "1.00 times less work":
        raise AssertionError


def main():
    check()
    causal, full = programs()
    print("one program, causal against full")
    print("wrong ", outcome(wrong, causal, full))
    print("right ", outcome(right, causal, full))
    print("right, causal against causal:", outcome(right, causal, causal))


if __name__ == "__main__":
    main()
