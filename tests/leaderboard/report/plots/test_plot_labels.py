import random

from leaderboard.report.plots.labels import LETTER, LINE, Box, Label, place_labels, shortened

FRAME = Box(left=40, top=10, right=500, bottom=300)


def box_of(label: Label) -> Box:
    width = LETTER * len(label.text)
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    bottom = label.y + 2
    return Box(left=left, top=bottom - LINE, right=left + width, bottom=bottom)


def test_label_stands_beside_its_point() -> None:
    (label,) = place_labels([(200, 100, "minilm")], [(200, 100)], FRAME)
    assert label is not None
    assert label.text == "minilm"
    assert abs(label.x - 200) <= 10
    assert abs(label.y - 100) <= 20


def test_two_hundred_labels_never_cover_each_other_nor_leave_the_frame() -> None:
    draw = random.Random(0)
    points = [(draw.uniform(40, 500), draw.uniform(10, 300), f"model {i}") for i in range(200)]
    labels = place_labels(points, [(x, y) for x, y, _ in points], FRAME)
    boxes = [box_of(label) for label in labels if label is not None]
    assert len(labels) == 200
    assert 5 < len(boxes) < 200
    assert all(FRAME.holds(box) for box in boxes)
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert not any(a.meets(b) for a, b in pairs)


def test_label_without_room_is_left_out() -> None:
    assert place_labels([(60, 100, "x" * 200)], [], FRAME) == [None]


def test_points_at_one_place_have_labels_on_different_sides() -> None:
    labels = place_labels([(250, 150, "one"), (250, 150, "other")], [(250, 150)], FRAME)
    one, other = (box_of(label) for label in labels if label is not None)
    assert not one.meets(other)


def test_long_names_are_cut_and_unseen_characters_spelled_out() -> None:
    assert shortened("bert-base-uncased") == "bert-base-uncased"
    assert shortened("a" * 40, 10) == "a" * 9 + "…"
    assert shortened("a\u202eb") == r"a\u202eb"
    assert len(shortened("\u202e" * 40)) == 26


def test_label_keeps_off_lines_where_it_can() -> None:
    point = (200.0, 100.0, "minilm")
    across = [(40.0, 88.0), (500.0, 88.0)]
    (free,), (moved,) = place_labels([point], [], FRAME), place_labels([point], [], FRAME, [across])
    assert free is not None
    assert moved is not None
    assert box_of(free).top < 88 < box_of(free).bottom
    assert not box_of(moved).top < 88 < box_of(moved).bottom


def test_label_without_room_beside_its_point_has_a_line_to_it() -> None:
    around = [(250.0 + dx, 150.0 + dy) for dx in (-60, -30, 0, 30, 60) for dy in (-14, 0, 14)]
    (label,) = place_labels([(250.0, 150.0, "minilm")], around, FRAME)
    assert label is not None
    assert label.leader is not None
    assert label.leader[:2] == (250.0, 150.0)
    assert abs(label.leader[3] - 150) < abs(label.y - 150) + 11
    assert not any(box_of(label).holds(Box(left=x, top=y, right=x, bottom=y)) for x, y in around)
