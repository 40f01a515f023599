"""Properties of online_row."""
from common import any_difference, draw, far_below_zero, large_scores, mean, not_a_number, values, weightless, width
from grader import NAME, shown


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


def many_keys(solve, random):
    """Equal scores, whose mean is known; then a maximum that rises a little with each key and by hundreds in all."""
    solve.expect(([(0.0, [float(j)]) for j in range(1000)],), [499.5], f"{NAME}(iter([(0.0, [float(j)]) for j in range(1000)]))")
    V = [[0.01 * j, j % 3 - 1.0] for j in range(1600)]
    solve.expect(([(0.5 * j, v) for j, v in enumerate(V)],), mean([0.5 * j for j in range(1500, 1600)], V[1500:]), f"{NAME}(iter([(0.5 * j, [0.01 * j, j % 3 - 1.0]) for j in range(1600)]))")


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random) for _ in range(3)])[0])


def memory(solve, random):
    solve.expect_flat(lambda S: ([(0.001 * j, [1.0, 2.0]) for j in range(S)],))


def case(random, offsets, base=0.0, block=None, d_v=2, V=None):
    """((pairs,), expected) for the scores base + offsets; adding one number to all scores changes no weight."""
    V = V or values(random, len(offsets), d_v)
    return ([(base + x, v) for x, v in zip(offsets, V)],), mean(offsets, V)


def call(function, args):
    return function(pair for pair in args[0])                                   # no list, no copy: read once


def written(args):
    return f"iter({shown(args[0])})"


PROPERTIES = (
    few_keys, equal_scores, largest_last, largest_first, any_difference, weightless, large_scores, far_below_zero, width, not_a_number, many_keys, untouched, memory,
)
