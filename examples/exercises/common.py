"""What properties of several exercises share. `case` is the exercise's own."""
from decimal import Decimal
from math import nan


def draw(random):
    return round(random.uniform(-2, 2), 1)


def mean(s, V):
    """The definition, with every weight at hand, in decimals so wide that nothing overflows.  # [d_v]"""
    p = [Decimal(x).exp() for x in s]
    return [float(sum(w * Decimal(v[c]) for w, v in zip(p, V)) / sum(p)) for c in range(len(V[0]))]


def score(q, k):
    return sum(Decimal(a) * Decimal(b) for a, b in zip(q, k)) / Decimal(len(q)).sqrt()


def few_keys(solve, random):
    for S in (1, 2, 2, 3, 4, 5):
        solve.expect(*case(random, [draw(random) for _ in range(S)], block=random.randint(1, 3)))


def rising(solve, random):
    for block in (1, 2, 3):
        s = [draw(random)]
        while len(s) < 3 * block:
            s.append(round(s[-1] + random.uniform(0.3, 1), 1))
        solve.expect(*case(random, s, block=block))


def falling(solve, random):
    for block in (1, 2):
        s = [draw(random)]
        while len(s) < 3 * block:
            s.append(round(s[-1] - random.uniform(0.3, 1), 1))
        solve.expect(*case(random, s, block=block))


def any_block(solve, random):
    for S, block in ((3, 2), (4, 3), (5, 2), (5, 4), (3, 3), (2, 3), (4, 100)):
        s = [draw(random) for _ in range(S - 1)]
        solve.expect(*case(random, [*s, round(max(s) + 1, 1)], block=block))


def large_scores(solve, random):
    for base in (800.0, 2000.0):
        solve.expect(*case(random, [draw(random) for _ in range(4)], base))
    for s in ([-1e4, 0.0, 1e4], [1e4, 0.0, -1e4]):
        solve.expect(*case(random, s, block=1))


def far_below_zero(solve, random):
    solve.expect(*case(random, [draw(random) for _ in range(3)], -1000.0))
    for base in (-1e10, -1e300):                                                # so large that only equal scores are exact
        solve.expect(*case(random, [0.0] * 3, base))


def width(solve, random):
    for d_v in (1, 3, 7):
        solve.expect(*case(random, [draw(random) for _ in range(3)], d_v=d_v))


def not_a_number(solve, random):
    for position in (3, 1, 0):
        s = [draw(random) for _ in range(4)]
        s[position] = nan
        solve.expect(*case(random, s))


class Rows(list):
    """Rows that count how many of them are read."""

    read = 0

    def __getitem__(self, item):
        self.read += len(range(*item.indices(len(self)))) if isinstance(item, slice) else 1
        return super().__getitem__(item)

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]
