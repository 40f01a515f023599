"""The errors: what is exact, and how far off a result is."""

import math


def reference(q, k, v, causal):
    """Attention in fp64, written without anything that naive() or flash() uses: grouped einsum and logsumexp."""
    import torch

    B, H, S, d = q.shape
    q, k, v = q.double().reshape(B, k.shape[1], -1, S, d), k.double(), v.double()      # q [B, H_kv, G, S, d]
    s = torch.einsum("bhgid,bhjd->bhgij", q, k) * d**-0.5                              # [B, H_kv, G, S, S]
    if causal:
        at = torch.arange(S, device=q.device)
        s = torch.where(at[None, :] > at[:, None], -torch.inf, s)
    p = torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True))                        # [B, H_kv, G, S, S]
    return torch.einsum("bhgij,bhjd->bhgid", p, v).reshape(B, H, S, d)                 # [B, H, S, d]


def relative_difference(a, b, rows=1024):
    """|a - b| / |b| in the Frobenius norm, for [B, H, S, d], a few rows at a time to need no memory of note."""
    off = norm = 0.0
    for i in range(0, a.shape[2], rows):
        x, y = a[:, :, i : i + rows].float(), b[:, :, i : i + rows].float()
        off, norm = off + (x - y).square().sum().item(), norm + y.square().sum().item()
    return math.sqrt(off / norm)
