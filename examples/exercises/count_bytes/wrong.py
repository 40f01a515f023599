"""Wrong solutions of count_bytes; a function's name says what is wrong with it."""


def count(B, H, H_kv, S_q, S_kv, d, e, matrices=2, flash_matrices=0, kv_heads=None, matrix_heads=None, lse=4, q=2, k=2, kv_rows=None):
    """The right numbers with knobs; each wrong solution turns one."""
    held = q * B * H * S_q * d * e + k * B * (kv_heads or H_kv) * (kv_rows or S_kv) * d * e
    matrix = B * (matrix_heads or H) * S_q * S_kv * e
    return held + matrices * matrix, held + flash_matrices * matrix + lse * B * H * S_q


def lse_for_every_key(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, lse=0)
    return naive, flash + 4 * B * H * S_kv


def lse_in_naive_too(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive + 4 * B * H * S_q, flash


def float32_scores(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive + 2 * B * H * S_q * S_kv * (4 - e), flash


# What is wrong only where few look: a size, a shape, a type.


def decimals_of_28_digits(B, H, H_kv, S_q, S_kv, d, e):
    from decimal import Decimal

    naive, flash = count(B, H, H_kv, Decimal(S_q), Decimal(S_kv), d, e)
    return int(naive), int(flash)


def scores_of_four_bytes_at_least(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive + 2 * B * H * S_q * S_kv * (max(e, 4) - e), flash


def half_of_the_scores(B, H, H_kv, S_q, S_kv, d, e):
    """As if causal: S (S + 1) / 2 of each."""
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, matrices=0)
    return naive + B * H * S_q * (S_kv + 1) * e, flash


def lse_for_every_kv_head(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, lse=0)
    return naive, flash + 4 * B * H_kv * S_q


def square_by_a_float_power(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, matrices=0)
    return naive + 2 * B * H * int((S_q * S_kv) ** 1.0) * e, flash


def output_for_every_kv_head(B, H, H_kv, S_q, S_kv, d, e):
    less = B * (H - H_kv) * S_q * d * e
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return naive - less, flash - less


def batch_left_out_of_the_lse(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e, lse=0)
    return naive, flash + 4 * H * S_q


def needs_them_in_order_only(B, H, H_kv, S_q, S_kv, d, e):
    naive, flash = count(B, H, H_kv, S_q, S_kv, d, e)
    return [naive, flash, naive - flash]


WRONG = {   # the others, whose whole body is one expression
    "one_matrix_only": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, matrices=1),
    "three_matrices": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, matrices=3),
    "flash_keeps_a_matrix": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, flash_matrices=1),
    "output_forgotten": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, q=1),
    "values_forgotten": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, k=1),
    "lse_forgotten": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, lse=0),
    "lse_in_the_inputs_dtype": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, lse=e),
    "m_and_l_instead_of_lse": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, lse=8),
    "k_and_v_copied_to_all_heads": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, kv_heads=H),
    "scores_for_each_kv_head": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, matrix_heads=H_kv),
    "square_of_the_queries": lambda B, H, H_kv, S_q, S_kv, d, e: (count(B, H, H_kv, S_q, S_kv, d, e)[0] + 2 * B * H * S_q * (S_q - S_kv) * e, count(B, H, H_kv, S_q, S_kv, d, e)[1]),
    "as_many_keys_as_queries": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, kv_rows=S_q),
    "no_batch": lambda B, H, H_kv, S_q, S_kv, d, e: count(1, H, H_kv, S_q, S_kv, d, e),
    "elements_not_bytes": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, 1),
    "always_two_bytes": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, 2),
    "mib_not_bytes": lambda B, H, H_kv, S_q, S_kv, d, e: tuple(x / 2**20 for x in count(B, H, H_kv, S_q, S_kv, d, e)),
    "floats": lambda B, H, H_kv, S_q, S_kv, d, e: tuple(map(float, count(B, H, H_kv, S_q, S_kv, d, e))),
    "rounded_through_floats": lambda B, H, H_kv, S_q, S_kv, d, e: tuple(int(float(x)) for x in count(B, H, H_kv, S_q, S_kv, d, e)),
    "fixed_head_dimension": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, 128, e),
    "flash_first": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e)[::-1],
    "hard_codes_the_sample": lambda B, H, H_kv, S_q, S_kv, d, e: (512, 416),
    "wraps_at_32_bits": lambda B, H, H_kv, S_q, S_kv, d, e: tuple((x + 2**31) % 2**32 - 2**31 for x in count(B, H, H_kv, S_q, S_kv, d, e)),
    "wraps_at_64_bits": lambda B, H, H_kv, S_q, S_kv, d, e: tuple((x + 2**63) % 2**64 - 2**63 for x in count(B, H, H_kv, S_q, S_kv, d, e)),
    "sizes_of_known_dtypes_only": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e if e in (1, 2, 4, 8) else 4),
    "lse_as_wide_as_the_inputs_at_least": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, lse=max(4, e)),
    "rows_padded_to_eight": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, -(-d // 8) * 8, e),
    "one_query_counted_as_none": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, matrices=2 if S_q > 1 else 0),
    "group_size_for_the_heads": lambda B, H, H_kv, S_q, S_kv, d, e: count(B, H, H_kv, S_q, S_kv, d, e, kv_heads=H // H_kv),
    "whole_numbers_as_text": lambda B, H, H_kv, S_q, S_kv, d, e: tuple(map(str, count(B, H, H_kv, S_q, S_kv, d, e))),
}
