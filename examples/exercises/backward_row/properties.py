"""Properties of backward_row."""
from decimal import Decimal
from math import nan

from common import Rows, draw, values
from grader import NAME, Wrong, written

ARGUMENTS = ("q", "K", "V", "o", "lse", "do")


def one_key(solve, random):
    solve.expect(*case(random, [draw(random)]))


def few_keys(solve, random):
    for S in (2, 2, 3, 4, 9):
        solve.expect(*case(random, [draw(random) for _ in range(S)]))


def equal_values(solve, random):
    """Where all values are the same the weights do not matter: dq and dK are zero."""
    for S in (2, 3):
        v = [draw(random), draw(random)]
        solve.expect(*case(random, [draw(random) for _ in range(S)], V=[v] * S))


def one_direction(solve, random):
    """do = e_c picks one column of the values."""
    for c in (0, 1):
        solve.expect(*case(random, [draw(random) for _ in range(3)], do=[float(i == c) for i in range(2)]))


def large_scores(solve, random):
    for base in (800.0, 2000.0, -800.0, -2000.0):
        solve.expect(*case(random, [draw(random) for _ in range(3)], base=base))


def any_difference(solve, random):
    """Skipping or rounding from some weight on."""
    for step in (1e-6, 1e-3, 3.0, 7.0, 12.0):
        for s in ([0.0, step], [0.0, -step]):
            solve.expect(*case(random, s, do=[1.5, -2.0]))


def one_key_has_all_the_weight(solve, random):
    solve.expect(*case(random, [0.0, 900.0, 0.0]))


def scale(solve, random):
    for d in (4, 9, 3):
        q, K = [draw(random) for _ in range(d)], [[draw(random) for _ in range(d)] for _ in range(3)]
        V, do = [[draw(random), draw(random)] for _ in K], [draw(random), draw(random)]
        solve.expect(*backward(q, K, V, do))


def width(solve, random):
    for d_v in (1, 3, 9):
        solve.expect(*case(random, [draw(random) for _ in range(2)], d_v=d_v))


def not_a_number(solve, random):
    args, (dq, dK, dV) = case(random, [draw(random) for _ in range(3)])
    solve.expect((*args[:5], [nan, args[5][1]]), ([nan], [[nan]] * 3, [[nan, v[1]] for v in dV]))


def each_row_is_read_once(solve, random):
    S = 5
    (q, K, V, *rest), _ = case(random, [draw(random) for _ in range(S)])
    given, once = f"{NAME}({written((q, K, V, *rest))})", f"K {[1] * S}, V {[1] * S}"
    K, V = Rows(K), Rows(V)
    try:
        solve(q, K, V, *rest)
    except BaseException as error:
        raise Wrong(given, once, solve.explain(error)) from None
    for rows in (K, V):
        first, *others = rows.reads()                                           # the first may be asked for its width too
        if max(others) > 1 or first > 2:
            raise Wrong(given, once, f"K {K.reads()}, V {V.reads()}")
        if rows.order != sorted(rows.order):
            raise Wrong(given, f"{[*range(S)]}", f"{rows.order}")


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random) for _ in range(3)])[0])


PROPERTIES = (
    one_key, few_keys, equal_values, one_direction, large_scores, any_difference, one_key_has_all_the_weight, scale, width, not_a_number, each_row_is_read_once, untouched,
)


def case(random, offsets, base=0.0, d_v=2, V=None, do=None):
    """(arguments, expected) with d = 1, q = 1.0 and the scores base + offsets."""
    V = V or values(random, len(offsets), d_v)
    return backward([1.0], [[base + x] for x in offsets], V, do or [draw(random) for _ in V[0]])


def backward(q, K, V, do):
    """((q, K, V, o, lse, do), (dq, dK, dV)) by the chain rule with the whole Jacobian of softmax, in wide decimals."""
    root = Decimal(len(q)).sqrt()
    exact = lambda rows: [[Decimal(x) for x in row] for row in rows]
    (q_, do_), K_, V_ = exact([q, do]), exact(K), exact(V)
    weights = [(sum(a * b for a, b in zip(q_, k)) / root).exp() for k in K_]
    total, keys = sum(weights), range(len(K))
    p = [w / total for w in weights]
    o = [sum(p[j] * V_[j][c] for j in keys) for c in range(len(do))]
    into = [sum(a * b for a, b in zip(do_, v)) for v in V_]
    ds = [sum(into[i] * p[i] * ((i == j) - p[j]) for i in keys) for j in keys]
    dq = [float(sum(ds[j] * K_[j][c] for j in keys) / root) for c in range(len(q))]
    dK = [[float(ds[j] * x / root) for x in q_] for j in keys]
    dV = [[float(p[j] * x) for x in do_] for j in keys]
    return (q, K, V, [float(x) for x in o], float(total.ln()), do), (dq, dK, dV)
