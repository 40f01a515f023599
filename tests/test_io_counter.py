"""examples/io_counter.py: exact results, exact counts, the bound of the fast memory, and the tile model of hbm_traffic.py."""

import ast
import inspect
import math
import shutil
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from support import mutant
from hypothesis import given, settings
from hypothesis import strategies as st

import hbm_traffic
import io_counter as lab
import outputs

EXAMPLES = Path(lab.__file__).resolve().parent
SOURCE = Path(lab.__file__).read_text(encoding="utf-8")
OUTPUT = (EXAMPLES / "outputs" / "io_counter.txt").read_text(encoding="utf-8")
AMPLE = 10**9


def oracle(q, k, v, causal):
    """Attention from the definition in 40 digits, where e^s needs no maximum."""
    o = []
    with localcontext() as context:
        context.prec = 40
        for i, q_i in enumerate(q):
            keys = k[: i + 1] if causal else k
            w = [(sum(Decimal(x) * Decimal(y) for x, y in zip(q_i, k_j)) / Decimal(len(q_i)).sqrt()).exp() for k_j in keys]
            o.append([float(sum(w_j * Decimal(v_j[c]) for w_j, v_j in zip(w, v)) / sum(w)) for c in range(len(v[0]))])
    return o


@pytest.mark.parametrize("stretch", [1, 400])
@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_of_the_file_is_exact(stretch, causal):
    q, k, v = lab.random_head(24, 3)
    q = [[stretch * x for x in row] for row in q]
    assert lab.largest_error(lab.exact_attention(q, k, v, causal), oracle(q, k, v, causal)) < (1e-13 if stretch == 1 else 1e-11)


shapes = given(S=st.integers(1, 20), d=st.integers(1, 4), Br=st.integers(1, 24), Bc=st.integers(1, 24), causal=st.booleans(), seed=st.integers(0, 99))


@settings(max_examples=100, deadline=None)
@shapes
def test_flash_is_exact_counts_exactly_and_fits(S, d, Br, Bc, causal, seed):
    q, k, v = lab.random_head(S, d, seed)
    room = lab.flash_room(d, min(Br, S), min(Bc, S))
    chip = lab.Chip(room)
    o = lab.flash_attention(chip, q, k, v, Br, Bc, causal)
    assert lab.largest_error(o, oracle(q, k, v, causal)) < 1e-12
    assert (chip.loads, chip.stores) == lab.flash_traffic(S, d, Br, Bc, causal) and chip.held == 0
    assert chip.peak == room if not causal else chip.peak <= room
    dry = lab.Chip(room)
    lab.flash_attention(dry, q, k, v, Br, Bc, causal, numbers=False)
    assert (dry.loads, dry.stores, dry.peak) == (chip.loads, chip.stores, chip.peak)


@settings(max_examples=100, deadline=None)
@shapes
def test_algorithm_0_is_exact_and_counts_exactly(S, d, Br, Bc, causal, seed):
    q, k, v = lab.random_head(S, d, seed)
    for divide in (False, True):
        rows, columns = min(Br, S), min(Bc, S)
        room = max(rows * d + columns * d + rows * columns, S)
        chip = lab.Chip(room)
        o = lab.algorithm_0(chip, q, k, v, Br, Bc, causal, divide)
        assert lab.largest_error(o, oracle(q, k, v, causal)) < 1e-12
        assert (chip.loads, chip.stores) == lab.algorithm_0_traffic(S, d, Br, divide) and chip.held == 0 and chip.peak == room


@settings(max_examples=200, deadline=None)
@given(S=st.integers(1, 40), d=st.integers(1, 5), Br=st.integers(1, 50), Bc=st.integers(1, 50), causal=st.booleans())
def test_the_formula_is_what_brute_force_counts(S, d, Br, Bc, causal):
    keys = 0
    for i in range(0, S, Br):
        for j in range(0, S, Bc):
            sees = [not causal or key <= row for row in range(i, min(i + Br, S)) for key in range(j, min(j + Bc, S))]
            keys += min(Bc, S - j) if any(sees) else 0
    assert lab.flash_traffic(S, d, Br, Bc, causal) == (S * d + 2 * keys * d, S * d)
    if not causal:
        assert sum(lab.flash_traffic(S, d, Br, Bc)) == 2 * S * d * math.ceil(S / Br) + 2 * S * d


# Lab 1's kernel: the same numbers from the simulated machine and from the model of hbm_traffic.py.


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("S", hbm_traffic.LENGTHS)
def test_the_tile_of_the_kernel_counts_what_the_model_of_hbm_traffic_says(S, causal):
    tile = hbm_traffic.tile_of("Flash_fwd_kernel_traits<128, 128, 64, 4, false>", 128)
    assert tile == tuple(lab.KERNEL.values())
    q = [[0.0] * 128] * S
    chip = lab.Chip(lab.flash_room(128, *tile))
    lab.flash_attention(chip, q, q, q, *tile, causal, numbers=False)
    assert 28 * 2 * (chip.loads + chip.stores) == hbm_traffic.sm_model(tile, 1, 28, S, 128, causal)


def test_the_same_with_real_numbers_in_a_narrow_head():
    q, k, v = lab.random_head(300, 2)
    for causal in (False, True):
        chip = lab.Chip(lab.flash_room(2, 128, 64))
        o = lab.flash_attention(chip, q, k, v, 128, 64, causal)
        assert lab.largest_error(o, lab.exact_attention(q, k, v, causal)) < 1e-12
        assert 2 * (chip.loads + chip.stores) == hbm_traffic.sm_model((128, 64), 1, 1, 300, 2, causal)


def test_flash_traffic_has_one_text():
    assert inspect.getsource(lab.flash_traffic) == inspect.getsource(hbm_traffic.flash_traffic)


# The shape of the bound: S² d² / M.


def moved(S, d, M, Bc=1):
    Br = min(lab.tallest_tile(M, d, Bc), S)
    return sum(lab.flash_traffic(S, d, Br, Bc))


@pytest.mark.parametrize("d", [16, 32, 64])
@pytest.mark.parametrize("doublings", range(5))
def test_traffic_is_theta_of_s2_d2_over_m(d, doublings):
    S = 256 * d
    M = 4 * d * d * 2**doublings                                       # d² « M « S·d
    assert 4 <= moved(S, d, M) * M / (S * d) ** 2 <= 6.5


def test_twice_the_memory_half_the_traffic_twice_the_length_four_times():
    base = moved(2**14, 64, 2**15)
    assert moved(2**14, 64, 2**16) == pytest.approx(base / 2, rel=0.05)
    assert moved(2**15, 64, 2**15) == pytest.approx(base * 4, rel=0.01)


def test_with_room_for_all_queries_only_the_floor_is_left():
    S, d = 64, 8
    assert sum(lab.flash_traffic(S, d, S, 1)) == 4 * S * d
    assert sum(lab.algorithm_0_traffic(S, d, S)) == 4 * S * d + 4 * S * S


@settings(max_examples=100, deadline=None)
@given(M=st.integers(1, 5000), d=st.integers(1, 32), Bc=st.integers(1, 32))
def test_the_tallest_tile_fits_and_one_row_more_does_not(M, d, Bc):
    try:
        Br = lab.tallest_tile(M, d, Bc)
    except ValueError as error:
        assert lab.flash_room(d, 1, Bc) > M and f"needs {lab.flash_room(d, 1, Bc)}" in str(error)
        return
    assert lab.flash_room(d, Br, Bc) <= M < lab.flash_room(d, Br + 1, Bc)


# What does not fit is an error.


def test_a_tile_larger_than_the_memory_is_refused():
    q, k, v = lab.random_head(16, 4)
    for attention in (lab.flash_attention, lab.algorithm_0):
        with pytest.raises(ValueError, match="holds M = 30 numbers"):
            attention(lab.Chip(30), q, k, v, 8, 8)
    with pytest.raises(ValueError, match=f"holds M = {lab.flash_room(4, 8, 8) - 1} numbers, and {lab.flash_room(4, 8, 8)} "):
        lab.flash_attention(lab.Chip(lab.flash_room(4, 8, 8) - 1), q, k, v, 8, 8)


def test_algorithm_0_needs_a_whole_row_of_scores():
    q, k, v = lab.random_head(20, 1)
    lab.flash_attention(lab.Chip(19), q, k, v, 2, 2)
    with pytest.raises(ValueError, match="holds M = 19 numbers, and 20 "):
        lab.algorithm_0(lab.Chip(19), q, k, v, 2, 2)


# The check accepts what is right and rejects what is wrong.


MUTATIONS = {
    "no running maximum": ("m_new = max(m[0], *s)", "m_new = 0.0"),
    "maximum of the tile only": ("m_new = max(m[0], *s)", "m_new = max(s)"),
    "maximum not carried": ("    m[0] = m_new\n", ""),
    "rescale with its sign turned": ("rescale = exp(m[0] - m_new)", "rescale = exp(m_new - m[0]) if m[0] > -inf else 0.0"),
    "l not rescaled": ("l[0] = rescale * l[0] + sum(p)", "l[0] = l[0] + sum(p)"),
    "o not rescaled": ("    o[:] = [rescale * x for x in o]\n", ""),
    "never divided": ("o_i[:] = [[x / l_row[0] for x in o_row] for o_row, l_row in zip(o_i, l)]", "pass"),
    "no division by sqrt(d)": ("write_scores(s_ij, q_i, k_j, sqrt(d), causal, i, j)", "write_scores(s_ij, q_i, k_j, 1, causal, i, j)"),
    "causal ignored": ("write_scores(s_ij, q_i, k_j, sqrt(d), causal, i, j)", "write_scores(s_ij, q_i, k_j, sqrt(d), False, i, j)"),
    "tiles behind the diagonal visited": ("range(0, i + len(q_i) if causal else S, Bc)", "range(0, S, Bc)"),
    "diagonal tile skipped": ("range(0, i + len(q_i) if causal else S, Bc)", "range(0, max(i, 1) if causal else S, Bc)"),
    "q loaded for each tile of keys": ("            s_ij = chip.make(len(q_i), len(k_j))                       # [Br, Bc], never leaves\n",
                                       "            s_ij = chip.make(len(q_i), len(k_j)); chip.loads += lab_size(q_i)\n"),
    "k and v stay on the chip": ("            chip.free(k_j, v_j, s_ij)\n", "            chip.free(s_ij)\n"),
    "state goes out and in, as in FlashAttention-1": ("            chip.free(k_j, v_j, s_ij)\n", "            chip.free(k_j, v_j, s_ij, o_i); o_i = chip.load(chip.store(o_i))\n"),
    "o stored twice": ("        chip.free(q_i, m, l, o_i)\n", "        chip.store(o_i); chip.free(q_i, m, l, o_i)\n"),
    "never freed": ("        chip.free(q_i, m, l, o_i)\n", "        chip.free(q_i, m, l)\n"),
}


def test_check_accepts_the_file():
    lab.check()


@pytest.mark.parametrize("name", MUTATIONS)
def test_check_rejects(name):
    old, new = MUTATIONS[name]
    wrong = mutant("io_counter", old, new.replace("lab_size", "size"))
    with pytest.raises(AssertionError):
        lab.check(wrong.flash_attention)


def test_what_is_larger_than_the_memory_and_not_counted_is_rejected():
    def whole(chip, q, k, v, Br, Bc, causal):
        """Everything at once: exact, and the counts are made up."""
        o = lab.flash_attention(lab.Chip(AMPLE), q, k, v, len(q), len(k), causal)
        chip.loads, chip.stores = len(q) * len(q[0]) * 3, len(q) * len(q[0])
        return o

    with pytest.raises(AssertionError, match="the formula says"):
        lab.check(whole)


# The program.


def run(folder, *arguments):
    return subprocess.run([sys.executable, "io_counter.py", *arguments], cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=60)


def test_alone_in_a_folder_it_prints_the_captured_output(tmp_path):
    shutil.copy(EXAMPLES / "io_counter.py", tmp_path)
    done = run(tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == OUTPUT, "the file prints something else: run `make outputs`"
    assert OUTPUT.isascii() and max(map(len, OUTPUT.splitlines())) <= 72
    assert outputs.COMMANDS["io_counter.txt"] == ["io_counter.py"]


def test_needs_nothing_but_the_standard_library():
    modules = {name.name for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Import) for name in node.names}
    modules |= {node.module for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.ImportFrom)}
    assert modules <= set(sys.stdlib_module_names)


def test_the_reader_sets_machine_and_tiles():
    done = run(EXAMPLES, "--S", "30", "--d", "4", "--Br", "7", "--Bc", "5", "--M", "200", "--causal")
    assert done.returncode == 0
    flash = next(text for text in done.stdout.splitlines() if text.startswith("flash"))
    loads, stores = lab.flash_traffic(30, 4, 7, 5, True)
    assert [int(x) for x in flash.replace(",", "").split()[1:4]] == [loads, stores, loads + stores]


def test_algorithm_0_may_not_fit_where_flash_does():
    done = run(EXAMPLES, "--S", "300", "--d", "2", "--Br", "8", "--Bc", "8", "--M", "200")
    assert done.returncode == 0 and "algorithm 0           does not fit: 300 numbers at once" in done.stdout


@pytest.mark.parametrize("arguments, said", [
    (["--Br", "64"], "tiles of 64 x 8 with d = 8 take 1792. Take smaller tiles or a larger M."),
    (["--M", "100"], "M = 100 numbers"),
    (["--Bc", "0"], "--Bc is 0: at least 1 is needed"),
    (["--S", "-4"], "--S is -4: at least 1 is needed"),
])
def test_what_does_not_fit_is_said_in_one_line(arguments, said):
    done = run(EXAMPLES, *arguments)
    assert done.returncode == 2 and done.stdout == "" and said in done.stderr and len(done.stderr.splitlines()) == 1
