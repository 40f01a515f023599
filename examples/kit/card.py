"""The card: whether attention can be measured on it, and what it says of itself.

A lab proves here that it may start: last, that its instruments show something (proof.py).
"""

import os
import sys
import warnings

from kit.proof import unproven


def gpu_problem(device=0):
    """Why flash attention cannot run, or be measured, on GPU number `device` here, in one line; None when it can."""
    try:
        import torch
    except ImportError:
        return "PyTorch is missing. Install it: https://pytorch.org/get-started/locally/"
    hip, cuda = getattr(torch.version, "hip", None), getattr(torch.version, "cuda", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        available = torch.cuda.is_available()
    if not available and hip:
        return f"PyTorch {torch.__version__} is a ROCm build and finds no GPU. Is the driver loaded, and may this user open it?"
    if not available and not cuda:
        return f"PyTorch {torch.__version__} is a CPU-only build. Install a build with CUDA: https://pytorch.org/get-started/locally/"
    if not available:
        try:
            torch.cuda.init()
            why = "no CUDA GPU is visible"
        except Exception as error:
            why = " ".join(str(error).split())
        if "too old" in why:
            return f"The NVIDIA driver is older than PyTorch {torch.__version__} (CUDA {cuda}) needs. Update the driver, or install a build for an older CUDA."
        return f"PyTorch {torch.__version__} (CUDA {cuda}) finds no NVIDIA GPU or driver here. Check nvidia-smi and CUDA_VISIBLE_DEVICES."
    if not 0 <= device < torch.cuda.device_count():
        return f"There is no GPU number {device}: PyTorch sees {torch.cuda.device_count()}."
    name, (major, minor) = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    if not hip and major < 8:
        return f"{name} has compute capability {major}.{minor}; the flash kernel needs 8.0 (Ampere) or newer. Older cards have SDPA's memory-efficient backend, in fp16."
    try:
        a = torch.ones(16, 16, dtype=torch.bfloat16, device=f"cuda:{device}")
        ok = (a @ a).sum().item() == 4096
    except Exception as error:
        why = " ".join(str(error).split())[:120]
        built = " ".join(torch.cuda.get_arch_list())
        return f"{name} ({major}.{minor}) runs no kernel of PyTorch {torch.__version__}, built for {built}: {why}. Install a build that names this card."
    return unproven(device) if ok else f"{name} computes a wrong 16 x 16 matmul: the installation or the card is broken."


def l2_bytes():
    """The GPU's L2 cache; 64 MiB where this PyTorch does not say, which is more than most cards have."""
    import torch

    return getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0) or 64 * 2**20


def ended(main):
    """main()'s exit status; 141, quietly, where nobody reads on what it prints (`| head`), as a program ends that SIGPIPE stops."""
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())       # or the interpreter would try once more
        return 141


def stop(why, status=2):
    """Say why in one line on stderr; returns the exit status."""
    print(why, file=sys.stderr)
    return status
