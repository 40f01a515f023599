"""examples/online_softmax.py: right on every input, really blocked, and its check rejects wrong implementations."""

import math
import re
import shutil
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from math import inf, isnan, nan
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import mutant, tells

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

import online_softmax as lesson  # noqa: E402

OUTPUT = (EXAMPLES / "outputs" / "online_softmax.txt").read_text(encoding="utf-8")


def oracle(q, K, V, hidden=()):
    """p_j = 1 / Σ_i e^(s_i - s_j), pair by pair: no maximum, no running sum, exact scores, sums by math.fsum."""
    seen = [j for j in range(len(K)) if j not in hidden]
    s = {j: float(sum(Fraction(a) * Fraction(b) for a, b in zip(q, K[j]))) / math.sqrt(len(q)) for j in seen}
    p = {j: 1 / math.fsum(math.exp(min(s[i] - s[j], 700)) for i in seen) for j in seen}
    return [math.fsum(p[j] * V[j][c] for j in seen) for c in range(len(V[0]))]


def close(a, b, tolerance=1e-12):
    return len(a) == len(b) and all(abs(x - y) <= tolerance for x, y in zip(a, b))


def column(scores):
    """q and K of one dimension, whose scores are exactly these."""
    return [1.0], [[x] for x in scores]


@st.composite
def problems(draw):
    """q, K, V, block, hidden: the first coordinate of K is the mask, 0 or -inf, where q is 1."""
    S, d, d_v = draw(st.integers(1, 12)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    entry = st.floats(-4, 4)
    rows = lambda n, width: draw(st.lists(st.lists(entry, min_size=width, max_size=width), min_size=n, max_size=n))
    hidden = draw(st.sets(st.integers(0, S - 1)))
    q = [1.0, *rows(1, d)[0]]
    K = [[-inf if j in hidden else 0.0, *row] for j, row in enumerate(rows(S, d))]
    return q, K, rows(S, d_v), draw(st.integers(1, 2 * S)), hidden


@settings(max_examples=200, deadline=None)
@given(problems())
def test_equals_the_oracle(problem):
    q, K, V, block, hidden = problem
    expected = oracle(q, K, V, hidden)
    assert close(lesson.full_attention(q, K, V), expected)
    assert close(lesson.online_attention(q, K, V, block), expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=20), st.integers(1, 25))
def test_equals_the_oracle_on_scores_up_to_1e4(scores, block):
    q, K = column([float(x) for x in scores])
    V = [[float(j), 1.0] for j in range(len(K))]
    expected = oracle(q, K, V)
    assert close(lesson.full_attention(q, K, V), expected, 1e-11)
    assert close(lesson.online_attention(q, K, V, block), expected, 1e-11)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_every_state_is_the_state_of_its_prefix(problem):
    q, K, V, block, hidden = problem
    s = lesson.scores(q, K)
    states = list(lesson.online_steps(q, K, V, block))
    assert len(states) == math.ceil(len(K) / block)
    for n, (m, l, o) in enumerate(states, 1):
        seen = [j for j in range(min(n * block, len(K))) if j not in hidden]
        assert m == max([s[j] for j in seen], default=-inf)
        assert close([l], [math.fsum(math.exp(s[j] - m) for j in seen)])
        assert close(o, [math.fsum(math.exp(s[j] - m) * V[j][c] for j in seen) for c in range(len(V[0]))], 1e-11)
    assert lesson.online_attention(q, K, V, block) == lesson.normalise(l, o)


# The block really changes the order of operations.


def test_rescales_are_counted():
    counts = lambda K, V: [len(lesson.rescales(lesson.q, K, V, block)) for block in (1, 2, 3, 6)]
    assert counts(lesson.K, lesson.V) == [1, 0, 0, 0]
    assert counts(lesson.K[::-1], lesson.V[::-1]) == [3, 2, 1, 0]


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7, 12, 13, 100])
def test_one_maximum_and_one_rescale_a_tile(monkeypatch, block):
    calls = {"max": 0, "exp": 0}

    def counted(name, function):
        def call(*args, **options):
            calls[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(lesson, name, call, raising=False)

    counted("max", max)
    counted("exp", math.exp)
    S = 12
    q, K = column([float(j) for j in range(S)])
    lesson.online_attention(q, K, [[1.0]] * S, block)
    tiles = math.ceil(S / block)
    assert calls == {"max": tiles, "exp": S + tiles - 1}


def test_a_later_tile_is_not_read_early():
    class Rows(list):
        asked = 0

        def __getitem__(self, item):
            if isinstance(item, slice):
                self.asked = max(self.asked, item.stop)
            return super().__getitem__(item)

    K = Rows(lesson.K)
    for n, _ in enumerate(lesson.online_steps(lesson.q, K, lesson.V, block=2), 1):
        assert K.asked == 2 * n


def test_another_block_may_change_the_last_bits():
    random = Random(0)
    row = lambda n: [random.uniform(-3, 3) for _ in range(n)]
    different = 0
    for _ in range(50):
        q, K, V = row(4), [row(4) for _ in range(16)], [row(4) for _ in range(16)]
        different += len({tuple(lesson.online_attention(q, K, V, block)) for block in (1, 2, 4, 16)}) > 1
    assert different > 10


def test_without_the_rescale_the_lessons_example_looks_right_and_the_reversed_one_does_not():
    wrong = mutant("online_softmax", "exp(m - m_new)", "1.0")
    expected = lesson.full_attention(lesson.q, lesson.K, lesson.V)
    assert close(wrong.online_attention(lesson.q, lesson.K, lesson.V), expected)
    assert not close(wrong.online_attention(lesson.q, lesson.K[::-1], lesson.V[::-1]), expected, 1e-3)


# Edge cases: (scores, V, expected).

EDGES = {
    "first tile hidden": ([-inf, -inf, 1.0], [[1.0], [2.0], [7.0]], [7.0]),
    "all but one hidden, last": ([-inf] * 7 + [3.0], [[float(j)] for j in range(8)], [7.0]),
    "middle tile hidden": ([0.0, 0.0, -inf, -inf, 0.0, 0.0], [[1.0], [2.0], [9.0], [9.0], [3.0], [6.0]], [3.0]),
    "every key hidden": ([-inf] * 3, [[1.0, 2.0]] * 3, [0.0, 0.0]),
    "every key hidden, garbage in V": ([-inf] * 3, [[nan, inf]] * 3, [0.0, 0.0]),
    "one key": ([5.0], [[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0]),
    "d_v = 1": ([0.0, 0.0], [[1.0], [3.0]], [2.0]),
    "d_v = 3": ([0.0, 0.0], [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], [2.0, 3.0, 4.0]),
    "integers in V": ([0.0, 0.0], [[1], [2]], [1.5]),
    "1e4 first": ([1e4, -1e4, 0.0], [[1.0], [2.0], [3.0]], [1.0]),
    "1e4 last": ([-1e4, 0.0, 1e4], [[1.0], [2.0], [3.0]], [3.0]),
    "all -1e30": ([-1e30] * 4, [[1.0], [2.0], [3.0], [6.0]], [3.0]),
    "NaN score first": ([nan, 0.0, 1.0], [[1.0]] * 3, [nan]),
    "NaN score last": ([0.0, 1.0, nan], [[1.0]] * 3, [nan]),
    "NaN beside -inf": ([-inf, nan], [[1.0]] * 2, [nan]),
    "NaN beside -inf, then a finite tile": ([-inf, nan, 1.0, 2.0], [[1.0]] * 4, [nan]),
    "NaN, then a score it must not hide": ([0.0, nan, 1e4], [[1.0]] * 3, [nan]),
    "NaN in one column of V": ([0.0, 1.0, 0.5], [[1.0, 1.0], [nan, 1.0], [1.0, 1.0]], [nan, 1.0]),
    "inf in V": ([0.0, 1.0, 0.5], [[1.0, 1.0], [inf, 1.0], [1.0, 1.0]], [inf, 1.0]),
    "NaN in V under a hidden key": ([0.0, -inf, 0.0], [[1.0], [nan], [3.0]], [2.0]),
    "inf in V under a hidden key": ([-inf, 0.0, 0.0], [[inf], [1.0], [3.0]], [2.0]),
    "score inf": ([0.0, inf, 1.0], [[1.0]] * 3, [nan]),
}


@pytest.mark.parametrize("block", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("case", EDGES)
def test_edge(case, block):
    scores, V, expected = EDGES[case]
    q, K = column(scores)
    for got in (lesson.full_attention(q, K, V), lesson.online_attention(q, K, V, block)):
        assert len(got) == len(expected)
        for x, y in zip(got, expected):
            assert type(x) is float and (isnan(x) if isnan(y) else x == y or abs(x - y) < 1e-15), got


@pytest.mark.parametrize("S", [1, 7, 63, 64, 65, 1000])
@pytest.mark.parametrize("block", [1, 2, 3, 64, 10_000])
def test_block_that_does_not_divide_S(S, block):
    random = Random(S)
    q, K = column([random.gauss(0, 3) for _ in range(S)])
    V = [[random.gauss(0, 1), 1.0] for _ in range(S)]
    assert close(lesson.online_attention(q, K, V, block), lesson.full_attention(q, K, V))


def test_inputs_are_left_alone():
    before = repr((lesson.q, lesson.K, lesson.V))
    lesson.online_attention(lesson.q, lesson.K, lesson.V, 1)
    assert repr((lesson.q, lesson.K, lesson.V)) == before


# Errors name their argument.

WRONG = {
    "q is empty": ([], [[]], [[1.0]]),
    "K is empty": ([1.0], [], []),
    "K has 2 rows and V has 3": ([1.0], [[1.0]] * 2, [[1.0]] * 3),
    "K has 3 rows and V has 2": ([1.0], [[1.0]] * 3, [[1.0]] * 2),
    "K[1] has 1 entries and q has 2": ([1.0, 2.0], [[1.0, 2.0], [1.0]], [[1.0]] * 2),
    "K[0] has 2 entries and q has 1": ([1.0], [[1.0, 2.0]] * 2, [[1.0]] * 2),
    "V[1] has 1 entries and V[0] has 2": ([1.0], [[1.0]] * 2, [[1.0, 2.0], [1.0]]),
    "V[2] has 3 entries and V[0] has 2": ([1.0], [[1.0]] * 3, [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0, 3.0]]),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_shapes_are_named(message):
    for call in (lesson.full_attention, lesson.online_attention, lambda *a: list(lesson.online_steps(*a))):
        with pytest.raises(ValueError) as error:
            call(*WRONG[message])
        assert tells(error, message), error.value


@pytest.mark.parametrize("block", [0, -1])
def test_wrong_block_is_named(block):
    with pytest.raises(ValueError, match=f"block = {block}"):
        lesson.online_attention(lesson.q, lesson.K, lesson.V, block)


# check() accepts what is right and rejects what is wrong.


MUTATIONS = {
    "no running maximum": ("m_new = max(m, *s)", "m_new = 0.0"),
    "maximum of the tile only": ("m_new = max(m, *s)", "m_new = max(s)"),
    "maximum not carried": ("        m = m_new\n", ""),
    "no rescale": ("exp(m - m_new)", "1.0"),
    "rescale with its sign turned": ("exp(m - m_new)", "exp(m_new - m)"),
    "l not rescaled": ("l = rescale * l + l_tile", "l = l + l_tile"),
    "o not rescaled": ("rescale * old + new", "old + new"),
    "o forgets the earlier tiles": ("rescale * old + new", "new"),
    "new tile rescaled as well": ("rescale * old + new", "rescale * (old + new)"),
    "-inf - -inf": ("0.0 if m == -inf else exp(m - m_new)", "exp(m - m_new)"),
    "finite stand-in for -inf": ("m, l, o = -inf, 0.0", "m, l, o = -1e9, 0.0"),
    "first m is zero": ("m, l, o = -inf, 0.0", "m, l, o = 0.0, 0.0"),
    "last partial tile dropped": ("range(0, len(K), block)", "range(0, len(K) - block + 1, block)"),
    "tile one key short": ("slice(start, start + block)", "slice(start, max(start + 1, start + block - 1))"),
    "tile one key long": ("slice(start, start + block)", "slice(start, start + block + 1)"),
    "padded tail keys counted": (
        "s = scores(q, K[tile])  ",
        "s = scores(q, K[tile]); s += [0.0] * (block - len(s)); V = V + [[0.0] * len(V[0])] * block  ",
    ),
    "divided inside the loop": ("yield m, l, o", "o = normalise(l, o); yield m, l, o"),
    "never divided": ("        pass\n    return normalise(l, o)", "        pass\n    return o"),
    "divided by the largest weight": ("l = rescale * l + l_tile", "l = max(rescale * l, l_tile)"),
    "no division by sqrt(d)": ("/ sqrt(len(q)) for k", "for k"),
    "division by d": ("/ sqrt(len(q)) for k", "/ len(q) for k"),
    "hidden V row read": ("if s_j != -inf]", "]"),
    "NaN taken for a hidden key": ("if s_j != -inf]", "if s_j > -inf]"),
    "tile that looks hidden skipped": (
        "        rescale = 0.0", "        if m_new == -inf:\n            yield m, l, o\n            continue\n        rescale = 0.0"),
    "as many columns as d": ("for c in range(len(V[0]))]\n    return l, o", "for c in range(len(K[0]))]\n    return l, o"),
    "hidden row gives NaN": ("if l != 0 else [0.0] * len(o)", "if l != 0 else [nan] * len(o)"),
    "hidden row divides by zero": (" if l != 0 else [0.0] * len(o)", ""),
}


def test_check_accepts_both():
    lesson.check()
    lesson.check(lambda q, K, V, block: lesson.full_attention(q, K, V))


@pytest.mark.parametrize("name", MUTATIONS)
def test_check_rejects(name):
    wrong = mutant("online_softmax", *MUTATIONS[name])
    with pytest.raises(AssertionError):
        lesson.check(wrong.online_attention)


# What the page shows.


def run(python, folder):
    command = [python, "-I", "online_softmax.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=30)


def test_output_is_what_the_file_prints_alone_on_every_python_here(tmp_path):
    shutil.copy(EXAMPLES / "online_softmax.py", tmp_path)
    found = [shutil.which(f"python3.{minor}") for minor in (11, 12, 13, 14)]
    works = lambda python: subprocess.run([python, "-c", ""], capture_output=True).returncode == 0
    for python in [sys.executable, *(p for p in found if p and works(p))]:
        done = run(python, tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().replace("\r\n", "\n") == OUTPUT, (
            f"{python} prints something else: run `python online_softmax.py > outputs/online_softmax.txt` in examples/"
        )


def test_both_ways_print_the_numbers_of_the_lesson():
    assert re.findall(r"\[[\d., ]*\]", OUTPUT)[:2] == ["[0.363083, 0.449897, 0.392487, 0.386499]"] * 2


def test_only_the_standard_library_is_imported():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import runpy; runpy.run_path('online_softmax.py', run_name='__main__')"],
        cwd=EXAMPLES, capture_output=True, text=True, timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == OUTPUT


def test_online_attention_keeps_three_things_however_long_the_row_is():
    """The peak above the inputs, traced: the same for 1 000 and for 30 000 keys."""
    peaks = []
    for S in (1000, 30_000):
        K, V = [[0.1, 0.2]] * S, [[1.0, 2.0]] * S
        tracemalloc.start()
        lesson.online_attention([1.0, 1.0], K, V, block=10)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2000, f"{peaks} bytes"
