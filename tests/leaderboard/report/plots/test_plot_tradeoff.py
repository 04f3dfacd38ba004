import math
import random
import re
from typing import Any

import pytest

from leaderboard.report.plots.axis import WIDTH
from leaderboard.report.plots.point import Point
from leaderboard.report.plots.tradeoff import HEIGHT, MOST_MARKS, Tradeoff, tradeoffs

POWERS = {"k": 1e3, "M": 1e6, "B": 1e9}


def point(score: float = 60.0, parameters: float = 1e7, **fields: Any) -> Point:
    standard: dict[str, Any] = {
        "kind": "measured",
        "entry": "board-1-e0",
        "name": "minilm",
        "details": "paper, fp32",
        "score": score,
        "low": score,
        "high": score,
        "costs": {"parameters": parameters},
        "machine": "",
        "href": "#runs-1",
    }
    return Point(**{**standard, **fields})


def only(points: list[Point]) -> Tradeoff:
    (figure,) = tradeoffs(points, "rte")
    return figure


def read_off(figure: Tradeoff, x: float, y: float) -> tuple[float, float]:
    """The cost and the score that a reader finds at a place by the outer ticks alone."""
    left, *_, right = figure.frame.x_ticks
    low, *_, high = figure.frame.y_ticks
    a, b = (math.log(float(t.text[:-1]) * POWERS[t.text[-1]]) for t in (left, right))
    cost = math.exp(a + (x - left.place) / (right.place - left.place) * (b - a))
    c, d = float(low.text), float(high.text)
    return cost, c + (y - low.place) / (high.place - low.place) * (d - c)


def test_points_stand_where_the_ticks_say() -> None:
    points = [point(52.5, 4.4e6), point(61.0, 22.7e6), point(87.4, 335e6), point(70, 110e6)]
    figure = only(points)
    for mark, drawn in zip(figure.marks, points, strict=True):
        cost, score = read_off(figure, mark.x, mark.y)
        assert cost == pytest.approx(drawn.costs["parameters"], rel=0.01)
        assert score == pytest.approx(drawn.score, abs=0.1)


def test_seeds_are_a_line_through_the_point() -> None:
    figure = only([point(60, low=55.0, high=62.0), point(70, 1e8)])
    mark = figure.marks[0]
    assert read_off(figure, mark.x, mark.low)[1] == pytest.approx(55, abs=0.1)
    assert read_off(figure, mark.x, mark.high)[1] == pytest.approx(62, abs=0.1)
    assert "seeds from 55.0 to 62.0" in mark.note


def test_front_steps_from_point_to_point_and_names_them() -> None:
    figure = only([point(50, 1e6, name="a"), point(40, 1e7, name="b"), point(70, 1e8, name="c")])
    a, b, c = figure.marks
    assert [mark.on_front for mark in (a, b, c)] == [True, False, True]
    (front,) = (front for front in figure.fronts if front.corners)
    assert front.corners == ((a.x, a.y), (c.x, a.y), (c.x, c.y))
    assert [mark.label and mark.label.text for mark in (a, b, c)] == ["a", None, "c"]
    assert b.hover.text == "b"
    assert "Front of the measured: a 50.0 at 1M; c 70.0 at 100M." in figure.description


def test_measured_and_published_have_a_front_each() -> None:
    ours, theirs = point(60, 1e7), point(90, 1e6, kind="published", name="BERT", entry="")
    figure = only([ours, theirs])
    assert all(mark.on_front for mark in figure.marks)
    assert [front.kind for front in figure.fronts if front.corners] == ["measured", "published"]
    assert [mark.kind for mark in figure.marks] == ["published", "measured"]


def test_one_point_is_a_figure() -> None:
    figure = only([point()])
    assert len(figure.frame.x_ticks) >= 2
    assert len(figure.frame.y_ticks) >= 2
    assert figure.marks[0].label is not None
    assert figure.description.startswith("1 measured point. ")


def test_no_points_are_no_figure() -> None:
    assert tradeoffs([], "rte") == ()
    assert tradeoffs([point(costs={})], "rte") == ()


def test_two_hundred_points_stay_inside_and_only_the_front_is_named() -> None:
    draw = random.Random(1)
    points = [
        point(draw.uniform(40, 90), 10 ** draw.uniform(6, 9), name=f"model {i}") for i in range(200)
    ]
    figure = only(points)
    frame = figure.frame
    assert (frame.width, frame.height) == (WIDTH, HEIGHT)
    assert all(frame.left <= mark.x <= frame.right for mark in figure.marks)
    assert all(frame.top <= mark.y <= frame.bottom for mark in figure.marks)
    assert all(mark.on_front or mark.label is None for mark in figure.marks)
    assert 3 <= sum(mark.label is not None for mark in figure.marks) <= 20


def test_axis_says_that_it_does_not_start_at_zero() -> None:
    figure = only([point(60), point(70)])
    lowest = figure.frame.y_ticks[0].text
    assert figure.frame.y_label == f"rte × 100, axis from {lowest}"
    assert only([point(2), point(70)]).frame.y_label == "rte × 100"
    assert "log scale" in figure.frame.x_label


def test_points_without_a_cost_are_counted() -> None:
    costs = {"parameters": 1e7, "training-flops": 1e15}
    parameters, flops = tradeoffs([point(costs=costs), point(70)], "rte")
    assert (parameters.left_out, flops.left_out) == (0, 1)
    assert "6·N·T" in flops.note
    assert "arXiv:2001.08361" in flops.note


def test_times_of_two_machines_are_two_figures() -> None:
    def timed(machine: str, seconds: float) -> Point:
        return point(costs={"training-time": seconds}, machine=machine)

    figures = tradeoffs([timed("a", 10), timed("b", 20), timed("b", 30)], "rte")
    assert [figure.choice for figure in figures] == ["training time (b)", "training time (a)"]
    assert [len(figure.marks) for figure in figures] == [2, 1]


def test_names_on_both_sides_have_room_when_pointed_at() -> None:
    figure = only([point(60, 1e6), point(70, 1e9)])
    assert [mark.hover.anchor for mark in figure.marks] == ["start", "end"]
    assert not re.search(r"nan|inf", repr(figure))


def test_of_thousands_the_best_have_marks_and_the_others_are_dots() -> None:
    draw = random.Random(2)
    points = [
        point(draw.uniform(40, 90), 10 ** draw.uniform(6, 9), name=f"model {i}")
        for i in range(3000)
    ]
    figure = only(points)
    assert len(figure.marks) == MOST_MARKS
    assert figure.rest_count == 3000 - MOST_MARKS
    dots = re.findall(r"M(\d+),(\d+)h0", figure.rest)
    assert len(set(dots)) == len(dots) > 500
    frame = figure.frame
    assert all(frame.left <= int(x) <= frame.right for x, _ in dots)
    assert all(frame.top <= int(y) <= frame.bottom for _, y in dots)
    assert sum(mark.on_front for mark in figure.marks) == len(figure.fronts[0].points)
