"""Properties of online_blocked."""
import math
from decimal import Decimal

from common import any_block, draw, falling, far_below_zero, few_keys, large_scores, mean, not_a_number, rising, width
from grader import NAME, Wrong, written

ARGUMENTS = ("q", "K", "V", "block")


def scale(solve, random):
    for d in (1, 4, 9, 3):
        K = [[draw(random) for _ in range(d)] for _ in range(3)]
        q = [round(random.uniform(1, 2), 1) for _ in range(d)]
        V = [[draw(random)] for _ in K]
        s = [sum(Decimal(a) * Decimal(b) for a, b in zip(q, k)) / Decimal(d).sqrt() for k in K]
        solve.expect((q, K, V, 2), mean(s, V))


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random) for _ in range(4)])[0])


def one_rescale_a_tile(solve, random):
    """Counts calls of math.exp; a solution that uses none of them is not judged."""
    S, block = 12, 4
    args, _ = case(random, [float(j) for j in range(S)], block=block)
    names, calls = getattr(solve.function, "__globals__", {}), 0

    def counted(x, exp=math.exp):
        nonlocal calls
        calls += 1
        return exp(x)

    own = [name for name, value in names.items() if value is math.exp]
    names.update(dict.fromkeys(own, counted))
    exp, math.exp = math.exp, counted
    try:
        solve.expect(args, mean(list(range(S)), args[2]))
    finally:
        math.exp = exp
        names.update(dict.fromkeys(own, exp))
    if calls > S + S // block:
        raise Wrong(f"{NAME}({written(args)})", f"exp ≤ {S} + {S // block}", f"exp = {calls}")


def memory(solve, random):
    def make(S):
        return [1.0], [[0.001 * j] for j in range(S)], [[1.0, 2.0] for _ in range(S)], 100

    solve.expect_flat(make)


PROPERTIES = (
    few_keys, scale, rising, falling, any_block, large_scores, far_below_zero, width, not_a_number, untouched, one_rescale_a_tile, memory,
)


def case(random, offsets, base=0.0, block=2, d_v=2):
    """((q, K, V, block), expected) for the scores base + offsets; adding one number to all scores changes no weight."""
    V = [[draw(random) for _ in range(d_v)] for _ in offsets]
    return ([1.0], [[base + x] for x in offsets], V, block), mean(offsets, V)
