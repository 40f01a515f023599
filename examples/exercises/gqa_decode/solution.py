"""Exercise 6: one decode step with grouped-query attention, each key and value read once.

G query heads share one KV head. A program that copies K for each of them, or reads it
G times, loses what GQA is for.
"""

from math import exp, inf, sqrt


def gqa_decode(Q, K, V):
    """Attention of one query a head; head h reads KV head h // G, G = H / H_kv.  # [H][d_v]

    Q [H][d], K [H_kv][S][d], V [H_kv][S][d_v] as lists; H is a multiple of H_kv, S >=
    1. Each row of K and V is read once, for all heads of its group; nothing with S
    entries is kept or copied. Scores may be large or far below zero. A NaN gives NaN
    in the heads that read it, one in V in its column alone. Leave Q, K and V as they
    are and return new lists.

        gqa_decode([[1.0], [1.0]], [[[0.0], [0.0]]], [[[1.0], [3.0]]])  →  [[2.0], [2.0]]
    """
    # answer
    output, G = [], len(Q) // len(K)
    for g, (keys, values) in enumerate(zip(K, V)):
        group = Q[g * G : (g + 1) * G]
        states = [(-inf, 0.0, None) for _ in group]
        for k, v in zip(keys, values):
            for i, (q, (m, l, o)) in enumerate(zip(group, states)):
                s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
                m_new = max(m, s)
                rescale, p = exp(m - m_new), exp(s - m_new)
                o = [rescale * old + p * x for old, x in zip(o or [0.0] * len(v), v)]
                states[i] = m_new, rescale * l + p, o
        output += [[x / l for x in o] for m, l, o in states]
    return output
    # end of answer
