"""Pitfall: torch.cuda.max_memory_allocated() is 0 on a CPU, and does not raise. A table of zeros is not a measurement.

The same happens with a GPU when the tensors are not on it. Refuse to answer instead.
"""

import torch


def wrong(call):
    """Peak MiB of call(), which returns a tensor."""
    call()
    return torch.cuda.max_memory_allocated() / 2**20


def right(call):
    """Peak MiB of call(), which returns a tensor. Raises RuntimeError when that tensor is not on a CUDA GPU."""
    o = call()
    if not o.is_cuda:
        raise RuntimeError(f"this counter sees CUDA memory only, and the result is on the {o.device.type}")
    return torch.cuda.max_memory_allocated() / 2**20


def call():
    """Attention on the CPU; its output alone is 4 MiB."""
    q = torch.zeros(1, 8, 1024, 128)
    return torch.nn.functional.scaled_dot_product_attention(q, q, q)


def outcome(measure):
    try:
        return f"{measure(call):.1f} MiB"
    except RuntimeError as error:
        return f"RuntimeError: {error}"


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` reports 0 for 4 MiB, and `right` refuses."""
    if not call().nbytes == 4 * 2**20:
        raise AssertionError
    if not outcome(wrong) == "0.0 MiB":
        raise AssertionError(outcome(wrong))
    if not outcome(right).startswith("RuntimeError"):
        raise AssertionError(outcome(right))


def main():
    check()
    print("wrong ", outcome(wrong))
    print("right ", outcome(right))


if __name__ == "__main__":
    main()
