"""Rung 6. The tensor cores do not wait for the softmax: scores of tile j are asked for with the output of tile j - 1.

k of tile j and v of tile j - 1 are needed at the same moment, so they share a place and a barrier. Each thread sums up
its own columns; the four threads of a row add theirs once, at the end.
"""

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
def producer(q, k, v, q_s, k_s, v_s, q_ready, ready, free, first, head, kv_head, S_q, S_kv,
             CAUSAL: gl.constexpr, BR: gl.constexpr):
    """Asks for q once, then for k of tile j and v of tile j - 1 whenever both consumers are done with what lay there.

    The first v and the last k lie beyond the ends: they are zeros, and no memory is read.
    """
    STAGES: gl.constexpr = k_s.shape[0]
    BC: gl.constexpr = k_s.shape[1]
    D: gl.constexpr = k_s.shape[2]
    full, count = span(first, S_q, S_kv, CAUSAL, BR, BC)
    mbarrier.expect(q_ready, BR * D * 2)
    for half in gl.static_range(2):
        q_tile = q_s.index(half).reshape([1, BR // 2, D])
        tma.async_copy_global_to_shared(q, [head, first + half * BR // 2, 0], q_ready, q_tile)
    for j in range(count + 1):
        at = j % STAGES
        mbarrier.wait(free.index(at), (j // STAGES & 1) ^ 1)
        mbarrier.expect(ready.index(at), 2 * BC * D * 2)
        k_row = gl.where(j < count, j * BC, S_kv)
        tma.async_copy_global_to_shared(k, [kv_head, k_row, 0], ready.index(at), k_s.index(at).reshape([1, BC, D]))
        v_row = (j - 1) * BC
        tma.async_copy_global_to_shared(v, [kv_head, v_row, 0], ready.index(at), v_s.index(at).reshape([1, BC, D]))


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
def tile(q_s, k_s, v_s, ready, free, j, rows, m, l, acc, p, S_q, S_kv, scale,
         CAUSAL: gl.constexpr, MASKED: gl.constexpr):
    """m, l and p after tile j of the keys, acc after tile j - 1 and scaled for m."""
    STAGES: gl.constexpr = k_s.shape[0]
    ROWS: gl.constexpr = q_s.shape[0]
    BC: gl.constexpr = k_s.shape[1]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BC, 16])
    at = j % STAGES
    mbarrier.wait(ready.index(at), j // STAGES & 1)
    zeros = gl.zeros([ROWS, BC], gl.float32, S_LAYOUT)
    s = warpgroup_mma(q_s, k_s.index(at).permute((1, 0)), zeros, use_acc=False, is_async=True)
    acc = warpgroup_mma(p, v_s.index(at), acc, is_async=True)
    s = warpgroup_mma_wait(1, [s])                         # acc is still on its way
    weights, m, alpha = softmax(s, m, rows, j, S_q, S_kv, scale, CAUSAL, MASKED)
    l = l * gl.expand_dims(gl.convert_layout(alpha, gl.SliceLayout(1, l.type.layout)), 1) + by_thread(weights)
    acc, p = warpgroup_mma_wait(0, [acc, p])
    mbarrier.arrive(free.index(at))
    acc *= gl.expand_dims(gl.convert_layout(alpha, gl.SliceLayout(1, acc.type.layout)), 1)
    return m, l, acc, gl.convert_layout(weights.to(v_s.dtype), gl.DotOperandLayout(0, acc.type.layout, 2))


@gluon.jit
def consumer(HALF: gl.constexpr, q_s, k_s, v_s, q_ready, ready, free, o, lse, first, head, S_q, S_kv, scale,
             CAUSAL: gl.constexpr, BR: gl.constexpr):
    """Half of the rows: the scores of the first tile, then scores, softmax and output, the output one tile behind."""
    STAGES: gl.constexpr = k_s.shape[0]
    BC: gl.constexpr = k_s.shape[1]
    D: gl.constexpr = k_s.shape[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BC, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    full, count = span(first, S_q, S_kv, CAUSAL, BR, BC)
    first += HALF * BR // 2
    rows = first + gl.arange(0, BR // 2, layout=gl.SliceLayout(1, S_LAYOUT))
    m = gl.full([BR // 2], float("-inf"), gl.float32, gl.SliceLayout(1, S_LAYOUT))
    acc = gl.zeros([BR // 2, D], gl.float32, O_LAYOUT)
    mbarrier.wait(q_ready, 0)
    mbarrier.wait(ready.index(0), 0)
    zeros = gl.zeros([BR // 2, BC], gl.float32, S_LAYOUT)
    q_tile = q_s.index(HALF)
    s = warpgroup_mma(q_tile, k_s.index(0).permute((1, 0)), zeros, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, [s])
    mbarrier.arrive(free.index(0))
    weights, m, alpha = softmax(s, m, rows, 0, S_q, S_kv, scale, CAUSAL, True)
    l, p = by_thread(weights), gl.convert_layout(weights.to(v_s.dtype), gl.DotOperandLayout(0, O_LAYOUT, 2))
    for j in range(1, full):
        m, l, acc, p = tile(q_tile, k_s, v_s, ready, free, j, rows, m, l, acc, p, S_q, S_kv, scale, CAUSAL, False)
    for j in range(gl.maximum(1, full), count):
        m, l, acc, p = tile(q_tile, k_s, v_s, ready, free, j, rows, m, l, acc, p, S_q, S_kv, scale, CAUSAL, True)
    mbarrier.wait(ready.index(count % STAGES), count // STAGES & 1)
    acc = warpgroup_mma(p, v_s.index(count % STAGES), acc, is_async=True)
    acc = warpgroup_mma_wait(0, [acc])
    l = gl.convert_layout(gl.sum(l, 1), gl.SliceLayout(1, S_LAYOUT))
    store(o, lse, head, rows, m, l, acc, S_q)


@gluon.jit
def store(o, lse, head, rows, m, l, acc, S_q):
    """o and lse of these rows, from the registers in which they lie."""
    seen = l > 0.0
    natural = gl.where(seen, (m + gl.log2(l)) / 1.4426950408889634, float("-inf"))
    gl.store(lse + head * S_q + rows, natural, mask=rows < S_q)
    D: gl.constexpr = acc.shape[1]
    BY_ROW: gl.constexpr = gl.SliceLayout(1, acc.type.layout)
    rows, l = gl.convert_layout(rows, BY_ROW), gl.convert_layout(gl.where(seen, l, 1.0), BY_ROW)
    cols = gl.arange(0, D, layout=gl.SliceLayout(0, acc.type.layout))
    to = o + head.to(gl.int64) * S_q * D + gl.expand_dims(rows * D, 1) + gl.expand_dims(cols, 0)
    gl.store(to, (acc / gl.expand_dims(l, 1)).to(o.dtype.element_ty), mask=gl.expand_dims(rows < S_q, 1))


@gluon.jit
def flash(q, k, v, o, lse, S_q, S_kv, group, scale, CAUSAL: gl.constexpr,
          D: gl.constexpr, BR: gl.constexpr, BC: gl.constexpr, STAGES: gl.constexpr):
    """Shared memory and barriers of a block, and its three partitions of four warps."""
    first, head = (gl.num_programs(0) - 1 - gl.program_id(0)) * BR, gl.program_id(1)
    q_s = gl.allocate_shared_memory(q.dtype, [2, BR // 2, D], SWIZZLED)
    k_s = gl.allocate_shared_memory(k.dtype, [STAGES, BC, D], SWIZZLED)
    v_s = gl.allocate_shared_memory(v.dtype, [STAGES, BC, D], SWIZZLED)
    q_ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    mbarrier.init(q_ready, count=1)
    for at in gl.static_range(STAGES):
        mbarrier.init(ready.index(at), count=1)
        mbarrier.init(free.index(at), count=2)             # both consumers are done
    gl.warp_specialize([
        (producer, (q, k, v, q_s, k_s, v_s, q_ready, ready, free, first, head, head // group, S_q, S_kv, CAUSAL, BR)),
        (consumer, (0, q_s, k_s, v_s, q_ready, ready, free, o, lse, first, head, S_q, S_kv, scale, CAUSAL, BR)),
        (consumer, (1, q_s, k_s, v_s, q_ready, ready, free, o, lse, first, head, S_q, S_kv, scale, CAUSAL, BR)),
    ], [4, 4], [232, 232])                                 # the producer keeps the 40 registers that are left


def tiles(d, causal):
    return {"D": d, "BR": 128, "BC": 128, "STAGES": 3 if d == 128 else 4}


def attention(q, k, v, causal=False, **choice):
    o, lse = outputs(q, k, v, causal)
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    choice = {**tiles(d, causal), **choice}
    q, k, v = (described(x, rows) for x, rows in ((q, choice["BR"] // 2), (k, choice["BC"]), (v, choice["BC"])))
    grid = triton.cdiv(S_q, choice["BR"]), B * H
    flash[grid](q, k, v, o, lse, S_q, S_kv, group, LOG2E * d**-0.5, causal, **choice, num_warps=4, maxnreg=168)
    return o, lse


def described(x, rows):
    """x [B, H, S, d] for the copy engine: tiles of `rows` rows of one head. Rows beyond S are read as zeros."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=3)
    return TensorDescriptor.from_tensor(x.view(-1, *x.shape[2:]), [1, rows, x.shape[3]], layout)
