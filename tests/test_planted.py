"""A real change of what was measured turns a sentence red: each is planted on a copy of the committed rows, and the claims look again.

What a re-measurement brings by itself must leave them green: spread.json holds how far apart the rows of several runs lie.
"""
import collections
import copy
import functools
import importlib
import json
import random

import pytest
import run as runner
from support import TOP, measured

import test_claims as claims

RATES = ("tflops", "gbps", "speedup", "pct", "traffic_gbps", "fwd_tflops", "bwd_tflops")


def slower(row, factor, prefix=""):
    """The times of a row, those of one side with `prefix`, by a factor, and what is made of them by its inverse."""
    for name, value in row.items():
        if isinstance(value, float) and name.startswith(prefix) and not name.endswith("floor_ms"):
            if name == f"{prefix}ms" or name.endswith("_ms"):
                row[name] = value * factor
            elif name.endswith(RATES) and not name.startswith(("off", "added", "spread")):
                row[name] = value / factor


def impl_slower(impl, factor=1.2):
    def change(rows):
        for row in rows:
            if row.get("impl") == impl:
                slower(row, factor)
    return change


def turned(one, other):
    """Two programs exchanged: each row says the other's name."""
    def change(rows):
        for row in rows:
            row["impl"] = {one: other, other: one}.get(row.get("impl"), row.get("impl"))
    return change


def default_takes(kernel):
    def change(rows):
        for row in rows:
            if "default" in (row.get("impl"), row["part"]):
                row.update(kernel=kernel, **({"kernel_full": kernel} if "kernel_full" in row else {}), **({"backend": "FLASH_ATTENTION" if row["backend"].isupper() else "flash"} if "backend" in row else {}))
    return change


FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4> >(pytorch_flash::Flash_fwd_params)"
PLANTED = {
    "flash is 20 % slower": ("attention_roofline", impl_slower("flash")),
    "flash is 20 % faster": ("attention_roofline", impl_slower("flash", 1 / 1.2)),
    "cuDNN is 20 % slower": ("attention_roofline", impl_slower("cudnn")),
    "naive is 20 % slower": ("attention_roofline", impl_slower("naive")),
    "decoding by flash is 20 % slower": ("decode_attention", impl_slower("flash")),
    "flash and cuDNN are exchanged": ("attention_roofline", turned("flash", "cudnn")),
    "naive and flash are exchanged": ("attention_roofline", turned("flash", "naive")),
    "decoding by flash and by one part are exchanged": ("decode_attention", turned("flash", "single")),
    "another kernel by default, memory": ("flash_vs_naive_memory", default_takes(FLASH)),
    "another kernel by default, training": ("flash_backward", default_takes("flash_fwd_kernel")),
    "more errors by flash than by naive": ("attention_error", turned("flash", "naive")),
}


def red(monkeypatch, changes):
    """The names of the claims that do not hold when rows are changed: {lab: change of its rows}."""
    @functools.cache
    def result(name):
        found = copy.deepcopy(measured(name))
        if name in changes:
            changes[name](found["rows"])
            found["values"] = runner.strict(importlib.import_module(name).values(found["rows"]))
        return found

    monkeypatch.setattr(claims, "result", result)
    monkeypatch.setattr(claims, "measured", result)
    failed = []
    for name, test in vars(claims).items():
        if name.startswith("test_") and hasattr(test, "__wrapped__"):
            try:
                test.__wrapped__()
            except AssertionError:
                failed.append(name)
    return failed


def test_nothing_planted_nothing_red(monkeypatch):
    assert red(monkeypatch, {}) == []


@pytest.mark.parametrize("what", PLANTED)
def test_a_real_change_turns_a_sentence_red(monkeypatch, what):
    assert red(monkeypatch, dict([PLANTED[what]])), f"no claim notices: {what}"


def shaken(lab, seed):
    """A change of rows: each time, with the rates made of it, moves by as much as runs lay apart there, or less, up or down."""
    spread = {(row["part"], row["impl"], row["column"]): row["apart"] for row in json.loads((TOP / "tests/spread.json").read_text("utf-8"))["rows"] if row["lab"] == lab}
    draw = random.Random(seed)

    def change(rows):
        seen = collections.Counter()
        for row in rows:
            group = row["part"], row.get("impl")
            for column in [name for name in row if (*group, name) in spread]:
                apart = spread[(*group, column)]
                share = apart[seen[group]] if seen[group] < len(apart) else max(apart)
                slower(row, (1 + share) ** draw.uniform(-1, 1), column.removesuffix("ms"))
            seen[group] += 1
    return change


@pytest.mark.parametrize("seed", range(12))
def test_a_measurement_as_far_off_as_runs_lie_apart_turns_none(monkeypatch, seed):
    labs = {row["lab"] for row in json.loads((TOP / "tests/spread.json").read_text("utf-8"))["rows"]}
    assert red(monkeypatch, {lab: shaken(lab, seed) for lab in labs}) == [], "a sentence says more than several runs bear out, or its bound in test_claims.py is too near"


@pytest.mark.parametrize("lab, column", [("flash_vs_naive_memory", "flash_diff_bytes"), ("flash_vs_naive_memory", "naive_diff_bytes"), ("flash_backward", "flash_diff_bytes"), ("decode_attention", "added_diff_bytes")])
def test_a_byte_too_many_is_seen_in_every_part(lab, column):
    """By the tests of the lab's own rows: one row at a time."""
    result = measured(lab)
    check = importlib.import_module(f"test_{lab}").test_measured_bytes_are_the_predicted_ones
    check(copy.deepcopy(result))
    for part in {row["part"] for row in result["rows"] if row.get(column) is not None}:
        changed = copy.deepcopy(result)
        next(row for row in changed["rows"] if row["part"] == part and row.get(column) is not None)[column] += 1
        changed["values"] = runner.strict(importlib.import_module(lab).values(changed["rows"]))
        with pytest.raises(AssertionError):
            check(changed)


@pytest.mark.parametrize("lab", ["attention_roofline", "decode_attention", "flash_backward"])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_a_card_that_is_one_per_cent_faster_or_slower_turns_none(monkeypatch, lab, factor):
    """All times of a lab together, as one card differs from another of its kind."""
    assert red(monkeypatch, {lab: lambda rows: [slower(row, factor) for row in rows]}) == []
