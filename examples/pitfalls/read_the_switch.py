"""Pitfall: reading a switch and calling it evidence. A switch says what is allowed, not what ran.

torch.backends.cuda.flash_sdp_enabled() is True on a machine without a GPU, and stays True while the math path
answers. What ran is what the profiler saw. On a GPU read the kernels' names (which_kernel in
flash_vs_naive_memory.py).
"""

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.profiler import ProfilerActivity, profile


def wrong(call):
    """Which backend does call() use?"""
    call()
    return "flash" if torch.backends.cuda.flash_sdp_enabled() else "math"


def right(call):
    """Which backend does call() use?"""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    names = " ".join(event.key for event in seen.key_averages())
    return "flash" if "scaled_dot_product_flash_attention" in names else "math" if "attention_math" in names else "other"


def calls():
    """{name: a call of attention}: on a CPU flash takes the first and refuses the second, whose v has another width."""
    torch.manual_seed(2026)
    q, k, v = (torch.randn(1, 2, 64, 16) for _ in range(3))
    return {"plain       ": lambda: sdpa(q, k, v), "d_v is not d": lambda: sdpa(q, k, v[..., :8].contiguous())}


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` says flash both times, and `right` tells the calls apart."""
    plain, other = calls().values()
    if not (wrong(plain), wrong(other)) == ("flash", "flash"):
        raise AssertionError("the switch is on in both cases")
    if not (right(plain), right(other)) == ("flash", "math"):
        raise AssertionError("the profiler tells them apart")


def main():
    check()
    print("call          the switch   the profiler")
    for name, call in calls().items():
        print(f"{name}  {wrong(call):11}  {right(call)}")


if __name__ == "__main__":
    main()
