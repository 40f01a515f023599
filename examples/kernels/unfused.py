"""Rung 1. Attention as three kernels: scores, softmax, output. The S x S matrix lies in device memory between them.

What a rung computes is one function, attention(q, k, v, causal) -> (o, lse): shapes in arguments.py, lse = m + ln l.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import outputs


@triton.jit
def scores(q, k, s, S_q, S_kv, group, scale, D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """One tile of s = q kᵀ · scale."""
    head = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    cols = tl.program_id(1) * BC + tl.arange(0, BC)
    at = tl.arange(0, D)
    q_tile = tl.load(q + head * S_q * D + rows[:, None] * D + at[None, :], mask=rows[:, None] < S_q, other=0.0)
    k += head // group * S_kv * D
    k_tile = tl.load(k + cols[None, :] * D + at[:, None], mask=cols[None, :] < S_kv, other=0.0)
    s_tile = tl.dot(q_tile, k_tile, input_precision="ieee") * scale                       # [BR, BC]
    inside = (rows[:, None] < S_q) & (cols[None, :] < S_kv)
    tl.store(s + head * S_q * S_kv + rows[:, None].to(tl.int64) * S_kv + cols[None, :], s_tile, mask=inside)


@triton.jit
def softmax(s, lse, S_q, S_kv, CAUSAL: tl.constexpr, BC: tl.constexpr):
    """One row of p = softmax(s), in place: once for m and l, once to write."""
    head, row = tl.program_id(1).to(tl.int64), tl.program_id(0)
    s += (head * S_q + row) * S_kv
    end = tl.minimum(S_kv, row + 1 + S_kv - S_q) if CAUSAL else S_kv                      # keys that this row sees
    m, l = float("-inf"), 0.0
    for j in range(0, end, BC):
        cols = j + tl.arange(0, BC)
        s_row = tl.load(s + cols, mask=cols < end, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(s_row, 0))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(s_row - m_new), 0)
        m = m_new
    for j in range(0, S_kv, BC):
        cols = j + tl.arange(0, BC)
        s_row = tl.load(s + cols, mask=cols < end, other=float("-inf")).to(tl.float32)
        p_row = tl.where(cols < end, tl.exp(s_row - m) / l, 0.0)
        tl.store(s + cols, p_row, mask=cols < S_kv)
    tl.store(lse + head * S_q + row, tl.where(l == 0.0, float("-inf"), m + tl.log(l)))


@triton.jit
def output(p, v, o, S_q, S_kv, group, D: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """One tile of o = p v."""
    head = tl.program_id(1).to(tl.int64)
    rows, at = tl.program_id(0) * BR + tl.arange(0, BR), tl.arange(0, D)
    acc = tl.zeros([BR, D], tl.float32)
    p += head * S_q * S_kv
    v += head // group * S_kv * D
    for j in range(0, S_kv, BC):
        cols = j + tl.arange(0, BC)
        inside = (rows[:, None] < S_q) & (cols[None, :] < S_kv)
        p_tile = tl.load(p + rows[:, None].to(tl.int64) * S_kv + cols[None, :], mask=inside, other=0.0)
        v_tile = tl.load(v + cols[:, None] * D + at[None, :], mask=cols[:, None] < S_kv, other=0.0)
        acc = tl.dot(p_tile, v_tile, acc, input_precision="ieee")
    tl.store(o + head * S_q * D + rows[:, None] * D + at[None, :], acc, mask=rows[:, None] < S_q)


def attention(q, k, v, causal=False):
    o, lse = outputs(q, k, v, causal)
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    s = torch.empty(B, H, S_q, S_kv, dtype=q.dtype, device=q.device)
    tiles = {"D": d, "BR": 128, "BC": 128 if q.dtype != torch.float32 else 64}
    rows, cols = triton.cdiv(S_q, tiles["BR"]), triton.cdiv(S_kv, tiles["BC"])
    scores[rows, cols, B * H](q, k, s, S_q, S_kv, group, d**-0.5, **tiles, num_warps=8)
    softmax[S_q, B * H](s, lse, S_q, S_kv, causal, BC=1024, num_warps=4)
    output[rows, B * H](s, v, o, S_q, S_kv, group, **{**tiles, "BC": 64}, num_warps=8, num_stages=3)
    return o, lse
