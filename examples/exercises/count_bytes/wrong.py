"""Wrong solutions of count_bytes; a function's name says what is wrong with it."""


def count(B, H, H_kv, S_q, S_kv, d, e, matrices=2, flash_matrices=0, kv_heads=None, matrix_heads=None, lse=4, q=2, k=2, kv_rows=None):
    """The right numbers with knobs; each wrong solution turns one."""
    held = q * B * H * S_q * d * e + k * B * (kv_heads or H_kv) * (kv_rows or S_kv) * d * e
    matrix = B * (matrix_heads or H) * S_q * S_kv * e
    return held + matrices * matrix, held + flash_matrices * matrix + lse * B * H * S_q


def one_matrix_only(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, matrices=1)


def three_matrices(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, matrices=3)


def flash_keeps_a_matrix(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, flash_matrices=1)


def output_forgotten(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, q=1)


def values_forgotten(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, k=1)


def lse_forgotten(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, lse=0)


def lse_in_the_inputs_dtype(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, lse=e)


def m_and_l_instead_of_lse(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, lse=8)


def lse_for_every_key(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, lse=0)
    return naive, flash + 4 * B * H * S_kv


def lse_in_naive_too(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive + 4 * B * H * S_q, flash


def k_and_v_copied_to_all_heads(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, kv_heads=H)


def scores_for_each_kv_head(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, matrix_heads=H_kv)


def square_of_the_queries(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e)[0] + 2 * B * H * S_q * (S_q - S_kv) * e, count(B, H, H_kv, S_q, S_kv, d, e)[1]


def as_many_keys_as_queries(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, kv_rows=S_q)


def no_batch(B, H, H_kv, S_q, S_kv, d, e):
    return count(1, H, H_kv, S_q, S_kv, d, e)


def elements_not_bytes(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, 1)


def always_two_bytes(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, 2)


def float32_scores(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive + 2 * B * H * S_q * S_kv * (4 - e), flash


def mib_not_bytes(B, H, H_kv, S_q, S_kv, d, e):
    return tuple(x / 2**20 for x in count(B, H, H_kv, S_q, S_kv, d, e))


def floats(B, H, H_kv, S_q, S_kv, d, e):
    return tuple(map(float, count(B, H, H_kv, S_q, S_kv, d, e)))


def rounded_through_floats(B, H, H_kv, S_q, S_kv, d, e):
    return tuple(int(float(x)) for x in count(B, H, H_kv, S_q, S_kv, d, e))


def fixed_head_dimension(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, 128, e)


def flash_first(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e)[::-1]


def hard_codes_the_sample(B, H, H_kv, S_q, S_kv, d, e):
    return 512, 416


# What is wrong only where few look: a size, a shape, a type.


def wraps_at_32_bits(B, H, H_kv, S_q, S_kv, d, e):
    return tuple((x + 2**31) % 2**32 - 2**31 for x in count(B, H, H_kv, S_q, S_kv, d, e))


def wraps_at_64_bits(B, H, H_kv, S_q, S_kv, d, e):
    return tuple((x + 2**63) % 2**64 - 2**63 for x in count(B, H, H_kv, S_q, S_kv, d, e))


def decimals_of_28_digits(B, H, H_kv, S_q, S_kv, d, e):
    from decimal import Decimal

    naive, flash = count(B, H, H_kv, Decimal(S_q), Decimal(S_kv), d, e)
    return int(naive), int(flash)


def sizes_of_known_dtypes_only(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e if e in (1, 2, 4, 8) else 4)


def scores_of_four_bytes_at_least(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive + 2 * B * H * S_q * S_kv * (max(e, 4) - e), flash


def lse_as_wide_as_the_inputs_at_least(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, lse=max(4, e))


def rows_padded_to_eight(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, -(-d // 8) * 8, e)


def half_of_the_scores(B, H, H_kv, S_q, S_kv, d, e):
    """As if causal: S (S + 1) / 2 of each."""
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, matrices=0)
    return naive + B * H * S_q * (S_kv + 1) * e, flash


def lse_for_every_kv_head(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, lse=0)
    return naive, flash + 4 * B * H_kv * S_q


def one_query_counted_as_none(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, matrices=2 if S_q > 1 else 0)


def square_by_a_float_power(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, matrices=0)
    return naive + 2 * B * H * int((S_q * S_kv) ** 1.0) * e, flash


def group_size_for_the_heads(B, H, H_kv, S_q, S_kv, d, e):
    return count(B, H, H_kv, S_q, S_kv, d, e, kv_heads=H // H_kv)


def output_for_every_kv_head(B, H, H_kv, S_q, S_kv, d, e):
    less = B * (H - H_kv) * S_q * d * e
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive - less, flash - less


def whole_numbers_as_text(B, H, H_kv, S_q, S_kv, d, e):
    return tuple(map(str, count(B, H, H_kv, S_q, S_kv, d, e)))


def batch_left_out_of_the_lse(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, lse=0)
    return naive, flash + 4 * H * S_q


def needs_them_in_order_only(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return [naive, flash, naive - flash]
