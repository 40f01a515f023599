"""What properties of several exercises share. `case` is the exercise's own: (arguments, expected) for one row of scores."""
from collections import Counter
from decimal import Decimal
from math import nan


def draw(random):
    return round(random.uniform(-2, 2), 1)


def values(random, S, d_v):
    """V, no two entries of a column alike and none 0: a weight that is wrong shows.  # [S][d_v]"""
    columns = [random.sample([x / 10 for x in range(-30, 31) if x], S) for _ in range(d_v)]
    return [list(row) for row in zip(*columns)]


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
    for S, block in ((3, 2), (4, 3), (5, 2), (5, 4), (3, 3), (2, 3), (4, 100), (1, 1), (1, 7), (9, 4)):
        s = [draw(random) for _ in range(S - 1)]
        solve.expect(*case(random, [*s, round(max(s, default=0) + 1, 1)], block=block))


def any_difference(solve, random):
    """Skipping, dropping or rounding from some threshold on: each step between two scores, up and down."""
    for step in (1e-6, 1e-3, 0.1, 3.0, 7.0, 12.0, 16.0):
        for s in ([0.0, step, 2 * step] if step < 1 else [0.0, step], [0.0, -step]):
            solve.expect(*case(random, s, block=1))
    solve.expect(*case(random, [0.0, -9.0, 9.0, 0.5], block=2))


def weightless(solve, random):
    """A tile that weighs nothing is no reason to stop."""
    for s, block in (([0.0, -2000.0, 1.0], 1), ([0.0, 1.0, -2000.0, -2000.0, 2.0, 0.5], 2), ([0.0, -60.0, 0.5], 1), ([0.0, 2000.0, 2000.5], 1)):
        solve.expect(*case(random, s, block=block))


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
    for d_v in (1, 3, 9):
        solve.expect(*case(random, [draw(random) for _ in range(3)], d_v=d_v))


def not_a_number(solve, random):
    solve.expect(*case(random, [nan], block=1))
    for block in (1, 2, 3):                                                     # beside others, and alone in its tile
        for position in range(5):
            s = [draw(random) for _ in range(5)]
            s[position] = nan
            solve.expect(*case(random, s, block=block))
    V = values(random, 3, 2)
    V[random.randrange(3)][1] = nan
    solve.expect(*case(random, [0.5, 0.0, 0.25], block=2, V=V))                   # a NaN in V stays in its column


def nan_in_an_entry(solve, random):
    """d = 2, and the NaN in the second entry of q or of a key."""
    for row in (None, 0, 2):
        (q, K, *rest), expected = case(random, [0.5, 0.0, 1.0], block=2)
        keys = [[*k, nan if j == row else 1.0] for j, k in enumerate(K)]
        solve.expect(([*q, nan if row is None else 0.0], keys, *rest), [nan] * len(expected))


class Rows(list):
    """Rows that note in which order they are read; a part or a copy of them counts as reading each row of it."""

    def __init__(self, rows):
        super().__init__(rows)
        self.order = []

    def __getitem__(self, item):
        got, places = super().__getitem__(item), range(len(self))[item]
        self.order += places if isinstance(item, slice) else [places]
        return got

    def __iter__(self):
        return map(self.__getitem__, range(len(self)))

    def __reversed__(self):
        return map(self.__getitem__, reversed(range(len(self))))

    def copy(self):
        return self[:]

    def __add__(self, other):
        return self[:] + other

    def __radd__(self, other):
        return other + self[:]

    def __mul__(self, times):
        return self[:] * times

    def reads(self):
        """How often each row was read."""
        times = Counter(self.order)
        return [times[place] for place in range(len(self))]
