"""examples/batch_invariance.py: what is predicted, what compares, rows on a mocked GPU, the committed measurement."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import torch

from support import bundled, one_thread  # noqa: E402, F401

lab = bundled("batch_invariance")
from test_attention_roofline import fake_gpu  # noqa: E402, F401
from test_decode_attention import sequences  # noqa: E402


# The prediction.


def test_bits_are_predicted_by_the_parts_that_the_rule_gives():
    assert lab.parts("decode", 1, 4096) == lab.parts("decode", 2, 4096) == 32 and lab.parts("decode", 64, 4096) == 1
    assert lab.same_parts("decode", 2, 4096) and not lab.same_parts("decode", 4, 4096)
    assert lab.parts("prefill", 1, 256) == 2 and not lab.same_parts("prefill", 2, 256) and lab.same_parts("prefill", 16, 1024)
    assert all(B * S <= lab.MOST for when, S, B in lab.cases() if when == "prefill") and len(set(lab.cases())) == len(list(lab.cases()))


def test_predict_needs_no_torch(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    run = [sys.executable, "-I", "-S", "batch_invariance.py"]
    done = subprocess.run([*run, "--predict"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and done.stdout == lab.predicted_table() + "\n"
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing.")


# The inputs, the sides, and check() rejects what is wrong.


def test_the_last_sequence_is_the_same_in_every_batch_and_the_others_are_not():
    for when in ("decode", "prefill"):
        alone, among = lab.drawn(when, 1, 8, "cpu"), lab.drawn(when, 3, 8, "cpu")
        for one, many in zip(alone, among):
            assert torch.equal(one[0], many[-1]) and not torch.equal(one[0], many[0]) and not torch.equal(many[0], many[1])
    assert not torch.equal(alone[1], alone[2])


def test_padded_gives_every_batch_one_shape(monkeypatch):
    shapes = []
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda x, w, original=torch.Tensor.__matmul__: shapes.append(tuple(x.shape)) or original(x, w))
    w = torch.randn(4, 3)
    for n in (1, 5, 8, 11):
        assert lab.padded(torch.randn(n, 4), w, rows=8).shape == (n, 3)
    assert set(shapes) == {(8, 4)}


@pytest.mark.parametrize("name, wrong", {"zeros": lambda q, k, v: torch.zeros_like(q), "key 0": lambda q, k, v: v[:, :, :1].repeat_interleave(7, 1),
                                         "first part only": lambda q, k, v: lab.sdpa(q, k[:, :, : lab.PART], v[:, :, : lab.PART])}.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_check_rejects(name, wrong):
    with pytest.raises(AssertionError, match="is not attention"):
        lab.check(wrong, device="cpu")


def test_check_rejects_a_wrong_baseline_a_blind_comparison_and_a_wrong_product(monkeypatch):
    with pytest.raises(AssertionError, match="naive is not"):
        lab.check(baseline=lambda q, k, v: torch.zeros_like(q), device="cpu")
    with monkeypatch.context() as patch:
        patch.setattr(lab, "compare_bits", lambda a, b: {"differing": 0})
        with pytest.raises(AssertionError, match="does not see one bit"):
            lab.check(device="cpu")
    monkeypatch.setattr(lab, "padded", lambda x, w: (x @ w) * 1.5)
    with pytest.raises(AssertionError, match="not a product"):
        lab.check(device="cpu")


# The rows, on a mocked GPU.


@pytest.fixture
def small(fake_gpu, monkeypatch):  # noqa: F811
    drawn, randn = lab.drawn, torch.randn
    for name, fake in {"drawn": lambda when, B, S, device="cpu": drawn(when, B, S, "cpu"), "flash_sequences": sequences, "release": lambda: None, "BATCHES": (2, 4), "ROWS": 8,
                       "DECODE": (8,), "PREFILL": (8,), "PART": 4, "LINEAR": {"up": (16, 24)}, "CLOCK_S": 0.0005, "timed": lambda calls, seconds: [call() is None or 1.0 for call in calls] * 3,
                       "kernels_of": lambda *calls: [(call(), ["void ns::one_kernel<1>(int)"])[1] for call in calls]}.items():
        monkeypatch.setattr(lab, name, fake)
    monkeypatch.setattr(torch, "randn", lambda *size, **kind: randn(*size, **{**kind, "device": "cpu"}))
    return fake_gpu


def test_measure_yields_every_row(small):
    rows = list(lab.measure())
    assert [row["part"] for row in rows] == ["attention"] * (7 * 2 + 5 * 2) + ["linear"] * 6 + ["cost"] * 9
    for row in rows:
        assert row["status"] == ("refused" if row["impl"] in ("cudnn", "efficient") else "ok")    # neither runs on a CPU
        assert row["status"] != "ok" or row["kernel"] and row["ms"] > 0
        assert lab.header(row["part"]) and lab.line(row).isascii() and all(isinstance(value, (str, int, float, bool, type(None))) for value in row.values())
        if row["part"] != "cost":
            assert set(row) == set(rows[0])
    assert {row["impl"] for row in rows if row.get("predicted") is not None} == {"flash", "padded"}
    found = lab.values(rows)
    assert found["decode_one_part_of"] == found["decode_fixed_size_of"] == 2 and found["linear_padded_of"] == 3 and found["flash_predicted_of"] == 4
    assert lab.footer(found).isascii()
    json.dumps([rows, found], allow_nan=False)


def test_a_side_that_looks_at_the_batch_is_seen(small, monkeypatch):
    monkeypatch.setitem(lab.DECODING, "one part", lambda q, k, v: lab.sdpa(q, k, v) * (1 + (q.shape[0] > 1) / 64))
    row = lab.attention_row("decode", "one part", 8, 2, 132)
    assert row["identical"] is False and row["differing"] > 1000 and row["max_diff"] > 0 and row["again_identical"] is True
    assert lab.attention_row("decode", "math", 8, 2, 132)["identical"] in (True, False)


# What was measured.


def test_measured_every_comparison(measured):
    attention = [row for row in measured["rows"] if row["part"] == "attention"]
    assert {(row["when"], row["S"], row["B"], row["impl"]) for row in attention} == {(*case, impl) for case in lab.cases() for impl in (lab.DECODING if case[0] == "decode" else lab.PREFILLING)}
    for row in measured["rows"]:
        assert row["status"] == "ok" and row["p10_ms"] <= row["ms"] <= row["p90_ms"]
        if row["part"] != "cost":
            assert row["identical"] == (row["differing"] == 0) == (row["max_diff"] == 0) and row["differing"] <= row["elements"]


def test_measured_kernels(measured):
    seen = {"naive": "(?i)softmax", "flash": "flash_fwd", "cudnn": "cudnn_generated", "efficient": "fmha_cutlass", "one part": "flash_fwd_kernel", "fixed size": "flash_fwd_kernel", "linear": "nvjet|gemm", "padded": "nvjet|gemm"}
    for row in measured["rows"]:
        assert row["impl"] == "math" or re.search(seen[row["impl"]], row["kernel_full"]), row["impl"]
        if row["impl"] == "flash" and row["part"] == "attention":
            assert ("splitkv" in row["kernel_full"]) == (row["parts"] > 1) and row["parts"] == lab.parts(row["when"], row["B"], row["S"], measured["machine"]["sms"])
