"""Rounding of numbers that are compared with a limit."""

import pytest

from benchharness.leaderboard.text import rounded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.456, "+3.46"),
        (0.003, "+0.003"),
        (-0.00004, "-0.00004"),
        (0.0, "+0.00"),
        (-0.0, "+0.00"),
        (-1e-15, "+0.00"),
    ],
)
def test_interval_bound_is_not_rounded_to_0(value: float, text: str) -> None:
    assert rounded(value, "+.2f") == text


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.0499, ".4f", "0.0499"),
        (0.04997, ".4f", "0.04997"),
        (0.05003, ".4f", "0.05003"),
        (0.05, ".4f", "0.0500"),
        (0.0499, ".2g", "0.0499"),
        (0.00123, ".2g", "0.0012"),
    ],
)
def test_p_value_is_not_rounded_to_the_significance_level(
    value: float, form: str, text: str
) -> None:
    assert rounded(value, form, 0.05) == text
