"""Exercise 2: attention of one query, tile by tile.

Tiles of keys instead of single keys: one maximum and one rescale a tile, however many
keys it holds.
"""

from math import exp, inf, sqrt


def online_blocked(q, K, V, block):
    """softmax(K q / sqrt(d)) V in one pass over tiles of `block` keys.  # [d_v]

    q is a list of d floats, K a list of S rows of d, V a list of S rows of d_v; S, d,
    d_v, block >= 1. The last tile may be shorter, and block may be larger than S. The
    answer is the same for every block. Keep no row of S scores. Use one exponential a
    key and one a tile: the sums are rescaled once a tile. Scores are never inf, but
    may be large or far below zero. A NaN score gives NaN. Leave q, K and V as they are.

        online_blocked([1.0], [[0.0], [0.0]], [[1.0], [3.0]], block=1)  →  [2.0]
    """
    raise NotImplementedError  # your code instead of this line
