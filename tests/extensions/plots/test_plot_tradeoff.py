import math
import random
import re
from typing import Any

import pytest

from benchharness.extensions.plots.chart import WIDTH, Figure, Mark
from benchharness.extensions.plots.tradeoff import MOST_MARKS, Point, tradeoffs

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


def only(points: list[Point]) -> Figure:
    (figure,) = tradeoffs(points, "rte")
    return figure


def read_off(figure: Figure, x: float, y: float) -> tuple[float, float]:
    """Return the cost and the score that a reader finds at a place by the outer ticks alone."""
    left, *_, right = figure.x.ticks
    low, *_, high = figure.y.ticks
    a, b = (math.log(float(t.text[:-1]) * POWERS[t.text[-1]]) for t in (left, right))
    cost = math.exp(a + (x - left.place) / (right.place - left.place) * (b - a))
    c, d = float(low.text), float(high.text)
    return cost, c + (y - low.place) / (high.place - low.place) * (d - c)


def corners(d: str) -> list[tuple[float, float]]:
    """Return the corners of a path."""
    pairs = (corner.split(",") for corner in d.removeprefix("M").split())
    return [(float(x), float(y)) for x, y in pairs]


def is_on_front(mark: Mark) -> bool:
    return "on-front" in mark.kind


def is_named(mark: Mark) -> bool:
    """Return whether the name of a mark is always visible."""
    return mark.texts[0].kind == "label"


def test_tradeoff_points_are_at_the_axis_positions_of_their_cost_and_score() -> None:
    points = [point(52.5, 4.4e6), point(61.0, 22.7e6), point(87.4, 335e6), point(70, 110e6)]
    figure = only(points)
    for mark, drawn in zip(figure.marks, points, strict=True):
        cost, score = read_off(figure, mark.x, mark.y)
        assert cost == pytest.approx(drawn.costs["parameters"], rel=0.01)
        assert score == pytest.approx(drawn.score, abs=0.1)


def test_tradeoff_plot_shows_the_seed_range_as_a_line() -> None:
    figure = only([point(60, low=55.0, high=62.0), point(70, 1e8)])
    mark = figure.marks[0]
    (_, low), (_, high) = corners(mark.paths["range"])
    assert read_off(figure, mark.x, low)[1] == pytest.approx(55, abs=0.1)
    assert read_off(figure, mark.x, high)[1] == pytest.approx(62, abs=0.1)
    assert "seeds from 55.0 to 62.0" in mark.note


def test_pareto_front_is_a_step_line_through_named_points() -> None:
    figure = only([point(50, 1e6, name="a"), point(40, 1e7, name="b"), point(70, 1e8, name="c")])
    a, b, c = figure.marks
    assert [is_on_front(mark) for mark in (a, b, c)] == [True, False, True]
    (front,) = figure.paths
    assert corners(front.d) == [(a.x, a.y), (c.x, a.y), (c.x, c.y)]
    assert [mark.texts[0].text for mark in (a, b, c)] == ["a", "b", "c"]
    assert [is_named(mark) for mark in (a, b, c)] == [True, False, True]
    assert "Pareto front, measured: a 50.0 at 1M; c 70.0 at 100M." in figure.description


def test_measured_and_published_points_have_separate_pareto_fronts() -> None:
    ours, theirs = point(60, 1e7), point(90, 1e6, kind="published", name="BERT", entry="")
    figure = only([ours, theirs])
    assert [path.kind for path in figure.paths] == ["front measured", "front published"]
    assert [mark.kind for mark in figure.marks] == ["published on-front", "measured on-front"]


def test_tradeoff_plot_needs_points_of_two_distinct_costs() -> None:
    assert tradeoffs([point()], "rte") == ()
    assert tradeoffs([point(), point(70), point(80, 1.001e7)], "rte") == (), "all look like 10M"
    figure = only([point(), point(parameters=2e7)])
    assert len(figure.x.ticks) >= 2
    assert len(figure.y.ticks) >= 2
    assert figure.description.startswith("2 measured points. ")


def test_tradeoff_plot_is_omitted_without_points() -> None:
    assert tradeoffs([], "rte") == ()
    assert tradeoffs([point(costs={})], "rte") == ()


def test_tradeoff_plot_of_200_points_labels_only_the_pareto_front() -> None:
    draw = random.Random(1)
    points = [
        point(draw.uniform(40, 90), 10 ** draw.uniform(6, 9), name=f"model {i}") for i in range(200)
    ]
    figure = only(points)
    assert figure.width == WIDTH
    assert all(figure.x.start <= mark.x <= figure.x.end for mark in figure.marks)
    assert all(figure.top <= mark.y <= figure.bottom for mark in figure.marks)
    assert all(is_on_front(mark) or not is_named(mark) for mark in figure.marks)
    assert 3 <= sum(map(is_named, figure.marks)) <= 20


def test_axis_label_states_if_the_axis_does_not_start_at_zero() -> None:
    figure = only([point(60), point(70, 2e7)])
    lowest = figure.y.ticks[0].text
    assert figure.y.label == f"rte × 100, axis from {lowest}"
    assert only([point(2), point(70, 2e7)]).y.label == "rte × 100"
    assert "log scale" in figure.x.label


def test_tradeoff_plot_note_counts_points_without_a_cost() -> None:
    costs = {"parameters": 1e7, "training-flops": 1e15}
    more = {name: 2 * cost for name, cost in costs.items()}
    parameters, flops = tradeoffs([point(costs=costs), point(costs=more), point(70)], "rte")
    assert "comparable cost" not in parameters.note
    assert "comparable cost: 1 row." in flops.note
    assert "6·N·T" in flops.note
    assert "arXiv:2001.08361" in flops.note


def test_training_times_are_shown_for_the_most_common_machine() -> None:
    def timed(machine: str, seconds: float) -> Point:
        return point(costs={"training-time": seconds}, machine=machine)

    figure = only([timed("a", 10), timed("b", 20), timed("b", 30)])
    assert figure.choice == "training time (b)"
    assert len(figure.marks) == 2


def test_labels_of_points_near_the_plot_edge_extend_to_the_inside() -> None:
    figure = only([point(80, 1e5), point(60, 1e6), point(70, 1e9)])
    assert [mark.texts[0].anchor for mark in figure.marks[1:]] == ["start", "end"]
    assert not re.search(r"nan|inf", repr(figure))


def test_tradeoff_plot_note_counts_points_beyond_the_limit() -> None:
    draw = random.Random(2)
    points = [
        point(draw.uniform(40, 90), 10 ** draw.uniform(6, 9), name=f"model {i}")
        for i in range(3000)
    ]
    figure = only(points)
    assert len(figure.marks) == MOST_MARKS
    assert "table has 2,800 more." in figure.note
    assert sum(map(is_on_front, figure.marks)) > 2


def test_tradeoff_plot_needs_a_model_that_has_learned() -> None:
    collapsed = [
        point(50.0, size, has_learned=False, flags=("collapsed",), name=f"m{size:g}")
        for size in (1e7, 1e8)
    ]
    assert tradeoffs(collapsed, "rte") == ()
    (figure,) = tradeoffs([*collapsed, point(70.0, 1e9)], "rte")
    names = {mark.texts[0].text: is_on_front(mark) for mark in figure.marks}
    assert names == {"m1e+07!": False, "m1e+08!": False, "minilm": True}
