"""The accuracy lab without a GPU: its check, its ablations, its comparison of bits, and its rows on the CPU."""
import json
import math
import os
import shutil
import subprocess
import sys

import pytest
import torch

from support import bundled, one_thread  # noqa: F401

lab = bundled("attention_error")


def test_alone_and_without_torch_it_says_what_it_needs(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    done = subprocess.run([sys.executable, "-I", "-S", "attention_error.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**os.environ})
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing") and done.stderr.count("\n") == 1


# The check.

@pytest.mark.parametrize("name", ["flash", "math"])
def test_backends_pass_the_check(name):
    lab.check(attention=lab.backend(name), device="cpu")


@pytest.mark.parametrize("Bc", [*lab.TILES, 7, 1000])
def test_tiles_pass_the_check(Bc):
    lab.check(attention=lab.tiled(Bc, rounded=True), device="cpu")


def unscaled(q, k, v):
    return lab.naive(q * math.sqrt(q.shape[-1]), k, v)


def last_tile_dropped(q, k, v):
    return lab.naive(q, k[:, :, :-32], v[:, :, :-32])


def probabilities_in_8_bits(q, k, v):
    p = torch.softmax(q.float() @ k.float().mT / math.sqrt(q.shape[-1]), -1)
    return (p.to(torch.float8_e4m3fn).float() @ v.float()).to(q.dtype)


def keys_in_8_bits(q, k, v):
    return lab.naive(q, k.to(torch.float8_e4m3fn).to(k.dtype), v)


def rescale_forgotten(q, k, v, Bc=64):
    """The running maximum moves on, l and o stay as they were."""
    q32 = q.float() / math.sqrt(q.shape[-1])
    m, l, o = q32.new_full((*q.shape[:3], 1), -math.inf), 0, 0
    for j in range(0, k.shape[2], Bc):
        s = q32 @ k[:, :, j : j + Bc].float().mT
        m = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m)
        l, o = l + p.sum(-1, keepdim=True), o + p @ v[:, :, j : j + Bc].float()
    return (o / l).to(q.dtype)


def mean_of_v(q, k, v):
    return v.mean(2, keepdim=True).expand_as(v)


def not_a_number(q, k, v):
    return lab.naive(q, k, v) * math.nan


@pytest.mark.parametrize("wrong", [unscaled, last_tile_dropped, probabilities_in_8_bits, keys_in_8_bits, rescale_forgotten, mean_of_v, not_a_number])
def test_the_check_rejects(wrong):
    with pytest.raises(AssertionError, match="off by"):
        lab.check(attention=wrong, device="cpu")


@pytest.mark.parametrize("wrong", [unscaled, last_tile_dropped, mean_of_v, not_a_number])
def test_the_check_rejects_a_wrong_baseline(wrong):
    with pytest.raises(AssertionError, match="the baseline is not attention"):
        lab.check(baseline=wrong, device="cpu")


# The pieces.

SMALL = {**lab.SHAPE, "heads": 2, "kv_heads": 2, "S": 200, "d": 64}


def test_outliers_are_one_number_in_a_thousand_with_ten_times_the_spread():
    shape = {**SMALL, "S": 4000, "dtype": "fp32"}
    plain, with_outliers = lab.drawn("normal", shape, "cpu"), lab.drawn("outliers", shape, "cpu")
    for x, y in zip(plain, with_outliers):
        added = (y - x)[x != y]
        assert 0.0008 < added.numel() / x.numel() < 0.0012 and 8.5 < added.std() < 11.5
    assert lab.drawn("outliers", {**shape, "dtype": "fp16"}, "cpu")[0].dtype == torch.float16


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_ablations(dtype):
    q, k, v = lab.drawn("normal", {**SMALL, "dtype": dtype}, "cpu")
    ref = lab.exact(q, k, v)
    off = {name: lab.errors(lab.ablated(*what)(q, k, v), ref)["rel_err"] for name, what in lab.ABLATIONS.items()}
    naive = lab.errors(lab.naive(q, k, v), ref)["rel_err"]
    assert off["scores and p"] == pytest.approx(naive, rel=0.05)          # all roundings back in: naive again
    assert off["nothing"] < off["p"] < off["scores"] <= off["scores and p"] * 1.01
    assert lab.errors(ref.to(q.dtype), ref)["rel_err"] == pytest.approx(off["nothing"], rel=0.01)       # what is left is the output's own rounding


def test_exact_is_the_reference_of_all_heads():
    q, k, v = lab.drawn("normal", SMALL, "cpu")
    assert torch.equal(lab.exact(q, k, v), lab.reference(q, k, v, False))
    p = torch.softmax(q.double() @ k.double().mT / 8, -1)
    torch.testing.assert_close(lab.exact(q, k, v), p @ v.double(), rtol=0, atol=1e-14)


def test_errors_by_hand():
    ref = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert lab.errors(torch.tensor([3.0, 4.5]), ref) == {"rel_err": 0.1, "rmse": pytest.approx(math.sqrt(0.125)), "max_err": 0.5}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_neighbours_in_floating_point_differ_by_one(dtype):
    x = torch.tensor([1.0, -1.0, 0.5, -2.0, 0.0, 3.14], dtype=dtype)
    for way, toward in ((1, math.inf), (-1, -math.inf)):
        steps = lab.ordered_bits(torch.nextafter(x, torch.full_like(x, toward))) - lab.ordered_bits(x)
        assert (steps == way).all()
    assert lab.ordered_bits(torch.tensor([-0.0], dtype=dtype)).item() == 0


def test_comparing_bits():
    a = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16)
    b = a.clone()
    assert lab.compare_bits(a, b) == {"elements": 4, "differing": 0, "differing_pct": 0, "identical": True, "neighbours_pct": None, "max_diff": 0}
    b[0], b[1] = torch.nextafter(b[0], b[3]), 8.0
    found = lab.compare_bits(a, b)
    assert found == {"elements": 4, "differing": 2, "differing_pct": 50, "identical": False, "neighbours_pct": 50, "max_diff": 6.0}
    assert not lab.compare_bits(a.float(), b.float())["identical"]


@pytest.mark.parametrize("seed", range(3))
def test_two_tile_widths_differ_in_last_bits_and_the_same_width_does_not(seed, monkeypatch):
    monkeypatch.setattr(lab, "SEED", seed)
    q, k, v = lab.drawn("normal", SMALL, "cpu")
    narrow, wide = (lab.tiled(Bc)(q, k, v) for Bc in lab.TILES)
    found = lab.compare_bits(narrow, wide)
    assert not found["identical"] and found["max_diff"] < 1e-6
    assert lab.compare_bits(narrow, lab.tiled(lab.TILES[0])(q, k, v))["identical"]


def test_a_refusal_is_no_error_and_an_error_is_no_refusal():
    def fails(text):
        def attention(q, k, v):
            raise RuntimeError(text)
        return attention

    assert lab.ran(fails("No available kernel. Aborting execution."), 0, 0, 0) == (None, "refused")
    with pytest.raises(RuntimeError, match="CUDA error"):
        lab.ran(fails("CUDA error: misaligned address"), 0, 0, 0)


# The rows.

@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(lab, "kernels_of", lambda *calls: [["first_kernel", "second_kernel", "first_kernel"] for call in calls if call() is not None])
    found = [row for kind in lab.INPUTS for row in lab.error_rows("bf16", kind, SMALL, "cpu")]
    return [*found, *lab.ablation_rows("bf16", SMALL, "cpu"), *lab.bits_rows(shape=SMALL, device="cpu")]


def test_rows(rows, capsys):
    lab.report(rows, lab.header, lab.line)
    found = lab.values(rows)
    errors = {(row["inputs"], row["impl"]): row for row in rows if row["part"] == "error"}
    assert list(errors) == [(kind, impl) for kind in lab.INPUTS for impl in ("naive", "math", "flash", "cudnn", "efficient")]
    assert all(row["status"] == "ok" and row["kernel"] for row in rows)
    assert errors["normal", "flash"]["within_rule"] is True and errors["normal", "flash"]["naive_over_this"] > 1.5
    assert errors["normal", "cudnn"]["rel_err"] is errors["normal", "cudnn"]["within_rule"] is None and errors["normal", "cudnn"]["kernel"] == "none"
    assert errors["normal", "naive"]["kernel"] == "first_kernel + second_kernel"
    assert found["rule_broken"] == 0 and found["closer_than_naive"] == 4 and found["identical_pairs"] == 0 and found["pairs"] == 4
    assert found["identical_repeats"] == found["repeats"] == 2
    text = capsys.readouterr().out + lab.footer(found)
    assert text.isascii() and "0 of 4 pairs" in text
    json.dumps(rows, allow_nan=False)


def test_a_broken_rule_is_told(rows):
    rows[1]["within_rule"] = False
    assert lab.values(rows)["rule_broken"] == 1 and "BROKEN" in lab.line(rows[1])


# What was measured.


def test_measured_the_rule_holds_everywhere(measured):
    rows = [row for row in measured["rows"] if row["part"] == "error"]
    assert [(row["dtype"], row["inputs"], row["impl"]) for row in rows] == [
        (dtype, kind, impl) for dtype in ("bf16", "fp16") for kind in lab.INPUTS for impl in ("naive", "math", "flash", "cudnn", "efficient")]
    assert measured["values"]["rule_broken"] == 0
    assert all(row["within_rule"] and row["max_err"] <= row["allowed_max_err"] for row in rows)
    for row in rows:
        assert lab.allowed(next(r["max_err"] for r in rows if (r["dtype"], r["inputs"], r["impl"]) == (row["dtype"], row["inputs"], "naive"))) == row["allowed_max_err"]


def test_measured_columns_follow_from_each_other(measured):
    parts = {part: [row for row in measured["rows"] if row["part"] == part] for part in ("error", "ablation", "bits")}
    norms = {}                                             # the root mean square of attention itself: one number for each kind of inputs
    for row in parts["error"] + parts["ablation"]:
        norms.setdefault((row["dtype"], row["inputs"]), []).append(row["rmse"] / row["rel_err"])
        assert row["rmse"] < row["max_err"]
    for found in norms.values():
        assert found == pytest.approx([found[0]] * len(found), rel=1e-9)
    for row in parts["error"]:
        naive, = (r for r in parts["error"] if (r["dtype"], r["inputs"], r["impl"]) == (row["dtype"], row["inputs"], "naive"))
        assert row["naive_over_this"] == pytest.approx(naive["rel_err"] / row["rel_err"])
    for row in parts["bits"]:
        assert row["elements"] == row["heads"] * row["S"] * row["d"] == 28 * 4096 * 128
        assert row["differing_pct"] == pytest.approx(100 * row["differing"] / row["elements"]) and row["identical"] == (row["differing"] == 0)
        assert (row["max_diff"] == 0) == row["identical"] and (row["neighbours_pct"] is None or 0 < row["neighbours_pct"] <= 100)


def test_measured_flash_is_closer_than_naive_because_of_the_scores(measured):
    off = {(row["dtype"], row["impl"]): row["rel_err"] for row in measured["rows"] if row["part"] == "error" and row["inputs"] == "normal"}
    for dtype in ("bf16", "fp16"):
        assert all(off[dtype, impl] < off[dtype, "naive"] / 1.5 for impl in ("math", "flash", "cudnn", "efficient"))
        steps = {row["rounded"]: row["rel_err"] for row in measured["rows"] if row["part"] == "ablation" and row["dtype"] == dtype}
        assert steps["scores and p"] == pytest.approx(off[dtype, "naive"], rel=0.1) and steps["p"] < steps["scores"] / 1.5
        assert steps["p"] == pytest.approx(off[dtype, "flash"], rel=0.25)


def test_measured_nothing_is_bit_identical_but_a_repetition(measured):
    found = measured["values"]
    assert found["identical_pairs"] == 0 < found["pairs"] == 6 and found["identical_repeats"] == found["repeats"] == 3
