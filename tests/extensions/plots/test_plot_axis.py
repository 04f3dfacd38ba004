import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchharness.extensions.plots.chart import (
    Axis,
    linear_axis,
    log_axis,
)
from benchharness.extensions.plots.cost import QUANTITIES

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}

scores = st.lists(st.floats(-100, 100), min_size=1, max_size=8)
costs = st.lists(st.floats(1.0, 1e12), min_size=1, max_size=8)


def read_off(axis: Axis, place: float) -> float:
    """Return the value that a reader finds at a place."""
    share = (place - axis.start) / (axis.end - axis.start)
    if axis.log:
        return math.exp(math.log(axis.low) + share * math.log(axis.high / axis.low))
    return axis.low + share * (axis.high - axis.low)


@given(scores)
def test_linear_axis_places_values_between_its_ends_and_to_scale(values: list[float]) -> None:
    axis = linear_axis(values, "score", (300.0, 10.0))
    for value in values:
        assert 10.0 <= axis(value) <= 300.0
        assert read_off(axis, axis(value)) == pytest.approx(
            value, abs=0.0003 * (axis.high - axis.low)
        )


@given(costs)
def test_logarithmic_axis_places_values_between_its_ends_and_to_scale(values: list[float]) -> None:
    axis = log_axis(values, "weights", (40.0, 500.0), steps=BY_NAME["parameters"].steps, text=str)
    factor = axis.high / axis.low
    for value in values:
        assert 40.0 <= axis(value) <= 500.0
        assert read_off(axis, axis(value)) == pytest.approx(value, rel=factor**0.0002 - 1)


@given(costs, st.sampled_from(QUANTITIES))
@example([8508196.0, 40625316620.0], QUANTITIES[0])
@example([8508196.0, 40625316620.0], QUANTITIES[-1])
@example([13540030932.0, 598226107532.0], QUANTITIES[-1])
def test_logarithmic_axes_have_2_to_7_distinct_ticks(values: list[float], quantity: object) -> None:
    found = next(each for each in QUANTITIES if each is quantity)
    axis = log_axis(values, "cost", (40.0, 500.0), steps=found.steps, text=found.text)
    texts = [tick.text for tick in axis.ticks]
    assert 2 <= len(texts) <= 7
    assert len(set(texts)) == len(texts)
    assert all(40.0 <= tick.place <= 500.0 for tick in axis.ticks)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("parameters", 22_713_601, "22.7M"),
        ("parameters", 110e6, "110M"),
        ("parameters", 11e9, "11B"),
        ("parameters", 999_999_999, "1B"),
        ("parameters", 40_000, "40k"),
        ("training-flops", 2.34e15, "2.3×10¹⁵"),
        ("training-flops", 1e9, "10⁹"),
        ("training-flops", 9.99e9, "10¹⁰"),
        ("training-flops", 42.0, "42"),
        ("training-time", 9.25, "9.25 s"),
        ("training-time", 587.3, "9.79 min"),
        ("training-time", 7200, "2 h"),
        ("training-time", 172_800, "2 d"),
    ],
)
def test_costs_are_formatted_with_three_digits_and_a_unit(
    name: str, value: float, text: str
) -> None:
    assert BY_NAME[name].text(value) == text
