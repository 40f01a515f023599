"""What the pages say about PyTorch's scaled_dot_product_attention and a CPU can show, each sentence with the test that protects it.

The sentences hold for the torch that stands in TORCH. An upgrade that changes one of them turns its test red: then
change the sentence on the pages, not the test alone. What only a GPU can show is in the result of the lab
sdpa_dispatch and names the torch that measured it.
"""
import math
import re
import warnings

import pytest
import torch
from support import TOP
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import TorchDispatchMode

TORCH = "2.13.0"


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def qkv(S_q=4, S_kv=6, H=2, H_kv=2, d=8, d_v=8, dtype=torch.float64):
    return (torch.randn(1, H, S_q, d, dtype=dtype), torch.randn(1, H_kv, S_kv, d, dtype=dtype), torch.randn(1, H_kv, S_kv, d_v, dtype=dtype))


def by_hand(q, k, v, bias=0.0):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[3]) + bias, -1) @ v


def visible(seen):
    """The bias of a boolean table of what each query sees."""
    return torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -math.inf)


def forced(backend, q, k, v, **options):
    with sdpa_kernel(backend):
        return sdpa(q, k, v, **options)


def refused(backend, q, k, v, **options):
    """The reasons that forcing a backend gives, as warnings, before it raises 'No available kernel'."""
    with warnings.catch_warnings(record=True) as caught, pytest.raises(RuntimeError, match="No available kernel"):
        warnings.simplefilter("always")
        forced(backend, q, k, v, **options)
    return " ".join(str(w.message) for w in caught)


class Operations(TorchDispatchMode):
    """The operators that run, and the tensors that they make."""
    def __init__(self):
        super().__init__()
        self.names, self.made = [], []   # made: (operator, tensor)

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        result = operator(*arguments, **(options or {}))
        name = operator.overloadpacket.__name__
        self.names.append(name)
        self.made += [(name, x) for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        return result


def test_these_sentences_are_about_the_torch_that_is_installed():
    assert torch.__version__.partition("+")[0] == TORCH, "read each sentence here again with the installed torch, and the pages that print it; then set TORCH"
    assert f'"torch=={TORCH}"' in (TOP / "pyproject.toml").read_text("utf-8")


# Scale and masks.


def test_scale_before_mask():
    """The scores are divided by √d unless `scale` is given, and an additive mask is added after that."""
    q, k, v = qkv()
    bias = torch.randn(4, 6, dtype=torch.float64)
    torch.testing.assert_close(sdpa(q, k, v, attn_mask=bias), by_hand(q, k, v, bias))
    torch.testing.assert_close(sdpa(q, k, v, scale=1 / math.sqrt(8)), by_hand(q, k, v))
    assert not torch.allclose(sdpa(q, k, v, scale=1.0), by_hand(q, k, v))


def test_true_takes_part():
    """In a boolean `attn_mask`, `True` means: take part."""
    q, k, v = qkv()
    seen = torch.ones(4, 6, dtype=torch.bool)
    seen[:, 4:] = False
    torch.testing.assert_close(sdpa(q, k, v, attn_mask=seen), by_hand(q, k[:, :, :4], v[:, :, :4]))


def test_multihead_attention_is_inverted():
    """`torch.nn.MultiheadAttention` says it the other way round: in `key_padding_mask`, `True` hides a key."""
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64).eval()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    padding = torch.tensor([[False] * 4 + [True] * 2])
    hidden = layer(x[:, :4], x, x, key_padding_mask=padding)[0]
    torch.testing.assert_close(hidden, layer(x[:, :4], x[:, :4], x[:, :4])[0])


def test_integer_mask_raises():
    """A mask of integers is an error, not a boolean mask."""
    q, k, v = qkv()
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float"):
        sdpa(q, k, v, attn_mask=torch.ones(4, 6, dtype=torch.int64))


def test_fully_masked_row():
    """A row that sees nothing is NaN with a plain softmax, and zeros with SDPA's math and CPU flash kernels."""
    q, k, v = qkv()
    seen = torch.ones(4, 6, dtype=torch.bool)
    seen[2] = False
    assert by_hand(q, k, v, visible(seen))[:, :, 2].isnan().all()
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        for mask in (seen, visible(seen)):
            o = forced(backend, q, k, v, attn_mask=mask)
            assert (o[:, :, 2] == 0).all() and not o.isnan().any()


def test_finite_mask_gives_the_mean():
    """With a large negative number instead of −∞ such a row is the mean of all values, not zeros."""
    q, k, v = qkv(dtype=torch.float32)
    torch.testing.assert_close(sdpa(q, k, v, attn_mask=torch.full((4, 6), -1e30)), v.mean(2, keepdim=True).expand(-1, -1, 4, -1))


def test_dropout_is_always_on():
    """`dropout_p` is applied whenever it is not 0; the function does not know about `eval()`."""
    q, k, v = qkv()
    assert not torch.equal(sdpa(q, k, v, dropout_p=0.5), sdpa(q, k, v, dropout_p=0.5))


# Causal masks.


def test_is_causal_is_top_left():
    """`is_causal` aligns the mask to the top left corner: query i sees keys 0 … i, however many keys there are."""
    q, k, v = qkv()
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        o = forced(backend, q, k, v, is_causal=True)
        torch.testing.assert_close(o, by_hand(q, k, v, visible(torch.ones(4, 6, dtype=torch.bool).tril(0))))
        torch.testing.assert_close(o, sdpa(q, k, v, attn_mask=causal_upper_left(4, 6)))


def test_decode_with_is_causal_sees_key_0_only():
    """So a decode step, S_q = 1 with a cache, sees key 0 only if `is_causal=True` is given."""
    q, k, v = qkv(S_q=1)
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        torch.testing.assert_close(forced(backend, q, k, v, is_causal=True), v[:, :, :1])


def test_causal_lower_right():
    """`causal_lower_right` aligns to the bottom right corner, as a cache needs it; with S_q = 1 it hides nothing."""
    q, k, v = qkv()
    torch.testing.assert_close(sdpa(q, k, v, attn_mask=causal_lower_right(4, 6)), by_hand(q, k, v, visible(torch.ones(4, 6, dtype=torch.bool).tril(2))))
    q = q[:, :, :1]
    torch.testing.assert_close(sdpa(q, k, v, attn_mask=causal_lower_right(1, 6)), by_hand(q, k, v))


def test_square_has_one_alignment():
    """With S_q = S_kv both alignments are the same."""
    q, k, v = qkv(S_q=6)
    torch.testing.assert_close(sdpa(q, k, v, is_causal=True), sdpa(q, k, v, attn_mask=causal_lower_right(6, 6)))


def test_lower_right_with_more_queries_than_keys():
    """With more queries than keys `causal_lower_right` warns of NaN; the rows that see nothing come out as zeros on a CPU."""
    q, k, v = qkv(S_q=6, S_kv=4)
    with pytest.warns(UserWarning, match="will produce NaNs"):
        bias = causal_lower_right(6, 4)
        o = sdpa(q, k, v, attn_mask=bias)
    assert (o[:, :, :2] == 0).all() and not o.isnan().any()


def test_mask_with_is_causal():
    """`attn_mask` together with `is_causal=True` is documented as an error; only the math kernel raises, the CPU flash kernel applies both."""
    assert "assert attn_mask is None" in sdpa.__doc__
    q, k, v = qkv()
    seen = torch.rand(4, 6) > 0.3
    seen[:, 0] = True
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        forced(SDPBackend.MATH, q, k, v, attn_mask=seen, is_causal=True)
    for o in (forced(SDPBackend.FLASH_ATTENTION, q, k, v, attn_mask=seen, is_causal=True), sdpa(q, k, v, attn_mask=seen, is_causal=True)):
        torch.testing.assert_close(o, by_hand(q, k, v, visible(seen.tril(0))))


# Grouped heads.


def test_unequal_heads_need_enable_gqa():
    """Fewer kv heads need `enable_gqa=True`; without it the call raises."""
    q, k, v = qkv(H=4)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(4\) must match the size of tensor b \(2\)"):
        sdpa(q, k, v)
    assert sdpa(q, k, v, enable_gqa=True).shape == (1, 4, 4, 8)


def test_one_kv_head_is_broadcast():
    """One kv head is the exception: without `enable_gqa` it is broadcast, by the math kernel."""
    q, k, v = qkv(H=4, H_kv=1)
    torch.testing.assert_close(sdpa(q, k, v), sdpa(q, k, v, enable_gqa=True))
    with Operations() as run:
        sdpa(q, k, v)
    assert "bmm" in run.names and "_scaled_dot_product_flash_attention_for_cpu" not in run.names


def test_neighbours_share_a_kv_head():
    """Neighbouring query heads share a kv head: `enable_gqa` equals `repeat_interleave` of k and v, not `repeat`."""
    q, k, v = qkv(H=4)
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        o = forced(backend, q, k, v, enable_gqa=True)
        torch.testing.assert_close(o, by_hand(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
        assert not torch.allclose(o, by_hand(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)))


def test_heads_must_divide():
    """With `enable_gqa` the number of query heads must be a multiple of the kv heads."""
    with pytest.raises(RuntimeError, match="must divide the number of heads"):
        sdpa(*qkv(H=3), enable_gqa=True)


# Which kernel.


def test_flash_is_the_default_on_a_cpu():
    """A CPU has a flash kernel too, and it is the default there."""
    q, k, v = qkv()
    with Operations() as run:
        sdpa(q, k, v)
    assert "_scaled_dot_product_flash_attention_for_cpu" in run.names
    assert torch._fused_sdp_choice(q, k, v) == SDPBackend.FLASH_ATTENTION.value


def test_cpu_flash_takes_more_than_cuda_flash():
    """That kernel takes masks, fp32 and head_dim 320, which the CUDA flash kernel refuses: what runs forced on a CPU may raise on a GPU."""
    q, k, v = qkv(d=320, d_v=320, dtype=torch.float32)
    seen = torch.ones(4, 6, dtype=torch.bool).tril(2)
    torch.testing.assert_close(forced(SDPBackend.FLASH_ATTENTION, q, k, v, attn_mask=seen), by_hand(q, k, v, visible(seen).float()))


def test_forced_backend_raises_and_says_why():
    """A forced backend that cannot run raises `No available kernel`, and warnings before it say why."""
    q, k, v = qkv()
    flash = SDPBackend.FLASH_ATTENTION
    assert "same num_heads" in refused(flash, *qkv(H=4))
    assert "same last dimension" in refused(flash, *qkv(d_v=5))
    assert "to be 4 dimensional" in refused(flash, q[0], k[0], v[0])
    assert "last dimension of the input to have stride 1" in refused(flash, q.mT.contiguous().mT, k, v)
    assert "do not support non-zero dropout" in refused(flash, q, k, v, dropout_p=0.5)


def test_fallback_is_silent():
    """Without forcing, each of these calls is answered all the same, by the math kernel and in silence."""
    q, k, v = qkv()
    for call in (qkv(d_v=5), (q[0], k[0], v[0]), (q.mT.contiguous().mT, k, v)):
        with warnings.catch_warnings(), Operations() as run:
            warnings.simplefilter("error")
            sdpa(*call)
        assert "_scaled_dot_product_flash_attention_for_cpu" not in run.names and "bmm" in run.names


def test_no_other_kernels_on_a_cpu():
    """The memory-efficient and cuDNN kernels do not exist on a CPU: forcing one raises `No viable backend`."""
    for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with pytest.raises(RuntimeError, match="No viable backend"):
            forced(backend, *qkv())


def test_static_order():
    """The static order of preference is flash, memory-efficient, math, cuDNN, overrideable; a CUDA build may put cuDNN first at run time."""
    order = [SDPBackend(n).name for n in torch._C._get_sdp_priority_order()]
    if torch.version.cuda is None:
        assert order == ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "CUDNN_ATTENTION", "OVERRIDEABLE"]
    assert [name for name in order if name != "CUDNN_ATTENTION"] == ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH", "OVERRIDEABLE"]


def test_math_makes_the_matrix_in_fp32():
    """For bf16 the math kernel computes in fp32 and makes the whole S×S matrix; the flash kernel makes no tensor of that size."""
    S = 64
    q, k, v = qkv(S, S, dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.MATH), Operations() as run:
        sdpa(q, k, v)
    matrices = {name: x.dtype for name, x in run.made if x.shape[-2:] == (S, S)}
    assert matrices["bmm"] == matrices["_safe_softmax"] == torch.float32
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), Operations() as run:
        sdpa(q, k, v)
    assert max(x.numel() for _, x in run.made) == q.numel()


# Measuring.


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_memory_of_no_gpu_is_zero():
    """Without a GPU `torch.cuda.max_memory_allocated()` returns 0 and does not raise: refuse to print it."""
    torch.ones(1000, 1000)
    assert torch.cuda.max_memory_allocated() == 0
