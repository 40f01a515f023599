"""Pitfall: expecting in decode what flash gives in prefill. With S_q = 1 there is no S x S matrix to leave out.

Counted: the bytes that cross to device memory for one layer of Qwen2.5-7B (28 query heads, 4 KV heads, d = 128, bf16)
when everything is read and written once. Naive also writes and reads scores and probabilities. In prefill those are
nearly all its bytes; in decode they are one row a head beside the whole KV cache. Counts, not times: launches and
idle multiprocessors come on top.
"""

H, H_KV, D, E = 28, 4, 128, 2


def wrong(S_q, S_kv):
    """How many times fewer bytes flash moves."""
    return 1 + 2 * H / (H + H_KV) * S_kv / D               # the formula of prefill, whatever S_q is


def right(S_q, S_kv):
    """How many times fewer bytes flash moves."""
    needed = 2 * H * S_q * D * E + 2 * H_KV * S_kv * D * E          # q and o, k and v
    scores = 4 * H * S_q * S_kv * E                                 # scores, probabilities: written and read
    return (needed + scores) / needed


def counted(S_q, S_kv):
    """The same, from a list of all transfers."""
    q, kv, s = H * S_q * D, H_KV * S_kv * D, H * S_q * S_kv
    naive = [q, kv, s] + [s, s] + [s, kv, q]               # three kernels: read and written by each
    flash = [q, kv, kv, q]
    return sum(naive) / sum(flash)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless the two agree in prefill, and in decode `wrong` promises 57 where the count says 1.1."""
    for S_q, S_kv in ((1024, 1024), (4096, 4096), (1, 4096), (1, 131072), (512, 4096)):
        if not abs(right(S_q, S_kv) - counted(S_q, S_kv)) < 1e-12:
            raise AssertionError
    if not abs(wrong(4096, 4096) - right(4096, 4096)) < 1e-9:
        raise AssertionError
    if not (wrong(1, 4096) > 50 and right(1, 4096) < 1.11):
        raise AssertionError


def main():
    check()
    print("           S_q     S_kv     wrong     right")
    for name, S_q, S_kv in (("prefill", 4096, 4096), ("chunk", 512, 4096), ("decode", 1, 4096), ("decode", 1, 131072)):
        print(f"{name:7}  {S_q:5}  {S_kv:7}  {wrong(S_q, S_kv):8.2f}  {right(S_q, S_kv):8.2f}")


if __name__ == "__main__":
    main()
