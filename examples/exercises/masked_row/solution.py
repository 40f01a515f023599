"""Exercise 3: the same pass when a mask hides keys, whole tiles of them, or every key.

A hidden key has the score -inf, and -inf - -inf is NaN: this is where real kernels
have had their bugs.
"""

from math import exp, inf, sqrt


def masked_row(q, K, V, mask, block):
    """softmax over the visible keys alone, tile by tile.  # [d_v]

    q [d], K [S][d], V [S][d_v] as lists, S >= 1. mask is a list of S booleans: True
    means that the key is seen. Under a hidden key the rows of K and V may hold
    anything, NaN and inf as well; the result must not show it. Whole tiles may be
    hidden, the first ones too. When every key is hidden the result is zeros. Scores
    of visible keys may be large or far below zero (-1e300). A visible score that is NaN
    gives NaN, a visible NaN in V gives NaN in its column. Keep nothing that grows with
    S. Leave the arguments as they are and return a new list.

        masked_row([1.0], [[0.0], [7.0]], [[1.0], [3.0]], [True, False], block=1)  →  [1.0]
    """
    # answer
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for start in range(0, len(K), block):
        seen = [j for j in range(start, min(start + block, len(K))) if mask[j]]
        if not seen:
            continue                                                            # an empty tile changes nothing
        s = [sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q)) for j in seen]
        m_new = max(m, *s)
        rescale, p = exp(m - m_new), [exp(x - m_new) for x in s]
        l = rescale * l + sum(p)
        o = [rescale * old + sum(w * V[j][c] for w, j in zip(p, seen)) for c, old in enumerate(o)]
        m = m_new
    return [x / l for x in o] if l != 0 else o
    # end of answer
