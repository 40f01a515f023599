"""Properties of masked_row."""
from decimal import Decimal
from math import inf, nan

from common import any_block, draw, falling, far_below_zero, few_keys, large_scores, mean, not_a_number, rising, width

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
        solve.expect(*case(random, [draw(random) for _ in mask], mask=mask, junk=True))


def hidden_beside_far_below_zero(solve, random):
    for base in (-1e10, -1e300):
        for mask in masks("x. .x x..x"):
            solve.expect(*case(random, [0.0] * len(mask), base, block=len(mask), mask=mask))


def nan_beside_hidden(solve, random):
    for mask in masks(".x .xx ..xx x..x"):
        for position in [j for j, visible in enumerate(mask) if visible]:
            s = [draw(random) for _ in mask]
            s[position] = nan
            solve.expect(*case(random, s, mask=mask))


def scale(solve, random):
    for d in (1, 4, 9, 3):
        K = [[draw(random) for _ in range(d)] for _ in range(3)]
        q = [round(random.uniform(1, 2), 1) for _ in range(d)]
        V = [[draw(random)] for _ in K]
        s = [sum(Decimal(a) * Decimal(b) for a, b in zip(q, k)) / Decimal(d).sqrt() for k in K]
        solve.expect((q, K, V, [True] * 3, 2), mean(s, V))


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random) for _ in range(4)], mask=[True, False, True, False])[0])


def memory(solve, random):
    def make(S):
        return [1.0], [[0.001 * j] for j in range(S)], [[1.0, 2.0] for _ in range(S)], [j % 3 > 0 for j in range(S)], 100

    solve.expect_flat(make)


PROPERTIES = (
    few_keys, some_hidden, first_tile_hidden, later_tile_hidden, every_key_hidden, junk_under_the_mask, hidden_beside_far_below_zero, nan_beside_hidden,
    scale, rising, falling, any_block, large_scores, far_below_zero, width, not_a_number, untouched, memory,
)


def case(random, offsets, base=0.0, block=2, d_v=2, mask=None, junk=False):
    """((q, K, V, mask, block), expected) for the scores base + offsets; adding one number to all scores changes no weight."""
    mask = mask or [True] * len(offsets)
    K = [[base + x] for x in offsets]
    V = [[draw(random) for _ in range(d_v)] for _ in offsets]
    seen = [j for j, visible in enumerate(mask) if visible]
    expected = mean([offsets[j] for j in seen], [V[j] for j in seen]) if seen else [0.0] * d_v
    for j in set(range(len(mask))) - set(seen) if junk else []:
        K[j], V[j] = [random.choice([nan, inf, -inf])], [random.choice([nan, inf]) for _ in range(d_v)]
    return ([1.0], K, V, mask, block), expected


def masks(text):
    """Masks written with x for a key that is seen and . for a hidden one."""
    return [[sign == "x" for sign in mask] for mask in text.split()]
