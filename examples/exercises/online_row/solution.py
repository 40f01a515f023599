"""Exercise 1: softmax-weighted mean of values that arrive one key at a time.

What is kept must not grow with the number of keys: this is the loop that lets a
kernel never store a row of scores.
"""

from math import exp, inf


def online_row(stream):
    """Sum of softmax(s) · v over all keys, in one pass.  # [d_v]

    stream yields (s, v) for each key: its score, a float but never inf, and its value,
    a list of d_v floats. There is at least one key; the stream can be read once; it may
    be long, so keep a few numbers and not the keys. Scores may be large (1000.0) or
    far below zero (-1e300), and the largest may come last. A NaN score gives NaN, a
    NaN in a value gives NaN in its column. Leave the lists as they are and return a
    new one.

        online_row(iter([(0.0, [1.0, 4.0]), (0.0, [3.0, 8.0])]))  →  [2.0, 6.0]
    """
    # answer
    m, l, o = -inf, 0.0, None
    for s, v in stream:
        m_new = max(m, s)
        rescale, p = exp(m - m_new), exp(s - m_new)
        l = rescale * l + p
        o = [rescale * old + p * x for old, x in zip(o or [0.0] * len(v), v)]   # [d_v]
        m = m_new
    return [x / l for x in o]
    # end of answer
