"""Attention over several GPUs: q, k, v sharded along S, keys and values travelling round a ring, parts merged by (o, lse).

Each of P processes owns S / P positions, on a GPU of its own. It keeps its q. In step t it holds the k and v of rank - t,
runs PyTorch's flash kernel on them, and merges the part into what it has, in fp32; meanwhile the same k and v are already
on their way to the next rank. After P steps and P - 1 passes every query has met every key, and no GPU ever held them all.

    full                 no mask: every rank does the same work in every step
    causal, contiguous   rank r owns run r of the positions: the first rank sees one block, the last one P of them
    causal, zigzag       2P chunks, rank r owns chunks r and 2P-1-r: every rank does the same work again

    torchrun --nproc-per-node 2 ring_attention.py                two CUDA GPUs of one machine, NCCL; about 4 minutes on H200s
    torchrun --nproc-per-node 4 ring_attention.py --device cpu   four processes on a CPU, gloo: the check, and a short table
    python ring_attention.py                                     starts torchrun itself, on all GPUs (a power of two of them)
    python ring_attention.py --predict                           the formulas alone: no GPU, no PyTorch

Beside it runs what one would use in practice, PyTorch's own context parallelism (torch.distributed.tensor.experimental), on the
same shards. Shapes are those of Qwen2.5-7B (28 query heads, 4 KV heads, d = 128, bf16); the 4 KV heads travel as they are, not
copied to 28. Bytes of memory are those that PyTorch's allocator was asked for; NCCL's own are outside of it.
Sources: Ring Attention (Liu, Zaharia, Abbeel, arXiv 2310.01889), Striped Attention (arXiv 2311.09431) for balanced causal work,
Llama 3 (arXiv 2407.21783, section 3.3.2) for the 2P chunks. split_kv.py has the merge in plain Python.
Left out: the backward pass, several machines, sequences of different length. GB is 10^9 bytes, MiB 2^20.
"""

import argparse
import contextlib
import datetime
import gc
import json
import math
import os
import re
import subprocess
import sys
import time
import warnings

SEED = 2026
MIB, GIB = 2**20, 2**30
CAP_GIB = 2
LENGTHS = (16384, 32768, 65536, 131072, 262144, 524288)
MODES = ((False, "contiguous"), (True, "contiguous"), (True, "zigzag"))        # (causal, sharding)
OVERLAP = ((4, 4096), (4, 8192), (4, 16384), (4, 32768), (28, 4096), (28, 8192), (28, 16384), (28, 32768))   # (KV heads, S)
PASSED = tuple(2**n for n in range(20, 30, 3))             # bytes of a message between neighbours
ROTATE = ("allgather", "alltoall")                         # how PyTorch's context parallelism moves k and v
CHECK_S = {"cpu": 96, "cuda": 1536}                        # at least; rounded up to what can be cut
QWEN = {"B": 1, "heads": 28, "kv_heads": 4, "S": 16384, "d": 128, "dtype": "bf16"}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class CannotRun(RuntimeError):
    """This machine, or this S, will not do; the message says why, in one line."""

    cannot_run_here = True                                 # run.py then says "skipped" and not "failed"


# Who owns what, and what a query sees of it.

def runs(S, P, rank, sharding):
    """The positions that a rank owns, as ranges in order: run `rank` of P, or chunks `rank` and 2P-1-rank of 2P.

    Raises CannotRun when S cannot be cut into equal parts.
    """
    parts = P if sharding == "contiguous" else 2 * P
    if S % parts:
        raise CannotRun(f"S = {S} cannot be cut into {parts} equal parts ({sharding} sharding over {P} processes): choose a multiple of {parts}")
    size = S // parts
    return [range(i * size, (i + 1) * size) for i in ((rank,) if sharding == "contiguous" else (rank, parts - 1 - rank))]


def shard(x, P, rank, sharding):
    """The rows of x that a rank owns, as a tensor of their own.  # [B, H, S, d] -> [B, H, S/P, d]"""
    import torch

    return torch.cat([x[:, :, run.start : run.stop] for run in runs(x.shape[2], P, rank, sharding)], dim=2)


def seen(rank, source, s, causal, sharding):
    """What the s queries of `rank` see of the s keys of `source`: (queries, keys, on the diagonal), slices; None when nothing.

    A block is masked on the diagonal alone; elsewhere it is seen whole, by half, or not at all. With zigzag sharding the
    first halves are the early chunks: all queries see the early chunk of a rank before them, and of a rank behind them only
    the late queries see anything, and that is all of it.
    """
    every, early, late = slice(0, s), slice(0, s // 2), slice(s // 2, s)
    if not causal or source == rank:
        return every, every, causal
    if sharding == "contiguous":
        return (every, every, False) if source < rank else None
    return (every, early, False) if source < rank else (late, every, False)


# One step, and the ring.

def flash_part(q, k, v, causal=False):
    """Attention over some of the keys by PyTorch's flash kernel: (o, lse).  # q [B, H, s_q, d], k, v [B, H_kv, s, d]; [B, H, s_q, d], [B, H, s_q]"""
    import torch

    aten = torch.ops.aten
    kernel = aten._scaled_dot_product_flash_attention if q.is_cuda else aten._scaled_dot_product_flash_attention_for_cpu
    return kernel(q, k, v, 0.0, causal)[:2]


def merge_into(o, lse, o_part, lse_part):
    """Merge a part into (o, lse), in place and in fp32.  # o, o_part [B, H, s, d], lse, lse_part [B, H, s]

    (0, -inf) is the part that has seen no key; two such parts would give NaN, but the first block is a rank's own, and in
    it every query sees itself.
    """
    import torch

    total = torch.logaddexp(lse, lse_part)
    o.mul_((lse - total).exp_().unsqueeze(-1))
    o.addcmul_(o_part, (lse_part - total).exp_().unsqueeze(-1))
    lse.copy_(total)


def ring_attention(q, k, v, causal, sharding, ring, overlap=True, buffers=None):
    """Attention of this rank's queries over the keys of all ranks.  # q [B, H, s, d], k, v [B, H_kv, s, d], o [B, H, s, d]

    Every rank calls it with its shards. ring passes blocks on (class Ring). Two buffers take turns: one is read while the
    other is filled; they are made here unless they are given. With overlap=False a block must arrive before the kernel on
    the present one starts, for comparison.
    """
    import torch

    s, steps = q.shape[2], ring.size
    o = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    lse = torch.full(q.shape[:3], -math.inf, device=q.device)
    buffers, block = buffers or buffers_for((k, v), steps), (k, v)
    for step in range(steps):
        coming, following = ring.pass_on(block, buffers[step % 2]) if step < steps - 1 else ([], None)
        if not overlap:
            wait_for(coming)
        visible = seen(ring.rank, (ring.rank - step) % steps, s, causal, sharding)
        if visible:
            queries, keys, diagonal = visible
            part = flash_part(q[:, :, queries], block[0][:, :, keys], block[1][:, :, keys], diagonal)
            merge_into(o[:, :, queries], lse[:, :, queries], *part)
            del part                                       # 's bytes: the next kernel writes there
        if overlap:
            wait_for(coming)
        block = following
    return o.to(q.dtype)


def buffers_for(block, steps):
    """Room for the blocks that arrive: two like `block`, which take turns, and fewer when fewer arrive."""
    import torch

    return [tuple(torch.empty_like(x) for x in block) for _ in range(min(2, steps - 1))]


def wait_for(works):
    """What follows on this GPU waits for them; on a CPU the process does."""
    for work in works:
        work.wait()


def ring_by_head(q, k, v, causal, sharding, ring):
    """ring_attention() one KV head at a time: the same bytes on the way, and 1 / H_kv of the memory beside q, k, v, o. Shapes as there."""
    import torch

    group, o, buffers = q.shape[1] // k.shape[1], torch.empty_like(q), None
    for h in range(k.shape[1]):
        heads, block = slice(h * group, (h + 1) * group), [x[:, h : h + 1].contiguous() for x in (k, v)]
        buffers = buffers or buffers_for(block, ring.size)
        o[:, heads] = ring_attention(q[:, heads], *block, causal, sharding, ring, buffers=buffers)
    return o


class Ring:
    """This process's place in the ring: it receives from the rank before and sends to the rank behind."""

    def __init__(self):
        import torch.distributed as dist

        self.rank, self.size, self.sent_bytes = dist.get_rank(), dist.get_world_size(), 0

    def pass_on(self, block, into):
        """Start sending a block of tensors and receiving the next into `into`. Returns (what to wait for, the next block)."""
        import torch.distributed as dist

        behind, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        sends = [dist.P2POp(dist.isend, x, behind) for x in block]
        self.sent_bytes += sum(x.numel() * x.element_size() for x in block)
        return dist.batch_isend_irecv(sends + [dist.P2POp(dist.irecv, x, before) for x in into]), into


class Still(Ring):
    """A ring in which nothing travels: every step works on the rank's own block. For the time and the memory of the rest."""

    def pass_on(self, block, into):
        return [], block


class Rehearsal:
    """One rank of a ring without processes, for check(): the blocks of all ranks are known beforehand."""

    def __init__(self, rank, blocks):
        self.rank, self.size, self.blocks, self.step = rank, len(blocks), blocks, 0

    def pass_on(self, block, into):
        self.step += 1
        for x, y in zip(into, self.blocks[(self.rank - self.step) % self.size]):
            x.copy_(y)
        return [], into


# PyTorch's own context parallelism. It shards the buffers it is given; here one tensor of positions says who owns what.

@contextlib.contextmanager
def context_parallel_of(S, causal, rotate, device):
    """Inside, context_parallel_attention() works on shards; yields the positions of this rank's, int64 [S/P].

    A causal mask gets PyTorch's balanced sharding, which is zigzag; without a mask it has to be switched off, by a private option.
    """
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import _attention, context_parallel

    mesh = init_device_mesh(torch.device(device).type, (torch.distributed.get_world_size(),))
    _attention.set_rotate_method(rotate)
    _attention._cp_options.enable_load_balance = causal
    positions = torch.arange(S, device=device)
    with context_parallel(mesh, buffers=[positions], buffer_seq_dims=[0], no_restore_buffers={positions}):
        yield positions


def context_parallel_attention(q, k, v, causal):
    """scaled_dot_product_attention inside context_parallel_of(), by the flash kernel. Shapes as in ring_attention().

    On a CPU PyTorch registers no sharded attention, so its ring is called directly, with the CPU's flash kernel.
    """
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if q.is_cuda:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    from torch.distributed.tensor.experimental import _attention

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    return _attention._templated_ring_attention(torch.distributed.group.WORLD, 2, kernel, q, k, v, is_causal=causal)[0]


# The formulas. e is the bytes of an element.

def pass_bytes(B, kv_heads, S, d, P, e=2):
    """What a rank sends in one pass: its present k and v, 2·B·H_kv·S/P·d·e. There are P - 1 passes."""
    return 2 * B * kv_heads * (S // P) * d * e


def pairs_of(S, P, rank, causal, sharding):
    """The work of a rank: how many (query, key) pairs it computes. All ranks together have S², or S·(S + 1)/2 under a causal mask."""
    if not causal:
        return S // P * S
    return sum((run.start + 1 + run.stop) * len(run) // 2 for run in runs(S, P, rank, sharding))


def one_gpu_bytes(B, heads, kv_heads, S, d, e=2):
    """The peak of flash_part() on the whole sequence, without a split of K and V: q, k, v, o, the LSE, 24 bytes of dropout's state."""
    return 2 * B * (heads + kv_heads) * S * d * e + 4 * B * heads * S + 24


def ring_bytes(B, heads, kv_heads, S, d, P, e=2):
    """The peak of ring_attention() on each GPU; it is reached in merge_into(). Equal for every mode; s = S / P.

    inputs        q, k, v of the rank
    buffers       k and v twice; once when P = 2, since the last step receives nothing
    accumulators  o in fp32, and the LSE
    part          o of the kernel in the dtype of q, and its LSE
    weights       the new LSE, and e^(lse - new LSE), fp32
    """
    s = S // P
    inputs = B * (heads + 2 * kv_heads) * s * d * e
    buffers = min(2, P - 1) * 2 * B * kv_heads * s * d * e
    accumulators = 4 * B * heads * s * d + 4 * B * heads * s
    part = B * heads * s * d * e + 4 * B * heads * s
    weights = 2 * 4 * B * heads * s
    return inputs + buffers + accumulators + part + weights


def by_head_bytes(B, heads, kv_heads, S, d, P, e=2):
    """The peak of ring_by_head() for B = 1: q, k, v, o of the rank, and what the ring of one KV head adds to its own q, k, v."""
    s, group = S // P, heads // kv_heads
    return 2 * B * (heads + kv_heads) * s * d * e + ring_bytes(B, group, 1, S, d, P, e) - B * (group + 2) * s * d * e


def least_shard(flops, link, group, causal=False, e=2):
    """The least S / P for which a step's kernel lasts as long as the pass beside it: s such that 4·H·s²·d / flops >= 2·H_kv·s·d·e / link.

    flops in FLOP/s, link in bytes/s and direction. H, H_kv, d and B cancel except for the group H / H_kv. Under a causal mask
    with zigzag sharding a step has half the work, and s doubles.
    """
    return math.ceil((2 if causal else 1) * e * flops / (2 * group * link))


def round_up(x, multiple):
    return -(-x // multiple) * multiple


def largest_S(limit, size):
    """The largest S for which size(S) is at most `limit` bytes; size must grow with S."""
    low, high = 0, 1
    while size(high) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= limit else (low, middle)
    return low


def sizes_of(P, B=1, heads=28, kv_heads=4, d=128):
    """{impl: S -> bytes} of the three programs on the shape of Qwen2.5-7B."""
    return {
        "one GPU": lambda S: one_gpu_bytes(B, heads, kv_heads, S, d),
        "ring": lambda S: ring_bytes(B, heads, kv_heads, S // P * P, d, P),
        "ring by head": lambda S: by_head_bytes(B, heads, kv_heads, S // P * P, d, P),
    }


def predicted_table(gib=24, S=131072, rings=(2, 4, 8)):
    """Work, bytes and memory as text, for S positions on P GPUs of `gib` GiB each."""
    out = [f"Predicted by formula, not measured: S = {S}, 28 query heads, 4 KV heads,", "d = 128, bf16. MiB = 2^20 bytes.", "",
           "  P  passes  MiB a pass   percent of all pairs: first rank, last rank",
           "                          full          contiguous    zigzag"]
    for P in rings:
        everyone = [[pairs_of(S, P, rank, *mode) for rank in range(P)] for mode in MODES]
        work = [f"{100 * ranks[0] / sum(ranks):5.1f} {100 * ranks[-1] / sum(ranks):5.1f}" for ranks in everyone]
        out.append(f"{P:3}  {P - 1:6}  {pass_bytes(1, 4, S, 128, P) / MIB:10.0f}  {work[0]:12}  {work[1]:12}  {work[2]}")
    out += ["", f"{'':26}  MiB a GPU   the largest S in {gib:g} GiB a GPU"]
    for P in rings:
        for impl, size in sizes_of(P).items():
            if impl != "one GPU" or P == rings[0]:
                gpus = 1 if impl == "one GPU" else P
                out.append(f"{impl:16}  {gpus} x  {size(S) / MIB:11.0f}  {largest_S(gib * GIB, size):11}")
    return "\n".join(out)


# The check: same numbers first.

def naive(q, k, v, causal=False):
    """Attention as the textbook writes it; naive_bytes() is the formula of exactly this function.

    q [B, H, S, d], k and v [B, H_kv, S, d], one dtype and device. Returns o [B, H, S, d].
    KV heads are copied until there are H of them; the mask is one S x S tensor of bool and is applied in place. It is made
    before the scores: made after the division, it would be cut out of the block that the raw product has just left, and p
    would need a third block of that size (on an H200 that ran out of memory at S = 32768, where two are 112 GiB).
    """
    import torch

    S, d = q.shape[2:]
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k = k.repeat_interleave(group, dim=1)              # [B, H, S, d]
        v = v.repeat_interleave(group, dim=1)              # [B, H, S, d]
    if causal:
        future = torch.ones(S, S, dtype=torch.bool, device=q.device).triu_(1)
    s = q @ k.transpose(-2, -1) / math.sqrt(d)             # [B, H, S, S], twice until the division is done
    if causal:
        s.masked_fill_(future, -math.inf)
    p = torch.softmax(s, dim=-1)                           # [B, H, S, S]
    return p @ v


def reference(q, k, v, causal):
    """Attention in fp64, written without anything that naive() or flash() uses: grouped einsum and logsumexp."""
    import torch

    B, H, S, d = q.shape
    q, k, v = q.double().reshape(B, k.shape[1], -1, S, d), k.double(), v.double()      # q [B, H_kv, G, S, d]
    s = torch.einsum("bhgid,bhjd->bhgij", q, k) * d**-0.5                              # [B, H_kv, G, S, S]
    if causal:
        at = torch.arange(S, device=q.device)
        s = torch.where(at[None, :] > at[:, None], -torch.inf, s)
    p = torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True))                        # [B, H_kv, G, S, S]
    return torch.einsum("bhgij,bhjd->bhgid", p, v).reshape(B, H, S, d)


def inputs(shape, device="cuda", filled=True):
    """q [B, H, S, d], k and v [B, H_kv, S, d]: the same random numbers each time, or whatever is in memory."""
    import torch

    torch.manual_seed(SEED)
    make = torch.randn if filled else torch.empty
    kind = {"dtype": getattr(torch, DTYPES[shape["dtype"]]), "device": device}
    B, S, d = shape["B"], shape["S"], shape["d"]
    return tuple(make(B, heads, S, d, **kind) for heads in (shape["heads"], shape["kv_heads"], shape["kv_heads"]))


def relative_difference(a, b, rows=1024):
    """|a - b| / |b| in the Frobenius norm, for [B, H, S, d], a few rows at a time to need no memory of note."""
    off = norm = 0.0
    for i in range(0, a.shape[2], rows):
        x, y = a[:, :, i : i + rows].float(), b[:, :, i : i + rows].float()
        off, norm = off + (x - y).square().sum().item(), norm + y.square().sum().item()
    return math.sqrt(off / norm)


def tilted(shape, device):
    """q [B, H, S, d], k, v [B, H_kv, S, d]: random, and later keys weigh more, so that no two blocks weigh the same."""
    import torch

    q, k, v = inputs(shape, device)
    rise = torch.linspace(0, 0.5, shape["S"], device=device, dtype=k.dtype)[:, None]         # [S, 1]
    return q + 0.5, k + rise, v


def check(attention=None, baseline=naive, device=None, ring_sizes=(1, 2, 3, 4)):
    """Raises AssertionError unless attention() computes what ring_attention() must, for every mode and each rank in turn, in this process alone.

    attention is ring_attention() unless given. Raises CannotRun where no device is named and there are not two GPUs. The
    same check with keys and values that travel between processes is check_processes().
    """
    if device is None:
        problem = ring_problem()
        if problem:
            raise CannotRun(problem)
    for mode in MODES:
        case = Case(mode, device or "cuda", 2 * math.lcm(*ring_sizes), baseline)
        for P in ring_sizes:
            shards = [tuple(shard(x, P, rank, mode[1]) for x in case.tensors) for rank in range(P)]
            for rank in range(P):
                o = (attention or ring_attention)(*shards[rank], *mode, Rehearsal(rank, [x[1:] for x in shards]))
                case.judge("the ring", o, P, rank, mode[1])


class Case:
    """Random q, k, v, what attention makes of them in fp64, and how far naive() in 16 bits is from that."""

    def __init__(self, mode, device, multiple, baseline=naive):
        self.mode, self.S = mode, round_up(CHECK_S[device], multiple)
        self.tensors = tilted({**QWEN, "S": self.S}, device)
        self.reference = reference(*self.tensors, mode[0])
        off = baseline(*self.tensors, mode[0]).double() - self.reference
        rel_err = (off.norm() / self.reference.norm()).item()
        if not rel_err <= 0.02:
            raise AssertionError(f"naive is not attention: relative error {rel_err:.1e} against fp64 (causal, sharding = {mode})")
        self.allowed = 2 * off.abs().max().item() + 1e-5

    def judge(self, name, o, P, rank, sharding):
        """Raises AssertionError unless o is the rank's rows of attention: |o - ref64| <= 2·|naive16 - ref64| + 1e-5, the largest difference."""
        ref, where = shard(self.reference, P, rank, sharding), f"causal = {self.mode[0]}, {sharding}, rank {rank} of {P}"
        if o.shape != ref.shape:
            raise AssertionError(f"{name} gives {tuple(o.shape)}, expected {tuple(ref.shape)} ({where})")
        worst = (o.double() - ref).abs().max().item()
        if not worst <= self.allowed:
            raise AssertionError(f"{name} is off by {worst:.1e}, allowed are {self.allowed:.1e} ({where})")


def check_processes(device):
    """The check of this rank with keys and values that really travel, of the ring and of PyTorch's context parallelism."""
    for mode in MODES:
        ring = Ring()
        case = Case(mode, device, 2 * ring.size)
        shards = [shard(x, ring.size, ring.rank, mode[1]) for x in case.tensors]
        for name, side in (("the ring", ring_attention), ("the ring by head", ring_by_head)):
            case.judge(name, side(*shards, *mode, ring), ring.size, ring.rank, mode[1])
        if mode == (True, "contiguous"):
            continue                                       # PyTorch has no such mode: causal is balanced
        for rotate in ROTATE:
            with context_parallel_of(case.S, mode[0], rotate, device) as positions:
                mine = [i for run in runs(case.S, ring.size, ring.rank, mode[1]) for i in run]
                if positions.tolist() != mine:
                    raise AssertionError(f"context_parallel gives rank {ring.rank} other positions than {mode[1]} sharding")
                case.judge(f"context_parallel by {rotate}", context_parallel_attention(*shards, mode[0]), ring.size, ring.rank, mode[1])


# The clock and the scales of several GPUs. Every rank calls these together.

def gathered(value):
    """[value of rank 0, value of rank 1, …], on every rank, through the CPUs."""
    import torch.distributed as dist

    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, value, group=control())
    return everyone


def control():
    """A group that talks through the CPUs, so that talking touches no GPU. Made at the first call, which every rank makes."""
    import torch.distributed as dist

    if not hasattr(control, "group"):
        control.group = dist.new_group(backend="gloo", timeout=PATIENCE)
    return control.group


def together(call, samples):
    """[[ms of rank 0, ms of rank 1, …] of each sample]: call() on all GPUs, begun at the same moment, launches hidden.

    Each GPU first gets a kernel that only waits, while its process queues the rest: a reduction over all GPUs, which ends on
    all at the same time, then call() between two events.
    """
    import torch
    import torch.distributed as dist

    token, mine = torch.zeros(1, device="cuda"), []
    for _ in range(samples):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        torch.cuda.synchronize()
        dist.barrier(control())
        torch.cuda._sleep(6_000_000)                       # clock cycles: about 3 ms
        dist.all_reduce(token)
        marks[0].record()
        call()
        marks[1].record()
        torch.cuda.synchronize()
        mine.append(marks[0].elapsed_time(marks[1]))
    return [list(ranks) for ranks in zip(*gathered(mine))]


def alone_on(rank, call, samples):
    """Milliseconds of call() on the GPU of one rank while the others wait: a list of samples, on every rank."""
    import torch
    import torch.distributed as dist

    kept = []
    if dist.get_rank() == rank:
        for _ in range(samples):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            torch.cuda.synchronize()
            marks[0].record()
            call()
            marks[1].record()
            torch.cuda.synchronize()
            kept.append(marks[0].elapsed_time(marks[1]))
    return gathered(kept)[rank]


def by_rank(samples):
    """Columns of a row from together(): the slowest rank of each sample counts, then median and spread; and the first and the last rank."""
    return {**median_and_spread([max(ranks) for ranks in samples]),
            "rank0_ms": quantile([ranks[0] for ranks in samples], 0.5), "last_rank_ms": quantile([ranks[-1] for ranks in samples], 0.5)}


def repeats(flops):
    """How many samples of a call of so many FLOP: about two seconds of them at 350 TFLOP/s, 3 to 10; 2 of what takes longer than that."""
    seconds = flops / 350e12
    return 2 if seconds > 2 else max(3, min(10, int(2 / seconds)))


def weighed(tensors, call):
    """(peak bytes requested of call(*tensors), the tensors included; its kernels as the profiler saw them; its result)."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"] - sum(x.numel() * x.element_size() for x in tensors)
    kept = []
    kernels = which_kernel(lambda: kept.append(call(*tensors)))
    return torch.cuda.memory_stats()["requested_bytes.all.peak"] - before, kernels, kept.pop()


def kernel_columns(names):
    """Columns of a row: the attention kernels and the kernels that move data between GPUs; what else ran is the merge."""
    flash = [name for name in names if "flash" in name or "fmha" in name]
    return {"kernel": once([short(name) for name in flash]), "kernel_full": once(flash),
            "link_kernel": once([short(name) for name in names if "nccl" in name])}


def attempt(measure, *args):
    """measure(*args), or None when the GPU's memory does not suffice.

    The cleaning stands after the except block: inside it the exception still holds every frame, and they hold the tensors.
    """
    result = None
    try:
        result = measure(*args)
    except RuntimeError as error:
        if "out of memory" not in str(error).lower():
            raise
    if result is None:
        release()
    return result


def release():
    """Hand everything that no tensor uses back to the driver."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def which_kernel(call):
    """The names of the GPU kernels that call() launches, in order, as torch.profiler saw them."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        call()
        torch.cuda.synchronize()
    events = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    names = [event.name for event in sorted(events, key=lambda event: event.time_range.start)]
    return [name for name in names if ("(" in name or "_" in name) and not name.startswith(("Memcpy", "Memset"))]


def short(name):
    """A kernel's name without return type, namespaces and template arguments."""
    name = re.sub(r"^void\s+", "", name).replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", name)[0].rsplit("::", 1)[-1]


def once(names):
    """The names in order, neighbours that repeat told once, as one text; None when there are none."""
    return " + ".join(name for i, name in enumerate(names) if i == 0 or name != names[i - 1]) or None


def median_and_spread(samples):
    """Columns of a row: the median of the samples, the 10th and the 90th percentile, and how many there are."""
    return {"ms": quantile(samples, 0.5), "p10_ms": quantile(samples, 0.1), "p90_ms": quantile(samples, 0.9), "samples": len(samples)}


def quantile(samples, part):
    """The sample below which about `part` of the samples lie."""
    return sorted(samples)[round(part * (len(samples) - 1))]


# The rows. Every rank runs these generators; what they yield is the same on each.

def link_rows():
    """What the link carries: every rank sends to the one behind and receives from the one before at the same time."""
    import torch

    ring, kind = Ring(), link_kind()
    for size in PASSED:
        block, into = (torch.randn(size // 2, device="cuda").to(torch.bfloat16) for _ in range(2))

        def call():
            wait_for(ring.pass_on([block], [into])[0])

        call()
        kernels = which_kernel(call)
        times = by_rank(together(call, 20))
        yield {"part": "link", "gpus": ring.size, "link": kind, "message_mib": size / MIB, **times, "gbps": size / times["ms"] / 1e6,
               "kernel": once([short(name) for name in kernels]), "status": "ok"}


def link_kind():
    """How the first two GPUs are joined, as nvidia-smi calls it: NV18 for 18 NVLinks, PIX, NODE, SYS and so on for PCIe. None where it does not say."""
    try:
        said = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^\W*GPU0\s+X\s+(\w+)", said, re.MULTILINE)
    return found[1] if found else None


def sharded(shape, sharding):
    """This rank's q, k, v: cut from the same random tensors on every rank."""
    ring = Ring()
    return [shard(x, ring.size, ring.rank, sharding) for x in inputs(shape)]


def grid_rows(S):
    """One row a mode: the ring against one GPU."""
    import torch
    import torch.distributed as dist

    ring, shape = Ring(), {**QWEN, "S": S}
    P, last = ring.size, dist.get_world_size() - 1
    sizes = [shape[name] for name in ("B", "heads", "kv_heads", "S", "d")]
    for causal in (False, True):
        release()
        whole, single_peak = None, None
        if ring.rank == last:
            tensors = inputs(shape)
            single_peak, _, whole = weighed(tensors, lambda q, k, v: flash_part(q, k, v, causal)[0])
        single = alone_on(last, (lambda: flash_part(*tensors, causal)) if ring.rank == last else None, repeats(flops_of(shape, causal)))
        single_peak = gathered(single_peak)[last]
        tensors = None
        for mode in [mode for mode in MODES if mode[0] == causal]:
            release()
            shards = sharded(shape, mode[1])
            share = max(pairs_of(S, P, rank, *mode) for rank in range(P)) / S**2
            moving, still = Ring(), Still()
            peak, kernels, o = weighed(shards, lambda q, k, v: ring_attention(q, k, v, *mode, moving))
            rel_err = relative_difference(o, shard(whole, P, last, mode[1])) if ring.rank == last else None
            del o
            release()
            n = repeats(share * flops_of(shape, False))
            times = by_rank(together(lambda: ring_attention(*shards, *mode, moving), n))
            compute = by_rank(together(lambda: ring_attention(*shards, *mode, still), 1 if n == 2 else 2))
            transfer = by_rank(together(lambda: pass_all(shards[1:], moving), 5))
            peaks, rel_err = gathered(peak), gathered(rel_err)[last]
            if not rel_err <= 0.02:
                raise AssertionError(f"the ring and one GPU differ by {rel_err:.1e} (relative, Frobenius norm): S = {S}, {mode}")
            moving.sent_bytes = 0
            pass_all(shards[1:], moving)
            predicted = ring_bytes(*sizes, P)
            yield {
                "part": "grid", "impl": "ring", **shape, "causal": causal, "sharding": mode[1], "gpus": P, **times,
                "single_ms": quantile(single, 0.5), "single_samples": len(single), "speedup": quantile(single, 0.5) / times["ms"],
                "gpu_tflops": share_tflops(shape, causal, times["ms"], P), "single_tflops": share_tflops(shape, causal, quantile(single, 0.5), 1),
                "compute_ms": compute["ms"], "rank0_compute_ms": compute["rank0_ms"], "last_rank_compute_ms": compute["last_rank_ms"],
                "transfer_ms": transfer["ms"], "exposed_pct": 100 * (times["ms"] - compute["ms"]) / times["ms"],
                "rank0_work_pct": work_pct(S, P, 0, mode), "last_rank_work_pct": work_pct(S, P, last, mode),
                "pass_mib": moving.sent_bytes / (P - 1) / MIB, "pass_predicted_mib": pass_bytes(*sizes[:1], *sizes[2:], P) / MIB,
                "pass_diff_bytes": pass_bytes(*sizes[:1], *sizes[2:], P) - moving.sent_bytes // (P - 1), "passes": P - 1,
                "peak_mib": max(peaks) / MIB, "predicted_mib": predicted / MIB, "diff_bytes": max((predicted - peak for peak in peaks), key=abs),
                "single_peak_mib": single_peak / MIB, "single_diff_bytes": one_gpu_bytes(*sizes) - single_peak,
                "rel_err": rel_err, **kernel_columns(kernels), "status": "ok",
            }
            shards = None
        whole = None


def pass_all(block, ring):
    """Pass a block round the ring as often as ring_attention() does, and nothing else."""
    buffers = buffers_for(block, ring.size)
    for step in range(ring.size - 1):
        coming, block = ring.pass_on(block, buffers[step % 2])
        wait_for(coming)


def flops_of(shape, causal):
    """Two matmuls over every pair: 4·B·H·S²·d, or for S·(S + 1)/2 of the S² pairs."""
    return 4 * shape["B"] * shape["heads"] * shape["d"] * pairs_of(shape["S"], 1, 0, causal, "contiguous")


def share_tflops(shape, causal, ms, P):
    """TFLOP/s of each of P GPUs when all of the work took `ms`."""
    return flops_of(shape, causal) / P / ms / 1e9


def work_pct(S, P, rank, mode):
    """A rank's share of the pairs of all ranks, in percent."""
    return 100 * pairs_of(S, P, rank, *mode) / sum(pairs_of(S, P, r, *mode) for r in range(P))


def overlap_row(kv_heads, S):
    """Without a mask: kernels and passes at the same time, one after the other, and each by itself."""
    release()
    shape = {**QWEN, "kv_heads": kv_heads, "S": S}
    moving, still, mode = Ring(), Still(), (False, "contiguous")
    shards = sharded(shape, mode[1])
    ring_attention(*shards, *mode, moving)
    kernels = which_kernel(lambda: ring_attention(*shards, *mode, moving))
    sides = {
        "": lambda: ring_attention(*shards, *mode, moving), "serial_": lambda: ring_attention(*shards, *mode, moving, overlap=False),
        "compute_": lambda: ring_attention(*shards, *mode, still), "transfer_": lambda: pass_all(shards[1:], moving),
    }
    found = {}
    for name, call in sides.items():
        call()
        times = by_rank(together(call, 20))
        found |= times if not name else {name + "ms": times["ms"]}
    saved = found["serial_ms"] - found["ms"]
    return {"part": "overlap", "impl": "ring", **shape, "causal": False, "sharding": mode[1], "gpus": moving.size, **found,
            "saved_ms": saved, "hidden_pct": 100 * saved / found["transfer_ms"],
            "pass_mib": pass_bytes(shape["B"], kv_heads, S, shape["d"], moving.size) / MIB, **kernel_columns(kernels), "status": "ok"}


def by_head_row(S):
    """The ring one KV head at a time, under a causal mask with zigzag sharding."""
    release()
    ring, shape, mode = Ring(), {**QWEN, "S": S}, (True, "zigzag")
    shards = sharded(shape, mode[1])
    peak, kernels, o = weighed(shards, lambda q, k, v: ring_by_head(q, k, v, *mode, ring))
    rel_err = max(gathered(relative_difference(o, ring_attention(*shards, *mode, ring))))
    if not rel_err <= 0.02:
        raise AssertionError(f"the ring by head and the ring differ by {rel_err:.1e} (relative, Frobenius norm): S = {S}")
    del o
    times = by_rank(together(lambda: ring_by_head(*shards, *mode, ring), repeats(flops_of(shape, True) / ring.size)))
    peaks, predicted = gathered(peak), by_head_bytes(*(shape[name] for name in ("B", "heads", "kv_heads", "S", "d")), ring.size)
    return {"part": "by_head", "impl": "ring by head", **shape, "causal": True, "sharding": mode[1], "gpus": ring.size, **times,
            "gpu_tflops": share_tflops(shape, True, times["ms"], ring.size), "peak_mib": max(peaks) / MIB, "predicted_mib": predicted / MIB,
            "diff_bytes": max((predicted - peak for peak in peaks), key=abs), "rel_err": rel_err, **kernel_columns(kernels), "status": "ok"}


def context_parallel_rows(S):
    """PyTorch's context parallelism on the shards that the grid has, with and without a mask."""
    ring, shape = Ring(), {**QWEN, "S": S}
    for (causal, sharding), rotate in ((mode, rotate) for mode in MODES if mode != (True, "contiguous") for rotate in ROTATE):
        release()
        shards = sharded(shape, sharding)
        with context_parallel_of(S, causal, rotate, "cuda"):
            context_parallel_attention(*shards, causal)
            release()
            peak, kernels, o = weighed(shards, lambda q, k, v: context_parallel_attention(q, k, v, causal))
            own = ring_attention(*shards, causal, sharding, ring)
            rel_err = max(gathered(relative_difference(o, own)))
            del o, own
            times = by_rank(together(lambda: context_parallel_attention(*shards, causal), repeats(flops_of(shape, causal) / ring.size)))
        if not rel_err <= 0.02:
            raise AssertionError(f"the ring and context_parallel differ by {rel_err:.1e} (relative, Frobenius norm): S = {S}, {sharding}, {rotate}")
        yield {"part": "context_parallel", "impl": "context_parallel", **shape, "causal": causal, "sharding": sharding, "rotate": rotate, "gpus": ring.size,
               **times, "gpu_tflops": share_tflops(shape, causal, times["ms"], ring.size), "peak_mib": max(gathered(peak)) / MIB, "rel_err": rel_err,
               **kernel_columns(kernels), "status": "ok"}


def rows_under_cap(step=4096):
    """How far one GPU and the ring get in CAP_GIB, emulated: the allocator of each process may reserve no more. Causal, zigzag.

    A process that runs out while the others go on would leave them waiting for it. So each first tries by itself, with the
    same allocations (class Still), and the ring turns only when all have succeeded.
    """
    import torch

    ring, still = Ring(), Still()
    P, last, total = ring.size, ring.size - 1, torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    sides = {
        "one GPU": lambda q, k, v, ring: flash_part(q, k, v, True)[0],
        "ring": lambda q, k, v, ring: ring_attention(q, k, v, True, "zigzag", ring),
        "ring by head": lambda q, k, v, ring: ring_by_head(q, k, v, True, "zigzag", ring),
    }

    def try_it(impl, S, ring):
        tensors = inputs({**QWEN, "S": S})
        return weighed(tensors, lambda q, k, v: sides[impl](q, k, v, ring))[:2]

    for impl, size in sizes_of(P).items():
        gpus, fits = (1 if impl == "one GPU" else P), largest_S(CAP_GIB * GIB, size) // step * step
        for S in (fits - step, fits, fits + step, fits + 2 * step):
            release()
            torch.cuda.set_per_process_memory_fraction(CAP_GIB * GIB / total)
            idle = gpus == 1 and ring.rank != last
            found = None if idle else attempt(try_it, impl, S // gpus, still)
            ok = all(gathered(idle or found is not None))
            if ok and gpus > 1:
                release()
                found = attempt(try_it, impl, S // gpus, ring)
                ok = all(gathered(found is not None))
            torch.cuda.set_per_process_memory_fraction(1.0)
            peak, kernels = gathered(found)[last] if ok else (None, [])
            yield {"part": "cap", "impl": impl, **QWEN, "S": S, "causal": True, "sharding": None if gpus == 1 else "zigzag", "gpus": gpus,
                   "cap_gib": CAP_GIB, "peak_mib": mib(peak), "predicted_mib": mib(size(S)), "diff_bytes": minus(size(S), peak),
                   **kernel_columns(kernels), "status": "ok" if ok else "oom"}


def gpu_rows():
    """All rows on GPUs."""
    yield from link_rows()
    for S in LENGTHS:
        yield from grid_rows(S)
    for kv_heads, S in OVERLAP:
        yield overlap_row(kv_heads, S)
    for S in LENGTHS[:4]:
        yield by_head_row(S)
    for S in LENGTHS[:4]:
        yield from context_parallel_rows(S)
    yield from rows_under_cap()


def cpu_rows(lengths):
    """One row a mode on a CPU, over gloo: what is sent, who works how much, and how long it takes (not a result to compare anything with)."""
    for S in lengths:
        for mode in MODES:
            ring, shape = Ring(), {**QWEN, "S": S}
            tensors = [shard(x, ring.size, ring.rank, mode[1]) for x in inputs(shape, "cpu")]
            gathered(None)
            begin = time.perf_counter()
            ring_attention(*tensors, *mode, ring)
            ms = gathered(1e3 * (time.perf_counter() - begin))
            yield {
                "part": "cpu", "impl": "ring", **shape, "causal": mode[0], "sharding": mode[1], "gpus": ring.size, "ms": max(ms), "rank0_ms": ms[0], "last_rank_ms": ms[-1],
                "pass_mib": ring.sent_bytes / max(1, ring.size - 1) / MIB, "pass_predicted_mib": pass_bytes(1, QWEN["kv_heads"], S, QWEN["d"], ring.size) / MIB,
                "passes": ring.size - 1, "rank0_work_pct": work_pct(S, ring.size, 0, mode), "last_rank_work_pct": work_pct(S, ring.size, ring.size - 1, mode),
                "kernel": "_scaled_dot_product_flash_attention_for_cpu", "status": "ok",
            }


# The processes.

PATIENCE = datetime.timedelta(minutes=5)                   # for a rank that waits while another one measures


def ring_problem():
    """Why there can be no ring of GPUs here, in one line; None when there can."""
    problem = gpu_problem()
    if problem:
        return f"{problem} Without GPUs: torchrun --nproc-per-node 4 ring_attention.py --device cpu"
    import torch

    if torch.cuda.device_count() < 2:
        return ("A ring needs two GPUs in one machine, and PyTorch sees one. Without a second: "
                "torchrun --nproc-per-node 4 ring_attention.py --device cpu")
    return None


def started(arguments, P):
    """torchrun with P processes of this file, its standard output a pipe."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(P), os.path.abspath(__file__), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"OMP_NUM_THREADS": "1", **os.environ})


def rows_of_processes(P, arguments=()):
    """The rows that P processes measure, as they come. Raises RuntimeError when one of them ends badly; torchrun ends the others then."""
    process = started(["--rows", *arguments], P)
    try:
        for text in process.stdout:
            word, _, row = text.partition(" ")
            if word == "row":
                yield json.loads(row)
            else:
                print(text, end="", file=sys.stderr)
        if process.wait():
            raise RuntimeError(f"one of the {P} processes of the ring ended badly (torchrun's status {process.returncode}); its own message is above")
    finally:
        process.terminate()
        process.wait()


def work(options):
    """What one of torchrun's processes does. Returns its exit status."""
    import torch
    import torch.distributed as dist

    rank, P, on_cpu = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), options.device == "cpu" or not torch.cuda.is_available()
    try:
        problem = None if on_cpu else ring_problem()
        if P < 2:
            problem = "A ring needs two processes or more: torchrun --nproc-per-node 2 ring_attention.py"
        elif not (problem or on_cpu) and P > torch.cuda.device_count():
            problem = f"{P} processes were started, and PyTorch sees {torch.cuda.device_count()} GPUs: each process needs one of its own"
        for S in () if problem else options.S if on_cpu else LENGTHS:
            runs(S, P, rank, "zigzag")
    except CannotRun as error:
        problem = str(error)
    if problem:
        return stop(problem) if rank == 0 else 2
    device = torch.device("cpu") if on_cpu else torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if not on_cpu:
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if on_cpu else "nccl", timeout=PATIENCE, **({} if on_cpu else {"device_id": device}))
    try:
        control()
        check_processes(device.type)
        rows = cpu_rows(options.S) if on_cpu else gpu_rows()
        if rank or options.rows:
            for row in rows:
                if rank == 0:
                    print("row", json.dumps(row), flush=True)
        else:
            print(f"{P} processes on {'a CPU' if on_cpu else torch.cuda.get_device_name(device)}, PyTorch {torch.__version__}, {dist.get_backend()}")
            print("check: the ring, the ring by head and PyTorch's context_parallel agree with fp64 attention\n", flush=True)
            print(footer(values(report(rows))), flush=True)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or not re.search(LOST, str(error)):
            raise
        print(f"rank {rank} of {P}: a neighbour in the ring is gone, so its keys and values will not come. Look for the rank that ended first. "
              f"({' '.join(str(error).split())[:160]})", file=sys.stderr, flush=True)
        return 1
    dist.destroy_process_group()
    return 0


LOST = "(?i)connection (closed|reset|refused)|broken pipe|socket|remote process|timed out|timeout|NCCL"


# Rows, values and text.

def measure():
    """Yields one flat dict a row, from as many processes as there are GPUs (a power of two of them)."""
    import torch

    yield from rows_of_processes(1 << (torch.cuda.device_count().bit_length() - 1))


def values(rows):
    """What the rows say together, as one flat dict; None where nothing was measured."""
    def part(name, **fields):
        return [row for row in rows if row["part"] == name and row["status"] == "ok" and all(row[key] == value for key, value in fields.items())]

    def last(column, **fields):
        return next((row[column] for row in reversed(part("grid", **fields))), None)

    grid, cap = part("grid"), [row for row in rows if row["part"] == "cap"]
    link = max((row["gbps"] for row in part("link")), default=None)
    tflops = last("single_tflops", causal=False)
    found = {
        "gpus": next((row["gpus"] for row in rows if row["part"] == "grid"), None), "link_gbps": link,
        "link": next((row["link"] for row in part("link")), None), "grid_rows": len(grid) or None,
        "memory_misses": sum(row["diff_bytes"] != 0 or row["single_diff_bytes"] != 0 for row in grid) if grid else None,
        "pass_misses": sum(row["pass_diff_bytes"] != 0 for row in grid) if grid else None,
        "longest_S": max((row["S"] for row in grid), default=None), "single_tflops": tflops,
        "full_speedup": last("speedup", causal=False), "contiguous_speedup": last("speedup", causal=True, sharding="contiguous"),
        "zigzag_speedup": last("speedup", causal=True, sharding="zigzag"),
        "exposed_most_pct": max((row["exposed_pct"] for row in grid), default=None),
        "least_shard": least_shard(1e12 * tflops, 1e9 * link, QWEN["heads"] // QWEN["kv_heads"]) if tflops and link else None,
        "least_shard_mha": least_shard(1e12 * tflops, 1e9 * link, 1) if tflops and link else None,
        "cap_gib": CAP_GIB if cap else None,
    }
    for impl, name in (("one GPU", "one_gpu"), ("ring", "ring"), ("ring by head", "by_head")):
        rows_of = [row for row in cap if row["impl"] == impl]
        found[f"cap_{name}_fit_S"] = max((row["S"] for row in rows_of if row["status"] == "ok"), default=None)
        found[f"cap_{name}_fail_S"] = min((row["S"] for row in rows_of if row["status"] == "oom"), default=None)
    return found


def header(part):
    """The lines above the first row of a part."""
    return {
        "link": "What every GPU sends to its neighbour while it receives as much. GB = 10^9 bytes, one direction\nmessage MiB        ms      GB/s  kernel",
        "grid": "\nThe ring, and one GPU with the same kernel. Times in ms (slowest rank; median, p10, p90); peak MiB requested on each GPU; off in bytes\n"
                "     S  causal  sharding       1 GPU       ring       p10       p90  speed-up    rank 0 last rank  kernels alone  passes alone   peak MiB  off  1 GPU MiB  off  sent MiB  off  kernel",
        "overlap": "\nNo mask: passes beside the kernels, or before them. Times in ms\nKV heads      S  sent MiB  kernels alone  passes alone  in turn  together  hidden  kernel",
        "by_head": "\nThe ring one KV head at a time\n     S  causal  sharding        ms       p10       p90   peak MiB  off  kernel",
        "context_parallel": "\nPyTorch's context_parallel on the same shards\n     S  causal  rotate          ms       p10       p90   peak MiB  kernel",
        "cap": f"\nGPUs of {CAP_GIB} GiB, emulated: the allocator of each process may reserve no more (the CUDA context and NCCL are not in it). Causal",
        "cpu": "Processes on a CPU, gloo, bf16. Times in ms\n     S  causal  sharding          ms    rank 0 last rank  work of rank 0, last rank  passes  sent MiB  expected",
    }[part]


def line(row):
    """A row as text."""
    def number(value, width, digits=1):
        return f"{value:{width}.{digits}f}" if value is not None else "-".rjust(width)

    kernel = " + ".join(filter(None, (row["kernel"] or "-", row.get("link_kernel"))))
    if row["part"] == "link":
        return f"{row['message_mib']:11.0f} {row['ms']:9.3f} {row['gbps']:9.1f}  {kernel}"
    if row["part"] == "cap":
        return (f"{row['impl']:13} {row['gpus']} x  S = {row['S']:7}  predicted {number(row['predicted_mib'], 8)} MiB, measured {number(row['peak_mib'], 8)}, "
                f"off {number(row['diff_bytes'], 5, 0)}  {row['status']:3}  {kernel}")
    start = f"{row['S']:6}  {yes_no(row['causal']):>6}  "
    if row["part"] == "grid":
        return (f"{start}{row['sharding']:10} {number(row['single_ms'], 9, 2)} {number(row['ms'], 10, 2)} {number(row['p10_ms'], 9, 2)} {number(row['p90_ms'], 9, 2)} "
                f"{number(row['speedup'], 9, 2)} {number(row['rank0_ms'], 9, 2)} {number(row['last_rank_ms'], 9, 2)} {number(row['compute_ms'], 14, 2)} "
                f"{number(row['transfer_ms'], 13, 3)} {number(row['peak_mib'], 10)} {row['diff_bytes']:4} {number(row['single_peak_mib'], 10)} {row['single_diff_bytes']:4} "
                f"{number(row['pass_mib'], 9)} {row['pass_diff_bytes']:4}  {kernel}")
    if row["part"] == "overlap":
        return (f"{row['kv_heads']:8} {row['S']:6} {number(row['pass_mib'], 9)} {number(row['compute_ms'], 14, 3)} {number(row['transfer_ms'], 13, 3)} "
                f"{number(row['serial_ms'], 8, 3)} {number(row['ms'], 9, 3)} {number(row['hidden_pct'], 5, 0)} %  {kernel}")
    if row["part"] == "by_head":
        return (f"{start}{row['sharding']:10} {number(row['ms'], 7, 2)} {number(row['p10_ms'], 9, 2)} {number(row['p90_ms'], 9, 2)} {number(row['peak_mib'], 10)} "
                f"{row['diff_bytes']:4}  {kernel}")
    if row["part"] == "context_parallel":
        return f"{start}{row['rotate']:10} {number(row['ms'], 7, 2)} {number(row['p10_ms'], 9, 2)} {number(row['p90_ms'], 9, 2)} {number(row['peak_mib'], 10)}  {kernel}"
    return (f"{start}{row['sharding']:10} {number(row['ms'], 7)} {number(row['rank0_ms'], 9)} {number(row['last_rank_ms'], 9)} {number(row['rank0_work_pct'], 15)} % "
            f"{number(row['last_rank_work_pct'], 6)} % {row['passes']:7} {number(row['pass_mib'], 9, 3)} {number(row['pass_predicted_mib'], 9, 3)}")


def footer(found):
    """What values() found, as lines."""
    lines = []
    if found["link_gbps"]:
        lines.append(f"\nThe link carries {found['link_gbps']:.0f} GB/s in each direction; one GPU reaches {found['single_tflops']:.0f} TFLOP/s. So a pass hides behind the "
                     f"kernel from S / P = {found['least_shard']} on, with as many KV heads as query heads from {found['least_shard_mha']}")
    if found["grid_rows"]:
        lines.append(f"{found['memory_misses']} of {found['grid_rows']} rows miss the predicted memory, {found['pass_misses']} the predicted bytes of a pass")
        lines.append(f"S = {found['longest_S']}, {found['gpus']} GPUs against one: {found['full_speedup']:.2f} times as fast without a mask, causal "
                     f"{found['contiguous_speedup']:.2f} contiguous and {found['zigzag_speedup']:.2f} zigzag")
    if found["cap_gib"]:
        lines.append(f"In {found['cap_gib']} GiB: " + "; ".join(
            f"{said} up to S = {found[f'cap_{name}_fit_S']}, not {found[f'cap_{name}_fail_S']}" for said, name in
            (("one GPU", "one_gpu"), ("the ring", "ring"), ("the ring by head", "by_head"))))
    return "\n".join(lines)


def report(rows):
    """Print rows as they come, a header above each part; returns them as a list."""
    kept = []
    for row in rows:
        if not kept or kept[-1]["part"] != row["part"]:
            print(header(row["part"]), flush=True)
        kept.append(row)
        if line(row):
            print(line(row), flush=True)
    return kept


def mib(size):
    return None if size is None else size / MIB


def minus(a, b):
    return None if a is None or b is None else a - b


def yes_no(flag):
    return "yes" if flag else "no"


def gpu_problem(device=0):
    """Why flash attention cannot run on GPU number `device` here, in one line; None when it can."""
    try:
        import torch
    except ImportError:
        return "PyTorch is missing. Install it: https://pytorch.org/get-started/locally/"
    hip, cuda = getattr(torch.version, "hip", None), getattr(torch.version, "cuda", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        available = torch.cuda.is_available()
    if not available and hip:
        return f"PyTorch {torch.__version__} is a ROCm build and finds no GPU. Is the driver loaded, and may this user open it?"
    if not available and not cuda:
        return f"PyTorch {torch.__version__} is a CPU-only build. Install a build with CUDA: https://pytorch.org/get-started/locally/"
    if not available:
        try:
            torch.cuda.init()
            why = "no CUDA GPU is visible"
        except Exception as error:
            why = " ".join(str(error).split())
        if "too old" in why:
            return f"The NVIDIA driver is older than PyTorch {torch.__version__} (CUDA {cuda}) needs. Update the driver, or install a build for an older CUDA."
        return f"PyTorch {torch.__version__} (CUDA {cuda}) finds no NVIDIA GPU or driver here. Check nvidia-smi and CUDA_VISIBLE_DEVICES."
    if not 0 <= device < torch.cuda.device_count():
        return f"There is no GPU number {device}: PyTorch sees {torch.cuda.device_count()}."
    name, (major, minor) = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    if not hip and major < 8:
        return f"{name} has compute capability {major}.{minor}; the flash kernel needs 8.0 (Ampere) or newer. Older cards have SDPA's memory-efficient backend, in fp16."
    try:
        a = torch.ones(16, 16, dtype=torch.bfloat16, device=f"cuda:{device}")
        ok = (a @ a).sum().item() == 4096
    except Exception as error:
        why = " ".join(str(error).split())[:120]
        built = " ".join(torch.cuda.get_arch_list())
        return f"{name} ({major}.{minor}) runs no kernel of PyTorch {torch.__version__}, built for {built}: {why}. Install a build that names this card."
    return None if ok else f"{name} computes a wrong 16 x 16 matmul: the installation or the card is broken."


def main(argv=None):
    """Command line, by hand or under torchrun. Exit status 2 and one line on stderr where it cannot run (torchrun makes 1 of it)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", action="store_true", help="print the tables of the formulas and stop (no GPU, no PyTorch)")
    parser.add_argument("--gib", type=float, default=24, help="memory of each card for --predict, in GiB (24)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: gloo instead of NCCL (cuda)")
    parser.add_argument("--processes", type=int, default=4, metavar="P", help="how many to start with --device cpu, without torchrun (4)")
    parser.add_argument("--S", type=int, nargs="+", default=[384], metavar="S", help="lengths for --device cpu (384)")
    parser.add_argument("--rows", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.predict:
        print(predicted_table(options.gib))
        return 0
    try:
        import torch
    except ImportError:
        return stop(gpu_problem())
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return work(options)
    try:
        if options.device == "cpu":
            if options.processes < 2:
                raise CannotRun("A ring needs two processes or more: --processes 2")
            for S in options.S:
                runs(S, options.processes, 0, "zigzag")    # says so before anything is started
            rows = rows_of_processes(options.processes, ["--device", "cpu", "--S", *map(str, options.S)])
        else:
            check()
            print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}", flush=True)
            rows = measure()
        print(footer(values(report(rows))), flush=True)
    except CannotRun as error:
        return stop(error)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def stop(why):
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
