"""Exercise 4: one result from two that saw different keys.

Split-KV in decode, ring attention over devices and prefix sharing all end in this
function.
"""

from math import exp, inf, log


def merge_parts(a, b):
    """The partial result over the keys of both parts.  # (o [d_v], lse)

    A part is (o, lse): o, a list of d_v floats, is attention over its keys alone,
    already normalised; lse = ln(sum of e^s) over the scores s of its keys. A part
    that sees no key is ([0.0, …], -inf). lse may be large (1000.0) or far below zero.
    A NaN in a part gives NaN in the same place. Leave a and b as they are, and return a
    new list for o even where one part is empty.

        merge_parts(([1.0], 0.0), ([3.0], 0.0))  →  ([2.0], 0.693147…)
    """
    # answer
    (o_a, lse_a), (o_b, lse_b) = a, b
    if lse_a == lse_b == -inf:                                                  # neither sees a key
        return [0.0] * len(o_a), -inf
    m = max(lse_a, lse_b)
    w_a, w_b = exp(lse_a - m), exp(lse_b - m)
    l = w_a + w_b
    return [(w_a * x + w_b * y) / l for x, y in zip(o_a, o_b)], m + log(l)
    # end of answer
