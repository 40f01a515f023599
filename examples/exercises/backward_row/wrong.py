"""Wrong solutions of backward_row; a function's name says what is wrong with it."""
from math import exp, isnan, sqrt


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def gradients(q, K, V, o, lse, do, delta=None, weight=lambda s, lse: exp(s - lse), ds=lambda p, dp, delta: p * (dp - delta), scale=None, scale_q=None, scale_k=None, dv=lambda p, do, v: [p * x for x in do]):
    """The right algorithm with knobs; each wrong solution turns one."""
    scale = scale or 1 / sqrt(len(q))
    delta = dot(do, o) if delta is None else delta
    dq, dK, dV = [0.0] * len(q), [], []
    for k, v in zip(K, V):
        p = weight(dot(q, k) * scale, lse)
        g = ds(p, dot(do, v), delta)
        dq = [x + g * y * (scale_q or scale) for x, y in zip(dq, k)]
        dK.append([g * x * (scale_k or scale) for x in q])
        dV.append(dv(p, do, v))
    return dq, dK, dV


def delta_by_a_second_pass(q, K, V, o, lse, do):
    scale = 1 / sqrt(len(q))
    return gradients(q, K, V, o, lse, do, delta=sum(exp(dot(q, k) * scale - lse) * dot(do, v) for k, v in zip(K, V)))


def forward_again(q, K, V, o, lse, do):
    s = [dot(q, k) / sqrt(len(q)) for k in K]
    m = max(s)
    p = [exp(x - m) for x in s]
    l = sum(p)
    o = [sum(w * v[c] for w, v in zip(p, V)) / l for c in range(len(do))]
    return gradients(q, K, V, o, lse, do)


def dk_and_dv_exchanged(q, K, V, o, lse, do):
    dq, dK, dV = gradients(q, K, V, o, lse, do)
    return dq, dV, dK


def dq_of_the_last_key_only(q, K, V, o, lse, do):
    dq, dK, dV = gradients(q, K, V, o, lse, do)
    return gradients(q, K[-1:], V[-1:], o, lse, do)[0], dK, dV


def mean_instead_of_sum(q, K, V, o, lse, do):
    dq, dK, dV = gradients(q, K, V, o, lse, do)
    return [x / len(K) for x in dq], dK, dV


def mutates_its_input(q, K, V, o, lse, do):
    answer = gradients(q, K, V, o, lse, do)
    for i in range(len(o)):
        o[i] *= do[i]
    return answer


def returns_early_on_nan(q, K, V, o, lse, do):
    if any(map(isnan, do)):
        return [0.0] * len(q), [[0.0] * len(q) for _ in K], [[0.0] * len(do) for _ in K]
    return gradients(q, K, V, o, lse, do)


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def query_scaled_in_place(q, K, V, o, lse, do):
    for i in range(len(q)):
        q[i] /= sqrt(len(q))
    return gradients(q, K, V, o, lse, do, scale=1.0, scale_q=1 / sqrt(len(q)), scale_k=1.0)


def rows_read_backwards(q, K, V, o, lse, do):
    dq, dK, dV = gradients(q, K[::-1], V[::-1], o, lse, do)
    return dq, dK[::-1], dV[::-1]


def rows_read_by_reversed(q, K, V, o, lse, do):
    dq, dK, dV = gradients(q, list(reversed(K)), list(reversed(V)), o, lse, do)
    return dq, dK[::-1], dV[::-1]


def one_row_read_twice(q, K, V, o, lse, do):
    answer = gradients(q, K, V, o, lse, do)
    len(K[-1]), len(V[-1])
    return answer


def nan_of_one_column_in_all(q, K, V, o, lse, do):
    dq, dK, dV = gradients(q, K, V, o, lse, do)
    return (dq, dK, [[float("nan")] * len(row) for row in dV]) if any(map(isnan, do)) else (dq, dK, dV)


def do_scaled_to_length_one(q, K, V, o, lse, do):
    size = sqrt(dot(do, do)) or 1.0
    dq, dK, dV = gradients(q, K, V, o, lse, [x / size for x in do])
    return [x * size for x in dq] if size < 5 else dq, [[x * size for x in row] for row in dK], [[x * size for x in row] for row in dV]


KEPT = [], [], []


def the_same_rows_each_time(q, K, V, o, lse, do):
    for mine, row in zip(KEPT, gradients(q, K, V, o, lse, do)):
        mine[:] = row
    return KEPT


def difference_taken_in_float32(q, K, V, o, lse, do):
    import struct

    return gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(struct.unpack("f", struct.pack("f", s - lse))[0]))


WRONG = {   # the others, whose whole body is one expression
    "no_delta": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, delta=0.0),
    "delta_with_its_sign_turned": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, ds=lambda p, dp, delta: p * (dp + delta)),
    "delta_minus_dp": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, ds=lambda p, dp, delta: p * (delta - dp)),
    "delta_from_do_alone": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, delta=sum(do)),
    "delta_from_o_alone": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, delta=sum(o)),
    "delta_is_the_square_of_do": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, delta=dot(do, do)),
    "delta_is_a_mean": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, delta=dot(do, o) / len(do)),
    "derivative_of_the_diagonal_only": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, ds=lambda p, dp, delta: p * (1 - p) * dp),
    "p_twice": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, ds=lambda p, dp, delta: p * p * (dp - delta)),
    "p_forgotten": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, ds=lambda p, dp, delta: dp - delta),
    "delta_outside_the_product": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, ds=lambda p, dp, delta: p * dp - delta),
    "lse_forgotten": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(s)),
    "exponential_before_the_division": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(s) / exp(lse)),
    "lse_added": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(s + lse)),
    "sign_of_the_exponent": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(lse - s)),
    "no_scale_in_dq": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, scale_q=1.0),
    "no_scale_in_dk": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, scale_k=1.0),
    "no_scale_in_the_scores": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, scale=1.0, scale_q=1 / sqrt(len(q)), scale_k=1 / sqrt(len(q))),
    "scale_by_d": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, scale=1 / len(q)),
    "dv_without_p": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, dv=lambda p, do, v: list(do)),
    "dv_from_v": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, dv=lambda p, do, v: [p * x for x in v]),
    "last_key_dropped": lambda q, K, V, o, lse, do: gradients(q, K[:-1], V[:-1], o, lse, do),
    "two_columns_only": lambda q, K, V, o, lse, do: gradients(q, K, [v[:2] for v in V], o[:2], lse, do[:2]),
    "hard_codes_the_sample": lambda q, K, V, o, lse, do: ([0.0], [[0.0]], [[1.0]]),
    "light_keys_are_dropped": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: 0.0 if s - lse < -6 else exp(s - lse)),
    "weight_cut_at_a_millionth": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: max(exp(s - lse), 1e-6)),
    "the_gradient_itself_where_the_weight_is_one": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, dv=lambda p, do, v: do if p == 1.0 else [p * x for x in do]),
    "eight_keys_at_most": lambda q, K, V, o, lse, do: gradients(q, K[:8], V[:8], o, lse, do),
    "scale_by_the_width_of_do": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, scale=1 / sqrt(len(do)) if len(do) != 2 else None),
    "weight_held_below_one_half": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(min(s - lse, -1e-7))),
    "probabilities_times_lse": lambda q, K, V, o, lse, do: gradients(q, K, V, o, lse, do, weight=lambda s, lse: exp(s - lse) if lse < 1500 else 0.0),
}
