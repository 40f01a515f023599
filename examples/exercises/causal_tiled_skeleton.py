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
    not see does not touch its row, NaN and inf neither; a NaN that it sees gives NaN.
    Scores may be large or far below zero. Keep no row of S_kv scores. Leave Q, K and
    V as they are.

        causal_tiled([[1.0], [1.0]], [[0.0], [0.0]], [[1.0], [3.0]], Br=2, Bc=1)  →  [[1.0], [2.0]]
    """
    raise NotImplementedError  # your code instead of this line
