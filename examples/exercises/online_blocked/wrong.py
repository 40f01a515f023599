"""Wrong solutions of online_blocked; a function's name says what is wrong with it."""
from math import exp, inf, isnan, sqrt


def attend(q, K, V, block, start_m=-inf, scale=None, tiles=None, newest=lambda m, s: max(m, *s), factor=lambda m, new: exp(m - new),
           weight=lambda x, new: exp(x - new), fix_l=True, fix_o=True, end=lambda o, l: [x / l for x in o]):
    """The right algorithm with knobs; each wrong solution turns one."""
    m, l, o = start_m, 0.0, [0.0] * len(V[0])
    for tile in tiles or (slice(j, j + block) for j in range(0, len(K), block)):
        s = [sum(a * b for a, b in zip(q, k)) / (scale or sqrt(len(q))) for k in K[tile]]
        new = newest(m, s)
        a, p = factor(m, new), [weight(x, new) for x in s]
        l = (a if fix_l else 1.0) * l + sum(p)
        o = [(a if fix_o else 1.0) * x + sum(w * v[c] for w, v in zip(p, V[tile])) for c, x in enumerate(o)]
        m = new
    return end(o, l)


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


def mean_of_the_tiles(q, K, V, block):
    done = [attend(q, K[j : j + block], V[j : j + block], block) for j in range(0, len(K), block)]
    return [sum(column) / len(done) for column in zip(*done)]


def keeps_the_whole_row(q, K, V, block):
    s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K]
    m = next((x for x in s if isnan(x)), max(s))
    p = [exp(x - m) for x in s]
    return [sum(w * v[c] for w, v in zip(p, V)) / sum(p) for c in range(len(V[0]))]


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


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def query_scaled_in_place(q, K, V, block):
    for i in range(len(q)):
        q[i] /= sqrt(len(q))
    return attend(q, K, V, block, scale=1.0)


def tile_of_nan_alone_is_skipped(q, K, V, block):
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        top = max([-inf, *s])
        if top == -inf:
            continue
        new = max(m, *s)
        a, p = exp(m - new), [exp(x - new) for x in s]
        l = a * l + sum(p)
        o = [a * x + sum(w * v[c] for w, v in zip(p, V[j : j + block])) for c, x in enumerate(o)]
        m = new
    return [x / (l or 1.0) for x in o]


def stops_at_a_negligible_tile(q, K, V, block):
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        if max(s) < m - 50:
            break
        new = max(m, *s)
        a, p = exp(m - new), [exp(x - new) for x in s]
        l = a * l + sum(p)
        o = [a * x + sum(w * v[c] for w, v in zip(p, V[j : j + block])) for c, x in enumerate(o)]
        m = new
    return [x / l for x in o]


def lagging(q, K, V, block, limit):
    """The rescale is skipped when the maximum rose little since the last tile: a long gentle rise overflows."""
    base, last, l, o = -inf, -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        new = max(last, *s)
        if not new - last <= limit:
            a, base = exp(base - new), new
            l, o = a * l, [a * x for x in o]
        p = [exp(x - base) for x in s]
        l, last = l + sum(p), new
        o = [x + sum(w * v[c] for w, v in zip(p, V[j : j + block])) for c, x in enumerate(o)]
    return [x / l for x in o]


def two_exponentials_a_key_by_powers(q, K, V, block):
    """Right numbers, e ** x for each key and each rescale."""
    from math import e

    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for k, v in zip(K, V):
        s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
        new = m if s <= m else s
        a, p = e ** (m - new), e ** (s - new)
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o, v)], new
    return [x / l for x in o]


def two_exponentials_a_key_by_pow(q, K, V, block):
    import math

    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for k, v in zip(K, V):
        s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
        new = m if s <= m else s
        a, p = math.pow(math.e, m - new), math.pow(math.e, s - new)
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o, v)], new
    return [x / l for x in o]


def two_exponentials_a_tile(q, K, V, block):
    """Each tile finished by itself and then merged: right, and one exponential a tile too many."""
    state = -inf, 0.0, [0.0] * len(V[0])
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        top = max(s)
        p = [exp(x - top) for x in s]
        part = top, sum(p), [sum(w * v[c] for w, v in zip(p, V[j : j + block])) for c in range(len(V[0]))]
        m = max(state[0], top)
        a, b = exp(state[0] - m), exp(top - m)
        state = m, a * state[1] + b * part[1], [a * x + b * y for x, y in zip(state[2], part[2])]
    return [x / state[1] for x in state[2]]


def keeps_a_part_for_each_tile(q, K, V, block):
    parts = []
    for j in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : j + block]]
        top = next((x for x in s if isnan(x)), max(s))
        p = [exp(x - top) for x in s]
        parts.append((top, sum(p), [sum(w * v[c] for w, v in zip(p, V[j : j + block])) for c in range(len(V[0]))]))
    m = next((t for t, *_ in parts if isnan(t)), max(t for t, *_ in parts))
    w = [exp(t - m) for t, *_ in parts]
    l = sum(a * part[1] for a, part in zip(w, parts))
    return [sum(a * part[2][c] for a, part in zip(w, parts)) / l for c in range(len(V[0]))]


KEPT = []


def the_same_list_each_time(q, K, V, block):
    KEPT[:] = attend(q, K, V, block)
    return KEPT


def nan_of_a_value_in_every_column(q, K, V, block):
    answer = attend(q, K, V, block)
    return [float("nan")] * len(answer) if any(map(isnan, answer)) else answer


def nan_sought_in_the_first_entry_only(q, K, V, block):
    if any(isnan(x) for x in q):
        return [0.0] * len(V[0])
    return attend(q, K, V, block)


WRONG = {   # the others, whose whole body is one expression
    "no_running_max": lambda q, K, V, block: attend(q, K, V, block, 0.0, newest=lambda m, s: 0.0),
    "no_rescale_of_l": lambda q, K, V, block: attend(q, K, V, block, fix_l=False),
    "no_rescale_of_o": lambda q, K, V, block: attend(q, K, V, block, fix_o=False),
    "no_rescale_at_all": lambda q, K, V, block: attend(q, K, V, block, fix_l=False, fix_o=False),
    "maximum_not_carried_over_tiles": lambda q, K, V, block: attend(q, K, V, block, newest=lambda m, s: max(s)),
    "maximum_not_carried_and_no_rescale": lambda q, K, V, block: attend(q, K, V, block, newest=lambda m, s: max(s), factor=lambda m, new: 1.0),
    "finite_sentinel": lambda q, K, V, block: attend(q, K, V, block, -1e9),
    "float32_lowest_as_sentinel": lambda q, K, V, block: attend(q, K, V, block, -3.4e38),
    "maximum_starts_at_zero": lambda q, K, V, block: attend(q, K, V, block, 0.0),
    "last_partial_tile_dropped": lambda q, K, V, block: attend(q, K, V, block, tiles=[slice(j, j + block) for j in range(0, len(K) - block + 1, block)], end=lambda o, l: [x / (l or 1.0) for x in o]),
    "last_tile_one_key_short": lambda q, K, V, block: attend(q, K, V, block, tiles=[slice(j, min(j + block, len(K) - 1)) for j in range(0, max(1, len(K) - 1), block)] if len(K) > 1 else None),
    "tiles_overlap_by_one": lambda q, K, V, block: attend(q, K, V, block, tiles=[slice(j, j + block + 1) for j in range(0, len(K), block)]),
    "never_divides": lambda q, K, V, block: attend(q, K, V, block, end=lambda o, l: o),
    "sign_of_the_weight": lambda q, K, V, block: attend(q, K, V, block, newest=lambda m, s: min(s) if m == -inf else min(m, *s), weight=lambda x, new: exp(new - x), factor=lambda m, new: 0.0 if m == -inf else exp(new - m)),
    "sign_of_the_rescale": lambda q, K, V, block: attend(q, K, V, block, factor=lambda m, new: 0.0 if m == -inf else exp(new - m)),
    "mean_instead_of_sum": lambda q, K, V, block: attend(q, K, V, block, end=lambda o, l: [x / l / len(K) for x in o]),
    "ignores_the_block": lambda q, K, V, block: attend(q, K, V, 1),
    "no_scale": lambda q, K, V, block: attend(q, K, V, block, scale=1.0),
    "scale_by_d": lambda q, K, V, block: attend(q, K, V, block, scale=len(q)),
    "scale_by_the_width_of_v": lambda q, K, V, block: attend(q, K, V, block, scale=sqrt(len(V[0]))),
    "as_many_columns_as_q": lambda q, K, V, block: attend(q, K, V, block)[: len(q)],
    "hard_codes_the_sample": lambda q, K, V, block: [2.0],
    "base_stays_while_each_step_is_small": lambda q, K, V, block: lagging(q, K, V, block, 8),
    "base_stays_while_each_step_is_below_one": lambda q, K, V, block: lagging(q, K, V, block, 1),
    "the_only_row_of_v_itself": lambda q, K, V, block: V[0] if len(V) == 1 and not isnan(sum(K[0])) else attend(q, K, V, block),
    "small_rises_are_not_rescaled": lambda q, K, V, block: attend(q, K, V, block, factor=lambda m, new: 1.0 if new - m < 0.2 else exp(m - new)),
    "tiny_rises_are_not_rescaled": lambda q, K, V, block: attend(q, K, V, block, factor=lambda m, new: 1.0 if new - m < 1e-4 else exp(m - new)),
    "light_keys_are_dropped": lambda q, K, V, block: attend(q, K, V, block, weight=lambda x, new: 0.0 if x - new < -6 else exp(x - new)),
    "old_sums_are_dropped_at_a_large_rise": lambda q, K, V, block: attend(q, K, V, block, factor=lambda m, new: 0.0 if new - m > 6 else exp(m - new)),
    "eight_tiles_at_most": lambda q, K, V, block: attend(q, K[: 8 * block], V[: 8 * block], block),
    "first_entry_of_the_query_only": lambda q, K, V, block: attend(q[:1] * len(q) if len(set(q)) == 1 else q, K, V, block, scale=sqrt(len(q)) if len(q) < 9 else 3.0001),
}
