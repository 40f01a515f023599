"""The kernels: those that ran, by the names that the profiler saw."""

import re


def which_kernel(call):
    """The names of the GPU kernels that call() launches, in order, as torch.profiler saw them."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        call()
        torch.cuda.synchronize()
    events = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    names = [event.name for event in sorted(events, key=lambda event: event.time_range.start)]
    return [name for name in names if ("(" in name or "_" in name) and not name.startswith(("Memcpy", "Memset"))]


def kernels_of(*calls):
    """which_kernel() of each call, in one session of the profiler: a kernel that only waits marks where one begins."""
    import torch

    def all_of_them():
        for call in calls:
            torch.cuda._sleep(1000)                        # its kernel is called spin_kernel
            call()

    runs = []
    for name in which_kernel(all_of_them):
        if "spin_kernel" in name:
            runs.append([])
        elif runs:
            runs[-1].append(name)
    if len(runs) == len(calls) and all(runs):
        return runs
    return [which_kernel(call) for call in calls]


def short(name):
    """A kernel's name without return type, namespaces and template arguments."""
    name = re.sub(r"^void\s+", "", name).replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", name)[0].rsplit("::", 1)[-1]


def once(names):
    """The names in order, neighbours that repeat told once, as one text; None when there are none."""
    return " + ".join(name for i, name in enumerate(names) if i == 0 or name != names[i - 1]) or None


def named(names):
    """Columns of a row: its kernel by its full name, several by their short ones; and all of them as the profiler saw them."""
    return {"kernel": once(names if len(names) == 1 else [short(name) for name in names]), "kernel_full": once(names)}


def shortened(kernel):
    """A row's kernels by their short names; a dash where none was seen."""
    return " + ".join(short(name) for name in (kernel or "-").split(" + "))
