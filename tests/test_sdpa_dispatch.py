"""The dispatch lab without a GPU: its cases, its reading of names and warnings, its check, and its rows on a stand-in for the card."""
import collections
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

from support import bundled, one_thread  # noqa: F401

lab = bundled("sdpa_dispatch")
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"

FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<128, 128, 64, 4>, false>(pytorch_flash::Flash_fwd_params)"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128_4x1x1_kernel0_0"
EFFICIENT = "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)"
MATH = ["void at::native::elementwise_kernel<128, 4>(int)", "sm80_xmma_gemm_f32f32", "void (anonymous namespace)::softmax_warp_forward<float>(float*)"]


def run(*arguments, cwd=EXAMPLES, **env):
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **env}, capture_output=True, text=True, timeout=120)


def test_alone_and_without_torch_it_says_what_it_needs(tmp_path):
    shutil.copy(lab.__file__, tmp_path)
    done = run("-I", "-S", "sdpa_dispatch.py", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("PyTorch is missing") and done.stderr.count("\n") == 1


# The cases.

def test_the_cases_are_a_chosen_set_of_what_the_issue_asks_for():
    cases = lab.cases()
    assert 70 <= len(cases) <= 100 and len({case["case"] for case in cases}) == len(cases)
    having = {key: {case[key] for case in cases} for key in cases[0]}
    assert having["dtype"] == {"bf16", "fp16", "fp32"} and having["d"] == set(lab.HEAD_DIMS) == {32, 64, 96, 100, 128, 192, 256, 320, 512}
    assert having["mask"] == {"none", "causal", "boolean", "float", "learned"} and having["kv_heads"] == {28, 4, 1}
    assert having["layout"] == {"BHSD", "BSHD", "packed", "strided", "expanded"} and having["grad"] == having["deterministic"] == {True, False}
    assert {case["group"] for case in cases} == {"first", "head_dim", "dtype", "mask", "heads", "length", "layout", "training"}
    sixteen_bit = {(case["d"], case["mask"], case["kv_heads"]) for case in cases if case["dtype"] == "bf16"}
    assert {32, 64, 100, 128, 192, 256, 320, 512} == {d for d, _, _ in sixteen_bit}
    assert {(d, mask, heads) for d in (100, 320, 512) for mask in ("none", "boolean") for heads in (28, 4)} <= sixteen_bit
    lengths = {(case["S_q"], case["S_kv"]) for case in cases}
    assert any(a < b for a, b in lengths) and any(a > b for a, b in lengths) and any(a == 1 for a, _ in lengths)


def test_the_first_group_comes_first_and_every_name_fits_a_pages_filter():
    cases = lab.cases()
    groups = [case["group"] for case in cases]
    assert [case["case"] for case in cases[:5]] == ["plain", "causal", "boolean mask", "float mask", "GQA"]
    assert groups == sorted(groups, key=lambda group: groups.index(group)) and groups.count("first") == 16
    assert not any(mark in case["case"] for case in cases for mark in ",=|]{}")


def test_a_name_tells_cases_apart():
    assert lab.name_of({**lab.PLAIN, "dtype": "fp32", **lab.GQA, "d": 100, "mask": "boolean"}) == "fp32 + GQA + d 100 + boolean mask"
    assert lab.name_of({**lab.PLAIN, "kv_heads": 4}) == "GQA without enable_gqa"
    assert lab.name_of({**lab.PLAIN, "S_q": 1001, "S_kv": 1001, "grad": True}) == "S 1001 + grad"


# What names and warnings are taken for.

def test_backends_by_the_names_of_their_kernels():
    assert [lab.backend_of(names) for names in ([FLASH], [CUDNN], [EFFICIENT], MATH, [])] == ["flash", "cudnn", "efficient", "math", "error"]
    assert lab.backend_of([MATH[0], EFFICIENT]) == "efficient"
    assert lab.backend_of([FLASH.replace("flash_fwd_kernel", "flash_fwd_splitkv_kernel"), "void pytorch_flash::flash_fwd_splitkv_combine_kernel<int>(int)"]) == "flash"


def test_the_attention_kernel_among_those_launched():
    assert lab.attention_kernel([MATH[0], EFFICIENT]) == EFFICIENT
    assert lab.attention_kernel(MATH) == "elementwise_kernel + sm80_xmma_gemm_f32f32 + softmax_warp_forward"
    assert lab.attention_kernel([]) == "none"


def test_a_message_loses_the_place_in_pytorchs_source():
    said = "Flash Attention does not support non-null attn_mask. (Triggered internally at /pytorch/aten/src/ATen/native/x.h:272.)\n"
    assert lab.plain_words(said) == "Flash Attention does not support non-null attn_mask."


@pytest.mark.parametrize("score_bytes, expected", [(0.0, False), (-0.001, False), (0.11, False), (2.0, True), (8.0, True), (None, False)])
def test_quadratic(score_bytes, expected):
    assert lab.quadratic(score_bytes) is expected


def test_bytes_per_score_finds_the_part_that_quadruples():
    scores = 28 * 1024 * 1024
    assert lab.bytes_per_score(lab.PLAIN, 1000 + 8 * scores, 2000 + 4 * 8 * scores) == 8
    assert lab.bytes_per_score(lab.PLAIN, 7_340_032, 2 * 7_340_032) == 0
    assert lab.bytes_per_score({**lab.PLAIN, "S_q": 256}, 3 * 256 * 1024, 4 * 3 * 256 * 1024) == pytest.approx(3 / 28)      # a mask shared by all heads
    assert lab.bytes_per_score({**lab.PLAIN, "S_q": 1, "S_kv": 4096}, 10, 10) is None


def small(case):
    return {**case, "S_q": min(case["S_q"], 24), "S_kv": min(case["S_kv"], 24)}


@pytest.mark.parametrize("case", lab.cases(), ids=lambda case: case["case"])
def test_tensors_are_those_of_the_case(case):
    shape = {**case, "S_q": -(-case["S_q"] // 128), "S_kv": case["S_kv"] // 128 + 1} if case["S_q"] != case["S_kv"] else {**case, "S_q": 8, "S_kv": 8}
    for times in (1, 2):
        q, k, v, mask = lab.tensors_of(shape, times, device="cpu")
        S_q, S_kv = shape["S_q"] * (times if shape["S_q"] > 1 else 1), shape["S_kv"] * times
        assert q.shape == (1, 28, S_q, case["d"]) and k.shape == v.shape == (1, case["kv_heads"], S_kv, case["d"])
        assert {str(x.dtype) for x in (q, k, v)} == {"torch." + lab.DTYPES[case["dtype"]]}
        assert all(x.requires_grad == case["grad"] for x in (q, k, v))
        assert (q.stride(-1) == 1) == (case["layout"] != "strided")
        assert q.is_contiguous() == (case["layout"] in ("BHSD", "expanded") or S_q == 1 and case["layout"] == "BSHD")
        assert (k.stride(1) == 0) == (case["layout"] == "expanded")
        assert (mask is None) == (case["mask"] in ("none", "causal"))
        if mask is not None:
            assert mask.shape == (S_q, S_kv) and (mask.dtype == torch.bool) == (case["mask"] == "boolean")
            assert mask.requires_grad == (case["mask"] == "learned")


def test_flash_refuses_in_pytorchs_own_words():
    case = small({**lab.PLAIN, "kv_heads": 4})
    said = lab.why_not_flash(case, lab.tensors_of(case, device="cpu"))
    assert "require query, key and value to have the same num_heads" in said and "Triggered" not in said and said.isprintable()
    case = small(lab.PLAIN)
    assert lab.why_not_flash(case, lab.tensors_of(case, device="cpu")) is None


def test_the_dispatcher_answers_without_running():
    case = small(lab.PLAIN)
    tensors = lab.tensors_of(case, device="cpu")
    with lab.default(case):
        assert lab.chosen(case, tensors) == "flash"
    with lab.allowing("math"):
        assert lab.chosen(case, tensors) == "math"


def test_settings_are_put_back():
    before = torch.backends.cuda.flash_sdp_enabled(), torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    with pytest.raises(ZeroDivisionError):
        with lab.allowing("math", deterministic=True):
            assert torch.are_deterministic_algorithms_enabled() and not torch.backends.cuda.flash_sdp_enabled()
            1 / 0
    assert before == (torch.backends.cuda.flash_sdp_enabled(), torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory)


# The check.

def test_sdpa_passes_the_check():
    lab.check(device="cpu")


def inverted_mask(q, k, v, mask, causal, gqa):
    return lab.attend(q, k, v, ~mask if mask is not None and mask.dtype == torch.bool else mask, causal, gqa)


def bottom_right(q, k, v, mask, causal, gqa):
    if causal:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    return lab.attend(q, k, v, mask, False, gqa)


def heads_in_turn(q, k, v, mask, causal, gqa):
    times = q.shape[1] // k.shape[1]
    return lab.attend(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1), mask, causal)


def mask_before_the_scale(q, k, v, mask, causal, gqa):
    if mask is not None and mask.dtype != torch.bool:
        mask = mask / math.sqrt(q.shape[-1])
    return lab.attend(q, k, v, mask, causal, gqa)


def unscaled(q, k, v, mask, causal, gqa):
    return lab.attend(q * math.sqrt(q.shape[-1]), k, v, mask, causal, gqa)


def mask_ignored(q, k, v, mask, causal, gqa):
    return lab.attend(q, k, v, None, causal, gqa)


def strides_ignored(q, k, v, mask, causal, gqa):
    if q.stride(-1) != 1:
        q = q.transpose(2, 3).reshape(q.shape)
    return lab.attend(q, k, v, mask, causal, gqa)


def not_a_number(q, k, v, mask, causal, gqa):
    return lab.attend(q, k, v, mask, causal, gqa) * math.nan


@pytest.mark.parametrize("wrong", [inverted_mask, bottom_right, heads_in_turn, mask_before_the_scale, unscaled, mask_ignored, strides_ignored, not_a_number])
def test_the_check_rejects(wrong):
    with pytest.raises(AssertionError, match="SDPA is off by"):
        lab.check(attention=wrong, device="cpu")


def test_exact_is_attention():
    q, k, v = (torch.randn(1, heads, S, 16, dtype=torch.float64) for heads, S in ((6, 11), (2, 13), (2, 13)))
    seen = torch.rand(11, 13) < 0.6
    seen[:, 0] = True
    for mask in (None, seen, torch.randn(11, 13, dtype=torch.float64)):
        for causal in (False, True):
            bias = torch.zeros(11, 13, dtype=torch.float64) if mask is None else mask if mask.dtype != torch.bool else lab.additive(mask, torch.float64)
            if causal:
                bias = bias + lab.additive(torch.ones(11, 13, dtype=torch.bool).tril(), torch.float64)
            p = torch.softmax(q @ k.repeat_interleave(3, 1).mT / 4 + bias, -1)
            torch.testing.assert_close(lab.exact(q, k, v, mask, causal), p @ v.repeat_interleave(3, 1), rtol=0, atol=1e-12)


# The rows, on a stand-in for the card.

@pytest.fixture
def card(monkeypatch):
    """The CPU's SDPA behind the lab's eyes: sizes are made up (linear for flash, S² for math), the profiler answers as the choice says."""
    made, trap = lab.tensors_of, lab.trap_inputs
    monkeypatch.setattr(lab, "tensors_of", lambda case, times=1, device="cpu", random=False: made(small(case), times, "cpu", True))
    monkeypatch.setattr(lab, "trap_inputs", lambda mask, hidden_row=None, device="cpu": trap(mask, hidden_row, "cpu", 32, 16))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(lab, "release", lambda: None)
    last = []
    chosen, attend, allowing = lab.chosen, lab.attend, lab.allowing
    names = {"flash": [FLASH], "math": MATH, "cudnn": [CUDNN], "efficient": [EFFICIENT]}

    def asked(q, k, v, mask=None, causal=False, enable_gqa=False):
        o = attend(q, k, v, mask, causal, enable_gqa)
        number = int(torch._fused_sdp_choice(q, k, v, mask, 0.0, causal, enable_gqa=enable_gqa))
        last[:] = [{0: "math", 1: "flash"}[number]]
        return o

    monkeypatch.setattr(lab, "attend", asked)

    def which_kernel(call):
        last.clear()
        call()
        return names[last[0]] if last else MATH

    monkeypatch.setattr(lab, "which_kernel", which_kernel)
    monkeypatch.setattr(lab, "kernels_of", lambda *calls: [which_kernel(call) for call in calls])
    monkeypatch.setattr(lab, "extra_bytes", lambda case, times, setting: 10**9 * times ** (2 if case["d"] > 256 else 1))
    return last


def test_a_second_length_is_weighed_except_for_a_plan_of_cudnn_behind_the_first_group(card, monkeypatch):
    asked = []
    monkeypatch.setattr(lab, "extra_bytes", lambda case, times, setting: asked.append(times) or 10**6 * times)
    cases = {case["case"]: case for case in lab.cases()}
    for name, kernel, lengths in (("plain", CUDNN, [1, 2]), ("d 32", CUDNN, [1]), ("d 32", FLASH, [1, 2]), ("d 512", EFFICIENT, [1, 2])):
        asked.clear()
        found = lab.findings(cases[name], lab.default, "", [kernel])
        assert asked == lengths and found["extra_mib"] == 10**6 / 2**20
        assert (found["growth"], found["score_bytes"] is None) == ((2, False) if len(lengths) == 2 else (None, True))


def test_the_check_leaves_cudnn_out_and_the_rows_do_not(monkeypatch):
    allowed = []
    original = lab.other_cards
    monkeypatch.setattr(lab, "other_cards", lambda case: allowed.append(lab.name_of(case)) or original(case))
    lab.check(device="cpu")
    assert len(allowed) == 17 and list(lab.SETTINGS.values())[0] is lab.default


def test_rows_of_the_dispatch(card, capsys):
    rows = lab.report(lab.measure(), lab.header, lab.line)
    parts = collections.Counter(row["part"] for row in rows)
    assert parts == {"order": 1, "dispatch": len(lab.cases()), "masked_row": 12, "mask_and_causal": 10}
    assert all(row["kernel"] and row["status"] == "ok" for row in rows)
    cases = {row["case"]: row for row in rows if row["part"] == "dispatch"}
    assert set(cases["plain"]) == set(cases["GQA without enable_gqa"]) and all(set(row) == set(cases["plain"]) for row in cases.values())
    assert cases["plain"]["backend"] == cases["plain"]["choice"] == "flash" and cases["plain"]["growth"] == 2 and cases["plain"]["reason"] is None
    assert cases["plain"]["no_cudnn_kernel"] == cases["plain"]["kernel"] == FLASH and cases["plain"]["launches"] == 1
    broken = cases["GQA without enable_gqa"]
    assert broken["backend"] == "error" and broken["kernel"] == "none" and broken["growth"] is None and "must match the size" in broken["error"]
    assert all(row["rel_err"] < 0.02 and row["no_cudnn_rel_err"] < 0.02 for row in cases.values() if not row["error"]) and broken["rel_err"] is None
    assert cases["MQA without enable_gqa"]["backend"] == "math" and cases["d 320"]["growth"] == 4
    found = lab.values(rows)
    assert found["cases"] == len(cases) and found["choice_misses"] == found["wrong"] == 0 and found["quadratic"] == sum(row["d"] > 256 for row in cases.values())
    text = capsys.readouterr().out + lab.footer(found)
    assert text.isascii() and "GQA + boolean mask" in text
    json.dumps(rows, allow_nan=False)


def test_the_traps_on_the_cpu(card):
    rows = list(lab.trap_rows("masked_row", ("textbook", "default", *lab.BACKENDS), False, hidden_row=5))
    found = {(row["impl"], row["mask"]): row for row in rows}
    assert found["textbook", "boolean"]["result"] == "NaN" and found["math", "boolean"]["result"] == "zeros"
    assert found["cudnn", "float"]["result"] == found["efficient", "float"]["result"] == "refused" and "No " in found["cudnn", "float"]["error"]
    assert all(row["rest_rel_err"] < 0.02 for row in rows if row["result"] not in ("refused", "error"))
    rows = list(lab.trap_rows("mask_and_causal", ("math",), True))
    assert [row["result"] for row in rows] == ["error", "error"] and "is_causal" in rows[0]["error"] and rows[0]["kernel"] == "none"


def test_kinds_of_rows():
    torch.manual_seed(0)
    v, unmasked = torch.randn(1, 2, 9, 4), torch.randn(1, 2, 4).double()
    kinds = [lab.kind_of_row(o, unmasked, v) for o in (unmasked.bfloat16(), torch.zeros(1, 2, 4), v.mean(2), torch.full((1, 2, 4), math.nan), torch.ones(1, 2, 4))]
    assert kinds == ["unmasked softmax", "zeros", "mean of v", "NaN", "other"]


def test_what_applies_tells_the_readings_apart(card):
    q, k, v, seen, given = tensors = lab.trap_inputs("boolean")
    past = torch.ones_like(seen).tril()
    for name, like in (("both applied", seen & past), ("mask only", seen), ("causal only", past)):
        assert lab.what_applies(lab.exact(q, k, v, like).bfloat16(), tensors)["result"] == name
    assert lab.what_applies(lab.exact(q, k, v), tensors)["result"] == "other"


def test_what_is_not_a_number_is_wrong_and_stays_so_in_json(card):
    right = torch.ones(2, 3, dtype=torch.float64)
    assert lab.off_by(right * 1.5, right) == 0.5 and lab.off_by(right * math.nan, right) == math.inf
    row = next(row for row in lab.dispatch_rows())
    for wrong in (math.inf, None, 0.03):                   # JSON has null for infinity
        assert lab.values([{**row, "rel_err": wrong}])["wrong"] == 1
    assert lab.values([row])["wrong"] == 0


def test_extra_bytes_leaves_the_inputs_out(monkeypatch):
    state = {"requested_bytes.all.current": 500, "requested_bytes.all.peak": 500}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: dict(state))
    made, attend = lab.tensors_of, lab.attend
    monkeypatch.setattr(lab, "tensors_of", lambda case, times: made(small(case), times, "cpu"))
    monkeypatch.setattr(lab, "attend", lambda *args: state.update({"requested_bytes.all.peak": 740}) or attend(*args))
    assert lab.extra_bytes(lab.PLAIN, 2, lab.default) == 240


# What was measured.


def case_of(measured, name):
    return next(row for row in measured["rows"] if row["part"] == "dispatch" and row["case"] == name)


def test_measured_every_case_and_the_kernel_agrees_with_the_dispatcher(measured):
    rows = [row for row in measured["rows"] if row["part"] == "dispatch"]
    assert [row["case"] for row in rows] == [case["case"] for case in lab.cases()]
    assert measured["values"]["choice_misses"] == measured["values"]["wrong"] == 0
    for row in rows:
        assert (row["backend"] == "error") == (row["error"] is not None) == (row["kernel"] == "none")
        assert (row["reason"] is None) or "flash" not in (row["backend"], row["no_cudnn_backend"])
        for prefix in ("", "no_cudnn_"):
            assert row[prefix + "backend"] == "error" or lab.backend_of(row[prefix + "kernel"].split(" + ")) == row[prefix + "backend"], row["case"]


def test_measured_only_math_makes_s_squared_per_head(measured):
    for row in measured["rows"]:
        for prefix in ("", "no_cudnn_"):
            if row["part"] == "dispatch" and row[prefix + "score_bytes"] is not None:
                math_path = row[prefix + "backend"] == "math"
                assert row[prefix + "score_bytes"] >= 3.5 if math_path else row[prefix + "score_bytes"] < 0.5, row["case"]
                assert math_path or row["mask"] not in ("none", "causal") or row[prefix + "growth"] < 2.1, row["case"]


def test_measured_columns_follow_from_each_other(measured):
    rows = [row for row in measured["rows"] if row["part"] == "dispatch"]
    for row in rows:
        for prefix in ("", "no_cudnn_"):
            extra, growth, scores = (row[prefix + name] for name in ("extra_mib", "growth", "score_bytes"))
            assert row[prefix + "error"] or row[prefix + "rel_err"] <= 0.02 and row[prefix + "launches"] >= 1, row["case"]
            if growth is not None and row["S_q"] > 1:
                assert scores == pytest.approx(extra * 2**20 * (growth - 2) / 2 / (28 * row["S_q"] * row["S_kv"]), abs=1e-9), row["case"]
            if extra is not None:
                o = 28 * row["S_q"] * row["d"] * (4 if row["dtype"] == "fp32" else 2)
                assert extra * 2**20 >= o or row["d"] % 8, row["case"]
    flash = 28 * 1024 * 128 * 2 + 28 * 1024 * 4            # o and the lse, and two numbers that a dropout would have needed
    assert 0 <= case_of(measured, "plain")["no_cudnn_extra_mib"] * 2**20 - flash <= 64
    assert case_of(measured, "plain")["launches"] == 1


def test_measured_cudnn_holds_less_than_one_copy_of_the_scores(measured):
    rows = [row for row in measured["rows"] if row["part"] == "dispatch" and row["backend"] == "cudnn"]
    assert len(rows) >= 20
    for row in rows:                                       # a copy in 16 bits is 2 bytes a score
        assert row["growth"] is not None or row["group"] != "first", row["case"]
        assert row["S_q"] == 1 or row["extra_mib"] * 2**20 < 1.5 * 28 * row["S_q"] * row["S_kv"], (row["case"], row["extra_mib"])


def test_measured_what_the_lesson_says(measured):
    assert case_of(measured, "plain")["backend"] == "cudnn" and case_of(measured, "plain")["no_cudnn_backend"] == "flash"
    assert case_of(measured, "fp32 + GQA")["backend"] == case_of(measured, "GQA + d 320")["backend"] == case_of(measured, "d 100 + boolean mask")["backend"] == "math"
    assert case_of(measured, "d 100")["backend"] == "flash" and case_of(measured, "fp32")["backend"] == "efficient"
    assert case_of(measured, "GQA + boolean mask")["no_cudnn_backend"] == "math"
    assert "attn_mask" in case_of(measured, "boolean mask")["reason"] and "dtype" in case_of(measured, "fp32")["reason"]
    found = measured["values"]
    assert found["masked_row_textbook"] == "NaN" and found["masked_row_math"] == found["masked_row_efficient"] == "zeros"
    assert found["mask_and_causal_math"] == "error" and found["masked_row_flash"] == found["mask_and_causal_flash"] == "refused"
