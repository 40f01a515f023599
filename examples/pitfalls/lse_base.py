"""Pitfall: two parts are merged whose LSE have different bases.

A GPU computes 2^x and not e^x, so a kernel may keep its scores, and its LSE, in base 2; another library returns the
natural one. The merge weighs the parts by their LSE and cannot see the base: the result is a mean of the right
values with wrong weights, without a NaN or a warning. One factor, ln 2, converts.
"""

from math import e, exp, fsum, log, log2


def wrong(a, b):
    """Merge two parts (o, lse) as they come, the first with a natural LSE, the second with one in base 2."""
    return merge(a, b)


def right(a, b):
    """The same; the second LSE becomes a natural one first."""
    o, lse2 = b
    return merge(a, (o, lse2 * log(2)))


def merge(a, b):
    """Two parts (o, natural lse) of one row -> the part of all their keys."""
    top = max(a[1], b[1])
    w = [exp(lse - top) for _, lse in (a, b)]
    return fsum(w_i * o for w_i, (o, _) in zip(w, (a, b))) / fsum(w), top + log(fsum(w))


def part(scores, values, base=e):
    """(o, lse in `base`) of one row over some keys, with all weights at hand."""
    l = fsum(exp(s) for s in scores)
    return fsum(exp(s) * v for s, v in zip(scores, values)) / l, log(l) if base == e else log2(l)


SCORES, VALUES = [2.0, -1.0, 0.5, 3.0, 1.0, 2.5], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def parts():
    """The two halves of the row, as two libraries give them: natural, base 2."""
    return part(SCORES[:3], VALUES[:3]), part(SCORES[3:], VALUES[3:], 2)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `right` gives the whole row and `wrong` another, finite one."""
    o, lse = part(SCORES, VALUES)
    got, off = right(*parts()), wrong(*parts())
    if not (abs(got[0] - o) < 1e-12 and abs(got[1] - lse) < 1e-12):
        raise AssertionError(f"the merge gives {got}, the whole row is {(o, lse)}")
    if not (min(VALUES) <= off[0] <= max(VALUES) and abs(off[0] - o) > 0.05):
        raise AssertionError(f"expected a plausible wrong mean, and got {off[0]}")


def main():
    check()
    o, lse = part(SCORES, VALUES)
    print("one row in two halves      o      lse (natural)")
    print(f"all keys at once     {o:8.4f}  {lse:8.4f}")
    for name, merged in (("wrong", wrong), ("right", right)):
        o, lse = merged(*parts())
        print(f"{name}                {o:8.4f}  {lse:8.4f}")


if __name__ == "__main__":
    main()
