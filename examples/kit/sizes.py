"""Sizes: how PyTorch's flash kernel cuts its work, and arithmetic of formulas."""

import ctypes
import math


def kv_splits(B, heads, S, d, sms):
    """Into how many parts PyTorch's flash kernel cuts K and V, so that a short sequence still fills the GPU.

    The rule of num_splits_heuristic and set_params_splitkv in flash_api.cpp, in its arithmetic (fp32): one part when the
    blocks fill 80 % of the slots; else the smallest number whose last wave is at least 85 % as full as the best one's.
    d is the head dimension after padding.
    """
    blocks = B * heads * -(-S // 64)                       # Q tiles of 64 rows
    tiles = -(-S // (256 if d <= 64 else 128 if d <= 128 else 64))
    return kv_parts(blocks, tiles, sms)


def kv_parts(blocks, tiles, sms):
    """Into how many parts PyTorch's flash kernel cuts the keys, by num_splits_heuristic in flash_api.cpp, in its arithmetic.

    blocks  Q tiles of 64 rows over all heads and sequences. tiles: KV tiles of 128 keys (d = 128). sms: multiprocessors.
    One part when the blocks fill 80 % of the slots, two a multiprocessor; else the smallest number of parts whose last wave
    is at least 85 % as full as the best one's, of at most 128.
    """
    slots = 2 * sms
    if blocks >= fp32(fp32(0.8) * slots):
        return 1
    fill = {}
    for n in range(1, min(128, slots, tiles) + 1):
        if n == 1 or -(-tiles // n) != -(-tiles // (n - 1)):    # one part more changes nothing: not a choice
            waves = fp32(fp32(blocks * n) / slots)
            fill[n] = fp32(waves / math.ceil(waves))
    return next(n for n, full in fill.items() if full >= 0.85 * max(fill.values()))


def fp32(x):
    """x rounded to fp32."""
    return ctypes.c_float(x).value


def round_up(x, multiple):
    return -(-x // multiple) * multiple


def largest_S(limit, size):
    """The largest S for which size(S) is at most `limit` bytes; size must grow with S."""
    low, high = 0, 1
    while size(high) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= limit else (low, middle)
    return low
