"""Rung 4. Tiles come by TMA: a thread asks for a tile by its coordinates, the copy engine does addresses and edges."""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels.arguments import LOG2E, outputs


@triton.jit
def tile(q_tile, k, v, kv_head, rows, j, m, l, acc, S_q, S_kv, scale, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
         D: tl.constexpr, BC: tl.constexpr):
    """m, l and acc after the keys j … j + BC - 1."""
    k_tile = k.load([kv_head, j, 0]).reshape(BC, D)                                      # beyond the end: zeros
    s = tl.dot(q_tile, k_tile.T, input_precision="ieee")                                 # [BR, BC]
    if MASKED:
        cols = j + tl.arange(0, BC)
        keep = cols[None, :] < S_kv
        if CAUSAL:
            keep = keep & (cols[None, :] <= rows[:, None] + S_kv - S_q)
        s = tl.where(keep, s, float("-inf"))
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    base = tl.where(m_new == float("-inf"), 0.0, m_new) if MASKED else m_new             # -inf - -inf is NaN
    p = tl.exp2(s * scale - base[:, None])
    alpha = tl.exp2(m - base)
    l = l * alpha + tl.sum(p, 1)
    v_tile = v.load([kv_head, j, 0]).reshape(BC, D)
    acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None], input_precision="ieee")
    return m_new, l, acc


@triton.jit
def flash(q, k, v, o, lse, S_q, S_kv, group, scale, CAUSAL: tl.constexpr,
          D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr, FLAG: tl.constexpr):
    """One tile of BR rows of o: first the keys that every row sees, then those of which some rows see some."""
    first, head = (tl.num_programs(0) - 1 - tl.program_id(0)) * BR, tl.program_id(1)
    kv_head, rows = head // group, first + tl.arange(0, BR)
    q_tile = q.load([head, first, 0]).reshape(BR, D)
    m = tl.full([BR], float("-inf"), tl.float32)
    l = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, D], tl.float32)
    seen_by_all, end = S_kv, S_kv
    if CAUSAL:
        seen_by_all = tl.minimum(S_kv, tl.maximum(0, first + 1 + S_kv - S_q))
        end = tl.minimum(S_kv, tl.maximum(0, first + BR + S_kv - S_q))
    full = seen_by_all // BC * BC
    for j in tl.range(0, full, BC, warp_specialize=FLAG):
        m, l, acc = tile(q_tile, k, v, kv_head, rows, j, m, l, acc, S_q, S_kv, scale, CAUSAL, False, D, BC)
    for j in tl.range(full, end, BC, warp_specialize=FLAG):
        m, l, acc = tile(q_tile, k, v, kv_head, rows, j, m, l, acc, S_q, S_kv, scale, CAUSAL, True, D, BC)
    seen = l > 0.0
    to = o + head.to(tl.int64) * S_q * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(to, acc / tl.where(seen, l, 1.0)[:, None], mask=rows[:, None] < S_q)
    natural = tl.where(seen, (m + tl.log2(l)) / 1.4426950408889634, float("-inf"))
    tl.store(lse + head * S_q + rows, natural, mask=rows < S_q)


def tiles(d, causal):
    """The fastest of those that spill nothing, on an H200."""
    return {"D": d, "BR": 64, "BC": 64, "num_warps": 4, "num_stages": 3, "FLAG": False}


def attention(q, k, v, causal=False, **choice):
    o, lse = outputs(q, k, v, causal)
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    choice = {**tiles(d, causal), **choice}
    q, k, v = (TensorDescriptor.from_tensor(x.view(-1, *x.shape[2:]), [1, rows, d])
               for x, rows in ((q, choice["BR"]), (k, choice["BC"]), (v, choice["BC"])))
    grid = triton.cdiv(S_q, choice["BR"]), B * H                                         # the longest rows start first
    flash[grid](q, k, v, o, lse, S_q, S_kv, group, LOG2E * d**-0.5, causal, **choice)
    return o, lse
