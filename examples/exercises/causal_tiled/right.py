"""Right solutions of causal_tiled, each thought of differently."""
import math
from math import exp, inf, sqrt


def row_by_row(Q, K, V, Br, Bc):
    """Every row for itself, up to its own last key: skips even more than tiles do."""
    result = []
    for i, q in enumerate(Q):
        m, l, o = None, 0.0, [0.0 for _ in V[0]]
        for j in range(max(0, i + len(K) - len(Q) + 1)):
            s = math.fsum(x * y for x, y in zip(q, K[j])) / math.sqrt(len(q)) if math.isfinite(sum(K[j])) else math.nan
            if m is None or s > m:
                factor = 0.0 if m is None else exp(m - s)
                m, l, o = s, l * factor, [x * factor for x in o]
            w = exp(s - m)
            l, o = l + w, [x + w * y for x, y in zip(o, V[j])]
        result.append(o if m is None else [x / l for x in o])
    return result


def with_minus_infinity(Q, K, V, Br, Bc):
    """Scores of the tiles on the diagonal are hidden by -inf, as kernels do it; skipped are whole tiles."""
    n, off, out = len(Q), len(K) - len(Q), []
    for i in range(0, n, Br):
        q = Q[i : i + Br]
        m, l, o = [-inf] * len(q), [0.0] * len(q), [[0.0] * len(V[0]) for _ in q]
        j = 0
        while j <= i + len(q) - 1 + off and j < len(K):
            k, v = K[j : j + Bc], V[j : j + Bc]
            for r in range(len(q)):
                s = [sum(x * y for x, y in zip(q[r], row)) / sqrt(len(row)) for row in k]
                s = [x if j + t <= i + r + off else -inf for t, x in enumerate(s)]
                new = max([m[r], *s])
                safe = 0.0 if new == -inf else new
                p, a = [exp(x - safe) for x in s], exp(m[r] - safe)
                l[r] = a * l[r] + sum(p)
                o[r] = [a * x + sum(w * row[c] for w, row in zip(p, v) if w != 0) for c, x in enumerate(o[r])]
                m[r] = new
            j += Bc
        out.extend([x / (l[r] or 1.0) for x in o[r]] for r in range(len(q)))
    return out


def tiles_that_merge(Q, K, V, Br, Bc):
    """Each tile alone, then merged into what the row has."""
    def tile(q, keys):
        s = [sum(x * y for x, y in zip(q, K[j])) / len(q) ** 0.5 for j in keys]
        m = max(s)
        p = [exp(x - m) for x in s]
        return m, sum(p), [sum(w * V[j][c] for w, j in zip(p, keys)) for c in range(len(V[0]))]

    rows = {i: (-inf, 0.0, [0.0] * len(V[0])) for i in range(len(Q))}
    for j in range(0, len(K), Bc):                                   # keys outside, as FlashAttention-1 did
        for i in range(len(Q)):
            keys = range(j, min(j + Bc, len(K), i + 1 + len(K) - len(Q)))
            if len(keys):
                a, b = rows[i], tile(Q[i], keys)
                m = max(a[0], b[0])
                x, y = exp(a[0] - m), exp(b[0] - m)
                rows[i] = m, x * a[1] + y * b[1], [x * s + y * t for s, t in zip(a[2], b[2])]
    return [tuple(x / l for x in o) if l else o for m, l, o in rows.values()]


def last_rows_first(Q, K, V, Br, Bc):
    out = {}
    for i in reversed(range(len(Q))):
        m, l, o = -inf, 0.0, [0.0] * len(V[0])
        for j in reversed(range(max(0, min(len(K), i + 1 + len(K) - len(Q))))):
            s = sum(a * b for a, b in zip(Q[i], K[j])) / sqrt(len(K[j]))
            new = max(m, s)
            a, p = exp(m - new), exp(s - new)
            l, o, m = a * l + p, [a * x + p * y for x, y in zip(o, V[j])], new
        out[i] = [x / l for x in o] if l else o
    return [out[i] for i in range(len(Q))]


def by_recursion_over_tiles_of_queries(Q, K, V, Br, Bc):
    """The last tile of queries, and before it the same for the rest with the keys that its last row sees."""
    def rows(n):
        if n == 0:
            return []
        first = (n - 1) // Br * Br
        return rows(first) + [row(i) for i in range(first, n)]

    def row(i):
        m, l, o = -inf, 0.0, [0.0] * len(V[0])
        end = max(0, i + 1 + len(K) - len(Q))
        for j in range(0, end, Bc):
            s = [math.fsum(a * b for a, b in zip(Q[i], k)) / sqrt(len(k)) for k in K[j : min(j + Bc, end)]]
            new = max([m, *s])
            a, p = exp(m - new), [exp(x - new) for x in s]
            l, o, m = a * l + math.fsum(p), [a * x + sum(w * v[c] for w, v in zip(p, V[j : min(j + Bc, end)])) for c, x in enumerate(o)], new
        return [x / l for x in o] if l else o

    return rows(len(Q))
