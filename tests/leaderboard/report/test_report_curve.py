import math
from collections.abc import Mapping

import pytest

from leaderboard.report.plots.curve import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, curve_panels
from leaderboard.result import CurvePoint


def point(step: int, loss: float, scores: Mapping[str, float] | None = None) -> CurvePoint:
    return CurvePoint(
        step=step, epoch=step / 10, loss=loss, learning_rate=1e-5, scores=scores or {}
    )


def test_no_points_no_chart() -> None:
    assert curve_panels([]) == ()


def test_loss_and_scores_have_a_chart_each() -> None:
    loss, score = curve_panels([point(10, 0.7), point(20, 0.5, {"f1": 0.81})])
    assert [line.name for line in loss.lines] == ["loss"]
    assert [(line.name, line.last) for line in score.lines] == [("f1", "81")]


def test_points_stand_where_the_ticks_say() -> None:
    (loss,) = curve_panels([point(0, 0.0), point(50, 0.5), point(100, 1.0)])
    middle = ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)
    assert loss.lines[0].dots == ((LEFT, HEIGHT - BOTTOM), middle, (WIDTH - RIGHT, TOP))
    assert [tick.text for tick in loss.x_ticks] == ["0", "50", "100"]
    assert [tick.text for tick in loss.y_ticks] == ["0", "0.5", "1"]


def test_steps_are_whole_numbers() -> None:
    (loss,) = curve_panels([point(1, 0.7), point(2, 0.5)])
    assert [tick.text for tick in loss.x_ticks] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "values",
    [
        (0.69, 0.12),
        (0.5, 0.5),
        (0.0, 0.0),
        (-0.3, 0.4),
        (1e-9, 3e-9),
        (1e30, 1.0),
        (1234.5, 987.6),
        (0.1 + 0.2, 0.3),
        (99.99, 100.0),
    ],
)
def test_every_value_is_inside_and_ticks_are_few(values: tuple[float, float]) -> None:
    (loss,) = curve_panels([point(step, value) for step, value in enumerate(values, start=1)])
    assert all(
        LEFT <= x <= WIDTH - RIGHT and TOP <= y <= HEIGHT - BOTTOM for x, y in loss.lines[0].dots
    )
    assert 2 <= len(loss.y_ticks) <= 6
    assert len({tick.text for tick in loss.y_ticks}) == len(loss.y_ticks)


def test_value_that_is_not_finite_leaves_a_gap() -> None:
    losses = [0.7, 0.6, math.nan, 0.5, math.inf, 0.4]
    (loss,) = curve_panels([point(step, value) for step, value in enumerate(losses)])
    assert [len(piece.split()) for piece in loss.lines[0].pieces] == [2, 1, 1]


def test_nothing_finite_no_chart() -> None:
    assert curve_panels([point(1, math.nan)]) == ()


def test_four_scores_at_most() -> None:
    scores = {f"metric {number}": 0.5 for number in range(9)}
    _, score = curve_panels([point(1, 0.5, scores)])
    assert len(score.lines) == 4
