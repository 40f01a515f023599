"""examples/split_kv.py: one merge for every cut, order and tree, and its check rejects wrong merges."""

import math
import shutil
import subprocess
import sys
from math import exp, inf, isnan, log, nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SOURCE = (EXAMPLES / "split_kv.py").read_text("utf-8")
import split_kv as lab  # noqa: E402
from split_kv import merge, nothing, partial  # noqa: E402


def oracle(q, K, V, keys):
    """All weights at once with exact sums; no running state, no merge."""
    s = {j: math.fsum(a * b for a, b in zip(q, K[j])) / math.sqrt(len(q)) for j in keys}
    if all(x == -inf for x in s.values()):
        return [0.0] * len(V[0]), -inf
    top = sorted(s.values())[-1]
    l = math.fsum(exp(x - top) for x in s.values())
    return [math.fsum(exp(x - top) * V[j][c] for j, x in s.items() if x != -inf) / l for c in range(len(V[0]))], top + log(l)


def near(a, b, tolerance=1e-9):                           # an LSE near 1e4 is known to 2e-12, and values reach 30
    return a == b or abs(a - b) <= tolerance * max(1, abs(b))


def same(a, b):
    return len(a[0]) == len(b[0]) and all(near(x, y) for x, y in zip([*a[0], a[1]], [*b[0], b[1]]))


number = st.floats(-30, 30)
score = st.one_of(number, st.just(-inf), st.floats(-1e4, 1e4))
part = st.one_of(st.just(nothing(2)), st.tuples(st.lists(number, min_size=2, max_size=2), number))


@st.composite
def problem(draw):
    """q, K, V with the scores of one-dimensional keys, -inf among them, and a partition of the keys into parts."""
    S = draw(st.integers(1, 9))
    K = [[draw(score)] for _ in range(S)]
    V = [[draw(number), draw(number)] for _ in range(S)]
    owner = [draw(st.integers(0, 3)) for _ in range(S)]
    return [1.0], K, V, [[j for j in range(S) if owner[j] == n] for n in range(4)]


@settings(max_examples=300, deadline=None)
@given(problem(), st.randoms(use_true_random=False))
def test_any_partition_any_order_any_tree_gives_attention(problem, random):
    q, K, V, runs = problem
    expected = oracle(q, K, V, range(len(K)))
    assert same(partial(q, K, V, range(len(K))), expected)
    parts = [partial(q, K, V, keys) for keys in runs]
    random.shuffle(parts)
    while len(parts) > 1:                                  # a random tree
        a = parts.pop(random.randrange(len(parts)))
        b = parts.pop(random.randrange(len(parts)))
        parts.insert(random.randrange(len(parts) + 1), merge(a, b))
    assert same(parts[0], expected)


@settings(max_examples=300, deadline=None)
@given(part, part, part)
def test_associative(a, b, c):
    assert same(merge(merge(a, b), c), merge(a, merge(b, c)))


@given(part, part)
def test_commutative_to_the_bit(a, b):
    assert merge(a, b) == merge(b, a)


@given(part)
def test_nothing_is_neutral_to_the_bit(a):
    assert merge(a, nothing(2)) == (list(a[0]), a[1]) == merge(nothing(2), a)


def test_nothing_with_nothing_is_nothing():
    assert merge(nothing(3), nothing(3)) == ([0.0, 0.0, 0.0], -inf)
    assert lab.merge_tree([nothing(1)] * 5) == ([0.0], -inf)


@pytest.mark.parametrize("a, b", [(nan, 0.0), (0.0, nan), (nan, -inf), (-inf, nan), (nan, nan)])
def test_nan_stays(a, b):
    o, lse = merge(([1.0], a), ([2.0], b))
    assert isnan(o[0]) and isnan(lse)


def test_weights_are_those_of_the_lse():
    o, lse = merge(([0.0], log(3)), ([1.0], log(1)))
    assert near(o[0], 0.25) and near(lse, log(4))


def test_a_merge_in_tiles_is_the_online_softmax():
    import online_softmax

    K, V = lab.K[::-1], lab.V[::-1]
    states = online_softmax.online_steps(lab.q, K, V, block=2)
    joined = nothing(4)
    for keys, (m, l, o) in zip(lab.cut(6, 3), states):
        joined = merge(joined, partial(lab.q, K, V, keys))
        assert same(joined, ([x / l for x in o], m + log(l)))


@given(st.integers(0, 40), st.integers(1, 50))
def test_a_cut_covers_every_index_once_in_runs_of_nearly_equal_length(S, parts):
    runs = lab.cut(S, parts)
    assert [j for run in runs for j in run] == list(range(S)) and len(runs) == parts
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


@settings(max_examples=60, deadline=None)
@given(problem(), st.integers(1, 20))
def test_split_kv_equals_attention(problem, parts):
    q, K, V, _ = problem
    assert same(lab.split_kv(q, K, V, parts), oracle(q, K, V, range(len(K))))


@settings(max_examples=60, deadline=None)
@given(problem(), st.integers(0, 9), st.randoms(use_true_random=False))
def test_prefix_equals_attention(problem, length, random):
    _, K, V, _ = problem
    prefix = range(min(length, len(K)))
    queries = [[random.choice([-1.0, 0.0, 0.5]) if all(k[0] != -inf for k in K) else 1.0] for _ in range(3)]
    own = [[j for j in range(len(prefix), len(K)) if random.random() < 0.6] for _ in queries]
    found = lab.shared_prefix(queries, K, V, prefix, own)
    assert all(same(part, oracle(q, K, V, [*prefix, *keys])) for part, q, keys in zip(found, queries, own))


@settings(max_examples=60, deadline=None)
@given(problem(), st.integers(1, 12))
def test_ring_equals_causal_attention(problem, devices):
    _, K, V, _ = problem
    *_, (_, parts) = lab.ring_steps([[1.0]] * len(K), K, V, devices)
    assert len(parts) == len(K)
    assert all(same(part, oracle([1.0], K, V, range(i + 1))) for i, part in enumerate(parts))


def test_ring_holds_every_block_once():
    held = [blocks for blocks, _ in lab.ring_steps(lab.K, lab.K, lab.V, 3)]
    assert held == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]


def test_a_prefix_is_attended_once_for_all_queries(monkeypatch):
    seen = []
    monkeypatch.setattr(lab, "partial", lambda q, K, V, keys: seen.append(list(keys)) or partial(q, K, V, keys))
    lab.shared_prefix([lab.q] * 3, lab.K, lab.V, range(4), [[4], [5], []])
    assert seen == [[0, 1, 2, 3]] * 3 + [[4], [5], []]


@pytest.mark.parametrize("call, message", [
    (lambda: partial([1.0], [], [], []), "K has 0 rows"),
    (lambda: partial([1.0], [[1.0]], [], [0]), "V has 0"),
    (lambda: lab.split_kv(lab.q, lab.K, lab.V, 0), "parts = 0"),
    (lambda: lab.split_kv(lab.q, lab.K, lab.V[:5], 2), "V has 5"),
    (lambda: next(lab.ring_steps(lab.K, lab.K, lab.V, -1)), "parts = -1"),
])
def test_errors_name_their_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_partial_reads_no_hidden_value():
    assert partial([1.0], [[-inf], [0.0]], [[nan], [2.0]], [0, 1]) == ([2.0], 0.0)


# check() accepts other right merges and rejects wrong ones.


def by_log_add(a, b):
    """The merge written from the weight of b over a: another formula of the same function."""
    (o_a, x), (o_b, y) = a, b
    if x == -inf:
        return b
    if y == -inf:
        return a
    if isnan(x) or isnan(y):
        return [nan] * len(o_a), nan
    lse = x + log1p_exp(y - x)
    return [exp(x - lse) * c + exp(y - lse) * d for c, d in zip(o_a, o_b)], lse


def log1p_exp(x):
    return x + math.log1p(exp(-x)) if x > 0 else math.log1p(exp(x))


def by_weights(weights, lse=lambda x, y: max(x, y) + log(exp(x - max(x, y)) + exp(y - max(x, y)))):
    """A merge of the outputs by the weights of a function of the two LSEs."""
    def wrong(a, b):
        (o_a, x), (o_b, y) = a, b
        if x == y == -inf:
            return nothing(len(o_a))
        w_a, w_b = weights(x, y)
        return [(w_a * c + w_b * d) / (w_a + w_b) for c, d in zip(o_a, o_b)], lse(x, y)
    return wrong


WRONG = {
    "mean": by_weights(lambda x, y: (1, 1)),
    "weights exchanged": by_weights(lambda x, y: (exp(y - max(x, y)), exp(x - max(x, y)))),
    "no maximum taken off": by_weights(lambda x, y: (exp(x), exp(y))),
    "weights of the minimum": by_weights(lambda x, y: (exp(x - min(x, y)), exp(y - min(x, y)))),
    "lse as a weight": by_weights(lambda x, y: (x, y)),
    "larger part only": by_weights(lambda x, y: (float(x >= y), float(y > x))),
    "base 2": by_weights(lambda x, y: (2 ** (x - max(x, y)), 2 ** (y - max(x, y)))),
    "lse = maximum": by_weights(lambda x, y: (exp(x - max(x, y)), exp(y - max(x, y))), max),
    "lse = sum": by_weights(lambda x, y: (exp(x - max(x, y)), exp(y - max(x, y))), lambda x, y: x + y),
    "lse without its maximum": by_weights(lambda x, y: (exp(x - max(x, y)), exp(y - max(x, y))), lambda x, y: log(exp(x - max(x, y)) + exp(y - max(x, y)))),
    "order of the arguments matters": lambda a, b: a if b[1] < a[1] - 1e-3 else merge(a, b),
}

MUTATIONS = {
    "no guard for two empty parts": ("if lse_a == lse_b == -inf:", "if False:"),
    "guard for one empty part": ("if lse_a == lse_b == -inf:", "if -inf in (lse_a, lse_b):"),
    "finite stand-in": ("    m = max(lse_a, lse_b)\n    w_a", "    m = max(lse_a, lse_b, -1e9)\n    w_a"),
    "not divided": ("[(w_a * x + w_b * y) / l for x, y", "[(w_a * x + w_b * y) for x, y"),
    "divided by two": ("[(w_a * x + w_b * y) / l for x, y", "[(w_a * x + w_b * y) / 2 for x, y"),
    "weights of one": ("w_a, w_b = exp(lse_a - m), exp(lse_b - m)", "w_a, w_b = exp(lse_a - m), exp(lse_a - m)"),
    "sign turned": ("w_a, w_b = exp(lse_a - m), exp(lse_b - m)", "w_a, w_b = exp(m - lse_a), exp(m - lse_b)"),
    "NaN taken for an empty part": ("if lse_a == lse_b == -inf:", "if max(-inf, lse_a, lse_b) == -inf:"),
    "lse of the first part kept": ("zip(o_a, o_b)], m + log(l)", "zip(o_a, o_b)], lse_a"),
}


def test_check_accepts_the_file_and_another_formula():
    lab.check()
    lab.check(by_log_add)


@pytest.mark.parametrize("name", WRONG)
def test_check_rejects(name):
    with pytest.raises(AssertionError):
        lab.check(WRONG[name])


@pytest.mark.parametrize("name", MUTATIONS)
def test_check_rejects_a_mutant(name):
    old, new = MUTATIONS[name]
    assert SOURCE.count(old) == 1, f"{old!r} stands {SOURCE.count(old)} times in split_kv.py: adapt the mutation"
    module = type(sys)("mutant")
    exec(compile(SOURCE.replace(old, new), "mutant of split_kv.py", "exec"), module.__dict__)
    with pytest.raises(AssertionError):
        lab.check(module.merge)


def test_the_reference_is_the_oracle():
    for name, q, K, V, runs, expected in lab.check_cases():
        if not any(isnan(k[0]) for k in K):
            assert same(oracle(q, K, V, range(len(K))), expected), name


def test_output_is_what_the_file_prints_alone(tmp_path):
    shutil.copy(EXAMPLES / "split_kv.py", tmp_path)
    done = subprocess.run([sys.executable, "-I", "-S", "split_kv.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXAMPLES / "outputs" / "split_kv.txt").read_text("utf-8"), (
        "the file prints something else: run `make outputs`"
    )
    assert max(map(len, done.stdout.splitlines())) <= 96
