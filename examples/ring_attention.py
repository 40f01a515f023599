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
import math
import os
import sys
import time

try:
    from kit.card import ended, gpu_problem, stop
    from kit.clock import quantile
    from kit.errors import reference, relative_difference
    from kit.inputs import check_input, inputs
    from kit.kernels import once, short, which_kernel
    from kit.memory import attempt, GIB, MIB, mib, minus, release, SAID
    from kit.sizes import largest_S, round_up
    from kit.table import report
    from ring.formulas import by_head_bytes, one_gpu_bytes, pass_bytes, QWEN, ring_bytes, sizes_of
    from ring.clock import alone_on, by_rank, gathered, kernel_columns, link_kind, repeats, together, weighed
    from ring.processes import CannotRun, ring_problem, rows_of_processes, work
    from ring.text import CAP_GIB, footer, header, line, values
    from flash_vs_naive_memory import naive
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/ring_attention.py of the lesson's site.", file=sys.stderr) or 2)

LENGTHS = (16384, 32768, 65536, 131072, 262144, 524288)
MODES = ((False, "contiguous"), (True, "contiguous"), (True, "zigzag"))        # (causal, sharding)
OVERLAP = ((4, 4096), (4, 8192), (4, 16384), (4, 32768), (28, 4096), (28, 8192), (28, 16384), (28, 32768))   # (KV heads, S)
PASSED = tuple(2**n for n in range(20, 30, 3))             # bytes of a message between neighbours
ROTATE = ("allgather", "alltoall")                         # how PyTorch's context parallelism moves k and v
CHECK_S = {"cpu": 96, "cuda": 1536}                        # at least; rounded up to what can be cut


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
    the late queries see anything, and that is all of it. Raises ValueError for any other sharding, and for halves that are none.
    """
    if sharding not in ("contiguous", "zigzag") or causal and sharding == "zigzag" and s % 2:
        raise ValueError(f"sharding = {sharding}, s = {s}: contiguous, or zigzag with an even s")
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

    check_input(q, k, v, causal)
    aten = torch.ops.aten
    kernel = aten._scaled_dot_product_flash_attention if q.is_cuda else aten._scaled_dot_product_flash_attention_for_cpu
    return kernel(q, k, v, 0.0, causal)[:2]


def merge_into(o, lse, o_part, lse_part):
    """Merge a part into (o, lse), in place and in fp32.  # o, o_part [B, H, s, d], lse, lse_part [B, H, s]

    (0, -inf) is the part that has seen no key; two such parts would give NaN, but the first block is a rank's own, and in
    it every query sees itself.
    """
    import torch

    if o_part.shape != o.shape or not lse.shape == lse_part.shape == o.shape[:3]:
        raise ValueError(f"o_part is {list(o_part.shape)}, lse_part {list(lse_part.shape)}: they must be as o, {list(o.shape)}, and lse, {list(lse.shape)}")
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

    check_input(q, k, v, same_S=True)
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


# The work, by formula.

def pairs_of(S, P, rank, causal, sharding):
    """The work of a rank: how many (query, key) pairs it computes. All ranks together have S², or S·(S + 1)/2 under a causal mask."""
    if not causal:
        return S // P * S
    return sum((run.start + 1 + run.stop) * len(run) // 2 for run in runs(S, P, rank, sharding))


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
                   **kernel_columns(kernels), **({"status": "ok"} if ok else {"status": "oom", "oom": sum(gathered(SAID[-1:]), [])[0]})}


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


def ring_rows(device, lengths, say=lambda: None):
    """What each process does: check, then measure."""
    check_processes(device)
    say()
    yield from cpu_rows(lengths) if device == "cpu" else gpu_rows()


# Rows, values and text.

def measure():
    """Yields one flat dict a row, from as many processes as there are GPUs (a power of two of them)."""
    import torch

    yield from rows_of_processes(ring_rows, 1 << (torch.cuda.device_count().bit_length() - 1))


def show(rows):
    print(footer(values(report(rows, header, line))), flush=True)


def cut(S, P):
    """Raises CannotRun where S cannot be cut for P processes."""
    runs(S, P, 0, "zigzag")


def main(argv=None):
    """Command line, by hand or under torchrun. Exit status 2 and one line on stderr where it cannot run (torchrun makes 1 of it)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", action="store_true", help="print the tables of the formulas and stop (no GPU, no PyTorch)")
    parser.add_argument("--gib", type=float, default=24, help="memory of each card for --predict, in GiB (24)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: gloo instead of NCCL (cuda)")
    parser.add_argument("--processes", type=int, default=4, metavar="P", help="how many to start with --device cpu, without torchrun (4)")
    parser.add_argument("--S", type=int, nargs="+", default=[384], metavar="S", help="lengths for --device cpu (384)")
    parser.add_argument("--ring_rows", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.predict:
        print(predicted_table(options.gib))
        return 0
    try:
        import torch
    except ImportError:
        return stop(gpu_problem())
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return work(options, ring_rows, LENGTHS, cut, show)
    try:
        if options.device == "cpu":
            if options.processes < 2:
                raise CannotRun("A ring needs two processes or more: --processes 2")
            for S in options.S:
                cut(S, options.processes)                  # says so before anything is started
            rows = rows_of_processes(ring_rows, options.processes, ["--device", "cpu", "--S", *map(str, options.S)])
        else:
            check()
            print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}", flush=True)
            rows = measure()
        show(rows)
    except CannotRun as error:
        return stop(error)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
