"""Wrong solutions of online_blocked; a function's name says what is wrong with it."""
from math import exp, inf, isnan, sqrt


def attend(q, K, V, block, start_m=-inf, scale=None, tiles=None, newest=lambda m, s: max(m, *s), factor=lambda m, new: exp(m - new),
           weight=lambda x, new: exp(x - new), fix_l=True, fix_o=True, end=lambda o, l: [x / l for x in o]):
    """The right algorithm with knobs; each wrong solution turns one."""
    m, l, o = start_m, 0.0, [0.0] * len(V[0])
    for tile in tiles or [slice(j, j + block) for j in range(0, len(K), block)]:
        s = [sum(a * b for a, b in zip(q, k)) / (scale or sqrt(len(q))) for k in K[tile]]
        new = newest(m, s)
        a, p = factor(m, new), [weight(x, new) for x in s]
        l = (a if fix_l else 1.0) * l + sum(p)
        o = [(a if fix_o else 1.0) * x + sum(w * v[c] for w, v in zip(p, V[tile])) for c, x in enumerate(o)]
        m = new
    return end(o, l)


def no_running_max(q, K, V, block):
    return attend(q, K, V, block, 0.0, newest=lambda m, s: 0.0)


def no_rescale_of_l(q, K, V, block):
    return attend(q, K, V, block, fix_l=False)


def no_rescale_of_o(q, K, V, block):
    return attend(q, K, V, block, fix_o=False)


def no_rescale_at_all(q, K, V, block):
    return attend(q, K, V, block, fix_l=False, fix_o=False)


def maximum_not_carried_over_tiles(q, K, V, block):
    return attend(q, K, V, block, newest=lambda m, s: max(s))


def maximum_not_carried_and_no_rescale(q, K, V, block):
    return attend(q, K, V, block, newest=lambda m, s: max(s), factor=lambda m, new: 1.0)


def finite_sentinel(q, K, V, block):
    return attend(q, K, V, block, -1e9)


def float32_lowest_as_sentinel(q, K, V, block):
    return attend(q, K, V, block, -3.4e38)


def maximum_starts_at_zero(q, K, V, block):
    return attend(q, K, V, block, 0.0)


def last_partial_tile_dropped(q, K, V, block):
    return attend(q, K, V, block, tiles=[slice(j, j + block) for j in range(0, len(K) - block + 1, block)], end=lambda o, l: [x / (l or 1.0) for x in o])


def last_tile_one_key_short(q, K, V, block):
    return attend(q, K, V, block, tiles=[slice(j, min(j + block, len(K) - 1)) for j in range(0, max(1, len(K) - 1), block)] if len(K) > 1 else None)


def tiles_overlap_by_one(q, K, V, block):
    return attend(q, K, V, block, tiles=[slice(j, j + block + 1) for j in range(0, len(K), block)])


def padded_tail_counts(q, K, V, block):
    def end(o, l):
        missing = -len(K) % block
        return [x / (l + 1e-3 * missing) for x in o]

    return attend(q, K, V, block, end=end)


def divides_inside_the_loop(q, K, V, block):
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        new = max(m, *s)
        a, p = exp(m - new), [exp(x - new) for x in s]
        l = a * l + sum(p)
        o = [(a * x + sum(w * v[c] for w, v in zip(p, V[j : j + block]))) / l for c, x in enumerate(o)]
        m = new
    return o


def never_divides(q, K, V, block):
    return attend(q, K, V, block, end=lambda o, l: o)


def sign_of_the_weight(q, K, V, block):
    return attend(q, K, V, block, newest=lambda m, s: min(s) if m == -inf else min(m, *s), weight=lambda x, new: exp(new - x), factor=lambda m, new: 0.0 if m == -inf else exp(new - m))


def sign_of_the_rescale(q, K, V, block):
    return attend(q, K, V, block, factor=lambda m, new: 0.0 if m == -inf else exp(new - m))


def rescales_the_new_tile_too(q, K, V, block):
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        new = max(m, *s)
        a, p = 1.0 if m == -inf else exp(m - new), [exp(x - new) for x in s]
        l = a * (l + sum(p))
        o = [a * (x + sum(w * v[c] for w, v in zip(p, V[j : j + block]))) for c, x in enumerate(o)]
        m = new
    return [x / l for x in o]


def mean_instead_of_sum(q, K, V, block):
    return attend(q, K, V, block, end=lambda o, l: [x / l / len(K) for x in o])


def mean_of_the_tiles(q, K, V, block):
    done = [attend(q, K[j : j + block], V[j : j + block], block) for j in range(0, len(K), block)]
    return [sum(column) / len(done) for column in zip(*done)]


def keeps_the_whole_row(q, K, V, block):
    s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K]
    m = next((x for x in s if isnan(x)), max(s))
    p = [exp(x - m) for x in s]
    return [sum(w * v[c] for w, v in zip(p, V)) / sum(p) for c in range(len(V[0]))]


def ignores_the_block(q, K, V, block):
    return attend(q, K, V, 1)


def one_key_at_a_time(q, K, V, block):
    """Right numbers, two exponentials a key: the tile is not looked at."""
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for k, v in zip(K, V):
        s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
        new = m if s <= m else s
        a, p = exp(m - new), exp(s - new)
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o, v)], new
    return [x / l for x in o]


def mutates_its_input(q, K, V, block):
    for i in range(len(q)):
        q[i] /= sqrt(len(q)) * 1.0
    q[0] *= 1.0 + 1e-15
    q[0] += 1e-13
    return attend(q, K, V, block, scale=1.0)


def empties_the_keys(q, K, V, block):
    answer = attend(q, K, V, block)
    del K[:]
    return answer


def returns_early_on_nan(q, K, V, block):
    for j, k in enumerate(K):
        if isnan(sum(k)):
            return attend(q, K[:j], V[:j], block) if j else [0.0] * len(V[0])
    return attend(q, K, V, block)


def nan_taken_for_small(q, K, V, block):
    keys = [j for j in range(len(K)) if not isnan(sum(K[j]))]
    return attend(q, [K[j] for j in keys], [V[j] for j in keys], block)


def no_scale(q, K, V, block):
    return attend(q, K, V, block, scale=1.0)


def scale_by_d(q, K, V, block):
    return attend(q, K, V, block, scale=len(q))


def scale_by_the_width_of_v(q, K, V, block):
    return attend(q, K, V, block, scale=sqrt(len(V[0])))


def as_many_columns_as_q(q, K, V, block):
    return attend(q, K, V, block)[: len(q)]


def hard_codes_the_sample(q, K, V, block):
    return [2.0]
