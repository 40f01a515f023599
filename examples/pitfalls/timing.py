"""Pitfall: a clock around an asynchronous call. A GPU call returns when the work is queued, not when it is done.

The first call is slow for another reason: libraries load kernels and choose algorithms then. So the first reading is
too long and the others are too short. Warm up, synchronise before each reading of the clock, and take a median.

    python timing.py            a thread with a queue stands for the CUDA stream: 50 ms of work, 100 ms of loading at first
    python timing.py --cuda     a matrix product on a real GPU, in ms (no GPU: exit status 2)
"""

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def wrong(stream):
    """Seconds that the work takes."""
    start = time.perf_counter()
    stream.launch()
    return time.perf_counter() - start


def right(stream, repeats=5):
    """Seconds that the work takes: the median of several runs, after one that does not count."""
    stream.launch()
    stream.synchronize()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        stream.launch()
        stream.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


class Thread:
    """A stream: launch() queues 50 ms of work and returns; the first launch also loads for 100 ms."""

    def __init__(self):
        self.queue, self.loaded, self.last = ThreadPoolExecutor(1), False, None

    def launch(self):
        if not self.loaded:
            time.sleep(0.100)
            self.loaded = True
        self.last = self.queue.submit(time.sleep, 0.050)

    def synchronize(self):
        self.last.result()


class Cuda:
    """A product of two 8192 x 8192 matrices in bf16 on the current GPU."""

    def __init__(self, torch):
        self.torch = torch
        self.a = torch.ones(8192, 8192, dtype=torch.bfloat16, device="cuda")

    def launch(self):
        self.a @ self.a

    def synchronize(self):
        self.torch.cuda.synchronize()


def readings(wrong=wrong, right=right):
    """Seconds: the first wrong reading on a fresh stream, the second, and the right one on another fresh stream."""
    stream = Thread()
    first = wrong(stream)
    return first, wrong(stream), right(Thread())


def check(wrong=wrong, right=right):
    """Raise AssertionError unless `wrong` reads more than 100 ms, then less than 25, and `right` between 50 and 90."""
    first, second, true = readings(wrong, right)
    if not first >= 0.099:
        raise AssertionError(f"the loading was expected: {first}")
    if not second < 0.025:
        raise AssertionError(f"only the launch was expected: {second}")
    if not 0.049 < true < 0.090:
        raise AssertionError(f"the work was expected: {true}")


def cuda():
    """The three readings on a GPU."""
    try:
        import torch

        if not torch.cuda.is_available():
            raise ImportError
    except ImportError:
        print("timing.py --cuda needs PyTorch with a CUDA GPU; without --cuda it runs anywhere", file=sys.stderr)
        return 2
    stream = Cuda(torch)
    stream.synchronize()
    first = wrong(stream)
    stream.synchronize()
    print(f"first {1000 * first:.3f} ms, second {1000 * wrong(stream):.3f} ms, right {1000 * right(stream):.3f} ms")
    return 0


def main(argv=None):
    if "--cuda" in (sys.argv[1:] if argv is None else argv):
        return cuda()
    check()
    print("the work takes 50 ms; the first launch loads for 100 ms")
    print("wrong, first reading    more than 100 ms")
    print("wrong, second reading   less than 25 ms")
    print("right                   between 50 and 90 ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
