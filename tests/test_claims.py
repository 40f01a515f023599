"""Sentences of the pages that stand or fall with a measured result: each is asserted on the committed results.

A page never types a measured number, but it says which program wins, where, and by about how much. When a lab is measured
again and one of these fails, either the page is wrong now, in both languages, or the measurement is.
"""
import functools
import json

from conftest import TOP


@functools.cache
def result(lab):
    return json.loads((TOP / "examples" / "results" / "nvidia-h200" / f"{lab}.json").read_text("utf-8"))


def rows(lab, **fields):
    """The rows of a lab with these cells."""
    return [found for found in result(lab)["rows"] if all(found.get(name) == value for name, value in fields.items())]


def row(lab, **fields):
    """The one row of a lab with these cells."""
    found, = rows(lab, **fields)
    return found


# Decode and the backward pass: docs/*/decode.md, docs/*/backward.md

def decode(impl, column="ms"):
    """{(B, S): cell} of one program."""
    return {(row["B"], row["S"]): row[column] for row in rows("decode_attention", part="decode", impl=impl)}


def test_decode_programs_stand_in_the_order_the_page_gives():
    ms = {impl: decode(impl) for impl in ("repeat", "grouped", "flash", "default")}
    assert all(ms["default"][at] <= 1.05 * min(ms[impl][at] for impl in ms) for at in ms["default"])
    assert ms["flash"][16, 131072] < ms["grouped"][16, 131072] < ms["repeat"][16, 131072] / 10
    found = result("decode_attention")["values"]
    assert found["repeat_copy_ms"] > 0.6 * ms["repeat"][16, 131072]                     # the copy is most of it
    assert max(decode("grouped", "of_copy_pct").values()) <= 88 and found["grouped_over_default"] < 1.6
    assert 95 < decode("flash", "of_copy_pct")[16, 131072] and 100 < decode("default", "of_copy_pct")[16, 131072]


def test_decode_memory_beside_the_cache():
    assert all(5.4 < share < 5.6 for share in decode("grouped", "added_of_kv_pct").values())
    assert all(700 < share < 710 for share in decode("repeat", "added_of_kv_pct").values())
    assert all(added <= 1 for added in decode("flash", "added_mib").values())


def test_one_block_a_kv_head_reads_at_its_own_pace_and_loses_to_plain_kernels():
    single, grouped = decode("single", "gbps"), decode("grouped")
    pace = [single[B, S] / (4 * B) for B in (1, 4, 16) for S in (16384, 65536, 131072)]
    assert max(pace) < 1.15 * min(pace) and max(pace) < 4800 / 132
    assert all(decode("single")[1, S] > grouped[1, S] for S in (4096, 16384, 65536, 131072))
    assert all(decode("flash")[1, S] < grouped[1, S] for S in (4096, 16384, 65536, 131072))


def test_more_parts_help_until_the_blocks_fill_the_card():
    gbps = {row["parts"]: row["gbps"] for row in rows("decode_attention", part="parts")}
    assert all(gbps[2 * n] > 1.7 * gbps[n] for n in (1, 2, 4, 8))                        # nearly doubles
    best = max(gbps, key=gbps.get)
    assert best in (32, 64, 128) and gbps[256] < gbps[best]
    assert max(gbps.values()) < decode("flash", "gbps")[1, 131072]                       # the built-in split is faster


def test_with_64_sequences_grouped_beats_flash_and_nowhere_else():
    assert {at for at, ms in decode("grouped").items() if ms < decode("flash")[at]} == {(64, S) for S in (4096, 16384, 65536, 131072)}
    for row in rows("decode_attention", part="decode", B=64):
        if row["impl"] in ("flash", "single"):
            assert row["parts"] == 1 and "Flash_fwd_kernel_traits<128, 128, 64," in row["kernel_full"]
        if row["impl"] == "default":
            assert "16x128x128" in row["kernel"] and "reduction" not in row["kernel"] and row["of_copy_pct"] > 95
    for row in rows("decode_attention", part="decode", impl="flash"):
        assert row["B"] == 64 or "Flash_fwd_kernel_traits<128, 64, 128," in row["kernel_full"]


def test_padded_rows_explain_where_flash_stops_in_decode():
    prefill = row("attention_roofline", part="grid", impl="flash", kv_heads=28, S=16384, causal=False)["tflops"]
    for (B, S), gbps in decode("flash", "gbps").items():
        if B == 64:
            assert 0.85 < 128 * gbps / 1000 / prefill < 1.1                              # 128 FLOP a byte: 128 rows multiplied
        else:
            assert 64 * gbps / 1000 < 0.95 * prefill                                     # 64 rows: below that limit
    assert 0.7 < 128 * decode("single", "gbps")[1, 131072] / 4 / 1000 / (prefill / 132) < 1.1


def test_short_caches_are_launches():
    ms, alone = decode("default"), decode("default", "alone_ms")
    assert ms[1, 4096] > 3 * 0.0017 and alone[1, 4096] > 2 * ms[1, 4096] and 0.02 < alone[1, 4096] - ms[1, 4096] < 0.2
    assert alone[64, 131072] < 1.1 * ms[64, 131072] and decode("default", "of_copy_pct")[1, 4096] < 40


def test_the_trap_of_is_causal():
    sees = {row["impl"]: row["sees"] for row in rows("decode_attention", part="trap")}
    assert sees == {**dict.fromkeys(("default", "cudnn", "efficient", "math"), "key 0"), "flash": "refused", "lower_right": "all keys"}
    assert "flash" in row("decode_attention", part="trap", impl="lower_right")["kernel"]


def test_backward_costs_more_flops_and_less_time():
    for found in rows("flash_backward", part="training"):
        assert 1.2 < found["speedup"] and 2.5 < found["flash_bwd_over_fwd"] < 4 and found["naive_bwd_over_fwd"] < 2
        assert found["flash_bwd_tflops"] < found["flash_fwd_tflops"]
        if found["causal"]:
            full = row("flash_backward", part="training", S=found["S"], causal=False)
            assert found["speedup"] > full["speedup"] and found["naive_fwd_ms"] > full["naive_fwd_ms"] and found["flash_bwd_ms"] < full["flash_bwd_ms"]


def test_dq_is_added_in_the_order_of_arrival_and_dk_and_dv_are_not():
    for found in rows("flash_backward", part="determinism"):
        if found["refused"]:
            assert (found["impl"], found["deterministic"]) == ("cudnn", True)
        else:
            assert (found["dq_differing"] > 0) != found["deterministic"] and found["dk_differing"] == found["dv_differing"] == 0


def test_the_price_of_determinism():
    def run(impl, deterministic):
        return row("flash_backward", part="determinism", impl=impl, deterministic=deterministic, kv_heads=28, causal=False)

    assert run("flash", True)["peak_mib"] - run("flash", False)["peak_mib"] == 224
    assert run("flash", True)["bwd_ms"] > 1.2 * run("flash", False)["bwd_ms"]
    assert run("default", True)["backend"] == "flash" and run("default", False)["backend"] == "cudnn"
    assert run("default", True)["bwd_ms"] / run("default", False)["bwd_ms"] > run("flash", True)["bwd_ms"] / run("flash", False)["bwd_ms"]


def test_the_default_backward_is_cudnn_keeps_what_flash_keeps_and_is_faster():
    for found in rows("flash_backward", part="default"):
        flash = row("flash_backward", part="training", S=4096, causal=found["causal"])
        assert found["backend"] == "cudnn" and abs(found["default_kept_mib"] - flash["flash_kept_mib"]) < 1 / 1024
        assert found["default_fwd_ms"] < flash["flash_fwd_ms"] and found["default_bwd_ms"] < flash["flash_bwd_ms"]
        assert len(found["kernel"].split(" + ")) == 4 and "dot_do_o" in found["kernel"] and "16bits" in found["kernel"]


def test_the_names_of_the_backward_kernels():
    names = result("flash_backward")["values"]
    assert [name.split("_")[0] for name in names["flash_kernel"].split(" + ")] == ["flash", "elementwise", "flash", "flash", "flash"]
    assert names["naive_kernel"].count("nvjet") >= 3
    assert "elementwise_kernel" not in row("flash_backward", part="variants", layout="BSHD", kv_heads=28)["kernel"]
