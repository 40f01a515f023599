"""Wrong solutions of masked_row; a function's name says what is wrong with it."""
from math import exp, inf, isnan, nan, sqrt


def attend(q, K, V, mask, block, start_m=-inf, hidden=lambda seen: not seen, tiles=None, newest=lambda m, s: max([m, *s]), factor=lambda m, new: 0.0 if m == -inf == new else exp(m - new),
           weight=lambda x, new: exp(x - new), fix_l=True, fix_o=True, end=lambda o, l: [x / l if l else 0.0 for x in o], scale=None):
    """The right algorithm with knobs; each wrong solution turns one."""
    m, l, o = start_m, 0.0, [0.0] * len(V[0])
    for tile in tiles or (range(j, min(j + block, len(K))) for j in range(0, len(K), block)):
        keys = [j for j in tile if not hidden(mask[j])]
        if not keys:
            continue
        s = [sum(a * b for a, b in zip(q, K[j])) / (scale or sqrt(len(q))) for j in keys]
        new = newest(m, s)
        a, p = factor(m, new), [weight(x, new) for x in s]
        l = (a if fix_l else 1.0) * l + sum(p)
        o = [(a if fix_o else 1.0) * x + sum(w * V[j][c] for w, j in zip(p, keys)) for c, x in enumerate(o)]
        m = new
    return end(o, l)


def scored(q, K, V, mask, block, hidden_score=-inf, skip=False, safe=False, zero_weight=False, divide=lambda x, l: x / l if l else 0.0, add=False):
    """Every key gets a score, hidden ones `hidden_score`."""
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for i in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[i : i + block]]
        s = [x + (0.0 if seen else hidden_score) if add else x if seen else hidden_score for x, seen in zip(s, mask[i : i + block])]
        new = max([m, *s])
        base = 0.0 if safe and new == -inf else new
        a, p = exp(m - base), [exp(x - base) for x in s]
        if skip:
            p = [w if seen else 0.0 for w, seen in zip(p, mask[i : i + block])]
        l = a * l + sum(p)
        o = [a * x + sum(w * v[c] for w, v in zip(p, V[i : i + block]) if w or zero_weight) for c, x in enumerate(o)]
        m = new
    return [divide(x, l) for x in o]


def inverted_mask(q, K, V, mask, block):
    return attend(q, K, V, mask, block, hidden=lambda seen: seen)


def no_mask(q, K, V, mask, block):
    return attend(q, K, V, mask, block, hidden=lambda seen: False)


def minus_infinity_minus_minus_infinity(q, K, V, mask, block):
    return scored(q, K, V, mask, block)


def hidden_value_read(q, K, V, mask, block):
    return scored(q, K, V, mask, block, safe=True, zero_weight=True)


def mask_added_to_the_score(q, K, V, mask, block):
    return scored(q, K, V, mask, block, safe=True, add=True)


def finite_score_for_hidden(q, K, V, mask, block):
    return scored(q, K, V, mask, block, -1e9)


def finite_score_for_hidden_then_weight_zero(q, K, V, mask, block):
    return scored(q, K, V, mask, block, -1e9, skip=True)


def hidden_row_gives_nan(q, K, V, mask, block):
    return scored(q, K, V, mask, block, safe=True, divide=lambda x, l: x / l if l else nan)


def hidden_row_divides_by_zero(q, K, V, mask, block):
    return scored(q, K, V, mask, block, safe=True, divide=lambda x, l: x / l)


def hidden_row_gives_the_mean(q, K, V, mask, block):
    return attend(q, K, V, mask if any(mask) else [True] * len(mask), block)


def score_zero_for_hidden(q, K, V, mask, block):
    return scored(q, K, V, mask, block, 0.0)


def no_running_max(q, K, V, mask, block):
    return attend(q, K, V, mask, block, 0.0, newest=lambda m, s: 0.0)


def no_rescale_of_l(q, K, V, mask, block):
    return attend(q, K, V, mask, block, fix_l=False)


def no_rescale_of_o(q, K, V, mask, block):
    return attend(q, K, V, mask, block, fix_o=False)


def maximum_not_carried_over_tiles(q, K, V, mask, block):
    return attend(q, K, V, mask, block, newest=lambda m, s: max(s))


def finite_sentinel(q, K, V, mask, block):
    return attend(q, K, V, mask, block, -1e9)


def maximum_starts_at_zero(q, K, V, mask, block):
    return attend(q, K, V, mask, block, 0.0)


def last_partial_tile_dropped(q, K, V, mask, block):
    return attend(q, K, V, mask, block, tiles=[range(j, j + block) for j in range(0, len(K) - block + 1, block)] or [range(0)])


def last_tile_one_key_short(q, K, V, mask, block):
    return attend(q, K, V, mask, block, tiles=[range(j, min(j + block, len(K) - 1)) for j in range(0, len(K), block)])


def stops_at_the_first_hidden_key(q, K, V, mask, block):
    n = mask.index(False) if False in mask else len(mask)
    return attend(q, K[:n], V[:n], mask[:n], block) if n else [0.0] * len(V[0])


def stops_at_the_first_hidden_tile(q, K, V, mask, block):
    for j in range(0, len(K), block):
        if not any(mask[j : j + block]):
            return attend(q, K[:j], V[:j], mask[:j], block) if j else [0.0] * len(V[0])
    return attend(q, K, V, mask, block)


def skips_a_tile_whose_first_key_is_hidden(q, K, V, mask, block):
    return attend(q, K, V, mask, block, tiles=[range(j, min(j + block, len(K))) for j in range(0, len(K), block) if mask[j]] or [range(0)])


def divides_inside_the_loop(q, K, V, mask, block):
    l, o, m = 0.0, [0.0] * len(V[0]), -inf
    for j in range(len(K)):
        if mask[j]:
            s = sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q))
            new = max(m, s)
            a, p = exp(m - new), exp(s - new)
            l = a * l + p
            o = [(a * x + p * y) / l for x, y in zip(o, V[j])]
            m = new
    return o


def sign_of_the_exponent(q, K, V, mask, block):
    return attend(q, K, V, mask, block, newest=lambda m, s: min(s) if m == -inf else min(m, *s), weight=lambda x, new: exp(new - x), factor=lambda m, new: 0.0 if m == -inf else exp(new - m))


def mean_instead_of_sum(q, K, V, mask, block):
    n = sum(mask) or 1
    return [x / n for x in attend(q, K, V, mask, block)]


def divides_by_all_keys(q, K, V, mask, block):
    return [x * sum(mask) / len(mask) for x in attend(q, K, V, mask, block)]


def keeps_the_whole_row(q, K, V, mask, block):
    s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k, seen in zip(K, mask) if seen]
    if not s:
        return [0.0] * len(V[0])
    rows = [v for v, seen in zip(V, mask) if seen]
    m = next((x for x in s if isnan(x)), max(s))
    p = [exp(x - m) for x in s]
    return [sum(w * v[c] for w, v in zip(p, rows)) / sum(p) for c in range(len(V[0]))]


def mutates_its_input(q, K, V, mask, block):
    for j, seen in enumerate(mask):
        if not seen:
            V[j] = [0.0] * len(V[j])
    return attend(q, K, V, mask, block)


def returns_early_on_nan(q, K, V, mask, block):
    for j, seen in enumerate(mask):
        if seen and isnan(sum(K[j])):
            return [0.0] * len(V[0])
    return attend(q, K, V, mask, block)


def nan_taken_for_hidden(q, K, V, mask, block):
    return attend(q, K, V, [seen and not isnan(sum(k)) for seen, k in zip(mask, K)], block)


def no_scale(q, K, V, mask, block):
    return attend(q, K, V, mask, block, scale=1.0)


def hard_codes_the_sample(q, K, V, mask, block):
    return [1.0]


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def query_scaled_in_place(q, K, V, mask, block):
    for i in range(len(q)):
        q[i] /= sqrt(len(q))
    return attend(q, K, V, mask, block, scale=1.0)


def maximum_over_hidden_keys_too(q, K, V, mask, block):
    """The base counts hidden scores: fine until one is so large that every visible weight is 0."""
    m, l, o = -inf, 0.0, [0.0] * len(V[0])
    for i in range(0, len(K), block):
        keys = range(i, min(i + block, len(K)))
        s = {j: sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q)) for j in keys}
        new = max([m, *(x for j, x in s.items() if mask[j] or abs(x) < inf)])
        p = {j: exp(x - new) for j, x in s.items() if mask[j]}
        a = exp(m - new) if m > -inf else 0.0
        l = a * l + sum(p.values())
        o = [a * x + sum(w * V[j][c] for j, w in p.items()) for c, x in enumerate(o)]
        m = new
    return [x / l if l else 0.0 for x in o]


def tile_of_nan_alone_is_skipped(q, K, V, mask, block):
    keep = list(mask)
    for i in range(0, len(K), block):
        keys = [j for j in range(i, min(i + block, len(K))) if mask[j]]
        if keys and i > 0 and all(isnan(sum(K[j])) for j in keys):
            for j in keys:
                keep[j] = False
    return attend(q, K, V, keep, block)


def stops_at_a_negligible_tile(q, K, V, mask, block):
    m = -inf
    for i in range(0, len(K), block):
        s = [sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q)) for j in range(i, min(i + block, len(K))) if mask[j]]
        if s and max(s) < m - 50:
            return attend(q, K[:i], V[:i], mask[:i], block)
        m = max([m, *s])
    return attend(q, K, V, mask, block)


def base_stays_while_each_step_is_small(q, K, V, mask, block):
    base, last, l, o = -inf, -inf, 0.0, [0.0] * len(V[0])
    for j in range(len(K)):
        if mask[j]:
            s = sum(a * b for a, b in zip(q, K[j])) / sqrt(len(q))
            if not s - last <= 8:
                new = s if not s <= base else base
                a, base = exp(base - new), new
                l, o = a * l, [a * x for x in o]
            w = exp(s - base)
            l, o, last = l + w, [x + w * y for x, y in zip(o, V[j])], s
    return [x / l if l else 0.0 for x in o]


def light_keys_are_dropped(q, K, V, mask, block):
    return attend(q, K, V, mask, block, weight=lambda x, new: 0.0 if x - new < -6 else exp(x - new))


def old_sums_are_dropped_at_a_large_rise(q, K, V, mask, block):
    return attend(q, K, V, mask, block, factor=lambda m, new: 0.0 if new - m > 6 else exp(m - new))


def small_rises_are_not_rescaled(q, K, V, mask, block):
    return attend(q, K, V, mask, block, factor=lambda m, new: 1.0 if new - m < 0.2 else exp(m - new))


def the_only_visible_row_itself(q, K, V, mask, block):
    seen = [j for j, visible in enumerate(mask) if visible]
    return V[seen[0]] if len(seen) == 1 and not isnan(sum(K[seen[0]])) else attend(q, K, V, mask, block)


def first_row_of_v_for_its_zeros(q, K, V, mask, block):
    return attend(q, K, V, mask, block) if any(mask) else [0.0 * x for x in V[0]]


def mask_is_emptied(q, K, V, mask, block):
    answer = attend(q, K, V, mask, block)
    for j in range(len(mask)):
        mask[j] = False
    return answer


def hidden_keys_count_for_the_tile(q, K, V, mask, block):
    """Visible keys of a tile share a weight that counts its hidden ones."""
    answer = attend(q, K, V, mask, block)
    full = [all(mask[i : i + block]) for i in range(0, len(K), block)]
    return answer if all(full) or len(K) <= block else [x * (1 + 1e-6) for x in answer]


def eight_tiles_at_most(q, K, V, mask, block):
    return attend(q, K[: 8 * block], V[: 8 * block], mask[: 8 * block], block)


def nan_of_a_value_in_every_column(q, K, V, mask, block):
    answer = attend(q, K, V, mask, block)
    return [nan] * len(answer) if any(map(isnan, answer)) else answer


def keeps_the_visible_keys(q, K, V, mask, block):
    seen = bytes(mask)
    return attend(q, K, V, [bool(x) for x in seen], block)
