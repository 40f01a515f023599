"""Rung 3. Only the tiles on the diagonal and at the edge pay for a mask, and the size of the tiles fits the card."""

import triton
import triton.language as tl

from kernels.arguments import LOG2E, outputs


@triton.jit
def tile(q_tile, k, v, rows, j, m, l, acc, S_q, S_kv, scale, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
         D: tl.constexpr, BC: tl.constexpr):
    """m, l and acc after the keys j … j + BC - 1."""
    cols, at = j + tl.arange(0, BC), tl.arange(0, D)
    inside = cols < S_kv if MASKED else cols >= 0
    k_tile = tl.load(k + cols[None, :] * D + at[:, None], mask=inside[None, :], other=0.0)
    s = tl.dot(q_tile, k_tile, input_precision="ieee")                               # [BR, BC]
    if MASKED:
        keep = inside[None, :]
        if CAUSAL:
            keep = keep & (cols[None, :] <= rows[:, None] + S_kv - S_q)
        s = tl.where(keep, s, float("-inf"))
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    base = tl.where(m_new == float("-inf"), 0.0, m_new) if MASKED else m_new             # -inf - -inf is NaN
    p = tl.exp2(s * scale - base[:, None])
    alpha = tl.exp2(m - base)
    l = l * alpha + tl.sum(p, 1)
    v_tile = tl.load(v + cols[:, None] * D + at[None, :], mask=inside[:, None], other=0.0)
    acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None], input_precision="ieee")
    return m_new, l, acc


@triton.jit
def flash(q, k, v, o, lse, S_q, S_kv, group, scale, CAUSAL: tl.constexpr,
          D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """One tile of BR rows of o: first the keys that every row sees, then those of which some rows see some."""
    first, head = (tl.num_programs(0) - 1 - tl.program_id(0)) * BR, tl.program_id(1).to(tl.int64)
    k += head // group * S_kv * D
    v += head // group * S_kv * D
    rows, at = first + tl.arange(0, BR), tl.arange(0, D)
    q_tile = tl.load(q + head * S_q * D + rows[:, None] * D + at[None, :], mask=rows[:, None] < S_q, other=0.0)
    m = tl.full([BR], float("-inf"), tl.float32)
    l = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, D], tl.float32)
    seen_by_all, end = S_kv, S_kv
    if CAUSAL:
        seen_by_all = tl.minimum(S_kv, tl.maximum(0, first + 1 + S_kv - S_q))
        end = tl.minimum(S_kv, tl.maximum(0, first + BR + S_kv - S_q))
    full = seen_by_all // BC * BC
    for j in range(0, full, BC):
        m, l, acc = tile(q_tile, k, v, rows, j, m, l, acc, S_q, S_kv, scale, CAUSAL, False, D, BC)
    for j in range(full, end, BC):
        m, l, acc = tile(q_tile, k, v, rows, j, m, l, acc, S_q, S_kv, scale, CAUSAL, True, D, BC)
    seen = l > 0.0
    to = o + head * S_q * D + rows[:, None] * D + at[None, :]
    tl.store(to, acc / tl.where(seen, l, 1.0)[:, None], mask=rows[:, None] < S_q)
    natural = tl.where(seen, (m + tl.log2(l)) / 1.4426950408889634, float("-inf"))
    tl.store(lse + head * S_q + rows, natural, mask=rows < S_q)


def tiles(d, causal):
    """The fastest of those that spill nothing, on an H200."""
    return {"D": d, "BR": 128, "BC": 64, "num_warps": 8, "num_stages": 4}


def attention(q, k, v, causal=False, **choice):
    o, lse = outputs(q, k, v, causal)
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    choice = {**tiles(d, causal), **choice}
    grid = triton.cdiv(S_q, choice["BR"]), B * H                                         # the longest rows start first
    flash[grid](q, k, v, o, lse, S_q, S_kv, group, LOG2E * d**-0.5, causal, **choice)
    return o, lse
