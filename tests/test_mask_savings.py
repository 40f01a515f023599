"""examples/mask_savings.py: tiles counted one by one, the ways under every mask, rows on a mocked GPU, the committed measurement."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import torch

from support import bundled, one_thread  # noqa: E402, F401

lab = bundled("mask_savings")
from test_attention_roofline import fake_gpu  # noqa: E402, F401

SIZES = [(96, 8, 4), (100, 16, 16), (64, 64, 8)]


def visible(mask, S):
    """[S, S]: the mask as FlexAttention's function says it."""
    at = torch.arange(S)
    return lab.mask_function(mask, S, "cpu")(0, 0, at[:, None], at[None, :]).expand(S, S)


# The masks and the tiles.


@pytest.mark.parametrize("mask", lab.MASKS)
def test_both_forms_of_a_mask_show_the_same_keys(mask):
    for S in (96, 100):
        shown = torch.zeros(S, S, dtype=torch.bool)
        for i in range(S):
            for first, end in lab.seen(mask, i, S):
                assert 0 <= first < end <= S and not shown[i, first:end].any()               # runs do not overlap
                shown[i, first:end] = True
        assert torch.equal(shown, visible(mask, S)) and lab.pairs(mask, S) == int(shown.sum())


@pytest.mark.parametrize("mask", lab.MASKS)
def test_tiles_are_those_that_hold_a_pair(mask):
    for S, Br, Bc in SIZES:
        blocks = [block for rows in visible(mask, S).split(Br) for block in rows.split(Bc, 1)]
        whole = sum(bool(block.all()) and block.shape[1] == Bc for block in blocks)
        assert lab.count_tiles(mask, S, Br, Bc) == (sum(bool(block.any()) for block in blocks), whole)


@pytest.mark.parametrize("mask", lab.MASKS)
def test_a_block_mask_lists_the_tiles_that_were_predicted(mask):
    assert lab.counted(lab.by_function(mask, 512, "cpu", False)[2]) == lab.count_tiles(mask, 512, 128, 128)[0]


def test_masks_at_their_length():
    S = lab.SHAPE["S"]
    assert sum(lab.DOCUMENTS) == S and lab.starts("documents", S) == [sum(lab.DOCUMENTS[:n]) for n in range(8)] and len(lab.starts("prefix", S)) == 9
    assert lab.pairs("causal", S) == S * (S + 1) // 2 and lab.pairs("documents", S) == sum(n * (n + 1) // 2 for n in lab.DOCUMENTS)
    assert lab.left("flex", "full", S)[:2] == (128 * 128, 128 * 128) and lab.left("cudnn", "causal", S) is None
    assert lab.share_left("sdpa mask", "window", S) == 1 and lab.share_left("cudnn", "causal", S) == lab.pairs("causal", S) / S**2


def test_predict_needs_no_torch(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    run = [sys.executable, "-I", "-S", "mask_savings.py"]
    done = subprocess.run([*run, "--predict"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and "causal" in done.stdout
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing.")


# check() rejects what is wrong.


def under(mask_of):
    """Attention under the mask that mask_of(mask, S) gives [S, S]."""
    def attention(q, k, v, mask):
        s = (q.float() @ k.float().mT * q.shape[3] ** -0.5).masked_fill(~mask_of(mask, q.shape[2]), -torch.inf)
        return (torch.softmax(s, -1) @ v.float()).to(q.dtype)
    return attention


def roll(mask, S, by):
    found = visible(mask, S).roll(by, 1)
    found.diagonal().fill_(True)
    return found


WRONG = {
    "no mask": under(lambda mask, S: torch.ones(S, S, dtype=torch.bool)),
    "causal for all": under(lambda mask, S: visible("full" if mask == "full" else "causal", S)),
    "window a key too wide": under(lambda mask, S: roll(mask, S, -1) | visible(mask, S) if mask == "window" else visible(mask, S)),
    "continuations without their prompt": under(lambda mask, S: visible(mask, S) & ((torch.arange(S)[:, None] < S // 2) | (torch.arange(S)[None, :] >= S // 2)) if mask == "prefix" else visible(mask, S)),
    "documents as if there were one border": under(lambda mask, S: visible("causal", S) if mask == "documents" else visible(mask, S)),
}


def test_check_accepts_what_runs_here_and_attention_written_out():
    lab.check(under(visible), device="cpu")


@pytest.mark.parametrize("name", WRONG)
def test_check_rejects(name):
    with pytest.raises(AssertionError, match="is not attention under the mask"):
        lab.check(WRONG[name], device="cpu")


# The rows, on a mocked GPU.


@pytest.fixture
def small(fake_gpu, monkeypatch):  # noqa: F811
    inputs, way_of = lab.inputs, lab.way_of
    for name, fake in {"SHAPE": {**lab.SHAPE, "heads": 2, "kv_heads": 2, "S": 256}, "inputs": lambda shape: inputs(shape, "cpu"), "release": lambda: None, "timed": lambda calls, seconds: [2.0, 4.0, 3.0],
                       "way_of": lambda way, mask, S, device: way_of("sdpa mask" if way == "varlen" else way, mask, S, "cpu", False),
                       "kernels_of": lambda *calls: [(call(), ["void ns::one_kernel<1>(int)"])[1] for call in calls]}.items():
        monkeypatch.setattr(lab, name, fake)
    return fake_gpu


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_measure_yields_every_row(small):
    rows = list(lab.measure())
    assert [(row["impl"], row["mask"]) for row in rows] == [(way, mask) for way, masks in lab.KNOWS.items() for mask in masks]
    for row in rows:
        assert row["status"] == ("refused" if row["impl"] == "cudnn" else "ok") and set(row) == set(rows[0])
        assert lab.line(row).isascii() and lab.header("mask") and all(isinstance(value, (str, int, float, bool, type(None))) for value in row.values())
        if row["status"] == "ok":
            assert row["kernel"] and row["ms"] == 3.0 and row["of_full_pct"] == 100
            assert (row["predicted_ms"] is None) == (row["mask"] == "full") and (row["tiles_counted"] is None) == (row["impl"] != "flex")
            assert row["mask"] == "full" or row["over_predicted"] == pytest.approx(100 / row["share_left_pct"])
    found = lab.values(rows)
    assert found["tiles_miscounted"] == 0 and found["flex_over_varlen_window"] == 1 and "flex_over_cudnn_causal" not in found and lab.footer(found).isascii()
    json.dumps([rows, found], allow_nan=False)


# What was measured.


def test_measured_every_way_under_every_mask_that_it_knows(measured):
    assert [(row["impl"], row["mask"]) for row in measured["rows"]] == [(way, mask) for way, masks in lab.KNOWS.items() for mask in masks]
    seen = {"flash": "flash_fwd", "cudnn": "cudnn_generated", "varlen": "flash_fwd", "flex": "flex_attention", "sdpa mask": "cudnn_generated|fmha"}
    for row in measured["rows"]:
        assert row["status"] == "ok" and re.search(seen[row["impl"]], row["kernel_full"]) and row["p10_ms"] <= row["ms"] <= row["p90_ms"]


def test_measured_columns_follow(measured):
    full = {row["impl"]: row["ms"] for row in measured["rows"] if row["mask"] == "full"}
    for row in measured["rows"]:
        S = row["S"]
        assert row["share_left_pct"] == pytest.approx(100 * lab.share_left(row["impl"], row["mask"], S)) and row["pairs_left_pct"] == pytest.approx(100 * lab.pairs(row["mask"], S) / S**2)
        if row["mask"] != "full":
            assert row["predicted_ms"] == pytest.approx(full[row["impl"]] * row["share_left_pct"] / 100) and row["over_predicted"] == pytest.approx(row["ms"] / row["predicted_ms"])
