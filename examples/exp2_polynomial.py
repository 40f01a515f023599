"""2^x without an exponential unit: split off the integer, take a polynomial of the fraction, add to the exponent bits.

FlashAttention-4 (arXiv 2603.05451), section 3.1.3, computes a part of the exponentials so, on the units for
multiply-add, because the exponential unit of a B200 is too slow for its tensor cores. The coefficients are those
of the paper, to four digits. They are good enough because the probabilities are rounded to bf16 afterwards.

Numbers here are Python floats, rounded to fp32 or bf16 where it is said. Left out: overflow, NaN; x is at most 0 in softmax.
"""
from math import floor
from struct import pack, unpack

P = (1.0, 0.6951, 0.2276, 0.0771)                               # 2^f for 0 <= f < 1, the constant first


def polynomial(f, p=P):
    """p[0] + p[1] f + p[2] f^2 + … in Horner's order: one multiply-add a coefficient."""
    total = 0.0
    for coefficient in reversed(p):
        total = total * f + coefficient
    return total


def exp2(x, p=P):
    """2^x for -126 < x < 128: 2^n 2^f with n = floor(x). 2^n costs one integer addition to the exponent bits of 2^f."""
    n = floor(x)
    mantissa = unpack("<i", pack("<f", polynomial(x - n, p)))[0]
    return unpack("<f", pack("<i", mantissa + (n << 23)))[0]


def bf16(x):
    """x rounded to the nearest bf16: the upper 16 bits of its fp32, ties to even."""
    bits = unpack("<I", pack("<f", x))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return unpack("<f", pack("<I", bits & 0xFFFF0000))[0]


def largest_error(approximate, steps=20000):
    """The largest relative error against 2^x over -16 < x <= 0."""
    points = [-(i + 0.5) / steps - i % 16 for i in range(steps)]
    return max(abs(approximate(x) / 2**x - 1) for x in points)


def check(approximate=exp2):
    """Raise AssertionError unless the approximation disappears under bf16's own rounding."""
    rounded, exact = largest_error(lambda x: bf16(approximate(x))), largest_error(lambda x: bf16(2**x))
    if not exact < 2**-8:
        raise AssertionError("bf16 keeps 8 bits")
    if not rounded <= 1.05 * exact:
        raise AssertionError(f"{rounded:.2e} after rounding, {exact:.2e} from rounding alone")


def main():
    print("largest relative error of 2^x, -16 < x <= 0")
    print(f"polynomial of degree 3              {largest_error(exp2):.1e}")
    print(f"exact, then rounded to bf16         {largest_error(lambda x: bf16(2**x)):.1e}")
    print(f"polynomial, then rounded to bf16    {largest_error(lambda x: bf16(exp2(x))):.1e}")
    print(f"polynomial of degree 1              {largest_error(lambda x: exp2(x, (1.0, 1.0))):.1e}")
    check()
    print("\ncheck: after rounding to bf16 the polynomial is as good as the exact 2^x, within 5 %")


if __name__ == "__main__":
    main()
