"""Right solutions of count_bytes, each thought of differently."""
from math import prod


def tensor_by_tensor(B, H, H_kv, S_q, S_kv, d, e):
    both = 2 * prod((B, H, S_q, d, e)) + 2 * prod((B, H_kv, S_kv, d, e))
    return [both + 2 * prod((B, H, S_q, S_kv, e)), both + prod((B, H, S_q, 4))]


def for_each_query_and_key(B, H, H_kv, S_q, S_kv, d, e):
    query = 2 * d * e                                   # its rows of q and o
    key = 2 * d * e                                     # its rows of k and v
    flash = B * (H * S_q * (query + 4) + H_kv * S_kv * key)
    return flash + B * H * S_q * (2 * S_kv * e - 4), flash


def by_a_loop_over_sequences(B, H, H_kv, S_q, S_kv, d, e):
    naive = flash = 0
    for _ in range(B):
        rows = e * d * (H * S_q + H_kv * S_kv) << 1
        naive += rows + (H * S_q * S_kv * e << 1)
        flash += rows + (H * S_q << 2)
    return naive, flash


def in_fractions(B, H, H_kv, S_q, S_kv, d, e):
    from fractions import Fraction

    row = Fraction(2 * d * e)
    flash = B * (H * S_q * (row + 4) + H_kv * S_kv * row)
    return int(flash + B * H * S_q * (2 * S_kv * e - 4)), int(flash)


def in_wide_decimals(B, H, H_kv, S_q, S_kv, d, e):
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 200
        held = Decimal(2 * d * e) * B * (Decimal(H) * S_q + Decimal(H_kv) * S_kv)
        return int(held + Decimal(2) * B * H * S_q * S_kv * e), int(held + Decimal(4) * B * H * S_q)


def by_recursion_over_the_batch(B, H, H_kv, S_q, S_kv, d, e):
    if B == 0:
        return 0, 0
    naive, flash = by_recursion_over_the_batch(B - 1, H, H_kv, S_q, S_kv, d, e)
    held = 2 * d * e * (H * S_q + H_kv * S_kv)
    return naive + held + 2 * H * S_q * S_kv * e, flash + held + 4 * H * S_q
