"""Right solutions of masked_row, each thought of differently."""
import math
from math import exp, inf, sqrt


def minus_infinity_for_hidden(q, K, V, mask, block):
    """Every key gets a score, a hidden one -inf, as kernels do it; the maximum that is subtracted is made safe."""
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for i in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) if seen else -inf for k, seen in zip(K[i : i + block], mask[i : i + block])]
        new = max([m, *s])
        safe = 0.0 if new == -inf else new
        p = [exp(x - safe) for x in s]
        a = exp(m - safe)
        l = a * l + sum(p)
        o = [a * x + sum(w * v[c] for w, v in zip(p, V[i : i + block]) if w != 0) for c, x in enumerate(o)]
        m = new
    return [x / (l or 1.0) for x in o]


def key_by_key(q, K, V, mask, block):
    m, l, o = None, 0.0, [0.0] * len(V[0])
    for seen, k, v in zip(mask, K, V):
        if not seen:
            continue
        s = math.fsum(a * b for a, b in zip(q, k)) / math.sqrt(len(q)) if all(map(math.isfinite, k)) else math.nan
        if m is None:
            m = s
        elif s > m:
            l, o, m = l * exp(m - s), [x * exp(m - s) for x in o], s
        w = exp(s - m)
        l += w
        o = [x + w * y for x, y in zip(o, v)]
    return o if m is None else [x / l for x in o]


def gathers_tiles_of_visible_keys(q, K, V, mask, block):
    """Tiles are made of visible keys only; where they were in the row does not matter."""
    state = (-inf, 0.0, (0.0,) * len(V[0]))

    def take(state, keys):
        m, l, o = state
        s = {j: sum(x * y for x, y in zip(q, K[j])) / len(q) ** 0.5 for j in keys}
        top = max(m, max(s.values()))
        old = exp(m - top) if m != -inf or top != top else 0.0
        p = {j: exp(x - top) for j, x in s.items()}
        return top, old * l + sum(p.values()), tuple(old * x + sum(w * V[j][c] for j, w in p.items()) for c, x in enumerate(o))

    keys = []
    for j in range(len(K)):
        if mask[j]:
            keys.append(j)
        if len(keys) == block:
            state, keys = take(state, keys), []
    if keys:
        state = take(state, keys)
    m, l, o = state
    return [0.0 if l == 0 else x / l for x in o]


def tiles_from_the_end(q, K, V, mask, block):
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for start in reversed(range(0, len(K), block)):
        seen = [j for j in range(start, min(start + block, len(K))) if mask[j]]
        if seen:
            s = [sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q)) for j in seen]
            new = max([m, *s])
            a, p = exp(m - new), [exp(x - new) for x in s]
            l, o, m = a * l + sum(p), [a * x + sum(w * V[j][c] for w, j in zip(p, seen)) for c, x in enumerate(o)], new
    return [x / l for x in o] if l else o


def one_generator_of_visible_keys(q, K, V, mask, block):
    from itertools import compress

    m, l, o = -inf, 0.0, [0.0 for _ in V[0]]
    for s, v in ((sum(a * b for a, b in zip(q, k)) / sqrt(len(q)), v) for k, v in compress(zip(K, V), mask)):
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o, v)], new
    return o if m == -inf and l == 0 else [x / l for x in o]


def in_logarithms(q, K, V, mask, block):
    m, t, o = -inf, -inf, [0.0] * len(V[0])
    for k, v, seen in zip(K, V, mask):
        if seen:
            s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
            new = max(m, s)
            total = math.log(exp(t + (m - new)) + exp(s - new))
            o = [exp(t + (m - new) - total) * x + exp(s - new - total) * y for x, y in zip(o, v)]
            m, t = new, total
    return o
