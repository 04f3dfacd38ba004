from hypothesis import given
from hypothesis import strategies as st

from benchharness.extensions.plots.tradeoff import pareto_front

# Few distinct values, so that points often have equal costs or scores.
points = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda p: (float(p[0]), float(p[1]))),
    max_size=30,
)


def is_beaten(point: tuple[float, float], other: tuple[float, float]) -> bool:
    return other != point and other[0] <= point[0] and other[1] >= point[1]


@given(points)
def test_pareto_front_has_exactly_the_undominated_points(
    points: list[tuple[float, float]],
) -> None:
    expected = {
        place
        for place, point in enumerate(points)
        if not any(is_beaten(point, other) for other in points)
    }
    found = pareto_front(points)
    assert set(found) == expected
    assert len(found) == len(expected)


@given(points)
def test_pareto_front_is_sorted_by_cost_with_rising_scores(
    points: list[tuple[float, float]],
) -> None:
    front = [points[place] for place in pareto_front(points)]
    assert front == sorted(front)
    assert [score for _, score in front] == sorted(score for _, score in front)


def test_pareto_front_of_no_points_is_empty() -> None:
    assert pareto_front([]) == []
