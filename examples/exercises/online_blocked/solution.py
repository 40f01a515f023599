"""Exercise 2: attention of one query, tile by tile.

Tiles of keys instead of single keys: one maximum and one rescale a tile, however many
keys it holds.
"""

from math import exp, inf, sqrt


def online_blocked(q, K, V, block):
    """softmax(K q / sqrt(d)) V in one pass over tiles of `block` keys.  # [d_v]

    q is a list of d floats, K a list of S rows of d, V a list of S rows of d_v; S, d,
    d_v, block >= 1. The last tile may be shorter, and block may be larger than S. The
    answer is the same for every block. Keep nothing that grows with S. Use one
    exponential a key and one a tile: the old sums are rescaled once a tile. To finish
    each tile and merge it takes two a tile; it is right, and not allowed here. Scores
    are never inf, but may be large or far below zero. A NaN score gives NaN, a NaN in
    V gives NaN in its column. Leave q, K and V as they are and return a new list.

        online_blocked([1.0], [[0.0], [0.0]], [[1.0], [3.0]], block=1)  →  [2.0]
    """
    # answer
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for start in range(0, len(K), block):
        tile = slice(start, start + block)
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[tile]]  # [block]
        m_new = max(m, *s)
        rescale, p = exp(m - m_new), [exp(x - m_new) for x in s]
        l = rescale * l + sum(p)
        o = [rescale * old + sum(w * v[c] for w, v in zip(p, V[tile])) for c, old in enumerate(o)]
        m = m_new
    return [x / l for x in o]
    # end of answer
