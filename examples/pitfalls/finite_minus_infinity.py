"""Pitfall: a finite number such as -1e4 in place of -inf is not a mask.

It works while every visible score lies far above it. A visible score below it loses against the hidden keys, and a
row that sees no key gives the mean of all values, as if nothing were masked and all scores were equal.
"""

import math

import torch


def wrong(s, seen, v):
    """softmax over the keys that are seen, times v.

    s [S], seen [S] of bool, v [S, d] -> [d]
    """
    s = s.masked_fill(~seen, -1e4)
    return torch.softmax(s, 0) @ v


def right(s, seen, v):
    """The same; a row that sees no key gives zeros.

    s [S], seen [S] of bool, v [S, d] -> [d]
    """
    s = s.masked_fill(~seen, -math.inf)
    return torch.softmax(s, 0) @ v if seen.any() else torch.zeros_like(v[0])


V = torch.tensor([[1.0], [2.0], [9.0]])
CASES = {                                                  # name: (scores, which keys are seen); the last key is never seen
    "ordinary scores": ([1.0, 2.0, 3.0], [True, True, False]),
    "very low scores": ([-20000.0, -20001.0, 3.0], [True, True, False]),
    "no key seen    ": ([1.0, 2.0, 3.0], [False, False, False]),
}


def results(attention):
    """What attention gives for each case.  # [len(CASES)]"""
    return [attention(torch.tensor(s), torch.tensor(seen), V).item() for s, seen in CASES.values()]


def exact(s, seen):
    """softmax over the seen keys alone, in fp64; zero when there are none."""
    pairs = [(score, value) for score, keep, value in zip(s, seen, V[:, 0].tolist()) if keep]
    top = max((score for score, _ in pairs), default=0.0)
    l = math.fsum(math.exp(score - top) for score, _ in pairs)
    return math.fsum(math.exp(score - top) * value for score, value in pairs) / l if pairs else 0.0


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` holds for ordinary scores only, and `right` for all."""
    expected = [exact(s, seen) for s, seen in CASES.values()]
    ordinary, low, none = results(wrong)
    if not abs(ordinary - expected[0]) < 1e-5:
        raise AssertionError("ordinary scores hide the mistake")
    if not abs(low - 9.0) < 1e-5:
        raise AssertionError("the hidden key should have taken everything")
    if not abs(none - 4.0) < 1e-5:
        raise AssertionError("the mean of all values was expected")
    if not all(abs(x - y) < 1e-5 for x, y in zip(results(right), expected)):
        raise AssertionError("the right one is right")


def main():
    check()
    print("values 1, 2 and 9; the last is hidden")
    print("case                wrong     right")
    for name, a, b in zip(CASES, results(wrong), results(right)):
        print(f"{name}  {a:8.4f}  {b:8.4f}")


if __name__ == "__main__":
    main()
