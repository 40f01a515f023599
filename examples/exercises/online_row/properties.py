"""Properties of online_row."""
from math import nan

from common import draw, far_below_zero, mean
from grader import shown


def few_keys(solve, random):
    for S in (1, 2, 2, 3, 3, 4, 5):
        solve.expect(*case(random, [draw(random) for _ in range(S)]))


def equal_scores(solve, random):
    for S in (1, 2, 3, 5):
        solve.expect(*case(random, [draw(random)] * S))


def largest_last(solve, random):
    for S in (2, 3, 4):
        s = sorted(draw(random) for _ in range(S - 1))
        solve.expect(*case(random, [*s, round(s[-1] + random.uniform(1, 3), 1)]))


def largest_first(solve, random):
    for S in (2, 3, 4):
        s = [draw(random) for _ in range(S - 1)]
        solve.expect(*case(random, [round(max(s) + random.uniform(1, 3), 1), *s]))


def large_scores(solve, random):
    for base in (800.0, 2000.0):
        solve.expect(*case(random, [draw(random) for _ in range(3)], base))
    solve.expect(*case(random, [-1e4, 0.0, 1e4]))
    solve.expect(*case(random, [1e4, 0.0, -1e4]))


def width(solve, random):
    for d_v in (1, 2, 3, 7):
        solve.expect(*case(random, [draw(random) for _ in range(3)], d_v=d_v))


def not_a_number(solve, random):
    for position in (2, 1, 0):
        s = [draw(random) for _ in range(3)]
        s[position] = nan
        solve.expect(*case(random, s))


def untouched(solve, random):
    (pairs,), _ = case(random, [draw(random) for _ in range(3)])
    solve.expect_untouched((pairs,))


def memory(solve, random):
    solve.expect_flat(lambda S: ([(0.001 * j, [1.0, 2.0]) for j in range(S)],))


PROPERTIES = (few_keys, equal_scores, largest_last, largest_first, large_scores, far_below_zero, width, not_a_number, untouched, memory)


def case(random, offsets, base=0.0, d_v=2):
    """((pairs,), expected) for the scores base + offsets; adding one number to all scores changes no weight."""
    V = [[draw(random) for _ in range(d_v)] for _ in offsets]
    return ([(base + x, v) for x, v in zip(offsets, V)],), mean(offsets, V)


def call(function, args):
    return function(iter(args[0]))


def written(args):
    return f"iter({shown(args[0])})"
