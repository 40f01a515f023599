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


def skips_the_tile_on_the_diagonal(Q, K, V, Br, Bc):
    off = len(K) - len(Q)
    return attend(Q, K, V, Br, Bc, keep=lambda i, j: j // Bc < (i + off) // Bc or i + off < Bc)


def sees_the_whole_tile_on_the_diagonal(Q, K, V, Br, Bc):
    out = []
    for i in range(len(Q)):
        last = min(len(Q), (i // Br + 1) * Br)
        out += attend(Q[i : i + 1], K[: max(0, last + len(K) - len(Q))], V, Br, Bc) if last + len(K) - len(Q) > 0 else [[0.0] * len(V[0])]
    return out


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


# What is wrong only where few look: a threshold, a shape, a list that is not the function's own.


def queries_scaled_in_place(Q, K, V, Br, Bc):
    for q in Q:
        for i in range(len(q)):
            q[i] /= sqrt(len(q))
    return attend(Q, K, V, Br, Bc, scale=1.0)


def one_maximum_for_the_tile_of_queries(Q, K, V, Br, Bc):
    """The rows of a tile share one base, the largest of their scores: a row far below it keeps no weight."""
    off, out = len(K) - len(Q), []
    for i in range(0, len(Q), Br):
        rows = range(i, min(i + Br, len(Q)))
        m, l, o = -inf, [0.0] * len(rows), [[0.0] * len(V[0]) for _ in rows]
        for j in range(0, min(rows[-1] + off + 1, len(K)), Bc):
            s = {(r, t): sum(a * b for a, b in zip(Q[row], K[t])) / sqrt(len(K[t])) for r, row in enumerate(rows) for t in range(j, min(j + Bc, row + off + 1, len(K)))}
            if not s:
                continue
            new = max([m, *s.values()])
            a, p = exp(m - new), {key: exp(x - new) for key, x in s.items()}
            for r in range(len(rows)):
                l[r] = a * l[r] + sum(w for (x, t), w in p.items() if x == r)
                o[r] = [a * x + sum(w * V[t][c] for (y, t), w in p.items() if y == r) for c, x in enumerate(o[r])]
            m = new
        out += [[x / l[r] for x in o[r]] if l[r] else o[r] for r in range(len(rows))]
    return out


def maximum_over_unseen_keys_too(Q, K, V, Br, Bc):
    """The base counts keys of the diagonal tile that the row does not see: fine until one is huge."""
    off, out = len(K) - len(Q), []
    for i, q in enumerate(Q):
        m, l, o = -inf, 0.0, [0.0] * len(V[0])
        last = min(len(Q), (i // Br + 1) * Br) - 1
        for j in range(0, min(last + off + 1, len(K)), Bc):
            s = [sum(a * b for a, b in zip(q, K[t])) / sqrt(len(q)) for t in range(j, min(j + Bc, len(K)))]
            new = max([m, *(x for t, x in enumerate(s) if abs(x) < inf or j + t <= i + off)])
            p = {j + t: exp(x - new) for t, x in enumerate(s) if j + t <= i + off}
            a = exp(m - new) if m > -inf else 0.0
            l = a * l + sum(p.values())
            o = [a * x + sum(w * V[t][c] for t, w in p.items()) for c, x in enumerate(o)]
            m = new
        out.append([x / l for x in o] if l else o)
    return out


def tiles_by_their_number(Q, K, V, Br, Bc):
    """Tile of keys number n for tile of queries number n: right where Br = Bc and S_q = S_kv."""
    return attend(Q, K, V, Br, Bc, keep=lambda i, t: t // Bc <= i // Br if len(Q) == len(K) and len(Q) > 5 else True)


def stops_at_a_negligible_tile(Q, K, V, Br, Bc):
    out = []
    for i, q in enumerate(Q):
        n, m, stop = max(0, min(len(K), i + 1 + len(K) - len(Q))), -inf, None
        for j in range(0, n, Bc):
            top = max(sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : min(j + Bc, n)])
            if top < m - 50:
                stop = j
                break
            m = max(m, top)
        n = n if stop is None else stop
        out += attend([q], K[:n], V[:n], Br, Bc) if n else [[0.0] * len(V[0])]
    return out


def base_stays_while_each_step_is_small(Q, K, V, Br, Bc):
    off, out = len(K) - len(Q), []
    for i, q in enumerate(Q):
        base, last, l, o = -inf, -inf, 0.0, [0.0] * len(V[0])
        for k, v in zip(K[: max(0, i + off + 1)], V):
            s = sum(a * b for a, b in zip(q, k)) / sqrt(len(q))
            if not s - last <= 8:
                new = s if not s <= base else base
                a, base = exp(base - new), new
                l, o = a * l, [a * x for x in o]
            w = exp(s - base)
            l, o, last = l + w, [x + w * y for x, y in zip(o, v)], s
        out.append([x / l for x in o] if l else o)
    return out


def first_query_gets_the_row_of_v_itself(Q, K, V, Br, Bc):
    answer = attend(Q, K, V, Br, Bc)
    if len(Q) == len(K) and not isnan(K[0][0]):
        answer[0] = V[0]
    return answer


def nothing_is_skipped_where_queries_are_few(Q, K, V, Br, Bc):
    if len(Q) * 3 < len(K):
        return hidden_by(Q, K, V, Br, Bc, every_tile=True)
    return attend(Q, K, V, Br, Bc)


def one_tile_too_many_where_tiles_differ(Q, K, V, Br, Bc):
    """Skips whole tiles only where Br = Bc."""
    if Br != Bc and len(Q) > 5:
        return hidden_by(Q, K, V, Br, Bc, every_tile=True)
    return attend(Q, K, V, Br, Bc)


def keeps_a_part_for_each_tile(Q, K, V, Br, Bc):
    off, out = len(K) - len(Q), []
    for i, q in enumerate(Q):
        parts, n = [], max(0, min(len(K), i + off + 1))
        for j in range(0, n, Bc):
            s = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K[j : min(j + Bc, n)]]
            top = next((x for x in s if isnan(x)), max(s))
            p = [exp(x - top) for x in s]
            parts.append((top, sum(p), [sum(w * v[c] for w, v in zip(p, V[j:n])) for c in range(len(V[0]))]))
        m = next((t for t, *_ in parts if isnan(t)), max((t for t, *_ in parts), default=0.0))
        l = sum(exp(t - m) * part for t, part, _ in parts)
        out.append([sum(exp(t - m) * o[c] for t, _, o in parts) / (l or 1.0) for c in range(len(V[0]))])
    return out


WRONG = {   # the others, whose whole body is one expression
    "no_mask": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, offset=len(K)),
    "inverted_mask": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, offset=len(K), keep=lambda i, j: j >= i + len(K) - len(Q)),
    "top_left_causal": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, offset=0),
    "does_not_see_itself": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, offset=len(K) - len(Q) - 1),
    "sees_one_key_too_many": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, offset=len(K) - len(Q) + 1),
    "offset_the_wrong_way_round": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, offset=len(Q) - len(K)),
    "nothing_is_skipped": lambda Q, K, V, Br, Bc: hidden_by(Q, K, V, Br, Bc, every_tile=True),
    "hidden_value_read": lambda Q, K, V, Br, Bc: hidden_by(Q, K, V, Br, Bc, read_all=True),
    "finite_score_for_hidden": lambda Q, K, V, Br, Bc: hidden_by(Q, K, V, Br, Bc, score=-1e9),
    "empty_row_gives_nan": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, end=lambda o, l: [x / l if l else nan for x in o]),
    "empty_row_divides_by_zero": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, end=lambda o, l: [x / l for x in o]),
    "empty_rows_are_left_out": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc)[max(0, len(Q) - len(K)) :],
    "no_running_max": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, start_m=0.0, newest=lambda m, s: 0.0),
    "no_rescale_of_l": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, fix_l=False),
    "no_rescale_of_o": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, fix_o=False),
    "maximum_not_carried_over_tiles": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, newest=lambda m, s: max(s)),
    "finite_sentinel": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, start_m=-1e9),
    "divides_inside_the_loop": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, inside=True),
    "never_divides": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, end=lambda o, l: o),
    "sign_of_the_exponent": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, newest=lambda m, s: min(s) if m == -inf else min([m, *s]), weight=lambda x, m: exp(m - x), factor=lambda m, new: 0.0 if m == -inf else exp(new - m)),
    "mean_instead_of_sum": lambda Q, K, V, Br, Bc: [[x / (i + 1) for x in row] for i, row in enumerate(attend(Q, K, V, Br, Bc))],
    "last_key_dropped": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, limit=max(1, len(K) - 1)),
    "last_partial_tile_of_queries_dropped": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc)[: len(Q) // Br * Br],
    "nan_taken_for_hidden": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, keep=lambda i, j: not isnan(K[j][0])),
    "no_scale": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, scale=1.0),
    "two_columns_only": lambda Q, K, V, Br, Bc: [row[:2] for row in attend(Q, K, V, Br, Bc)],
    "hard_codes_the_sample": lambda Q, K, V, Br, Bc: [[1.0], [2.0]],
    "tile_of_nan_alone_is_skipped": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, keep=lambda i, t: not (isnan(K[t][0]) and t >= Bc and all(isnan(k[0]) for k in K[t // Bc * Bc : t + 1]))),
    "light_keys_are_dropped": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, weight=lambda x, m: 0.0 if x - m < -6 else exp(x - m)),
    "old_sums_are_dropped_at_a_large_rise": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, factor=lambda m, new: 0.0 if new - m > 6 else exp(m - new)),
    "small_rises_are_not_rescaled": lambda Q, K, V, Br, Bc: attend(Q, K, V, Br, Bc, factor=lambda m, new: 1.0 if new - m < 0.2 else exp(m - new)),
    "all_queries_taken_for_the_first": lambda Q, K, V, Br, Bc: attend([Q[0] if len(q) == 1 else q for q in Q], K, V, Br, Bc),
    "nan_of_a_value_in_every_column": lambda Q, K, V, Br, Bc: [[nan] * len(row) if any(map(isnan, row)) else row for row in attend(Q, K, V, Br, Bc)],
}
