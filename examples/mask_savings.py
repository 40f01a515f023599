"""What did the mask save? The tiles that a mask leaves, counted exactly before anything runs, against the time that is left.

A mask hides pairs of query and key; a kernel can only skip whole tiles of them, and only if it knows of the mask before it loads the tile.
Five masks on one sequence of 16384 (B = 1, 28 heads, 28 KV heads, d = 128, bf16), through the ways that PyTorch has:

    full        every query sees every key
    causal      query i sees the keys 0 … i
    window      causal, and no key farther back than a sixteenth of the sequence
    documents   eight documents of unequal length packed into the sequence; causal within each
    prefix      half of the sequence is a prompt that eight continuations share; each sees it and itself, not the others

    flash, cudnn   scaled_dot_product_attention with is_causal, forced: kernels that know one mask, by construction
    varlen         torch.nn.attention.varlen: documents by their offsets, causal and window by numbers
    flex           FlexAttention, compiled: any mask by a function, skipped by tiles of 128 x 128 that a block mask lists
    sdpa mask      scaled_dot_product_attention with a boolean tensor of S x S: what is hidden is seen only once it is loaded

    python mask_savings.py             a CUDA GPU of compute capability 8.0 or newer, Triton and a C compiler; about 20 s on an H200
    python mask_savings.py --predict   tiles and pairs alone: no GPU, no PyTorch

`predicted_ms` is the time of the same way without a mask times the share of tiles that are left. Building a mask and compiling for it are timed apart.
Sources: FlashAttention-2 (arXiv 2307.08691), section 3.1.1, for causal skipping; Dong et al., "Flex Attention" (arXiv 2412.05496).
Left out: GQA, decode, the backward pass, masks that differ by head.
"""

import collections
import functools
import sys
import time
import warnings

try:
    from kit.backends import only
    from kit.card import ended
    from kit.clock import median_and_spread, timed
    from kit.command import command
    from kit.inputs import inputs
    from kit.kernels import kernels_of, named, shortened
    from kit.memory import outcome, release
    from kit.table import cell
except ModuleNotFoundError:
    sys.exit(print("This is the source, which needs the folder kit beside it. The single file is examples/mask_savings.py of the lesson's site.", file=sys.stderr) or 2)

SHAPE = {"B": 1, "heads": 28, "kv_heads": 28, "S": 16384, "d": 128, "dtype": "bf16"}
MASKS = ("full", "causal", "window", "documents", "prefix")
DOCUMENTS = (4500, 3000, 2884, 2000, 1500, 1000, 900, 600)  # of 16384; other lengths are cut in proportion
TILES = {"flash": (128, 64), "varlen": (128, 64), "flex": (128, 128)}       # Br, Bc of PyTorch's flash at d = 128, and of a block mask
KNOWS = {"flash": ("full", "causal"), "cudnn": ("full", "causal"), "varlen": MASKS[:4], "flex": MASKS, "sdpa mask": MASKS}
CLOCK_S = 0.03                                             # how long a time is sampled


# The masks, twice: as the keys that a query sees, which is what is counted and checked, and as functions for the kernels.

def starts(mask, S):
    """Where the pieces of the sequence begin: documents, or the prompt and its continuations."""
    if mask == "documents":
        ends = [sum(DOCUMENTS[:n]) * S // sum(DOCUMENTS) for n in range(len(DOCUMENTS) + 1)]
        return ends[:-1]
    return [0, *range(S // 2, S, S // 16)] if mask == "prefix" else [0]


def seen(mask, i, S):
    """The keys that query i sees of S, as runs [(first, behind the last)] in order."""
    if mask == "full":
        return [(0, S)]
    if mask == "window":
        return [(max(0, i - S // 16 + 1), i + 1)]
    first = max(start for start in starts(mask, S) if start <= i)
    return [(0, S // 2), (first, i + 1)] if mask == "prefix" and first else [(first, i + 1)]


def pairs(mask, S):
    """How many pairs of query and key the mask leaves."""
    return sum(end - first for i in range(S) for first, end in seen(mask, i, S))


def count_tiles(mask, S, Br, Bc):
    """(tiles that hold a pair to compute, those of them in which every pair is), of ceil(S / Br) * ceil(S / Bc)."""
    some = whole = 0
    for top in range(0, S, Br):
        rows, touched, covered = range(top, min(top + Br, S)), set(), collections.Counter()
        for i in rows:
            for first, end in seen(mask, i, S):
                touched.update(range(first // Bc, -(-end // Bc)))
                covered.update(range(-(-first // Bc), end // Bc))
        some += len(touched)
        whole += sum(count == len(rows) for count in covered.values())
    return some, whole


@functools.cache
def left(way, mask, S):
    """(tiles left, tiles in all, tiles without a hidden pair) of a way; None where nobody outside knows its tiles."""
    if way not in TILES:
        return None
    Br, Bc = TILES[way]
    some, whole = count_tiles(mask, S, Br, Bc)
    return some, -(-S // Br) * -(-S // Bc), whole


def share_left(way, mask, S):
    """The share of its work that a way should have left: by tiles; all of it for a mask that is a tensor; by pairs where the tiles are not ours to know."""
    if way == "sdpa mask":
        return 1.0
    counted = left(way, mask, S)
    return counted[0] / counted[1] if counted else pairs(mask, S) / S**2


def mask_function(mask, S, device="cuda"):
    """mask_mod(b, h, q, k) of FlexAttention: whether query q sees key k."""
    import torch

    piece = torch.zeros(S, dtype=torch.int32, device=device)
    for start in starts(mask, S)[1:]:
        piece[start:] += 1                                 # [S]: the number of the piece in which a position lies
    window, prompt = S // 16, S // 2
    return {
        "full": lambda b, h, q, k: q >= 0,
        "causal": lambda b, h, q, k: q >= k,
        "window": lambda b, h, q, k: (q >= k) & (q - k < window),
        "documents": lambda b, h, q, k: (q >= k) & (piece[q] == piece[k]),
        "prefix": lambda b, h, q, k: (q >= k) & ((piece[q] == piece[k]) | (k < prompt)),
    }[mask]


def predicted_table(S=SHAPE["S"]):
    """The counts as text."""
    out = [f"Counted, not measured: S = {S}", "mask        pairs left, %  tiles of 128 x 64, %  tiles of 128 x 128, %  of them whole, %"]
    for mask in MASKS:
        some, every, whole = left("flex", mask, S)
        out.append(f"{mask:10} {100 * pairs(mask, S) / S**2:14.2f} {100 * share_left('varlen', mask, S):21.2f} {100 * some / every:22.2f} {100 * whole / some:17.1f}")
    return "\n".join(out)


# The ways. Each gives (attention(q, k, v), milliseconds of building what it needs).

def built(make):
    """(make(), the milliseconds that it took)."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begin = time.perf_counter()
    made = make()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return made, 1e3 * (time.perf_counter() - begin)


def forced(way, mask):
    """Attention by a backend that knows the causal mask and no other."""
    import torch.nn.functional as F

    def attention(q, k, v):
        with only(way):
            return F.scaled_dot_product_attention(q, k, v, is_causal=mask == "causal")
    return attention


def by_tensor(mask, S, device="cuda"):
    """(attention under a boolean tensor [S, S], milliseconds of making it)."""
    import torch
    import torch.nn.functional as F

    at = torch.arange(S, device=device)
    visible, ms = built(lambda: mask_function(mask, S, device)(0, 0, at[:, None], at[None, :]).expand(S, S).contiguous())
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=visible), ms


def by_offsets(mask, S, device="cuda"):
    """(attention by varlen_attn, milliseconds of making its offsets). The window counts keys before the query itself."""
    import inspect

    import torch
    from torch.nn.attention.varlen import varlen_attn

    offsets, ms = built(lambda: torch.tensor([*starts(mask, S), S], dtype=torch.int32, device=device))
    longest = max(b - a for a, b in zip([*starts(mask, S), S], [*starts(mask, S)[1:], S]))
    behind = {"full": (-1, -1), "window": (S // 16 - 1, 0)}.get(mask, (-1, 0))
    named = {"window_size": behind} if "window_size" in inspect.signature(varlen_attn).parameters else {"is_causal": mask != "full"}

    def attention(q, k, v):
        q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))                                  # [S, H, d]
        return varlen_attn(q, k, v, offsets, offsets, longest, longest, **named).transpose(0, 1)[None]
    return attention, ms


def by_function(mask, S, device="cuda", compiled=True):
    """(attention by FlexAttention, milliseconds of making the block mask, the block mask). It compiles at its first call."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask, ms = built(lambda: create_block_mask(mask_function(mask, S, device), None, None, S, S, device=device))
    torch._dynamo.reset()                                  # what was compiled for another mask is not found again
    flex = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention
    return lambda q, k, v: flex(q, k, v, block_mask=block_mask), ms, block_mask


def counted(block_mask):
    """Tiles that a block mask lists, some of whose pairs are hidden or none."""
    full = block_mask.full_kv_num_blocks
    return int(block_mask.kv_num_blocks.sum()) + (0 if full is None else int(full.sum()))


def way_of(way, mask, S, device="cuda", compiled=True):
    """(attention, milliseconds of building, block mask or None)."""
    if way == "flex":
        return by_function(mask, S, device, compiled)
    if way in ("varlen", "sdpa mask"):
        return *(by_offsets if way == "varlen" else by_tensor)(mask, S, device), None
    return forced(way, mask), 0.0, None


# The check: same numbers first.

def truth(q, k, v, mask):
    """Attention in fp64 under a mask that is made of seen(), query by query."""
    import torch

    S = q.shape[2]
    hidden = torch.ones(S, S, dtype=torch.bool)
    for i in range(S):
        for first, end in seen(mask, i, S):
            hidden[i, first:end] = False
    s = torch.einsum("bhid,bhjd->bhij", q.double(), k.double()) * q.shape[3] ** -0.5
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(s.masked_fill(hidden.to(q.device), -torch.inf), -1), v.double())


def check(attention=None, device=None):
    """Raises AssertionError unless every way computes attention under every mask that it knows: |way16 - ref64| <= 0.03, S = 512.

    attention(q, k, v, mask) is checked alone if given. A query under the smallest of the masks sees 32 keys, so a key too many or too few is far above that.
    On a CPU FlexAttention is not compiled, and what needs a GPU is left out.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = torch.device(device).type == "cuda"
    S = 512
    q, k, v = inputs({**SHAPE, "heads": 2, "kv_heads": 2, "S": S}, device)
    for mask in MASKS:
        ref = truth(q, k, v, mask)
        for way in ("attention",) if attention else KNOWS if on_gpu else ("flex", "sdpa mask"):
            if attention or mask in KNOWS[way]:
                call = functools.partial(attention, mask=mask) if attention else way_of(way, mask, S, device, False)[0]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")        # FlexAttention says that it is not compiled
                    status, o = outcome(call, q, k, v)
                if status == "refused" and not attention:
                    continue
                off = (o.double() - ref).abs().max().item() if status == "ok" else status
                if status != "ok" or not off <= 0.03:
                    raise AssertionError(f"{way} is not attention under the mask {mask}: off by {off}")


# The measurement.

def mask_row(way, mask, full_ms, shape):
    """A row: one way under one mask. full_ms: what it takes without a mask, None where this is it."""
    S, pairs_left = shape["S"], pairs(mask, shape["S"])
    release()
    q, k, v = inputs(shape)
    tiles_left, tiles_all, tiles_whole = left(way, mask, S) or (None, None, None)
    row = {"part": "mask", "impl": way, "mask": mask, **shape, "pairs_left_pct": 100 * pairs_left / S**2, "tiles_left": tiles_left, "tiles_all": tiles_all,
           "tiles_left_pct": 100 * tiles_left / tiles_all if tiles_left else None, "tiles_whole": tiles_whole, "share_left_pct": 100 * share_left(way, mask, S),
           "predicted_ms": full_ms and full_ms * share_left(way, mask, S)}
    status, found = outcome(measured, way, mask, q, k, v)
    times, extra, kernels = found or ({"ms": None, "p10_ms": None, "p90_ms": None, "samples": 0}, {"build_ms": None, "first_ms": None, "tiles_counted": None}, [])
    ms = times["ms"]
    return {**row, **times, **extra, "of_full_pct": 100 * ms / full_ms if ms and full_ms else 100.0 if ms else None,
            "over_predicted": ms / row["predicted_ms"] if ms and row["predicted_ms"] else None,
            "useful_tflops": 4 * shape["heads"] * pairs_left * shape["d"] / ms / 1e9 if ms else None, **named(kernels), "status": status}


def measured(way, mask, q, k, v):
    """(times, what it took to build and to call first, tiles of the block mask; kernels)."""
    attention, build_ms, block_mask = way_of(way, mask, q.shape[2], q.device)
    _, first_ms = built(lambda: attention(q, k, v))
    call = functools.partial(attention, q, k, v)
    times = median_and_spread(timed([call], CLOCK_S))
    return times, {"build_ms": build_ms, "first_ms": first_ms, "tiles_counted": block_mask and counted(block_mask)}, kernels_of(call)[0]


def measure():
    """Yields one flat dict a row: every way under every mask that it knows."""
    for way, masks in KNOWS.items():
        full_ms = None
        for mask in masks:
            row = mask_row(way, mask, full_ms, SHAPE)
            full_ms = full_ms or row["ms"]
            yield row


# Rows, values and text.

def values(rows):
    """The price of generality, and what the prediction missed, as one flat dict; None where nothing was measured."""
    ms = {(row["impl"], row["mask"]): row["ms"] for row in rows}
    offs = [abs(row["over_predicted"] - 1) for row in rows if row["over_predicted"]]

    def over(mask, a, b):
        return ms[a, mask] / ms[b, mask] if ms.get((a, mask)) and ms.get((b, mask)) else None

    found = {f"{way.replace(' ', '_')}_over_{other}_{mask}": over(mask, way, other) for mask in MASKS for way, other in (("flex", "varlen"), ("flex", "cudnn"), ("varlen", "flash"), ("sdpa mask", "flex"))}
    return {**{name: value for name, value in found.items() if value}, "off_most_pct": 100 * max(offs) if offs else None,
            "tiles_miscounted": sum(row["tiles_counted"] != row["tiles_left"] for row in rows if row["tiles_counted"] is not None) if rows else None}


def header(part):
    """The lines above the first row."""
    return ("One sequence of 16384, 28 heads, d = 128, bf16. Times in ms; building and the first call (with compiling) happen once a mask\n"
            "way        mask       pairs, %  tiles, %  counted     build     first  predicted        ms       p10       p90  of full, %  / predicted  useful TFLOP/s  status   kernel")


def line(row):
    """A row as text."""
    return (f"{row['impl']:10} {row['mask']:10} {row['pairs_left_pct']:7.2f} {cell(row['tiles_left_pct'], 9, 2)} {cell(row['tiles_counted'], 8, 0)} {cell(row['build_ms'], 9, 2)} {cell(row['first_ms'], 9, 1)} "
            f"{cell(row['predicted_ms'], 10, 3)} {cell(row['ms'], 9, 3)} {cell(row['p10_ms'], 9, 3)} {cell(row['p90_ms'], 9, 3)} {cell(row['of_full_pct'], 11)} {cell(row['over_predicted'], 12, 2)} "
            f"{cell(row['useful_tflops'], 15)}  {row['status']:7}  {shortened(row['kernel'])[:60]}")


def footer(found):
    """What values() found, as lines."""
    said = [f"{name}: {value:.2f}" for name, value in found.items() if "_over_" in name]
    if found["tiles_miscounted"] is not None:
        said.append(f"block masks whose tiles were counted otherwise than predicted: {found['tiles_miscounted']}")
    return "\n" + "\n".join(said)


def main(argv=None):
    return command(argv, __doc__, check, "every way agrees with fp64 attention under every mask\n", measure, header, line, values, footer, predicted_table)


if __name__ == "__main__":
    sys.exit(ended(main))
