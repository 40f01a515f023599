"""Properties of gqa_decode."""
from math import nan

from common import Rows, draw, mean, score
from grader import NAME, Wrong, written

ARGUMENTS = ("Q", "K", "V")


def one_kv_head(solve, random):
    for H, S in ((1, 1), (1, 2), (2, 2), (3, 3)):
        solve.expect(*case(random, H, 1, S))


def a_kv_head_for_each(solve, random):
    for H in (2, 3):
        solve.expect(*case(random, H, H, 2))


def groups(solve, random):
    for H, H_kv in ((4, 2), (6, 2), (6, 3)):
        solve.expect(*case(random, H, H_kv, 2))


def rising(solve, random):
    solve.expect(*case(random, 2, 1, 4, [[-1.0, 0.5, 1.0, 2.5]]))


def falling(solve, random):
    solve.expect(*case(random, 2, 1, 4, [[2.5, 1.0, 0.5, -1.0]]))


def large_scores(solve, random):
    for s in ([900.0, 901.0, 900.5], [-1e4, 0.0, 1e4], [1e4, 0.0, -1e4]):
        solve.expect(*case(random, 2, 1, 3, [s], unit=True))


def far_below_zero(solve, random):
    solve.expect(*case(random, 2, 1, 3, [[-1000.0, -1001.0, -999.5]], unit=True))
    for low in (-1e10, -1e300):
        (Q, K, V), expected = case(random, 2, 1, 3, [[0.0] * 3], unit=True)
        solve.expect((Q, [[[low]] * 3], V), expected)


def scale(solve, random):
    for d in (4, 9, 3):
        Q, K, V = [[draw(random) for _ in range(d)] for _ in range(2)], [[[draw(random) for _ in range(d)] for _ in range(3)]], [[[draw(random)] for _ in range(3)]]
        solve.expect((Q, K, V), [mean([score(q, k) for k in K[0]], V[0]) for q in Q])


def width(solve, random):
    for d_v in (1, 3, 5):
        solve.expect(*case(random, 2, 1, 2, d_v=d_v))


def not_a_number(solve, random):
    for j in (0, 2):
        (Q, K, V), expected = case(random, 4, 2, 3)
        K[1][j] = [nan]
        solve.expect((Q, K, V), [*expected[:2], [nan, nan], [nan, nan]])


def each_row_is_read_once(solve, random):
    (Q, K, V), _ = case(random, 6, 2, 4)
    K, V = [Rows(k) for k in K], [Rows(v) for v in V]
    given = f"{NAME}({written((Q, K, V))})"
    for rows in (*K, *V):
        rows.read = 0
    try:
        solve(Q, K, V)
    except BaseException as error:
        raise Wrong(given, "K 8, V 8", solve.explain(error)) from None
    k, v = sum(rows.read for rows in K), sum(rows.read for rows in V)
    if k > 8 or v > 8 + 6:                                                      # V may also be asked for its width
        raise Wrong(given, "K 8, V 8", f"K {k}, V {v}")


def untouched(solve, random):
    solve.expect_untouched(case(random, 4, 2, 2)[0])


def memory(solve, random):
    def make(S):
        return [[1.0], [0.5]], [[[0.001 * j] for j in range(S)]], [[[1.0, 2.0] for _ in range(S)]]

    solve.expect_flat(make)


PROPERTIES = (
    one_kv_head, a_kv_head_for_each, groups, rising, falling, large_scores, far_below_zero, scale, width, not_a_number, each_row_is_read_once, untouched, memory,
)


def case(random, H, H_kv, S, s=None, d_v=2, unit=False):
    """((Q, K, V), expected) with d = 1; s [H_kv][S] gives the keys, unit makes every query 1.0."""
    s = s or [[draw(random) for _ in range(S)] for _ in range(H_kv)]
    Q = [[1.0 if unit else round(random.uniform(0.5, 1.5), 1)] for _ in range(H)]
    V = [[[draw(random) for _ in range(d_v)] for _ in range(S)] for _ in range(H_kv)]
    G = H // H_kv
    return (Q, [[[x] for x in row] for row in s], V), [mean([score(q, [x]) for x in s[h // G]], V[h // G]) for h, q in enumerate(Q)]
