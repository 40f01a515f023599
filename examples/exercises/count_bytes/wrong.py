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
