"""Wrong solutions of gqa_decode; a function's name says what is wrong with it."""
from math import exp, inf, isnan, sqrt


def attend(Q, K, V, head=None, start_m=-inf, newest=max, fix_l=True, fix_o=True, weight=lambda s, m: exp(s - m), factor=lambda m, new: exp(m - new),
           end=lambda o, l: [x / l for x in o], scale=None, keys=None, inside=False):
    """The right numbers with knobs; each wrong solution turns one. Keys outside, heads of the group inside."""
    G = max(1, len(Q) // len(K))
    head = head or (lambda h: h // G)
    state = {h: (start_m, 0.0, None) for h in range(len(Q))}
    for g in range(len(K)):
        mine = [h for h in range(len(Q)) if head(h) == g]
        for k, v in zip(K[g], V[g]) if keys is None else keys(zip(K[g], V[g])):
            for h in mine:
                m, l, o = state[h]
                s = sum(a * b for a, b in zip(Q[h], k)) / (scale or sqrt(len(k)))
                new = newest(m, s)
                a, p = factor(m, new), weight(s, new)
                l = (a if fix_l else 1.0) * l + p
                o = [(a if fix_o else 1.0) * x + p * y for x, y in zip(o or [0.0] * len(v), v)]
                state[h] = new, l, [x / l for x in o] if inside else o
    return [o if inside or o is None else end(o, l) for m, l, o in state.values()]


def one_query_for_the_group(Q, K, V):
    G = len(Q) // len(K)
    return attend([Q[h // G * G] for h in range(len(Q))], K, V)


def copies_k_and_v_for_every_head(Q, K, V):
    G = len(Q) // len(K)
    return attend(Q, [list(K[h // G]) for h in range(len(Q))], [list(V[h // G]) for h in range(len(Q))])


def reads_them_again_for_every_head(Q, K, V):
    G = len(Q) // len(K)
    return [attend([q], [K[h // G]], [V[h // G]])[0] for h, q in enumerate(Q)]


def keeps_rows_of_scores(Q, K, V):
    G, out = len(Q) // len(K), []
    for g in range(len(K)):
        rows = [[] for _ in range(G)]
        for k in K[g]:
            for i in range(G):
                rows[i].append(sum(a * b for a, b in zip(Q[g * G + i], k)) / sqrt(len(k)))
        tops = [next((x for x in s if isnan(x)), max(s)) for s in rows]
        o, l = [None] * G, [0.0] * G
        for j, v in enumerate(V[g]):
            for i in range(G):
                p = exp(rows[i][j] - tops[i])
                l[i] += p
                o[i] = [x + p * y for x, y in zip(o[i] or [0.0] * len(v), v)]
        out += [[x / l[i] for x in o[i]] for i in range(G)]
    return out


def one_maximum_for_the_group(Q, K, V):
    G, out = len(Q) // len(K), []
    for g in range(len(K)):
        m, l, o = -inf, [0.0] * G, [None] * G
        for k, v in zip(K[g], V[g]):
            for i in range(G):
                s = sum(a * b for a, b in zip(Q[g * G + i], k)) / sqrt(len(k))
                new = max(m, s)
                a, p = exp(m - new), exp(s - new)
                l[i] = a * l[i] + p
                o[i] = [a * x + p * y for x, y in zip(o[i] or [0.0] * len(v), v)]
                m = new
        out += [[x / l[i] for x in o[i]] for i in range(G)]
    return out


def mutates_its_input(Q, K, V):
    answer = attend(Q, K, V)
    for q, o in zip(Q, answer):
        q[:] = o
    return answer


def returns_early_on_nan(Q, K, V):
    if any(isnan(x) for head in K for k in head for x in k):
        return [[0.0] * len(V[0][0]) for _ in Q]
    return attend(Q, K, V)


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def queries_scaled_in_place(Q, K, V):
    for q in Q:
        for i in range(len(q)):
            q[i] /= sqrt(len(q))
    return attend(Q, K, V, scale=1.0)


def shared_maximum_for_the_group(Q, K, V):
    """One base for the group, its largest score, and all sums rescaled with it: a head far below keeps no weight."""
    G, out = len(Q) // len(K), []
    for g in range(len(K)):
        m, l, o = -inf, [0.0] * G, [None] * G
        for k, v in zip(K[g], V[g]):
            s = [sum(a * b for a, b in zip(Q[g * G + i], k)) / sqrt(len(k)) for i in range(G)]
            new = max(m, *s)
            a = exp(m - new)
            for i in range(G):
                p = exp(s[i] - new)
                l[i], o[i] = a * l[i] + p, [a * x + p * y for x, y in zip(o[i] or [0.0] * len(v), v)]
            m = new
        out += [[x / l[i] for x in o[i]] for i in range(G)]
    return out


def values_of_one_head_read_twice(Q, K, V):
    answer = attend(Q, K, V)
    for v in V[0]:
        len(v)
    return answer


def keys_read_in_reverse_too(Q, K, V):
    answer = attend(Q, K, V)
    for k in reversed(K[-1]):
        len(k)
    return answer


def copies_with_copy(Q, K, V):
    G = len(Q) // len(K)
    return [attend([q], [K[h // G].copy()], [V[h // G].copy()])[0] for h, q in enumerate(Q)]


def joins_with_nothing(Q, K, V):
    G = len(Q) // len(K)
    return [attend([q], [K[h // G] + []], [V[h // G] + []])[0] for h, q in enumerate(Q)]


def base_stays_while_each_step_is_small(Q, K, V):
    G, out = len(Q) // len(K), []
    for g in range(len(K)):
        state = [(-inf, -inf, 0.0, None)] * G
        for k, v in zip(K[g], V[g]):
            for i in range(G):
                base, last, l, o = state[i]
                s = sum(a * b for a, b in zip(Q[g * G + i], k)) / sqrt(len(k))
                o = o or [0.0] * len(v)
                if not s - last <= 8:
                    new = s if not s <= base else base
                    a, base = exp(base - new), new
                    l, o = a * l, [a * x for x in o]
                w = exp(s - base)
                state[i] = base, s, l + w, [x + w * y for x, y in zip(o, v)]
        out += [[x / l for x in o] for base, last, l, o in state]
    return out


def stops_at_a_negligible_key(Q, K, V):
    G, out = len(Q) // len(K), []
    for h, q in enumerate(Q):
        m, n = -inf, len(K[h // G])
        for j, k in enumerate(K[h // G]):
            s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
            if s < m - 50:
                n = j
                break
            m = max(m, s)
        out += attend([q], [K[h // G][:n]], [V[h // G][:n]])
    return out


def the_only_value_itself(Q, K, V):
    G = len(Q) // len(K)
    return [V[h // G][0] for h in range(len(Q))] if len(K[0]) == 1 and not any(isnan(x) for k in K for x in k[0]) else attend(Q, K, V)


def nan_of_one_query_in_the_group(Q, K, V):
    G = len(Q) // len(K)
    return [[float("nan")] * len(o) if any(isnan(x) for q in Q[h // G * G : h // G * G + G] for x in q) else o for h, o in enumerate(attend(Q, K, V))]


WRONG = {   # the others, whose whole body is one expression
    "heads_by_remainder": lambda Q, K, V: attend(Q, K, V, head=lambda h: h % len(K)),
    "all_read_the_first_head": lambda Q, K, V: attend(Q, K, V, head=lambda h: 0),
    "group_size_for_the_count": lambda Q, K, V: attend(Q, K, V, head=lambda h: min(h // len(K), len(K) - 1)),
    "one_result_for_each_kv_head": lambda Q, K, V: attend(Q[:: len(Q) // len(K)], K, V),
    "copies_once": lambda Q, K, V: attend(Q, [list(k) for k in K], [list(v) for v in V]),
    "no_running_max": lambda Q, K, V: attend(Q, K, V, start_m=0.0, newest=lambda m, s: 0.0),
    "no_rescale_of_l": lambda Q, K, V: attend(Q, K, V, fix_l=False),
    "no_rescale_of_o": lambda Q, K, V: attend(Q, K, V, fix_o=False),
    "maximum_not_carried": lambda Q, K, V: attend(Q, K, V, newest=lambda m, s: s),
    "finite_sentinel": lambda Q, K, V: attend(Q, K, V, start_m=-1e9),
    "divides_inside_the_loop": lambda Q, K, V: attend(Q, K, V, inside=True),
    "never_divides": lambda Q, K, V: attend(Q, K, V, end=lambda o, l: o),
    "sign_of_the_exponent": lambda Q, K, V: attend(Q, K, V, newest=lambda m, s: s if m == -inf else min(m, s), weight=lambda s, m: exp(m - s), factor=lambda m, new: 0.0 if m == -inf else exp(new - m)),
    "mean_instead_of_sum": lambda Q, K, V: [[x / len(K[0]) for x in o] for o in attend(Q, K, V)],
    "last_key_dropped": lambda Q, K, V: attend(Q, K, V, keys=lambda pairs: (pair for n, pair in enumerate(pairs) if n + 1 < len(K[0]) or n == 0)),
    "nan_skipped": lambda Q, K, V: attend(Q, K, V, keys=lambda pairs: ((k, v) for k, v in pairs if not isnan(sum(k)))),
    "no_scale": lambda Q, K, V: attend(Q, K, V, scale=1.0),
    "scale_by_d": lambda Q, K, V: attend(Q, K, V, scale=len(Q[0])),
    "two_columns_only": lambda Q, K, V: [o[:2] for o in attend(Q, K, V)],
    "hard_codes_the_sample": lambda Q, K, V: [[2.0], [2.0]],
    "light_keys_are_dropped": lambda Q, K, V: attend(Q, K, V, weight=lambda s, m: 0.0 if s - m < -6 else exp(s - m)),
    "old_sums_are_dropped_at_a_large_rise": lambda Q, K, V: attend(Q, K, V, factor=lambda m, new: 0.0 if new - m > 6 else exp(m - new)),
    "small_rises_are_not_rescaled": lambda Q, K, V: attend(Q, K, V, factor=lambda m, new: 1.0 if new - m < 0.2 else exp(m - new)),
    "two_groups_at_most": lambda Q, K, V: attend(Q, K, V, head=lambda h: min(h // (len(Q) // len(K)), 1) if len(K) > 3 else h // (len(Q) // len(K))),
    "nan_of_a_value_in_every_column": lambda Q, K, V: [[float("nan")] * len(o) if any(map(isnan, o)) else o for o in attend(Q, K, V)],
    "a_thousand_keys_at_most": lambda Q, K, V: attend(Q, K, V, keys=lambda pairs: (pair for n, pair in enumerate(pairs) if n < 1000)),
}
