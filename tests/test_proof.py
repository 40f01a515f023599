"""What every program proves or refuses: instruments that show nothing, shapes that do not fit, checks under python -O, a reader that stops reading."""
import ast
import importlib
import os
import subprocess
import sys
import types

import bundle
import outputs
import pytest
import torch
from support import TOP

import decode_attention
import flash_backward
import flash_vs_naive_memory
import io_counter
import ring_attention
import split_kv
from kit import proof
from ring import formulas

EXAMPLES = TOP / "examples"
PROGRAMS = sorted(path for path in EXAMPLES.rglob("*.py") if "exercises" not in path.parts)


# C3, C4, C5: the instruments.

@pytest.fixture
def card(monkeypatch):
    """A card whose counters, clock and profiler tell the truth, until a test makes one lie."""
    state = types.SimpleNamespace(held=0, moves=1, rate=1.0, names=["gemm_kernel"], now=0.0, used=1e8, reserved=0, copies=[1.0])
    stats = lambda: {f"{kind}_bytes.all.{which}": state.held * state.moves for kind in ("requested", "allocated") for which in ("current", "peak")}

    class Event:
        def __init__(self, enable_timing):
            self.at = None

        def record(self):
            state.now += state.copies[0]
            state.copies.append(state.copies.pop(0))
            self.at = state.now

        def elapsed_time(self, other):
            return (other.at - self.at) * state.rate

    def empty(n, **kind):
        state.held += n
        return torch.ones(1)

    for name, fake in {"memory_stats": stats, "reset_peak_memory_stats": lambda: None, "synchronize": lambda: None, "_sleep": lambda cycles: setattr(state, "now", state.now + 10 * (cycles > 1)), "Event": Event,
                       "mem_get_info": lambda: (1e11 - state.used, 1e11), "memory_reserved": lambda: state.reserved, "empty_cache": lambda: None}.items():
        monkeypatch.setattr(torch.cuda, name, fake, raising=False)
    monkeypatch.setattr(torch, "empty", empty)
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, **kind: ones(*size))
    monkeypatch.setattr(proof, "time", types.SimpleNamespace(perf_counter=lambda: state.now / 1e3))
    monkeypatch.setattr(proof, "which_kernel", lambda call: state.names)
    monkeypatch.setattr(torch.cuda, "device", lambda index: torch.no_grad())
    for name in proof.SWITCHES:
        monkeypatch.delenv(name, raising=False)
    return state


def test_a_card_that_tells_the_truth_is_proved(card):
    assert proof.unproven() is None and proof.company()["idle"] is True


@pytest.mark.parametrize("moves", [0, 2])
@pytest.mark.parametrize("setting", [{}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}])
def test_a_counter_that_does_not_move_by_what_was_allocated_is_one_line(card, monkeypatch, moves, setting):
    card.moves = moves
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    said = proof.unproven()
    assert "memory counter" in said and "\n" not in said and all(f"unset {name}={value}" in said for name, value in setting.items())


@pytest.mark.parametrize("rate", [1000, 1e-3, 0])
def test_a_clock_in_another_unit_is_one_line(card, rate):
    card.rate = rate
    assert "no time can be measured" in proof.unproven()


def test_a_profiler_that_sees_nothing_or_fails_is_one_line(card, monkeypatch):
    card.names = []
    assert "saw no kernel" in proof.unproven()
    monkeypatch.setattr(proof, "which_kernel", lambda call: 1 / 0)
    assert "division by zero" in proof.unproven() and "\n" not in proof.unproven()


def test_a_card_that_others_use_is_a_warning_with_its_evidence(card, capsys):
    card.used = 20 * 2**30
    found = proof.warned(proof.company())
    assert found["idle"] is False and found["others_mib"] == 20 * 2**10 and "20480 MiB" in capsys.readouterr().err
    card.reserved = card.used                                               # our own
    assert proof.company()["idle"] is True
    card.copies = [1.0, 1.0, 3.0]
    found = proof.warned(proof.company())
    assert found["idle"] is False and found["spread_pct"] == pytest.approx(200) and "200 %" in capsys.readouterr().err


# C7: what a function cannot do.

def qkv(S=4, S_kv=None, H=4, H_kv=2, d=8, d_v=None, B=2, B_kv=None):
    S_kv, B_kv = S_kv or S, B_kv or B
    return torch.zeros(B, H, S, d), torch.zeros(B_kv, H_kv, S_kv, d), torch.zeros(B_kv, H_kv, S_kv, d_v or d)


def tiled_backward(q, k, v):
    return flash_backward.tiled_backward(q, k, v, q, q[..., 0], q)


SIDES = {
    "naive": flash_vs_naive_memory.naive, "flash": flash_vs_naive_memory.flash, "sdpa": flash_backward.sdpa, "tiled_forward": flash_backward.tiled_forward, "tiled_backward": tiled_backward,
    "by_hand": lambda q, k, v: decode_attention.by_hand(q, k, v, 1), "grouped": decode_attention.grouped, "flash_part": ring_attention.flash_part,
    "ring_attention": lambda q, k, v: ring_attention.ring_attention(q, k, v, False, "zigzag", ring_attention.Rehearsal(0, [(k, v)])),
}
MISFITS = {"B of k": ({"B_kv": 1}, "k has batch"), "d of v": ({"d_v": 1}, "v is"), "heads": ({"H": 5}, "q has H")}


@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("misfit", MISFITS)
def test_shapes_that_do_not_fit_are_refused_by_name(name, misfit):
    shape, says = MISFITS[misfit]
    with pytest.raises(ValueError, match=says):
        SIDES[name](*qkv(S=1, **shape))


@pytest.mark.parametrize("call", [flash_vs_naive_memory.naive, flash_vs_naive_memory.flash, flash_backward.sdpa, ring_attention.flash_part, flash_backward.tiled_forward])
def test_a_mask_without_a_corner_is_refused(call):
    with pytest.raises(ValueError, match="k has S = 7"):
        call(*qkv(S=4, S_kv=7), True)


@pytest.mark.parametrize("call, says", [
    (lambda: flash_backward.tiled_forward(*qkv(4, 7)), "k has S"), (lambda: tiled_backward(*qkv(4, 7)), "k has S"), (lambda: flash_backward.tiled_forward(*qkv(), Br=0), "Br = 0"),
    (lambda: flash_backward.tiled_backward(*qkv(), *[qkv()[0]] * 3), "lse is"), (lambda: flash_backward.tiled_backward(*qkv(), qkv(S=5)[0], qkv()[0][..., 0], qkv()[0]), "o is"),
    (lambda: flash_backward.tiled_backward(*qkv(), qkv()[0], qkv()[0][..., 0], qkv()[0], Bc=-1), "Bc = -1"),
    (lambda: decode_attention.grouped(*qkv(2, 5)), "q has 2 rows"), (lambda: decode_attention.by_hand(*qkv(1, 6), 0), "parts = 0"), (lambda: decode_attention.by_hand(*qkv(1, 6), 4), "parts = 4"),
    (lambda: ring_attention.ring_attention(*qkv(4, 8), False, "zigzag", None), "k has S"), (lambda: ring_attention.seen(0, 1, 5, True, "zigzag"), "s = 5"), (lambda: ring_attention.seen(0, 1, 4, True, "striped"), "sharding = striped"),
    (lambda: ring_attention.merge_into(qkv()[0], qkv()[0][..., 0], qkv(S=1)[0], qkv()[0][..., 0]), "o_part is"), (lambda: formulas.ring_bytes(1, 28, 4, 10, 128, 4), "P = 4"),
    (lambda: split_kv.partial([1.0], [[1.0, 2.0]], [[1.0]], [0]), "K has rows"), (lambda: split_kv.partial([1.0], [[1.0]], [[1.0]], [-1]), "keys"), (lambda: split_kv.partial([1.0], [[1.0]], [[1.0]], iter([1])), "keys"),
    (lambda: split_kv.merge(([1.0], 0.0), ([1.0, 2.0], 0.0)), "a has d_v = 1"), (lambda: split_kv.merge_tree([]), "parts is empty"), (lambda: split_kv.shared_prefix([[1.0]], [[1.0]] * 2, [[1.0]] * 2, [0], [[0, 1]]), "own"),
    (lambda: split_kv.shared_prefix([[1.0]] * 2, [[1.0]] * 2, [[1.0]] * 2, [0], [[1]]), "own"), (lambda: next(split_kv.ring_steps([[1.0]] * 3, [[1.0]] * 2, [[1.0]] * 2, 2)), "Q has 3"),
    (lambda: io_counter.flash_attention(io_counter.Chip(100), [[1.0]] * 2, [[1.0]] * 3, [[1.0]] * 3, 1, 1), "q has 2 rows"),
], ids=lambda value: value if isinstance(value, str) else "")   # a function's own name holds its address, another one in each process
def test_what_a_function_cannot_do_names_the_argument(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# C6: python -O.

@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.relative_to(EXAMPLES).as_posix())
def test_nothing_rests_on_a_bare_assert(path):
    lines = [node.lineno for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Assert)]
    assert not lines, f"{path.name}: python -O drops lines {lines}: raise AssertionError there"


zeros = lambda q, k, v, *more, **named: torch.zeros_like(q)
WRONG = {
    "online_softmax": lambda q, K, V, block=2: [0.0] * len(V[0]), "split_kv": lambda a, b: a, "rescale_rules": lambda m, s: (max(m, s), 1.0, 1.0), "exp2_polynomial": lambda x: 1.0,
    "io_counter": lambda chip, q, k, v, *more, **named: [[0.0] * len(v[0]) for _ in q], "tiled_attention": lambda q, k, v, **named: (torch.zeros_like(q), torch.zeros_like(q[..., 0])),
    "flash_vs_naive_memory": zeros, "attention_roofline": zeros, "attention_error": zeros, "hbm_traffic": zeros, "decode_attention": zeros, "ring_attention": zeros, "whole_model": zeros, "batch_invariance": zeros, "mask_savings": zeros,
    "flash_backward": lambda q, k, v, *more: tuple(map(torch.zeros_like, (q, k, v))), "sdpa_dispatch": lambda q, k, v, *more, **named: torch.zeros_like(q), "kernel_ladder": lambda q, k, v, *more: (torch.zeros_like(q), torch.zeros_like(q[..., 0])),
}


def test_a_wrong_one_of_each_checked_program_is_known():
    assert set(WRONG) == {path.stem for path in EXAMPLES.glob("*.py") if any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in ast.parse(path.read_bytes()).body)}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_function_is_refused_under_python_O(name):
    """As python -O compiles it: the single file, in which all that checks stands."""
    module = types.ModuleType(name)
    path = EXAMPLES / ("kernels/truth.py" if name == "kernel_ladder" else f"{name}.py")      # what the ladder's check() hands over to
    exec(compile(bundle.bundle(path), path.name, "exec", optimize=1), module.__dict__)
    with pytest.raises(AssertionError):
        module.check(WRONG[name], **({"device": "cpu"} if name == "ring_attention" else {}))


# C9: | head.

@pytest.mark.parametrize("name", outputs.COMMANDS)
def test_a_reader_that_stops_reading_ends_a_program_quietly(name):
    command = " ".join(["exec", sys.executable, *outputs.COMMANDS[name]])
    done = subprocess.run(["bash", "-c", f"({command}) | head -n 1"], cwd=EXAMPLES, capture_output=True, text=True, timeout=120,
                          env={**{key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}, "CUDA_VISIBLE_DEVICES": ""})
    said = [line for line in done.stderr.splitlines() if not line.startswith("USDT:")]   # PyTorch's profiler notes its own start and stop
    assert done.returncode == 0 and not said and done.stdout.count("\n") == 1


def test_a_lab_whose_reader_is_gone_says_nothing(tmp_path):
    """Every row is flushed: the pipe breaks while it measures."""
    (tmp_path / "lab.py").write_text(f"import sys\nsys.path.insert(0, {str(EXAMPLES)!r})\nfrom kit.card import ended\ndef main():\n    while True: print('row', flush=True)\nsys.exit(ended(main))\n")
    done = subprocess.run(["bash", "-c", f"{sys.executable} lab.py | head -n 1; echo ${{PIPESTATUS[0]}}"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "row\n141\n" and done.stderr == ""


@pytest.mark.parametrize("path", [path for path in EXAMPLES.glob("*.py") if "kit." in path.read_text("utf-8")], ids=lambda path: path.stem)
def test_every_lab_ends_that_way(path):
    assert "sys.exit(ended(main))" in path.read_text("utf-8")


# C11: Windows.

def test_a_system_that_tells_no_resident_memory_is_one_line(monkeypatch, capsys):
    lab = importlib.import_module("flash_vs_naive_memory")
    monkeypatch.setattr(lab, "gpu_problem", lambda index=0: "no GPU")
    monkeypatch.setattr(lab, "os", types.SimpleNamespace())
    assert lab.main(["--device", "cpu"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1 and "WSL" in said.err
