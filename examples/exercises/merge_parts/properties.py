"""Properties of merge_parts."""
import math
from decimal import Decimal
from math import inf, nan

from common import draw, values
from grader import shown


def two_parts(solve, random):
    for n_a, n_b in ((1, 1), (1, 2), (2, 3), (3, 1)):
        solve.expect(*case(random, [draw(random) for _ in range(n_a)], [draw(random) for _ in range(n_b)]))


def equal_weight(solve, random):
    for lse in (0.0, draw(random)):
        solve.expect(*case(random, [lse], [lse]))


def unequal_weight(solve, random):
    for gap in (1e-6, 1e-3, 0.1, 3.0, 7.0, 9.0, 12.0, 16.0):
        s = draw(random)
        solve.expect(*case(random, [s], [s + gap]))
        solve.expect(*case(random, [s + gap], [s]))


def more_keys_weigh_more(solve, random):
    s = draw(random)
    solve.expect(*case(random, [s] * 3, [s]))
    solve.expect(*case(random, [s], [s] * 4))


def large_lse(solve, random):
    for base in (800.0, 2000.0, -800.0, -2000.0):
        solve.expect(*case(random, [draw(random)], [draw(random), draw(random)], base))
    for a, b in ((1e4, -1e4), (-1e4, 1e4)):
        solve.expect(*case(random, [a], [b]))


def far_below_zero(solve, random):
    for lse in (-1e10, -1e300):
        o = [draw(random), draw(random)]
        solve.expect(((o, lse), ([0.0, 0.0], -inf)), (o, lse))
        solve.expect((([0.0, 0.0], -inf), (o, lse)), (o, lse))


def one_part_is_empty(solve, random):
    for lse in (0.0, draw(random), 900.0, -900.0):
        o = [draw(random), draw(random)]
        solve.expect(((o, lse), ([0.0, 0.0], -inf)), (o, lse))
        solve.expect((([0.0, 0.0], -inf), (o, lse)), (o, lse))


def both_parts_are_empty(solve, random):
    for d_v in (1, 2, 3):
        solve.expect((([0.0] * d_v, -inf), ([0.0] * d_v, -inf)), ([0.0] * d_v, -inf))


def any_order(solve, random):
    """Three parts, bracketed either way and turned round: the attention over all keys each time."""
    runs = [[draw(random) for _ in range(n)] for n in (1, 2, 2)]
    values = [[[draw(random), draw(random)] for _ in run] for run in runs]
    parts = [part(s, V) for s, V in zip(runs, values)]
    whole = part(sum(runs, []), sum(values, []))
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 1, 0)):
        first = part(runs[x] + runs[y], values[x] + values[y])
        solve.expect((parts[x], parts[y]), first)
        solve.expect((first, parts[z]), whole)
        solve.expect((parts[z], first), whole)


def width(solve, random):
    for d_v in (1, 3, 9):
        solve.expect(*case(random, [draw(random)], [draw(random)], d_v=d_v))


def not_a_number(solve, random):
    o, other = [draw(random), draw(random)], [draw(random), draw(random)]
    for lse in (0.5, -inf):
        rest = [0.0, 0.0] if lse == -inf else other
        solve.expect((([nan, nan], nan), (rest, lse)), ([nan, nan], nan))
        solve.expect(((rest, lse), ([nan, nan], nan)), ([nan, nan], nan))
    solve.expect((([nan, nan], nan), ([nan, nan], nan)), ([nan, nan], nan))
    solve.expect((([o[0], nan], 0.0), (other, 0.0)), ([(o[0] + other[0]) / 2, nan], math.log(2)))
    for gap in (9.0, -9.0):                                                     # in the light part, and in the heavy one
        (a, b), ((x, y), lse) = case(random, [0.5], [0.5 + gap])
        a[0][1] = nan
        solve.expect((a, b), ([x, nan], lse))
        solve.expect((b, a), ([x, nan], lse))


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random)], [draw(random)])[0])
    for a, b in ((0.0, -inf), (-inf, 0.0), (-inf, -inf)):
        solve.expect_untouched((([1.0 * (a == 0), 0.0], a), ([1.0 * (b == 0), 0.0], b)))


PROPERTIES = (
    two_parts, equal_weight, unequal_weight, more_keys_weigh_more, large_lse, far_below_zero, one_part_is_empty, both_parts_are_empty,
    any_order, width, not_a_number, untouched,
)


def case(random, s_a, s_b, base=0.0, d_v=2):
    """((a, b), expected): parts over keys with scores base + s_a and base + s_b, and the part over all of them."""
    V = values(random, len(s_a + s_b), d_v)
    V_a, V_b = V[: len(s_a)], V[len(s_a) :]
    return (part(s_a, V_a, base), part(s_b, V_b, base)), part(s_a + s_b, V_a + V_b, base)


def part(s, V, base=0.0):
    """(o, lse) by the definition, in decimals so wide that nothing overflows."""
    p = [Decimal(x + base).exp() for x in s]
    return [float(sum(w * Decimal(v[c]) for w, v in zip(p, V)) / sum(p)) for c in range(len(V[0]))], float(sum(p).ln())


def written(args):
    return ", ".join(map(shown, args))
