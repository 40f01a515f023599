"""What online softmax does in each tile, in numbers: taken from examples/online_softmax.py by calling its functions.

The build runs this on the lesson's example; the page serves it and runs it on a reader's scores:

    python online_trace.py 0.1 2 -inf 0.5          beside online_softmax.py
"""
import json
import sys
from math import exp, inf, isfinite

MOST = 12     # scores that a reader may give


def walk(lesson, q, K, V, block):
    """One dict: the tiles in order, each with the state before and after it, the result, and what crosses the line, in numbers.

    lesson is the module online_softmax. Raises AssertionError where its states do not follow from its own sums.
    """
    d, d_v, S = len(q), len(V[0]), len(K)
    m, l, o = -inf, 0.0, [0.0] * d_v
    tiles, crossed = [], d
    for n, (m_new, l_new, o_new) in enumerate(lesson.online_steps(q, K, V, block)):
        tile = slice(n * block, min((n + 1) * block, S))
        s = lesson.scores(q, K[tile])
        rescale = 0.0 if m == -inf else exp(m - m_new)
        l_tile, o_tile = lesson.weighted_sums(s, V[tile], m_new)
        assert l_new == rescale * l + l_tile and o_new == [rescale * old + new for old, new in zip(o, o_tile)], f"tile {n}: not the step of the lesson"
        crossed += (tile.stop - tile.start) * (d + d_v)
        tiles.append({
            "start": tile.start, "stop": tile.stop, "s": numbers(s), "tile_max": number(max(s)), "m_old": number(m), "m": number(m_new),
            "rescale": rescale, "p": [lesson.weighted_sums([x], [[1.0]], m_new)[0] for x in s],
            "l_old": l, "l_tile": l_tile, "l": l_new, "o_old": o, "o_tile": o_tile, "o": o_new, "crossed": crossed,
        })
        m, l, o = m_new, l_new, o_new
    return {
        "block": block, "query": d, "tiles": tiles, "result": lesson.normalise(l, o), "crossed": crossed + d_v,
        "naive": [["q, K", d + S * d], ["s", S], ["s", S], ["p", S], ["p, V", S + S * d_v], ["o", d_v]],
    }


def walks(lesson, q, K, V):
    """A walk for every width of a tile that differs: 1 to S."""
    return {"scores": numbers(lesson.scores(q, K)), "walks": [walk(lesson, q, K, V, block) for block in range(1, len(K) + 1)]}


def example(lesson):
    """The lesson's example, as given and with its keys reversed."""
    return {"given": walks(lesson, lesson.q, lesson.K, lesson.V), "reversed": walks(lesson, lesson.q, lesson.K[::-1], lesson.V[::-1])}


def problem(lesson, scores):
    """q, K, V of the example's shapes that have exactly these scores: sqrt(4) = 2 doubles and halves without rounding."""
    if not 1 <= len(scores) <= MOST or not all(isfinite(s) and abs(s) < 1e300 or s == -inf for s in scores):
        raise ValueError(f"give 1 to {MOST} scores, numbers or -inf")
    return [1.0, 0.0, 0.0, 0.0], [[2 * s, 0.0, 0.0, 0.0] for s in scores], [lesson.V[j % len(lesson.V)] for j in range(len(scores))]


def number(x):
    """JSON has no infinity."""
    return "-inf" if x == -inf else x


def numbers(row):
    return [number(x) for x in row]


if __name__ == "__main__":
    import online_softmax

    print(json.dumps(walks(online_softmax, *problem(online_softmax, [float(x) for x in sys.argv[1:]]))))
