import random

from benchharness.extensions.plots.chart import Axis, Text, place_labels, shortened

X = Axis(label="", low=0, high=1, start=40, end=500)
Y = Axis(label="", low=0, high=1, start=300, end=10)

Box = tuple[float, float, float, float]


def box_of(label: Text) -> Box:
    """Return left, top, right and bottom of a label, with about 7 units per letter."""
    width = 7.0 * len(label.text)
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return left, label.y - 11, left + width, label.y + 2


def meet(one: Box, other: Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def placed(
    points: list[Text], marks: list[tuple[float, float]], *lines: list[tuple[float, float]]
) -> list[Text | None]:
    return place_labels(points, marks, lines, (X, Y))


def minilm(x: float, y: float) -> Text:
    return Text(x=x, y=y, text="minilm")


def test_point_label_is_placed_next_to_its_point() -> None:
    (label,) = placed([minilm(200, 100)], [(200, 100)])
    assert label is not None
    assert label.text == "minilm"
    assert abs(label.x - 200) <= 10
    assert abs(label.y - 100) <= 20


def test_point_labels_overlap_nothing_and_are_inside_the_plot() -> None:
    draw = random.Random(0)
    points = [
        Text(x=draw.uniform(40, 500), y=draw.uniform(10, 300), text=f"model {i}")
        for i in range(200)
    ]
    marks = [(point.x, point.y) for point in points]
    boxes = [box_of(label) for label in placed(points[:50], marks) if label is not None]
    assert 5 < len(boxes) < 50
    assert all(box[0] >= 40 and box[2] <= 500 and box[1] >= 10 and box[3] <= 300 for box in boxes)
    assert not any(meet(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert not any(meet(box, (x, y, x, y)) for box in boxes for x, y in marks)


def test_point_label_without_space_is_omitted() -> None:
    assert placed([Text(x=60, y=100, text="x" * 200)], []) == [None]
    around = [(250.0 + dx, 150.0 + dy) for dx in (-60, -30, 0, 30, 60) for dy in (-14, 0, 14)]
    assert placed([minilm(250.0, 150.0)], around) == [None]


def test_labels_of_coinciding_points_do_not_overlap() -> None:
    labels = placed([minilm(250, 150), minilm(250, 150)], [(250, 150)])
    one, other = (box_of(label) for label in labels if label is not None)
    assert not meet(one, other)


def test_point_labels_shorten_long_names_and_escape_invisible_characters() -> None:
    assert shortened("bert-base-uncased") == "bert-base-uncased"
    assert shortened("a" * 40, 10) == "a" * 9 + "…"
    assert shortened("a\u202eb") == r"a\u202eb"
    assert len(shortened("\u202e" * 40)) == 26


def test_point_labels_do_not_overlap_lines() -> None:
    across = [(40.0, 88.0), (500.0, 88.0)]
    (free,), (moved,) = placed([minilm(200, 100)], []), placed([minilm(200, 100)], [], across)
    assert free is not None
    assert moved is not None
    assert box_of(free)[1] < 88 < box_of(free)[3]
    assert not box_of(moved)[1] < 88 < box_of(moved)[3]
