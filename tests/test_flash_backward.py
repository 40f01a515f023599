"""The backward lab without a GPU: the algorithm against autograd, the formulas against PyTorch's own operators, rows on a stand-in for the card."""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import types

import pytest
import torch

from support import bundled, one_thread  # noqa: F401

lab = bundled("flash_backward")
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


def run(*arguments, cwd=EXAMPLES, **env):
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **env}, capture_output=True, text=True, timeout=120)


# Without torch.

def test_alone_and_without_torch_it_predicts_or_says_what_it_needs(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    for flags in ((), ("--check",)):
        done = run("-I", "-S", "flash_backward.py", *flags, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing") and done.stderr.count("\n") == 1
    done = run("-I", "-S", "flash_backward.py", "--predict", "--gib", "24", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == (EXAMPLES / "outputs/flash_backward-predict.txt").read_text("utf-8")
    assert done.stdout.isascii() and max(map(len, done.stdout.splitlines())) <= 72


ROW = 28 * 4096 * 128 * 2            # a tensor of S x d for 28 heads in bf16
SQUARE = 28 * 4096**2 * 2


def test_naive_by_hand():
    moments = lab.naive_training(1, 28, 28, 4096, 128)
    assert moments["between the passes"] == 5 * ROW + SQUARE            # q, k, v, do, o and p
    assert max(moments.values()) == moments["ds"] == 6 * ROW + 4 * SQUARE       # dv came, and dp, p * dp, ds
    causal = lab.naive_training(1, 28, 28, 4096, 128, causal=True)
    assert all(causal[moment] - size == 4096**2 for moment, size in moments.items())
    gqa = lab.naive_training(1, 28, 4, 4096, 128)
    assert gqa["between the passes"] == 3 * ROW + 2 * ROW // 7 + 2 * ROW + SQUARE and gqa["ds"] == 3 * ROW + 2 * ROW // 7 + 2 * ROW + 4 * SQUARE


def test_flash_by_hand():
    moments = lab.flash_training(1, 28, 28, 4096, 128)
    kept = 5 * ROW + 4 * 28 * 4096 + 24                                 # q, k, v, do, o, lse, random state
    assert moments["between the passes"] == moments["forward"] == kept
    # do and o once more, delta, dq in fp32 (twice a row of bf16), dq, dk, dv
    assert max(moments.values()) == moments["backward"] == kept + 2 * ROW + 4 * 28 * 4096 + 2 * ROW + 3 * ROW
    assert lab.flash_training(1, 28, 28, 4096, 128, layout="BSHD")["backward"] == moments["backward"] - 2 * ROW
    # 132 multiprocessors, 28 heads: 5 blocks share a head, each with its own dq
    assert lab.flash_training(1, 28, 28, 4096, 128, deterministic=True)["backward"] == moments["backward"] + 4 * 2 * ROW
    # 28/4: dk and dv of 28 heads before they are added up
    gqa = lab.flash_training(1, 28, 4, 4096, 128)["backward"]
    assert gqa == (3 * ROW + 2 * ROW // 7) + 4 * 28 * 4096 + 24 + 2 * ROW + 4 * 28 * 4096 + 2 * ROW + (ROW + 2 * ROW // 7) + 2 * ROW


def test_flash_rounds_s_and_d_for_what_it_adds_up_in_fp32():
    odd, even = lab.flash_training(1, 28, 28, 1000, 128)["backward"], lab.flash_training(1, 28, 28, 1024, 128)["backward"]
    assert even - odd == 24 * 28 * (10 * 128 * 2 + 4)                   # delta and dq in fp32 are those of 1024 either way, lse is not
    wide = lab.flash_training(1, 28, 28, 1024, 160)["backward"] - lab.flash_training(1, 28, 28, 1024, 192)["backward"]
    assert wide == -10 * 28 * 1024 * 32 * 2                             # dq in fp32 is 192 wide either way
    with pytest.raises(ValueError, match="d = 100"):
        lab.flash_training(1, 28, 28, 1024, 100)


def test_splitting_shows_in_the_forward_pass_only():
    moments = lab.flash_training(1, 28, 28, 256, 128)
    assert moments["forward"] - moments["between the passes"] == 4 * 2 * 28 * 256 * 129 and max(moments.values()) == moments["backward"]


def test_flops():
    assert lab.flops(1, 28, 4096, 128) == 4 * 28 * 4096**2 * 128
    assert lab.flops(1, 28, 4096, 128, causal=True, matmuls=5) == 5 * 28 * 4096**2 * 128
    assert lab.rate(lab.QWEN, 1.0, 2) == pytest.approx(4 * 28 * 1024**2 * 128 / 1e9) and lab.rate(lab.QWEN, None, 2) is None


def test_spread():
    assert lab.spread([3.0, 1.0, 2.0]) == (2.0, pytest.approx(1.2), pytest.approx(2.8)) and lab.spread([5.0]) == (5.0, 5.0, 5.0)
    assert lab.spread(range(11)) == (5, 1, 9)


from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402


# The algorithm.

def test_the_check_passes():
    lab.check(device="cpu")


def test_check_runs_without_a_gpu():
    done = run("flash_backward.py", "--check")
    assert done.returncode == 0 and done.stdout.startswith("check: the tiled backward pass is autograd's") and done.stdout.isascii()


def qkv_do(S=45, heads=6, kv_heads=2, d=5, B=2):
    return lab.training_inputs({**lab.QWEN, "B": B, "heads": heads, "kv_heads": kv_heads, "S": S, "d": d, "dtype": "fp64"}, "cpu")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("Br, Bc", [(8, 8), (7, 11), (32, 4), (100, 100), (1, 1)])
def test_gradients_are_those_of_softmax_written_out(causal, Br, Bc):
    q, k, v, do = qkv_do()

    def written_out(q, k, v):
        s = q @ k.repeat_interleave(3, 1).mT / math.sqrt(5)
        if causal:
            s = s + torch.full((45, 45), -math.inf, dtype=torch.float64).triu(1)
        return torch.softmax(s, -1) @ v.repeat_interleave(3, 1)

    o, lse = lab.tiled_forward(q, k, v, causal, Br, Bc)
    torch.testing.assert_close(o, written_out(q, k, v), rtol=0, atol=1e-12)
    found = lab.tiled_backward(q, k, v, o, lse, do, causal, Br, Bc)
    for a, b in zip(found, lab.gradients(written_out, q, k, v, do)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_lse_is_that_of_the_whole_row():
    q, k, v, _ = qkv_do(kv_heads=6)
    torch.testing.assert_close(lab.tiled_forward(q, k, v)[1], torch.logsumexp(q @ k.mT / math.sqrt(5), -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_no_square_is_ever_made(causal):
    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            made = operator(*args, **(kwargs or {}))
            self.size = max([self.size, *(x.numel() for x in tree_leaves(made) if isinstance(x, torch.Tensor))])
            return made

    q, k, v, do = qkv_do(S=256, heads=2, d=4, B=1)
    with Largest() as seen:
        o, lse = lab.tiled_forward(q, k, v, causal)
        lab.tiled_backward(q, k, v, o, lse, do, causal)
    assert seen.size == 2 * 256 * 4 == q.numel() < 2 * 256**2


def delta_forgotten(q, k, v, o, lse, do, causal, Br, Bc):
    return lab.tiled_backward(q, k, v, torch.zeros_like(o), lse, do, causal, Br, Bc)


def delta_added(q, k, v, o, lse, do, causal, Br, Bc):
    return lab.tiled_backward(q, k, v, -o, lse, do, causal, Br, Bc)


def normaliser_forgotten(q, k, v, o, lse, do, causal, Br, Bc):
    return lab.tiled_backward(q, k, v, o, torch.zeros_like(lse), do, causal, Br, Bc)


def mask_forgotten(q, k, v, o, lse, do, causal, Br, Bc):
    return lab.tiled_backward(q, k, v, o, lse, do, False, Br, Bc)


def scale_forgotten(q, k, v, o, lse, do, causal, Br, Bc):
    dq, dk, dv = lab.tiled_backward(q, k, v, o, lse, do, causal, Br, Bc)
    return dq, dk * math.sqrt(q.shape[-1]), dv


def last_tile_overwrites_dq(q, k, v, o, lse, do, causal, Br, Bc):
    _, dk, dv = lab.tiled_backward(q, k, v, o, lse, do, causal, Br, Bc)
    j = (q.shape[2] - 1) // Bc * Bc
    k_last, v_last = torch.zeros_like(k), torch.zeros_like(v)
    k_last[:, :, j:], v_last[:, :, j:] = k[:, :, j:], v[:, :, j:]
    return lab.tiled_backward(q, k_last, v_last, o, lse, do, causal, Br, Bc)[0], dk, dv


def one_head_of_the_group(q, k, v, o, lse, do, causal, Br, Bc):
    group = q.shape[1] // k.shape[1]
    return (lab.tiled_backward(q, k, v, o, lse, do, causal, Br, Bc)[0],
            *lab.tiled_backward(q[:, ::group], k, v, o[:, ::group], lse[:, ::group], do[:, ::group], causal, Br, Bc)[1:])


def mean_of_the_group(q, k, v, o, lse, do, causal, Br, Bc):
    dq, dk, dv = lab.tiled_backward(q, k, v, o, lse, do, causal, Br, Bc)
    return dq, dk / (q.shape[1] // k.shape[1]), dv


def not_a_number(*args):
    return tuple(x * math.nan for x in lab.tiled_backward(*args))


@pytest.mark.parametrize("wrong", [delta_forgotten, delta_added, normaliser_forgotten, mask_forgotten, scale_forgotten, last_tile_overwrites_dq,
                                   one_head_of_the_group, mean_of_the_group, not_a_number])
def test_the_check_rejects_a_wrong_backward_pass(wrong):
    with pytest.raises(AssertionError, match=r"d[qkv] is off by"):
        lab.check(backward=wrong, device="cpu")


def test_gradcheck_rejects_as_well(monkeypatch):
    """With the comparison against autograd blinded, finite differences still see it."""
    monkeypatch.setattr(lab, "gradients", lambda side, q, k, v, do, *args: tuple(torch.ones_like(x) for x in (q, k, v)))
    lab.check(device="cpu")
    with pytest.raises(AssertionError, match="gradcheck fails"):
        lab.check(backward=scale_forgotten, device="cpu")


def unscaled(q, k, v, causal):
    return lab.naive(q * math.sqrt(q.shape[-1]), k, v, causal)


def heads_in_turn(q, k, v, causal):
    times = q.shape[1] // k.shape[1]
    return lab.naive(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1), causal)


def no_gradient_through_p(q, k, v, causal):
    return lab.naive(q.detach(), k.detach(), v, causal) + 0 * (q.sum() + k.sum())


def no_mask(q, k, v, causal):
    return lab.naive(q, k, v, False)


@pytest.mark.parametrize("wrong", [unscaled, heads_in_turn, no_gradient_through_p, no_mask])
def test_the_check_rejects_wrong_sides(wrong):
    with pytest.raises(AssertionError, match="of flash is off by"):
        lab.check(attention=wrong, device="cpu")
    with pytest.raises(AssertionError, match="of the baseline is off by"):
        lab.check(baseline=wrong, device="cpu")


# The formula of naive, against what PyTorch's operators make on the CPU in the same two passes.

class Requested(TorchDispatchMode):
    """Counts the bytes of storages that live, as an allocator counts requests. What an operator makes inside itself it does not see."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        made = operator(*args, **(kwargs or {}))
        for x in tree_leaves(made):
            if isinstance(x, torch.Tensor):
                storage = x.untyped_storage()
                self.alive.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        self.peak = max(self.peak, self.now())
        return made

    def now(self):
        self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
        return sum(size for _, size in self.alive.values())


@pytest.fixture
def allocator(monkeypatch):
    """torch.cuda's counters as far as weigh_training() needs them, on the CPU."""
    counted, made = Requested(), lab.training_inputs
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: setattr(counted, "peak", counted.now()))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"requested_bytes.all.peak": counted.peak, "requested_bytes.all.current": counted.now()})
    monkeypatch.setattr(lab, "training_inputs", lambda shape, device="cpu": made(shape, "cpu"))
    with counted:
        yield counted


@pytest.mark.parametrize("kv_heads, causal", [(6, False), (6, True), (2, False), (2, True)])
@pytest.mark.parametrize("S, d", [(70, 16), (130, 8)])
def test_naive_keeps_and_makes_what_its_formula_says(allocator, kv_heads, causal, S, d):
    shape = {**lab.QWEN, "B": 2, "heads": 6, "kv_heads": kv_heads, "S": S, "d": d, "dtype": "fp32", "causal": causal}
    kept_alive = torch.ones(1000)
    peak, kept, grads = lab.weigh_training(lab.naive, shape)
    assert [x.shape for x in grads] == [(2, 6, S, d), (2, kv_heads, S, d), (2, kv_heads, S, d)] and len(kept_alive) == 1000
    moments = lab.naive_training(2, 6, kv_heads, S, d, 4, causal)
    assert kept == moments["between the passes"]
    square = 2 * 6 * S * S * 4
    assert peak == moments["ds"] - square          # the CPU's softmax backward makes no p * dp of its own


def test_what_flash_keeps_is_o_and_lse(allocator):
    """On the CPU with the lab's own autograd function: q, k, v, do, o and lse, and nothing else."""
    shape = {**lab.QWEN, "B": 1, "heads": 4, "kv_heads": 4, "S": 64, "d": 16, "dtype": "fp32"}
    _, kept, _ = lab.weigh_training(lambda q, k, v, causal: lab.differentiable(q, k, v, causal), shape)
    assert kept == lab.flash_training(1, 4, 4, 64, 16, 4)["between the passes"] - 24


# The rows, on a stand-in for the card.

KERNELS = ["void pytorch_flash::flash_fwd_kernel<int>(int)", "void at::native::elementwise_kernel<128>(int)", "void pytorch_flash::flash_bwd_dot_do_o_kernel<int>(int)",
           "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<int>(int)", "void pytorch_flash::flash_bwd_convert_dq_kernel<int>(int)"]


@pytest.fixture
def card(monkeypatch):
    """A card of 132 multiprocessors whose memory is as the formulas say; it runs out of it when card.gib is passed."""
    state = types.SimpleNamespace(gib=1000.0, off=0, backend="flash", grad=1.0)
    properties = types.SimpleNamespace(multi_processor_count=132, L2_cache_size=50 * lab.MIB)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(lab, "release", lambda: None)
    made = lab.training_inputs
    monkeypatch.setattr(lab, "training_inputs", lambda shape, device="cpu": made({**shape, "heads": 2, "kv_heads": 2, "S": 4, "d": 8}, "cpu"))

    def weigh(side, shape):
        name = side.__name__ if side.__name__ in ("naive", "flash") else "flash"
        peak, kept = lab.predicted(shape, 132, torch.are_deterministic_algorithms_enabled())[name]
        if peak > state.gib * lab.GIB:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 14.00 GiB.")
        return peak - state.off, kept, tuple(torch.full((1, 1, 4, 4), state.grad if side is lab.flash else 1.0) for _ in range(3))

    monkeypatch.setattr(lab, "weigh_training", weigh)
    monkeypatch.setattr(lab, "time_training", lambda side, shape: {"fwd": [1.0, 2.0, 3.0], "bwd": [3.0, 5.0, 7.0]} if side is not lab.naive else {"fwd": [4.0], "bwd": [10.0]})
    monkeypatch.setattr(lab, "which_kernel", lambda call: (call(), KERNELS)[1])
    real = lab.forced

    def forced(backend):
        def side(q, k, v, causal=False):
            if backend in ("cudnn",) and torch.are_deterministic_algorithms_enabled():
                raise RuntimeError("No available kernel. Aborting execution.")
            return real("math")(q, k, v, causal)
        return side

    monkeypatch.setattr(lab, "forced", forced)
    monkeypatch.setattr(torch, "_fused_sdp_choice", lambda *args, **options: 3)
    return state


def test_rows(card, capsys):
    rows = lab.report(lab.measure(), lab.header, lab.line)
    training = [row for row in rows if row["part"] == "training"]
    assert [(row["causal"], row["S"]) for row in training] == [(causal, S) for causal in (False, True) for S in lab.LENGTHS]
    assert all(row["status"] == "ok" and row["kernel"] for row in rows)
    row = training[2]
    assert row["naive_mib"] == 3752.0 and row["naive_diff_bytes"] == row["flash_diff_bytes"] == row["flash_kept_diff_bytes"] == 0
    assert row["flash_fwd_ms"] == 2 and row["flash_bwd_p90_ms"] == pytest.approx(6.6) and row["speedup"] == 2 and row["flash_bwd_over_fwd"] == 2.5
    assert row["kernel"] == "flash_fwd_kernel + elementwise_kernel + flash_bwd_dot_do_o_kernel + flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel + flash_bwd_convert_dq_kernel"
    assert [row["in_l2"] for row in training[:5]] == [True, False, False, False, False]
    alone = [row for row in rows if row["part"] == "variants" and row["naive_mib"] is None]
    assert len(alone) == 4 and all(row["status"] == "ok" and row["naive_fwd_ms"] is None is row["speedup"] and row["flash_bwd_ms"] == 5 for row in alone)
    refused = [row for row in rows if row["part"] == "determinism" and row["refused"]]
    assert [(row["impl"], row["deterministic"], row["kernel"]) for row in refused] == [("cudnn", True, "none")]
    for part in ("training", "variants", "default", "determinism"):
        assert len({tuple(sorted(row)) for row in rows if row["part"] == part}) == 1, part
    found = lab.values(rows)
    assert found["rows"] == 16 and found["misses"] == 0 and found["flash_dq_differing"] == 0 and found["default_backend"] == "cudnn" and found["runs"] == 10
    text = capsys.readouterr().out + lab.footer(found)
    assert text.isascii() and "refused" in text
    json.dumps(rows, allow_nan=False)


def test_a_miss_is_told(card):
    card.off = 512
    row = lab.training_row("training", lab.QWEN)
    assert row["flash_diff_bytes"] == 512 and "512" in lab.line(row) and lab.values([row])["misses"] == 1


def test_out_of_memory_is_a_row(card):
    card.gib = 24
    rows = [row for row in lab.measure() if row["part"] == "training"]
    assert len(rows) == 10 and [(row["S"], row["status"]) for row in rows[3:5]] == [(8192, "ok"), (16384, "oom")]
    row = rows[4]
    assert row["naive_mib"] is row["naive_fwd_ms"] is row["naive_kernel"] is row["ratio"] is row["speedup"] is row["rel_err_dq"] is None
    assert row["flash_mib"] and row["flash_bwd_ms"] == 5 and "oom" in lab.line(row)


def test_different_gradients_stop_the_lab(card):
    card.grad = 1.1
    with pytest.raises(AssertionError, match="the gradients of naive and flash differ by"):
        lab.training_row("training", lab.QWEN)


def test_repetitions_are_compared_bit_for_bit(monkeypatch):
    made, turn = lab.training_inputs, []
    monkeypatch.setattr(lab, "training_inputs", lambda shape: made({**shape, "heads": 2, "kv_heads": 2, "S": 4, "d": 8}, "cpu"))
    real = lab.gradients

    def gradients(*args):
        dq, dk, dv = real(*args)
        turn.append(1)
        if len(turn) in (3, 7, 8):
            dq = torch.nextafter(dq, torch.full_like(dq, 100.0 if len(turn) == 3 else -100.0))
        return dq, dk, dv

    monkeypatch.setattr(lab, "gradients", gradients)
    found = lab.repeated(lab.naive, lab.QWEN)
    assert (found["dq_differing"], found["dq_distinct"], found["dk_differing"], found["dv_distinct"]) == (3, 3, 0, 1)
    assert 0 < found["dq_max_diff"] < 0.1 and found["dk_max_diff"] == 0 and set(found) == set(lab.repetition_columns())


@pytest.mark.parametrize("kernel, backend", [
    (" + ".join(map(lab.short, KERNELS)), "flash"), ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_bf16", "cudnn"),
    ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80 + fmha_cutlassB_bf16_aligned_128x64_k128_sm80", "efficient"), ("gemm + softmax_warp_backward", "math"),
])
def test_backends_by_name(kernel, backend):
    assert lab.backend_of(kernel) == backend


def test_timing_warms_up_and_takes_fewer_of_the_long(monkeypatch):
    clock = {"ms": 0.0, "step": 1.0}

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            clock["ms"] += clock["step"]
            self.at = clock["ms"]

        def elapsed_time(self, other):
            return other.at - self.at

    made = lab.training_inputs
    monkeypatch.setattr(lab, "training_inputs", lambda shape: made({**shape, "heads": 2, "kv_heads": 2, "S": 4, "d": 8}, "cpu"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None, raising=False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert lab.time_training(lab.naive, lab.QWEN) == {"fwd": [1.0] * 10, "bwd": [1.0] * 10}
    clock["step"] = 60.0
    assert lab.time_training(lab.naive, lab.QWEN) == {"fwd": [60.0] * 5, "bwd": [60.0] * 5}


def test_deterministic_algorithms_are_put_back():
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    with pytest.raises(ZeroDivisionError):
        with lab.deterministic_algorithms(True):
            assert torch.are_deterministic_algorithms_enabled()
            1 / 0
    assert before == (torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory)


# What was measured.


def test_measured_bytes_are_the_predicted_ones(measured):
    sms = measured["machine"]["sms"]
    rows = [row for row in measured["rows"] if row["part"] in ("training", "variants")]
    assert len(rows) == 16 and measured["values"]["misses"] == 0
    for row in rows:
        for side, (peak, kept) in lab.predicted(row, sms).items():
            if row[f"{side}_mib"] is not None:
                assert (row[f"{side}_mib"] * lab.MIB, row[f"{side}_kept_mib"] * lab.MIB) == (peak, kept), (side, row["S"], row["layout"])
    for row in measured["rows"]:
        if row["part"] == "determinism" and row["backend"] == "flash":
            assert row["peak_mib"] * lab.MIB == lab.predicted(row, sms, row["deterministic"])["flash"][0]


def test_measured_columns_follow_from_times_and_bytes(measured):
    sms = measured["machine"]["sms"]
    for row in measured["rows"]:
        if row["part"] in ("training", "variants"):
            for side, (peak, _) in lab.predicted(row, sms).items():
                assert row[f"{side}_predicted_mib"] == peak / lab.MIB
            both = row["naive_mib"] is not None
            times = {name: row[f"{name}_ms"] for name in ("naive_fwd", "naive_bwd", "flash_fwd", "flash_bwd")}
            expected = {
                "flash_bwd_over_fwd": times["flash_bwd"] / times["flash_fwd"],
                "flash_fwd_tflops": lab.rate(row, times["flash_fwd"], 2), "flash_bwd_tflops": lab.rate(row, times["flash_bwd"], 5),
            }
            if both:
                expected |= {
                    "ratio": row["naive_mib"] / row["flash_mib"], "kept_ratio": row["naive_kept_mib"] / row["flash_kept_mib"],
                    "speedup": (times["naive_fwd"] + times["naive_bwd"]) / (times["flash_fwd"] + times["flash_bwd"]),
                    "naive_bwd_over_fwd": times["naive_bwd"] / times["naive_fwd"],
                }
                assert max(row[f"rel_err_{name}"] for name in ("dq", "dk", "dv")) <= 0.05
            assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9), (row["part"], row["S"])
        elif row["part"] == "default":
            assert row["default_bwd_tflops"] == pytest.approx(lab.rate(row, row["default_bwd_ms"], 5)) and row["default_kept_mib"] < row["default_mib"]
        elif not row["refused"]:
            assert row["runs"] == lab.RUNS and all(row[f"{name}_distinct"] <= row[f"{name}_differing"] + 1 for name in ("dq", "dk", "dv"))
            assert row["predicted_mib"] in (None, row["peak_mib"])
        for ms in (name for name in row if name.endswith("_ms") and "_p" not in name and row[name] is not None):
            low, high = (row[ms.removesuffix("ms") + f"p{part}_ms"] for part in (10, 90))
            assert low <= row[ms] <= high, (row["part"], row["S"], ms)


def test_measured_the_default_asks_for_the_same_memory_each_time(measured):
    default, = (row for row in measured["rows"] if row["part"] == "default" and not row["causal"])
    repeated, = (row for row in measured["rows"] if row["part"] == "determinism" and (row["impl"], row["deterministic"]) == ("default", False))
    assert default["default_mib"] == repeated["peak_mib"] and default["backend"] == repeated["backend"]
    assert default["default_bwd_ms"] == pytest.approx(repeated["bwd_ms"], rel=0.08)


def test_measured_dq_varies_and_dk_and_dv_do_not(measured):
    found = {(row["impl"], row["deterministic"]): row for row in measured["rows"] if row["part"] == "determinism" and row["kv_heads"] == 28 and not row["causal"]}
    assert found["flash", False]["dq_differing"] > 0 == found["flash", False]["dk_differing"] == found["flash", False]["dv_differing"]
    assert found["flash", True]["dq_differing"] == 0 and found["cudnn", True]["refused"]
    assert (found["default", False]["backend"], found["default", True]["backend"]) == ("cudnn", "flash")


def test_measured_flash_wins_both_passes_of_long_sequences(measured):
    for row in measured["rows"]:
        if row["part"] == "training" and row["S"] >= 2048:
            assert row["flash_fwd_ms"] < row["naive_fwd_ms"] and row["flash_bwd_ms"] < row["naive_bwd_ms"]
            assert row["flash_mib"] < row["naive_mib"] / 3 and row["flash_bwd_p10_ms"] <= row["flash_bwd_ms"] <= row["flash_bwd_p90_ms"]
