"""examples/tiled_attention.py: equal to PyTorch's math path, never S x S, and its check rejects wrong implementations."""

import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import mutant, one_thread, tells  # noqa: F401

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
OUTPUT = (EXAMPLES / "outputs" / "tiled_attention.txt").read_text(encoding="utf-8")


def run(folder, *flags):
    command = [sys.executable, *flags, "tiled_attention.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_without_torch_one_line_and_exit_2(tmp_path):
    shutil.copy(EXAMPLES / "tiled_attention.py", tmp_path)
    done = run(tmp_path, "-I", "-S")  # -S: no site-packages, so no torch
    assert done.returncode == 2
    assert done.stdout == ""
    assert "PyTorch" in done.stderr and len(done.stderr.splitlines()) == 1


from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import tiled_attention as lesson  # noqa: E402


def oracle(q, k, v, causal):
    """Query by query and head by head in float64, from the list of keys that the query sees; no mask, no -inf."""
    B, H, S_q, d = q.shape
    S_kv, group = k.shape[2], H // k.shape[1]
    o, lse = torch.zeros(B, H, S_q, v.shape[3]).double(), torch.full((B, H, S_q), -math.inf).double()
    for b in range(B):
        for h in range(H):
            for i in range(S_q):
                n = max(0, i + S_kv - S_q + 1) if causal else S_kv
                if n > 0:
                    s = k[b, h // group, :n].double() @ q[b, h, i].double() / d**0.5
                    lse[b, h, i] = s.logsumexp(0)
                    o[b, h, i] = s.softmax(0) @ v[b, h // group, :n].double()
    return o, lse


def qkv(B=1, H=2, H_kv=1, S_q=10, S_kv=10, d=4, d_v=4, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    shapes = (B, H, S_q, d), (B, H_kv, S_kv, d), (B, H_kv, S_kv, d_v)
    return [torch.randn(shape, generator=g, dtype=torch.float64).to(dtype) for shape in shapes]


def assert_same(got, expected, tolerance=1e-12):
    for name, a, b in zip(("o", "lse"), got, expected):
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance, msg=lambda m: f"{name}: {m}")


@settings(max_examples=60, deadline=None)
@given(
    B=st.integers(1, 2), H_kv=st.integers(1, 2), G=st.integers(1, 3), S_q=st.integers(1, 14), S_kv=st.integers(1, 14),
    d=st.integers(1, 5), d_v=st.integers(1, 5), causal=st.booleans(), Br=st.integers(1, 20), Bc=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_equals_the_oracle(B, H_kv, G, S_q, S_kv, d, d_v, causal, Br, Bc, seed):
    q, k, v = qkv(B, G * H_kv, H_kv, S_q, S_kv, d, d_v, seed=seed)
    expected = oracle(q, k, v, causal)
    assert_same(lesson.tiled_attention(q, k, v, causal, Br, Bc), expected)
    assert_same(lesson.reference(q, k, v, causal), expected)


@pytest.mark.parametrize("S_q, S_kv", [(256, 256), (1, 300), (100, 300), (300, 100), (130, 65)])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_sdpa_math_in_float64(S_q, S_kv, causal):
    q, k, v = qkv(2, 14, 2, S_q, S_kv, 64, 64)
    assert_same(lesson.tiled_attention(q, k, v, causal), lesson.reference(q, k, v, causal))


def test_grouped_heads_are_those_of_sdpa():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = qkv(1, 28, 4, 33, 33, 16, 16)
    with sdpa_kernel(SDPBackend.MATH):
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(lesson.tiled_attention(q, k, v, causal=True)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(5))
def test_16_bits_are_within_twice_the_error_of_naive(dtype, seed):
    q, k, v = qkv(1, 7, 1, 200, 200, 128, 128, dtype, seed)
    exact = oracle_once(q, k, v)
    o, lse = lesson.tiled_attention(q, k, v)
    naive = torch.softmax(q @ k.expand_as(q).mT / 128**0.5, -1) @ v.expand_as(q)
    assert o.dtype == dtype and lse.dtype == torch.float32
    assert (o.double() - exact).abs().max() <= 2 * (naive.double() - exact).abs().max() + 1e-6


def oracle_once(q, k, v):
    return torch.softmax(q.double() @ k.double().mT / q.shape[3] ** 0.5, -1) @ v.double()


@pytest.mark.parametrize("dtype, running", [(torch.float32, torch.float32), (torch.float64, torch.float64)])
def test_dtypes(dtype, running):
    o, lse = lesson.tiled_attention(*qkv(dtype=dtype))
    assert o.dtype == dtype and lse.dtype == running


def test_rows_without_a_key_give_zero_and_minus_infinity():
    q, k, v = qkv(S_q=10, S_kv=4)
    o, lse = lesson.tiled_attention(q, k, v, causal=True, Br=4, Bc=3)
    assert (o[:, :, :6] == 0).all() and (lse[:, :, :6] == -math.inf).all()
    assert torch.isfinite(lse[:, :, 6:]).all() and (o[:, :, 6:] != 0).any()


def test_nan_in_nan_out_and_hidden_keys_are_not_seen():
    q, k, v = qkv(S_q=9, S_kv=9)
    k[:, :, 5] = math.nan
    o, lse = lesson.tiled_attention(q, k, v, causal=True, Br=3, Bc=4)
    assert o[:, :, 5:].isnan().all() and lse[:, :, 5:].isnan().all()
    assert o[:, :, :5].isfinite().all()


@pytest.mark.parametrize("big", [1e4, -1e4, -1e30])
def test_scores_of_any_size(big):
    q, k, v = qkv(H=1, S_q=1, S_kv=7, d=1)
    o, lse = lesson.tiled_attention(torch.ones_like(q), torch.full_like(k, big), v, Bc=2)
    torch.testing.assert_close(o[0, 0, 0], v[0, 0].mean(0), rtol=0, atol=1e-14)
    assert abs(lse.item() - (big + math.log(7))) <= 1e-12 * abs(big)


def test_inputs_are_left_alone_and_need_not_be_contiguous():
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in qkv(2, 6, 2, 20, 20))
    before = [x.clone() for x in (q, k, v)]
    got = lesson.tiled_attention(q, k, v, True, 8, 8)
    assert_same(got, oracle(*before, True))
    assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v)))


def test_no_query_gives_an_empty_output():
    o, lse = lesson.tiled_attention(*qkv(S_q=0))
    assert o.shape == (1, 2, 0, 4) and lse.shape == (1, 2, 0)


# Tiles, and the largest tensor.


def tiles_seen(S_q, S_kv, causal, Br, Bc):
    """By brute force: the tiles in which some row sees some key."""
    sees = lambda i, j: not causal or j <= i + S_kv - S_q
    return {(i // Br, j // Bc) for i in range(S_q) for j in range(S_kv) if sees(i, j)}


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.booleans(), st.integers(1, 12), st.integers(1, 12))
def test_just_the_tiles_that_hold_a_visible_key_are_visited(S_q, S_kv, causal, Br, Bc):
    visited, skipped = lesson.count_tiles(S_q, S_kv, causal, Br, Bc)
    assert visited == len(tiles_seen(S_q, S_kv, causal, Br, Bc))
    assert visited + skipped == math.ceil(S_q / Br) * math.ceil(S_kv / Bc)


class Operations(TorchDispatchMode):
    """Every tensor that an operation makes, with the operation's name; views of older tensors left out."""

    def __init__(self, *inputs):
        super().__init__()
        self.known = {x.untyped_storage().data_ptr() for x in inputs}
        self.made, self.alive = [], []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in self.known:
                self.known.add(x.untyped_storage().data_ptr())
                self.alive.append(x)  # kept, so that no address is used twice
                self.made.append((operation.overloadpacket.__name__, x.untyped_storage().nbytes() // x.element_size()))
        return result


def operations(function, q, k, v, **options):
    with Operations(q, k, v) as mode:
        function(q, k, v, **options)
    return mode.made


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_no_tensor_but_the_output_is_larger_than_a_tile(causal, dtype):
    B, H, H_kv, S, d = 1, 14, 2, 512, 8
    q, k, v = qkv(B, H, H_kv, S, S, d, d, dtype)
    sizes = sorted(n for _, n in operations(lesson.tiled_attention, q, k, v, causal=causal, Br=16, Bc=16))
    assert sizes[-2:] == [B * H * S, B * H * S * d]  # lse and o, once each
    assert sizes[-3] <= B * H * 16 * 16  # one tile of scores for all heads: k and v are copied nowhere


def test_the_recorder_sees_the_scores_of_naive():
    q, k, v = qkv(1, 14, 2, 128, 128, 8, 8)
    assert max(n for _, n in operations(lesson.naive_attention, q, k, v)) == 14 * 128 * 128
    assert lesson.largest_tensor(lesson.naive_attention, q, k, v) == 14 * 128 * 128
    assert lesson.largest_tensor(lesson.tiled_attention, q, k, v, True, 16, 16) == 14 * 128 * 8


@pytest.mark.parametrize("causal", [False, True])
def test_work_is_counted_one_maximum_a_tile_two_matmuls_a_tile(causal):
    q, k, v = qkv(1, 6, 2, 50, 70)
    made = [name for name, _ in operations(lesson.tiled_attention, q, k, v, causal=causal, Br=16, Bc=16)]
    visited, _ = lesson.count_tiles(50, 70, causal, 16, 16)
    assert made.count("amax") == made.count("maximum") == visited
    assert made.count("bmm") == made.count("exp") == 2 * visited  # scores and p @ v; p and the rescale
    assert made.count("div") == 2 * math.ceil(50 / 16)  # q / sqrt(d), and o / l once a Q tile


# Errors name their argument.

ONE = dict(B=1, H=2, H_kv=2, S_q=3, S_kv=3, d=4, d_v=4)


def changed(**x):
    """q, k, v in which one tensor has been replaced by a function of itself."""
    tensors = dict(zip("qkv", qkv(**ONE)))
    for name, change in x.items():
        tensors[name] = change(tensors[name])
    return tensors


WRONG = {
    "q has 3 dimensions": changed(q=lambda x: x[0]),
    "k has 3 dimensions": changed(k=lambda x: x[0]),
    "v has 5 dimensions": changed(v=lambda x: x[None]),
    "k is torch.float32 and q is torch.float64": changed(k=lambda x: x.float()),
    "v is torch.bfloat16 and q is torch.float64": changed(v=lambda x: x.bfloat16()),
    "q is torch.int64": {name: x.long() for name, x in changed().items()},
    "k is on meta and q on cpu": changed(k=lambda x: x.to("meta")),
    "k has batch B = 2 and q has 1": changed(k=lambda x: x.repeat(2, 1, 1, 1)),
    "v has batch B = 2 and q has 1": changed(v=lambda x: x.repeat(2, 1, 1, 1)),
    "k has 2 heads and v has 1": changed(v=lambda x: x[:, :1]),
    "q has H = 3 heads: not a multiple of the H_kv = 2": changed(q=lambda x: x.repeat(1, 2, 1, 1)[:, :3]),
    "q has H = 2 heads: not a multiple of the H_kv = 0": changed(k=lambda x: x[:, :0], v=lambda x: x[:, :0]),
    "k has S_kv = 3 rows and v has 2": changed(v=lambda x: x[:, :, :2]),
    "k is empty": changed(k=lambda x: x[:, :, :0], v=lambda x: x[:, :, :0]),
    "q has d = 4 and k has d = 3": changed(k=lambda x: x[..., :3]),
    "q has d = 0 and k has d = 0": changed(q=lambda x: x[..., :0], k=lambda x: x[..., :0]),
    "Br = 0": dict(changed(), Br=0),
    "Bc = -1": dict(changed(), Bc=-1),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_input_is_named(message):
    with pytest.raises(ValueError) as error:
        lesson.tiled_attention(**WRONG[message])
    assert tells(error, message), error.value


# check() accepts what is right and rejects what is wrong.


MUTATIONS = {
    "no running maximum": ("torch.maximum(m, s.amax(-1, keepdim=True))", "torch.zeros_like(m)"),
    "maximum of the tile only": ("torch.maximum(m, s.amax(-1, keepdim=True))", "s.amax(-1, keepdim=True)"),
    "maximum not carried": ("        m = m_new\n", ""),
    "maximum 800 too low": ("s.amax(-1, keepdim=True)", "s.amax(-1, keepdim=True) - 800"),
    "rescale with its sign turned": ("torch.exp(m - m_safe)", "torch.exp(m_safe - m)"),
    "l not rescaled": ("l = rescale * l +", "l = l +"),
    "o not rescaled": ("o = rescale * o +", "o = o +"),
    "divided inside the loop": ("        m = m_new\n", "        m = m_new\n        o = o / l.masked_fill(l == 0, 1)\n"),
    "never divided": ("o / l.masked_fill(l == 0, 1), m", "o, m"),
    "hidden row gives NaN": ("o / l.masked_fill(l == 0, 1), m", "o / l, m"),
    "-inf - -inf": ("m_new.masked_fill(m_new == -math.inf, 0)", "m_new"),
    "finite stand-in for -inf, as m": ("1), -math.inf)  ", "1), -1e9)  "),
    "finite stand-in for -inf, as mask": ("row[:, None], -math.inf)", "row[:, None], -1e9)"),
    "NaN taken for a hidden row": ("m = q_i.new_full(", "k = k.nan_to_num(0); m = q_i.new_full("),
    "top-left causal": ("first = i + S_kv - S_q + 1", "first = i + 1"),
    "diagonal one key early": ("first = i + S_kv - S_q + 1", "first = i + S_kv - S_q"),
    "diagonal one key late": ("key >= keys_of_first_row", "key > keys_of_first_row"),
    "causal ignored": ("    if not causal:\n", "    if True:\n"),
    "diagonal tile skipped": ("range(0, keys[1], Bc)", "range(0, keys[1] - Bc + 1, Bc)"),
    "diagonal tile not masked": ("if j + k_j.shape[2] > keys[0]:  ", "if False:  "),
    "first tile skipped": ("range(0, keys[1], Bc)", "range(Bc if keys[1] > Bc else 0, keys[1], Bc)"),
    "stops at the first row's keys": ("range(0, keys[1], Bc)", "range(0, keys[0], Bc)"),
    "mask of the group's first head only": ("device=s.device) % rows  ", "device=s.device)  "),
    "heads interleaved": (
        "q_i = q[:, :, i : i + rows].reshape(B, H_kv, H // H_kv * rows, d)",
        "q_i = q[:, :, i : i + rows].unflatten(1, (-1, H_kv)).transpose(1, 2).reshape(B, H_kv, H // H_kv * rows, d)"),
    "padded tail keys counted": (
        "        m_new = torch",
        "        s = torch.nn.functional.pad(s, (0, Bc - s.shape[3])); v_j = torch.nn.functional.pad(v_j, (0, 0, 0, Bc - v_j.shape[2]))\n"
        "        m_new = torch"),
    "no division by sqrt(d)": (".to(accumulator(q_i)) / math.sqrt(q_i.shape[3])", ".to(accumulator(q_i))"),
    "lse without m": ("m + torch.log(l)  ", "torch.log(l)  "),
    "lse = l": ("m + torch.log(l)  ", "l  "),
    "scores in 16 bits, divided by a rounded l": (
        "else torch.float32", "else torch.float16 if x.dtype == torch.bfloat16 else torch.bfloat16"),
    "float32 for float64": ("return torch.float64 if x.dtype == torch.float64 else torch.float32", "return torch.float32"),
    "o in float32": ("o = q.new_empty(B, H, S_q, d_v)", "o = q.new_empty(B, H, S_q, d_v, dtype=accumulator(q))"),
    "o sized by d": ("o = q.new_empty(B, H, S_q, d_v)", "o = q.new_empty(B, H, S_q, d)"),
}


def test_check_accepts_the_file_and_other_tiles():
    lesson.check()
    lesson.check(lambda q, k, v, causal, Br, Bc: lesson.tiled_attention(q, k, v, causal, 5, 9))


@pytest.mark.parametrize("name", MUTATIONS)
def test_check_rejects(name):
    wrong = mutant("tiled_attention", *MUTATIONS[name])
    with pytest.raises(AssertionError):
        lesson.check(wrong.tiled_attention)


def test_output_is_what_the_file_prints_alone(tmp_path):
    shutil.copy(EXAMPLES / "tiled_attention.py", tmp_path)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == OUTPUT, (
        "the file prints something else: run `python tiled_attention.py > outputs/tiled_attention.txt` in examples/"
    )
