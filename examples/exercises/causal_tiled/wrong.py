"""Wrong solutions of causal_tiled; a function's name says what is wrong with it."""
from math import exp, inf, isnan, nan, sqrt


def attend(Q, K, V, Br, Bc, offset=None, start_m=-inf, newest=lambda m, s: max([m, *s]), fix_l=True, fix_o=True, weight=lambda x, m: exp(x - m), factor=lambda m, new: exp(m - new),
           end=lambda o, l: [x / l for x in o] if l else o, limit=None, scale=None, keep=lambda i, j: True, inside=False):
    """The right algorithm with knobs; each wrong solution turns one."""
    off = len(K) - len(Q) if offset is None else offset
    out = []
    for i in range(len(Q)):
        m, l, o = start_m, 0.0, [0.0] * len(V[0])
        top = min(len(K) if limit is None else limit, i + off + 1)
        for j in range(0, top, Bc):
            seen = [t for t in range(j, min(j + Bc, top)) if keep(i, t)]
            if not seen:
                continue
            s = [sum(a * b for a, b in zip(Q[i], K[t])) / (scale or sqrt(len(Q[i]))) for t in seen]
            new = newest(m, s)
            a, p = factor(m, new), [weight(x, new) for x in s]
            l = (a if fix_l else 1.0) * l + sum(p)
            o = [(a if fix_o else 1.0) * x + sum(w * V[t][c] for w, t in zip(p, seen)) for c, x in enumerate(o)]
            if inside:
                o = [x / l for x in o]
            m = new
        out.append(o if inside else end(o, l))
    return out


def hidden_by(Q, K, V, Br, Bc, score=-inf, read_all=False, every_tile=False):
    """Tiles computed whole, hidden scores replaced."""
    off, out = len(K) - len(Q), []
    for i in range(len(Q)):
        m, l, o = -inf, 0.0, [0.0] * len(V[0])
        last = len(K) if every_tile else min(len(K), (i // Br + 1) * Br + off)
        for j in range(0, last, Bc):
            s = [sum(a * b for a, b in zip(Q[i], k)) / sqrt(len(k)) for k in K[j : j + Bc]]
            s = [x if j + t <= i + off else score for t, x in enumerate(s)]
            new = max([m, *s])
            safe = 0.0 if new == -inf else new
            p, a = [exp(x - safe) for x in s], exp(m - safe)
            l = a * l + sum(p)
            o = [a * x + sum(w * v[c] for w, v in zip(p, V[j : j + Bc]) if w or read_all) for c, x in enumerate(o)]
            m = new
        out.append([x / (l or 1.0) for x in o])
    return out


def no_mask(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, offset=len(K))


def inverted_mask(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, offset=len(K), keep=lambda i, j: j >= i + len(K) - len(Q))


def top_left_causal(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, offset=0)


def does_not_see_itself(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, offset=len(K) - len(Q) - 1)


def sees_one_key_too_many(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, offset=len(K) - len(Q) + 1)


def offset_the_wrong_way_round(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, offset=len(Q) - len(K))


def skips_the_tile_on_the_diagonal(Q, K, V, Br, Bc):
    off = len(K) - len(Q)
    return attend(Q, K, V, Br, Bc, keep=lambda i, j: j // Bc < (i + off) // Bc or i + off < Bc)


def sees_the_whole_tile_on_the_diagonal(Q, K, V, Br, Bc):
    out = []
    for i in range(len(Q)):
        last = min(len(Q), (i // Br + 1) * Br)
        out += attend(Q[i : i + 1], K[: max(0, last + len(K) - len(Q))], V, Br, Bc) if last + len(K) - len(Q) > 0 else [[0.0] * len(V[0])]
    return out


def nothing_is_skipped(Q, K, V, Br, Bc):
    return hidden_by(Q, K, V, Br, Bc, every_tile=True)


def hidden_value_read(Q, K, V, Br, Bc):
    return hidden_by(Q, K, V, Br, Bc, read_all=True)


def finite_score_for_hidden(Q, K, V, Br, Bc):
    return hidden_by(Q, K, V, Br, Bc, score=-1e9)


def empty_row_gives_nan(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, end=lambda o, l: [x / l if l else nan for x in o])


def empty_row_divides_by_zero(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, end=lambda o, l: [x / l for x in o])


def empty_rows_are_left_out(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc)[max(0, len(Q) - len(K)) :]


def no_running_max(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, start_m=0.0, newest=lambda m, s: 0.0)


def no_rescale_of_l(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, fix_l=False)


def no_rescale_of_o(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, fix_o=False)


def maximum_not_carried_over_tiles(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, newest=lambda m, s: max(s))


def finite_sentinel(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, start_m=-1e9)


def divides_inside_the_loop(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, inside=True)


def never_divides(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, end=lambda o, l: o)


def sign_of_the_exponent(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, newest=lambda m, s: min(s) if m == -inf else min([m, *s]), weight=lambda x, m: exp(m - x), factor=lambda m, new: 0.0 if m == -inf else exp(new - m))


def mean_instead_of_sum(Q, K, V, Br, Bc):
    return [[x / (i + 1) for x in row] for i, row in enumerate(attend(Q, K, V, Br, Bc))]


def last_key_dropped(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, limit=max(1, len(K) - 1))


def last_partial_tile_of_queries_dropped(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc)[: len(Q) // Br * Br]


def materialises_all_scores(Q, K, V, Br, Bc):
    off, out = len(K) - len(Q), []
    for i, q in enumerate(Q):
        s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[: max(0, i + off + 1)]]
        m = next((x for x in s if isnan(x)), max(s, default=0.0))
        p = [exp(x - m) for x in s]
        out.append([sum(w * v[c] for w, v in zip(p, V)) / sum(p) for c in range(len(V[0]))] if p else [0.0] * len(V[0]))
    return out


def mutates_its_input(Q, K, V, Br, Bc):
    answer = attend(Q, K, V, Br, Bc)
    for q, o in zip(Q, answer):
        q[:] = o
    return answer


def returns_early_on_nan(Q, K, V, Br, Bc):
    if any(isnan(x) for k in K for x in k):
        return [[nan] * len(V[0]) for _ in Q]
    return attend(Q, K, V, Br, Bc)


def nan_taken_for_hidden(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, keep=lambda i, j: not isnan(K[j][0]))


def no_scale(Q, K, V, Br, Bc):
    return attend(Q, K, V, Br, Bc, scale=1.0)


def two_columns_only(Q, K, V, Br, Bc):
    return [row[:2] for row in attend(Q, K, V, Br, Bc)]


def hard_codes_the_sample(Q, K, V, Br, Bc):
    return [[1.0], [2.0]]
