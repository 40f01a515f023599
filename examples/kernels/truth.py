"""What every rung must compute: attention in fp64, the textbook's version beside it, and a check for wrong kernels.

A rung may be twice as far from fp64 as the textbook's version in the same precision, in o and in the natural lse.
"""

import math

import torch


def reference(q, k, v, causal):
    """o and lse in fp64, the mask at the bottom right. A row that sees no key gives o = 0 and lse = -inf."""
    (B, H, S_q, d), S_kv, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    q, k, v = q.double().reshape(B, -1, group, S_q, d), k.double(), v.double()
    s = torch.einsum("bhgid,bhjd->bhgij", q, k) / math.sqrt(d)
    if causal:
        row, col = torch.arange(S_q, device=q.device), torch.arange(S_kv, device=q.device)
        s = torch.where(col[None, :] > row[:, None] + S_kv - S_q, -torch.inf, s)
    lse = torch.logsumexp(s, dim=-1)
    p = torch.exp(s - torch.where(lse == -torch.inf, 0.0, lse)[..., None])
    return torch.einsum("bhgij,bhjd->bhgid", p, v).reshape(B, H, S_q, d), lse.reshape(B, H, S_q)


def naive(q, k, v, causal):
    """o and lse as the textbook writes them, in the precision of q."""
    S_q, S_kv, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    s = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3])
    if causal:
        seen = torch.ones(S_q, S_kv, dtype=torch.bool, device=q.device).tril(S_kv - S_q)
        s = s.masked_fill(~seen, -math.inf)
    return torch.softmax(s, dim=-1).nan_to_num() @ v, torch.logsumexp(s, dim=-1)


def case(S_q, S_kv, d=128, dtype=torch.float16, causal=False, heads=2, kv_heads=1, B=1, spread=1.0, rising=False):
    """Arguments of one call. spread widens the scores; rising lets every score exceed those before, so that m moves."""
    return {"S_q": S_q, "S_kv": S_kv, "d": d, "dtype": dtype, "causal": causal, "heads": heads,
            "kv_heads": kv_heads, "B": B, "spread": spread, "rising": rising}


def tensors(S_q, S_kv, d, dtype, heads, kv_heads, B, spread, rising, causal, device):
    """q, k, v: normal numbers, the same each time for the same case."""
    draw = torch.Generator("cpu").manual_seed(S_q + 2 * S_kv + d)
    q, k, v = (torch.randn(B, h, S, d, generator=draw) for h, S in ((heads, S_q), (kv_heads, S_kv), (kv_heads, S_kv)))
    q *= spread
    if rising:
        q[..., 0], k[..., 0] = 8.0, torch.linspace(-8, 8, S_kv)
    return tuple(x.to(device, dtype).contiguous() for x in (q, k, v))


SMALL = (                                                  # each for a way in which a kernel goes wrong
    case(130, 130, 64, causal=False),                      # an edge: two keys beyond a tile
    case(130, 130, 64, causal=True, heads=1),
    case(70, 200, causal=True),                            # more keys than queries: the mask is at the bottom right
    case(150, 90, 64, causal=True, heads=1),               # rows that see no key
    case(64, 192, 64, heads=1, rising=True),               # the maximum moves in every tile
    case(40, 150, heads=3, spread=12.0),                   # large scores
    case(128, 128, 64, torch.float32, causal=True, heads=1),
)
DECODE = (case(1, 333, heads=14, kv_heads=2), case(1, 64, 64, heads=2, kv_heads=2, B=2),
          case(1, 200, 64, heads=3, rising=True, causal=True))


def check(attention, cases=SMALL, device="cpu"):
    """Raises AssertionError unless attention(q, k, v, causal) gives o and lse of every case."""
    for kind in cases:
        q, k, v = tensors(**kind, device=device)
        o, lse = attention(q, k, v, kind["causal"])
        expected, plain = reference(q, k, v, kind["causal"]), naive(q, k, v, kind["causal"])
        for name, found, exact, rough in zip(("o", "lse"), (o, lse), expected, plain):
            hidden = torch.isinf(exact)
            if not torch.equal(found.double()[hidden], exact[hidden]):
                raise AssertionError(f"{name} of a row that sees no key: {kind}")
            off, allowed = ((x.double()[~hidden] - exact[~hidden]).abs().max().item() for x in (found, rough))
            if not off <= 2 * allowed + 1e-5:
                raise AssertionError(f"{name} is off by {off:.1e}, the textbook's by {allowed:.1e}: {kind}")
