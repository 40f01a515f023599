"""Wrong solutions of online_row; a function's name says what is wrong with it."""
from math import exp, inf, isnan
import sys


def pass_over(stream, m=-inf, rescale_l=True, rescale_o=True, newest=lambda m, s: max(m, s), weight=lambda s, m: exp(s - m), factor=lambda m, new: exp(m - new)):
    l, o = 0.0, None
    for s, v in stream:
        new = newest(m, s)
        a, p = factor(m, new), weight(s, new)
        l = (a if rescale_l else 1.0) * l + p
        o = [(a if rescale_o else 1.0) * x + p * y for x, y in zip(o or [0.0] * len(v), v)]
        m = new
    return o, l


def divide(o, l):
    return [x / l for x in o]


def no_running_max(stream):
    return divide(*pass_over(stream, 0.0, newest=lambda m, s: 0.0))


def divides_inside_the_loop(stream):
    m, l, o = -inf, 0.0, None
    for s, v in stream:
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        l = a * l + p
        o = [(a * x + p * y) / l for x, y in zip(o or [0.0] * len(v), v)]
        m = new
    return o


def rescales_the_new_key_too(stream):
    m, l, o = -inf, 0.0, None
    for s, v in stream:
        new = max(m, s)
        a = exp(m - new) if m > -inf else 1.0
        p = exp(s - new)
        l = a * (l + p)
        o = [a * (x + p * y) for x, y in zip(o or [0.0] * len(v), v)]
        m = new
    return divide(o, l)


def mean_instead_of_sum(stream):
    n = 0

    def counted():
        nonlocal n
        for pair in stream:
            n += 1
            yield pair

    o, l = pass_over(counted())
    return [x / l / n for x in o]


def plain_mean(stream):
    n, o = 0, None
    for s, v in stream:
        n, o = n + 1, [x + y + 0.0 * s for x, y in zip(o or [0.0] * len(v), v)]
    return divide(o, n)


def keeps_the_whole_row(stream):
    pairs = list(stream)
    m = max(s for s, v in pairs)
    m = next((s for s, v in pairs if isnan(s)), m)
    p = [exp(s - m) for s, v in pairs]
    return [sum(w * v[c] for w, (s, v) in zip(p, pairs)) / sum(p) for c in range(len(pairs[0][1]))]


def keeps_the_weights(stream):
    kept = []

    def watched():
        for s, v in stream:
            kept.append(s)
            yield s, v

    return divide(*pass_over(watched()))


def mutates_its_input(stream):
    m, l, o = -inf, 0.0, None
    for s, v in stream:
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        l = a * l + p
        if o is None:
            o = v
            for c in range(len(o)):
                o[c] *= p
        else:
            for c in range(len(o)):
                o[c] = a * o[c] + p * v[c]
        m = new
    return divide(o, l)


def returns_early_on_nan(stream):
    def until_nan():
        for s, v in stream:
            if isnan(s):
                return
            yield s, v

    o, l = pass_over(until_nan())
    return divide(o, l) if l else []


def skips_nan(stream):
    o, l = pass_over((s, v) for s, v in stream if not isnan(s))
    return divide(o, l)


def drops_the_last_key(stream):
    pairs = list(stream)
    o, l = pass_over(pairs[:-1] or pairs)
    return divide(o, l)


def drops_the_first_key(stream):
    pairs = list(stream)
    o, l = pass_over(pairs[1:] or pairs)
    return divide(o, l)


def two_columns_only(stream):
    o, l = pass_over(stream)
    return divide(o, l)[:2]


def returns_nothing(stream):
    divide(*pass_over(stream))


def swallows_overflow(stream):
    try:
        return no_running_max(stream)
    except (OverflowError, ZeroDivisionError):
        return [0.0]


def top_of_the_module_exits(stream):
    sys.exit(0)


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def base_stays_while_each_step_is_small(stream):
    """The base moves only when a score is far above the one before: a long gentle rise overflows."""
    base, last, l, o = None, None, 0.0, None
    for s, v in stream:
        if base is None or s - last > 8 or s != s:
            new = s if base is None else max(base, s) if s == s else s
            a = 0.0 if base is None else exp(base - new)
            l, o, base = a * l, [a * x for x in o or [0.0] * len(v)], new
        w = exp(s - base)
        l, o, last = l + w, [x + w * y for x, y in zip(o, v)], s
    return divide(o, l)


def stops_at_a_negligible_key(stream):
    def until():
        m = -inf
        for s, v in stream:
            if s < m - 50:
                return
            m = max(m, s)
            yield s, v

    return divide(*pass_over(until()))


def two_passes_over_a_copied_stream(stream):
    import copy

    again = copy.copy(stream)
    m = -inf
    for s, v in stream:
        m = s if s > m or s != s else m
    return divide(*pass_over(again, m, newest=lambda m, s: m))


def the_only_value_itself(stream):
    stream = iter(stream)
    s, v = next(stream)
    m, l, o = s, exp(s - s), v
    for s, v in stream:
        new = max(m, s)
        a, p = exp(m - new), exp(s - new)
        l, o, m = a * l + p, [a * x + p * y for x, y in zip(o, v)], new
    return divide(o, l) if o is not v or l != l else o


KEPT = []


def the_same_list_each_time(stream):
    KEPT[:] = divide(*pass_over(stream))
    return KEPT


def nan_of_a_value_in_every_column(stream):
    o, l = pass_over(stream)
    return [float("nan")] * len(o) if any(map(isnan, o)) else divide(o, l)


def scores_rounded_to_float32(stream):
    import struct

    return divide(*pass_over((struct.unpack("f", struct.pack("f", max(-3e38, s) if s == s else s))[0], v) for s, v in stream))


def keeps_flags_in_bytes(stream):
    """One byte a key is still one entry a key."""
    kept = bytearray()

    def noted():
        for s, v in stream:
            kept.append(s > 0)
            yield s, v

    return divide(*pass_over(noted()))


WRONG = {   # the others, whose whole body is one expression
    "no_rescale_of_l": lambda stream: divide(*pass_over(stream, rescale_l=False)),
    "no_rescale_of_o": lambda stream: divide(*pass_over(stream, rescale_o=False)),
    "no_rescale_at_all": lambda stream: divide(*pass_over(stream, rescale_l=False, rescale_o=False)),
    "maximum_not_carried": lambda stream: divide(*pass_over(stream, newest=lambda m, s: s)),
    "finite_sentinel": lambda stream: divide(*pass_over(stream, -1e9)),
    "float32_lowest_as_sentinel": lambda stream: divide(*pass_over(stream, -3.4e38)),
    "maximum_starts_at_zero": lambda stream: divide(*pass_over(stream, 0.0)),
    "never_divides": lambda stream: pass_over(stream)[0],
    "sign_of_the_weight": lambda stream: divide(*pass_over(stream, newest=lambda m, s: min(m, s) if m > -inf else s, weight=lambda s, m: exp(m - s), factor=lambda m, new: exp(new - m) if m > -inf else 0.0)),
    "sign_of_the_rescale": lambda stream: divide(*pass_over(stream, factor=lambda m, new: exp(new - m) if m > -inf else 0.0)),
    "hard_codes_the_sample": lambda stream: [2.0, 6.0],
    "hardest_key_wins": lambda stream: max(stream, key=lambda pair: pair[0])[1],
    "small_rises_are_not_rescaled": lambda stream: divide(*pass_over(stream, factor=lambda m, new: 1.0 if new - m < 0.2 else exp(m - new))),
    "tiny_rises_are_not_rescaled": lambda stream: divide(*pass_over(stream, factor=lambda m, new: 1.0 if new - m < 1e-4 else exp(m - new))),
    "light_keys_are_dropped": lambda stream: divide(*pass_over(stream, weight=lambda s, m: 0.0 if s - m < -6 else exp(s - m))),
    "old_sums_are_dropped_at_a_large_rise": lambda stream: divide(*pass_over(stream, factor=lambda m, new: 0.0 if new - m > 6 else exp(m - new))),
    "exponent_held_above_minus_ten": lambda stream: divide(*pass_over(stream, weight=lambda s, m: exp(max(s - m, -10.0)))),
    "sixteen_keys_at_most": lambda stream: divide(*pass_over((s, v) for n, (s, v) in enumerate(stream) if n < 16)),
    "a_thousand_keys_at_most": lambda stream: divide(*pass_over((s, v) for n, (s, v) in enumerate(stream) if n < 1000)),
    "nan_beside_a_larger_score_is_dropped": lambda stream: divide(*pass_over((s, v) for n, (s, v) in enumerate(stream) if not (isnan(s) and n > 3))),
}
