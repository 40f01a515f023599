"""When must the running sums be rescaled, and by what? Three rules, on one row of scores.

every_tile   FlashAttention-2 (arXiv 2307.08691), Algorithm 1, as its definitions demand: o shrinks by e^(m_old - m_new).
as_printed   line 10 of that algorithm to the letter: the factor of o is inverted, the factor of l (line 9) is not.
when_needed  FlashAttention-4 (arXiv 2603.05451), section 3.1.4: while the maximum has grown by at most a factor 2^tau,
             keep the old base. A weight may then exceed 1, up to 2^tau; the division by l at the end cancels the base.

Shapes: s holds S finite scores in natural units, V has S rows of d_v. Left out: masks (online_softmax.py has them).
"""
from math import exp, log2, e
from random import Random

TAU = 8.0                                                       # log2(256)


def every_tile(m, s_max):
    """(base, factor of l, factor of o) when a tile has the maximum s_max and the base so far is m."""
    m_new = max(m, s_max)
    return m_new, exp(m - m_new), exp(m - m_new)


def as_printed(m, s_max):
    m_new = max(m, s_max)
    return m_new, exp(m - m_new), 1 / exp(m - m_new)            # wrong: o grows where it must shrink


def when_needed(m, s_max):
    if (s_max - m) * log2(e) <= TAU:
        return m, 1.0, 1.0                                      # nothing to do, and the next tile keeps the base m
    return every_tile(m, s_max)


def stream(s, V, rule, block=16):
    """Attention over the row with one rule; returns (o, rescales done, largest weight seen).  # [d_v]

    The first tile sets the base: as_printed would divide by e^(-inf) = 0 there.
    """
    m, l, o, rescales, largest = max(s[:block]), 0.0, [0.0] * len(V[0]), 0, 0.0
    for start in range(0, len(s), block):
        tile = slice(start, start + block)
        m, factor_l, factor_o = rule(m, max(s[tile]))
        p = [exp(x - m) for x in s[tile]]                       # [block]
        l = factor_l * l + sum(p)
        o = [factor_o * x + sum(a * v[c] for a, v in zip(p, V[tile])) for c, x in enumerate(o)]
        rescales += factor_l != 1.0
        largest = max(largest, *p)
    return [x / l for x in o], rescales, largest


def one_shot(s, V):
    """The same row with all scores at hand.  # [d_v]"""
    p = [exp(x - max(s)) for x in s]
    return [sum(a * v[c] for a, v in zip(p, V)) / sum(p) for c in range(len(V[0]))]


def row(S=1024, d_v=4, seed=0):
    """Scores of unit spread and values, at random.  # [S], [S, d_v]"""
    random = Random(seed)
    return [random.gauss(0, 1) for _ in range(S)], [[random.uniform(-1, 1) for _ in range(d_v)] for _ in range(S)]


def orders(s):
    """The same scores in three orders: as they come, the largest first, the largest last."""
    return {"as they come": s, "largest first": sorted(s, reverse=True), "largest last": sorted(s), "steep": [20 * x for x in sorted(s)]}


def check(rule=when_needed):
    """Raise AssertionError unless the rule gives the one-shot result for every order of the scores."""
    for seed in range(5):
        s, V = row(seed=seed)
        for name, scores in orders(s).items():
            for block in (1, 16, 100, 2000):
                got, _, largest = stream(scores, V, rule, block)
                error = max(abs(a - b) for a, b in zip(got, one_shot(scores, V)))
                if not error < 1e-12:
                    raise AssertionError(f"{name}, block = {block}: off by {error:.1e}")
                if not largest <= 2**TAU * (1 + 1e-12):
                    raise AssertionError(f"{name}, block = {block}: a weight of {largest:.0f}")


def main():
    s, V = row()
    print(f"{len(s)} scores in tiles of 16, tau = {TAU:g}\n")
    print("scores         rule         rescales  largest weight  error against one shot")
    for name, scores in orders(s).items():
        for rule in (every_tile, when_needed, as_printed):
            got, rescales, largest = stream(scores, V, rule)
            error = max(abs(a - b) for a, b in zip(got, one_shot(scores, V)))
            print(f"{name:13}  {rule.__name__:11}  {rescales:8}  {largest:14.1f}  {'below 1e-12' if error < 1e-12 else f'{error:.1e}'}")
    for rule in (every_tile, when_needed):
        check(rule)
    print("\ncheck: every_tile and when_needed are exact, whatever the order and the tile")


if __name__ == "__main__":
    main()
