"""Pitfall: a peak without a baseline counts weights, workspaces and whatever ran before.

Python's tracemalloc has the same pair of counters as PyTorch's GPU allocator, so this runs anywhere:
get_traced_memory() gives (current, peak) as torch.cuda.memory_allocated() and max_memory_allocated() do, and
reset_peak() stands for reset_peak_memory_stats(). A "library" here keeps a workspace from its first call on, as
cuBLAS does.
"""

import tracemalloc

MIB = 2**20


def wrong(work):
    """MiB that work() needs."""
    work()
    return tracemalloc.get_traced_memory()[1] / MIB


def right(work):
    """MiB that work() needs at its peak, above what was there before."""
    work()                                                 # warm up: what libraries keep is there from now on
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    work()
    return (tracemalloc.get_traced_memory()[1] - before) / MIB


class Machine:
    """100 MiB of weights, a library with a workspace of 32 MiB, and two programs of which one needs twice as much."""

    def __init__(self):
        self.weights, self.workspace = bytearray(100 * MIB), None

    def first(self):
        """20 MiB."""
        self.workspace = self.workspace or bytearray(32 * MIB)
        bytearray(20 * MIB)

    def second(self):
        """10 MiB."""
        self.workspace = self.workspace or bytearray(32 * MIB)
        bytearray(10 * MIB)


def both(measure):
    """What is measured for the two programs, one after the other on a fresh machine, in whole MiB."""
    tracemalloc.start()
    try:
        machine = Machine()
        return [round(measure(work)) for work in (machine.first, machine.second)]
    finally:
        tracemalloc.stop()


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` gives both programs the same 152 MiB, and `right` 20 and 10."""
    if not both(wrong) == [152, 152]:
        raise AssertionError(f"weights, workspace and the earlier peak were expected: {both(wrong)}")
    if not both(right) == [20, 10]:
        raise AssertionError(f"the right one is right: {both(right)}")


def main():
    check()
    print("MiB         first program   second program")
    for name, found in (("wrong", both(wrong)), ("right", both(right))):
        print(f"{name}     {found[0]:12}   {found[1]:14}")
    print(f"true      {20:12}   {10:14}")


if __name__ == "__main__":
    main()
