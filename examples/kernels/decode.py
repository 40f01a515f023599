"""Decode: one query a sequence. The keys are cut into parts that fill the card; the heads of a group share each tile.

Every part gives (o, lse) over its own keys, and one merge makes one of them: that of split_kv.py, in base 2. The heads
of a group read the same k and v: they are packed as the rows of one tile, filled up to 16, the least of tensor cores.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import LOG2E, outputs, refuse


@triton.jit
def part(q, k, v, o, lse, S_kv, group, scale, keys, D: tl.constexpr, ROWS: tl.constexpr, BC: tl.constexpr):
    """o and lse (base 2) of one group of heads over the keys of one part."""
    at, head, parts = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.num_programs(0)
    k += head * S_kv * D
    v += head * S_kv * D
    rows, col = tl.arange(0, ROWS), tl.arange(0, D)
    q_tile = tl.load(q + (head * group + rows[:, None]) * D + col[None, :], mask=rows[:, None] < group, other=0.0)
    m = tl.full([ROWS], float("-inf"), tl.float32)
    l = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, D], tl.float32)
    end = tl.minimum(S_kv, (at + 1) * keys)
    for j in range(at * keys, end, BC):
        cols = j + tl.arange(0, BC)
        k_tile = tl.load(k + cols[None, :] * D + col[:, None], mask=cols[None, :] < end, other=0.0)
        s = tl.dot(q_tile, k_tile, input_precision="ieee") * scale                       # [ROWS, BC]
        s = tl.where(cols[None, :] < end, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        v_tile = tl.load(v + cols[:, None] * D + col[None, :], mask=cols[:, None] < end, other=0.0)
        acc = tl.dot(p.to(v_tile.dtype), v_tile, acc * alpha[:, None], input_precision="ieee")
        m = m_new
    to = (head * group + rows) * parts + at
    tl.store(o + to[:, None] * D + col[None, :], acc / l[:, None], mask=rows[:, None] < group)
    tl.store(lse + to, m + tl.log2(l), mask=rows < group)


@triton.jit
def merge(o_parts, lse_parts, o, lse, parts, D: tl.constexpr, PARTS: tl.constexpr):
    """One head: weights 2^(lse - m), as in split_kv.py."""
    head = tl.program_id(0).to(tl.int64)
    at, col = tl.arange(0, PARTS), tl.arange(0, D)
    lse_part = tl.load(lse_parts + head * parts + at, mask=at < parts, other=float("-inf"))
    m = tl.max(lse_part, 0)
    w = tl.exp2(lse_part - m)
    l = tl.sum(w, 0)
    o_part = tl.load(o_parts + (head * parts + at[:, None]) * D + col[None, :], mask=at[:, None] < parts, other=0.0)
    tl.store(o + head * D + col, tl.sum(o_part * w[:, None], 0) / l)
    tl.store(lse + head, (m + tl.log2(l)) / 1.4426950408889634)


def cut(heads, tiles, places):
    """The least number of parts that keeps `places` blocks at a time as busy as any number does, nearly."""
    def busy(parts):
        blocks = heads * parts
        return blocks / (triton.cdiv(blocks, places) * places)

    several = range(1, min(tiles, 128) + 1)
    best = max(map(busy, several))
    return next(parts for parts in several if busy(parts) >= 0.9 * best)


def tiles(d):
    return {"D": d, "BC": 128, "num_warps": 4, "num_stages": 3 if d == 128 else 6}


def attention(q, k, v, causal=False, parts=None, places=1, **choice):
    """S_q = 1: with the mask at the bottom right the one query sees every key, causal or not."""
    o, lse = outputs(q, k, v, causal)
    refuse(q.shape[2] != 1, "q", f"has S = {q.shape[2]}; decode has one query a sequence")
    (B, H, _, d), H_kv, S_kv = q.shape, k.shape[1], k.shape[2]
    refuse(H // H_kv > 64, "q", f"has {H // H_kv} heads a group; at most 64 are packed")
    choice = {**tiles(d), **choice}
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else 132
    count = triton.cdiv(S_kv, choice["BC"])
    keys = triton.cdiv(count, parts or cut(B * H_kv, count, places * sms)) * choice["BC"]
    parts, rows = triton.cdiv(S_kv, keys), max(16, triton.next_power_of_2(H // H_kv))
    o_parts = torch.empty(B, H, parts, d, dtype=torch.float32, device=q.device)
    lse_parts = torch.empty(B, H, parts, dtype=torch.float32, device=q.device)
    part[parts, B * H_kv](q, k, v, o_parts, lse_parts, S_kv, H // H_kv, LOG2E * d**-0.5, keys, ROWS=rows, **choice)
    merge[B * H,](o_parts, lse_parts, o, lse, parts, D=d, PARTS=triton.next_power_of_2(parts), num_warps=4)
    return o, lse
