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
