"""Right solutions of online_row, each thought of differently."""
from functools import reduce
from math import e, exp, inf
import math


def branch_on_a_new_maximum(stream):
    stream = iter(stream)
    m, first = next(stream)
    l, o = math.exp(m - m), [math.exp(m - m) * x for x in first]
    for s, v in stream:
        if s > m:
            scale = math.exp(m - s)
            l, o, m = l * scale + 1.0, [a * scale + b for a, b in zip(o, v)], s
        else:
            w = math.exp(s - m)
            l, o = l + w, [a + w * b for a, b in zip(o, v)]
    return tuple(x / l for x in o)


def moves_the_mean(stream):
    """Normalised all along: each key moves the mean towards its value by its share of all weight so far."""
    m, l, o = -inf, 0.0, None
    for s, v in stream:
        new = max(m, s)
        p = exp(s - new)
        l = l * exp(m - new) + p
        o = [x + p / l * (y - x) for x, y in zip(o or [0.0] * len(v), v)]
        m = new
    return o


def folds_triples(stream):
    def merge(a, b):
        m = a[0] if a[0] > b[0] else b[0]
        wa, wb = e ** (a[0] - m), e ** (b[0] - m)
        return m, wa * a[1] + wb * b[1], [wa * x + wb * y for x, y in zip(a[2], b[2])]

    m, l, o = reduce(merge, ((s, e ** (s - s), v) for s, v in stream))           # 1, or NaN
    return [x / l for x in o]


def base_two(stream):
    """Powers of two, as kernels do it."""
    m, l, o = -inf, 0.0, []
    for s, v in stream:
        s *= math.log2(e)
        o = o or [0.0] * len(v)
        new = max(s, m)
        a, p = 2.0 ** (m - new), 2.0 ** (s - new)
        l = a * l + p
        for c in range(len(o)):
            o[c] = a * o[c] + p * v[c]
        m = new
    return [x / l for x in o]


def tuples_from_generators(stream):
    m, l, o = -inf, 0.0, None
    for s, v in stream:
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        o = tuple(p * x for x in v) if o is None else tuple(a * x + p * y for x, y in zip(o, v))
        m, l = new, a * l + p
    return tuple(x / l for x in o)


def base_that_lags(stream):
    """The base moves only when a score is far above *it* (not above the score before): exponents stay below eight."""
    base, l, o = -inf, 0.0, None
    for s, v in stream:
        if not s - base <= 8:
            a, base = exp(base - s), s
            l, o = a * l, [a * x for x in o or [0.0] * len(v)]
        w = exp(s - base)
        l, o = l + w, [x + w * y for x, y in zip(o, v)]
    return [x / l for x in o]


def in_logarithms(stream):
    """The logarithm of the sum is kept, measured from the maximum, and the mean itself."""
    m, t, o = -inf, -inf, None
    for s, v in stream:
        new = max(m, s)
        total = math.log(exp(t + (m - new)) + exp(s - new))
        o = [exp(t + (m - new) - total) * x + exp(s - new - total) * y for x, y in zip(o or [0.0] * len(v), v)]
        m, t = new, total
    return o


def in_decimals(stream):
    from decimal import Decimal

    m, l, o = None, Decimal(0), None
    for s, v in map(lambda pair: (Decimal(pair[0]), list(map(Decimal, pair[1]))), stream):
        new = s if m is None or s.is_nan() else m if m.is_nan() else max(m, s)
        a, p = Decimal(0) if m is None else (m - new).exp(), (s - new).exp()
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o or [Decimal(0)] * len(v), v)], new
    return [float(x / l) for x in o]


def from_the_lowest_float(stream):
    """The lowest finite float is below every other score, and equal to itself."""
    import sys

    m, l, o = -sys.float_info.max, 0.0, None
    for s, v in stream:
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o or [0.0] * len(v), v)], new
    return [x / l for x in o]


def a_generator_of_states(stream):
    from itertools import accumulate

    def step(state, pair):
        (m, l, o), (s, v) = state, pair
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        return new, a * l + p, [a * x + p * y for x, y in zip(o or [0.0] * len(v), v)]

    for m, l, o in accumulate(stream, step, initial=(-inf, 0.0, [])):
        pass
    return [x / l for x in o]
