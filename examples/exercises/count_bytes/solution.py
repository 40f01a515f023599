"""Exercise 7: how many bytes attention holds, naive and flash.

What the memory lab measures on a GPU, predicted with nothing but the shapes.
"""


def count_bytes(B, H, H_kv, S_q, S_kv, d, e):
    """Bytes that live at the same time: (naive, flash), two whole numbers.

    q and o are [B, H, S_q, d], k and v [B, H_kv, S_kv, d], all of e bytes an element;
    both programs hold the four. naive also holds scores and probabilities, one of
    each for every query head, query and key, e bytes an element. flash also holds one
    float32, the LSE, for every query head and query. Whole numbers, exact however
    large; no MiB.

        count_bytes(B=1, H=2, H_kv=1, S_q=4, S_kv=4, d=8, e=2)  →  (512, 416)
    """
    # answer
    q_and_o = 2 * B * H * S_q * d * e
    k_and_v = 2 * B * H_kv * S_kv * d * e
    matrices = 2 * B * H * S_q * S_kv * e
    lse = 4 * B * H * S_q
    return q_and_o + k_and_v + matrices, q_and_o + k_and_v + lse
    # end of answer
