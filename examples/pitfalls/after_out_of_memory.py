"""Pitfall: trying again inside the except block. The exception still holds the tensors that did not fit.

An exception has a traceback, the traceback has the frames, and the frames have the local variables: q, k, the scores.
They live until the except block is left, so the smaller attempt fails too, and so does every later row of a
benchmark. A pretend device of 100 units stands for the GPU; what keeps the blocks alive is Python, and the same
there.
"""


class Device:
    """Hands out blocks, of 100 units in all."""

    def __init__(self):
        self.used = 0

    def block(self, size):
        if self.used + size > 100:
            raise MemoryError(f"out of memory: {self.used} of 100 used, {size} asked for")
        return Block(self, size)


class Block:
    """Memory that is given back when no name refers to it any more."""

    def __init__(self, device, size):
        self.device, self.size = device, size
        device.used += size

    def __del__(self):
        self.device.used -= self.size


def attention(device, S):
    """The naive program: scores, then probabilities, S² / 100 units each. Returns S."""
    scores = device.block(S * S // 100)
    probabilities = device.block(S * S // 100)
    return S if scores and probabilities else None


def wrong(device, S):
    """attention at S, or at half the length when the memory does not suffice."""
    try:
        return attention(device, S)
    except MemoryError:
        return attention(device, S // 2)


def right(device, S):
    """attention at S, or at half the length when the memory does not suffice."""
    try:
        return attention(device, S)
    except MemoryError:
        pass                                               # leaving the block lets go of the exception
    return attention(device, S // 2)


def outcome(attempt, S):
    try:
        return f"ran at S = {attempt(Device(), S)}"
    except MemoryError as error:
        return str(error)


def check(wrong=wrong, right=right):
    """Raise AssertionError unless both run at S = 60, and at S = 90 only `right` recovers."""
    if not outcome(wrong, 60) == outcome(right, 60) == "ran at S = 60":
        raise AssertionError("without a failure both are the same")
    if not outcome(wrong, 90) == "out of memory: 81 of 100 used, 20 asked for":
        raise AssertionError(outcome(wrong, 90))
    if not outcome(right, 90) == "ran at S = 45":
        raise AssertionError(outcome(right, 90))


def main():
    check()
    for S in (60, 90):
        print(f"S = {S}   wrong  {outcome(wrong, S)}")
        print(f"S = {S}   right  {outcome(right, S)}")


if __name__ == "__main__":
    main()
