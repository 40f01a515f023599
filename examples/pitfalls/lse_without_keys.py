"""Pitfall: a part without keys says that its LSE is +inf, and the merge gives it all the weight.

The LSE of no keys is ln 0 = -inf. The unsplit kernel of FlashAttention-2 writes +inf there instead (its backward pass
wants exp(s - lse) = 0); FlashAttention's own merge of split keys writes -inf for such a part of the row. In a merge
+inf - +inf is NaN, and if that is guarded the empty part wins. Before merging, +inf has to become -inf.
"""

from math import exp, fsum, inf, log


def wrong(a, b):
    """Merge two parts (o, lse) of one row, guarded against inf - inf only."""
    top = max(a[1], b[1])
    w = [1.0 if lse == top else exp(lse - top) for _, lse in (a, b)]
    return fsum(w_i * o for w_i, (o, _) in zip(w, (a, b))) / fsum(w)


def right(a, b):
    """The same; +inf means no keys, which weigh nothing. No keys in either part: 0."""
    a, b = ((o, -inf if lse == inf else lse) for o, lse in (a, b))
    top = max(a[1], b[1])
    w = [0.0 if lse == -inf else exp(lse - top) for _, lse in (a, b)]
    return fsum(w_i * o for w_i, (o, _) in zip(w, (a, b))) / fsum(w) if fsum(w) else 0.0


def part(scores, values, empty=inf):
    """(o, lse) of one row over some keys; without keys o = 0 and the LSE is `empty`."""
    l = fsum(exp(s) for s in scores)
    return (fsum(exp(s) * v for s, v in zip(scores, values)) / l, log(l)) if l else (0.0, empty)


SCORES, VALUES = [2.0, -1.0, 0.5], [1.0, 2.0, 3.0]
CASES = {"keys, keys": (SCORES[:2], SCORES[2:]), "keys, none": (SCORES, []), "none, keys": ([], SCORES), "none, none": ([], [])}


def cases():
    """{name: (first part, second part, o of all keys)}."""
    made = {}
    for name, (s, t) in CASES.items():
        v = VALUES[: len(s)], VALUES[len(s) : len(s) + len(t)]
        made[name] = part(s, v[0]), part(t, v[1]), part([*s, *t], [*v[0], *v[1]])[0]
    return made


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `right` is right everywhere and `wrong` loses the row where exactly one part is empty."""
    for name, (a, b, o) in cases().items():
        if abs(right(a, b) - o) > 1e-12:
            raise AssertionError(f"{name}: {right(a, b)}, expected {o}")
        lost = name in ("keys, none", "none, keys")
        if (abs(wrong(a, b) - o) > 0.5) != lost:
            raise AssertionError(f"{name}: expected the wrong merge to be {'off' if lost else 'right'}, and it gives {wrong(a, b)}")


def main():
    check()
    print("parts        all keys     wrong     right")
    for name, (a, b, o) in cases().items():
        print(f"{name}   {o:8.4f}  {wrong(a, b):8.4f}  {right(a, b):8.4f}")


if __name__ == "__main__":
    main()
