"""Right solutions of backward_row, each thought of differently."""
import math
from math import exp, fsum


def scale_folded_into_q(q, K, V, o, lse, do):
    root = math.sqrt(len(q))
    small = [x / root for x in q]
    D = fsum(map(lambda a, b: a * b, o, do))
    dq, dK, dV = [0.0 for _ in q], [], []
    for j in range(len(K)):
        k, v = K[j], V[j]
        p = math.e ** (sum(a * b for a, b in zip(small, k)) - lse)
        ds = p * (fsum(a * b for a, b in zip(do, v)) - D)
        for c in range(len(q)):
            dq[c] += ds * k[c]
        dK.append([ds * x for x in small])
        dV.append([p * g for g in do])
    return [x / root for x in dq], dK, dV


def centred_values(q, K, V, o, lse, do):
    """dp_j - delta = do · (v_j - o)."""
    r = len(q) ** -0.5
    out = []
    for k, v in zip(K, V):
        p = exp(r * sum(a * b for a, b in zip(q, k)) - lse)
        out.append((p, p * r * sum(g * (x - y) for g, x, y in zip(do, v, o)), k))
    return (
        tuple(sum(ds * k[c] for p, ds, k in out) for c in range(len(q))),
        tuple(tuple(ds * x for x in q) for p, ds, k in out),
        tuple(tuple(p * g for g in do) for p, ds, k in out),
    )


def in_tiles(q, K, V, o, lse, do):
    delta, scale, block = sum(map(float.__mul__, do, o)), 1 / math.sqrt(len(q)), 2
    dq, dK, dV = [0.0] * len(q), [], []
    for start in range(0, len(K), block):
        k, v = K[start : start + block], V[start : start + block]
        p = [exp(scale * sum(a * b for a, b in zip(q, row)) - lse) for row in k]
        dp = [sum(a * b for a, b in zip(do, row)) for row in v]
        ds = [w * (x - delta) for w, x in zip(p, dp)]
        dq = [x + scale * sum(s * row[c] for s, row in zip(ds, k)) for c, x in enumerate(dq)]
        dK += [[scale * s * x for x in q] for s in ds]
        dV += [[w * g for g in do] for w in p]
    return dq, dK, dV


def by_recursion_over_the_keys(q, K, V, o, lse, do):
    delta, r = fsum(x * y for x, y in zip(do, o)), 1 / math.sqrt(len(q))

    def after(pairs):
        pair = next(pairs, None)
        if pair is None:
            return [0.0] * len(q), [], []
        k, v = pair
        p = exp(r * fsum(a * b for a, b in zip(q, k)) - lse)
        ds = r * p * (sum(a * b for a, b in zip(do, v)) - delta)
        dq, dK, dV = after(pairs)
        return [x + ds * y for x, y in zip(dq, k)], [[ds * x for x in q], *dK], [[p * x for x in do], *dV]

    return after(zip(K, V))


def a_generator_of_rows(q, K, V, o, lse, do):
    delta, root = sum(map(lambda a, b: a * b, do, o)), len(q) ** 0.5

    def rows():
        for k, v in zip(K, V):
            p = exp(sum(a * b for a, b in zip(q, k)) / root - lse)
            ds = p * (sum(a * b for a, b in zip(do, v)) - delta) / root
            yield [ds * x for x in k], [ds * x for x in q], [p * x for x in do]

    of_q, dK, dV = zip(*rows())
    return [fsum(column) for column in zip(*of_q)], list(dK), list(dV)


def keeps_what_it_read(q, K, V, o, lse, do):
    """Reads once, and sums p dp itself in a second loop over what it kept: slower, and right."""
    root, kept = math.sqrt(len(q)), []
    for k, v in zip(K, V):
        kept.append((k, exp(sum(a * b for a, b in zip(q, k)) / root - lse), sum(a * b for a, b in zip(do, v))))
    delta = fsum(p * dp for k, p, dp in kept)
    ds = [p * (dp - delta) / root for k, p, dp in kept]
    return [sum(s * k[c] for s, (k, *_) in zip(ds, kept)) for c in range(len(q))], [[s * x for x in q] for s in ds], [[p * x for x in do] for k, p, dp in kept]
