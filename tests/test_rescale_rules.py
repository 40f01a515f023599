"""examples/rescale_rules.py: its check accepts the two right rules and rejects the printed one and other wrong ones."""
import sys
from math import exp
from pathlib import Path

import outputs
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

import rescale_rules as rules  # noqa: E402


@pytest.mark.parametrize("rule", [rules.every_tile, rules.when_needed])
def test_right_rules(rule):
    rules.check(rule)


def never(m, s_max):
    return m, 1.0, 1.0


def new_base_without_rescale(m, s_max):
    return max(m, s_max), 1.0, 1.0


def only_o(m, s_max):
    return max(m, s_max), 1.0, exp(m - max(m, s_max))


def too_patient(m, s_max):
    return (m, 1.0, 1.0) if s_max - m <= 20 else rules.every_tile(m, s_max)


@pytest.mark.parametrize("rule", [rules.as_printed, never, new_base_without_rescale, only_o, too_patient])
def test_wrong_rules_are_rejected(rule):
    with pytest.raises((AssertionError, OverflowError, ZeroDivisionError)):
        rules.check(rule)


def test_the_printed_rule_is_right_only_while_nothing_is_rescaled():
    s, V = rules.row()
    for name, scores in rules.orders(s).items():
        got, rescales, _ = rules.stream(scores, V, rules.as_printed)
        right = max(abs(a - b) for a, b in zip(got, rules.one_shot(scores, V))) < 1e-12
        assert right == (rescales == 0), name


def test_the_right_rules_keep_one_factor_for_both_sums():
    for m, s_max in [(0.0, -3.0), (0.0, 0.0), (0.0, 2.0), (0.0, 50.0)]:
        for rule in (rules.every_tile, rules.when_needed):
            base, factor_l, factor_o = rule(m, s_max)
            assert factor_l == factor_o == exp(m - base)


def test_output_is_what_the_file_prints():
    assert outputs.capture("rescale_rules.txt") == (EXAMPLES / "outputs/rescale_rules.txt").read_text("utf-8"), "run `make outputs`"
