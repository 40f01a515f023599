"""The lab without a GPU: formulas, the split heuristic, the check, and the row loop on a stand-in for CUDA's allocator."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import types

import pytest
import torch

from support import bundled

lab = bundled("flash_vs_naive_memory")
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
FILE = EXAMPLES / "flash_vs_naive_memory.py"


def run(*arguments, cwd=None, **env):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **env},
                          capture_output=True, text=True, timeout=120)


# Formulas.

def test_naive_by_hand():
    # 28 heads, S = 4096, d = 128, bf16: two squares of 28·4096²·2 bytes and four tensors of 28·4096·128·2.
    assert lab.naive_bytes(1, 28, 28, 4096, 128) == 2 * 939_524_096 + 4 * 29_360_128
    # above q, k, v, o naive needs 1792 MiB of squares there, and 28 GiB at S = 16384
    assert 2 * 28 * 4096**2 * 2 / lab.MIB == 1792
    assert (lab.naive_bytes(1, 28, 28, 16384, 128) - 4 * 28 * 16384 * 128 * 2) / lab.GIB == 28
    # 28/4: q and o, the small k and v, the two expanded ones; causal: one byte a position more
    gqa = lab.naive_bytes(1, 28, 4, 1024, 128)
    assert gqa == 2 * 28 * 1024**2 * 2 + (28 + 28 + 4 + 4 + 28 + 28) * 1024 * 128 * 2
    assert lab.naive_bytes(1, 28, 4, 1024, 128, causal=True) == gqa + 1024**2


def test_the_peak_of_naive_is_its_last_moment():
    for shape in lab.random_shapes():
        sizes = list(lab.naive_moments(*(shape[n] for n in ("B", "heads", "kv_heads", "S", "d")), 2, shape["causal"]).values())
        assert sizes[-1] == max(sizes)


def test_flash_by_hand():
    qkvo = 4 * 28 * 4096 * 128 * 2
    assert lab.flash_bytes(1, 28, 28, 4096, 128) == qkvo + 4 * 28 * 4096 + 24
    # 28/4
    assert lab.flash_bytes(1, 28, 4, 4096, 128) == (28 + 28 + 4 + 4) * 4096 * 128 * 2 + 4 * 28 * 4096 + 24
    # S = 256: 112 blocks for 132 multiprocessors, 2 parts, each with an lse and a row of 128 in fp32
    assert lab.flash_bytes(1, 28, 28, 256, 128) == 4 * 28 * 256 * 128 * 2 + 4 * 28 * 256 + 24 + 4 * 2 * 28 * 256 * 129
    # d = 100: o is 104 wide, and so are the copies of q, k, v; S is long enough not to split
    assert lab.flash_bytes(1, 28, 28, 4096, 100) == 28 * 4096 * 2 * (3 * 100 + 3 * 104 + 104) + 4 * 28 * 4096 + 24


@pytest.mark.parametrize("d, wide", [(32, 32), (40, 64), (96, 96), (100, 128), (128, 128), (130, 192), (160, 192), (200, 256), (256, 256)])
def test_rows_of_the_accumulators(d, wide):
    n, S, d8 = lab.kv_splits(1, 2, 1024, -(-d // 8) * 8, 132), 1024, -(-d // 8) * 8
    assert n > 1
    plain = 3 * 2 * S * d * 2 + 2 * S * d8 * 2 + (3 * 2 * S * d8 * 2 if d8 > d else 0) + 4 * 2 * S + 24
    assert lab.flash_bytes(1, 2, 2, S, d) - plain == 4 * n * 2 * S * (1 + wide)


@pytest.mark.parametrize("B, heads, S, d, sms, parts", [
    (1, 28, 256, 128, 132, 2),       # 112 blocks, 264 slots: 0.42 against 0.85
    (1, 28, 512, 128, 132, 1),       # 224 blocks fill 80 %
    (1, 28, 1024, 128, 132, 1), (1, 28, 1024, 128, 128, 1), (1, 28, 32768, 128, 132, 1),
    (1, 1, 128, 128, 132, 1),        # one tile of keys cannot be cut
    (1, 1, 256, 64, 132, 1), (1, 1, 257, 64, 132, 2), (1, 1, 129, 128, 132, 2), (1, 1, 65, 160, 132, 2),
    (1, 1, 8192, 128, 132, 2),       # 128 blocks: two parts fill 97 % of 264
    (1, 1, 4096, 128, 132, 4),       # 64 blocks: four parts fill 97 %
    (1, 1, 1024, 64, 132, 4),        # 16 blocks, 4 tiles: all four, and still 24 %
    (1, 5, 1024, 256, 132, 3),       # 80 blocks: 16 parts would fill 97 %, three fill 91 % and are enough
])
def test_splits(B, heads, S, d, sms, parts):
    assert lab.kv_splits(B, heads, S, d, sms) == parts


def test_splits_are_reached_by_the_random_shapes():
    shapes = lab.random_shapes()
    assert len(shapes) == 100 and shapes == lab.random_shapes() and shapes != lab.random_shapes(seed=1)
    parts = [lab.kv_splits(s["B"], s["heads"], s["S"], lab.round_up(s["d"], 8), 132) for s in shapes]
    assert sum(n > 1 for n in parts) >= 30 and len(set(parts)) >= 4
    for wanted in (lambda s: s["d"] % 8, lambda s: s["causal"], lambda s: s["kv_heads"] < s["heads"], lambda s: s["B"] > 1,
                   lambda s: s["dtype"] == "fp16", lambda s: 128 < s["d"] <= 160, lambda s: s["S"] % 64):
        assert 3 <= sum(bool(wanted(s)) for s in shapes)
    assert max(lab.predicted(s)[0] for s in shapes) < 2 * lab.GIB


def test_the_arithmetic_limit():
    assert lab.arithmetic_S(24, 32) == 15031           # as the workspace of an H200 leaves it
    assert lab.arithmetic_S(24, 0) == 15041
    assert lab.largest_S(99, lambda S: S * S) == 9 and lab.largest_S(100, lambda S: S * S) == 10 and lab.largest_S(0, lambda S: S) == 0


def test_what_the_allocator_reserves_explains_the_step_between():
    # segments of more than 10 MiB are a multiple of 2 MiB: q, k, v, o and two squares, beside 32 MiB of workspace
    def reserved(S):
        return 2 * lab.round_up(28 * S * S * 2, 2 * lab.MIB) + 4 * lab.round_up(28 * S * 128 * 2, 2 * lab.MIB) + 32 * lab.MIB

    limit = lab.largest_S(24 * lab.GIB, reserved)
    assert 15008 < limit < 15031 and f"below: {limit}." in lab.arithmetic_S.__doc__


def test_resident_formula():
    naive, flash = lab.resident_bytes({**lab.QWEN, "S": 2048, "dtype": "fp32"})
    assert naive == 2 * 28 * 2048**2 * 4 + 4 * 28 * 2048 * 128 * 4 and flash == 4 * 28 * 2048 * 128 * 4 + 4 * 28 * 2048


# The printed prediction: no torch, narrow, captured.

def test_prediction_needs_no_torch_and_is_the_captured_one(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    done = run("flash_vs_naive_memory.py", "--predict", "--gib", "24", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == (EXAMPLES / "outputs" / "flash_vs_naive_memory-predict.txt").read_text("utf-8")
    assert done.stdout.isascii() and max(map(len, done.stdout.splitlines())) <= 72
    assert "1904.0" in done.stdout and "115584.0" in done.stdout


def test_a_smaller_card_holds_less():
    S = max(S for S in range(8000, 9000) if lab.naive_bytes(1, 28, 28, S, 128) <= 8 * lab.GIB)
    assert f"naive {S}, flash" in lab.predicted_table(8)


# The two sides and the check.


class Requested:
    """Counts the bytes of living storages, as the CUDA allocator counts requests: what PyTorch's operators make on the CPU."""

    def __init__(self):
        from torch.multiprocessing.reductions import StorageWeakRef
        from torch.utils._python_dispatch import TorchDispatchMode

        self.alive, self.peak, outer = {}, 0, self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                made = operator(*args, **(kwargs or {}))
                for tensor in made if isinstance(made, (tuple, list)) else (made,):
                    if isinstance(tensor, torch.Tensor):
                        storage = tensor.untyped_storage()
                        outer.alive.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
                outer.peak = max(outer.peak, outer.now())
                return made

        self.mode = Mode()

    def now(self):
        self.alive = {key: value for key, value in self.alive.items() if not value[0].expired()}
        return sum(size for _, size in self.alive.values())


@pytest.mark.parametrize("kv_heads, causal", [(6, False), (6, True), (2, False), (2, True), (1, True)])
@pytest.mark.parametrize("S, d", [(7, 16), (64, 8), (130, 33)])
def test_naive_makes_what_its_formula_says(kv_heads, causal, S, d):
    counted = Requested()
    with counted.mode:
        q, k, v = lab.inputs({**lab.QWEN, "B": 2, "heads": 6, "kv_heads": kv_heads, "S": S, "d": d, "dtype": "fp32"}, "cpu")
        o = lab.naive(q, k, v, causal)
    assert o.shape == (2, 6, S, d)
    assert counted.peak == lab.naive_bytes(2, 6, kv_heads, S, d, 4, causal)


def test_both_sides_pass_the_check():
    lab.check(device="cpu", S=96)


def unscaled(q, k, v, causal):
    return lab.naive(q * q.shape[-1] ** 0.5, k, v, causal)


def no_mask(q, k, v, causal):
    return lab.naive(q, k, v, False)


def heads_in_turn(q, k, v, causal):
    times = q.shape[1] // k.shape[1]
    return lab.naive(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1), causal)


def strict_mask(q, k, v, causal):
    o = lab.naive(q, k, v, causal)
    return torch.cat([o[:, :, :1], o[:, :, :-1]], 2) if causal else o


def rescale_forgotten(q, k, v, causal):
    return lab.naive(q, k, v, causal) * 1.05


def not_a_number(q, k, v, causal):
    return lab.naive(q, k, v, causal) * float("nan")


@pytest.mark.parametrize("wrong", [unscaled, no_mask, heads_in_turn, strict_mask, rescale_forgotten, not_a_number])
def test_the_check_rejects(wrong):
    with pytest.raises(AssertionError, match="flash is off by"):
        lab.check(attention=wrong, device="cpu", S=96)
    with pytest.raises(AssertionError, match="naive is not attention"):
        lab.check(baseline=wrong, device="cpu", S=96)


def test_relative_difference_is_that_of_the_whole():
    a, b = torch.randn(1, 2, 37, 8), torch.randn(1, 2, 37, 8)
    assert lab.relative_difference(a, b, rows=5) == pytest.approx(((a - b).norm() / b.norm()).item(), rel=1e-5)


# Kernels.

FLASH = ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>, "
         "false, false>(pytorch_flash::Flash_fwd_params)")
SPLIT = FLASH.replace("flash_fwd_kernel", "flash_fwd_splitkv_kernel")
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, 10>(float*)"
SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def test_short_names():
    assert [lab.short(name) for name in (FLASH, SOFTMAX, SPIN, "nvjet_tst_128x256_64x4_2x1_v_bz_TNT")] == [
        "flash_fwd_kernel", "softmax_warp_forward", "spin_kernel", "nvjet_tst_128x256_64x4_2x1_v_bz_TNT"]
    assert lab.once(["a", "a", "b", "a"]) == "a + b + a" and lab.once([]) is None


def seen_by_profiler(monkeypatch, names):
    """torch.profiler replaced by one that reports `names` (name, start, on the GPU?)."""
    event = lambda name, start, gpu: types.SimpleNamespace(
        name=name, time_range=types.SimpleNamespace(start=start), device_type=getattr(torch.autograd.DeviceType, "CUDA" if gpu else "CPU"))

    class Profile:
        def __init__(self, activities, acc_events):
            assert activities == [torch.profiler.ProfilerActivity.CUDA]

        __enter__ = lambda self: self
        __exit__ = lambda self, *error: None
        events = lambda self: [event(*name) for name in names]

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def test_which_kernel_keeps_kernels_in_the_order_of_the_gpu(monkeypatch):
    seen_by_profiler(monkeypatch, [
        (FLASH, 5, True), (SOFTMAX, 3, True), ("cudaLaunchKernel", 1, False), ("Memset (Device)", 2, True), ("Memcpy DtoD (Device -> Device)", 4, True),
        ("Activity Buffer Request", 0, True), ("Lazy Function Loading", 0, True)])
    called = []
    assert lab.which_kernel(lambda: called.append(1)) == [SOFTMAX, FLASH] and called == [1]


def test_kernels_of_cuts_at_the_marker_and_asks_one_by_one_when_it_cannot(monkeypatch):
    monkeypatch.setattr(lab, "which_kernel", lambda call: [SPIN, "a_", "b_", SPIN, FLASH])
    assert lab.kernels_of(int, int) == [["a_", "b_"], [FLASH]]
    answers = iter([["a_", SPIN, FLASH], ["first_"], ["second_"]])          # one marker was lost
    monkeypatch.setattr(lab, "which_kernel", lambda call: next(answers))
    assert lab.kernels_of(int, int) == [["first_"], ["second_"]]


# The row loop, on a stand-in for the card.

@pytest.fixture
def card(monkeypatch):
    """A GPU of 132 multiprocessors whose memory is as the formulas say, and which runs out of it when card.gib is passed."""
    state = types.SimpleNamespace(gib=1000.0, off=0, released=0, alive=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: types.SimpleNamespace(multi_processor_count=132, name="Card"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (20 * lab.GIB, 20 * lab.GIB))
    monkeypatch.setattr(lab, "warm_up", lambda: 32.0)
    monkeypatch.setattr(lab, "release", lambda: setattr(state, "released", state.released + 1))
    monkeypatch.setattr(lab, "inputs", lambda shape, device="cpu", filled=True: tuple(torch.zeros(1, 1, 2, 2) for _ in range(3)))

    def weigh(side, shape):
        size = dict(zip(("naive", "flash"), lab.predicted(shape))).get(side.__name__, lab.predicted(shape)[1] + 1536)
        if size > state.gib * lab.GIB:
            held = torch.ones(4)                                              # what a frame would keep alive
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 28.00 GiB.")
        return size - state.off, size + 512, torch.ones(1, 1, 2, 2)

    monkeypatch.setattr(lab, "weigh", weigh)
    monkeypatch.setattr(lab, "kernels_of", lambda *calls: [[FLASH] for _ in calls])
    monkeypatch.setattr(torch, "_fused_sdp_choice", lambda *a, **b: 3)
    return state


def test_rows_of_a_card_that_holds_all(card, capsys):
    rows = lab.report(lab.measure(), lab.header, lab.line)
    grid = [row for row in rows if row["part"] == "grid"]
    assert [(row["kv_heads"], row["causal"], row["S"]) for row in grid] == [(h, c, S) for h, c in lab.HEADS for S in lab.LENGTHS]
    assert all(row["naive_diff_bytes"] == row["flash_diff_bytes"] == 0 and row["status"] == "ok" and row["kernel"] == FLASH for row in grid)
    first = grid[0]
    assert (first["naive_mib"], first["delta_bytes"]) == (140.0, 146_800_640 - 29_474_840) and first["naive_kernel"] == "flash_fwd_kernel"
    assert first["ratio"] == pytest.approx(146_800_640 / 29_474_840) and first["naive_alloc_mib"] > first["naive_mib"]
    found = lab.values(rows)
    assert found["random_shapes"] == 100 and found["random_misses"] == found["grid_misses"] == 0 and found["grid_rows"] == 18
    assert found["default_backend"] == "CUDNN_ATTENTION" and found["workspace_mib"] == 32.0 and found["cap_first_fail_S"] is None
    text = capsys.readouterr().out
    assert "100 random shapes" in text and text.isascii() and lab.footer(found).isascii() and "No emulation" in lab.footer(found)
    assert not any(line(row) for row in rows if row["part"] == "random" for line in (lab.line,))


def test_a_miss_is_told(card):
    card.off = 512
    row = next(row for row in lab.random_rows(132))
    assert row["naive_diff_bytes"] == 512 and "512" in lab.line(row) and lab.values([row])["random_misses"] == 1


def test_out_of_memory_is_a_row_and_the_run_goes_on(card):
    card.gib = 24
    rows = [row for row in lab.measure() if row["part"] == "grid"]
    failed = [row for row in rows if row["status"] == "oom"]
    assert len(rows) == 18 and [row["S"] for row in failed] == [16384, 32768] * 3
    for row in failed:
        assert row["naive_mib"] is row["ratio"] is row["naive_diff_bytes"] is row["rel_err"] is row["naive_kernel"] is None
        assert row["flash_diff_bytes"] == 0 and row["kernel"] == FLASH and "oom" in lab.line(row)
    assert card.released > len(failed)


def test_cleaning_comes_after_the_except_block(monkeypatch):
    import weakref

    kept = []

    def fails():
        held = torch.ones(4)
        kept.append(weakref.ref(held))
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(lab, "release", lambda: kept.append(kept[0]() is None))
    assert lab.attempt(fails) is None and kept[1] is True


def test_other_errors_are_not_swallowed():
    with pytest.raises(RuntimeError, match="No available kernel"):
        lab.attempt(lambda: (_ for _ in ()).throw(RuntimeError("No available kernel. Aborting execution.")))


def test_different_numbers_stop_the_lab(card, monkeypatch):
    weigh = lab.weigh
    monkeypatch.setattr(lab, "weigh", lambda side, shape: (*weigh(side, shape)[:2], torch.full((1, 1, 2, 2), 1.0 + (side is lab.flash))))
    with pytest.raises(AssertionError, match="naive and flash differ"):
        next(lab.measure())


class Child:
    """A capped child that needs no GPU: 24 GiB hold naive up to S = 15008."""

    def __init__(self):
        self.stdin, self.returncode, self.killed = self, 0, False

    def write(self, text):
        self.job = json.loads(text)

    def flush(self):
        pass

    def communicate(self, timeout):
        ok = self.job["impl"] == "flash" or self.job["S"] <= 15008
        row = {"part": "cap", "impl": self.job["impl"], **lab.QWEN, "S": self.job["S"], "cap_gib": self.job["cap_gib"], "peak_mib": 1.0 if ok else None,
               "predicted_mib": 1.0, "reserved_mib": 1.0, "kernel": FLASH if ok else None, "status": "ok" if ok else "oom"}
        return "a warning\n" + json.dumps(row) + "\n", ""

    def kill(self):
        self.killed = True


@pytest.mark.parametrize("free", [1, 60, 139])
def test_the_emulated_card(card, monkeypatch, capsys, free):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free * lab.GIB, 140 * lab.GIB))
    children = []
    monkeypatch.setattr(lab, "child_process", lambda *arguments: children.append(Child()) or children[-1])
    rows = lab.report(lab.measure(), lab.header, lab.line)
    capped = [(row["impl"], row["S"], row["status"]) for row in rows if row["part"] == "cap"]
    assert capped == [("flash", 131072, "ok"), ("naive", 14976, "ok"), ("naive", 15008, "ok"), ("naive", 15040, "oom"), ("naive", 15072, "oom")]
    found = lab.values(rows)
    assert (found["cap_last_fit_S"], found["cap_arithmetic_S"], found["cap_first_fail_S"], found["cap_flash_S"]) == (15008, 15031, 15040, 131072)
    assert all(child.killed for child in children) and "15031" in lab.footer(found) and "131072" in capsys.readouterr().out


def test_children_that_fail_say_why():
    child = subprocess.Popen([sys.executable, "-c", "import sys; input(); sys.exit('no such thing')"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lab.send(child, {})
    with pytest.raises(RuntimeError, match="no such thing"):
        lab.answer(child)
    child = subprocess.Popen([sys.executable, "-c", "import os; input(); os.kill(os.getpid(), 9)"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lab.send(child, {})
    with pytest.raises(MemoryError):
        lab.answer(child)


def test_the_mask_is_made_before_the_scores():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        seen = []

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            self.seen.append(operator.name())
            return operator(*args, **(kwargs or {}))

    q = torch.ones(1, 2, 8, 4)
    with Log():
        lab.naive(q, q, q, True)
    assert Log.seen.index("aten::triu_") < Log.seen.index("aten::bmm") < Log.seen.index("aten::masked_fill_.Scalar")


@pytest.fixture
def allocator(monkeypatch):
    """torch.cuda as far as weigh(), warm_up() and a capped child need it, on the CPU: its counters count what operators make."""
    counted = Requested()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (140 * lab.GIB, 140 * lab.GIB))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: types.SimpleNamespace(multi_processor_count=132))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share: setattr(counted, "share", share))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: setattr(counted, "peak", counted.now()))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {
        f"{kind}_bytes.all.{what}": size for kind in ("requested", "allocated", "reserved") for what, size in (("peak", counted.peak), ("current", counted.now()))})
    made = lab.inputs
    monkeypatch.setattr(lab, "inputs", lambda shape, device="cpu", filled=True: made(shape, "cpu", filled))
    monkeypatch.setattr(lab, "kernels_of", lambda *calls: [[FLASH] for _ in calls])
    with counted.mode:
        yield counted


@pytest.mark.parametrize("kv_heads, causal", lab.HEADS)
def test_weighing_naive_gives_the_prediction_beside_what_lives_already(allocator, kv_heads, causal):
    shape = {**lab.QWEN, "kv_heads": kv_heads, "causal": causal, "S": 70, "d": 16}
    kept = torch.ones(1000)
    requested, allocated, o = lab.weigh(lab.naive, shape)
    assert requested == allocated == lab.predicted(shape)[0] and o.shape == (1, 28, 70, 16) and len(kept) == 1000


def test_a_capped_child_answers_with_a_row(allocator, monkeypatch, capsys):
    import io

    monkeypatch.setattr(lab, "QWEN", {**lab.QWEN, "d": 16})
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"impl": "naive", "S": 64, "cap_gib": 24, "device": 0}) + "\n"))
    lab.capped_child()
    row = json.loads(capsys.readouterr().out)
    assert row["status"] == "ok" and row["diff_bytes"] == 0 and row["peak_mib"] == row["predicted_mib"] and row["S"] == 64
    assert int(allocator.share * 140 * lab.GIB) == 24 * lab.GIB and "naive S =     64" in lab.line(row)
    assert row["workspace_mib"] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))                        # the parent is gone
    assert lab.capped_child() is None and capsys.readouterr().out == ""


# What was measured, against the formulas.


def rows_of(measured, *parts):
    return [row for row in measured["rows"] if row["part"] in parts]


def test_measured_every_shape_once_and_none_left_out(measured):
    assert [(row["kv_heads"], row["causal"], row["S"]) for row in rows_of(measured, "grid")] == [(*heads, S) for heads in lab.HEADS for S in lab.LENGTHS]
    assert [{name: row[name] for name in lab.QWEN} for row in rows_of(measured, "random")] == lab.random_shapes()
    assert {(row["impl"], row["status"]) for row in rows_of(measured, "cap")} == {("flash", "ok"), ("naive", "ok"), ("naive", "oom")}
    assert len(rows_of(measured, "default")) == 1


def test_measured_bytes_are_the_predicted_ones(measured):
    sms = measured["machine"]["sms"]
    for row in rows_of(measured, "grid", "random"):
        naive, flash = lab.predicted(row, sms)
        assert row["status"] == "ok" and row["naive_diff_bytes"] == row["flash_diff_bytes"] == 0
        assert row["naive_mib"] * lab.MIB == row["naive_predicted_mib"] * lab.MIB == naive and row["flash_mib"] * lab.MIB == row["flash_predicted_mib"] * lab.MIB == flash
        assert row["delta_bytes"] == naive - flash and row["ratio"] == pytest.approx(naive / flash) and row["rel_err"] <= 0.02
        assert row["naive_alloc_mib"] >= row["naive_mib"] and row["flash_alloc_mib"] >= row["flash_mib"]
    for row in rows_of(measured, "cap"):
        assert row["predicted_mib"] * lab.MIB == lab.predicted(row, sms)[row["impl"] == "flash"]
        assert row["status"] == "oom" or row["diff_bytes"] == 0 and row["peak_mib"] == row["predicted_mib"]


def test_measured_kernels_are_those_that_the_rows_claim(measured):
    for row in measured["rows"]:
        if row["part"] in ("grid", "random") or row.get("impl") == "flash":
            assert "pytorch_flash::flash_fwd" in row["kernel"] and "flash" not in row.get("naive_kernel", ""), row["S"]
        elif row["status"] == "ok":
            assert ("cudnn" if row["part"] == "default" else "SoftMax") in row["kernel"], row["S"]


# Without a GPU.

def test_resident_memory_shows_the_square(capsys):
    rows = lab.report(lab.resident_rows([1024]), lab.header, lab.line)
    row, = rows
    assert row["status"] == "ok" and row["naive_mib"] == pytest.approx(row["naive_predicted_mib"], rel=0.15)
    assert row["flash_mib"] == pytest.approx(row["flash_predicted_mib"], abs=40)
    assert "flash_attention_for_cpu" in row["kernel"] and "RESIDENT" in capsys.readouterr().out
    assert lab.values(rows)["random_shapes"] == 0 and lab.footer(lab.values(rows)) == ""


def test_resident_rows_without_enough_memory(monkeypatch):
    monkeypatch.setattr(lab, "available_bytes", lambda: 0)
    assert [row["status"] for row in lab.resident_rows([1024, 2048])] == ["oom", "oom"]


def test_resident_memory_is_in_bytes_on_both_systems(monkeypatch):
    import builtins
    import resource

    if sys.platform == "linux":
        block = bytearray(64 * lab.MIB)
        assert len(block) <= lab.max_resident_bytes() < lab.GIB * 64
    monkeypatch.setattr(builtins, "open", lambda *a, **b: (_ for _ in ()).throw(FileNotFoundError()))
    monkeypatch.setattr(resource, "getrusage", lambda who: types.SimpleNamespace(ru_maxrss=4096))
    monkeypatch.setattr(sys, "platform", "linux")
    assert lab.max_resident_bytes() == 4096 * 1024
    monkeypatch.setattr(sys, "platform", "darwin")
    assert lab.max_resident_bytes() == 4096


def test_available_memory_is_known():
    assert 0 < lab.available_bytes() < 2**50


# Refusals: one line, status 2.

FAKE = """
class AnyError(Exception): pass
class _V: cuda = {cuda}; hip = {hip}
version = _V
__version__ = "2.11.0"
bfloat16 = "bf16"
class _D:
    def __add__(self, o): return self
def ones(*a, **k): raise RuntimeError("CUDA error: no kernel image is available for execution on the device\\nlong text")
class cuda:
    is_available = staticmethod(lambda: {available})
    device_count = staticmethod(lambda: 1)
    get_device_name = staticmethod(lambda i=0: "Card")
    get_device_capability = staticmethod(lambda i=0: {capability})
    get_arch_list = staticmethod(lambda: ["sm_80", "sm_90"])
    @staticmethod
    def init(): raise RuntimeError({init!r})
"""
OLD = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
NONE = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"
CAUSES = {
    "torch missing": (None, "PyTorch is missing"),
    "CPU build": (dict(cuda=None, hip=None, available=False, capability=(0, 0), init=""), "CPU-only build"),
    "old driver": (dict(cuda="'13.0'", hip=None, available=False, capability=(0, 0), init=OLD), "driver is older"),
    "no GPU": (dict(cuda="'13.0'", hip=None, available=False, capability=(0, 0), init=NONE), "finds no NVIDIA GPU"),
    "ROCm, no GPU": (dict(cuda=None, hip="'6.4'", available=False, capability=(0, 0), init=""), "ROCm build and finds no GPU"),
    "old card": (dict(cuda="'13.0'", hip=None, available=True, capability=(7, 5), init=""), "needs 8.0 (Ampere)"),
    "other architecture": (dict(cuda="'13.0'", hip=None, available=True, capability=(12, 0), init=""), "built for sm_80 sm_90"),
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("program", ["flash_vs_naive_memory.py", "run.py"])
def test_refusals(tmp_path, program, cause):
    fields, expected = CAUSES[cause]
    (tmp_path / "torch.py").write_text("raise ImportError" if fields is None else FAKE.format(**fields))
    if program != "run.py" and cause in ("CPU build", "old driver", "no GPU", "ROCm, no GPU"):
        return                                                                # there the lab goes on, on the CPU
    done = run(EXAMPLES / program, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and done.stdout == ""
    assert expected in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert "hip" not in fields or not fields["hip"] or "NVIDIA" not in done.stderr if fields else True


def test_devices_are_named(monkeypatch):
    done = run(FILE, "--device", "gpu7")
    assert done.returncode == 2 and "write cuda:0 or cpu" in done.stderr


def test_the_file_alone_runs_on_a_cpu_and_says_what_it_measures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab, "resident_rows", lambda: iter([]))
    monkeypatch.setattr(lab, "check", lambda **kind: None)
    assert lab.main(["--device", "cpu"]) == 0 and capsys.readouterr().out == ""
    if not torch.cuda.is_available():
        assert lab.main([]) == 0 and "PyTorch" in capsys.readouterr().out


def test_ascii():
    out = [lab.header(part) for part in ("grid", "default", "random", "cap", "resident")]
    assert "".join(out).isascii()
