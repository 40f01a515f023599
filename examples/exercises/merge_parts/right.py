"""Right solutions of merge_parts, each thought of differently."""
import math
from math import exp, inf, log, log1p


def by_share(a, b):
    """The share of b in all weight, from the difference of the two lse alone."""
    (o_a, l_a), (o_b, l_b) = a, b
    if l_b == -inf:
        return list(o_a), l_a
    if l_a == -inf:
        return list(o_b), l_b
    d = l_b - l_a
    share = 1 / (1 + exp(-d)) if not d < 0 else exp(d) / (1 + exp(d))
    lse = l_a + log1p(exp(d)) if d <= 0 else l_b + log1p(exp(-d))
    return [x + share * (y - x) if share < 0.5 else y + (1 - share) * (x - y) for x, y in zip(o_a, o_b)], lse


def through_the_triples(a, b):
    """(m, l, O) of each part, with m = lse and l = 1."""
    top = a[1] if a[1] >= b[1] or a[1] != a[1] else b[1]
    weigh = lambda lse: 0.0 if lse == -inf else math.exp(lse - top)
    l = weigh(a[1]) + weigh(b[1])
    o = [weigh(a[1]) * x + weigh(b[1]) * y for x, y in zip(a[0], b[0])]
    return (tuple(x / l for x in o), top + math.log(l)) if l else (tuple(o), -inf)


def weights_from_the_new_lse(a, b):
    m = max(a[1], b[1])
    base = m if m != -inf else 0.0
    total = sum(math.e ** (lse - base) for _, lse in (a, b))
    lse = base + log(total) if total != 0 else -inf
    scale = [math.e ** (part - lse) if lse != -inf else 0.0 for _, part in (a, b)]
    return [scale[0] * x + scale[1] * y for x, y in zip(a[0], b[0])], lse
