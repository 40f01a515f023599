"""Exercise 8: the backward pass of one query, each key and value read once.

Softmax's derivative needs a sum over all keys. FlashAttention's backward knows it
before the first key.
"""

from math import exp, sqrt


def backward_row(q, K, V, o, lse, do):
    """(dq [d], dK [S][d], dV [S][d_v]) of one query, from do [d_v], the gradient of its output.

    The forward pass was s = K q / sqrt(d), p = softmax(s), o = p V, and kept o [d_v]
    and lse = ln(sum of e^s). With dp = V do the gradient of a score is ds_j = p_j
    (dp_j - sum over i of p_i dp_i). Then dq and dK follow from s = K q / sqrt(d), and
    dV from o = p V. Read each row of K and V once, in order. Scores may be large or
    far below zero: e^s alone overflows. A NaN in do gives NaN. Leave the arguments as
    they are and return new lists.

        backward_row([1.0], [[0.0]], [[3.0]], [3.0], 0.0, [1.0])  →  ([0.0], [[0.0]], [[1.0]])
    """
    # answer
    scale = 1 / sqrt(len(q))
    delta = sum(a * b for a, b in zip(do, o))
    dq, dK, dV = [0.0] * len(q), [], []
    for k, v in zip(K, V):
        p = exp(sum(a * b for a, b in zip(q, k)) * scale - lse)
        dp = sum(a * b for a, b in zip(do, v))
        ds = p * (dp - delta) * scale
        dq = [x + ds * y for x, y in zip(dq, k)]
        dK.append([ds * x for x in q])
        dV.append([p * x for x in do])
    return dq, dK, dV
    # end of answer
