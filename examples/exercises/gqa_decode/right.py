"""Right solutions of gqa_decode, each thought of differently."""
import math
from math import exp, inf, sqrt


def heads_side_by_side(Q, K, V):
    """One list of maxima, sums and outputs for the group; the keys in the outer loop."""
    out = []
    G = len(Q) // len(K)
    for g in range(len(K)):
        qs = Q[g * G : g * G + G]
        m, l, o = [-inf] * G, [0.0] * G, [[] for _ in qs]
        for j in range(len(K[g])):
            k, v = K[g][j], V[g][j]
            for i in range(G):
                s = sum(map(lambda a, b: a * b, qs[i], k)) / sqrt(len(k))
                new = max(s, m[i])
                a, p = exp(m[i] - new), exp(s - new)
                o[i] = [a * x + p * y for x, y in zip(o[i] or [0.0] * len(v), v)]
                l[i], m[i] = a * l[i] + p, new
        out.extend([x / l[i] for x in o[i]] for i in range(G))
    return out


def in_tiles(Q, K, V, block=4):
    """Tiles of keys, each used by all heads of the group before the next is read."""
    G, result = len(Q) // len(K), [None] * len(Q)
    for g in range(len(K)):
        state = {}
        for start in range(0, len(K[g]), block):
            k, v = K[g][start : start + block], V[g][start : start + block]
            for h in range(g * G, (g + 1) * G):
                s = [sum(a * b for a, b in zip(Q[h], row)) / len(Q[h]) ** 0.5 for row in k]
                m, l, o = state.get(h, (-inf, 0.0, [0.0] * len(v[0])))
                new = max([m, *s])
                a, p = exp(m - new), [exp(x - new) for x in s]
                state[h] = new, a * l + sum(p), [a * x + sum(w * row[c] for w, row in zip(p, v)) for c, x in enumerate(o)]
        for h, (m, l, o) in state.items():
            result[h] = tuple(x / l for x in o)
    return result


def a_class_for_the_state(Q, K, V):
    class State:
        def __init__(self):
            self.m, self.l, self.o = None, 0.0, None

        def add(self, s, v):
            if self.m is None:
                self.m, self.o = s, [0.0 for _ in v]
            elif s > self.m:
                factor = math.exp(self.m - s)
                self.m, self.l, self.o = s, self.l * factor, [x * factor for x in self.o]
            w = math.exp(s - self.m)
            self.l += w
            self.o = [x + w * y for x, y in zip(self.o, v)]

    states, G = [State() for _ in Q], len(Q) // len(K)
    for g, head in enumerate(K):
        for k, v in zip(head, V[g]):
            for h in range(g * G, g * G + G):
                states[h].add(sum(a * b for a, b in zip(Q[h], k)) / math.sqrt(len(k)), v)
    return [[x / state.l for x in state.o] for state in states]


def keys_from_the_end(Q, K, V):
    """Softmax knows no order: the keys from the last to the first."""
    G, out = len(Q) // len(K), []
    for g in range(len(K)):
        group, state = Q[g * G : g * G + G], [(-inf, 0.0, None)] * G
        for k, v in zip(reversed(K[g]), reversed(V[g])):
            for i, q in enumerate(group):
                m, l, o = state[i]
                s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
                new = max(m, s)
                a, p = exp(m - new), exp(s - new)
                state[i] = new, a * l + p, [a * x + p * y for x, y in zip(o or [0.0] * len(v), v)]
        out += [[x / l for x in o] for m, l, o in state]
    return out


def widths_asked_for_beforehand(Q, K, V):
    G, out = len(Q) // len(K), [None] * len(Q)
    for g in range(len(K)):
        d, d_v = len(K[g][0]), len(V[g][0])
        state = {h: [-inf, 0.0, [0.0] * d_v] for h in range(g * G, g * G + G)}
        for k, v in zip(K[g], V[g]):
            for h, (m, l, o) in state.items():
                s = math.fsum(Q[h][c] * k[c] for c in range(d)) / math.sqrt(d)
                new = max(m, s)
                a, p = exp(m - new), exp(s - new)
                state[h][:] = new, a * l + p, [a * o[c] + p * v[c] for c in range(d_v)]
        for h, (m, l, o) in state.items():
            out[h] = [x / l for x in o]
    return out


def base_that_lags(Q, K, V):
    G, out = len(Q) // len(K), []
    for g in range(len(K)):
        state = [(-inf, 0.0, None)] * G
        for k, v in zip(K[g], V[g]):
            for i in range(G):
                base, l, o = state[i]
                s, o = sum(a * b for a, b in zip(Q[g * G + i], k)) / sqrt(len(k)), o or [0.0] * len(v)
                if not s - base <= 8:
                    a, base = exp(base - s), s
                    l, o = a * l, [a * x for x in o]
                w = exp(s - base)
                state[i] = base, l + w, [x + w * y for x, y in zip(o, v)]
        out += [[x / l for x in o] for base, l, o in state]
    return out


in_tiles.__signature__ = __import__("inspect").signature(heads_side_by_side)
