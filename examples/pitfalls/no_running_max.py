"""Pitfall: e^s of a raw score overflows. Subtract the row's largest score first.

e^s is infinite above s = 88.7 in fp32 and above 11.1 in fp16, and infinity over infinity is NaN. When all scores are
very negative every weight is 0 instead, and 0 / 0 is NaN too. Subtracting one number from all scores of a row changes
nothing in exact arithmetic. Source: Milakov & Gimelshein, arXiv 1805.02867, section 2.
"""

import torch


def wrong(s, v):
    """softmax(s) v with the weights e^s.  s [S], v [S, d] -> [d]"""
    p = torch.exp(s)                                       # [S]
    return p @ v / p.sum()


def right(s, v):
    """softmax(s) v with the weights e^(s - m), none above 1.  s [S], v [S, d] -> [d]"""
    p = torch.exp(s - s.max())                             # [S]
    return p @ v / p.sum()


V = torch.tensor([[1.0], [3.0]])
CASES = (("fp32", [0.0, 1.0]), ("fp32", [0.0, 89.0]), ("fp32", [-200.0, -201.0]), ("fp16", [0.0, 12.0]))
DTYPES = {"fp32": torch.float32, "fp16": torch.float16}


def results(attention):
    """What attention gives for each case.  # [len(CASES)]"""
    return [attention(torch.tensor(s, dtype=DTYPES[name]), V.to(DTYPES[name])).item() for name, s in CASES]


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` is right for small scores and NaN for the others, and `right` right for all."""
    exact = [(torch.softmax(torch.tensor(s, dtype=torch.float64), 0) @ V.double()).item() for _, s in CASES]
    small, *large = results(wrong)
    if not abs(small - exact[0]) < 1e-6:
        raise AssertionError("small scores hide the mistake")
    if not all(x != x for x in large):
        raise AssertionError(f"expected NaN: {large}")
    if not all(abs(x - y) < 2e-3 for x, y in zip(results(right), exact)):
        raise AssertionError("the right one is right")


def main():
    check()
    print("dtype  scores            wrong     right")
    for (name, s), a, b in zip(CASES, results(wrong), results(right)):
        print(f"{name:5}  {s[0]:6.0f}, {s[1]:6.0f}  {a:8.3f}  {b:8.3f}")


if __name__ == "__main__":
    main()
