"""Sentences of the pages that stand or fall with a measured result: each is asserted on the committed results.

A page never types a measured number, but it says which program wins, where, and by about how much. Such a sentence stands in
<span data-claim="name">…</span>, in both languages, and the test of that name asserts it. Its words are free. When a lab is
measured again and one of these fails, either the page is wrong now, in both languages, or the measurement is.

Margins follow the spread: spread.json holds, row by row, how far apart several whole runs lie, and which runs they were
(`tools/results.py spread`). With every time moved by as much, in any direction, each sentence must still hold (test_planted.py):
one that does not says too much, or its bound is too near.
"""
import functools
import re

import pytest
from core.calculator import CARDS
from support import LANGUAGES, TOP, measured


@functools.cache
def result(lab):
    return measured(lab)


def rows(lab, **fields):
    """The rows of a lab with these cells."""
    found = [row for row in result(lab)["rows"] if all(row.get(name) == value for name, value in fields.items())]
    assert found, f"{lab} has no row with {fields}"
    return found


def row(lab, **fields):
    """The one row of a lab with these cells."""
    found, = rows(lab, **fields)
    return found


@functools.cache
def said(lang):
    """{name of a claim: [(page, what stands in its span)]} of a language."""
    found = {}
    for path in sorted((TOP / "docs" / lang).glob("*.md")):
        for name, words in re.findall(r'<span data-claim="([^"]*)">(.*?)</span>', path.read_text("utf-8"), re.S):
            found.setdefault(name, []).append((path.stem, words))
    return found


def claim(test):
    """A test of what pages say: the sentence carries the test's name, in every language."""
    name = test.__name__.removeprefix("test_").replace("_", "-")

    @functools.wraps(test)
    def said_and_borne_out():
        for lang in LANGUAGES:
            assert name in said(lang), f"docs/{lang} says nowhere what {test.__name__} asserts: put the sentence into <span data-claim=\"{name}\">…</span>, or remove this test"
        test()

    CLAIMS.add(name)
    return said_and_borne_out


CLAIMS = set()


def test_both_languages_claim_the_same_on_the_same_pages_and_each_claim_has_its_test():
    tests = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert len(tests - CLAIMS) == 1, f"each other test of this file is of a claim with an id: {sorted(tests - CLAIMS)}"
    pages = [{name: [page for page, _ in spans] for name, spans in said(lang).items()} for lang in LANGUAGES]
    assert pages[0] == pages[1]
    assert pages[0].keys() <= CLAIMS, f"write a test with @claim for {sorted(pages[0].keys() - CLAIMS)}"
    for lang in LANGUAGES:
        written = sum(path.read_text("utf-8").count("data-claim=") for path in (TOP / "docs" / lang).glob("*.md"))
        assert written == sum(map(len, said(lang).values())), f"docs/{lang}: write a claim as <span data-claim=\"name\">…</span>"


# Decode and the backward pass: docs/*/decode.md, docs/*/backward.md

def decode(impl, column="ms"):
    """{(B, S): cell} of one program."""
    return {(row["B"], row["S"]): row[column] for row in rows("decode_attention", part="decode", impl=impl)}


@claim
def test_decode_reads_at_the_ceiling():
    ms = {impl: decode(impl) for impl in ("repeat", "grouped", "flash", "default")}
    assert all(ms["default"][at] <= 1.08 * min(ms[impl][at] for impl in ms) for at in ms["default"])
    assert ms["flash"][16, 131072] < ms["grouped"][16, 131072] < ms["repeat"][16, 131072] / 10
    found = result("decode_attention")["values"]
    assert found["repeat_copy_ms"] > 0.6 * ms["repeat"][16, 131072]                     # the copy is most of it
    assert max(decode("grouped", "of_copy_pct").values()) < 92 and found["grouped_over_default"] < 1.6
    assert 95 < decode("flash", "of_copy_pct")[16, 131072] and 100 < decode("default", "of_copy_pct")[16, 131072]


@claim
def test_decode_memory_beside_the_cache():
    assert all(5.4 < share < 5.6 for share in decode("grouped", "added_of_kv_pct").values())
    assert all(700 < share < 710 for share in decode("repeat", "added_of_kv_pct").values())
    assert all(added <= 1 for added in decode("flash", "added_mib").values())


@claim
def test_a_block_has_its_own_pace():
    single, grouped = decode("single", "gbps"), decode("grouped")
    pace = [single[B, S] / (4 * B) for B in (1, 4, 16) for S in (16384, 65536, 131072)]
    assert max(pace) < 1.15 * min(pace) and max(pace) < 4800 / 132
    assert all(decode("single")[1, S] > grouped[1, S] for S in (4096, 16384, 65536, 131072))
    assert all(decode("flash")[1, S] < grouped[1, S] for S in (4096, 16384, 65536, 131072))


@claim
def test_parts_fill_the_card():
    gbps = {row["parts"]: row["gbps"] for row in rows("decode_attention", part="parts")}
    assert all(gbps[2 * n] > 1.6 * gbps[n] for n in (1, 2, 4, 8))                        # nearly doubles
    best = max(gbps, key=gbps.get)
    assert best in (32, 64, 128) and gbps[256] < gbps[best]
    assert max(gbps.values()) < decode("flash", "gbps")[1, 131072]                       # the built-in split is faster


@claim
def test_grouped_wins_at_64():
    assert {at for at, ms in decode("grouped").items() if ms < decode("flash")[at]} == {(64, S) for S in (4096, 16384, 65536, 131072)}
    for row in rows("decode_attention", part="decode", B=64):
        if row["impl"] in ("flash", "single"):
            assert row["parts"] == 1 and "Flash_fwd_kernel_traits<128, 128, 64," in row["kernel_full"]
        if row["impl"] == "default":
            assert "16x128x128" in row["kernel"] and "reduction" not in row["kernel"] and row["of_copy_pct"] > 95
    for row in rows("decode_attention", part="decode", impl="flash"):
        assert row["B"] == 64 or "Flash_fwd_kernel_traits<128, 64, 128," in row["kernel_full"]


@claim
def test_padding_makes_decode_compute_bound():
    prefill = row("attention_roofline", part="grid", impl="flash", kv_heads=28, S=16384, causal=False)["tflops"]
    for (B, S), gbps in decode("flash", "gbps").items():
        if B == 64:
            assert 0.8 < 128 * gbps / 1000 / prefill < 1.2                              # 128 FLOP a byte: 128 rows multiplied
        else:
            assert 64 * gbps / 1000 < 0.95 * prefill                                     # 64 rows: below that limit
    assert 0.7 < 128 * decode("single", "gbps")[1, 131072] / 4 / 1000 / (prefill / 132) < 1.1


@claim
def test_short_caches_are_launches():
    ms, alone = decode("default"), decode("default", "alone_ms")
    assert ms[1, 4096] > 3 * 0.0017 and alone[1, 4096] > 1.5 * ms[1, 4096] and 0.015 < alone[1, 4096] - ms[1, 4096] < 0.25
    assert alone[64, 131072] < 1.1 * ms[64, 131072] and decode("default", "of_copy_pct")[1, 4096] < 40


@claim
def test_trap_of_is_causal():
    sees = {row["impl"]: row["sees"] for row in rows("decode_attention", part="trap")}
    assert sees == {**dict.fromkeys(("default", "cudnn", "efficient", "math"), "key 0"), "flash": "refused", "lower_right": "all keys"}
    assert "flash" in row("decode_attention", part="trap", impl="lower_right")["kernel"]


@claim
def test_backward_more_flops_less_time():
    for found in rows("flash_backward", part="training"):
        assert 1.2 < found["speedup"] and 2.5 < found["flash_bwd_over_fwd"] < 4 and found["naive_bwd_over_fwd"] < 2
        assert found["flash_bwd_tflops"] < found["flash_fwd_tflops"]
        if found["causal"]:
            full = row("flash_backward", part="training", S=found["S"], causal=False)
            assert found["speedup"] > full["speedup"] and found["naive_fwd_ms"] > full["naive_fwd_ms"] and found["flash_bwd_ms"] < full["flash_bwd_ms"]


@claim
def test_only_dq_varies():
    for found in rows("flash_backward", part="determinism"):
        if found["refused"]:
            assert (found["impl"], found["deterministic"]) == ("cudnn", True)
        else:
            assert (found["dq_differing"] > 0) != found["deterministic"] and found["dk_differing"] == found["dv_differing"] == 0


@claim
def test_the_price_of_determinism():
    def run(impl, deterministic):
        return row("flash_backward", part="determinism", impl=impl, deterministic=deterministic, kv_heads=28, causal=False)

    assert run("flash", True)["peak_mib"] - run("flash", False)["peak_mib"] == 224
    assert run("flash", True)["bwd_ms"] > 1.2 * run("flash", False)["bwd_ms"]
    assert run("default", True)["backend"] == "flash" and run("default", False)["backend"] == "cudnn"
    assert run("default", True)["bwd_ms"] / run("default", False)["bwd_ms"] > run("flash", True)["bwd_ms"] / run("flash", False)["bwd_ms"]


@claim
def test_default_backward_is_cudnn():
    for found in rows("flash_backward", part="default"):
        flash = row("flash_backward", part="training", S=4096, causal=found["causal"])
        assert found["backend"] == "cudnn" and abs(found["default_kept_mib"] - flash["flash_kept_mib"]) < 1 / 1024
        assert found["default_fwd_ms"] < flash["flash_fwd_ms"] and found["default_bwd_ms"] < flash["flash_bwd_ms"]
        assert len(found["kernel"].split(" + ")) == 4 and "dot_do_o" in found["kernel"] and "16bits" in found["kernel"]


@claim
def test_the_names_of_the_backward_kernels():
    names = result("flash_backward")["values"]
    assert [name.split("_")[0] for name in names["flash_kernel"].split(" + ")] == ["flash", "elementwise", "flash", "flash", "flash"]
    assert names["naive_kernel"].count("nvjet") >= 3
    assert "elementwise_kernel" not in row("flash_backward", part="variants", layout="BSHD", kv_heads=28)["kernel"]


# The roofline: docs/*/roofline.md

def values(lab):
    return result(lab)["values"]


def roof(impl, causal=False):
    """The rows of one side by S."""
    return {row["S"]: row for row in rows("attention_roofline", part="grid", impl=impl, causal=causal)}


def traffic(impl, causal=False):
    return {row["S"]: row for row in rows("hbm_traffic", part="total", impl=impl, causal=causal)}


@claim
def test_ceilings_are_below_the_data_sheet():
    """'Data sheets print the ceilings that no program reaches'; the ridge lies under 206."""
    found = values("attention_roofline")
    assert found["matmul_tflops"] < 989 and found["copy_gbps"] < 4800
    assert 160 < found["ridge_intensity"] < 206


@claim
def test_what_is_not_written_is_in_l2():
    """'Reads agree to a few per cent … writes fall short, by up to a few tens of MiB … no kernel is short by more' than L2."""
    for step in rows("hbm_traffic", part="kernel", impl="naive", S=4096, causal=False):
        assert abs(step["read_off_pct"]) < 5, step["step"]
        assert 0 <= step["model_write_mib"] - step["write_mib"] < min(50, step["l2_cache_mib"]), step["step"]


@claim
def test_model_of_naive_holds_from_4096():
    found = traffic("naive")
    assert all(abs(found[S]["off_pct"]) < 5 for S in found if S >= 4096)
    assert found[1024]["write_mib"] < 0.75 * found[1024]["model_write_mib"]


@claim
def test_causal_naive_moves_more():
    full, causal = traffic("naive"), traffic("naive", True)
    assert all(causal[S]["dram_mib"] > full[S]["dram_mib"] for S in full)


@claim
def test_decode_as_fast_as_a_copy():
    """'With enough to read, the default kernel reads as fast as a plain copy moves bytes, or a little faster.'"""
    found = {row["S"]: row["of_copy_pct"] for row in rows("decode_attention", part="decode", impl="default", B=16)}
    assert 95 < found[131072] < 120 and found[4096] < found[131072]


@claim
def test_naive_under_the_slope():
    """'about a quarter of what the card computes'; 'between about a half and three quarters of that'; its intensity does not move."""
    found = roof("naive")
    assert 0.2 < found[32768]["roof_tflops"] / values("attention_roofline")["matmul_tflops"] < 0.3
    assert all(45 < row["of_roof_pct"] < 80 for row in found.values())
    assert all(36 < row["intensity"] < 42.7 for row in found.values())


@claim
def test_softmax_is_the_slow_kernel():
    steps = {step["step"]: step for step in rows("attention_roofline", part="step")}
    assert steps["softmax"]["ms"] > 0.5 * sum(step["ms"] for step in steps.values())
    assert all(steps[name]["of_roof_pct"] > 2 * steps["softmax"]["of_roof_pct"] for name in ("scores", "scale", "output"))
    counted = row("hbm_traffic", part="kernel", impl="naive", S=4096, causal=False, step="softmax")
    assert counted["off_pct"] < 1, "softmax moves more than its bytes"
    found = roof("naive")
    assert found[16384]["of_roof_pct"] > 1.2 * found[8192]["of_roof_pct"] and found[16384]["kernel"] != found[8192]["kernel"]


@claim
def test_flash_under_half_of_its_roof():
    found = roof("flash")
    assert all(found[S]["tflops"] > roof("naive")[S]["roof_tflops"] for S in found)
    assert values("attention_roofline")["flash_best_of_roof_pct"] < 50
    assert all(row["traffic_gbps"] < 0.3 * values("attention_roofline")["copy_gbps"] for row in found.values())


@claim
def test_cudnn_overlaps_exponentials():
    """Products at 800 TFLOP/s or at the rate measured, and exponentials at 3.9 T/s, one after the other, give less."""
    flash, cudnn = roof("flash"), roof("cudnn")
    assert all(cudnn[S]["ms"] < flash[S]["ms"] for S in flash) and all("wgmma" in row["kernel"] for row in cudnn.values())
    matmul = max(800, values("attention_roofline")["matmul_tflops"])
    assert values("attention_roofline")["cudnn_best_tflops"] > 1.05 / (1 / matmul + 1 / 1997)
    assert all(roof("cudnn")[S]["of_roof_pct"] > max(flash[S]["of_roof_pct"], roof("naive")[S]["of_roof_pct"]) for S in (4096, 8192, 16384, 32768))


@claim
def test_causal_flash_at_a_lower_rate():
    full, causal = roof("flash"), roof("flash", True)
    assert all(causal[S]["speedup"] > full[S]["speedup"] for S in full)
    kept = {S: causal[S]["tflops"] / full[S]["tflops"] for S in full}
    assert all(kept[S] < 0.95 if S <= 8192 else 0.85 < kept[S] < 1.08 for S in full) and kept[512] < 0.7


@claim
def test_tile_model_and_floor():
    found = values("hbm_traffic")
    assert abs(found["cudnn_sm_off_pct"]) < 0.1
    off = [row["sm_off_pct"] for row in traffic("flash").values()]
    assert 0 < min(off) and max(off) - min(off) < 3, "'by nearly the same share at every length'"
    assert found["flash_leaves_floor_S"] == 8192 and found["flash_causal_leaves_floor_S"] < 8192
    assert found["cudnn_leaves_floor_S"] is None and found["cudnn_causal_leaves_floor_S"] is None
    assert all(traffic("flash")[S]["write_mib"] > traffic("flash")[S]["model_write_mib"] for S in (8192, 16384))
    assert all(row["kv_at_work_mib"] < row["l2_cache_mib"] / 2 for row in traffic("flash").values())


@claim
def test_s_squared_even_with_cudnn():
    """The page names all the ways: GQA in fp32, GQA above 256, d = 100 masked, strided, one KV head without enable_gqa."""
    for row in rows("sdpa_dispatch", part="dispatch", backend="math"):
        gqa = row["kv_heads"] < row["heads"]
        assert (gqa and (row["dtype"] == "fp32" or row["d"] > 256 or not row["enable_gqa"])) or row["layout"] == "strided" or (row["d"] == 100 and row["mask"] == "boolean"), row["case"]


@claim
def test_the_two_launches():
    """'PyTorch starts one block per tile of q; cuDNN starts one per multiprocessor.'"""
    sms = result("hbm_traffic")["machine"]["sms"]
    assert all(row["grid"] == f"{S // row['Br']}x1x28" for S, row in traffic("flash").items())
    assert all(row["grid"] == f"{sms}x1x1" for row in traffic("cudnn").values())


@claim
def test_short_sequences():
    """'A single call takes more than twice as long as its work'; flash wins; at S = 256 the split makes the gain small."""
    found = {row["S"]: row for row in rows("attention_roofline", part="short", impl="flash", causal=False)}
    assert all(row["alone_ms"] > 2 * row["ms"] and row["of_roof_pct"] < 20 and row["speedup"] > 1 for row in found.values())
    assert "splitkv" in found[256]["kernel"] and "combine" in found[256]["kernel"]
    assert found[256]["speedup"] < min(found[64]["speedup"], found[128]["speedup"])


@claim
def test_flash_needs_more_where_it_splits():
    assert any(row["ratio"] < 1 for row in rows("flash_vs_naive_memory", part="random", heads=14, causal=False))


@claim
def test_one_part_loses_to_matmuls():
    found = {row["impl"]: row["ms"] for row in rows("decode_attention", part="decode", B=1, S=131072)}
    assert found["single"] > 2 * found["grouped"] > 2 * found["flash"]


# How the numbers are measured: docs/*/measured.md


@claim
def test_two_clocks_agree():
    found = roof("flash")
    assert all(abs(found[S]["alone_ms"] / found[S]["ms"] - 1) < 0.08 for S in found if S >= 16384)
    assert found[1024]["alone_ms"] > 1.2 * found[1024]["ms"]


def case(name):
    return row("sdpa_dispatch", part="dispatch", case=name)


@claim
def test_what_the_dispatcher_takes():
    assert values("sdpa_dispatch")["order"].startswith("cudnn")
    assert case("plain")["backend"] == "cudnn" and case("plain")["no_cudnn_backend"] == "flash"
    assert case("boolean mask")["no_cudnn_backend"] == "efficient", "'does a mask alone suffice?' No"
    assert case("GQA + boolean mask")["no_cudnn_backend"] == "math" and case("GQA + boolean mask")["no_cudnn_score_bytes"] > 8
    assert case("fp32 + GQA")["backend"] == case("fp32 + GQA")["no_cudnn_backend"] == "math"
    assert case("boolean mask")["no_cudnn_score_bytes"] == pytest.approx(2 / 28, rel=0.01)
    assert {"boolean mask", "fp32", "d 320"} <= {row["case"] for row in rows("sdpa_dispatch", group="first") if row["reason"]}


@claim
def test_three_answers():
    assert {row["result"] for row in rows("sdpa_dispatch", part="masked_row", mask="boolean")} == {"NaN", "zeros", "unmasked softmax", "refused"}
    both = {row["impl"]: row["result"] for row in rows("sdpa_dispatch", part="mask_and_causal", mask="boolean")}
    assert set(both.values()) == {"both applied", "error", "refused"} and [impl for impl in both if both[impl] == "error"] == ["math"]


@claim
def test_closer_to_fp64():
    assert values("attention_error")["rule_broken"] == 0
    assert all(row["naive_over_this"] > 1 for row in rows("attention_error", part="error") if row["impl"] != "naive")
    rounded = {row["rounded"]: row["rel_err"] for row in rows("attention_error", part="ablation", dtype="bf16")}
    by = {row["impl"]: row["rel_err"] for row in rows("attention_error", part="error", dtype="bf16", inputs="normal")}
    assert rounded["scores"] > 0.9 * rounded["scores and p"], "'rounding the scores is nearly all of it'"
    assert by["flash"] == pytest.approx(rounded["p"], rel=0.1) and by["math"] == pytest.approx(rounded["nothing"], rel=0.1)


@claim
def test_equal_bits():
    for pair in rows("attention_error", part="bits"):
        assert pair["identical"] == pair["again"], (pair["a"], pair["b"])
    assert row("attention_error", part="bits", a="fp32 tiles of 64", b="fp32 tiles of 128")["differing_pct"] > 50
    assert 0 < row("attention_error", part="bits", a="tiles of 64", b="tiles of 128")["differing_pct"] < 1


# The lesson, and the same sentences in the glossary, the drawings, interview and pitfalls


@claim
def test_short_matrices_fit_into_l2():
    assert roof("naive")[512]["in_l2"] and not roof("naive")[4096]["in_l2"]


@claim
def test_rereads_spill_before_l2_is_full():
    flash, cudnn = traffic("flash")[16384], traffic("cudnn")[16384]
    assert flash["kv_at_work_mib"] < flash["l2_cache_mib"] / 2 and 10 < flash["read_off_pct"] < 50
    assert cudnn["kv_at_work_mib"] < flash["kv_at_work_mib"] and abs(cudnn["read_off_pct"]) < 2, "'stays on the floor'"
    assert all(row["model_read_mib"] == row["floor_mib"] * 3 / 4 for row in (flash, cudnn)), "reads are held against the floor"


@claim
def test_a_causal_mask_brings_nothing_at_1024():
    full, causal = roof("flash"), roof("flash", True)
    assert 0.9 < full[1024]["ms"] / causal[1024]["ms"] < 1.1 and traffic("flash", True)[1024]["waves"] < 1
    assert all(full[S]["ms"] / causal[S]["ms"] > 1.6 for S in (8192, 16384, 32768))


@claim
def test_bytes_are_not_time():
    """Naive is held up by its softmax kernel, flash by its own work: from S = 4096 on at one share of the matmul rate."""
    assert values("hbm_traffic")["ratio"] > 10 * roof("flash")[4096]["speedup"]
    assert all(roof("flash")[S]["speedup"] > 2 for S in (4096, 16384))
    softmax = row("attention_roofline", part="step", step="softmax")
    assert softmax["traffic_gbps"] < 0.5 * values("attention_roofline")["copy_gbps"]
    flash = [row["of_roof_pct"] for S, row in roof("flash").items() if S >= 4096]
    assert max(flash) - min(flash) < 5 and all(row["bound"] == "compute" for S, row in roof("flash").items() if S >= 4096)
    assert all(row["of_roof_pct"] > 75 for S, row in roof("cudnn").items() if S >= 4096)


@claim
def test_short_prefill_is_one_kernel_or_two():
    short = {row["S"]: row["kernel"] for row in rows("attention_roofline", part="short", impl="flash", causal=False)}
    assert short[256].count(" + ") == 1 and " + " not in short[64] and " + " not in roof("flash")[512]["kernel"]


@claim
def test_decode_gains_at_long_contexts():
    assert decode("flash")[1, 131072] < 0.5 * decode("grouped")[1, 131072] < 0.1 * decode("single")[1, 131072]
    assert 1 < decode("grouped")[1, 4096] / decode("flash")[1, 4096] < 1.35
    one = row("decode_attention", part="parts", parts=1)
    assert one["blocks"] == one["B"] * one["kv_heads"]


@claim
def test_naive_and_flash_differ_by_more():
    tiles = row("attention_error", part="bits", a="tiles of 64", b="tiles of 128")
    programs = row("attention_error", part="bits", a="naive", b="flash")
    assert programs["differing_pct"] > 100 * tiles["differing_pct"] and programs["max_diff"] > 5 * tiles["max_diff"]


@claim
def test_cudnn_and_the_row_without_keys():
    found = {mask: row("sdpa_dispatch", part="masked_row", impl="default", mask=mask) for mask in ("boolean", "float")}
    assert {row["backend"] for row in found.values()} == {"cudnn"}
    assert found["boolean"]["result"] == "unmasked softmax" and found["float"]["result"] == "zeros"
    asked = {row["impl"]: row["result"] for row in rows("sdpa_dispatch", part="masked_row", mask="boolean")}
    assert asked["cudnn"] == "unmasked softmax" and asked["math"] == asked["efficient"] == "zeros"


@claim
def test_cudnn_is_asked_first():
    assert values("sdpa_dispatch")["order"] == "cudnn then flash then efficient then math"
    for name in ("plain", "GQA", "boolean mask", "float mask", "GQA + boolean mask"):
        assert case(name)["backend"] == "cudnn"
    assert case("d 100")["backend"] == "flash" and case("d 320")["backend"] == "efficient"


@claim
def test_gqa_ends_in_the_math_path():
    for name in ("d 320", "d 512", "fp32"):
        assert case(name)["backend"] == "efficient", "'a head dimension above 256', 'fp32': not alone"
    for name in ("fp32 + GQA", "GQA + d 320", "GQA + d 512"):
        assert case(name)["backend"] == "math" and case(name)["score_bytes"] > 4, "more than naive in bf16"
    for name in ("GQA + boolean mask", "GQA + float mask"):
        assert case(name)["backend"] == "cudnn" and case(name)["no_cudnn_backend"] == "math" and case(name)["no_cudnn_score_bytes"] > 8


@claim
def test_a_mask_takes_two_bytes_a_position():
    found = case("boolean mask")
    assert all(found[column] * found["heads"] == pytest.approx(2, abs=0.01) for column in ("score_bytes", "no_cudnn_score_bytes"))


@claim
def test_the_default_is_not_the_switch():
    assert "cudnn" in values("flash_vs_naive_memory")["default_kernel"]


@claim
def test_a_workspace_is_left_behind():
    assert values("flash_vs_naive_memory")["workspace_mib"] > 0


# The calculator's card: docs/*/calculator.md

@claim
def test_no_program_reached_the_peak():
    card = next(card for card in CARDS if card["key"] == "h200")
    assert max(row["tflops"] or 0 for row in rows("attention_roofline")) < card["tflops"]
    read = max(row["gbps"] for row in rows("decode_attention", part="decode"))
    assert values("attention_roofline")["copy_gbps"] < read < card["gbps"]


# Write the kernel: docs/*/kernel.md

def counted(impl, causal=False):
    return row("kernel_ladder", part="traffic", impl=impl, causal=causal)


@claim
def test_rungs_move_what_their_tiles_say():
    for causal in (False, True):
        assert all(abs(counted(impl, causal)["sm_mib"] / counted(impl, causal)["sm_predicted_mib"] - 1) < 0.01 for impl in ("fused", "diagonal", "descriptors"))
        assert all(1 < counted(impl, causal)["sm_mib"] / counted(impl, causal)["sm_predicted_mib"] < 1.1 for impl in ("partitions", "pipelined", "persistent"))


@claim
def test_unfused_reads_once_less():
    square = 28 * 4096**2 * 2 / 2**20
    assert 3.5 < (counted("unfused")["dram_mib"] - counted("fused")["dram_mib"]) / square < 4.4


@claim
def test_persistent_spills_under_a_mask():
    assert counted("persistent", True)["dram_mib"] > 2 * counted("persistent", True)["dram_predicted_mib"] > 1.8 * counted("persistent")["dram_mib"]
    assert 2 * 28 * 4096 * 128 * 2 == 56 * 2**20


# Beyond one GPU: docs/*/ring.md

def grid(causal, sharding, column):
    """{S: cell} of the ring in one mode."""
    return {row["S"]: row[column] for row in rows("ring_attention", part="grid", causal=causal, sharding=sharding)}


FULL, CONTIGUOUS, ZIGZAG = (False, "contiguous"), (True, "contiguous"), (True, "zigzag")


@claim
def test_ring_samples():
    found = result("ring_attention")["values"]
    assert (found["gpus"], found["link"], found["longest_S"], found["cap_gib"]) == (2, "NV18", 524288, 2)
    assert {row["samples"] for row in rows("ring_attention", part="grid", S=524288)} == {2}
    assert all(row["ms"] == row["p10_ms"] for row in rows("ring_attention", part="grid", S=524288))    # of two samples the lower one


@claim
def test_ring_contiguous_waits():
    first, last = (grid(*CONTIGUOUS, column) for column in ("rank0_ms", "last_rank_ms"))
    assert all(0.33 < first[S] / last[S] < 0.4 for S in first)
    first, last = (grid(*ZIGZAG, column) for column in ("rank0_ms", "last_rank_ms"))
    assert all(0.93 < first[S] / last[S] < 1.07 for S in first)
    contiguous, zigzag = grid(*CONTIGUOUS, "speedup"), grid(*ZIGZAG, "speedup")
    assert all(zigzag[S] > 1.25 * contiguous[S] for S in zigzag)
    for factors, bound in ((contiguous, 4 / 3), (zigzag, 2)):
        assert [S for S in sorted(factors) if factors[S] > bound] == [131072, 262144, 524288]      # one GPU slows down there, see below


@claim
def test_ring_speed_without_a_mask():
    speedup, tflops = grid(*FULL, "speedup"), grid(*FULL, "single_tflops")
    assert all(speedup[S] < 1.9 for S in (16384, 32768, 65536)) and all(1.85 < speedup[S] < 2.1 for S in (131072, 262144, 524288))
    assert sum(factor > 2 for factor in speedup.values()) == 1 and speedup[524288] > 2
    assert tflops[524288] < 0.95 * tflops[65536] and 330 < tflops[524288] < 370          # "about 350 TFLOP/s"


@claim
def test_ring_transfer_is_nowhere_to_be_seen():
    ms, transfer = grid(*FULL, "ms"), grid(*FULL, "transfer_ms")
    assert transfer[524288] < 0.001 * ms[524288] and transfer[32768] < 0.01 * ms[32768]
    longer = [row for row in rows("ring_attention", part="grid", causal=False) if row["ms"] > row["compute_ms"] + row["transfer_ms"]]
    assert 0 < len(longer) < 6 and all(row["ms"] < 1.05 * row["compute_ms"] for row in longer), "'up to 5 %'"
    assert all(5 * row["transfer_ms"] < row["ms"] - row["compute_ms"] < 1.2 * (row["p90_ms"] - row["p10_ms"]) for row in longer), "several times the pass; about as much as the runs differ"


@claim
def test_ring_one_gpu_is_not_the_slower_card():
    first, last = (grid(*FULL, column) for column in ("rank0_compute_ms", "last_rank_compute_ms"))
    assert all(last[S] < 1.005 * first[S] for S in first) and last[524288] < first[524288]


@claim
def test_ring_runs_out_before_its_bytes_do():
    cap = 1024 * values("ring_attention")["cap_gib"]
    first = {impl: min((row for row in rows("ring_attention", part="cap", impl=impl, status="oom")), key=lambda row: row["S"]) for impl in ("one GPU", "ring", "ring by head")}
    assert {impl: row["predicted_mib"] < cap for impl, row in first.items()} == {"one GPU": False, "ring": True, "ring by head": True}
    assert all(row["S"] % 4096 == 0 for row in rows("ring_attention", part="cap")), "'in steps of 4096'"


@claim
def test_ring_needs_more_memory():
    peak, single = grid(*FULL, "peak_mib"), grid(*FULL, "single_peak_mib")
    assert all(1 < peak[S] / single[S] < 1.01 for S in peak)
    by_head = {row["S"]: row for row in rows("ring_attention", part="by_head")}
    slower = {S: by_head[S]["ms"] / grid(*ZIGZAG, "ms")[S] for S in by_head}
    assert all(factor > 1.02 for factor in slower.values()) and slower[16384] == max(slower.values()) > 1.15
    assert all(row["peak_mib"] < 0.7 * single[S] for S, row in by_head.items())
    found = result("ring_attention")["values"]
    assert found["cap_ring_fit_S"] < found["cap_one_gpu_fit_S"] < found["cap_one_gpu_fail_S"] < found["cap_by_head_fit_S"]


@claim
def test_ring_link_and_hiding():
    gbps = {row["message_mib"]: row["gbps"] for row in rows("ring_attention", part="link")}
    assert 5.5 < gbps[512] / gbps[1] < 6.5
    overlap = rows("ring_attention", part="overlap")
    assert len(overlap) == 8 and sum(row["hidden_pct"] >= 50 for row in overlap) == 6 and all(row["hidden_pct"] < 100 for row in overlap)
    assert [row["ms"] > row["serial_ms"] for row in overlap].count(True) == 1
    assert all(abs(row["serial_ms"] / (row["compute_ms"] + row["transfer_ms"]) - 1) < 0.02 for row in overlap)
    share = {row["S"]: row["transfer_ms"] / row["compute_ms"] for row in overlap if row["kv_heads"] == 4}
    assert max(share.values()) == share[4096] < 0.07 and share[32768] < 0.01


@claim
def test_ring_context_parallel():
    for cp in rows("ring_attention", part="context_parallel"):
        own = row("ring_attention", part="grid", S=cp["S"], causal=cp["causal"], sharding=cp["sharding"])
        assert cp["p10_ms"] <= own["p90_ms"] and own["p10_ms"] <= cp["p90_ms"], cp["S"]
        assert cp["peak_mib"] > 2.2 * own["single_peak_mib"] and cp["kernel"] == own["kernel"]


@claim
def test_headline():
    found = row("flash_vs_naive_memory", part="grid", S=4096, kv_heads=28, causal=False)
    assert found["naive_mib"] > 10 * found["flash_mib"]
    for lang in LANGUAGES:
        shown = [re.findall(r"flash_vs_naive_memory\.(\w+)\[", words) for _, words in said(lang)["headline"]]
        assert ["naive_mib", "flash_mib"] in shown, f"docs/{lang}/index.md: the headline goes from naive to flash: {shown}"


@claim
def test_headline_time():
    ms = {impl: row("attention_roofline", part="grid", impl=impl, S=4096, kv_heads=28, causal=False)["ms"] for impl in ("naive", "flash", "cudnn")}
    assert ms["naive"] > 2 * ms["flash"] > 2 * ms["cudnn"]


@claim
def test_headline_same():
    error = {impl: row("attention_error", part="error", dtype="bf16", inputs="normal", impl=impl)["rel_err"] for impl in ("naive", "flash")}
    assert error["flash"] < error["naive"] < 0.01


@claim
def test_doubling_s():
    found = {row["S"]: row for row in rows("flash_vs_naive_memory", part="grid", kv_heads=28, causal=False, status="ok")}
    pairs = [(S, 2 * S) for S in found if S >= 1024 and 2 * S in found]
    assert pairs and all(abs(2 * found[S]["flash_mib"] - found[twice]["flash_mib"]) * 2**20 <= 24.5 for S, twice in pairs)
    assert all(3.5 < found[twice]["naive_mib"] / found[S]["naive_mib"] < 4 for S, twice in pairs)


# What a server asks: docs/*/serving.md

def model(part, impl, column="ms"):
    """{(B, S): cell} of one program in the whole model."""
    return {(row["B"], row["S"]): row[column] for row in rows("whole_model", part=part, impl=impl)}


@claim
def test_whole_model_attention_alone():
    naive, flash = model("attention", "naive"), model("attention", "flash")
    assert 8 < naive[1, 4096] / flash[1, 4096] < 10.5 and 7 < naive[1, 32768] / flash[1, 32768] < 8


@claim
def test_whole_model_gains_grow():
    for impl, bounds in (("flash", {1024: (1.1, 1.5), 4096: (1.6, 2.4), 32768: (3.4, 4.4)}), ("cudnn", {1024: (1.1, 1.5), 4096: (1.7, 2.6), 32768: (4.2, 5.4)})):
        gains = [gain for _, gain in sorted(model("prefill", impl, "over_naive").items())]
        assert gains == sorted(gains)
        assert all(low < model("prefill", impl, "over_naive")[1, S] < high for S, (low, high) in bounds.items())
    assert 35 < model("prefill", "flash", "attention_pct")[1, 32768] < 55


@claim
def test_whole_model_predicts_too_much():
    ms, predicted = model("prefill", "none"), model("prefill", "none", "predicted_ms")
    assert all(1.15 < ms[at] / predicted[at] < 1.5 for at in ms)
    for impl in ("flash", "cudnn"):
        gain, promised = model("prefill", impl, "over_naive"), model("prefill", impl, "over_naive_predicted")
        assert all((1.01 if at[1] >= 2048 else 0.95) < promised[at] / gain[at] < 1.3 for at in gain)
    assert all(0.6 < row["products_ms"] / row["ms"] < 0.95 for row in rows("whole_model", part="prefill", impl="none"))


@claim
def test_whole_model_products_below_the_ceiling():
    assert all(1.08 < row["products_ms"] / row["products_predicted_ms"] < 1.4 for row in rows("whole_model", part="prefill", impl="none"))


@claim
def test_whole_model_peak_to_the_byte():
    assert all(row["peak_diff_bytes"] == 0 for row in rows("whole_model", part="prefill"))
    assert model("prefill", "flash", "peak_mib") == model("prefill", "cudnn", "peak_mib") == model("prefill", "none", "peak_mib")


@claim
def test_whole_model_naive_copies():
    over = model("decode", "flash", "over_naive")
    assert over[16, 32768] > 15 and over[16, 32768] == max(over.values())


@claim
def test_whole_model_short_steps_do_not_care():
    none = model("decode", "none")[1, 4096]
    assert all(model("decode", impl)[1, 4096] / none < 1.08 for impl in ("flash", "cudnn"))


@claim
def test_whole_model_step_above_its_bytes():
    ms, predicted = model("decode", "none"), model("decode", "none", "predicted_ms")
    assert all(ms[at] > 1.5 * predicted[at] for at in ms)
    for impl in ("none", "flash", "cudnn"):
        eager, graph = model("decode", impl, "eager_ms"), model("decode", impl)
        assert all(eager[1, S] > 2 * graph[1, S] for S in (4096, 32768))


@claim
def test_whole_model_fits():
    found = {(row["what"], row["impl"]): row for row in rows("whole_model", part="fit")}
    assert all(0.97 * row["largest_predicted"] <= row["largest"] <= row["largest_predicted"] for row in found.values())
    assert found["prompt", "flash"]["largest"] > 7 * found["prompt", "naive"]["largest"] and found["prompt", "flash"]["largest"] > 32768
    assert 1.2 < found["batch", "flash"]["largest"] / found["batch", "naive"]["largest"] < 1.35


def bits(part="attention", **fields):
    """Rows of batch_invariance that compared something."""
    return [row for row in rows("batch_invariance", part=part, **fields) if row["status"] == "ok"]


@claim
def test_batch_again_is_equal():
    assert all(row["again_identical"] for row in bits() + bits("linear"))


@claim
def test_batch_flash_as_predicted():
    assert all(row["identical"] == row["predicted"] for row in bits(impl="flash")) and len(bits(impl="flash")) == 17


@claim
def test_batch_short_prompts_differ():
    assert {row["S"] for row in bits(impl="flash", when="prefill") if not row["identical"]} == {256}
    assert not any(row["identical"] for row in bits(impl="flash", when="prefill", S=256))


@claim
def test_batch_cudnn_cuts_too():
    assert 2 * sum(row["identical"] for row in bits(impl="cudnn", when="decode")) < len(bits(impl="cudnn", when="decode"))
    assert all(row["identical"] for row in bits(impl="cudnn", when="prefill"))


@claim
def test_batch_naive_keeps():
    for impl in ("naive", "efficient"):
        assert all(row["identical"] for row in bits(impl=impl))
    assert not all(row["same_kernels"] for row in bits(impl="naive"))


@claim
def test_batch_one_part_keeps():
    assert all(row["identical"] for impl in ("one part", "fixed size") for row in bits(impl=impl))


@claim
def test_batch_split_k():
    found = bits("linear", impl="linear")
    assert all(row["identical"] or "splitK" in row["alone_kernel"] + row["kernel"] for row in found)
    assert not all(row["identical"] for row in found)
    assert any(row["identical"] and not row["same_kernels"] and "splitK" not in row["alone_kernel"] + row["kernel"] for row in found)


@claim
def test_batch_padded_keeps():
    assert all(row["identical"] for row in bits("linear", impl="padded"))


def cost(impl):
    return {(row["B"], row["S"]): row["over_flash"] for row in bits("cost", impl=impl)}


@claim
def test_batch_one_part_costs():
    over = cost("one part")
    assert max(over, key=over.get) == (1, 32768) and over[1, 32768] > 15 and all(factor > 2 for factor in over.values())


@claim
def test_batch_fixed_size_costs_less():
    over = cost("fixed size")
    assert all(1.3 < over[B, 32768] < 3 for B in (1, 4, 16)) and all(over[B, 4096] > 0.5 * cost("one part")[B, 4096] for B in (1, 4, 16))


def masked(impl, column="ms"):
    """{mask: cell} of one way."""
    return {row["mask"]: row[column] for row in rows("mask_savings", part="mask", impl=impl)}


@claim
def test_mask_tiles_as_predicted():
    assert all(row["tiles_counted"] == row["tiles_left"] for row in rows("mask_savings", impl="flex"))


@claim
def test_mask_large_savings_come_true():
    for way, masks in (("flash", ("causal",)), ("cudnn", ("causal",)), ("varlen", ("causal",)), ("flex", ("causal", "prefix"))):
        assert all(0.95 < masked(way, "over_predicted")[mask] < 1.1 for mask in masks)


@claim
def test_mask_small_rests_cost_more():
    found = [masked(way, "over_predicted")[mask] for way in ("varlen", "flex") for mask in ("window", "documents")]
    assert all(1.05 < over < 1.4 for over in found)


@claim
def test_mask_tensor_saves_nothing():
    assert all(0.95 < share / 100 < 1.05 for share in masked("sdpa mask", "of_full_pct").values())


@claim
def test_mask_price_of_generality():
    flex, varlen, cudnn = masked("flex"), masked("varlen"), masked("cudnn")
    assert all(flex[mask] < 0.97 * varlen[mask] for mask in varlen) and flex["causal"] < 0.9 * masked("flash")["causal"]
    assert 1.3 < flex["causal"] / cudnn["causal"] < 1.8


@claim
def test_mask_compiling_takes_seconds():
    assert all(first > 1000 for first in masked("flex", "first_ms").values()) and masked("flex", "first_ms")["documents"] > 1000 * masked("flex")["documents"]
