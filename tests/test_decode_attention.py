"""examples/decode_attention.py: parts and bytes by formula, the sides against fp64, rows on a mocked GPU, the committed measurement."""

import itertools
import json
import math
import re
import shutil
import subprocess
import sys

import pytest
import torch

from support import bundled, one_thread  # noqa: E402, F401

lab = bundled("decode_attention")
import flash_vs_naive_memory as memory  # noqa: E402
import split_kv  # noqa: E402
from test_attention_roofline import fake_gpu  # noqa: E402, F401


# The model.


def test_the_cache_of_one_layer():
    assert lab.kv_bytes(1, 4, 1, 128) == 2048              # of 28 layers: 56 KiB a token
    assert lab.kv_bytes(16, 4, 131072, 128) == 2**32
    assert 28 * lab.kv_bytes(1, 4, 1, 128) == 56 * 2**10


@pytest.mark.parametrize("sms", [84, 108, 128, 132, 144])
def test_parts_follow_the_rule_of_the_memory_lab(sms):
    for B, H, S in itertools.product((1, 2, 3, 5, 16), (1, 4, 7, 28), (1, 130, 512, 1000, 4096, 20000)):
        assert lab.kv_parts(B * H * -(-S // 64), -(-S // 128), sms) == memory.kv_splits(B, H, S, 128, sms)


def test_parts_on_an_h200():
    assert [lab.decode_parts(B, 28, 4, 131072) for B in lab.BATCHES] == [57, 14, 4, 1]
    assert [lab.decode_parts(1, 28, 4, S) for S in (4096, 16384, 65536, 131072)] == [32, 64, 57, 57]
    assert lab.decode_parts(1, 4, 4, 128) == 1             # one tile of keys cannot be cut


@pytest.mark.parametrize("B, S", [(1, 4096), (4, 16384), (64, 131072)])
def test_parts_are_read_back_from_the_bytes(B, S):
    shape = (B, 28, 4, S, 128)
    assert lab.parts_from(lab.added_bytes("flash", *shape), B, 28, 128) == lab.decode_parts(B, 28, 4, S)
    assert lab.parts_from(lab.added_bytes("single", *shape), B, 28, 128) == 1
    for off in (-1, 1, 24):
        assert lab.parts_from(lab.added_bytes("flash", *shape) + off, B, 28, 128) is None


def test_bytes_added():
    B, S = 2, 1000
    row, o = B * 28 * S * 2, B * 28 * 128 * 2
    assert lab.added_bytes("grouped", B, 28, 4, S, 128) == 2 * row + o
    assert lab.added_bytes("repeat", B, 28, 4, S, 128) == 2 * row + o + 7 * lab.kv_bytes(B, 4, S, 128)
    assert lab.added_bytes("single", B, 28, 4, S, 128) == o + 4 * B * 28 + 24
    assert lab.added_bytes("default", B, 28, 4, S, 128) is None
    assert lab.added_bytes("grouped", B, 28, 4, S, 128) / lab.kv_bytes(B, 4, S, 128) < 0.06      # rows of scores are a twentieth of the cache


def test_predict_needs_no_torch(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    run = [sys.executable, "-I", "-S", "decode_attention.py"]
    done = subprocess.run([*run, "--predict"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    assert "  16  131072      4096       28896.1        224.11       0.993      4" in done.stdout
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing.") and done.stderr.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_line_and_exit_2(capsys):
    assert lab.main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "PyTorch" in err


# The sides. flash_sequences() needs a GPU; here the same sequences are attended one by one.


def sequences(q, k, v, count, rows, keys):
    """What flash_sequences() gives, from its arguments as the kernel reads them: sequences end to end."""
    assert q.shape[0] == count * rows and k.shape[0] == v.shape[0] == count * keys
    q, k, v = (x.float().reshape(count, n, *x.shape[1:]).transpose(1, 2) for x, n in ((q, rows), (k, keys), (v, keys)))
    s = q @ k.mT / q.shape[3] ** 0.5                       # [count, heads, rows, keys]
    o = (torch.softmax(s, -1) @ v).transpose(1, 2).reshape(count * rows, *q.shape[1:2], q.shape[3])
    return o.bfloat16(), torch.logsumexp(s, -1).transpose(0, 1).reshape(q.shape[1], count * rows)


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(lab, "flash_sequences", sequences)


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_by_hand_passes_the_check(kernel, parts):
    lab.check(lambda q, k, v: lab.by_hand(q, k, v, parts), device="cpu")


def test_by_hand_needs_parts_of_equal_length(kernel):
    q, k, v = lab.cache(1, 10, device="cpu")
    with pytest.raises(ValueError, match="parts = 4 does not divide S = 10"):
        lab.by_hand(q, k, v, 4)


def test_by_hand_merges_as_split_kv_does(kernel):
    q, k, v = lab.cache(1, 64, device="cpu")
    o = lab.by_hand(q, k, v, 4)
    for h in (0, 6, 7, 27):
        K, V = k[0, h // 7].tolist(), v[0, h // 7].tolist()
        expected, _ = split_kv.split_kv(q[0, h, 0].tolist(), K, V, 4)
        assert (o[0, h, 0] - torch.tensor(expected)).abs().max() < 0.01


def test_copies_nothing_but_the_query(kernel):
    """k and v reach the kernel as views; q is repeated for the parts."""
    q, k, v = lab.cache(2, 64, device="cpu")
    seen = []
    original, lab.flash_sequences = lab.flash_sequences, lambda q, k, v, *rest: seen.append((q, k, v, rest)) or sequences(q, k, v, *rest)
    try:
        lab.by_hand(q, k, v, 4)
    finally:
        lab.flash_sequences = original
    (rows, keys, values, rest), = seen
    assert keys.data_ptr() == k.data_ptr() and values.data_ptr() == v.data_ptr() and keys.is_contiguous()
    assert rest == (2 * 4 * 4, 7, 16) and rows.shape == (2 * 4 * 4 * 7, 1, 128)


def test_the_operator_takes_these_arguments():
    schema = torch.ops.aten._flash_attention_forward.default._schema
    assert [argument.name for argument in schema.arguments[:10]] == [
        "query", "key", "value", "cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal", "return_debug_mask"]
    assert [value.name for value in schema.returns[:2]] == ["output", "softmax_logsumexp"]
    assert all(argument.kwarg_only for argument in schema.arguments[10:])


def test_offsets_of_sequences():
    lab.multiples.cache_clear()
    found = lab.multiples(7, 3, "cpu")
    assert found.tolist() == [0, 7, 14, 21] and found.dtype == torch.int32 and lab.multiples(7, 3, "cpu") is found


# check() rejects what is wrong.


def written(q, k, v, scale=None, keys=slice(None), heads=lambda x: x.repeat_interleave(7, 1)):
    """Attention of one query written out, with a knob for each way to get it wrong."""
    k, v = heads(k[:, :, keys].float()), heads(v[:, :, keys].float())
    p = torch.softmax(q.float() @ k.mT * (128**-0.5 if scale is None else scale), -1)
    return (p @ v).to(q.dtype)


def merged(weights):
    """Four parts merged by a function of their LSEs [4, B, H, 1, 1]."""
    def wrong(q, k, v):
        parts = list(zip(k.repeat_interleave(7, 1).float().tensor_split(4, 2), v.repeat_interleave(7, 1).float().tensor_split(4, 2)))
        s = [q.float() @ k.mT * 128**-0.5 for k, _ in parts]
        o = torch.stack([torch.softmax(x, -1) @ v for x, (_, v) in zip(s, parts)])
        w = weights(torch.stack([torch.logsumexp(x, -1, keepdim=True) for x in s]))
        return (w * o).sum(0).to(q.dtype)
    return wrong


WRONG = {
    "no scale": lambda q, k, v: written(q, k, v, scale=1.0),
    "heads interleaved": lambda q, k, v: written(q, k, v, heads=lambda x: x.repeat(1, 7, 1, 1)),
    "first KV head for all": lambda q, k, v: written(q, k, v, heads=lambda x: x[:, :1].expand(-1, 28, -1, -1)),
    "key 0 only": lambda q, k, v: written(q, k, v, keys=slice(0, 1)),
    "last key dropped": lambda q, k, v: written(q, k, v, keys=slice(0, -1)),
    "last tile dropped": lambda q, k, v: written(q, k, v, keys=slice(0, k.shape[2] // 128 * 128)),
    "parts averaged": merged(lambda lse: torch.full_like(lse, 0.25)),
    "parts added": merged(torch.ones_like),
    "largest part only": merged(lambda lse: (lse == lse.amax(0)).float()),
    "weights of the LSE": merged(lambda lse: lse / lse.sum(0)),
    "weights exchanged": merged(lambda lse: torch.softmax(-lse, 0)),
    "rows of a group exchanged": lambda q, k, v: written(q, k, v).unflatten(1, (4, 7)).flip(2).flatten(1, 2),
    "grouped the wrong way": lambda q, k, v: written(q, k, v).unflatten(1, (7, 4)).transpose(1, 2).flatten(1, 2),
    "shape of the groups": lambda q, k, v: written(q, k, v).reshape(-1, 4, 7, 128),
    "NaN": lambda q, k, v: written(q, k, v) * math.nan,
}


def test_check_accepts_what_runs_here_and_attention_written_out():
    lab.check(device="cpu")
    lab.check(written, device="cpu")
    lab.check(merged(lambda lse: torch.softmax(lse, 0)), device="cpu")


@pytest.mark.parametrize("name", WRONG)
def test_check_rejects(name):
    with pytest.raises(AssertionError):
        lab.check(WRONG[name], device="cpu")


def test_check_rejects_a_wrong_baseline():
    with pytest.raises(AssertionError, match="naive is not attention"):
        lab.check(baseline=WRONG["no scale"], device="cpu")


# The trap.


@pytest.mark.parametrize("impl", ["default", "flash", "math"])
def test_one_causal_query_sees_key_0(impl):
    row = lab.trap_row(impl, 64, "cpu")
    assert (row["sees"], row["equals_v0"], row["off_v0"]) == ("key 0", True, 0.0)


def test_lower_right_sees_all_keys_and_a_refusal_is_a_row():
    assert lab.trap_row("lower_right", 64, "cpu")["sees"] == "all keys"
    row = lab.trap_row("cudnn", 64, "cpu")
    assert (row["sees"], row["kernel"], row["status"]) == ("refused", "none", "ok")
    assert set(row) == set(lab.trap_row("default", 64, "cpu"))


def test_what_is_neither_is_said(monkeypatch):
    monkeypatch.setattr(lab, "causal", lambda q, k, v: lab.sdpa(q, k[:, :, :9], v[:, :, :9]))
    assert lab.trap_row("default", 64, "cpu")["sees"] == "neither"


# The rows, on a mocked GPU.


@pytest.fixture
def small(fake_gpu, kernel, monkeypatch):  # noqa: F811
    cache, copy, read, trap = lab.cache, lab.copy_row, lab.read_row, lab.trap_row
    monkeypatch.setattr(lab, "cache", lambda B, S, kv_heads=4, device="cpu": cache(B, S, kv_heads, "cpu"))
    monkeypatch.setattr(lab, "copy_row", lambda when, seconds: copy(when, seconds, n=1000, device="cpu"))
    monkeypatch.setattr(lab, "read_row", lambda: read(n=1000, device="cpu"))
    monkeypatch.setattr(lab, "trap_row", lambda impl: trap(impl, 32, "cpu"))
    monkeypatch.setattr(lab, "which_kernel", lambda call: call() or ["ns::one_kernel<1>(int)"])
    monkeypatch.setattr(lab, "kernels_of", lambda *calls: [(call(), ["one_kernel", "two_kernel"])[1] for call in calls])
    monkeypatch.setattr(lab, "BATCHES", (1, 2))
    monkeypatch.setattr(lab, "LENGTHS", (32, 256))
    monkeypatch.setattr(lab, "PARTS", (1, 4))
    monkeypatch.setattr(lab.parts_rows, "__defaults__", (1, 32))
    monkeypatch.setattr(lab.timed, "__defaults__", (0.001,))
    return fake_gpu


def test_measure_yields_every_row(small):
    rows = list(lab.measure())
    assert [row["part"] for row in rows] == ["ceiling"] * 2 + ["decode"] * 20 + ["parts"] * 2 + ["trap"] * 6
    assert [(row["B"], row["S"], row["impl"]) for row in rows[2:22]] == list(itertools.product((1, 2), (32, 256), lab.SIDES))
    for row in rows:
        assert row["status"] == "ok" and all(isinstance(value, (str, int, float, bool, type(None))) for value in row.values())
        if row["part"] == "decode":
            assert set(row) == set(rows[2]) and row["p10_ms"] <= row["ms"] <= row["p90_ms"] and row["samples"] >= 10
            assert row["kernel"] == "one_kernel + two_kernel" and row["sets"] == math.ceil(4 * 2**16 / (row["B"] * row["S"] * 2048))
            assert math.isclose(row["gbps"], row["B"] * row["S"] * 2048 / row["ms"] / 1e6)
            assert math.isclose(row["of_copy_pct"], 100 * row["gbps"] / rows[0]["gbps"]) and row["added_mib"] == 4000 / 2**20
            assert (row["copy_ms"] is not None) == (row["impl"] == "repeat") and (row["parts"] is None) == (row["impl"] not in ("flash", "single"))
        assert lab.header(row["part"]) and lab.line(row).isascii()
    found = lab.values(rows)
    assert found["copy_gbps"] == rows[0]["gbps"] and found["combinations"] == 4 and found["trap_default_sees"] == "key 0"
    assert lab.footer(found).isascii()
    json.dumps([rows, found], allow_nan=False)


def test_out_of_memory_is_a_row(small, monkeypatch):
    def full(q, k, v):
        if k.shape[0] * k.shape[2] == 512:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return lab.naive(q, k, v)

    monkeypatch.setitem(lab.SIDES, "repeat", full)
    rows = [row for row in lab.measure() if row["part"] == "decode"]
    assert {(row["B"], row["S"]) for row in rows if row["status"] == "oom"} == {(2, 256)}
    gone = [row for row in rows if row["status"] == "oom"]
    assert [row["impl"] for row in gone] == ["repeat"] and gone[0]["ms"] is gone[0]["gbps"] is gone[0]["added_mib"] is gone[0]["copy_ms"] is None
    assert lab.values(rows)["repeat_over_default_largest"] > 0
    assert lab.line(gone[0])


def test_a_cache_that_does_not_fit_is_a_row_a_side(small, monkeypatch):
    cache = lab.cache

    def full(B, S, *rest):
        if B * S == 512:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return cache(B, S, *rest)

    monkeypatch.setattr(lab, "cache", full)
    rows = [row for row in lab.measure() if row["part"] == "decode"]
    assert [row["impl"] for row in rows if row["status"] == "oom"] == list(lab.SIDES)
    assert {frozenset(row) for row in rows} == {frozenset(rows[0])}


# What was measured, against the model.


def rows_of(measured, part, **fields):
    return [row for row in measured["rows"] if row["part"] == part and all(row[name] == value for name, value in fields.items())]


def test_measured_every_combination_and_side_once(measured):
    assert [(row["B"], row["S"], row["impl"]) for row in rows_of(measured, "decode")] == list(itertools.product(lab.BATCHES, lab.LENGTHS, lab.SIDES))
    assert all(row["status"] == "ok" or row["impl"] == "repeat" for row in measured["rows"])
    assert [row["parts"] for row in rows_of(measured, "parts")] == list(lab.PARTS) and [row["impl"] for row in rows_of(measured, "trap")] == list(lab.TRAPS)


def test_measured_columns_follow_from_times(measured):
    found = measured["values"]
    for row in rows_of(measured, "decode") + rows_of(measured, "parts"):
        size = lab.kv_bytes(row["B"], row["kv_heads"], row["S"], row["d"])
        for name, value in lab.rates(row["ms"], size, found).items():
            assert row[name] == value
        assert row["ms"] is None or row["p10_ms"] <= row["ms"] <= row["p90_ms"] and row["samples"] >= (10 if row["ms"] < 90 else 5)
        if row.get("added_mib"):
            assert math.isclose(row["added_of_kv_pct"], 100 * row["added_mib"] / row["kv_mib"]) and row["added_mib"] > 0
    for row in rows_of(measured, "ceiling"):
        assert row["traffic_bytes"] == {"copy": 2, "read": 1}[row["impl"]] * 4 * 2**30 and row["p10_ms"] <= row["ms"] <= row["p90_ms"]
        assert math.isclose(row["gbps"], row["traffic_bytes"] / row["ms"] / 1e6)


def test_measured_bytes_are_the_predicted_ones(measured):
    sms = measured["machine"]["sms"]
    for row in rows_of(measured, "decode"):
        predicted = lab.added_bytes(row["impl"], *(row[name] for name in ("B", "heads", "kv_heads", "S", "d")), 2, sms)
        assert (row["added_predicted_mib"] is None) == (predicted is None)
        if predicted is not None and row["status"] == "ok":
            assert row["added_diff_bytes"] == 0 and row["added_mib"] == predicted / 2**20, (row["impl"], row["B"], row["S"])


def test_measured_parts_are_those_of_the_rule_by_memory_and_by_kernel(measured):
    sms = measured["machine"]["sms"]
    for row in rows_of(measured, "decode", impl="flash"):
        parts = lab.decode_parts(row["B"], row["heads"], row["kv_heads"], row["S"], sms)
        assert row["parts"] == row["parts_seen"] == parts
        assert ("flash_fwd_splitkv_kernel" in row["kernel_full"]) == ("flash_fwd_splitkv_combine_kernel" in row["kernel_full"]) == (parts > 1)
        if parts > 1:                                      # the combine kernel is made for 2, 4, 8, … 128 parts
            log = int(re.search(r"flash_fwd_splitkv_combine_kernel<.*, (\d+), (?:true|false)>", row["kernel_full"])[1])
            assert 2 ** (log - 1) < parts <= 2**log or (parts, log) == (2, 1)
        else:
            assert "flash_fwd_kernel" in row["kernel_full"]


def test_measured_single_is_the_kernel_without_parts(measured):
    for row in rows_of(measured, "decode", impl="single"):
        assert "flash_fwd_kernel" in row["kernel_full"] and "splitkv" not in row["kernel_full"] and row["parts_seen"] == 1
    for row in rows_of(measured, "parts"):
        assert "flash_fwd_kernel" in row["kernel_full"] and "splitkv" not in row["kernel_full"] and row["blocks"] == 4 * row["parts"]


def test_measured_naive_kernels(measured):
    for impl in ("repeat", "grouped"):
        for row in rows_of(measured, "decode", impl=impl):
            assert row["status"] == "oom" or re.search("(?i)softmax", row["kernel_full"]) and "flash" not in row["kernel_full"]


def test_measured_reading_has_a_ceiling(measured):
    copy, read = measured["values"]["copy_gbps"], measured["values"]["read_gbps"]
    assert 3800 < copy < 4800 and 3800 < read < 4900
    for row in rows_of(measured, "decode") + rows_of(measured, "parts"):
        assert row["gbps"] is None or row["gbps"] < 1.1 * max(copy, read), (row["impl"], row["B"], row["S"])


def test_measured_what_the_page_says(measured):
    found, ms = measured["values"], {(row["impl"], row["B"], row["S"]): row["ms"] for row in rows_of(measured, "decode")}
    assert found["default_best_of_copy_pct"] > 80          # long and wide, decode reads at the rate of a copy
    assert found["repeat_over_default"] > 20               # copying k and v to 28 heads costs far more than attention
    assert 1 < found["grouped_over_default"] < 3           # without the copy, four plain kernels are not far away
    assert ms["single", 1, 131072] > 3 * ms["flash", 1, 131072]              # four blocks cannot read as fast as 228
    assert 0.7 < ms["single", 64, 131072] / ms["flash", 64, 131072] < 1.4    # there flash does not cut either
    assert found["best_parts"] >= 16 and found["best_parts_speedup"] > 4


def test_measured_trap(measured):
    sees = {row["impl"]: row["sees"] for row in rows_of(measured, "trap")}
    assert sees["default"] == sees["math"] == "key 0" and sees["flash"] == "refused" and sees["lower_right"] == "all keys"
    default, = rows_of(measured, "trap", impl="default")
    assert default["off_v0"] <= 2**-6
