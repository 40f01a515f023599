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


def no_running_max(a, b):
    return combine(a, b, top=lambda x, y: 0.0)


def smaller_as_base(a, b):
    return combine(a, b, top=min)


def first_as_base(a, b):
    return combine(a, b, top=lambda x, y: x)


def sign_of_the_exponent(a, b):
    return combine(a, b, w=lambda lse, m: exp(m - lse) if lse != -inf else 0.0)


def weights_turned_round(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    o, lse = combine((o_a, lse_b), (o_b, lse_a))
    return o, lse


def mean_instead_of_weights(a, b):
    o, lse = combine(a, b)
    return [(x + y) / 2 for x, y in zip(a[0], b[0])], lse


def sum_of_the_outputs(a, b):
    return [x + y for x, y in zip(a[0], b[0])], combine(a, b)[1]


def never_divides(a, b):
    return combine(a, b, divide=lambda x, l: x)


def divides_twice(a, b):
    return combine(a, b, divide=lambda x, l: x / l / l)


def lse_taken_for_the_weight(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    total = lse_a + lse_b
    return [(lse_a * x + lse_b * y) / total for x, y in zip(o_a, o_b)], total


def lse_is_the_maximum(a, b):
    return combine(a, b, new=lambda m, l: m)


def lse_is_the_sum(a, b):
    return combine(a, b)[0], a[1] + b[1]


def lse_without_the_maximum(a, b):
    return combine(a, b, new=lambda m, l: log(l))


def lse_without_the_logarithm(a, b):
    return combine(a, b, new=lambda m, l: m + l)


def lse_in_base_two(a, b):
    return combine(a, b, new=lambda m, l: m + log2(l))


def minus_infinity_minus_minus_infinity(a, b):
    return combine(a, b, empty=False)


def one_empty_part_empties_both(a, b):
    return ([0.0] * len(a[0]), -inf) if -inf in (a[1], b[1]) else combine(a, b)


def finite_sentinel(a, b):
    (o_a, lse_a), (o_b, lse_b) = a, b
    o, lse = combine((o_a, max(lse_a, -1e9)), (o_b, max(lse_b, -1e9)))
    return o, lse if lse > -1e8 else -inf


def both_empty_gives_a_finite_lse(a, b):
    o, lse = combine(a, b)
    return o, max(lse, -3.4e38)


def heavier_part_wins(a, b):
    return (list(max(a, b, key=lambda part: part[1])[0]), combine(a, b)[1])


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


def hard_codes_the_sample(a, b):
    return [2.0], log(2)


def output_only(a, b):
    return combine(a, b)[0]


def two_columns_only(a, b):
    o, lse = combine(a, b)
    return o[:2], lse


def keys_counted_as_equal(a, b):
    return combine((a[0], 0.0), (b[0], 0.0))[0], combine(a, b)[1]
