"""Attention for one query, twice: with the whole row of scores, and in one pass over tiles of keys.

The pass keeps three things, however long the row is: the largest score so far (m), the sum of the weights (l)
and the weighted sum of the values (o). When a tile raises m, the two sums are rescaled by e^(m_old - m_new).
It is the same function, computed in another order: equal in exact arithmetic, up to the last bits in floats.

Source: Milakov & Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867), section 3;
the weighted sum carried along and divided once at the end: FlashAttention-2 (arXiv 2307.08691), section 3.1.

Shapes: q is a list of d floats, K a list of S rows of d, V a list of S rows of d_v. Scores are divided by sqrt(d).
Mask: a score of -inf hides its key, so give the key's row -inf where q is positive. The row of V under it is never
read and may hold anything. A row with every key hidden gives zeros. A NaN that takes part gives NaN.
Left out: several queries, batches and heads; they are in tiled_attention.py.
"""

from decimal import Decimal
from math import exp, inf, isnan, nan, sqrt
from random import Random

q = [0.5, -0.3, 0.8, 0.1]                                                       # [d]
K = [[0.2, 0.1, -0.4, 0.6], [0.9, -0.2, 0.3, 0.0], [-0.5, 0.4, 0.7, -0.1],
     [0.1, 0.1, 0.1, 0.1], [0.8, 0.8, -0.8, 0.2], [-0.3, 0.5, 0.2, 0.9]]        # [S, d]
V = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1],
     [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1]]                                        # [S, d_v]


def full_attention(q, K, V):
    """softmax(K q / sqrt(d)) V with the whole row of scores at hand.  # [d_v]

    Raises ValueError, naming the argument, when the shapes do not fit (check_input).
    """
    check_input(q, K, V)
    s = scores(q, K)                                                            # [S]
    l, o = weighted_sums(s, V, max(s))
    return normalise(l, o)


def online_attention(q, K, V, block=2):
    """The same function in one pass over tiles of `block` keys: the last running state, normalised once.  # [d_v]

    Raises ValueError, naming the argument, when the shapes do not fit or block < 1 (check_input).
    """
    for m, l, o in online_steps(q, K, V, block):                                # one state at a time is alive
        pass
    return normalise(l, o)


def online_steps(q, K, V, block=2):
    """Yield the running state (m, l, o) after each tile of `block` keys; the last tile may be shorter.

    m: the largest score so far, -inf while every key was hidden.
    l: the sum of e^(s - m) over the keys so far.
    o: the sum of e^(s - m) v over the keys so far, not yet divided by l.  # [d_v]
    Raises what online_attention raises, when the first state is asked for.
    """
    check_input(q, K, V, block)
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for start in range(0, len(K), block):
        tile = slice(start, start + block)
        s = scores(q, K[tile])                                                  # [block]
        m_new = max(m, *s)
        rescale = 0.0 if m == -inf else exp(m - m_new)                          # -inf - -inf would be NaN
        l_tile, o_tile = weighted_sums(s, V[tile], m_new)
        l = rescale * l + l_tile
        o = [rescale * old + new for old, new in zip(o, o_tile)]                # [d_v]
        m = m_new
        yield m, l, o


def scores(q, K):
    """One score a key: q · k / sqrt(d).  # [len(K)]"""
    return [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K]


def weighted_sums(s, V, m):
    """l = sum of e^(s - m) and o = sum of e^(s - m) v over the keys that are not hidden.  # [], [d_v]"""
    seen = [(exp(s_j - m), v) for s_j, v in zip(s, V) if s_j != -inf]
    l = sum(p for p, v in seen)
    o = [sum(p * v[c] for p, v in seen) for c in range(len(V[0]))]
    return l, o


def normalise(l, o):
    """o / l. Only a row with every key hidden has l = 0, because the largest score weighs e^0 = 1."""
    return [x / l for x in o] if l != 0 else [0.0] * len(o)


def check_input(q, K, V, block=1):
    """Raise a ValueError that names the argument when the shapes do not fit."""
    if len(q) == 0:
        raise ValueError("q is empty: a query has d >= 1 entries")
    if len(K) == 0:
        raise ValueError("K is empty: attention needs at least one key")
    if len(K) != len(V):
        raise ValueError(f"K has {len(K)} rows and V has {len(V)}: every key needs its value")
    if block < 1:
        raise ValueError(f"block = {block}: a tile holds at least one key")
    for j, (k, v) in enumerate(zip(K, V)):
        if len(k) != len(q):
            raise ValueError(f"K[{j}] has {len(k)} entries and q has {len(q)}: they must have the same d")
        if len(v) != len(V[0]):
            raise ValueError(f"V[{j}] has {len(v)} entries and V[0] has {len(V[0])}: all rows must have the same d_v")


def rescales(q, K, V, block=2):
    """The factors e^(m_old - m_new) of the tiles that raised a maximum already there: one a real rescale."""
    m = [state[0] for state in online_steps(q, K, V, block)]
    return [exp(old - new) for old, new in zip(m, m[1:]) if -inf < old < new]


def exact_attention(q, K, V):
    """The definition in 28-digit decimals. Their exponents are so wide that no maximum is needed."""
    root = Decimal(len(q)).sqrt()
    p = [(sum(Decimal(a) * Decimal(b) for a, b in zip(q, k)) / root).exp() for k in K]
    return [float(sum(w * Decimal(v[c]) for w, v in zip(p, V)) / (sum(p) or 1)) for c in range(len(V[0]))]


def check_cases():
    """(name, q, K, V, expected): one case for each way in which a wrong implementation shows."""
    random = Random(0)

    def row(n):
        return [random.uniform(-3, 3) for _ in range(n)]

    cases = [("the lesson's example", q, K, V), ("keys reversed", q, K[::-1], V[::-1])]
    for S in (1, 2, 3, 5, 8, 13):
        cases.append((f"random, S = {S}", row(4), [row(4) for _ in range(S)], [row(3) for _ in range(S)]))
    for name, s in [
        ("rising scores", [-1e4, -5.0, 0.0, 3.0, 1e4]),
        ("falling scores", [1e4, 3.0, 0.0, -5.0, -1e4]),
        ("first keys hidden", [-inf, -inf, -inf, 1.0, 2.0]),
        ("last keys hidden", [1.0, 2.0, -inf, -inf, -inf]),
        ("every key hidden", [-inf, -inf, -inf]),
    ]:
        cases.append((name, [1.0], [[x] for x in s], [[j + 1.0, -j] for j in range(len(s))]))
    cases = [(*case, exact_attention(*case[1:])) for case in cases]
    cases.append(("below any finite stand-in for -inf", [1.0], [[-1e30]] * 3, [[1.0], [2.0], [6.0]], [3.0]))
    cases.append(("garbage in V under hidden keys", [1.0], [[-inf], [0.0], [-inf]], [[nan], [2.0], [inf]], [2.0]))
    for s in ([nan, 0.0, 1.0], [0.0, 1.0, nan], [-inf, nan, 1.0], [nan, -inf, -inf]):
        cases.append((f"scores {s}", [1.0], [[x] for x in s], [[1.0], [2.0], [3.0]], [nan]))
    return cases


def check(attention=online_attention):
    """Raise AssertionError unless attention(q, K, V, block=...) is right, whatever the block."""
    for name, q, K, V, expected in check_cases():
        for block in (1, 2, 3, 4, len(K), 10 * len(K)):
            case = f"{name}, block = {block}"
            try:
                got = attention(q, K, V, block=block)
            except Exception as error:
                raise AssertionError(f"{case}: {error!r}") from error
            if not len(got) == len(expected):
                raise AssertionError(f"{case}: {len(got)} entries, expected {len(expected)}")
            for x, y in zip(got, expected):
                if not (isnan(x) if isnan(y) else abs(x - y) < 1e-12):
                    raise AssertionError(f"{case}: {got}, expected {expected}")


def bound(a, b):
    """Say what the largest difference is below: its digits depend on the interpreter, the bound does not."""
    largest = max(abs(x - y) for x, y in zip(a, b))
    return "below 1e-15" if largest < 1e-15 else f"{largest:.1e}"


def show_rescales():
    """Print how many tiles rescale, for two orders of the same keys and four tile widths."""
    print("rescales        block = 1   block = 2   block = 3   block = 6")
    for name, keys, values in (("keys as given", K, V), ("keys reversed", K[::-1], V[::-1])):
        counts = [len(rescales(q, keys, values, block)) for block in (1, 2, 3, 6)]
        print(name, "".join(f"{n:12}" for n in counts))


def show_steps(q, K, V, block=2):
    """Print the scores of each tile and the running state after it; return the result."""
    print("tile           scores         m   e^(m_old - m)          l")
    m_old = -inf
    for tile, (m, l, o) in enumerate(online_steps(q, K, V, block)):
        s = scores(q, K[tile * block : (tile + 1) * block])
        factor = "" if m_old == -inf else f"{exp(m_old - m):.6f}"
        print(f"{tile:4}  {', '.join(f'{x:6.3f}' for x in s):>15}  {m:8.3f}  {factor:>14}  {l:9.6f}")
        m_old = m
    return normalise(l, o)


def main():
    full, online = full_attention(q, K, V), online_attention(q, K, V)
    print("full   :", [round(x, 6) for x in full])
    print("online :", [round(x, 6) for x in online])
    print("largest difference:", bound(full, online))
    print()
    show_rescales()
    print("\nKeys reversed, block = 2: every tile raises the maximum, and the answer stays")
    last = show_steps(q, K[::-1], V[::-1])
    print("online :", [round(x, 6) for x in last])
    print("largest difference:", bound(full, last))
    check()
    print("\ncheck: every case and every block agree with 28-digit arithmetic")


if __name__ == "__main__":
    main()
