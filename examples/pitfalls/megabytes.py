"""Pitfall: dividing by 10^6 and writing MiB, or by 2^20 and writing MB.

MiB is 2^20 bytes and MB is 10^6: 5 % apart; GiB and GB are 7 % apart. A limit taken in one unit and a need in the
other moves the predicted end of memory by hundreds of tokens. PyTorch's messages and nvidia-smi count in MiB and GiB.
"""

H, D, E = 28, 128, 2                                       # 28 heads of q, k and v; bf16


def wrong(count):
    """Bytes in MiB."""
    return count / 10**6


def right(count):
    """Bytes in MiB."""
    return count / 2**20


def naive_bytes(S):
    """Scores and probabilities, q, k, v, o."""
    return 2 * H * S * S * E + 4 * H * S * D * E


def largest_S(in_mib, card_mib=24 * 1024):
    """The longest sequence whose naive attention fits on the card."""
    S = 0
    while in_mib(naive_bytes(S + 1)) <= card_mib:
        S += 1
    return S


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `right` makes 32 MiB of 2^25 bytes, and `wrong` misses the limit by over 300 tokens."""
    if not (right(4096 * 4096 * E) == 32 and abs(wrong(4096 * 4096 * E) - 33.554432) < 1e-9):
        raise AssertionError
    limit = largest_S(right)
    if not naive_bytes(limit) <= 24 * 2**30 < naive_bytes(limit + 1):
        raise AssertionError("the right limit fills 24 GiB")
    if not limit - largest_S(wrong) > 300:
        raise AssertionError


def main():
    check()
    print("                                          wrong     right")
    print(f"4096 x 4096 in bf16, MiB             {wrong(4096 * 4096 * E):10.1f}{right(4096 * 4096 * E):10.1f}")
    print(f"naive attention at S = 4096, MiB     {wrong(naive_bytes(4096)):10.1f}{right(naive_bytes(4096)):10.1f}")
    print(f"largest S in 24 GiB                  {largest_S(wrong):10}{largest_S(right):10}")


if __name__ == "__main__":
    main()
