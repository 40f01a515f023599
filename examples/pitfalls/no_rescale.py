"""Pitfall: when the running maximum grows, what was summed before must be rescaled by e^(m_old - m_new).

Without it, old keys keep weights measured from a smaller maximum, and count too much. A row whose largest score lies
in the first tile never shows it, so a test needs a row whose largest score comes last. Source: Milakov & Gimelshein,
arXiv 1805.02867, section 3; FlashAttention-2, arXiv 2307.08691, section 3.1.
"""

from math import exp, fsum, inf


def wrong(scores, values, block=2):
    """softmax(scores) · values in tiles of `block` keys."""
    m, l, o = -inf, 0.0, 0.0
    for start in range(0, len(scores), block):
        s, v = scores[start : start + block], values[start : start + block]
        m_new = max(m, *s)
        p = [exp(s_j - m_new) for s_j in s]
        l = l + sum(p)
        o = o + sum(p_j * v_j for p_j, v_j in zip(p, v))
        m = m_new
    return o / l


def right(scores, values, block=2):
    """softmax(scores) · values in tiles of `block` keys."""
    m, l, o = -inf, 0.0, 0.0
    for start in range(0, len(scores), block):
        s, v = scores[start : start + block], values[start : start + block]
        m_new = max(m, *s)
        p = [exp(s_j - m_new) for s_j in s]
        rescale = exp(m - m_new)                           # 1 if the maximum did not grow
        l = rescale * l + sum(p)
        o = rescale * o + sum(p_j * v_j for p_j, v_j in zip(p, v))
        m = m_new
    return o / l


VALUES = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
ROWS = {
    "largest first": [5.0, 1.0, 0.0, 4.0, 2.0, 3.0],
    "largest last ": [3.0, 2.0, 4.0, 0.0, 1.0, 5.0],
    "always rising": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
}


def exact(scores, values):
    """All weights at once, with exact sums; the scores are small."""
    return fsum(exp(s) * v for s, v in zip(scores, values)) / fsum(exp(s) for s in scores)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` passes on the first row alone, and `right` on all rows and tile widths."""
    first, *others = ROWS.values()
    if not abs(wrong(first, VALUES) - exact(first, VALUES)) < 1e-12:
        raise AssertionError("the largest score first hides the mistake")
    for row in others:
        if not abs(wrong(row, VALUES) - exact(row, VALUES)) > 0.1:
            raise AssertionError(f"no harm on {row}")
    for row in ROWS.values():
        for block in (1, 2, 3, 6, 10):
            if not abs(right(row, VALUES, block) - exact(row, VALUES)) < 1e-12:
                raise AssertionError(f"off on {row}, block = {block}")


def main():
    check()
    print("row, tiles of 2   wrong     right     exact")
    for name, row in ROWS.items():
        print(f"{name}   {wrong(row, VALUES):8.4f}  {right(row, VALUES):8.4f}  {exact(row, VALUES):8.4f}")


if __name__ == "__main__":
    main()
