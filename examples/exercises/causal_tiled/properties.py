"""Properties of causal_tiled."""
from math import nan

from common import any_difference, draw, mean, score, values, weightless
from grader import NAME, Wrong, written

ARGUMENTS = ("Q", "K", "V", "Br", "Bc")


class Counted(float):
    """An entry of K that counts the products it is in."""

    products = 0

    def __mul__(self, other):
        Counted.products += 1
        return float(self) * float(other)

    __rmul__ = __mul__


def as_many_queries_as_keys(solve, random):
    for S in (1, 2, 3, 4, 5):
        solve.expect(*triangle(random, S, S))


def first_query_sees_one_key(solve, random):
    for S in (2, 3):
        solve.expect(*triangle(random, S, S, Br=S, Bc=S))


def fewer_queries_than_keys(solve, random):
    for S_q, S_kv in ((1, 2), (1, 3), (2, 3), (2, 5), (3, 4)):
        solve.expect(*triangle(random, S_q, S_kv))


def more_queries_than_keys(solve, random):
    for S_q, S_kv in ((2, 1), (3, 1), (4, 2), (5, 3)):
        solve.expect(*triangle(random, S_q, S_kv))
        solve.expect(*triangle(random, S_q, S_kv, Br=1, Bc=3))


def any_tiles(solve, random):
    for S, Br, Bc in ((3, 2, 1), (3, 1, 2), (4, 3, 2), (5, 2, 3), (5, 4, 4), (4, 9, 9), (5, 3, 1), (7, 3, 2), (9, 2, 4)):
        solve.expect(*triangle(random, S, S, Br=Br, Bc=Bc))


def rising(solve, random):
    for Br, Bc in ((1, 1), (2, 1), (2, 2)):
        s = [draw(random)]
        while len(s) < 5:
            s.append(round(s[-1] + random.uniform(0.3, 1), 1))
        solve.expect(*triangle(random, 5, 5, s, Br=Br, Bc=Bc))


def scale(solve, random):
    for d in (4, 9, 3):
        Q, K, V = ([[draw(random) for _ in range(n)] for _ in range(3)] for n in (d, d, 2))
        expected = [mean([score(Q[i], K[j]) for j in range(i + 1)], V[: i + 1]) for i in range(3)]
        solve.expect((Q, K, V, 2, 2), expected)


def large_scores(solve, random):
    solve.expect(*triangle(random, 3, 3, [900.0, 901.0, 900.5]))
    for s in ([-1e4, 0.0, 1e4], [1e4, 0.0, -1e4]):
        solve.expect(*triangle(random, 3, 3, s, Bc=1))


def far_below_zero(solve, random):
    solve.expect(*triangle(random, 3, 3, [-1000.0, -1001.0, -999.5]))
    for low in (-1e10, -1e300):
        (Q, K, V, *tiles), expected = triangle(random, 2, 2, [0.0, 0.0])
        solve.expect((Q, [[low], [low]], V, *tiles), expected)


def each_query_its_own(solve, random):
    """Rows of one tile whose scores are far apart, and rows that only differ."""
    for queries in ([1.0, -1.0, 0.5], [1000.0, 0.001, -1000.0], [0.001, 1000.0, 0.001]):
        Q, K, V = [[x] for x in queries], [[draw(random) + 3] for _ in queries], values(random, 3, 2)
        solve.expect((Q, K, V, 3, 2), [mean([score(q, k) for k in K[: i + 1]], V[: i + 1]) for i, q in enumerate(Q)])


def many_keys(solve, random):
    """Equal scores, whose mean is known; then a maximum that rises a little with each key and by hundreds in all."""
    solve.expect(([[1.0]], [[0.0] for _ in range(1000)], [[float(j)] for j in range(1000)], 2, 7), [[499.5]], f"{NAME}(Q=[[1.0]], K=[[0.0] for j in range(1000)], V=[[float(j)] for j in range(1000)], Br=2, Bc=7)")
    V = [[0.01 * j, j % 3 - 1.0] for j in range(1600)]
    solve.expect(([[1.0]], [[0.5 * j] for j in range(1600)], V, 2, 1), [mean([0.5 * j for j in range(1500, 1600)], V[1500:])], f"{NAME}(Q=[[1.0]], K=[[0.5 * j] for j in range(1600)], V=[[0.01 * j, j % 3 - 1.0] for j in range(1600)], Br=2, Bc=1)")


def width(solve, random):
    for d_v in (1, 3, 5):
        solve.expect(*triangle(random, 3, 3, d_v=d_v))


def not_a_number(solve, random):
    for S_q, S_kv, j in ((3, 3, 0), (3, 3, 1), (2, 4, 1), (1, 5, 2), (1, 5, 4)):
        for Bc in (1, 2):
            s = [draw(random) for _ in range(S_kv)]
            s[j] = nan
            solve.expect(*triangle(random, S_q, S_kv, s, Bc=Bc))
    V = values(random, 3, 2)
    V[1][1] = nan
    solve.expect(*triangle(random, 3, 3, [0.5, 0.0, 0.25], V=V))                  # a NaN in V stays in its column


def unseen_junk(solve, random):
    for S, Br, Bc in ((3, 3, 3), (4, 2, 2), (4, 4, 2)):
        for junk in (nan, 1e6):                                                 # the last row sees it: NaN, or all the weight
            s = [*(draw(random) for _ in range(S - 1)), junk]
            solve.expect(*triangle(random, S, S, s, Br=Br, Bc=Bc, V=[*values(random, S - 1, 2), [junk, 1.0]]))


def unseen_tiles_are_skipped(solve, random):
    """Counts products with entries of K (d = 1); a solution that hides them from the count is not judged."""
    for S_q, S_kv, Br, Bc in ((8, 8, 2, 2), (4, 8, 2, 2), (8, 4, 2, 2), (3, 12, 1, 2), (7, 7, 3, 2), (7, 7, 2, 3)):
        (Q, K, V, *_), expected = triangle(random, S_q, S_kv)
        Counted.products = 0
        given = f"{NAME}({written((Q, K, V, Br, Bc))})"
        try:
            solve(Q, [[Counted(x) for x in k] for k in K], V, Br, Bc)
        except BaseException as error:
            raise Wrong(given, "q · k", solve.explain(error)) from None
        allowed = 0
        for i in range(0, S_q, Br):
            rows = min(Br, S_q - i)
            last = max(0, min(S_kv, i + rows + S_kv - S_q))
            allowed += rows * min(S_kv, -(-last // Bc) * Bc)
        if Counted.products > allowed:
            raise Wrong(given, f"q · k ≤ {allowed}", f"q · k = {Counted.products}")


def untouched(solve, random):
    solve.expect_untouched(triangle(random, 3, 3)[0])


def memory(solve, random):
    def make(S):
        return [[1.0]] * 2, [[0.001 * j] for j in range(S)], [[1.0, 2.0] for _ in range(S)], 2, 4

    solve.expect_flat(make)


PROPERTIES = (
    as_many_queries_as_keys, first_query_sees_one_key, fewer_queries_than_keys, more_queries_than_keys, any_tiles, each_query_its_own, rising, any_difference, weightless, unseen_tiles_are_skipped,
    unseen_junk, large_scores, far_below_zero, scale, width, not_a_number, many_keys, untouched, memory,
)


def case(random, offsets, base=0.0, block=2, d_v=2, V=None):
    """One query, which sees all keys."""
    return triangle(random, 1, len(offsets), [base + x for x in offsets], Bc=block, d_v=d_v, V=V)


def triangle(random, S_q, S_kv, s=None, Br=2, Bc=2, d_v=2, V=None):
    """((Q, K, V, Br, Bc), expected): d = 1 and all queries 1.0, so that key j has the score s[j]."""
    s = s or [draw(random) for _ in range(S_kv)]
    V = V or values(random, S_kv, d_v)
    seen = [max(0, i + 1 + S_kv - S_q) for i in range(S_q)]
    return ([[1.0] for _ in range(S_q)], [[x] for x in s], V, Br, Bc), [mean(s[:n], V[:n]) if n else [0.0] * d_v for n in seen]
