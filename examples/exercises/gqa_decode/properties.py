"""Properties of gqa_decode."""
from math import nan

from common import Rows, any_difference, draw, mean, score, values, weightless
from grader import NAME, Wrong, written

ARGUMENTS = ("Q", "K", "V")


def one_kv_head(solve, random):
    for H, S in ((1, 1), (1, 2), (2, 2), (3, 3)):
        solve.expect(*heads(random, H, 1, S))


def a_kv_head_for_each(solve, random):
    for H in (2, 3):
        solve.expect(*heads(random, H, H, 2))


def groups(solve, random):
    for H, H_kv in ((4, 2), (6, 2), (6, 3), (8, 4), (5, 5)):
        solve.expect(*heads(random, H, H_kv, 2))


def rising(solve, random):
    solve.expect(*heads(random, 2, 1, 4, [[-1.0, 0.5, 1.0, 2.5]]))


def falling(solve, random):
    solve.expect(*heads(random, 2, 1, 4, [[2.5, 1.0, 0.5, -1.0]]))


def large_scores(solve, random):
    for s in ([900.0, 901.0, 900.5], [-1e4, 0.0, 1e4], [1e4, 0.0, -1e4]):
        solve.expect(*heads(random, 2, 1, 3, [s], unit=True))


def far_below_zero(solve, random):
    solve.expect(*heads(random, 2, 1, 3, [[-1000.0, -1001.0, -999.5]], unit=True))
    for low in (-1e10, -1e300):
        (Q, K, V), expected = heads(random, 2, 1, 3, [[0.0] * 3], unit=True)
        solve.expect((Q, [[[low]] * 3], V), expected)


def scale(solve, random):
    for d in (4, 9, 3):
        Q, K, V = [[draw(random) for _ in range(d)] for _ in range(2)], [[[draw(random) for _ in range(d)] for _ in range(3)]], [[[draw(random)] for _ in range(3)]]
        solve.expect((Q, K, V), [mean([score(q, k) for k in K[0]], V[0]) for q in Q])


def width(solve, random):
    for d_v in (1, 3, 5):
        solve.expect(*heads(random, 2, 1, 2, d_v=d_v))


def not_a_number(solve, random):
    for j in (0, 2):
        (Q, K, V), expected = heads(random, 4, 2, 3)
        K[1][j] = [nan]
        solve.expect((Q, K, V), [*expected[:2], [nan, nan], [nan, nan]])
        (Q, K, V), expected = heads(random, 4, 2, 3)
        V[1][j][1] = nan                                                        # stays in its column
        solve.expect((Q, K, V), [*expected[:2], *([row[0], nan] for row in expected[2:])])
    (Q, K, V), expected = heads(random, 4, 2, 3)
    Q[1] = [nan]                                                                # and in its head
    solve.expect((Q, K, V), [expected[0], [nan, nan], *expected[2:]])
    solve.expect(*case(random, [nan]))


def each_head_its_own(solve, random):
    """Heads of one group whose scores are far apart."""
    for queries in ([1.0, -1.0], [1000.0, 0.001], [0.001, 1000.0]):
        Q, K, V = [[x] for x in queries], [[draw(random) + 3] for _ in range(3)], values(random, 3, 2)
        solve.expect((Q, [K], [V]), [mean([score(q, k) for k in K], V) for q in Q])


def many_keys(solve, random):
    """Equal scores, whose mean is known; then a maximum that rises a little with each key and by hundreds in all."""
    solve.expect(([[1.0], [2.0]], [[[0.0] for _ in range(1000)]], [[[float(j)] for j in range(1000)]]), [[499.5], [499.5]], f"{NAME}(Q=[[1.0], [2.0]], K=[[[0.0] for j in range(1000)]], V=[[[float(j)] for j in range(1000)]])")
    V = [[0.01 * j, j % 3 - 1.0] for j in range(1600)]
    solve.expect(([[1.0]], [[[0.5 * j] for j in range(1600)]], [V]), [mean([0.5 * j for j in range(1500, 1600)], V[1500:])], f"{NAME}(Q=[[1.0]], K=[[[0.5 * j] for j in range(1600)]], V=[[[0.01 * j, j % 3 - 1.0] for j in range(1600)]])")


def each_row_is_read_once(solve, random):
    for H, H_kv, S in ((6, 2, 4), (3, 1, 2)):
        (Q, K, V), expected = heads(random, H, H_kv, S)
        given = f"{NAME}({written((Q, K, V))})"
        K, V = [Rows(k) for k in K], [Rows(v) for v in V]
        once = f"K {[[1] * S] * H_kv}, V {[[1] * S] * H_kv}"
        try:
            solve(Q, K, V)
        except BaseException as error:
            raise Wrong(given, once, solve.explain(error)) from None
        reads = [[rows.reads() for rows in side] for side in (K, V)]
        for first, *rest in (row for side in reads for row in side):
            if max(rest) > 1 or first > 1 + H // H_kv:                          # the first may also be asked for its width by each head
                raise Wrong(given, once, f"K {reads[0]}, V {reads[1]}")


def untouched(solve, random):
    solve.expect_untouched(heads(random, 4, 2, 2)[0])


def memory(solve, random):
    def make(S):
        return [[1.0], [0.5]], [[[0.001 * j] for j in range(S)]], [[[1.0, 2.0] for _ in range(S)]]

    solve.expect_flat(make)


PROPERTIES = (
    one_kv_head, a_kv_head_for_each, groups, each_head_its_own, rising, falling, any_difference, weightless, large_scores, far_below_zero, scale, width, not_a_number, many_keys, each_row_is_read_once, untouched, memory,
)


def case(random, offsets, base=0.0, block=None, d_v=2, V=None):
    """Two heads with the same query read one KV head."""
    (Q, K, _), _ = heads(random, 2, 1, len(offsets), [[base + x for x in offsets]], unit=True)
    V = V or values(random, len(offsets), d_v)
    return (Q, K, [V]), [mean(offsets, V)] * 2


def heads(random, H, H_kv, S, s=None, d_v=2, unit=False):
    """((Q, K, V), expected) with d = 1; s [H_kv][S] gives the keys, unit makes every query 1.0."""
    s = s or [[draw(random) for _ in range(S)] for _ in range(H_kv)]
    Q = [[1.0 if unit else round(random.uniform(0.5, 1.5), 1)] for _ in range(H)]
    V = [values(random, S, d_v) for _ in range(H_kv)]
    G = H // H_kv
    return (Q, [[[x] for x in row] for row in s], V), [mean([score(q, [x]) for x in s[h // G]], V[h // G]) for h, q in enumerate(Q)]
