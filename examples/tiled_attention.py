"""The forward pass of FlashAttention-2 in plain PyTorch, on a CPU or a GPU: the algorithm, not its speed.

A tile of queries stays; tiles of keys and values pass by; three running values (m, l, o) are kept for each query.
No tensor of S x S elements is ever made. The matmuls of a tile are PyTorch's, and each one goes through device memory,
so this file shows which numbers meet when, and the fused kernel is where the time is won.

Source: Dao, "FlashAttention-2" (arXiv 2307.08691), section 3.1, Algorithm 1. Its line 10 prints the rescale of o with
the exponent -1, which its own definitions contradict; here it is e^(m_old - m_new).
Left out: the backward pass, dropout, and rounding p to 16 bits before p @ v, as tensor cores want it.
"""

import math
import sys

try:
    import torch
except ImportError:
    torch = None


def tiled_attention(q, k, v, causal=False, Br=64, Bc=64):
    """softmax(q kᵀ / sqrt(d)) v, tile by tile. Returns (o, lse).

    q [B, H, S_q, d], k [B, H_kv, S_kv, d], v [B, H_kv, S_kv, d_v], one floating dtype and device.
    GQA: H = G·H_kv, and query head h reads KV head h // G; k and v are not copied.
    Br and Bc are the rows and columns of a tile; the last tiles may be smaller.
    causal: query i sees the keys up to i + S_kv - S_q, so that the last query sees every key (bottom-right).
    o [B, H, S_q, d_v] in the dtype of q; lse = m + ln l [B, H, S_q] in float32, or float64 if q is.
    A query that sees no key gives o = 0 and lse = -inf. A hidden v weighs 0, and 0·NaN = NaN: keep it finite.
    Raises ValueError, naming the argument, when shapes, dtypes, devices or tile sizes do not fit (check_input).
    """
    check_input(q, k, v, Br, Bc)
    (B, H, S_q, d), (_, H_kv, S_kv, d_v) = q.shape, v.shape
    o = q.new_empty(B, H, S_q, d_v)
    lse = q.new_empty(B, H, S_q, dtype=accumulator(q))
    for i in range(0, S_q, Br):                                           # outer loop: Q tiles
        rows = min(Br, S_q - i)
        q_i = q[:, :, i : i + rows].reshape(B, H_kv, H // H_kv * rows, d)   # a group's G heads share the KV tile
        keys = visible_keys(i, rows, S_q, S_kv, causal)
        o_i, lse_i = one_q_tile(q_i, k, v, keys, rows, Bc)
        o[:, :, i : i + rows] = o_i.reshape(B, H, rows, d_v)
        lse[:, :, i : i + rows] = lse_i.reshape(B, H, rows)
    return o, lse


def visible_keys(i, rows, S_q, S_kv, causal):
    """How many keys the first and the last row of the Q tile at row i see."""
    if not causal:
        return S_kv, S_kv
    first = i + S_kv - S_q + 1
    return first, first + rows - 1


def one_q_tile(q_i, k, v, keys, rows, Bc):
    """One Q tile against the KV tiles it sees.  # o [B, H_kv, G·rows, d_v], lse [B, H_kv, G·rows, 1]"""
    q_i = q_i.to(accumulator(q_i)) / math.sqrt(q_i.shape[3])
    m = q_i.new_full((*q_i.shape[:3], 1), -math.inf)                      # [B, H_kv, G·rows, 1]
    l = torch.zeros_like(m)                                               # [B, H_kv, G·rows, 1]
    o = q_i.new_zeros(*q_i.shape[:3], v.shape[3])                         # [B, H_kv, G·rows, d_v]
    for j in kv_tiles(keys, Bc):                                          # inner loop: KV tiles
        k_j = k[:, :, j : j + Bc].to(q_i.dtype)                           # [B, H_kv, Bc, d]
        v_j = v[:, :, j : j + Bc].to(q_i.dtype)                           # [B, H_kv, Bc, d_v]
        s = q_i @ k_j.mT                                                  # [B, H_kv, G·rows, Bc]
        if j + k_j.shape[2] > keys[0]:                                    # the tile crosses the diagonal
            s = hide_later_keys(s, j, keys[0], rows)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        m_safe = m_new.masked_fill(m_new == -math.inf, 0)                 # -inf - -inf would be NaN
        p = torch.exp(s - m_safe)                                         # [B, H_kv, G·rows, Bc]
        rescale = torch.exp(m - m_safe)
        l = rescale * l + p.sum(-1, keepdim=True)
        o = rescale * o + p @ v_j
        m = m_new
    return o / l.masked_fill(l == 0, 1), m + torch.log(l)                 # normalised once, at the end


def kv_tiles(keys, Bc):
    """Where the KV tiles start that a Q tile visits: those behind the last key of its last row are skipped."""
    return range(0, keys[1], Bc)


def hide_later_keys(s, j, keys_of_first_row, rows):
    """Scores of the KV tile at column j, with -inf where a row does not see the key: each row sees one key more."""
    row = torch.arange(s.shape[2], device=s.device) % rows                # [G·rows], each head's rows anew
    key = torch.arange(s.shape[3], device=s.device) + j                   # [Bc]
    return s.masked_fill(key >= keys_of_first_row + row[:, None], -math.inf)


def accumulator(x):
    """The dtype of scores, m, l and o while they run: float32, or float64 for float64 inputs."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check_input(q, k, v, Br, Bc):
    """Raise a ValueError that names the argument when q, k, v, Br or Bc do not fit."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"{name} has {x.ndim} dimensions: it must be [B, H, S, d]")
        if not x.is_floating_point() or x.dtype != q.dtype:
            raise ValueError(f"{name} is {x.dtype} and q is {q.dtype}: they must share one floating dtype")
        if x.device != q.device:
            raise ValueError(f"{name} is on {x.device} and q on {q.device}: they must be on one device")
        if x.shape[0] != q.shape[0]:
            raise ValueError(f"{name} has batch B = {x.shape[0]} and q has {q.shape[0]}")
    if k.shape[1] != v.shape[1]:
        raise ValueError(f"k has {k.shape[1]} heads and v has {v.shape[1]}")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0:
        raise ValueError(f"q has H = {q.shape[1]} heads: not a multiple of the H_kv = {k.shape[1]} heads of k")
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"k has S_kv = {k.shape[2]} rows and v has {v.shape[2]}: every key needs its value")
    if k.shape[2] == 0:
        raise ValueError("k is empty: attention needs at least one key")
    if q.shape[3] != k.shape[3] or q.shape[3] == 0:
        raise ValueError(f"q has d = {q.shape[3]} and k has d = {k.shape[3]}: they must be equal and at least 1")
    for name, size in (("Br", Br), ("Bc", Bc)):
        if size < 1:
            raise ValueError(f"{name} = {size}: a tile has at least one row and one column")


def reference(q, k, v, causal):
    """PyTorch's own attention, math path, in float64, K and V copied for each head and the mask written out.

    lse is torch.logsumexp of the whole row of scores. Needs S_q x S_kv elements a head.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(k.shape[2] - q.shape[2])
    with sdpa_kernel(SDPBackend.MATH):
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    s = (q @ k.mT / math.sqrt(q.shape[3])).masked_fill(~seen, -math.inf)
    return o.masked_fill(~seen.any(1)[:, None], 0), torch.logsumexp(s, -1)


def naive_attention(q, k, v):
    """The textbook version in the dtype of q, with all S_q x S_kv scores at once."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.mT / math.sqrt(q.shape[3])                                  # [B, H, S_q, S_kv]
    return torch.softmax(s, -1) @ v


def error(a, b):
    """The largest |a - b| over max(1, |b|); equal infinities differ by 0, and a stray NaN gives NaN."""
    a, b = a.double(), b.double()
    return torch.where(a == b, 0.0, (a - b).abs() / b.abs().clamp(min=1)).max().item()


def random_qkv(S_q, S_kv, H=6, H_kv=2, d=32, d_v=32, B=1, dtype=None, seed=0):
    """Normal q, k, v, drawn on the CPU so that every machine has the same, then moved to the GPU if there is one."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (B, H, S_q, d), (B, H_kv, S_kv, d), (B, H_kv, S_kv, d_v)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return tuple(x.to(device, dtype or torch.float64) for x in draw)


def check(attention=tiled_attention):
    """Raise AssertionError unless attention(q, k, v, causal=, Br=, Bc=) -> (o, lse) is right on every case below."""

    def call(case, *args, **options):
        try:
            return attention(*args, **options)
        except Exception as problem:
            raise AssertionError(f"{case}: {problem!r}") from problem

    def compare(case, q, k, v, causal, Br, Bc):
        o, lse = call(case, q, k, v, causal=causal, Br=Br, Bc=Bc)
        for name, got, expected in zip(("o", "lse"), (o, lse), reference(q, k, v, causal)):
            if not got.shape == expected.shape:
                raise AssertionError(f"{case}: {name} has shape {tuple(got.shape)}")
            if not error(got, expected) < 1e-12:
                raise AssertionError(f"{case}: {name} is off by {error(got, expected):.1e}")

    for S_q, S_kv in ((1, 1), (1, 37), (37, 37), (64, 64), (20, 50), (50, 20)):
        for causal in (False, True):
            for Br, Bc in ((16, 16), (7, 10), (64, 5), (1, 64)):
                case = f"S_q = {S_q}, S_kv = {S_kv}, causal = {causal}, Br = {Br}, Bc = {Bc}"
                compare(case, *random_qkv(S_q, S_kv, d=8, d_v=5, B=2), causal, Br, Bc)

    q, k, v = random_qkv(1, 40, H=1, H_kv=1, d=1)
    ramp = torch.linspace(-1e4, 1e4, 40, dtype=q.dtype, device=q.device).view(1, 1, 40, 1)
    for case, scores in (("rising", ramp), ("falling", -ramp), ("below any finite -inf", torch.full_like(k, -1e30))):
        compare(f"scores {case}", torch.ones_like(q), scores, v, False, 16, 16)

    q, k, v = random_qkv(40, 40)
    k[:, :, 20] = math.nan
    o, lse = call("NaN", q, k, v, causal=True, Br=16, Bc=16)
    before = reference(q[:, :, :20], k[:, :, :20], v[:, :, :20], True)[0]
    if not error(o[:, :, :20], before) < 1e-12:
        raise AssertionError("a NaN behind the mask must not be seen")
    if not (o[:, :, 20:].isnan().all() and lse[:, :, 20:].isnan().all()):
        raise AssertionError("a NaN that takes part must give NaN")

    for dtype in (torch.bfloat16, torch.float16):
        q, k, v = random_qkv(128, 128, dtype=dtype)
        o, lse = call(dtype, q, k, v, causal=False, Br=64, Bc=64)
        exact = reference(q, k, v, False)[0]
        if not o.dtype == dtype:
            raise AssertionError(f"o is {o.dtype}, expected {dtype}")
        if not error(o, exact) <= 2 * error(naive_attention(q, k, v), exact) + 1e-6:
            raise AssertionError(f"{dtype}: worse than twice naive")


def largest_tensor(function, *args):
    """How many elements the largest tensor has that the call makes, seen at every operation PyTorch runs."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Record(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            result = operation(*args, **(kwargs or {}))
            sizes = [x.numel() for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
            self.largest = max(self.largest, *sizes, 0)
            return result

    with Record() as record:
        function(*args)
    return record.largest


def count_tiles(S_q, S_kv, causal, Br=64, Bc=64):
    """How many tiles are visited and how many are skipped, of all that cover S_q x S_kv."""
    starts = range(0, S_q, Br)
    keys = [visible_keys(i, min(Br, S_q - i), S_q, S_kv, causal) for i in starts]
    visited = sum(len(kv_tiles(n, Bc)) for n in keys)
    return visited, len(starts) * math.ceil(S_kv / Bc) - visited


def main():
    if torch is None:
        print("tiled_attention.py needs PyTorch: pip install torch", file=sys.stderr)
        return 2
    print("float64, 6 query heads, 2 KV heads, tiles of 64 x 64, against PyTorch's math path")
    print(" S_q  S_kv  causal  error of o   error of lse  visited  skipped")
    for S_q, S_kv, causal in ((1000, 1000, False), (1000, 1000, True), (200, 1000, True), (1000, 200, True)):
        q, k, v = random_qkv(S_q, S_kv)
        errors = [error(a, b) for a, b in zip(tiled_attention(q, k, v, causal), reference(q, k, v, causal))]
        said = ["below 1e-12" if x < 1e-12 else f"{x:.1e}" for x in errors]
        visited, skipped = count_tiles(S_q, S_kv, causal)
        print(f"{S_q:4}  {S_kv:4}  {causal!s:6}  {said[0]:11}  {said[1]:12}  {visited:7}  {skipped:7}")

    q, k, v = random_qkv(1000, 1000)
    print("\nlargest tensor made at S = 1000, in elements")
    print(f"naive  {largest_tensor(naive_attention, q, k, v):9,}   H x S x S")
    print(f"tiled  {largest_tensor(tiled_attention, q, k, v):9,}   H x S x d, the output")
    check()
    print("\ncheck: bottom-right mask, rows without a key, GQA, NaN, and 16-bit errors within twice those of naive")
    return 0


if __name__ == "__main__":
    sys.exit(main())
