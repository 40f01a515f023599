"""examples/kernels: every rung computes attention, compiles for three generations without a spill, and wrong kernels are caught."""

import ast
import functools
import importlib
import sys
from pathlib import Path

import pytest
import torch

try:
    import triton  # noqa: F401
except ImportError:
    pytest.skip("Triton has no build for this system: the kernels are neither interpreted nor compiled here", allow_module_level=True)
from kernels import machine, truth

FOLDER = Path(machine.__file__).parent
TRITON = ("unfused", "fused", "diagonal", "descriptors")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")           # NumPy on -inf - -inf, which a mask takes away


@pytest.mark.parametrize("name", TRITON)
def test_rung_computes_attention(name):
    truth.check(machine.interpreted(FOLDER / f"{name}.py").attention)


def test_decode_computes_attention():
    attention = machine.interpreted(FOLDER / "decode.py").attention
    truth.check(attention, truth.DECODE)
    truth.check(functools.partial(attention, parts=3), truth.DECODE)


WRONG = {
    "no rescale": ("fused", "alpha = tl.exp2(m - base)", "alpha = tl.exp2(m - m)"),
    "natural exponential": ("fused", "p = tl.exp2(", "p = tl.exp("),
    "natural scale": ("fused", "LOG2E * d**-0.5", "d**-0.5"),
    "diagonal off by one": ("fused", "<= rows[:, None] + S_kv", "< rows[:, None] + S_kv"),
    "mask at the top left": ("fused", "<= rows[:, None] + S_kv - S_q", "<= rows[:, None]"),
    "stale l": ("fused", "l = l * alpha + tl.sum(p, 1)", "l = l + tl.sum(p, 1)"),
    "no mask at the edge": ("fused", "keep = cols[None, :] < S_kv", "keep = cols[None, :] >= 0"),
    "lse in base 2": ("fused", "(m + tl.log2(l)) / 1.4426950408889634", "(m + tl.log2(l))"),
    "the diagonal without a mask": ("diagonal", "S_q, S_kv, scale, CAUSAL, True,", "S_q, S_kv, scale, CAUSAL, False,"),
    "one full tile too many": ("diagonal", "full = seen_by_all // BC * BC", "full = tl.cdiv(seen_by_all, BC) * BC"),
    "merged without weights": ("decode", "w = tl.exp2(lse_part - m)", "w = tl.exp2(lse_part - lse_part)"),
    "heads of a group in the wrong order": ("decode", "to = (head * group + rows) * parts + at", "to = (head * group + group - 1 - rows) * parts + at"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_kernel_is_caught(what, tmp_path):
    name, right, wrong = WRONG[what]
    source = (FOLDER / f"{name}.py").read_text("utf-8")
    assert right in source
    (tmp_path / f"{name}.py").write_text(source.replace(right, wrong), "utf-8")
    attention = machine.interpreted(tmp_path / f"{name}.py").attention
    with pytest.raises(AssertionError):
        truth.check(attention, truth.DECODE if name == "decode" else truth.SMALL)


@functools.cache
def compiled(name, capability, d=128, causal=True, **choice):
    """Reports of the kernels of one call, compiled once a run."""
    attention = importlib.import_module(f"kernels.{name}").attention
    S = 1 if name == "decode" else 1024
    q, k = torch.zeros(1, 4, S, d, dtype=torch.float16), torch.zeros(1, 2, 1024, d, dtype=torch.float16)
    return machine.compiled(lambda: attention(q, k, k, causal, **choice), capability)


@pytest.mark.parametrize("name", (*TRITON, "decode"))
@pytest.mark.parametrize("capability, unit", [(80, "mma_sync"), (90, "wgmma"), (100, "tcgen05")])
def test_the_same_source_for_three_generations(name, capability, unit):
    if name == "descriptors" and capability == 80:
        pytest.skip("an A100 has no TMA")
    kernels = compiled(name, capability)
    unit = "mma_sync" if name == "decode" else unit        # 16 rows: the tile is too small for the warpgroup's instructions
    assert sum(kernel[unit] for kernel in kernels) > 0
    assert sum(kernel[other] for kernel in kernels for other in ("mma_sync", "wgmma", "tcgen05")) == sum(kernel[unit] for kernel in kernels)
    assert (sum(kernel["tma_loads"] for kernel in kernels) > 0) == (name == "descriptors")


@pytest.mark.parametrize("d, causal", [(128, False), (64, True)])
@pytest.mark.parametrize("name", (*TRITON, "decode"))
def test_nothing_spills(name, d, causal):
    for kernel in compiled(name, 90, d, causal):
        assert (kernel["stack_bytes"], kernel["local"]) == (0, 0)
        assert kernel["registers"] <= 255 and kernel["shared_bytes"] <= 227 * 1024


@pytest.mark.parametrize("name, d", [("partitions", 128), ("pipelined", 128), ("persistent", 128), ("persistent", 64)])
def test_partitions_have_roles(name, d):
    """One producer and two consumers of four warps: registers change hands, tiles come by TMA, nothing spills."""
    kernel, = compiled(name, 90, d)
    assert (kernel["stack_bytes"], kernel["local"], kernel["warps"], kernel["registers"]) == (0, 0, 12, 168)
    assert len(kernel["setmaxnreg"].split(", ")) == 8 and kernel["tma_loads"] >= 4 and kernel["shared_bytes"] <= 227 * 1024
    assert kernel["wgmma"] and not kernel["mma_sync"]


def test_the_flag_does_nothing_with_eight_warps():
    """warp_specialize=True is accepted and changes not one instruction that is counted."""
    tiles = {"BR": 128, "BC": 128, "num_warps": 8, "num_stages": 2}
    assert compiled("descriptors", 90, FLAG=True, **tiles) == compiled("descriptors", 90, FLAG=False, **tiles)
    assert compiled("descriptors", 90, FLAG=True, **tiles)[0]["setmaxnreg"] is None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_rung_is_short(path):
    text = path.read_text("utf-8")
    kernels = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    lines = sum(node.end_lineno - node.lineno + 2 for node in kernels)
    assert lines <= (220 if "gluon" in text else 80)
    assert max(map(len, text.splitlines())) <= 120


SHARED = {"softmax": ("partitions", "pipelined", "persistent"), "described": ("partitions", "pipelined", "persistent"),
          "by_thread": ("pipelined", "persistent"), "span": ("pipelined", "persistent"), "store": ("partitions", "pipelined")}


@pytest.mark.parametrize("function", SHARED)
def test_what_rungs_share_is_equal(function):
    """A rung is whole, so it repeats what it takes over: a repair in one is a repair in all."""
    found = {ast.unparse(node) for rung in SHARED[function] for node in ast.parse((FOLDER / f"{rung}.py").read_text("utf-8")).body
             if isinstance(node, ast.FunctionDef) and node.name == function}
    assert len(found) == 1


BAD = {
    "q": [lambda q, k, v: (q[0], k, v), lambda q, k, v: (q.bfloat16(), k, v), lambda q, k, v: (q[:, :, :0], k, v), lambda q, k, v: (q[..., :32].contiguous(), k, v),
          lambda q, k, v: (q.transpose(1, 2), k, v)],
    "k": [lambda q, k, v: (q, k.float(), v), lambda q, k, v: (q, torch.cat([k, k, k], 1), v), lambda q, k, v: (q, torch.cat([k, k]), v), lambda q, k, v: (q, k.mT, v)],
    "v": [lambda q, k, v: (q, k, v[:, :, :-1].contiguous()), lambda q, k, v: (q, k, None)],
    "causal": [lambda q, k, v: (q, k, v, 1)],
}


@pytest.mark.parametrize("name, bad", [(name, bad) for name, several in BAD.items() for bad in several])
def test_what_no_rung_takes_is_refused_by_name(name, bad):
    q, k, v = torch.zeros(1, 4, 8, 64).half(), torch.zeros(1, 2, 16, 64).half(), torch.zeros(1, 2, 16, 64).half()
    for rung in TRITON:
        with pytest.raises(ValueError, match=rf"^{name} "):
            importlib.import_module(f"kernels.{rung}").attention(*bad(q, k, v))


def test_decode_takes_one_query():
    with pytest.raises(ValueError, match="^q "):
        importlib.import_module("kernels.decode").attention(*(torch.zeros(1, 1, 2, 64).half() for _ in range(3)))


def test_another_triton_or_no_gpu_is_one_line(monkeypatch):
    arguments = importlib.import_module("kernels.arguments")
    assert "\n" not in arguments.cannot_run()
    monkeypatch.setattr(sys.modules["triton"], "__version__", "3.7.0")
    assert "3.7.0" in arguments.cannot_run() and arguments.TRITON in arguments.cannot_run()
