"""examples/exp2_polynomial.py: right to four digits, lost under bf16's rounding; worse polynomials are rejected."""
import sys
from pathlib import Path

import outputs
import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

import exp2_polynomial as lesson  # noqa: E402


def test_check_accepts_the_polynomial():
    lesson.check()


@pytest.mark.parametrize("p", [(1.0, 1.0), (1.0, 0.6565, 0.3435), (1.0, 0.6931, 0.2402, 0.0555)])
def test_check_rejects_a_polynomial_that_is_not_good_enough(p):
    with pytest.raises(AssertionError):
        lesson.check(lambda x: lesson.exp2(x, p))


def test_exponent_bits_give_the_power_of_two():
    for n in range(-126, 128):
        assert lesson.exp2(float(n)) == 2.0**n


def test_bf16_rounds_as_torch_does():
    values = torch.randn(2000, dtype=torch.float32, generator=torch.Generator().manual_seed(0)).exp2()
    ties = 1 + torch.arange(8) / 256                                   # halfway between two bf16 numbers, or one of them
    for x in torch.cat([values, ties]).tolist():
        assert lesson.bf16(x) == torch.tensor(x).to(torch.bfloat16).item()


def test_figures_of_the_paper():
    """Section 3.1.3: 8.8e-5 in fp32 for degree 3 (here the coefficients have four digits), 3.9e-3 in bf16."""
    assert 8.7e-5 < lesson.largest_error(lesson.exp2) < 1.1e-4
    assert round(lesson.largest_error(lambda x: lesson.bf16(lesson.exp2(x))), 4) == 0.0039


def test_output_is_what_the_file_prints():
    assert outputs.capture("exp2_polynomial.txt") == (EXAMPLES / "outputs/exp2_polynomial.txt").read_text("utf-8"), "run `make outputs`"
