"""Properties of online_blocked."""
import math

from common import any_block, any_difference, draw, falling, far_below_zero, few_keys, large_scores, mean, nan_in_an_entry, not_a_number, rising, score, values, weightless, width
from grader import NAME, Wrong, shown, written

ARGUMENTS = ("q", "K", "V", "block")


def scale(solve, random):
    for d in (1, 4, 9, 3):
        K = [[draw(random) for _ in range(d)] for _ in range(3)]
        q = [round(random.uniform(1, 2), 1) for _ in range(d)]
        V = values(random, 3, 1)
        solve.expect((q, K, V, 2), mean([score(q, k) for k in K], V))


def untouched(solve, random):
    solve.expect_untouched(case(random, [draw(random) for _ in range(4)])[0])


class Traced(float):
    """An entry of K whose sums and products are traced too, so that a power with one of them as exponent counts as an exponential."""

    def __rpow__(self, base):
        powers.append(base)
        return base ** float(self)


def traced(name):
    def method(self, *other):
        got = getattr(float, name)(self, *other)
        return Traced(got) if type(got) is float else got

    return method


for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "neg"):
    setattr(Traced, f"__{name}__", traced(f"__{name}__"))
powers = []


def one_rescale_a_tile(solve, random):
    """Counts exponentials: calls of math's, and powers. A solution that hides them from the count is not judged."""
    for S, block in ((12, 4), (5, 2)):
        (q, K, V, block), expected = case(random, [float(j) for j in range(S)], block=block)
        solve.expect((q, K, V, block), expected)
        names, kept = getattr(solve.function, "__globals__", {}), {name: getattr(math, name) for name in ("exp", "exp2", "expm1", "pow") if hasattr(math, name)}

        def counting(function):
            def counted(*args):
                if args[1:] not in ((0.5,), (-0.5,)):                           # a root
                    powers.append(args)
                return function(*args)

            return counted

        counted = {function: counting(function) for function in kept.values()}
        own = {name: value for name, value in names.items() if type(value) is type(math.exp) and value in counted}
        powers.clear()
        try:
            names.update({name: counted[value] for name, value in own.items()})
            for name, value in kept.items():
                setattr(math, name, counted[value])
            solve(q, [[Traced(x) for x in k] for k in K], V, block)
        except BaseException as error:
            raise Wrong(f"{NAME}({written((q, K, V, block))})", shown(expected), solve.explain(error)) from None
        finally:
            for name, value in kept.items():
                setattr(math, name, value)
            names.update(own)
        tiles = -(-S // block)
        if len(powers) > S + tiles:
            raise Wrong(f"{NAME}({written((q, K, V, block))})", f"exp ≤ {S} + {tiles}", f"exp = {len(powers)}")


def many_keys(solve, random):
    """Equal scores, whose mean is known; then a maximum that rises a little with each key and by hundreds in all."""
    solve.expect(([1.0], [[0.0] for _ in range(1000)], [[float(j)] for j in range(1000)], 7), [499.5], f"{NAME}(q=[1.0], K=[[0.0] for j in range(1000)], V=[[float(j)] for j in range(1000)], block=7)")
    V = [[0.01 * j, j % 3 - 1.0] for j in range(1600)]
    solve.expect(([1.0], [[0.5 * j] for j in range(1600)], V, 1), mean([0.5 * j for j in range(1500, 1600)], V[1500:]), f"{NAME}(q=[1.0], K=[[0.5 * j] for j in range(1600)], V=[[0.01 * j, j % 3 - 1.0] for j in range(1600)], block=1)")


def memory(solve, random):
    def make(S):
        return [1.0], [[0.001 * j] for j in range(S)], [[1.0, 2.0] for _ in range(S)], 4

    solve.expect_flat(make)


PROPERTIES = (
    few_keys, scale, rising, falling, any_block, any_difference, weightless, large_scores, far_below_zero, width, not_a_number, nan_in_an_entry, many_keys, one_rescale_a_tile, untouched, memory,
)


def case(random, offsets, base=0.0, block=2, d_v=2, V=None):
    """((q, K, V, block), expected) for the scores base + offsets; adding one number to all scores changes no weight."""
    V = V or values(random, len(offsets), d_v)
    return ([1.0], [[base + x] for x in offsets], V, block), mean(offsets, V)
