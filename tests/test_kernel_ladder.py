"""examples/kernel_ladder.py without a GPU: what it predicts, what it says bounds a rung, how many blocks fit, and its printed rows."""

import json

import kernel_ladder as lab
import pytest
import torch
from support import TOP

RESULT = json.loads((TOP / "examples/results/nvidia-h200/kernel_ladder.json").read_text("utf-8"))


@pytest.mark.parametrize("registers, shared, warps, fit", [(168, 229 * 1024 - 2048, 12, 1), (255, 48 * 1024, 4, 2), (128, 16 * 1024, 4, 4), (32, 0, 8, 8), (40, 100 * 1024, 4, 2)])
def test_blocks_of_a_multiprocessor(registers, shared, warps, fit):
    assert lab.blocks(registers, shared, warps, 65536, 228 * 1024, 2048) == fit


def test_predicted_bytes():
    fused, unfused = (lab.predicted(name, lab.SHAPE, 4096, False) for name in ("fused", "unfused"))
    tensor, square = 28 * 4096 * 128 * 2 / 2**20, 28 * 4096**2 * 2 / 2**20
    assert fused["dram_predicted_mib"] == pytest.approx(4 * tensor, rel=0.01)
    assert fused["sm_predicted_mib"] == pytest.approx(2 * tensor + 2 * tensor * 4096 / 128)
    assert unfused["dram_predicted_mib"] - fused["dram_predicted_mib"] == pytest.approx(5 * square)
    assert lab.predicted("fused", lab.SHAPE, 4096, True)["sm_predicted_mib"] < 0.6 * fused["sm_predicted_mib"]
    assert lab.predicted("descriptors", lab.SHAPE, 4096, False)["sm_predicted_mib"] > 1.9 * fused["sm_predicted_mib"]      # 64 rows a tile
    assert lab.predicted("fused", {**lab.SHAPE, "kv_heads": 4}, 4096, False)["dram_predicted_mib"] < 0.6 * fused["dram_predicted_mib"]


def test_what_bounds_a_kernel():
    assert lab.bound(85, 3, 40) == "tensor cores" and lab.bound(18, 92, 6) == "memory" and lab.bound(50, 2, 70) == "exponentials"
    assert lab.bound(59, 2, 30) == lab.bound(40, 2, None) == "waits"


def test_every_part_has_a_header_and_every_row_a_line():
    for row in RESULT["rows"]:
        assert lab.header(row["part"]) and (row["impl"] or "not counted") in lab.line(row)
    found = lab.values(RESULT["rows"])
    assert found["full_over_cudnn_least"] <= found["full_over_cudnn_most"] and "TFLOP/s" in lab.footer(found)
    assert lab.footer(lab.values([])) == ""


def test_what_ncu_counts_is_a_row_a_program_and_where_it_cannot_count_a_row_says_why(monkeypatch):
    def kernel(name, size):
        return {"name": name, "dram_read": size, "dram_write": 2**20, "sm_read": 2 * size, "tex_write": 2**15}

    cases = lab.traffic_cases()
    seen = [one for number, (name, _) in enumerate(cases) for one in (kernel("spin_kernel(long)", 0), *[kernel(f"{name}_{i}", (number + 1) * 2**20) for i in range(3 if name == "unfused" else 1)])]
    monkeypatch.setattr(lab, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(lab, "version_of", lambda ncu: "1")
    monkeypatch.setattr(lab, "count", lambda *given: (seen, cases, 1))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    rows = list(lab.traffic_rows())
    assert [(row["impl"], row["causal"]) for row in rows] == cases and all(lab.header("traffic") and row["impl"] in lab.line(row) for row in rows)
    by = {(row["impl"], row["causal"]): row for row in rows}
    assert (by["flash", False]["dram_mib"], by["flash", False]["sm_mib"], by["cudnn", False]["dram_mib"]) == (2, 3, 3)
    assert by["unfused", False]["dram_mib"] == 3 * (3 + 1) and by["fused", True]["sm_predicted_mib"] and "sm_predicted_mib" not in by["flash", True]

    def no(*given):
        raise lab.NoCounters("no right to count")

    monkeypatch.setattr(lab, "count", no)
    (row,) = lab.traffic_rows()
    assert row["status"] == "refused" and row["kernel"] is None and "no right to count" in lab.line(row)
    monkeypatch.setattr(lab, "count", lambda *given: (seen[:-2], cases, 1))
    with pytest.raises(ValueError, match="zip"):
        list(lab.traffic_rows())


@pytest.mark.parametrize("kib, rows, keys, fit", [(164, 128, 64, 2), (100, 128, 64, 1), (100, 128, 32, 2), (100, 64, 128, 1), (228, 64, 128, 2)])
def test_the_tiles_of_pytorchs_flash_fit_as_often_as_the_page_says(kib, rows, keys, fit):
    """128 threads with up to 255 registers, d = 128: shared memory decides."""
    assert lab.blocks(255, 2 * 128 * (rows + 2 * keys), 4, 65536, kib * 1024, 1536) == fit


def test_the_tiles_of_the_rungs_fit_as_often_as_the_page_says():
    code = {row["impl"]: row for row in RESULT["rows"] if row["part"] == "code" and row["capability"] == 90 and row["impl"] != "unfused"}
    fit = {impl: lab.blocks(row["registers"], row["shared_bytes"], row["warps"], 65536, 228 * 1024, 2048) for impl, row in code.items()}
    assert fit == {"fused": 1, "diagonal": 1, "descriptors": 2, "partitions": 1, "pipelined": 1, "persistent": 1}
