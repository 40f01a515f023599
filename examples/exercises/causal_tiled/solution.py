"""Exercise 5: causal attention in tiles, on lists, without the tiles that nobody sees.

Half of all tiles lie behind the diagonal: skipping them is where a causal mask saves
time.
"""

from math import exp, inf, sqrt


def causal_tiled(Q, K, V, Br, Bc):
    """Causal attention of all queries, a tile of Br queries against tiles of Bc keys.  # [S_q][d_v]

    Q [S_q][d], K [S_kv][d], V [S_kv][d_v] as lists. Query i sees the keys 0 … i +
    S_kv - S_q, so the last query sees all (bottom-right); a query that sees none
    gives zeros. Tiles at the end may be smaller than Br and Bc. A tile of keys that
    no query of the tile sees is not computed: not one q · k of it. What a query does
    not see does not touch its row, NaN and inf neither; a NaN score that it sees gives
    NaN, a NaN in V gives NaN in its column. Scores may be large or far below zero.
    Keep nothing that grows with S_kv. Leave Q, K and V as they are and return new
    lists.

        causal_tiled([[1.0], [1.0]], [[0.0], [0.0]], [[1.0], [3.0]], Br=2, Bc=1)  →  [[1.0], [2.0]]
    """
    # answer
    output, shift = [], len(K) - len(Q)
    for i in range(0, len(Q), Br):
        rows = range(i, min(i + Br, len(Q)))
        states = [(-inf, 0.0, [0.0] * len(V[0])) for _ in rows]
        for j in range(0, min(rows[-1] + shift + 1, len(K)), Bc):               # up to the last key of the last row
            for r, row in enumerate(rows):
                seen = range(j, min(j + Bc, row + shift + 1, len(K)))
                if len(seen) == 0:
                    continue
                m, l, o = states[r]
                s = [sum(a * b for a, b in zip(Q[row], K[t])) / sqrt(len(K[t])) for t in seen]
                m_new = max(m, *s)
                rescale, p = exp(m - m_new), [exp(x - m_new) for x in s]
                o = [rescale * old + sum(w * V[t][c] for w, t in zip(p, seen)) for c, old in enumerate(o)]
                states[r] = m_new, rescale * l + sum(p), o
        output += [[x / l for x in o] if l != 0 else o for m, l, o in states]
    return output
    # end of answer
