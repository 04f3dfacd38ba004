"""Integers that no float holds are no scores."""

import pytest

from benchharness.tasks.submission.questions import read_answers


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, '"' + "9" * 400 + '"'])
def test_a_score_beyond_every_float_is_a_fault(number: str) -> None:
    reading = read_answers("na_prob.json", f'{{"q": {number}}}'.encode(), ["q"], kind="scores")
    assert any("expected a number" in str(fault) for fault in reading.faults)
