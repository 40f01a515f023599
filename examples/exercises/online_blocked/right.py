"""Right solutions of online_blocked, each thought of differently."""
import math
from functools import reduce
from itertools import islice
from math import exp, inf, sqrt


def with_a_branch(q, K, V, block):
    m, l, o = None, 0.0, []
    for start in range(0, len(K), block):
        keys = range(start, min(len(K), start + block))
        s = [math.fsum(q[i] * K[j][i] for i in range(len(q))) / len(q) ** 0.5 for j in keys]
        top = max(s)
        top = next((x for x in s if x != x), top)
        if m is None:
            m, o = top, [0.0] * len(V[0])
        elif not top <= m:
            factor = math.exp(m - top)
            m, l, o = top, l * factor, [x * factor for x in o]
        for x, j in zip(s, keys):
            p = math.exp(x - m)
            l += p
            for c in range(len(o)):
                o[c] += p * V[j][c]
    return [x / l for x in o]


def merges_finished_tiles(q, K, V, block):
    """Each tile on its own, then one merge a tile: split-KV in sequence."""
    def tile(pairs):
        s = [sum(map(lambda a, b: a * b, q, k)) / sqrt(len(q)) for k, v in pairs]
        m = max(s)
        p = [exp(x - m) for x in s]
        return m, sum(p), [sum(w * v[c] for w, (k, v) in zip(p, pairs)) for c in range(len(V[0]))]

    def merge(a, b):
        m = max(a[0], b[0])
        w_a, w_b = (1.0, exp(b[0] - m)) if a[0] == m else (exp(a[0] - m), 1.0)
        return m, w_a * a[1] + w_b * b[1], [w_a * x + w_b * y for x, y in zip(a[2], b[2])]

    pairs = iter(zip(K, V))
    m, l, o = reduce(merge, map(tile, iter(lambda: list(islice(pairs, block)), [])))
    return tuple(x / l for x in o)


def in_powers_of_two(q, K, V, block):
    """2**x in place of exp, with the scale folded into q, as kernels do."""
    q = [x * math.log2(math.e) / sqrt(len(q)) for x in q]
    m, l, o = -inf, 0.0, [0.0 for _ in V[0]]
    i = 0
    while i < len(K):
        k, v = K[i : i + block], V[i : i + block]
        s = [sum(a * b for a, b in zip(q, row)) for row in k]
        new = max(max(s), m)
        p = [2.0 ** (x - new) for x in s]
        old = 2.0 ** (m - new)
        l = old * l + sum(p)
        o = [old * x for x in o]
        for w, row in zip(p, v):
            o = [x + w * y for x, y in zip(o, row)]
        m, i = new, i + block
    return [x / l for x in o]


def ones_beside_v(q, K, V, block):
    """The sum of the weights as one more column: V beside ones."""
    m, o = -inf, [0.0] * (len(V[0]) + 1)
    for n in range(-(-len(K) // block)):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[n * block : (n + 1) * block]]
        old, m = m, max([m, *s])
        rescale = exp(old - m)
        p = [exp(x - m) for x in s]
        rows = [[*v, 1.0] for v in V[n * block : (n + 1) * block]]
        o = [rescale * x + sum(w * row[c] for w, row in zip(p, rows)) for c, x in enumerate(o)]
    return [x / o[-1] for x in o[:-1]]


def base_that_lags(q, K, V, block):
    """The rescale is skipped until a score is eight above the base: fewer rescales, the same sums."""
    base, l, o = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        top = next((x for x in s if x != x), max(s))
        if not top - base <= 8:
            a, base = exp(base - top), top
            l, o = a * l, [a * x for x in o]
        p = [exp(x - base) for x in s]
        l, o = l + math.fsum(p), [x + math.fsum(w * v[c] for w, v in zip(p, V[j : j + block])) for c, x in enumerate(o)]
    return [x / l for x in o]


def tiles_from_the_end(q, K, V, block):
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for start in reversed(range(0, len(K), block)):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[start : start + block]]
        new = max([m, *s])
        a, p = exp(m - new), [exp(x - new) for x in s]
        l, o, m = a * l + sum(p), [a * x + sum(w * v[c] for w, v in zip(p, V[start : start + block])) for c, x in enumerate(o)], new
    return [x / l for x in o]


def passes_weightless_tiles_by(q, K, V, block):
    """A tile whose every weight is below the last bit of the sums is passed by, and the loop goes on."""
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        if max(s) < m - 60 and not any(map(math.isnan, s)):
            continue
        new = max([m, *s])
        a, p = exp(m - new), [exp(x - new) for x in s]
        l, o, m = a * l + sum(p), [a * x + sum(w * v[c] for w, v in zip(p, V[j : j + block])) for c, x in enumerate(o)], new
    return [x / l for x in o]
