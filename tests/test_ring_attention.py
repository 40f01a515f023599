"""examples/ring_attention.py: who sees what, bytes by formula, wrong rings rejected, processes over gloo, the committed measurement."""

import contextlib
import gc
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import torch

import flash_vs_naive_memory as memory  # noqa: E402
from support import bundled, one_thread  # noqa: F401, E402
import run as runner  # noqa: E402
import split_kv  # noqa: E402

lab = bundled("ring_attention")

MODES = pytest.mark.parametrize("causal, sharding", lab.MODES)


# Who owns what, and what a query sees: against the mask, position by position.


@MODES
@pytest.mark.parametrize("P", [1, 2, 3, 4, 5])
def test_every_pair_is_computed_once_and_no_other(P, causal, sharding):
    S = 4 * P
    mine = [[i for run in lab.runs(S, P, rank, sharding) for i in run] for rank in range(P)]
    assert sorted(itertools.chain(*mine)) == list(range(S))
    met = torch.zeros(S, S, dtype=torch.int)
    for rank, step in itertools.product(range(P), range(P)):
        source = (rank - step) % P
        visible = lab.seen(rank, source, S // P, causal, sharding)
        if not visible:
            continue
        queries, keys, diagonal = visible
        rows, columns = mine[rank][queries], mine[source][keys]
        for (a, i), (b, j) in itertools.product(enumerate(rows), enumerate(columns)):
            met[i, j] += not (diagonal and b > a)          # the kernel's mask knows rows and columns, not positions
    expected = torch.ones(S, S, dtype=torch.int)
    assert torch.equal(met, expected.tril() if causal else expected)


@MODES
@pytest.mark.parametrize("P", [1, 2, 3, 4, 8])
def test_the_work_of_a_rank(P, causal, sharding):
    S = 16 * P
    found = [lab.pairs_of(S, P, rank, causal, sharding) for rank in range(P)]
    for rank in range(P):
        mine = [i for run in lab.runs(S, P, rank, sharding) for i in run]
        assert found[rank] == sum(i + 1 if causal else S for i in mine)
    assert sum(found) == (S * (S + 1) // 2 if causal else S * S)
    assert (len(set(found)) == 1) == (not causal or sharding == "zigzag" or P == 1)
    if sharding == "zigzag":                               # also step by step, or ranks would wait for each other
        for step in range(1, P):
            halves = {math.prod(len(range(*x.indices(8))) for x in lab.seen(rank, (rank - step) % P, 8, True, "zigzag")[:2]) for rank in range(P)}
            assert halves == {32}


def test_contiguous_work_of_two_ranks_is_one_to_three():
    first, last = (lab.pairs_of(2**19, 2, rank, True, "contiguous") for rank in (0, 1))
    assert round(last / first, 3) == 3 and lab.work_pct(2**19, 2, 1, (True, "contiguous")) == pytest.approx(75, abs=0.01)


@pytest.mark.parametrize("sharding, parts", [("contiguous", 4), ("zigzag", 8)])
def test_an_S_that_cannot_be_cut_is_said(sharding, parts):
    with pytest.raises(lab.CannotRun, match=f"S = 1002 cannot be cut into {parts} equal parts .*choose a multiple of {parts}"):
        lab.runs(1002, 4, 0, sharding)


# The formulas.


def test_bytes_of_a_pass():
    assert lab.pass_bytes(1, 4, 131072, 128, 2) == 128 * 2**20
    k = torch.empty(3, 4, 60 // 5, 64, dtype=torch.bfloat16)
    assert lab.pass_bytes(3, 4, 60, 64, 5) == 2 * k.numel() * 2


@pytest.mark.parametrize("P", [2, 4])
def test_memory_is_what_lives_at_the_merge(P, monkeypatch):
    """Every tensor that is alive when merge_into() has made its weights, found by its storage."""
    gc.collect()
    gc.freeze()                                            # get_objects() then sees what is made from here on
    B, H, H_kv, s, d = 1, 28, 4, 24, 128
    q = torch.randn(B, H, s, d, dtype=torch.bfloat16)
    k, v = (torch.randn(B, H_kv, s, d, dtype=torch.bfloat16) for _ in range(2))
    peak = []

    def alive():
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in gc.get_objects() if type(x) is torch.Tensor and x.numel()}
        return sum(storages.values())

    def merge_into(o, lse, o_part, lse_part):
        total = torch.logaddexp(lse, lse_part)
        weights = (lse - total).exp_()
        peak.append(alive())
        o.mul_(weights.unsqueeze(-1)).addcmul_(o_part, (lse_part - total).exp_().unsqueeze(-1))
        lse.copy_(total)

    monkeypatch.setattr(lab, "merge_into", merge_into)
    ring = types.SimpleNamespace(rank=1, size=P, pass_on=lambda block, into: ([], block))
    before = alive() - sum(x.untyped_storage().nbytes() for x in (q, k, v))
    lab.ring_attention(q, k, v, False, "contiguous", ring)
    assert max(peak) - before == lab.ring_bytes(B, H, H_kv, s * P, d, P)
    peak.clear()
    lab.ring_by_head(q, k, v, False, "contiguous", ring)
    assert max(peak) - before == lab.by_head_bytes(B, H, H_kv, s * P, d, P)
    gc.unfreeze()


def test_memory_of_one_gpu_is_that_of_the_memory_lab():
    for S in (8192, 16384, 131072):
        assert lab.one_gpu_bytes(1, 28, 4, S, 128) == memory.flash_bytes(1, 28, 4, S, 128)


def test_two_gpus_need_the_accumulators_too():
    S = 131072
    one, two, by_head = (size(S) for size in lab.sizes_of(2).values())
    assert 1 < two / one < 1.01 and 1.4 < one / by_head < 1.5
    assert lab.sizes_of(4)["ring"](S) < 0.55 * one


def test_largest_S_is_the_largest():
    for size in lab.sizes_of(2).values():
        S = lab.largest_S(lab.CAP_GIB * lab.GIB, size)
        assert size(S) <= lab.CAP_GIB * lab.GIB < size(S + 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads, kv_heads", [(28, 4), (32, 32)])
def test_the_least_shard_by_trying(heads, kv_heads, causal):
    flops, link, d, e = 350e12, 50e9, 128, 2

    def hides(s):
        return 4 * heads * s * s * d / (2 if causal else 1) / flops >= 2 * kv_heads * s * d * e / link

    s = lab.least_shard(flops, link, heads / kv_heads, causal)
    assert hides(s) and not hides(s - 1)


def test_predict_needs_no_torch(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    run = [sys.executable, "-I", "-S", "ring_attention.py"]
    done = subprocess.run([*run, "--predict"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and "  2       1         128   50.0  50.0    25.0  75.0    50.0  50.0" in done.stdout
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing.") and done.stderr.count("\n") == 1


# The merge, and the check.


def test_merge_is_that_of_split_kv():
    q, (K, V) = split_kv.q, (split_kv.K, split_kv.V)
    o, lse = torch.zeros(1, 1, 1, 4), torch.full((1, 1, 1), -math.inf)
    for keys in split_kv.cut(6, 3):
        o_part, lse_part = split_kv.partial(q, K, V, keys)
        lab.merge_into(o, lse, torch.tensor(o_part).reshape(1, 1, 1, 4), torch.tensor(lse_part).reshape(1, 1, 1))
    expected, expected_lse = split_kv.partial(q, K, V, range(6))
    assert o.flatten().tolist() == pytest.approx(expected, abs=1e-6) and lse.item() == pytest.approx(expected_lse, abs=1e-6)


def test_check_accepts_the_ring():
    lab.check(device="cpu")


def merged(change):
    """merge_into() with a change of what it is given."""
    right = lab.merge_into
    return lambda o, lse, o_part, lse_part: right(o, lse, *change(o, lse, o_part, lse_part))


def averaged(o, lse, o_part, lse_part):
    first = torch.isinf(lse)
    lse[...] = torch.where(first, 1.0, lse + 1)
    o += (o_part - o) / lse.unsqueeze(-1)


def exchanged(o, lse, o_part, lse_part):
    if torch.isinf(lse).any():
        o.copy_(o_part), lse.copy_(lse_part)
        return
    total = torch.logaddexp(lse, lse_part)
    o.mul_((lse_part - total).exp_().unsqueeze(-1)).addcmul_(o_part, (lse - total).exp_().unsqueeze(-1))
    lse.copy_(total)


def lse_kept(o, lse, o_part, lse_part):
    total = torch.logaddexp(lse, lse_part)
    o.mul_((lse - total).exp_().unsqueeze(-1)).addcmul_(o_part, (lse_part - total).exp_().unsqueeze(-1))
    lse.copy_(torch.where(torch.isinf(lse), total, lse))


def rescale_forgotten(o, lse, o_part, lse_part):
    total = torch.logaddexp(lse, lse_part)
    o.addcmul_(o_part, (lse_part - total).exp_().unsqueeze(-1))
    lse.copy_(total)


def seen_wrongly(change):
    """seen() with a change of its answer: change(rank, source, s, causal, sharding, answer)."""
    right = lab.seen
    return lambda *where: change(*where, right(*where))


class Rehearsal(lab.Rehearsal):
    right = lab.Rehearsal.pass_on


class OtherWay(Rehearsal):
    def pass_on(self, block, into):
        self.step -= 2                                     # so that block rank + t arrives
        return self.right(block, into)


class NothingNew(Rehearsal):
    def pass_on(self, block, into):
        return [], block


class OneStepLate(Rehearsal):
    def pass_on(self, block, into):
        self.step -= self.step > 0
        works, into = self.right(block, into)
        self.step += self.step > 1
        return works, into


class KeysWithoutValues(Rehearsal):
    def pass_on(self, block, into):
        works, (k, v) = self.right(block, into)
        return works, (k, block[1])


class KeysAndValuesExchanged(Rehearsal):
    def pass_on(self, block, into):
        works, (k, v) = self.right(block, into)
        return works, (v, k)


def kernel(change):
    """flash_part() with a change: change(flash_part, q, k, v, causal)."""
    right = lab.flash_part
    return lambda q, k, v, causal=False: change(right, q, k, v, causal)


def runs_unbalanced(S, P, rank, sharding):
    """Contiguous runs, whatever is asked for: the positions of the one with the mask of the other."""
    return [range(rank * S // P, (rank + 1) * S // P)]


def log2(right, q, k, v, causal):
    o, lse = right(q, k, v, causal)
    return o, lse / math.log(2)


WRONG = {
    "parts averaged": ("merge_into", averaged),
    "weights exchanged": ("merge_into", exchanged),
    "lse not updated": ("merge_into", lse_kept),
    "the old part not rescaled": ("merge_into", rescale_forgotten),
    "parts added": ("merge_into", lambda o, lse, o_part, lse_part: o.add_(o_part)),
    "the last part alone": ("merge_into", lambda o, lse, o_part, lse_part: o.copy_(o_part)),
    "lse in log2": ("flash_part", kernel(log2)),
    "o unnormalised": ("flash_part", kernel(lambda right, q, k, v, causal: (lambda o, lse: (o * lse.exp().unsqueeze(-1).to(o.dtype), lse))(*right(q, k, v, causal)))),
    "KV heads interleaved": ("flash_part", kernel(lambda right, q, k, v, causal: right(q, k.repeat(1, 7, 1, 1), v.repeat(1, 7, 1, 1), causal))),
    "never a mask": ("flash_part", kernel(lambda right, q, k, v, causal: right(q, k, v, False))),
    "a mask on every square block": ("flash_part", kernel(lambda right, q, k, v, causal: right(q, k, v, causal or q.shape[2] == k.shape[2]))),
    "a step forgotten": ("seen", seen_wrongly(lambda rank, source, s, causal, sharding, answer: None if (source - rank) % 3 == 1 else answer)),
    "the own block alone": ("seen", seen_wrongly(lambda rank, source, s, causal, sharding, answer: answer if source == rank else None)),
    "later blocks seen": ("seen", seen_wrongly(lambda rank, source, s, causal, sharding, answer: answer or (slice(0, s), slice(0, s), False))),
    "halves of the keys exchanged": ("seen", seen_wrongly(
        lambda rank, source, s, causal, sharding, answer: (answer[0], slice(s // 2, s), False) if answer and answer[1] == slice(0, s // 2) else answer)),
    "halves of the queries exchanged": ("seen", seen_wrongly(
        lambda rank, source, s, causal, sharding, answer: (slice(0, s // 2), *answer[1:]) if answer and answer[0] == slice(s // 2, s) else answer)),
    "contiguous positions, zigzag mask": ("runs", runs_unbalanced),
    "contiguous mask, zigzag positions": ("seen", lambda rank, source, s, causal, sharding, right=lab.seen: right(rank, source, s, causal, "contiguous")),
    "the other way round": ("Rehearsal", OtherWay),
    "nothing travels": ("Rehearsal", NothingNew),
    "the block of the step before": ("Rehearsal", OneStepLate),
    "k without its v": ("Rehearsal", KeysWithoutValues),
    "k and v exchanged": ("Rehearsal", KeysAndValuesExchanged),
}


@pytest.mark.parametrize("name", WRONG)
def test_check_rejects(name, monkeypatch):
    monkeypatch.setattr(lab, *WRONG[name])
    with pytest.raises(AssertionError, match="is off by"):
        lab.check(device="cpu")


def test_check_rejects_what_is_given_and_a_wrong_baseline():
    def rounded(q, k, v, causal, sharding, ring):
        return lab.ring_attention(q, k, v, causal, sharding, ring).to(torch.float8_e4m3fn).to(q.dtype)

    with pytest.raises(AssertionError, match="is off by"):
        lab.check(rounded, device="cpu")
    with pytest.raises(AssertionError, match="expected"):
        lab.check(lambda *args: lab.ring_attention(*args)[:, :, :-1], device="cpu")
    with pytest.raises(AssertionError, match="naive is not attention"):
        lab.check(baseline=lambda q, k, v, causal: lab.naive(q, k, v, not causal), device="cpu")


def test_one_buffer_for_two_processes_and_never_more_than_two():
    assert [len(lab.buffers_for((torch.empty(2),), P)) for P in (1, 2, 3, 4, 8)] == [0, 1, 2, 2, 2]


# Processes. torchrun costs seconds of processor time, so each start checks several things.

ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def torchrun(P, *arguments, cwd, seconds=60, pause=0.1):
    """(finished process, seconds it took); the two streams are one text. pause: how often torchrun looks for the dead; 0.1 s is its default."""
    begin = time.monotonic()
    run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--monitor-interval", str(pause), "--nproc-per-node", str(P), *arguments],
                         cwd=cwd, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    return run, time.monotonic() - begin


@pytest.fixture
def alone(tmp_path):
    """A folder with the file and nothing else."""
    shutil.copy(lab.__file__, tmp_path)
    return tmp_path


DRIVER = '''
import json, sys
import ring_attention as lab

class Backwards(lab.Ring):
    """Sends to the rank before and receives from the one behind."""
    def pass_on(self, block, into):
        import torch.distributed as dist
        ops = [dist.P2POp(dist.isend, x, (self.rank - 1) % self.size) for x in block]
        return dist.batch_isend_irecv(ops + [dist.P2POp(dist.irecv, x, (self.rank + 1) % self.size) for x in into]), into

class TooEarly(lab.Ring):
    """Gives back the buffer of the step before."""
    def pass_on(self, block, into):
        works, arriving = super().pass_on(block, into)
        return works, block

def found(ring):
    """What the check says of each mode: every rank goes on after a mistake, or the others would wait for it."""
    said = []
    for mode in lab.MODES:
        place, case = ring(), lab.Case(mode, "cpu", 8)
        o = lab.ring_attention(*(lab.shard(x, 4, place.rank, mode[1]) for x in case.tensors), *mode, place)
        try:
            case.judge("the ring", o, 4, place.rank, mode[1])
        except AssertionError as error:
            said.append(str(error))
    return said

def rows(lengths):
    yield {"part": "verdicts", **{ring.__name__: lab.gathered(found(ring)) for ring in (lab.Ring, Backwards, TooEarly)}}
    yield from right(lengths)

right, lab.cpu_rows = lab.cpu_rows, rows
sys.exit(lab.main(["--ring_rows", "--device", "cpu", "--S", "384"]))
'''


def test_four_processes(alone):
    (alone / "driver.py").write_text(DRIVER, "utf-8")
    run, _ = torchrun(4, "driver.py", cwd=alone)
    assert run.returncode == 0, run.stdout
    verdicts, *rows = [json.loads(text[4:]) for text in run.stdout.splitlines() if text.startswith("row ")]
    assert verdicts["Ring"] == [[]] * 4
    for wrong in ("Backwards", "TooEarly"):
        assert any("is off by" in said for said in itertools.chain(*verdicts[wrong])), verdicts
    assert [(row["causal"], row["sharding"]) for row in rows] == list(lab.MODES)
    for row in rows:
        assert row["pass_mib"] == row["pass_predicted_mib"] == lab.pass_bytes(1, 4, 384, 128, 4) / 2**20 and row["passes"] == 3
        assert row["gpus"] == 4 and row["ms"] >= row["rank0_ms"] > 0


def test_three_processes_print_a_table(alone):
    run, _ = torchrun(3, "ring_attention.py", "--device", "cpu", cwd=alone)
    assert run.returncode == 0, run.stdout
    assert "3 processes on a CPU" in run.stdout and "check: the ring, the ring by head and PyTorch's context_parallel agree" in run.stdout
    assert "   384     yes  contiguous" in run.stdout and "11.1 %   55.5 %       2     0.250     0.250" in run.stdout.replace("11.2 %", "11.1 %")


def test_two_processes_without_torchrun(alone):
    run = subprocess.run([sys.executable, "ring_attention.py", "--device", "cpu", "--processes", "2", "--S", "128"], cwd=alone, env=ENV,
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("   128  ") == 3 and "row {" not in run.stdout


def test_a_rank_that_dies_is_an_error_and_not_a_wait(alone):
    (alone / "driver.py").write_text('''
import os, sys
import ring_attention as lab

class Dying(lab.Ring):
    def pass_on(self, block, into):
        if self.rank == 2:
            os._exit(9)
        return super().pass_on(block, into)

lab.Ring = Dying
sys.exit(lab.main(["--device", "cpu"]))
''', "utf-8")
    run, seconds = torchrun(4, "driver.py", cwd=alone, pause=8)                              # at its default it may end the others before they have spoken
    assert run.returncode == 1 and seconds < 30, (seconds, run.stdout)
    assert "a neighbour in the ring is gone" in run.stdout, run.stdout                       # by a rank that waited for it
    assert "exitcode  : 9" in run.stdout and "rank      : 2" in run.stdout, run.stdout       # by torchrun


def test_processes_that_end_badly_fail_the_measurement(monkeypatch):
    monkeypatch.setattr(lab, "started", lambda program, arguments, P: subprocess.Popen(
        [sys.executable, "-c", "print('row {\"part\": \"grid\"}'); print('words'); raise SystemExit(1)"], stdout=subprocess.PIPE, text=True))
    rows = lab.rows_of_processes(lab.ring_rows, 4)
    assert next(rows) == {"part": "grid"}
    with pytest.raises(RuntimeError, match="one of the 4 processes of the ring ended badly"):
        next(rows)


def test_processes_do_not_outlive_an_interrupted_measurement(monkeypatch):
    kept = []

    def started(program, arguments, P):
        kept.append(subprocess.Popen([sys.executable, "-c", "import time; print('row {}', flush=True); time.sleep(60)"], stdout=subprocess.PIPE, text=True))
        return kept[0]

    monkeypatch.setattr(lab, "started", started)
    rows = lab.rows_of_processes(lab.ring_rows, 2)
    next(rows)
    rows.close()
    assert kept[0].poll() is not None


# Where it cannot run: one line, and exit status 2.


def gpus(monkeypatch, count):
    monkeypatch.setattr(lab, "gpu_problem", lambda device=0: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def one_line(capsys, words):
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err, err


def test_one_gpu_is_too_few(monkeypatch, capsys):
    gpus(monkeypatch, 1)
    assert lab.main([]) == 2
    one_line(capsys, "A ring needs two GPUs in one machine, and PyTorch sees one.")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(capsys):
    assert lab.main([]) == 2
    one_line(capsys, "PyTorch")


def test_run_py_skips_it_on_one_gpu(monkeypatch, tmp_path, capsys):
    source = Path(lab.__file__)
    right = runner.load

    def load(path):
        module = right(path)
        monkeypatch.setattr(module, "gpu_problem", lambda device=0: None)
        return module

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(runner, "load", load)
    word, why = runner.run_lab("ring_attention", source, tmp_path)
    assert word == "skipped" and why.startswith("A ring needs two GPUs") and not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, words", [
    (["--device", "cpu", "--S", "1002"], "S = 1002 cannot be cut into 8 equal parts (zigzag sharding over 4 processes): choose a multiple of 8"),
    (["--device", "cpu", "--processes", "1"], "A ring needs two processes or more"),
])
def test_what_cannot_be_cut_is_said_before_anything_starts(arguments, words, capsys, monkeypatch):
    monkeypatch.setattr(lab, "started", lambda *args: pytest.fail("started"))
    assert lab.main(arguments) == 2
    one_line(capsys, words)


@pytest.mark.parametrize("P, count, arguments, words", [
    (4, 0, ["--S", "1002"], "S = 1002 cannot be cut into 8 equal parts"),
    (2, 1, [], "A ring needs two GPUs in one machine"),
    (4, 2, [], "4 processes were started, and PyTorch sees 2 GPUs"),
    (3, 4, [], "S = 16384 cannot be cut into 6 equal parts"),
    (1, 4, [], "A ring needs two processes or more"),
])
def test_under_torchrun_the_first_rank_says_why_and_no_other(P, count, arguments, words, capsys, monkeypatch):
    gpus(monkeypatch, count)
    for name, value in {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": str(P), "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert lab.main(arguments) == 2
    one_line(capsys, words)
    monkeypatch.setenv("RANK", "1")
    if P > 1:
        assert lab.main(arguments) == 2 and capsys.readouterr() == ("", "")


# The rows of GPUs, with one process for two and a CPU for a GPU.


@pytest.fixture
def two(monkeypatch):
    """rank 1 of 2, whose neighbour is like it."""
    class Ring(lab.Still):
        def __init__(self):
            self.rank, self.size, self.sent_bytes = 1, 2, 0

        def pass_on(self, block, into):
            self.sent_bytes += sum(x.numel() * x.element_size() for x in block)
            return [], block

    inputs = lab.inputs
    kernels = ["void pytorch_flash::flash_fwd_kernel<Traits<128>>(Params)", "ncclDevKernel_SendRecv(args)", "elementwise_kernel"]
    for name, value in {
        "Ring": Ring, "Still": Ring, "gathered": lambda value: [value, value], "release": lambda: None, "link_kind": lambda: "NV18",
        "inputs": lambda shape, device="cpu": inputs(shape, "cpu"), "relative_difference": lambda a, b: 0.002,
        "together": lambda call, samples: [(call(), [1.0, 2.0])[1]] * samples, "alone_on": lambda rank, call, samples: (call(), [4.0] * samples)[1],
        "which_kernel": lambda call: (call(), kernels)[1], "attempt": lambda measure, *args: measure(*args),
        "weighed": lambda tensors, call: (1000, kernels, call(*tensors)), "LENGTHS": (64, 128), "OVERLAP": ((4, 64), (28, 64)), "PASSED": (1024, 2048),
    }.items():
        monkeypatch.setattr(lab, name, value)

    @contextlib.contextmanager
    def context(S, causal, rotate, device):
        yield None

    monkeypatch.setattr(lab, "context_parallel_of", context)
    monkeypatch.setattr(lab, "context_parallel_attention", lambda q, k, v, causal: q)
    monkeypatch.setattr(torch, "randn", lambda *shape, device=None, right=torch.randn, **kind: right(*shape, **kind))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: types.SimpleNamespace(total_memory=2**37))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda part: None)
    monkeypatch.setattr(lab, "CAP_GIB", 2**-10)
    monkeypatch.setattr(lab.rows_under_cap, "__defaults__", (8,))


def test_every_row(two):
    rows = list(lab.gpu_rows())
    assert [row["part"] for row in rows] == ["link"] * 2 + ["grid"] * 6 + ["overlap"] * 2 + ["by_head"] * 2 + ["context_parallel"] * 8 + ["cap"] * 12
    for row in rows:
        assert all(isinstance(value, (str, int, float, bool, type(None))) for value in row.values()) and row["status"] == "ok"
        assert row["kernel"] and lab.header(row["part"]) and lab.line(row).isascii()
        if row["part"] in ("grid", "by_head", "cap"):
            assert row["diff_bytes"] == round(row["predicted_mib"] * 2**20) - 1000
    for row in rows:
        if row["part"] == "grid":
            assert row["pass_diff_bytes"] == 0 and row["passes"] == 1 and row["pass_mib"] == row["S"] * 1024 / 2**20
            assert (row["ms"], row["rank0_ms"], row["last_rank_ms"], row["single_ms"], row["speedup"]) == (2.0, 1.0, 2.0, 4.0, 2.0)
            assert row["kernel"] == "flash_fwd_kernel" and row["link_kernel"] == "ncclDevKernel_SendRecv"
    found = lab.values(rows)
    assert found["memory_misses"] == found["grid_rows"] == 6 and found["pass_misses"] == 0 and found["link"] == "NV18"
    assert lab.footer(found).isascii() and lab.footer(lab.values([])) == ""
    json.dumps([rows, found], allow_nan=False)


def test_out_of_memory_under_the_cap_is_a_row(two, monkeypatch):
    monkeypatch.setattr(lab, "attempt", lambda measure, impl, S, ring: None if impl == "ring" else measure(impl, S, ring))
    monkeypatch.setattr(lab, "SAID", ["Tried to allocate 8.00 GiB"])
    rows = list(lab.rows_under_cap())
    assert {(row["impl"], row["oom"]) for row in rows if row["status"] == "oom"} == {("ring", lab.SAID[0])}
    gone = [row for row in rows if row["status"] == "oom"]
    assert len(gone) == 4 and all(row["peak_mib"] is row["kernel"] is row["diff_bytes"] is None for row in gone)
    assert lab.values(rows)["cap_ring_fit_S"] is None and lab.values(rows)["cap_one_gpu_fit_S"] and lab.line(gone[0])


@pytest.mark.parametrize("broken", ["grid", "by_head", "context_parallel"])
def test_a_ring_that_differs_gives_no_row(two, monkeypatch, broken):
    monkeypatch.setattr(lab, "relative_difference", lambda a, b: 0.03)
    rows = {"grid": lambda: lab.grid_rows(64), "by_head": lambda: iter([lab.by_head_row(64)]), "context_parallel": lambda: lab.context_parallel_rows(64)}
    with pytest.raises(AssertionError, match="differ by"):
        next(rows[broken]())


def test_samples():
    assert [lab.repeats(seconds * 350e12) for seconds in (5.7, 2.1, 1, 0.5, 0.3, 0.001)] == [2, 2, 3, 4, 6, 10]


def test_the_slowest_rank_counts():
    found = lab.by_rank([[1.0, 5.0], [2.0, 3.0], [7.0, 4.0]])
    assert (found["ms"], found["p10_ms"], found["p90_ms"], found["rank0_ms"], found["last_rank_ms"], found["samples"]) == (5.0, 3.0, 7.0, 2.0, 4.0, 3)


def test_link_kind(monkeypatch):
    said = "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-31\nGPU1\tNV18\t X \t0-31\n"
    monkeypatch.setattr(lab.subprocess, "run", lambda *args, **kind: types.SimpleNamespace(stdout=said))
    assert lab.link_kind() == "NV18"
    monkeypatch.setattr(lab.subprocess, "run", lambda *args, **kind: types.SimpleNamespace(stdout=""))
    assert lab.link_kind() is None


# What was measured, against the formulas.


def rows_of(measured, part, **fields):
    return [row for row in measured["rows"] if row["part"] == part and all(row[name] == value for name, value in fields.items())]


SHAPE = ("B", "heads", "kv_heads", "S", "d")


def test_measured_every_length_and_mode_once(measured):
    assert [(row["S"], (row["causal"], row["sharding"])) for row in rows_of(measured, "grid")] == list(itertools.product(lab.LENGTHS, lab.MODES))
    assert [(row["kv_heads"], row["S"]) for row in rows_of(measured, "overlap")] == list(lab.OVERLAP)
    assert [row["message_mib"] * 2**20 for row in rows_of(measured, "link")] == list(lab.PASSED)
    assert len(rows_of(measured, "context_parallel")) == 16 and len(rows_of(measured, "cap")) == 12 and len(rows_of(measured, "by_head")) == 4
    assert all(row["status"] == "ok" for row in measured["rows"] if row["part"] != "cap")


def test_measured_memory_is_the_predicted_one_to_the_byte(measured):
    for row in rows_of(measured, "grid"):
        sizes = [row[name] for name in SHAPE]
        assert row["diff_bytes"] == row["single_diff_bytes"] == 0
        assert row["peak_mib"] * 2**20 == lab.ring_bytes(*sizes, row["gpus"]) and row["single_peak_mib"] * 2**20 == lab.one_gpu_bytes(*sizes)
    for row in rows_of(measured, "by_head"):
        assert row["diff_bytes"] == 0 and row["peak_mib"] * 2**20 == lab.by_head_bytes(*(row[name] for name in SHAPE), row["gpus"])
    for row in rows_of(measured, "cap", status="ok"):
        assert row["diff_bytes"] == 0 and row["peak_mib"] * 2**20 == lab.sizes_of(2)[row["impl"]](row["S"])


def test_measured_bytes_of_a_pass_are_the_predicted_ones(measured):
    for row in rows_of(measured, "grid"):
        assert row["passes"] == row["gpus"] - 1 and row["pass_diff_bytes"] == 0
        assert row["pass_mib"] * 2**20 == lab.pass_bytes(row["B"], row["kv_heads"], row["S"], row["d"], row["gpus"])


def test_measured_columns_follow_from_times_and_positions(measured):
    for row in rows_of(measured, "grid"):
        P, mode = row["gpus"], (row["causal"], row["sharding"])
        assert row["p10_ms"] <= row["ms"] <= row["p90_ms"] and row["samples"] >= 2
        assert row["speedup"] == row["single_ms"] / row["ms"] and row["rel_err"] < 0.01
        assert (row["rank0_work_pct"], row["last_rank_work_pct"]) == tuple(lab.work_pct(row["S"], P, rank, mode) for rank in (0, P - 1))
        assert max(row["rank0_ms"], row["last_rank_ms"]) <= row["p90_ms"]
    for row in rows_of(measured, "overlap"):
        assert row["saved_ms"] == row["serial_ms"] - row["ms"] and math.isclose(row["hidden_pct"], 100 * row["saved_ms"] / row["transfer_ms"])
    for row in rows_of(measured, "link"):
        assert math.isclose(row["gbps"], row["message_mib"] * 2**20 / row["ms"] / 1e6) and row["link"] == "NV18"


def test_measured_kernels(measured):
    for row in measured["rows"]:
        if row["part"] == "link":
            assert "nccl" in row["kernel"]
        elif row["status"] == "ok":
            assert row["kernel"] == "flash_fwd_kernel" and "flash_fwd_kernel" in row["kernel_full"] and "splitkv" not in row["kernel_full"]
            assert (row["link_kernel"] is None) == (row["impl"] == "one GPU")
    assert {row["link_kernel"] for row in rows_of(measured, "grid")} == {"ncclDevKernel_SendRecv"}
    assert all(("AllGather" in row["link_kernel"]) == (row["rotate"] == "allgather") for row in rows_of(measured, "context_parallel"))


def test_measured_cap_is_where_the_arithmetic_says(measured):
    for impl, size in lab.sizes_of(2).items():
        rows = rows_of(measured, "cap", impl=impl)
        assert all(row["cap_gib"] == lab.CAP_GIB for row in rows)
        fits, fails = max(row["S"] for row in rows if row["status"] == "ok"), min(row["S"] for row in rows if row["status"] == "oom")
        assert fails - fits == 4096
        # The allocator hands out whole blocks, so the last row that fits may be one step below the arithmetic.
        assert 0 <= lab.largest_S(lab.CAP_GIB * lab.GIB, size) // 4096 * 4096 - fits <= 4096
