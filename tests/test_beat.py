"""examples/beat.py: an honest kernel gets its time, and every known cheat is refused. On a CPU, with the clock handed in."""

import functools
import itertools
import random

import beat
import pytest
import torch

HONEST = """
import math, torch

def attention(q, k, v, causal):
    s = q @ k.mT / math.sqrt(q.shape[3])
    if causal:
        s = s.masked_fill(torch.ones(s.shape[2:], dtype=torch.bool, device=q.device).triu(1), -math.inf)
    return torch.softmax(s, -1) @ v
"""
CHEATS = {
    "a cached answer": ("wrong", """
kept = {}

def cheat(q, k, v, causal):
    return kept.setdefault(q.data_ptr(), attention(q, k, v, causal).clone())
"""),
    "an output that is computed later": ("wrong", """
import threading, time

def cheat(q, k, v, causal):
    o = torch.full_like(q, math.nan)
    threading.Thread(target=lambda: (time.sleep(30), o.copy_(attention(q, k, v, causal))), daemon=True).start()
    return o
"""),
    "a mean that hides": ("wrong", """
def cheat(q, k, v, causal):
    return v.mean(2, keepdim=True).expand_as(q)
"""),
    "one wrong number": ("wrong", """
def cheat(q, k, v, causal):
    o = attention(q, k, v, causal)
    o[0, 0, 7, 0] += 1e-4
    return o
"""),
    "not a number": ("wrong", """
def cheat(q, k, v, causal):
    return torch.full_like(q, math.nan)
"""),
    "inputs made easy": ("changed its inputs", """
def cheat(q, k, v, causal):
    return v.zero_()
"""),
    "no mask": ("wrong", """
def cheat(q, k, v, causal):
    return attention(q, k, v, False)
"""),
}
PATCHED = """
import time
honest = attention
real = time.sleep
time.perf_counter = time.monotonic = time.time = lambda: 0.0
torch.cuda.Event.elapsed_time = lambda self, end: 1e-6

def slow(q, k, v, causal):
    real(0.05)
    return honest(q, k, v, causal)

attention = slow
"""


def places(calls=2, S=48):
    sets = [tuple(torch.empty(1, 2, S, 16) for _ in range(3)) for _ in range(calls)]
    return sets, [torch.empty_like(case[0]) for case in sets]


def function(text, name):
    scope = {}
    exec(HONEST + text, scope)
    return scope[name]


def asked(attention, sets, outputs):
    """beat's question to another process, answered in this one."""
    return lambda request: beat.answer(attention, sets, outputs, request[1])


def ticks(seconds):
    """A clock that a sample takes `seconds` by."""
    return functools.partial(next, itertools.count(0, seconds))


@pytest.mark.parametrize("causal", [False, True])
def test_an_honest_kernel_gets_the_time_of_the_clock(causal):
    sets, outputs = places()
    found = beat.timed(asked(function("", "attention"), sets, outputs), sets, outputs, causal, 1.0, random.Random(1), ticks(0.5))
    assert found == pytest.approx(250)                     # two calls a sample


@pytest.mark.parametrize("what", CHEATS)
def test_a_cheat_is_refused(what):
    says, text = CHEATS[what]
    sets, outputs = places()
    with pytest.raises(beat.Refused, match=says):
        beat.timed(asked(function(text, "cheat"), sets, outputs), sets, outputs, True, 1.0, random.Random(1), ticks(0.5))


def test_faster_than_the_roofline_is_refused():
    sets, outputs = places()
    least = beat.least_ms(2, 48, 16, False, beat.ABOVE * 1.0) / 1e3
    ask = asked(function("", "attention"), sets, outputs)
    with pytest.raises(beat.Refused, match="roofline"):
        beat.timed(ask, sets, outputs, False, 1.0, random.Random(1), ticks(2 * least * 0.9))
    assert beat.timed(ask, sets, outputs, False, 1.0, random.Random(1), ticks(2 * least * 1.1)) > 0


def test_the_clock_stands_in_another_process(tmp_path):
    """A patched timer is patched where nobody looks; an error and an end are told in one line."""
    (tmp_path / "patched.py").write_text(HONEST + PATCHED, "utf-8")
    (tmp_path / "ends.py").write_text("import os\n\ndef attention(q, k, v, causal):\n    os._exit(0)\n", "utf-8")
    sets, outputs = places()
    for name, says in (("patched", None), ("ends", "ended")):
        other = beat.Other(str(tmp_path / f"{name}.py"))
        try:
            other.ask(("use", (sets, outputs)))
            if says:
                with pytest.raises(beat.Refused, match=says):
                    beat.sample(other.ask, sets, outputs, False, random.Random(1), beat.time.perf_counter)
            else:
                assert beat.sample(other.ask, sets, outputs, False, random.Random(1), beat.time.perf_counter) >= 50
        finally:
            other.close()


def test_the_verdict_names_the_instructions():
    pytest.importorskip("triton")
    fused = beat.rival("fused")
    q = torch.zeros(1, 2, 128, 64, dtype=torch.float16)
    kernels, code = beat.instructions(fused, (q, q, q), False)
    assert kernels == "flash" and "wgmma" in code and "mma_sync" not in code


def test_without_a_gpu_it_says_so_in_one_line(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(HONEST, "utf-8")
    assert beat.main([str(tmp_path / "none.py")]) == 2 and beat.main([str(tmp_path / "mine.py")]) == 2
    said = capsys.readouterr()
    assert not said.out and len(said.err.splitlines()) == 2
