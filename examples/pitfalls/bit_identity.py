"""Pitfall: testing with ==. Another tile width adds in another order, and the last bits differ.

A correct program must pass its test and a wrong one must fail it. Equality to the bit rejects correct programs; a
bound on the error against a more exact reference, in units of what the plain program of the same precision gets
wrong, tells them apart. Source of the bound: flash-attention's own tests, |flash - exact| <= 2 |naive - exact| + eps.
"""

from decimal import Decimal
from math import exp, inf
from random import Random

SEED = 2026


def wrong(got, naive, exact):
    """Are the results the same?  Each argument is a list of floats, one a row."""
    return got == naive


def right(got, naive, exact):
    """Is the worst error at most twice that of the naive program?

    Each argument is a list of floats, one a row.
    """
    off = max(abs(x - y) for x, y in zip(got, exact))
    allowed = 2 * max(abs(x - y) for x, y in zip(naive, exact)) + 1e-15
    return off <= allowed


def naive(scores, values):
    """softmax(scores) · values, all weights at once."""
    m = max(scores)
    p = [exp(s - m) for s in scores]
    return sum(w * v for w, v in zip(p, values)) / sum(p)


def stream(scores, values, block, rescaled=True):
    """The same in tiles; without the rescale it is a wrong program."""
    m, l, o = -inf, 0.0, 0.0
    for start in range(0, len(scores), block):
        s, v = scores[start : start + block], values[start : start + block]
        m_new = max(m, *s)
        p = [exp(s_j - m_new) for s_j in s]
        rescale = exp(m - m_new) if rescaled else 1.0
        l, o, m = rescale * l + sum(p), rescale * o + sum(w * x for w, x in zip(p, v)), m_new
    return o / l


def exactly(scores, values):
    """The definition in 28-digit decimals."""
    p = [Decimal(s).exp() for s in scores]
    return float(sum(w * Decimal(v) for w, v in zip(p, values)) / sum(p))


def results():
    """{name: is it correct, what it gives for each row}, and the naive and exact results beside it."""
    random = Random(SEED)
    rows = [([random.gauss(0, 2) for _ in range(64)], [random.gauss(0, 1) for _ in range(64)]) for _ in range(50)]
    programs = {f"tiles of {block:2}": (True, [stream(*row, block) for row in rows]) for block in (1, 8, 64)}
    programs["no rescale "] = (False, [stream(*row, 8, rescaled=False) for row in rows])
    return programs, [naive(*row) for row in rows], [exactly(*row) for row in rows]


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` rejects a correct program, and `right` accepts exactly the correct ones."""
    programs, plain, exact = results()
    rejected = [name for name, (correct, got) in programs.items() if correct and not wrong(got, plain, exact)]
    if not rejected:
        raise AssertionError("no correct program was rejected")
    for name, (correct, got) in programs.items():
        if not right(got, plain, exact) == correct:
            raise AssertionError(f"{name} misjudged")


def main():
    check()
    programs, plain, exact = results()
    print("program       correct  ==     error bound")
    for name, (correct, got) in programs.items():
        say = ["pass" if test(got, plain, exact) else "FAIL" for test in (wrong, right)]
        print(f"{name}   {'yes' if correct else 'no':7}  {say[0]}   {say[1]}")


if __name__ == "__main__":
    main()
