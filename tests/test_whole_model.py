"""examples/whole_model.py: formulas, the small model against fp64, rows on a mocked GPU, the committed measurement."""

import json
import math
import shutil
import subprocess
import sys

import pytest
import torch

from support import bundled, one_thread  # noqa: E402, F401

lab = bundled("whole_model")
from test_attention_roofline import fake_gpu  # noqa: E402, F401

SMALL = {"layers": 3, "hidden": 64, "heads": 4, "kv_heads": 2, "d": 16, "ffn": 96}


# The formulas.


def test_products_and_weights_are_those_of_the_shape():
    assert lab.layer_flops(lab.MODEL, 1) == 466_092_032                                 # the lesson's 466.1 MFLOP a token and layer
    weights = lab.drawn(SMALL, "cpu")
    assert sum(w.numel() for layer in weights for w in layer.values()) * 2 == lab.weight_bytes(SMALL)
    assert lab.weight_bytes(lab.MODEL) == pytest.approx(13.05e9, rel=0.001)
    assert lab.cache_bytes(lab.MODEL, 1, 1) == 56 * 2**10


def test_shares_by_flops():
    assert lab.share_pct(lab.MODEL, 4096) == pytest.approx(5.93, abs=0.01) and lab.share_pct(lab.MODEL, 32768) == pytest.approx(33.5, abs=0.1)


def test_a_step_is_bound_by_weights_and_a_prompt_by_products():
    ceilings = {"copy_gbps": 4000.0, "matmul_tflops": 800.0}
    step, prompt = (lab.rest_ms(lab.MODEL, tokens, ceilings) for tokens in (1, 4096))
    assert step == pytest.approx(lab.weight_bytes(lab.MODEL) / 4e9, rel=0.01)
    assert prompt > 28 * lab.layer_flops(lab.MODEL, 4096) / 800e9 and prompt < 1.5 * 28 * lab.layer_flops(lab.MODEL, 4096) / 800e9


def test_glue_counts_each_tensor_of_each_kernel():
    """By hand for one token: norms, sums, RoPE, cache, SwiGLU."""
    h, turned, kv, ffn = 64, 6 * 16, 2 * 16, 96
    assert lab.glue_bytes(SMALL, 1) == 2 * (2 * 2 * h + 2 * 3 * h + (2 + 1 + 2 + 2 + 3) * turned + 2 * 2 * kv + (2 + 3) * ffn)


def test_the_peak_of_a_prompt_by_hand():
    """Two bytes a number: the cache of all layers, two tables, the prompt, and x, its norm, gate and up."""
    S, h, ffn = 10, 64, 96
    assert lab.prefill_bytes("flash", SMALL, S) == 2 * S * (3 * 2 * 2 * 16 + 2 * 16 + h + 2 * h + 2 * ffn)


def test_the_longest_prompt_and_the_largest_batch_are_the_last_that_fit():
    room = lab.CARD_GIB * 2**30 - lab.weight_bytes(lab.MODEL)
    for impl in ("naive", "flash"):
        S, B = lab.largest("prompt", impl, room), lab.largest("batch", impl, room)
        assert lab.prefill_bytes(impl, lab.MODEL, S) <= room < lab.prefill_bytes(impl, lab.MODEL, S + 1)
        assert lab.decode_bytes(impl, lab.MODEL, B, lab.STEP_S) <= room < lab.decode_bytes(impl, lab.MODEL, B + 1, lab.STEP_S)
    assert lab.prefill_bytes("flash", lab.MODEL, 256) == lab.prefill_bytes("naive", lab.MODEL, 256) < lab.prefill_bytes("naive", lab.MODEL, 1024)


def test_predict_needs_no_torch(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    run = [sys.executable, "-I", "-S", "whole_model.py"]
    done = subprocess.run([*run, "--predict"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and done.stdout == lab.predicted_table() + "\n"
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing.")


# The model, and check() rejects what is wrong.


def attention(q, k, v, causal, scale=None, heads=lambda x, G: x.repeat_interleave(G, 1), keys=slice(None)):
    """Attention written out, with a knob for each way to get it wrong."""
    G = q.shape[1] // k.shape[1]
    k, v = heads(k.float(), G), heads(v.float(), G)
    s = q.float() @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return (torch.softmax(s, -1)[..., keys] @ v[:, :, keys]).to(q.dtype)


WRONG = {
    "no mask": lambda q, k, v, causal: attention(q, k, v, False),
    "no scale": lambda q, k, v, causal: attention(q, k, v, causal, scale=1.0),
    "heads interleaved": lambda q, k, v, causal: attention(q, k, v, causal, heads=lambda x, G: x.repeat(1, G, 1, 1)),
    "a step sees one key": lambda q, k, v, causal: attention(q, k, v, causal) if causal else attention(q, k[:, :, :1], v[:, :, :1], False),
    "weights of the last key lost": lambda q, k, v, causal: attention(q, k, v, causal, keys=slice(0, -1)),
    "q handed on": lab.none,
    "NaN": lambda q, k, v, causal: q * math.nan,
}


def test_check_accepts_what_runs_here_and_attention_written_out():
    lab.check(device="cpu")
    lab.check(attention, device="cpu")


@pytest.mark.parametrize("name", WRONG)
def test_check_rejects(name):
    with pytest.raises(AssertionError):
        lab.check(WRONG[name], device="cpu")


def test_check_rejects_a_wrong_baseline():
    with pytest.raises(AssertionError, match="the model with naive"):
        lab.check(baseline=WRONG["no scale"], device="cpu")


@pytest.mark.parametrize("name, wrong", {
    "turned": lambda x, cos, sin: x, "feed_forward": lambda w, x: torch.zeros_like(x), "rope_tables": lambda S, d, device, base=1e4, original=lab.rope_tables: original(S, d, device, base),
}.items(), ids=["no RoPE", "no feed-forward", "another base"])
def test_check_rejects_another_model(monkeypatch, name, wrong):
    monkeypatch.setattr(lab, name, wrong)
    with pytest.raises(AssertionError, match="the model with naive"):
        lab.check(device="cpu")


def test_a_step_takes_its_place_in_the_cache():
    weights = lab.drawn(SMALL, "cpu")
    x, caches, tables = lab.state(SMALL, 2, 24, 1, "cpu")
    before = caches.clone()
    lab.passed(weights, x, caches, 23, tables, lab.naive)
    assert torch.equal(caches[..., :23, :], before[..., :23, :]) and not torch.equal(caches[..., 23, :], before[..., 23, :])


# The rows, on a mocked GPU.


@pytest.fixture
def small(fake_gpu, monkeypatch):  # noqa: F811
    copy, matmul, state, tables, drawn, randn = lab.copy_row, lab.matmul_row, lab.state, lab.rope_tables, lab.drawn, torch.randn
    fractions = []
    for name, fake in {
        "copy_row": lambda when, seconds: copy(when, 0.001, n=1000, device="cpu"), "matmul_row": lambda when: matmul(when, n=64, device="cpu"),
        "state": lambda model, B, S, S_q: state(model, B, S, S_q, "cpu"), "rope_tables": lambda S, d, device="cpu": tables(S, d, "cpu"), "drawn": lambda model: drawn(model, "cpu"),
        "release": lambda: None, "graph_of": lambda call: call, "MODEL": SMALL, "PROMPTS": (16, 32), "STEPS": ((1, 8), (2, 8)), "SAMPLED": 0.001, "STEP_S": 8,
        "which_kernel": lambda call: (call(), ["void ns::norm<1>(int)", "spin_kernel", "void ns::one_kernel<1>(int)", "spin_kernel", "gemm_kernel"])[1],
        "fitted": lambda weights, model, what, impl, n: (1000 * n, ["one_kernel"]), "largest": lambda what, impl, room, model: 100,
    }.items():
        monkeypatch.setattr(lab, name, fake)
    monkeypatch.setattr(lab.timed, "__defaults__", (0.001,))
    monkeypatch.setattr(torch, "randn", lambda *size, **kind: randn(*size, **{**kind, "device": "cpu"}))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**36, 96 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"requested_bytes.all.current": 1000, "requested_bytes.all.peak": 5000, "reserved_bytes.all.current": 0})
    fake_gpu.fractions = fractions
    return fake_gpu


def test_measure_yields_every_row(small):
    rows = list(lab.measure())
    assert [row["part"] for row in rows] == ["ceiling"] * 2 + ["attention"] * 6 + ["prefill"] * 8 + ["decode"] * 8 + ["fit"] * 4
    for row in rows:
        assert row["status"] == ("refused" if row.get("impl") == "cudnn" else "ok")               # cuDNN does not run on a CPU
        assert row["status"] != "ok" or row["kernel"]
        assert all(isinstance(value, (str, int, float, bool, type(None))) for value in row.values())
        assert lab.header(row["part"]) and lab.line(row).isascii()
        if row["part"] in ("prefill", "decode") and row["status"] == "ok":
            assert row["kernel_full"] == ("void ns::norm<1>(int) + void ns::one_kernel<1>(int) + gemm_kernel" if row["impl"] == "none" else "void ns::one_kernel<1>(int)")
            assert row["p10_ms"] <= row["ms"] <= row["p90_ms"] and row["samples"] >= 3 and row["predicted_ms"] > 0
    assert small.fractions == [pytest.approx(0.25, abs=1e-6), 1.0] * 4
    found = lab.values(rows)
    assert found["copy_gbps"] == rows[0]["gbps"] and found["prompt_flash"] == 100 and found["prompt_gain"] == 1 and lab.footer(found).isascii()
    json.dumps([rows, found], allow_nan=False)


def test_the_products_alone_are_all_of_a_layer(monkeypatch):
    work = []
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda x, w: work.append(2 * x.shape[0] * w.shape[0] * w.shape[1]) or torch.zeros(x.shape[0], w.shape[1]))
    lab.products([{name: torch.zeros(w.shape) for name, w in layer.items()} for layer in lab.drawn(SMALL, "cpu")], torch.zeros(5, 64))
    assert sum(work) == SMALL["layers"] * lab.layer_flops(SMALL, 5)


def test_what_amdahl_says_is_said_of_what_was_measured_apart(small):
    rows = [row for row in lab.measure() if row["part"] == "prefill" and row["S"] == 32]
    alone = {row["impl"]: row["layers_attention_ms"] for row in rows}
    by = {row["impl"]: row for row in rows}
    assert by["none"]["predicted_ms"] == by["none"]["rest_predicted_ms"] and by["none"]["predicted_attention_pct"] == by["none"]["attention_pct"] == 0
    for impl in ("naive", "flash"):
        assert by[impl]["predicted_ms"] == by["none"]["predicted_ms"] + alone[impl]
        assert by[impl]["over_naive"] == by["naive"]["ms"] / by[impl]["ms"] and by[impl]["over_naive_predicted"] == by["naive"]["predicted_ms"] / by[impl]["predicted_ms"]
        assert by[impl]["attention_pct"] == 100 * (1 - by["none"]["ms"] / by[impl]["ms"])


def test_passes_take_turns_and_long_ones_fewer(fake_gpu, monkeypatch):  # noqa: F811
    log, took = [], {"a": 1.0, "b": 1600.0, "c": 4000.0}
    event = type("Event", (), {"__init__": lambda self, **kind: None, "record": lambda self: None, "elapsed_time": lambda self, end: took[log[-1]]})
    monkeypatch.setattr(torch.cuda, "Event", event)
    found = lab.in_turns({name: lambda name=name: log.append(name) for name in "abc"}, 0.005)
    assert "".join(log) == "abc" + "ab" + "aaa" and found["b"] == [1600.0] * 2
    assert lab.in_turns({}, 1.0) == {}


def test_out_of_memory_is_a_row_and_the_others_go_on(small, monkeypatch):
    def full(q, k, v, causal=False):
        if q.shape[2] == 32:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return lab.naive(q, k, v, causal)

    monkeypatch.setitem(lab.SIDES, "naive", full)
    rows = [row for row in lab.measure() if row["part"] == "prefill"]
    gone, = [row for row in rows if row["status"] == "oom"]
    assert (gone["impl"], gone["S"]) == ("naive", 32) and gone["ms"] is gone["peak_mib"] is gone["over_naive"] is gone["attention_pct"] is None
    flash = next(row for row in rows if (row["impl"], row["S"]) == ("flash", 32))
    assert flash["ms"] > 0 and flash["attention_pct"] is not None and flash["over_naive"] is None and lab.line(gone)


def test_the_search_goes_down_until_it_fits(small, monkeypatch):
    tried = []

    def fitted(weights, model, what, impl, n):
        tried.append(n)
        if n > 60:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return 5, ["one_kernel"]

    monkeypatch.setattr(lab, "fitted", fitted)
    monkeypatch.setattr(lab, "GRAIN", {"prompt": 16})
    row = next(lab.fit_rows([], SMALL))
    assert tried == [100, 96, 80, 64, 48] and (row["largest"], row["failed"], row["largest_predicted"], row["S"], row["B"]) == (48, 64, 100, 48, 1)


def test_what_fits_runs_two_layers_beside_all_caches(small, monkeypatch):
    monkeypatch.undo()
    seen = []
    monkeypatch.setattr(lab, "weighed", lambda call: call() or 7)
    monkeypatch.setattr(lab, "state", lambda model, *size, original=lab.state: original(model, *size, "cpu"))
    monkeypatch.setattr(lab, "kernels_inside", lambda weights, impl, x, caches, tables: seen.append((len(weights), caches.shape)) or ["one_kernel"])
    assert lab.fitted(lab.drawn(SMALL, "cpu")[:2], SMALL, "batch", "flash", 3) == (7, ["one_kernel"]) and seen == [(2, (3, 2, 3, 2, lab.STEP_S, 16))]

# What was measured, against the formulas.


def rows_of(measured, part, **fields):
    return [row for row in measured["rows"] if row["part"] == part and all(row[name] == value for name, value in fields.items())]


def test_measured_every_side_of_every_size(measured):
    assert [(row["S"], row["impl"]) for row in rows_of(measured, "prefill")] == [(S, impl) for S in lab.PROMPTS for impl in lab.SIDES]
    assert [(row["B"], row["S"], row["impl"]) for row in rows_of(measured, "decode")] == [(*step, impl) for step in lab.STEPS for impl in lab.SIDES]
    assert all(row["status"] == "ok" for row in measured["rows"])


def test_measured_kernels_inside_the_layer(measured):
    inside = {"naive": "softmax", "flash": "flash_fwd", "cudnn": "cudnn_generated"}
    for row in rows_of(measured, "prefill") + rows_of(measured, "decode") + rows_of(measured, "fit") + rows_of(measured, "attention"):
        if row["status"] == "ok" and row["impl"] in inside:
            names = row["kernel_full"].lower()
            assert inside[row["impl"]] in names and not any(name in names for impl, name in inside.items() if impl != row["impl"])


def test_measured_peaks_are_the_predicted_ones(measured):
    for row in rows_of(measured, "prefill", status="ok"):
        predicted = lab.prefill_bytes(row["impl"], lab.MODEL, row["S"])
        assert row["peak_predicted_mib"] == predicted / 2**20 and abs(row["peak_diff_bytes"]) < 0.01 * predicted, (row["impl"], row["S"])


def test_measured_columns_follow_from_times(measured):
    for part in ("prefill", "decode"):
        for row in rows_of(measured, part, status="ok"):
            none, = rows_of(measured, part, impl="none", B=row["B"], S=row["S"])
            assert row["p10_ms"] <= row["ms"] <= row["p90_ms"] and (row["samples"] >= 3 or row["samples"] * row["ms"] > 3000)
            assert math.isclose(row["attention_pct"], 100 * (1 - none["ms"] / row["ms"]), abs_tol=1e-9)
            assert math.isclose(row["off_pct"], 100 * (row["predicted_ms"] / row["ms"] - 1)) and math.isclose(row["predicted_ms"], row["rest_predicted_ms"] + row["layers_attention_ms"])
