"""Attention over the keys in parts: each part gives (o, lse), and one merge makes one of them, in any order.

A part is attention over some of the keys alone. It gives o, the output normalised over those keys, and lse = m + ln l, the
logarithm of all their weight together. Two parts merge by their weights: with m = max(lse_a, lse_b) and w = e^(lse - m),

    o = (w_a o_a + w_b o_b) / (w_a + w_b)        lse = m + ln(w_a + w_b)

The merge is commutative to the bit and associative up to rounding, and a part that sees no key, (0, -inf), changes nothing.
So the keys may be cut anywhere and the parts merged as they arrive, in sequence or in a tree. Three uses of the one merge:

    split-KV     the keys of one query cut over the blocks of a GPU, so that a single query fills it (split_kv)
    prefix       a prompt that many requests share, attended once for all of them, then each request's own keys (shared_prefix)
    ring         keys and values that travel from device to device, each device merging what it gets (ring_steps)

Sources: Milakov & Gimelshein (arXiv 1805.02867), section 3.1, for the merge of (m, l); Flash-Decoding (Dao, Haziza, Massa,
Sizov, 2023) for split-KV; Ring Attention (Liu, Zaharia, Abbeel, arXiv 2310.01889) for the ring.
Shapes: q is a list of d floats, K a list of S rows of d, V a list of S rows of d_v. Scores are divided by sqrt(d).
A score of -inf hides its key, whose row of V is not read. A NaN that takes part gives NaN.
Left out: batches and heads, and the online softmax inside a part; it is in online_softmax.py.
"""

from decimal import Decimal
from functools import reduce
from itertools import permutations
from math import exp, inf, isnan, log, nan, sqrt
from random import Random

q = [0.5, -0.3, 0.8, 0.1]                                                       # [d]
K = [[0.2, 0.1, -0.4, 0.6], [0.9, -0.2, 0.3, 0.0], [-0.5, 0.4, 0.7, -0.1],
     [0.1, 0.1, 0.1, 0.1], [0.8, 0.8, -0.8, 0.2], [-0.3, 0.5, 0.2, 0.9]]        # [S, d]
V = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1],
     [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1]]                                        # [S, d_v]


def partial(q, K, V, keys):
    """Attention over the keys whose indices are in `keys`, alone.  # o [d_v], lse

    Any indices in any order, none as well: a part that sees no key gives nothing(d_v).
    Raises ValueError when K and V differ in length or are empty, q has another d than K, or keys names one that is not there.
    """
    if len(K) != len(V) or len(K) == 0:
        raise ValueError(f"K has {len(K)} rows and V has {len(V)}: every key needs its value, and there must be one")
    if any(len(k) != len(q) for k in K):
        raise ValueError(f"K has rows that are not as long as q, which has d = {len(q)}")
    keys = list(keys)
    if any(not 0 <= j < len(K) for j in keys):
        raise ValueError(f"keys names a key that is not among the {len(K)} of K")
    s = {j: sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q)) for j in keys}
    seen = {j: s_j for j, s_j in s.items() if s_j != -inf}
    if not seen:
        return nothing(len(V[0]))
    m = max(seen.values())
    p = {j: exp(s_j - m) for j, s_j in seen.items()}
    l = sum(p.values())
    return [sum(p[j] * V[j][c] for j in p) / l for c in range(len(V[0]))], m + log(l)


def nothing(d_v):
    """The part that sees no key: no output and no weight. It is the neutral element of merge()."""
    return [0.0] * d_v, -inf


def merge(a, b):
    """One part from two parts over different keys. Raises ValueError when b's o is not as long as a's.  # (o [d_v], lse) each"""
    (o_a, lse_a), (o_b, lse_b) = a, b
    if len(o_a) != len(o_b):
        raise ValueError(f"a has d_v = {len(o_a)} and b has {len(o_b)}")
    if lse_a == lse_b == -inf:                                                  # -inf - -inf would be NaN
        return nothing(len(o_a))
    m = max(lse_a, lse_b)
    w_a, w_b = exp(lse_a - m), exp(lse_b - m)
    l = w_a + w_b
    return [(w_a * x + w_b * y) / l for x, y in zip(o_a, o_b)], m + log(l)


def merge_tree(parts):
    """All parts by halves, as blocks of a GPU or devices of a cluster would do it at the same time. Raises ValueError when there is none."""
    if len(parts) == 0:
        raise ValueError("parts is empty: nothing() is the part that sees no key")
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return merge(merge_tree(parts[:half]), merge_tree(parts[half:]))


def cut(S, parts):
    """The indices 0 … S - 1 in `parts` runs of nearly equal length; runs are empty when there are more parts than keys."""
    if parts < 1:
        raise ValueError(f"parts = {parts}: there must be one at least")
    ends = [S * i // parts for i in range(parts + 1)]
    return [range(start, end) for start, end in zip(ends, ends[1:])]


def split_kv(q, K, V, parts):
    """Attention of one query with its keys in `parts` runs: every run could be a thread block of its own.  # o [d_v], lse

    Raises ValueError when parts < 1, and what partial() raises.
    """
    return merge_tree([partial(q, K, V, keys) for keys in cut(len(K), parts)])


def shared_prefix(queries, K, V, prefix, own):
    """Attention of several queries that share the keys `prefix`; query i also sees the keys own[i].  # [(o [d_v], lse)]

    The prefix is read once for all queries, which makes one matmul of many; each query's own keys are read for it alone.
    Raises ValueError when own is not one for each query, or names a key of the prefix, which would count twice.
    """
    if len(own) != len(queries) or any(set(keys) & set(prefix) for keys in own):
        raise ValueError(f"own has {len(own)} sets of keys for {len(queries)} queries: one for each, without the keys of the prefix")
    over_prefix = [partial(q, K, V, prefix) for q in queries]
    return [merge(part, partial(q, K, V, keys)) for part, q, keys in zip(over_prefix, queries, own)]


def ring_steps(Q, K, V, devices):
    """Causal attention of all queries, keys travelling round a ring. Yields (blocks, parts) after each step.

    Device r owns run r of the queries, and of the keys and values at first; in step t it holds those of device r - t.
    blocks[r] is the run it holds, parts[i] is what query i has so far. Query i sees the keys 0 … i.
    Raises ValueError when devices < 1 or Q and K differ in length, and what partial() raises.
    """
    if len(Q) != len(K):
        raise ValueError(f"Q has {len(Q)} rows and K has {len(K)}: each query stands at the place of its key")
    runs = cut(len(Q), devices)
    parts = [nothing(len(V[0])) for _ in Q]
    for step in range(devices):
        blocks = [(r - step) % devices for r in range(devices)]
        for queries, block in zip(runs, blocks):
            for i in queries:
                parts[i] = merge(parts[i], partial(Q[i], K, V, [j for j in runs[block] if j <= i]))
        yield blocks, list(parts)


# The check. Its reference shares nothing with the code above: no maximum, no merge, 28-digit decimals.

def exact(q, K, V, keys):
    """o and lse over `keys` by their definitions. Decimals have exponents so wide that no maximum is needed.  # o [d_v], lse"""
    root = Decimal(len(q)).sqrt()
    p = {j: (sum(Decimal(a) * Decimal(b) for a, b in zip(q, K[j])) / root).exp() for j in keys}
    l = sum(p.values(), Decimal(0))
    return [float(sum((w * Decimal(V[j][c]) for j, w in p.items() if w), Decimal(0)) / (l or 1)) for c in range(len(V[0]))], float(l.ln())


def check_cases():
    """(name, q, K, V, runs of keys, expected): one case for each way in which a wrong merge shows."""
    random = Random(0)

    def row(n):
        return [random.uniform(-3, 3) for _ in range(n)]

    cases = [("the lesson's example", q, K, V, cut(6, 3)), ("parts of unequal size", q, K, V, [[0, 1, 2, 3], [4], [5]]),
             ("parts that are no runs", q, K, V, [[5, 0], [3], [1, 4, 2]])]
    for S in (1, 2, 5, 8):
        cases.append((f"random, S = {S}", row(4), [row(4) for _ in range(S)], [row(3) for _ in range(S)], cut(S, 3)))
    for name, s in [
        ("rising scores", [-1e4, 0.0, 1e4]), ("falling scores", [1e4, 0.0, -1e4]), ("all scores large", [1e4, 1e4 + 1, 1e4 + 2]),
        ("all scores small", [-1e4, -1e4 - 1, -1e4 - 2]), ("a part sees no key", [-inf, 1.0, 2.0]),
        ("two parts see no key", [-inf, -inf, 2.0]), ("no part sees a key", [-inf, -inf, -inf]),
    ]:
        cases.append((name, [1.0], [[x] for x in s], [[j + 1.0, -j] for j in range(3)], cut(3, 3)))
    cases = [(*case, exact(*case[1:4], range(len(case[2])))) for case in cases]
    cases.append(("below any finite stand-in for -inf", [1.0], [[-1e30]] * 2 + [[-inf]], [[1.0], [2.0], [9.0]], [[0, 1], [2], []], ([1.5], -1e30)))
    for s in ([nan, 0.0, 1.0], [0.0, 1.0, nan], [-inf, nan, -inf]):
        cases.append((f"scores {s}", [1.0], [[x] for x in s], [[1.0], [2.0], [3.0]], cut(3, 3), ([nan], nan)))
    return cases


def check(merge=merge):
    """Raise AssertionError unless merge(a, b) -> (o, lse) joins parts rightly: in every order, from the left and from the right."""
    for name, q, K, V, runs, (o, lse) in check_cases():
        for parts in permutations([partial(q, K, V, keys) for keys in runs]):
            for tree, joined in (("left", lambda: reduce(merge, parts)), ("right", lambda: reduce(lambda b, a: merge(a, b), parts[::-1]))):
                try:
                    found, found_lse = joined()
                except Exception as error:
                    raise AssertionError(f"{name}, from the {tree}: {error!r}") from error
                if not len(found) == len(o):
                    raise AssertionError(f"{name}: {len(found)} entries, expected {len(o)}")
                for x, y in zip([*found, found_lse], [*o, lse]):
                    same = isnan(x) if isnan(y) else x == y or abs(x - y) <= 1e-12 * max(1, abs(y))
                    if not same:
                        raise AssertionError(f"{name}, from the {tree}: {found}, {found_lse}, expected {o}, {lse}")


def bound(parts, expected):
    """Say what the largest difference of the o's and the LSEs is below: its digits depend on the interpreter, the bound does not."""
    pairs = [pair for (o, lse), (o2, lse2) in zip(parts, expected) for pair in zip([*o, lse], [*o2, lse2])]
    largest = max(abs(x - y) for x, y in pairs)
    return "below 1e-14" if largest < 1e-14 else f"{largest:.1e}"


def show(label, part):
    o, lse = part
    print(f"{label:10}  {', '.join(f'{x:8.6f}' for x in o)}  {lse:9.6f}")


def show_split():
    """Print the parts of the example, their weights and what they merge to; the mean of the parts beside it."""
    runs = cut(len(K), 3)
    parts, full = [partial(q, K, V, keys) for keys in runs], partial(q, K, V, range(6))
    print("split-KV    o                                           lse")
    for keys, part in zip(runs, parts):
        show(f"keys {keys[0]} - {keys[-1]}", part)
    show("merged", split_kv(q, K, V, 3))
    show("at once", full)
    print("weights    ", ", ".join(f"{exp(lse - full[1]):.6f}" for _, lse in parts))
    orders = [reduce(merge, order) for order in permutations(parts)] + [split_kv(q, K, V, n) for n in range(1, 9)]
    print("6 orders, and 1 to 8 parts in a tree: largest difference", bound(orders, [full] * len(orders)))
    mean = [sum(o[c] for o, _ in parts) / 3 for c in range(4)]
    print(f"the mean of the parts, without weights, is off by {max(abs(x - y) for x, y in zip(mean, full[0])):.3f}")


def show_nothing():
    """Print what a part that sees no key does."""
    part = partial(q, K, V, [0, 1])
    same = merge(part, nothing(4)) == part == merge(nothing(4), part)
    print("\nmerged with a part that sees no key:", "unchanged, to the bit" if same else "changed")
    print("two parts that see no key:", *merge(nothing(4), nothing(4)))
    print("there e^(lse - m) would be:", exp(-inf - -inf))


def show_prefix():
    """Print the largest difference of three queries over a shared prefix from the same queries over all their keys."""
    queries, own = [q, q[::-1], [1.0, 1.0, -1.0, 0.0]], [[4], [5], [4, 5]]
    found = shared_prefix(queries, K, V, range(4), own)
    print("\nprefix of 4 keys shared by 3 queries: largest difference", bound(found, [partial(x, K, V, [*range(4), *keys]) for x, keys in zip(queries, own)]))


def show_ring():
    """Print which keys each device of a ring holds, step by step, and what its last query has collected."""
    Q = K[::-1]                                                                 # [S, d]: one query a key
    print("\nring of 3 devices, causal: the keys each one holds, and the LSE of its last query")
    for step, (blocks, parts) in enumerate(ring_steps(Q, K, V, 3)):
        held = [f"keys {2 * block} - {2 * block + 1}  {parts[2 * r + 1][1]:9.6f}" for r, block in enumerate(blocks)]
        print(f"step {step}   ", "    ".join(held))
    print("largest difference", bound(parts, [partial(x, K, V, range(i + 1)) for i, x in enumerate(Q)]))


def main():
    show_split()
    show_nothing()
    show_prefix()
    show_ring()
    check()
    print("\ncheck: every case, order and tree agrees with 28-digit arithmetic")


if __name__ == "__main__":
    main()
