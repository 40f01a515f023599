"""Properties of masked_row."""
from math import inf, nan

from common import any_block, any_difference, draw, falling, far_below_zero, few_keys, large_scores, mean, nan_in_an_entry, not_a_number, rising, score, values, weightless, width
from grader import NAME

ARGUMENTS = ("q", "K", "V", "mask", "block")


def some_hidden(solve, random):
    for mask in masks("x. .x xx. x.x .xx x..x"):
        s = [draw(random) for _ in mask]
        solve.expect(*case(random, s, block=random.randint(1, 3), mask=mask))


def first_tile_hidden(solve, random):
    for mask in masks("..x ..xx ....x"):
        solve.expect(*case(random, [draw(random) for _ in mask], mask=mask))


def later_tile_hidden(solve, random):
    for mask in masks("x.. xx.. xx..x x....x"):
        solve.expect(*case(random, [draw(random) for _ in mask], mask=mask))


def every_key_hidden(solve, random):
    for mask in masks(". .. ..."):
        solve.expect(*case(random, [draw(random) for _ in mask], mask=mask))
        solve.expect(*case(random, [draw(random) for _ in mask], mask=mask, d_v=3))


def junk_under_the_mask(solve, random):
    for mask in masks("x. .x x.x ..xx xx.. ... .x.x"):
        for junk in ((nan, nan), (inf, nan), (-inf, inf), (1e6, 1e300)):            # under K and V; the last is a number, and large
            solve.expect(*case(random, [draw(random) for _ in mask], mask=mask, junk=junk))


def hidden_beside_far_below_zero(solve, random):
    for base in (-1e10, -1e300):
        for mask in masks("x. .x x..x"):
            solve.expect(*case(random, [0.0] * len(mask), base, block=len(mask), mask=mask))


def nan_beside_hidden(solve, random):
    for mask in masks(".x .xx ..xx x..x x..xx"):
        for position in [j for j, visible in enumerate(mask) if visible]:
            for block in (1, 2):
                s = [draw(random) for _ in mask]
                s[position] = nan
                solve.expect(*case(random, s, mask=mask, block=block))


def scale(solve, random):
    for d in (1, 4, 9, 3):
        K = [[draw(random) for _ in range(d)] for _ in range(3)]
        q = [round(random.uniform(1, 2), 1) for _ in range(d)]
        V = values(random, 3, 1)
        solve.expect((q, K, V, [True] * 3, 2), mean([score(q, k) for k in K], V))


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random) for _ in range(4)], mask=[True, False, True, False])[0])


def many_keys(solve, random):
    """Equal scores, whose mean is known; then a maximum that rises a little with each key and by hundreds in all."""
    solve.expect(([1.0], [[0.0] for _ in range(1000)], [[float(j)] for j in range(1000)], [j % 2 == 0 for j in range(1000)], 7), [499.0], f"{NAME}(q=[1.0], K=[[0.0] for j in range(1000)], V=[[float(j)] for j in range(1000)], mask=[j % 2 == 0 for j in range(1000)], block=7)")
    V = [[0.01 * j, j % 3 - 1.0] for j in range(1600)]
    solve.expect(([1.0], [[0.5 * j] for j in range(1600)], V, [True] * 1600, 1), mean([0.5 * j for j in range(1500, 1600)], V[1500:]), f"{NAME}(q=[1.0], K=[[0.5 * j] for j in range(1600)], V=[[0.01 * j, j % 3 - 1.0] for j in range(1600)], mask=[True] * 1600, block=1)")


def memory(solve, random):
    def make(S):
        return [1.0], [[0.001 * j] for j in range(S)], [[1.0, 2.0] for _ in range(S)], [j % 3 > 0 for j in range(S)], 4

    solve.expect_flat(make)


PROPERTIES = (
    few_keys, some_hidden, first_tile_hidden, later_tile_hidden, every_key_hidden, junk_under_the_mask, hidden_beside_far_below_zero, nan_beside_hidden,
    scale, rising, falling, any_block, any_difference, weightless, large_scores, far_below_zero, width, not_a_number, nan_in_an_entry, many_keys, untouched, memory,
)


def case(random, offsets, base=0.0, block=2, d_v=2, mask=None, junk=None, V=None):
    """((q, K, V, mask, block), expected) for the scores base + offsets; adding one number to all scores changes no weight."""
    mask = mask or [True] * len(offsets)
    K = [[base + x] for x in offsets]
    V = V or values(random, len(offsets), d_v)
    seen = [j for j, visible in enumerate(mask) if visible]
    expected = mean([offsets[j] for j in seen], [V[j] for j in seen]) if seen else [0.0] * d_v
    for j in set(range(len(mask))) - set(seen) if junk else []:
        K[j], V[j] = [junk[0]], [junk[1]] * d_v
    return ([1.0], K, V, mask, block), expected


def masks(text):
    """Masks written with x for a key that is seen and . for a hidden one."""
    return [[sign == "x" for sign in mask] for mask in text.split()]
