"""Pitfall: when the first tile is wholly masked, m stays -inf, and -inf - -inf is NaN.

It happens with padding on the left, with sliding windows, and wherever a mask hides the first keys. The remedy that
kernels take: subtract 0 instead of -inf while no key has been seen; every weight is then e^-inf = 0. Source: the
guard `max == -INFINITY ? 0 : max` in flash-attention's csrc/flash_attn/src/softmax.h.
"""

from math import exp, fsum, inf, isnan


def wrong(scores, values, block=2):
    """softmax(scores) · values in tiles of `block` keys; a score of -inf hides its key."""
    m, l, o = -inf, 0.0, 0.0
    for start in range(0, len(scores), block):
        s = scores[start : start + block]
        m_new = max(m, *s)
        p, rescale = [exp(s_j - m_new) for s_j in s], exp(m - m_new)
        l = rescale * l + sum(p)
        o = rescale * o + dot(p, values[start : start + block])
        m = m_new
    return o / l


def right(scores, values, block=2):
    """The same; a row that sees no key gives 0."""
    m, l, o = -inf, 0.0, 0.0
    for start in range(0, len(scores), block):
        s = scores[start : start + block]
        m_new = max(m, *s)
        m_safe = 0.0 if m_new == -inf else m_new
        p, rescale = [exp(s_j - m_safe) for s_j in s], exp(m - m_safe)
        l = rescale * l + sum(p)
        o = rescale * o + dot(p, values[start : start + block])
        m = m_new
    return o / l if l > 0 else 0.0


def dot(p, v):
    return sum(p_j * v_j for p_j, v_j in zip(p, v))


VALUES = [1.0, 2.0, 3.0, 4.0]
ROWS = {
    "last tile hidden ": [1.0, 2.0, -inf, -inf],
    "half a tile      ": [-inf, 1.0, 2.0, -inf],
    "first tile hidden": [-inf, -inf, 1.0, 2.0],
    "every key hidden ": [-inf, -inf, -inf, -inf],
}


def exact(scores, values):
    """All weights at once; 0 when there are none."""
    l = fsum(exp(s) for s in scores)
    return fsum(exp(s) * v for s, v in zip(scores, values)) / l if l else 0.0


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` fails only where the first tile is hidden, and `right` is right for all rows."""
    for name, row in ROWS.items():
        if row[:2] == [-inf, -inf]:
            if not isnan(wrong(row, VALUES)):
                raise AssertionError(f"expected NaN: {name}")
        else:
            if not abs(wrong(row, VALUES) - exact(row, VALUES)) < 1e-12:
                raise AssertionError(name)
        for block in (1, 2, 3, 4):
            if not abs(right(row, VALUES, block) - exact(row, VALUES)) < 1e-12:
                raise AssertionError(f"{name}, block = {block}")


def main():
    check()
    print("row, tiles of 2       wrong     right")
    for name, row in ROWS.items():
        print(f"{name}  {wrong(row, VALUES):8.4f}  {right(row, VALUES):8.4f}")


if __name__ == "__main__":
    main()
