"""Rung 2. One kernel: the tile of scores is used where it is made, and only o and lse are written.

Exponentials are to the base 2, which is what the hardware has: e^x = 2^(x · log2 e), and log2 e goes into the scale.
"""

import triton
import triton.language as tl

from kernels.arguments import LOG2E, outputs


@triton.jit
def flash(q, k, v, o, lse, S_q, S_kv, group, scale, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
          D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """One tile of BR rows of o: the keys pass by in tiles of BC. scale is log2(e) / sqrt(d)."""
    first, head = tl.program_id(0) * BR, tl.program_id(1).to(tl.int64)
    k += head // group * S_kv * D
    v += head // group * S_kv * D
    rows, at = first + tl.arange(0, BR), tl.arange(0, D)
    q_tile = tl.load(q + head * S_q * D + rows[:, None] * D + at[None, :], mask=rows[:, None] < S_q, other=0.0)
    m = tl.full([BR], float("-inf"), tl.float32)
    l = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, D], tl.float32)
    end = tl.minimum(S_kv, tl.maximum(0, first + BR + S_kv - S_q)) if CAUSAL else S_kv
    for j in range(0, end, BC):
        cols = j + tl.arange(0, BC)
        k_tile = tl.load(k + cols[None, :] * D + at[:, None], mask=cols[None, :] < S_kv, other=0.0)
        s = tl.dot(q_tile, k_tile, input_precision="ieee") * scale                       # [BR, BC]
        if MASKED:
            keep = cols[None, :] < S_kv
            if CAUSAL:
                keep = keep & (cols[None, :] <= rows[:, None] + S_kv - S_q)
            s = tl.where(keep, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(m_new == float("-inf"), 0.0, m_new) if MASKED else m_new         # -inf - -inf is NaN
        p = tl.exp2(s - base[:, None])
        alpha = tl.exp2(m - base)
        l = l * alpha + tl.sum(p, 1)
        v_tile = tl.load(v + cols[:, None] * D + at[None, :], mask=cols[:, None] < S_kv, other=0.0)
        acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None], input_precision="ieee")
        m = m_new
    seen = l > 0.0
    to = o + head * S_q * D + rows[:, None] * D + at[None, :]
    tl.store(to, acc / tl.where(seen, l, 1.0)[:, None], mask=rows[:, None] < S_q)
    natural = tl.where(seen, (m + tl.log2(l)) / 1.4426950408889634, float("-inf"))
    tl.store(lse + head * S_q + rows, natural, mask=rows < S_q)


def tiles(d, causal):
    return {"D": d, "BR": 128, "BC": 64, "num_warps": 8, "num_stages": 3}


def attention(q, k, v, causal=False, **choice):
    o, lse = outputs(q, k, v, causal)
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    choice = {**tiles(d, causal), **choice}
    masked = causal or S_kv % choice["BC"] != 0
    grid = triton.cdiv(S_q, choice["BR"]), B * H
    flash[grid](q, k, v, o, lse, S_q, S_kv, group, LOG2E * d**-0.5, causal, masked, **choice)
    return o, lse
