"""Rung 7. One block a multiprocessor stays for the whole launch: its ring never runs empty between two tiles of o.

The blocks take the tiles of o in turns, forth and back like a snake, under a causal mask the longest first, so that
all end at about the same time. The first scores of a tile of o are asked for with the last output of the one before.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.arguments import LOG2E, outputs

# As TMA writes and wgmma reads.
SWIZZLED = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2))

@gluon.jit
def span(first, S_q, S_kv, CAUSAL: gl.constexpr, BR: gl.constexpr, BC: gl.constexpr):
    """(tiles of keys that every row sees, tiles of which some row sees some key), for BR rows from `first` on."""
    seen_by_all, end = S_kv, S_kv
    if CAUSAL:
        seen_by_all = gl.minimum(S_kv, gl.maximum(0, first + 1 + S_kv - S_q))
        end = gl.minimum(S_kv, gl.maximum(0, first + BR + S_kv - S_q))
    return seen_by_all // BC, gl.maximum(1, gl.cdiv(end, BC))


@gluon.jit
def turns(S_q, heads, BR: gl.constexpr):
    """How many tiles of o this block gets."""
    total, P = gl.cdiv(S_q, BR) * heads, gl.num_programs(0)
    last = total // P
    return last + gl.where(gl.where(last % 2 == 0, gl.program_id(0), P - 1 - gl.program_id(0)) < total % P, 1, 0)


@gluon.jit
def place(turn, S_q, heads, BR: gl.constexpr, SIDE: gl.constexpr):
    """(head, first row) of this block's tile of o in a turn: SIDE heads side by side, their last rows first."""
    tiles, P = gl.cdiv(S_q, BR), gl.num_programs(0)
    i = turn * P + gl.where(turn % 2 == 0, gl.program_id(0), P - 1 - gl.program_id(0))
    base = i // (tiles * SIDE) * SIDE
    side, i = gl.minimum(SIDE, heads - base), i % (tiles * SIDE)
    return base + i % side, (tiles - 1 - i // side) * BR


@gluon.jit
def producer(q, k, v, q_s, k_s, v_s, q_ready, q_free, ready, free, heads, group, S_q, S_kv,
             CAUSAL: gl.constexpr, BR: gl.constexpr, SIDE: gl.constexpr):
    """One stream over all tiles: each k with the v before it, and the q of the next tile of o while this one is used.

    The first v and the last k lie beyond the ends: they are zeros, and no memory is read.
    """
    Q_STAGES: gl.constexpr = q_s.shape[0] // 2
    STAGES: gl.constexpr = k_s.shape[0]
    BC: gl.constexpr = k_s.shape[1]
    D: gl.constexpr = k_s.shape[2]
    t, v_head, v_row, count = 0, 0, -BC, turns(S_q, heads, BR)
    for turn in range(count + 1):
        head, first = place(gl.minimum(turn, count - 1), S_q, heads, BR, SIDE)
        full, here = span(first, S_q, S_kv, CAUSAL, BR, BC)
        for j in range(gl.where(turn < count, here, 1)):
            at = t % STAGES
            mbarrier.wait(free.index(at), (t // STAGES & 1) ^ 1)
            mbarrier.expect(ready.index(at), 2 * BC * D * 2)
            k_head, k_row = head // group, gl.where(turn < count, j * BC, S_kv)
            tma.async_copy_global_to_shared(k, [k_head, k_row, 0], ready.index(at), k_s.index(at).reshape([1, BC, D]))
            tma.async_copy_global_to_shared(v, [v_head, v_row, 0], ready.index(at), v_s.index(at).reshape([1, BC, D]))
            t, v_head, v_row = t + 1, k_head, k_row
            if (j == 0) & (turn < count):
                for half in gl.static_range(2):
                    at, row = turn % Q_STAGES * 2 + half, first + half * BR // 2
                    mbarrier.wait(q_free.index(at), (turn // Q_STAGES & 1) ^ 1)
                    mbarrier.expect(q_ready.index(at), BR // 2 * D * 2)
                    q_tile = q_s.index(at).reshape([1, BR // 2, D])
                    tma.async_copy_global_to_shared(q, [head, row, 0], q_ready.index(at), q_tile)


@gluon.jit
def softmax(s, m, rows, j, S_q, S_kv, scale, CAUSAL: gl.constexpr, MASKED: gl.constexpr):
    """(p, the new m, the factor for what was summed up before) of a tile of scores."""
    if MASKED:
        BC: gl.constexpr = s.shape[1]
        cols = j * BC + gl.arange(0, BC, layout=gl.SliceLayout(0, s.type.layout))
        keep = gl.expand_dims(cols, 0) < S_kv
        if CAUSAL:
            keep = keep & (gl.expand_dims(cols, 0) <= gl.expand_dims(rows, 1) + (S_kv - S_q))
        s = gl.where(keep, s, float("-inf"))
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    base = gl.where(m_new == float("-inf"), 0.0, m_new) if MASKED else m_new
    return gl.exp2(s * scale - gl.expand_dims(base, 1)), m_new, gl.exp2(m - base)


@gluon.jit
def by_thread(p):
    """The sums of p [rows, BC] over the columns of each thread: [rows, 8], and no thread asks another."""
    ROWS: gl.constexpr = p.shape[0]
    PARTS: gl.constexpr = p.shape[1] // 8
    return gl.sum(gl.reshape(p, [ROWS, PARTS, 8]), 1)


@gluon.jit
def by_thread(p):
    """The sums of p [rows, BC] over the columns of each thread: [rows, 8], and no thread asks another."""
    ROWS: gl.constexpr = p.shape[0]
    PARTS: gl.constexpr = p.shape[1] // 8
    return gl.sum(gl.reshape(p, [ROWS, PARTS, 8]), 1)


@gluon.jit
def ask(q_s, k_s, v_s, ready, t, p, acc):
    """The scores of the next tile of keys as soon as they are there, and acc + p v of the one before on its way."""
    STAGES: gl.constexpr = k_s.shape[0]
    ROWS: gl.constexpr = q_s.shape[0]
    BC: gl.constexpr = k_s.shape[1]
    mbarrier.wait(ready.index(t % STAGES), t // STAGES & 1)
    zeros = gl.zeros([ROWS, BC], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BC, 16]))
    s = warpgroup_mma(q_s, k_s.index(t % STAGES).permute((1, 0)), zeros, use_acc=False, is_async=True)
    acc = warpgroup_mma(p, v_s.index(t % STAGES), acc, is_async=True)
    return warpgroup_mma_wait(1, [s]), acc


@gluon.jit
def tile(q_s, k_s, v_s, q_done, ready, free, t, j, here, rows, m, l, acc, p, S_q, S_kv, scale,
         CAUSAL: gl.constexpr, LAST: gl.constexpr):
    """m, l and p after tile j of the keys, acc after tile j - 1 and scaled for m."""
    s, acc = ask(q_s, k_s, v_s, ready, t, p, acc)
    if LAST:
        mbarrier.arrive(q_done, pred=j == here - 1)
    weights, m, alpha = softmax(s, m, rows, j, S_q, S_kv, scale, CAUSAL, LAST)
    l = l * gl.expand_dims(gl.convert_layout(alpha, gl.SliceLayout(1, l.type.layout)), 1) + by_thread(weights)
    acc, p = warpgroup_mma_wait(0, [acc, p])
    mbarrier.arrive(free.index(t % k_s.shape[0]))
    acc *= gl.expand_dims(gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout)), 1)
    return m, l, acc, gl.convert_layout(weights.to(v_s.dtype), gl.DotOperandLayout(0, acc.type.layout, 2))


@gluon.jit
def consumer(HALF: gl.constexpr, q_s, k_s, v_s, q_ready, q_free, ready, free, o, lse, heads, S_q, S_kv, scale,
             CAUSAL: gl.constexpr, BR: gl.constexpr, SIDE: gl.constexpr):
    """Half of the rows of every tile of o. At its first tile of keys the output of the one before is on its way."""
    Q_STAGES: gl.constexpr = q_s.shape[0] // 2
    STAGES: gl.constexpr = k_s.shape[0]
    BC: gl.constexpr = k_s.shape[1]
    D: gl.constexpr = k_s.shape[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BC, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    NONE: gl.constexpr = float("-inf")
    lane = HALF * BR // 2 + gl.arange(0, BR // 2, layout=gl.SliceLayout(1, S_LAYOUT))
    none = gl.full([BR // 2], NONE, gl.float32, gl.SliceLayout(1, S_LAYOUT))
    m, l = none, by_thread(gl.zeros([BR // 2, BC], gl.float32, S_LAYOUT))
    acc, p = gl.zeros([BR // 2, D], gl.float32, O_LAYOUT), gl.zeros([BR // 2, BC], v_s.dtype, P_LAYOUT)
    t, done_head, done_row = 0, 0, S_q                     # rows from S_q on are not stored
    for turn in range(turns(S_q, heads, BR)):
        head, first = place(turn, S_q, heads, BR, SIDE)
        full, here = span(first, S_q, S_kv, CAUSAL, BR, BC)
        rows = first + lane
        q_at = turn % Q_STAGES * 2 + HALF
        q_tile, q_done = q_s.index(q_at), q_free.index(q_at)
        mbarrier.wait(q_ready.index(q_at), turn // Q_STAGES & 1)
        s, acc = ask(q_tile, k_s, v_s, ready, t, p, acc)
        mbarrier.arrive(q_done, pred=here == 1)
        weights, m_first, alpha = softmax(s, none, rows, 0, S_q, S_kv, scale, CAUSAL, True)
        acc, p = warpgroup_mma_wait(0, [acc, p])
        mbarrier.arrive(free.index(t % STAGES))
        store(o, lse, done_head, done_row + lane, m, l, acc, S_q)
        m, l, p = m_first, by_thread(weights), gl.convert_layout(weights.to(v_s.dtype), P_LAYOUT)
        acc = gl.zeros([BR // 2, D], gl.float32, O_LAYOUT)
        masked = gl.maximum(1, gl.minimum(full, here - 1))
        for j in range(1, masked):
            m, l, acc, p = tile(q_tile, k_s, v_s, q_done, ready, free, t + j, j, here, rows, m, l, acc, p,
                                S_q, S_kv, scale, CAUSAL, False)
        for j in range(masked, here):
            m, l, acc, p = tile(q_tile, k_s, v_s, q_done, ready, free, t + j, j, here, rows, m, l, acc, p,
                                S_q, S_kv, scale, CAUSAL, True)
        t, done_head, done_row = t + here, head, first
    mbarrier.wait(ready.index(t % STAGES), t // STAGES & 1)
    acc = warpgroup_mma(p, v_s.index(t % STAGES), acc, is_async=True)
    acc = warpgroup_mma_wait(0, [acc])
    store(o, lse, done_head, done_row + lane, m, l, acc, S_q)


@gluon.jit
def store(o, lse, head, rows, m, l, acc, S_q):
    """o and lse of these rows, from the registers in which they lie."""
    l = gl.convert_layout(gl.sum(l, 1), m.type.layout)
    seen = l > 0.0
    natural = gl.where(seen, (m + gl.log2(l)) / 1.4426950408889634, float("-inf"))
    gl.store(lse + head * S_q + rows, natural, mask=rows < S_q)
    D: gl.constexpr = acc.shape[1]
    BY_ROW: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    rows, l = gl.convert_layout(rows, BY_ROW), gl.convert_layout(gl.where(seen, l, 1.0), BY_ROW)
    cols = gl.arange(0, D, layout=gl.SliceLayout(0, acc.type.layout))
    to = o + gl.to_tensor(head).to(gl.int64) * S_q * D + gl.expand_dims(rows * D, 1) + gl.expand_dims(cols, 0)
    gl.store(to, (acc / gl.expand_dims(l, 1)).to(o.dtype.element_ty), mask=gl.expand_dims(rows < S_q, 1))


@gluon.jit
def flash(q, k, v, o, lse, S_q, S_kv, heads, group, scale, CAUSAL: gl.constexpr,
          D: gl.constexpr, BR: gl.constexpr, BC: gl.constexpr, Q_STAGES: gl.constexpr, STAGES: gl.constexpr,
          SIDE: gl.constexpr, REGISTERS: gl.constexpr):
    """Shared memory and barriers of a block, and its three partitions of four warps."""
    q_s = gl.allocate_shared_memory(q.dtype, [2 * Q_STAGES, BR // 2, D], SWIZZLED)
    k_s = gl.allocate_shared_memory(k.dtype, [STAGES, BC, D], SWIZZLED)
    v_s = gl.allocate_shared_memory(v.dtype, [STAGES, BC, D], SWIZZLED)
    q_ready = gl.allocate_shared_memory(gl.int64, [2 * Q_STAGES, 1], mbarrier.MBarrierLayout())
    q_free = gl.allocate_shared_memory(gl.int64, [2 * Q_STAGES, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for at in gl.static_range(2 * Q_STAGES):
        mbarrier.init(q_ready.index(at), count=1)
        mbarrier.init(q_free.index(at), count=1)           # each half of q has one reader
    for at in gl.static_range(STAGES):
        mbarrier.init(ready.index(at), count=1)
        mbarrier.init(free.index(at), count=2)             # both consumers are done
    gl.warp_specialize([
        (producer, (q, k, v, q_s, k_s, v_s, q_ready, q_free, ready, free, heads, group, S_q, S_kv, CAUSAL, BR, SIDE)),
        (consumer, (0, q_s, k_s, v_s, q_ready, q_free, ready, free, o, lse, heads, S_q, S_kv, scale, CAUSAL, BR, SIDE)),
        (consumer, (1, q_s, k_s, v_s, q_ready, q_free, ready, free, o, lse, heads, S_q, S_kv, scale, CAUSAL, BR, SIDE)),
    ], [4, 4], [REGISTERS, REGISTERS])                     # the producer keeps what is left of 3 x 168


def tiles(d, causal):
    size = {"D": d, "BR": 128, "BC": 128, "Q_STAGES": 2, "STAGES": 2 if d == 128 else 4}
    return {**size, "SIDE": 28 if causal else 1, "REGISTERS": 240 if d == 128 else 216}


def attention(q, k, v, causal=False, **choice):
    o, lse = outputs(q, k, v, causal)
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    choice = {**tiles(d, causal), **choice}
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count if q.is_cuda else 132
    blocks = min(triton.cdiv(S_q, choice["BR"]) * B * H, sms)
    q, k, v = (described(x, rows) for x, rows in ((q, choice["BR"] // 2), (k, choice["BC"]), (v, choice["BC"])))
    scale = LOG2E * d**-0.5
    flash[blocks,](q, k, v, o, lse, S_q, S_kv, B * H, group, scale, causal, **choice, num_warps=4, maxnreg=168)
    return o, lse


def described(x, rows):
    """x [B, H, S, d] for the copy engine: tiles of `rows` rows of one head. Rows beyond S are read as zeros."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=3)
    return TensorDescriptor.from_tensor(x.view(-1, *x.shape[2:]), [1, rows, x.shape[3]], layout)
