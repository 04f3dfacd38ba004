import math
import re
from collections.abc import Mapping

import pytest

from benchharness.extensions.plots.chart import Figure
from benchharness.extensions.plots.lines import curve_figures, seed_figures
from benchharness.leaderboard.result import CurvePoint


def point(step: int, loss: float, scores: Mapping[str, float] | None = None) -> CurvePoint:
    return CurvePoint(
        step=step, epoch=step / 10, loss=loss, learning_rate=1e-5, scores=scores or {}
    )


def dots(figure: Figure, line: int = 0) -> list[tuple[float, float]]:
    """Return the places of the points of a line."""
    return [
        (float(x), float(y)) for x, y in re.findall(r"M([\d.]+),([\d.]+)h0", _dots(figure)[line])
    ]


def _dots(figure: Figure) -> list[str]:
    return [path.d for path in figure.paths if path.kind.startswith("dots")]


def test_learning_curve_without_points_has_no_chart() -> None:
    assert curve_figures([]) == ()


def test_learning_curves_of_loss_and_scores_are_separate_charts() -> None:
    scored = [point(20, 0.5, {"f1": 0.7}), point(30, 0.5, {"f1": 0.81})]
    loss, score = curve_figures([point(10, 0.7), *scored])
    assert [key.text for key in loss.keys] == ["loss 0.5"]
    assert [key.text for key in score.keys] == ["f1 81"]


def test_learning_curve_chart_has_a_line_per_seed() -> None:
    curves = {f"seed {seed}": [point(0, 1.0), point(10, seed / 10)] for seed in range(5)}
    (loss,) = seed_figures(curves)
    assert [key.text for key in loss.keys] == [f"seed {n} {n / 10:g}" for n in range(5)]
    assert len({key.line for key in loss.keys}) == 5
    ends = [dots(loss, line)[-1][1] for line in range(5)]
    assert ends == sorted(ends, reverse=True)


def test_learning_curve_points_are_at_the_axis_positions_of_their_step_and_loss() -> None:
    (loss,) = curve_figures([point(0, 0.0), point(50, 0.5), point(100, 1.0)])
    x, y = loss.x, loss.y
    middle = ((x.start + x.end) / 2, (y.start + y.end) / 2)
    assert dots(loss) == [(x.start, y.start), middle, (x.end, y.end)]
    assert [tick.text for tick in x.ticks] == ["0", "50", "100"]
    assert [tick.text for tick in y.ticks] == ["0", "0.5", "1"]


def test_learning_curve_step_ticks_are_integers() -> None:
    (loss,) = curve_figures([point(1, 0.7), point(2, 0.5)])
    assert [tick.text for tick in loss.x.ticks] == ["0", "1", "2"]


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
def test_learning_curve_is_inside_the_chart_with_2_to_6_ticks(
    values: tuple[float, float],
) -> None:
    (loss,) = curve_figures([point(step, value) for step, value in enumerate(values, start=1)])
    assert len(dots(loss)) == len(values)
    assert all(
        loss.x.start <= x <= loss.x.end and loss.top <= y <= loss.bottom for x, y in dots(loss)
    )
    assert 2 <= len(loss.y.ticks) <= 6
    assert len({tick.text for tick in loss.y.ticks}) == len(loss.y.ticks)


def test_non_finite_loss_leaves_a_gap_in_the_learning_curve() -> None:
    losses = [0.7, 0.6, math.nan, 0.5, math.inf, 0.4]
    (loss,) = curve_figures([point(step, value) for step, value in enumerate(losses)])
    line, _ = loss.paths
    assert [len(piece.split()) for piece in line.d.split("M")[1:]] == [2, 1, 1]


def test_learning_curve_without_finite_values_has_no_chart() -> None:
    assert curve_figures([point(1, math.nan)]) == ()


def test_learning_curve_chart_draws_at_most_four_scores() -> None:
    scores = {f"metric {number}": 0.5 for number in range(9)}
    _, score = curve_figures([point(1, 0.5, scores), point(2, 0.5, scores)])
    assert len(score.keys) == 4


def test_learning_curve_of_a_single_point_has_no_chart() -> None:
    assert curve_figures([point(1, 0.5, {"f1": 0.8})]) == ()
