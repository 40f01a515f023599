"""Arithmetic that the pages type: each figure is recomputed, and stands on the page in both languages.

A figure is written with its unit exactly as on the pages. The expression gives the value in that unit; rounded to as many
decimals as the figure shows, it must be the figure. Whoever edits such a figure edits it in both languages and here.
"""
import math
import pathlib
import re

import flash_vs_naive_memory as lab
import io_counter
import pytest
from support import LANGUAGES, bundled

ring, masks = bundled("ring_attention"), bundled("mask_savings")
DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"

KIB, MIB, GIB = 2**10, 2**20, 2**30
MB, GB = 10**6, 10**9
H, H_KV, D, E = 28, 4, 128, 2                   # Qwen2.5-7B: query heads, KV heads, head dimension; bf16
LAYERS, HIDDEN, FFN = 28, 3584, 18944
RTX_4090 = {"flops": 165.2e12, "bytes": 1008e9}  # NVIDIA's Ada whitepaper: dense bf16 with fp32 accumulation, memory bandwidth
H200 = {"flops": 989e12, "bytes": 4.8e12}
H200_NVLINK = 900e9 / 2                         # bytes/s each way; the data sheet gives both directions together
PCIE_4 = 16e9 * 16 * 128 / 130 / 8              # bytes/s each way: 16 GT/s, 16 lanes, 128b/130b coding


def products(S, heads=H):
    """FLOPs of q kᵀ and p v, without a mask."""
    return 4 * heads * S * S * D


def square(S, heads=H):
    """Bytes of one S × S matrix in bf16."""
    return heads * S * S * E


def rows(S, heads=H):
    """Bytes of one of q, k, v, o in bf16."""
    return heads * S * D * E


def inputs_and_output(S, kv_heads=H):
    return 2 * rows(S) + 2 * rows(S, kv_heads)


def kv_cache(tokens):
    """Bytes of k and v of one layer in bf16, whatever sequences the tokens belong to."""
    return 2 * rows(tokens, H_KV)


def naive_traffic(S, kv_heads=H, round_trips=2):
    """Bytes that Algorithm 0 moves: every round trip writes and reads one S × S matrix."""
    return 2 * round_trips * square(S) + inputs_and_output(S, kv_heads)


def flash_traffic(S, Br=128):
    """Bytes that the kernel asks for: k and v once for each tile of q."""
    return 2 * rows(S) + 2 * rows(S) * math.ceil(S / Br)


def naive_memory(S):
    return 2 * square(S) + inputs_and_output(S)


def intensity(S_q, S_kv, kv_heads=H_KV):
    """FLOPs over the bytes of q, k, v, o, each moved once."""
    return 4 * H * S_q * S_kv * D / (2 * rows(S_q) + 2 * rows(S_kv, kv_heads))


def streamed(M):
    """Numbers that flash moves in the second table of io_counter.py, with a fast memory of M numbers."""
    return sum(io_counter.flash_traffic(2048, 32, io_counter.tallest_tile(M, 32, 8), 8))


LINEAR = 2 * (2 * HIDDEN * H * D + 2 * HIDDEN * H_KV * D + 3 * HIDDEN * FFN)     # FLOPs per token and layer


def causal_attention(S):
    """FLOPs per token of causal attention over S tokens, on average."""
    return 4 * H * D * S / 2


def share(S):
    return causal_attention(S) / (causal_attention(S) + LINEAR)


def twice_rounded(s):
    """The most that a score just below s is off when the product and then its quotient by √d are rounded to bf16, whose numbers have 8 bits."""
    half_step = lambda x: 2.0 ** (math.ceil(math.log2(x)) - 9)  # noqa: E731  just below x
    return half_step(s * math.sqrt(D)) / math.sqrt(D) + half_step(s)


RIDGE_4090 = RTX_4090["flops"] / RTX_4090["bytes"]

FIGURES = [  # (figure as written, expression in its unit, page)
    ("240.5 GFLOP", products(4096) / GB, "lesson"),
    ("67.1 MB", inputs_and_output(4096, H_KV) / MB, "lesson"),
    ("3584", products(4096) / inputs_and_output(4096, H_KV), "lesson"),
    ("0.875", products(4096) / inputs_and_output(4096, H_KV) / 4096, "lesson"),
    ("164", RIDGE_4090, "lesson"),
    ("164", RIDGE_4090, "glossary"),
    ("206", H200["flops"] / H200["bytes"], "lesson"),
    ("206", H200["flops"] / H200["bytes"], "glossary"),
    ("3.76 GB", 4 * square(4096) / GB, "lesson"),
    ("63 FLOP", products(4096) / naive_traffic(4096, H_KV), "lesson"),
    ("3.8 ms", naive_traffic(4096, H_KV) / RTX_4090["bytes"] * 1e3, "lesson"),
    ("1.5 ms", products(4096) / RTX_4090["flops"] * 1e3, "lesson"),
    ("57", naive_traffic(4096, H_KV) / inputs_and_output(4096, H_KV), "lesson"),
    ("16.8 M", 4096**2 / 1e6, "lesson"),
    ("33.6 MB", square(4096, heads=1) / MB, "lesson"),
    ("1.05 MB", rows(4096, heads=1) / MB, "lesson"),
    ("8", square(4096) / inputs_and_output(4096), "lesson"),
    ("32", 4096 / D, "lesson"),
    ("112 MiB", 2 * square(1024) / MIB, "lesson"),
    ("28 MiB", inputs_and_output(1024) / MIB, "lesson"),
    ("1792 MiB", 2 * square(4096) / MIB, "lesson"),
    ("112 MiB", inputs_and_output(4096) / MIB, "lesson"),
    ("28 GiB", 2 * square(16384) / GIB, "lesson"),
    ("448 MiB", inputs_and_output(16384) / MIB, "lesson"),
    ("112 GiB", 2 * square(32768) / GIB, "lesson"),
    ("896 MiB", inputs_and_output(32768) / MIB, "lesson"),
    ("88.7", math.log((2 - 2**-23) * 2.0**127), "lesson"),
    ("709.8", math.log((2 - 2**-52) * 2.0**1023), "lesson"),
    ("11.1", math.log(65504), "lesson"),
    ("448 KiB", 4 * H * 4096 / KIB, "lesson"),
    ("117.4 MB", inputs_and_output(4096) / MB, "lesson"),
    ("1.94 GB", flash_traffic(4096) / GB, "lesson"),
    ("32 KiB", D * D * E / KIB, "lesson"),
    ("16.5", flash_traffic(4096) / inputs_and_output(4096), "lesson"),
    ("62", products(4096) / naive_traffic(4096), "lesson"),
    ("42", products(4096) / naive_traffic(4096, round_trips=3), "lesson"),
    ("64 KiB", 128 * D * 4 / KIB, "lesson"),
    ("16 KiB", 64 * D * E / KIB, "lesson"),
    ("1.6 %", 100 * (math.exp(2**-6) - 1), "lesson"),
    ("3.8 %", 100 * (math.exp(twice_rounded(8)) - 1), "lesson"),
    ("124", products(4096) / flash_traffic(4096), "lesson"),
    ("2048", products(4096) / inputs_and_output(4096), "lesson"),
    ("33", naive_traffic(4096) / inputs_and_output(4096), "lesson"),
    ("49", naive_traffic(4096, round_trips=3) / inputs_and_output(4096), "lesson"),
    ("0.8 %", 100 / (2 * 64), "lesson"),
    ("0.4 %", 100 / (2 * 128), "lesson"),
    ("50 %", 100 / (2 * 1), "lesson"),
    ("8 KiB", 4096 * E / KIB, "lesson"),
    ("7 FLOP", 4 * H * D / (2 * H_KV * D * E), "lesson"),
    ("17", naive_memory(4096) / inputs_and_output(4096), "lesson"),
    ("25400", round(100 * (2 * D + 1) - 2 * D, -2), "lesson"),
    ("43 %", 100 * (1 - inputs_and_output(4096, H_KV) / inputs_and_output(4096)), "lesson"),
    ("56 KiB", LAYERS * 2 * H_KV * D * E / KIB, "lesson"),
    ("56 KiB", LAYERS * 2 * H_KV * D * E / KIB, "glossary"),
    ("1.75 GiB", LAYERS * 2 * H_KV * D * E * 32768 / GIB, "lesson"),
    ("3.5 GiB", H * 2048 * 32768 * E / GIB, "lesson"),
    ("5.9 %", 100 * share(4096), "lesson"),
    ("33.5 %", 100 * share(32768), "lesson"),
    ("1904 MiB", naive_memory(4096) / MIB, "lesson"),
    ("28 MiB", (naive_memory(512) - lab.predicted({**lab.QWEN, "S": 512})[1]) / MIB, "lesson"),
    ("14.0 MiB", naive_memory(256) / MIB, "lesson"),
    ("14.1", lab.predicted({**lab.QWEN, "S": 256})[1] / MIB, "lesson"),
    ("7168 MiB", 2 * square(8192) / MIB, "lesson"),
    ("224 MiB", inputs_and_output(8192) / MIB, "lesson"),
    ("7392 MiB", naive_memory(8192) / MIB, "lesson"),
    ("0.875 MiB", 4 * H * 8192 / MIB, "lesson"),
    ("88.7", math.log((2 - 2**-23) * 2.0**127), "pitfalls"),
    ("11.1", math.log(65504), "pitfalls"),
    ("5 %", 100 * (MIB / MB - 1), "pitfalls"),
    ("7 %", 100 * (GIB / GB - 1), "pitfalls"),
    ("136", 16 * 17 / 2, "pitfalls"),
    ("1.9", 256 / 136, "pitfalls"),
    ("57", naive_traffic(4096, H_KV) / inputs_and_output(4096, H_KV), "pitfalls"),
    ("1.11", 1 + 4 * H * 4096 / (2 * (H + H_KV * 4096) * D), "pitfalls"),
    ("3 %", 100 * (1 / (1 - share(4096) / 2) - 1), "pitfalls"),
    ("1792 MiB", 2 * square(4096) / MIB, "interview"),
    ("28 GiB", 2 * square(16384) / GIB, "interview"),
    ("32", 4096 / D, "interview"),
    ("3584", products(4096) / inputs_and_output(4096, H_KV), "interview"),
    ("1792", products(4096) / 2 / inputs_and_output(4096, H_KV), "interview"),
    ("7", intensity(1, 4096), "interview"),
    ("164", RIDGE_4090, "interview"),
    ("62 FLOP", products(4096) / naive_traffic(4096), "interview"),
    ("42", products(4096) / naive_traffic(4096, round_trips=3), "interview"),
    ("2048", products(4096) / inputs_and_output(4096), "interview"),
    ("6 %", 100 * share(4096), "interview"),
    ("1.03", 1 / (1 - share(4096) / 2), "interview"),
    ("1.2", 1 / (1 - share(32768) / 2), "interview"),
    ("1.94 GB", flash_traffic(4096) / GB, "interview"),
    ("117.4 MB", inputs_and_output(4096) / MB, "interview"),
    ("15000", round(lab.largest_S(24 * GIB, naive_memory), -3), "interview"),
    ("530", lab.largest_S(24 * GIB, naive_memory) - lab.largest_S(24 * GB, naive_memory), "interview"),
    ("3.5 GiB", H * 2048 * 32768 * E / GIB, "interview"),
    ("32 KiB", 16 * H_KV * 2 * D * E / KIB, "vllm"),
    ("904", 5000 - 2 * 2048, "vllm"),
    ("2038", 2048 - 10, "vllm"),
    ("3.5 GiB", H * 2048 * 32768 * E / GIB, "vllm"),
    ("512 FLOP", 4 * D, "versions"),
    ("1.9 T", H200["flops"] / (4 * D) / 1e12, "versions"),          # an H100 has the same tensor cores
    ("1024", 4 * 128 * 128 * D / 8192, "versions"),
    ("1024", 128 * 128 / 16, "versions"),
    ("224 KiB", H * 4096 * E / KIB, "decode"),
    ("7 MiB", H * 131072 * E / MIB, "decode"),
    ("8 MiB", kv_cache(4096) / MIB, "decode"),
    ("256 MiB", kv_cache(131072) / MIB, "decode"),
    ("2.7 %", 100 * (H / H_KV) / (2 * D), "decode"),
    ("206", H200["flops"] / H200["bytes"], "decode"),
    ("97 %", 100 * (1 - H / H_KV / (H200["flops"] / H200["bytes"])), "decode"),
    ("13.1 GB", LAYERS * LINEAR / GB, "decode"),                    # two FLOPs and two bytes a weight
    ("56 KiB", LAYERS * kv_cache(1) / KIB, "decode"),
    ("228000", round(LINEAR / kv_cache(1), -3), "decode"),
    ("67 µs", kv_cache(32768) / RTX_4090["bytes"] * 1e6, "decode"),
    ("1.9 ms", LAYERS * kv_cache(32768) / RTX_4090["bytes"] * 1e3, "decode"),
    ("12.9 ms", LAYERS * LINEAR / RTX_4090["bytes"] * 1e3, "decode"),
    ("4 GiB", kv_cache(16 * 131072) / GIB, "decode"),
    ("8 GiB", kv_cache(64 * 65536) / GIB, "decode"),
    ("15", 1 + 7 + 7, "decode"),
    ("16.4 %", 100 * 6 * H * E / kv_cache(1), "decode"),
    ("85.9 %", 100 / (1 + 6 * H * E / kv_cache(1)), "decode"),
    ("145 GB/s", 4 * H200["bytes"] / 132 / GB, "decode"),
    ("86 %", 100 * 57 * 4 / (2 * 132), "decode"),
    ("128 FLOP", 4 * 128 * D / (2 * D * E), "decode"),
    ("1.7 µs", kv_cache(4096) / H200["bytes"] * 1e6, "decode"),
    ("896 MiB", square(4096) / MIB, "backward"),
    ("448 KiB", 4 * H * 4096 / KIB, "backward"),
    ("24.5 GiB", LAYERS * square(4096) / GIB, "backward"),
    ("12.25 MiB", LAYERS * 4 * H * 4096 / MIB, "backward"),
    ("140 MiB", 5 * rows(4096) / MIB, "backward"),
    ("0.4375 MiB", 4 * H * 4096 / MIB, "backward"),
    ("56 MiB", 2 * rows(4096) / MIB, "backward"),
    ("84 MiB", 3 * rows(4096) / MIB, "backward"),
    ("336.875 MiB", (12 * rows(4096) + 2 * 4 * H * 4096) / MIB, "backward"),
    ("56 MiB", rows(8192) / MIB, "backward"),
    ("3584 MiB", square(8192) / MIB, "backward"),
    ("17 %", 100 * ((2 + 5) / (2 + 4) - 1), "backward"),
    ("2.5", 5 / 2, "backward"),
    ("224 MiB", (math.ceil(132 / H) - 1) * 4 * H * 4096 * D / MIB, "backward"),
    ("164", RIDGE_4090, "roofline"),
    ("206", H200["flops"] / H200["bytes"], "roofline"),
    ("100 GiB", round(2 * square(32768) / GIB, -2), "roofline"),    # 'and more'
    ("42.7", 2 * D / (3 * E), "roofline"),
    ("21.3", 2 * 64 / (3 * E), "roofline"),
    ("64", D / E, "roofline"),
    ("28 MiB", rows(4096) / MIB, "roofline"),
    ("896 MiB", square(4096) / MIB, "roofline"),
    ("56 MiB", square(1024) / MIB, "roofline"),
    ("56 MiB", 2 * rows(4096) / MIB, "roofline"),
    ("8 MiB", 2 * rows(16384, heads=1) / MIB, "roofline"),
    ("56 MiB", 2 * rows(4096) / MIB, "kernel"),
    ("2.5", sum(io_counter.flash_traffic(64, 8, 16, 8)) / (4 * 64 * 8), "roofline"),
    ("26", streamed(2048) / streamed(65536), "roofline"),
    ("1.94 GB", flash_traffic(4096) / GB, "roofline"),
    ("117.4 MB", inputs_and_output(4096) / MB, "roofline"),
    ("112", intensity(128, 128), "roofline"),
    ("448", intensity(512, 512), "roofline"),
    ("3584", intensity(4096, 4096), "roofline"),
    ("9973", intensity(2048, 32768), "roofline"),
    ("35.0", intensity(5, 32768), "roofline"),
    ("6.99", intensity(1, 4096), "roofline"),
    ("1.00", intensity(1, 4096, kv_heads=H), "roofline"),
    ("236", math.ceil(H200["flops"] / H200["bytes"] / (7 / 8)), "roofline"),
    ("2048", intensity(4096, 4096, kv_heads=H), "roofline"),
    ("512", 4 * D, "roofline"),
    ("1997", 4 * D * 3.9, "roofline"),
    ("571", 1 / (1 / 800 + 1 / (4 * D * 3.9)), "roofline"),
    ("112", 512 / 128 * H, "roofline"),
    ("25 %", 100 / (512 / 128), "roofline"),
    ("3 %", 100 / (4096 / 128), "roofline"),
    ("0.038", twice_rounded(8), "measured"),
    ("3.8 %", 100 * (math.exp(twice_rounded(8)) - 1), "measured"),
    ("75 %", ring.work_pct(524288, 2, 1, (True, "contiguous")), "ring"),
    ("1.33", 100 / ring.work_pct(524288, 2, 1, (True, "contiguous")), "ring"),
    ("512 MiB", ring.pass_bytes(1, H_KV, 524288, D, 2) / MIB, "ring"),
    ("53 %", 100 * ring.ring_bytes(1, H, H_KV, 131072, D, 4) / ring.one_gpu_bytes(1, H, H_KV, 131072, D), "ring"),
    ("9", ring.largest_S(139.8 * GIB, lambda S: ring.one_gpu_bytes(1, H, H_KV, S, D)) / 1e6, "ring"),
    ("28", products(ring.largest_S(139.8 * GIB, lambda S: ring.one_gpu_bytes(1, H, H_KV, S, D))) / 2 / 350e12 / 60, "ring"),
    ("450", H200_NVLINK / GB, "ring"),
    ("450", H200_NVLINK / GB, "glossary"),
    ("50", 400 / 8, "ring"),
    ("12.5", 100 / 8, "ring"),
    ("31.5", PCIE_4 / GB, "ring"),
    *((str(ring.least_shard(flops, link, group, causal)), math.ceil((1 + causal) * flops / group / link), "ring")
      for flops, link in ((350e12, H200_NVLINK), (350e12, 50e9), (350e12, 12.5e9), (165.2e12, 31.5e9)) for group, causal in ((7, False), (7, True), (1, False))),
    ("23.4 %", ring.work_pct(131072, 8, 7, (True, "contiguous")), "ring"),
    ("12.5 %", 100 / 8, "ring"),
    ("0.234", ring.work_pct(131072, 8, 7, (True, "contiguous")) / 100, "ring"),
    ("4.3", 100 / ring.work_pct(131072, 8, 7, (True, "contiguous")), "ring"),
    ("13.1 GB", LAYERS * LINEAR / GB, "serving"),
    ("12.2 GiB", LAYERS * LINEAR / GIB, "serving"),
    ("6.8 %", 100 * masks.share_left("flex", "window", 16384), "serving"),
    ("3000", 1000 * round(2 * ring.least_shard(165.2e12, 31.5e9, 7, True) / 1000), "ring"),
]


MYRIADS = {"万": (1e-2, "M"), "亿": (1e2, "M"), "万亿": (1, "T")}


def spaced(text):
    """A page with plain blanks, and one before each per cent sign: Chinese pages have none there. Their 1680 万 is read as the 16.8 M of the English ones."""
    text = re.sub(r"(?<=[\d}])%", " %", re.sub(r"[\u00a0\u202f]|&nbsp;", " ", text))
    return re.sub(r"(\d+(?:\.\d+)?) ?(万亿|万|亿)", lambda m: f"{float(m[1]) * MYRIADS[m[2]][0]:.4g} {MYRIADS[m[2]][1]}", text)


def test_chinese_numbers_are_read_as_the_english_ones():
    assert spaced("1680 万个、4.7 亿个，3.9 万亿次，占 67%") == "16.8 M个、470 M个，3.9 T次，占 67 %"


@pytest.mark.parametrize("figure, value, page", FIGURES, ids=[f"{page}: {figure}" for figure, _, page in FIGURES])
def test_figure_is_the_value_of_its_expression(figure, value, page):
    number = re.match(r"[\d.]+", figure)[0]
    decimals = len(number.partition(".")[2])
    assert abs(value - float(number)) <= 0.5000001 * 10**-decimals, f"{page}: '{figure}' is typed, its expression gives {value:.6g}"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("figure, value, page", FIGURES, ids=[f"{page}: {figure}" for figure, _, page in FIGURES])
def test_figure_stands_on_the_page(figure, value, page, lang):
    path = DOCS / lang / f"{page}.md"
    text = spaced(path.read_text(encoding="utf-8"))
    assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d]|\.\d)", text), (
        f"'{figure}' does not stand on docs/{lang}/{page}.md: correct the page, or this table if the figure is gone from both languages"
    )


QUOTED = {  # from a data sheet, a paper or PyTorch's rules; test_vllm_page and test_claims hold those that need more
    "data sheets": {"4.8 TB/s", "1008 GB/s", "989 TFLOP/s", "165.2 TFLOP/s", "330 TFLOP/s"},
    "papers, whose place the page names": {"106.6 µs", "2664 µs", "4592 µs", "740 TFLOP/s", "1613 TFLOP/s", "570 TFLOP/s", "661 TFLOP/s", "840 TFLOP/s"},
    "speeds that a bound on paper takes, in docs/*/ring.md": {"350 TFLOP/s", "900 GB/s"},
    "the method, in docs/*/measured.md": {"0.06 ms", "0.1 ms", "10 ms", "100 ms"},
    "the ceiling of matmul, rounded up; test_claims": {"800 TFLOP/s"},
}


@pytest.mark.parametrize("path", sorted(DOCS.glob("[ez][nh]/*.md")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_typed_time_or_rate_is_recomputed_or_quoted(path):
    """Measured times and rates come from placeholders: a typed one is arithmetic (FIGURES) or somebody else's (QUOTED)."""
    text = re.sub(r"(?ms)^\s*(`{3,})[^\n]*\n.*?^\s*\1\s*$|\{\{.*?\}\}", "", re.sub(r"[\u00a0\u202f]|&nbsp;", " ", path.read_text(encoding="utf-8")))
    known = {figure for figure, _, page in FIGURES if page == path.stem}.union(*QUOTED.values())
    for figure in re.findall(r"(?<![\w.])\d[\d,.]* ?(?:ms|µs|GB/s|TB/s|TFLOP/s)(?![A-Za-z/])", text):
        number = re.match(r"[\d,.]+", figure)[0]
        assert figure in known or number in {f for f, _, page in FIGURES if page == path.stem}, (
            f"'{figure}' is typed: take it from a result with a placeholder, or add it to FIGURES or QUOTED")
