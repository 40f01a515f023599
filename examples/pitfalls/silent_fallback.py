"""Pitfall: scaled_dot_product_attention takes another backend in silence when flash cannot run.

The result is right, so no test of numbers sees it; the S x S matrix is back. Force the backend while you develop: a
fallback becomes an error, and warnings say why. The cases here are those of PyTorch 2.13 on a CPU, where the flash
kernel refuses other things than on a GPU (sdpa_dispatch.py has a GPU's list). The dispatcher is the same.
"""

import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import TorchDispatchMode


def wrong(q, k, v, mask=None):
    """Attention by the flash kernel, one hopes.

    q [B, H, S, d], k [B, H, S, d], v [B, H, S, d_v] -> [B, H, S, d_v]
    """
    return sdpa(q, k, v, attn_mask=mask)


def right(q, k, v, mask=None):
    """Attention by the flash kernel, or RuntimeError.

    q [B, H, S, d], k [B, H, S, d], v [B, H, S, d_v] -> [B, H, S, d_v]
    """
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        return sdpa(q, k, v, attn_mask=mask)


class Operators(TorchDispatchMode):
    """Names of the operators that run, and the largest tensor they make."""

    def __init__(self):
        super().__init__()
        self.names, self.elements = [], 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        self.names.append(operator.overloadpacket.__name__)
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.numel())
        return result


H, S, D = 2, 64, 16


def cases():
    """{name: (q, k, v, mask)}; flash takes the first two on a CPU."""
    torch.manual_seed(2026)
    q, k, v = (torch.randn(1, H, S, D) for _ in range(3))
    strided = torch.randn(1, H, D, S).mT                   # [1, H, S, D] whose rows are not contiguous
    return {
        "plain             ": (q, k, v, None),
        "a boolean mask    ": (q, k, v, torch.ones(S, S, dtype=torch.bool).tril()),
        "d_v is not d      ": (q, k, v[..., :8].contiguous(), None),
        "rows with strides ": (strided, k, v, None),
        "a learned bias    ": (q, k, v, torch.zeros(S, S, requires_grad=True)),
    }


def outcome(attention, arguments):
    """Which backend answered and its largest tensor in elements, or the error."""
    with warnings.catch_warnings(), Operators() as ran:
        warnings.simplefilter("ignore")
        try:
            attention(*arguments)
        except RuntimeError as error:
            return str(error).split(".")[0], 0
    flash = any("flash_attention" in name for name in ran.names)
    return "flash" if flash else "math" if "bmm" in ran.names else "unknown", ran.elements


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` answers all, three by the math path with S x S elements, and `right` refuses those."""
    for i, (name, arguments) in enumerate(cases().items()):
        backend, elements = outcome(wrong, arguments)
        found = backend, elements >= H * S * S
        if not found == (("flash", False) if i < 2 else ("math", True)):
            raise AssertionError(f"{name}: {backend}, {elements}")
        expected = "flash" if i < 2 else "No available kernel"
        if not outcome(right, arguments)[0] == expected:
            raise AssertionError(f"{name}: {outcome(right, arguments)}")


def main():
    check()
    print("                    wrong: who answered, largest tensor   right")
    for name, arguments in cases().items():
        backend, elements = outcome(wrong, arguments)
        print(f"{name}  {backend:5}  {elements:6,} elements                {outcome(right, arguments)[0]}")
    print(f"S x S would be {H * S * S:,} elements, q has {H * S * D:,}")


if __name__ == "__main__":
    main()
