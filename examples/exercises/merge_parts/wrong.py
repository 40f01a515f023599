"""Wrong solutions of merge_parts; a function's name says what is wrong with it."""
from math import exp, inf, isnan, log, log2


def combine(a, b, top=max, w=lambda lse, m: exp(lse - m), divide=lambda x, l: x / l, new=lambda m, l: m + log(l), empty=True):
    """The right algorithm with knobs; each wrong solution turns one."""
    (o_a, lse_a), (o_b, lse_b) = a, b
    if empty and lse_a == lse_b == -inf:
        return [0.0] * len(o_a), -inf
    m = top(lse_a, lse_b)
    w_a, w_b = w(lse_a, m), w(lse_b, m)
    l = w_a + w_b
    return [divide(w_a * x + w_b * y, l) for x, y in zip(o_a, o_b)], new(m, l)


def weights_turned_round(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    o, lse = combine((o_a, lse_b), (o_b, lse_a))
    return o, lse


def mean_instead_of_weights(a, b):
    o, lse = combine(a, b)
    return [(x + y) / 2 for x, y in zip(a[0], b[0])], lse


def lse_taken_for_the_weight(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    total = lse_a + lse_b
    return [(lse_a * x + lse_b * y) / total for x, y in zip(o_a, o_b)], total


def finite_sentinel(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    o, lse = combine((o_a, max(lse_a, -1e9)), (o_b, max(lse_b, -1e9)))
    return o, lse if lse > -1e8 else -inf


def both_empty_gives_a_finite_lse(a, b):
    o, lse = combine(a, b)
    return o, max(lse, -3.4e38)


def small_part_dropped(a, b):
    if abs(a[1] - b[1]) > 5:
        return max(a, b, key=lambda part: part[1])
    return combine(a, b)


def mutates_its_input(a, b):
    o, lse = combine(a, b)
    a[0][:] = o
    return a[0], lse


def returns_early_on_nan(a, b):
    if isnan(a[1]):
        return b
    return a if isnan(b[1]) else combine(a, b)


def maximum_drops_the_nan(a, b):
    m = max(a[1], b[1])
    return ([0.0] * len(a[0]), -inf) if m == -inf else combine(a, b)


def two_columns_only(a, b):
    o, lse = combine(a, b)
    return o[:2], lse


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def light_part_dropped_at_a_gap_of_eight(a, b):
    if abs(a[1] - b[1]) > 8:
        o, lse = max(a, b, key=lambda part: part[1])
        return list(o), lse
    return combine(a, b)


def light_part_dropped_from_the_output_only(a, b):
    o, lse = combine(a, b)
    return (list(max(a, b, key=lambda part: part[1])[0]) if abs(a[1] - b[1]) > 8 else o), lse


def lse_of_the_heavier_at_a_gap_of_eight(a, b):
    o, lse = combine(a, b)
    return o, max(a[1], b[1]) if abs(a[1] - b[1]) > 8 else lse


def hands_out_the_part_beside_an_empty_one(a, b):
    if b[1] == -inf and not isnan(a[1]):
        return a
    return combine(a, b)


def hands_out_the_other_output_beside_an_empty_one(a, b):
    if a[1] == -inf and not isnan(b[1]):
        return b[0], b[1]
    return combine(a, b)


def empties_the_second(a, b):
    answer = combine(a, b)
    if b[1] == -inf:
        b[0].clear()
    return answer


def direct_below_two_hundred(a, b):
    """exp(lse) itself while both are small: right for small ones, and 0 / 0 far below zero."""
    if abs(a[1]) < 900 and b[1] > -inf and a[1] > -inf:
        return combine(a, b, top=lambda x, y: 0.0)
    return combine(a, b)


def nan_of_one_column_in_all(a, b):
    o, lse = combine(a, b)
    return [float("nan")] * len(o) if any(map(isnan, o)) else o, lse


def nan_of_a_light_part_is_lost(a, b):
    if b[1] < a[1] - 5:
        return combine(a, ([x if x == x else 0.0 for x in b[0]], b[1]))
    return combine(a, b)


def nan_lse_where_both_have_one(a, b):
    if isnan(a[1]) and isnan(b[1]):
        return [0.0] * len(a[0]), -inf
    return combine(a, b)


KEPT = []


def the_same_list_each_time(a, b):
    o, lse = combine(a, b)
    KEPT[:] = o
    return KEPT, lse


def equal_lse_taken_for_one_part(a, b):
    """Equal lse, equal part: counts it once."""
    if a[1] == b[1] != -inf:
        return [(x + y) / 2 for x, y in zip(a[0], b[0])], a[1]
    return combine(a, b)


def sign_of_the_gap_lost(a, b):
    gap = abs(a[1] - b[1])
    w = exp(-gap)
    return [(x + w * y) / (1 + w) for x, y in zip(a[0], b[0])], max(a[1], b[1]) + log(1 + w)


def logarithm_cut_short(a, b):
    """ln(1 + x) taken for x: right to the sixth digit where one part is light."""
    (o_a, lse_a), (o_b, lse_b) = a, b
    o, lse = combine(a, b)
    gap = abs(lse_a - lse_b)
    return o, max(lse_a, lse_b) + exp(-gap) if 6 < gap < 700 else lse


def eight_columns_at_most(a, b):
    o, lse = combine(a, b)
    return o[:8], lse


WRONG = {   # the others, whose whole body is one expression
    "no_running_max": lambda a, b: combine(a, b, top=lambda x, y: 0.0),
    "smaller_as_base": lambda a, b: combine(a, b, top=min),
    "first_as_base": lambda a, b: combine(a, b, top=lambda x, y: x),
    "sign_of_the_exponent": lambda a, b: combine(a, b, w=lambda lse, m: exp(m - lse) if lse != -inf else 0.0),
    "sum_of_the_outputs": lambda a, b: ([x + y for x, y in zip(a[0], b[0])], combine(a, b)[1]),
    "never_divides": lambda a, b: combine(a, b, divide=lambda x, l: x),
    "divides_twice": lambda a, b: combine(a, b, divide=lambda x, l: x / l / l),
    "lse_is_the_maximum": lambda a, b: combine(a, b, new=lambda m, l: m),
    "lse_is_the_sum": lambda a, b: (combine(a, b)[0], a[1] + b[1]),
    "lse_without_the_maximum": lambda a, b: combine(a, b, new=lambda m, l: log(l)),
    "lse_without_the_logarithm": lambda a, b: combine(a, b, new=lambda m, l: m + l),
    "lse_in_base_two": lambda a, b: combine(a, b, new=lambda m, l: m + log2(l)),
    "minus_infinity_minus_minus_infinity": lambda a, b: combine(a, b, empty=False),
    "one_empty_part_empties_both": lambda a, b: ([0.0] * len(a[0]), -inf) if -inf in (a[1], b[1]) else combine(a, b),
    "heavier_part_wins": lambda a, b: (list(max(a, b, key=lambda part: part[1])[0]), combine(a, b)[1]),
    "hard_codes_the_sample": lambda a, b: ([2.0], log(2)),
    "output_only": lambda a, b: combine(a, b)[0],
    "keys_counted_as_equal": lambda a, b: (combine((a[0], 0.0), (b[0], 0.0))[0], combine(a, b)[1]),
    "both_empty_hands_out_the_first": lambda a, b: (a[0], -inf) if a[1] == b[1] == -inf else combine(a, b),
    "sum_of_small_lse_underflows": lambda a, b: combine(a, b, top=lambda x, y: max(x, y, -100.0)),
}
