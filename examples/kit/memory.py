"""Memory: what to do when it does not suffice, and its units."""

import gc
import re

MIB, GIB = 2**20, 2**30
SAID = []


def attempt(measure, *args):
    """measure(*args), or None when the GPU's memory does not suffice; what the exception said is then the last of SAID.

    The cleaning stands after the except block: inside it the exception still holds every frame, and they hold the tensors.
    """
    try:
        return measure(*args)
    except RuntimeError as error:
        if "out of memory" not in str(error).lower():
            raise
        asked = re.search(r"Tried to allocate [\d.]+ \w+", str(error))    # the rest names processes
        SAID.append(asked[0] if asked else "out of memory")
    release()
    return None


def release():
    """Hand everything that no tensor uses back to the driver."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def outcome(measure, *args):
    """(status, measure(*args)): ok, oom, or refused when PyTorch has no such kernel for these arguments."""
    try:
        result = attempt(measure, *args)
    except RuntimeError as error:
        if not re.search("No available kernel|No viable backend|cuDNN Frontend error", str(error)):
            raise
        return "refused", None
    return ("oom" if result is None else "ok"), result


def mib(size):
    return None if size is None else size / MIB


def minus(a, b):
    return None if a is None or b is None else a - b
