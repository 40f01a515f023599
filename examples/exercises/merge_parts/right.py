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


def in_decimals(a, b):
    from decimal import Decimal

    (o_a, lse_a), (o_b, lse_b) = a, b
    if lse_a != lse_a or lse_b != lse_b:
        return [math.nan] * len(o_a), math.nan
    w_a, w_b = (Decimal(0) if lse == -inf else Decimal(lse - max(lse_a, lse_b)).exp() for lse in (lse_a, lse_b))
    l = w_a + w_b
    if l == 0:
        return [0.0] * len(o_a), -inf
    return [float((w_a * Decimal(x) + w_b * Decimal(y)) / l) for x, y in zip(o_a, o_b)], max(lse_a, lse_b) + float(l.ln())


def by_hyperbolic_tangent(a, b):
    """The share of b is a sigmoid of the difference, and a sigmoid is a tanh."""
    (o_a, lse_a), (o_b, lse_b) = a, b
    if lse_a == lse_b == -inf:
        return [*o_a], -inf
    half = (lse_b - lse_a) / 2
    x, y = (1 / (1 + exp(min(2 * sign * half, 700.0))) if half == half else half for sign in (1, -1))
    return [x * s + y * t for s, t in zip(o_a, o_b)], (lse_a if half < 0 else lse_b) + log1p(exp(-2 * abs(half)))


def heavier_first(a, b):
    if b[1] > a[1] or b[1] != b[1]:
        return heavier_first(b, a) if not (a[1] != a[1] or b[1] != b[1]) else ([math.nan] * len(a[0]), math.nan)
    if a[1] == -inf:
        return [x for x in a[0]], -inf
    w = exp(b[1] - a[1])
    return [(x + w * y) / (1 + w) for x, y in zip(a[0], b[0])], a[1] + log1p(w)
