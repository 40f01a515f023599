"""Pitfall: in scaled_dot_product_attention's boolean mask True means "takes part". Elsewhere it means "is padding".

torch.nn.MultiheadAttention's key_padding_mask is the other way round in the same library. Passed on unchanged, such a
mask attends to the padding and to nothing else. The shape fits, no error is raised, and the numbers look like
numbers.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa


def wrong(q, k, v, is_padding):
    """Attention over the keys that are not padding.

    q [S_q, d], k and v [S_kv, d], is_padding [S_kv] -> [S_q, d]
    """
    mask = is_padding.expand(len(q), len(k))               # [S_q, S_kv]
    return sdpa(q[None, None], k[None, None], v[None, None], attn_mask=mask)[0, 0]


def right(q, k, v, is_padding):
    """Attention over the keys that are not padding.

    q [S_q, d], k and v [S_kv, d], is_padding [S_kv] -> [S_q, d]
    """
    mask = (~is_padding).expand(len(q), len(k))            # [S_q, S_kv]
    return sdpa(q[None, None], k[None, None], v[None, None], attn_mask=mask)[0, 0]


def example():
    """(q, k, v, is_padding): four tokens and two of padding; v is the unit matrix, so that o shows the probabilities."""
    torch.manual_seed(2026)
    q, k = torch.randn(2, 6), torch.randn(6, 6)
    return q, k, torch.eye(6), torch.tensor([False] * 4 + [True] * 2)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` attends to padding alone, and `right` to the tokens alone."""
    q, k, v, is_padding = example()
    p = wrong(q, k, v, is_padding)                         # [S_q, S_kv]
    if not ((p[:, :4] == 0).all() and torch.allclose(p.sum(-1), torch.ones(2))):
        raise AssertionError("all weight should lie on padding")
    p = right(q, k, v, is_padding)
    expected = torch.softmax(q.double() @ k[:4].double().mT / 6**0.5, -1)
    if not (torch.allclose(p[:, :4].double(), expected, atol=1e-6) and (p[:, 4:] == 0).all()):
        raise AssertionError("the right one is right")
    layer = torch.nn.MultiheadAttention(6, 1, batch_first=True)
    hidden = layer(q[None], k[None], k[None], key_padding_mask=is_padding[None])[1]
    if not (hidden[..., 4:] == 0).all():
        raise AssertionError("MultiheadAttention takes the mask as it is")


def main():
    check()
    q, k, v, is_padding = example()
    print("keys 4 and 5 are padding; probabilities of query 0")
    for name, attention in (("wrong", wrong), ("right", right)):
        print(name, "  ".join(f"{x:.3f}" for x in attention(q, k, v, is_padding)[0].tolist()))


if __name__ == "__main__":
    main()
