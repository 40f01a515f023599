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


def stops_at_the_first_hidden_key(q, K, V, mask, block):
    n = mask.index(False) if False in mask else len(mask)
    return attend(q, K[:n], V[:n], mask[:n], block) if n else [0.0] * len(V[0])


def stops_at_the_first_hidden_tile(q, K, V, mask, block):
    for j in range(0, len(K), block):
        if not any(mask[j : j + block]):
            return attend(q, K[:j], V[:j], mask[:j], block) if j else [0.0] * len(V[0])
    return attend(q, K, V, mask, block)


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


def mean_instead_of_sum(q, K, V, mask, block):
    n = sum(mask) or 1
    return [x / n for x in attend(q, K, V, mask, block)]


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


def the_only_visible_row_itself(q, K, V, mask, block):
    seen = [j for j, visible in enumerate(mask) if visible]
    return V[seen[0]] if len(seen) == 1 and not isnan(sum(K[seen[0]])) else attend(q, K, V, mask, block)


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


def nan_of_a_value_in_every_column(q, K, V, mask, block):
    answer = attend(q, K, V, mask, block)
    return [nan] * len(answer) if any(map(isnan, answer)) else answer


def keeps_the_visible_keys(q, K, V, mask, block):
    seen = bytes(mask)
    return attend(q, K, V, [bool(x) for x in seen], block)


WRONG = {   # the others, whose whole body is one expression
    "inverted_mask": lambda q, K, V, mask, block: attend(q, K, V, mask, block, hidden=lambda seen: seen),
    "no_mask": lambda q, K, V, mask, block: attend(q, K, V, mask, block, hidden=lambda seen: False),
    "minus_infinity_minus_minus_infinity": lambda q, K, V, mask, block: scored(q, K, V, mask, block),
    "hidden_value_read": lambda q, K, V, mask, block: scored(q, K, V, mask, block, safe=True, zero_weight=True),
    "mask_added_to_the_score": lambda q, K, V, mask, block: scored(q, K, V, mask, block, safe=True, add=True),
    "finite_score_for_hidden": lambda q, K, V, mask, block: scored(q, K, V, mask, block, -1e9),
    "finite_score_for_hidden_then_weight_zero": lambda q, K, V, mask, block: scored(q, K, V, mask, block, -1e9, skip=True),
    "hidden_row_gives_nan": lambda q, K, V, mask, block: scored(q, K, V, mask, block, safe=True, divide=lambda x, l: x / l if l else nan),
    "hidden_row_divides_by_zero": lambda q, K, V, mask, block: scored(q, K, V, mask, block, safe=True, divide=lambda x, l: x / l),
    "hidden_row_gives_the_mean": lambda q, K, V, mask, block: attend(q, K, V, mask if any(mask) else [True] * len(mask), block),
    "score_zero_for_hidden": lambda q, K, V, mask, block: scored(q, K, V, mask, block, 0.0),
    "no_running_max": lambda q, K, V, mask, block: attend(q, K, V, mask, block, 0.0, newest=lambda m, s: 0.0),
    "no_rescale_of_l": lambda q, K, V, mask, block: attend(q, K, V, mask, block, fix_l=False),
    "no_rescale_of_o": lambda q, K, V, mask, block: attend(q, K, V, mask, block, fix_o=False),
    "maximum_not_carried_over_tiles": lambda q, K, V, mask, block: attend(q, K, V, mask, block, newest=lambda m, s: max(s)),
    "finite_sentinel": lambda q, K, V, mask, block: attend(q, K, V, mask, block, -1e9),
    "maximum_starts_at_zero": lambda q, K, V, mask, block: attend(q, K, V, mask, block, 0.0),
    "last_partial_tile_dropped": lambda q, K, V, mask, block: attend(q, K, V, mask, block, tiles=[range(j, j + block) for j in range(0, len(K) - block + 1, block)] or [range(0)]),
    "last_tile_one_key_short": lambda q, K, V, mask, block: attend(q, K, V, mask, block, tiles=[range(j, min(j + block, len(K) - 1)) for j in range(0, len(K), block)]),
    "skips_a_tile_whose_first_key_is_hidden": lambda q, K, V, mask, block: attend(q, K, V, mask, block, tiles=[range(j, min(j + block, len(K))) for j in range(0, len(K), block) if mask[j]] or [range(0)]),
    "sign_of_the_exponent": lambda q, K, V, mask, block: attend(q, K, V, mask, block, newest=lambda m, s: min(s) if m == -inf else min(m, *s), weight=lambda x, new: exp(new - x), factor=lambda m, new: 0.0 if m == -inf else exp(new - m)),
    "divides_by_all_keys": lambda q, K, V, mask, block: [x * sum(mask) / len(mask) for x in attend(q, K, V, mask, block)],
    "nan_taken_for_hidden": lambda q, K, V, mask, block: attend(q, K, V, [seen and not isnan(sum(k)) for seen, k in zip(mask, K)], block),
    "no_scale": lambda q, K, V, mask, block: attend(q, K, V, mask, block, scale=1.0),
    "hard_codes_the_sample": lambda q, K, V, mask, block: [1.0],
    "light_keys_are_dropped": lambda q, K, V, mask, block: attend(q, K, V, mask, block, weight=lambda x, new: 0.0 if x - new < -6 else exp(x - new)),
    "old_sums_are_dropped_at_a_large_rise": lambda q, K, V, mask, block: attend(q, K, V, mask, block, factor=lambda m, new: 0.0 if new - m > 6 else exp(m - new)),
    "small_rises_are_not_rescaled": lambda q, K, V, mask, block: attend(q, K, V, mask, block, factor=lambda m, new: 1.0 if new - m < 0.2 else exp(m - new)),
    "first_row_of_v_for_its_zeros": lambda q, K, V, mask, block: attend(q, K, V, mask, block) if any(mask) else [0.0 * x for x in V[0]],
    "eight_tiles_at_most": lambda q, K, V, mask, block: attend(q, K[: 8 * block], V[: 8 * block], mask[: 8 * block], block),
}
