"""Pitfall: explaining the speed by FLOPs. Flash does slightly more of them; it moves fewer bytes.

Two predictions of how much faster flash is than naive on an RTX 4090 (165.2 TFLOP/s in dense bf16 with fp32
accumulation, 1008 GB/s: NVIDIA's Ada whitepaper) for Qwen2.5-7B's attention: by FLOPs alone, and by the slower of
FLOPs and bytes, which is the roofline. They are bounds from shapes, not measurements. Naive writes and reads scores
and probabilities once each; flash's re-reads are assumed to be served by the L2 cache.
"""

H, H_KV, D, E = 28, 4, 128, 2                              # Qwen2.5-7B: query heads, KV heads, head dimension; bytes of bf16
PEAK_FLOPS, PEAK_BYTES = 165.2e12, 1008e9


def wrong(S):
    """How many times faster flash should be, by FLOPs."""
    return naive_flops(S) / flash_flops(S)


def right(S):
    """How many times faster flash should be, by whichever of FLOPs and bytes takes longer."""
    naive = max(naive_flops(S) / PEAK_FLOPS, naive_traffic(S) / PEAK_BYTES)
    flash = max(flash_flops(S) / PEAK_FLOPS, flash_traffic(S) / PEAK_BYTES)
    return naive / flash


def naive_flops(S):
    """q kᵀ and p v, no mask."""
    return 4 * H * S * S * D


def flash_flops(S, Bc=64):
    """The same, and D multiplications a row and tile for the rescale."""
    return 4 * H * S * S * D + H * S * (S // Bc) * D


def naive_traffic(S):
    """Bytes: q, k, v, o once; scores and probabilities written and read."""
    return 4 * H * S * S * E + flash_traffic(S)


def flash_traffic(S):
    """Bytes: q, k, v, o once."""
    return 2 * (H + H_KV) * S * D * E


def counted_flops(S, Bc):
    """FLOPs of one head's flash loop, added up tile by tile."""
    total = 0
    for row in range(S):
        for tile in range(0, S, Bc):
            total += 2 * Bc * D                            # scores of the tile
            total += 2 * Bc * D                            # their weights times v
            total += D                                     # the rescale of o
    return total


def check(wrong=wrong, right=right):
    """Raise AssertionError unless FLOPs predict no speed-up at all, and bytes predict one."""
    if not H * counted_flops(256, 64) == flash_flops(256) > naive_flops(256):
        raise AssertionError("the formula counts the loop")
    for S in (1024, 4096, 16384):
        if not 0.99 < wrong(S) < 1:
            raise AssertionError(f"by FLOPs flash should be slower: {wrong(S)}")
        if not right(S) > 2.5:
            raise AssertionError(f"by bytes it should be faster: {right(S)}")


def main():
    check()
    print("RTX 4090, predicted: naive time / flash time")
    print("    S   by FLOPs   by the slower of FLOPs and bytes")
    for S in (1024, 4096, 16384):
        print(f"{S:5}   {wrong(S):8.3f}   {right(S):8.2f}")


if __name__ == "__main__":
    main()
