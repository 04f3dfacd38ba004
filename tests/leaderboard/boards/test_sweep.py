"""Of a sweep a board shows the best point of each task, and says of how many it is the best."""

import random

import pytest

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.cell import best_points, count_points
from benchharness.leaderboard.result import RunRow
from tests.helpers.boards import GLUE, make_failed_row, make_row, one_board

SWEEP = {"overridden": True, "is_sweep": True}


def point(rate: str, task: str, *values: float, is_sweep: bool = True) -> list[RunRow]:
    """The finished runs by one point, a seed for each value."""
    facts = {**SWEEP, "is_sweep": is_sweep}
    return [
        make_row(task=task, seed=seed, scores=value, recipe_digest=rate, **facts)
        for seed, value in enumerate(values)
    ]


ROWS = [
    *point("2e-5", "glue/rte", 0.60, 0.61, 0.62),
    *point("3e-5", "glue/rte", 0.70, 0.64, 0.63),
    *point("5e-5", "glue/rte", 0.90, 0.50, 0.51),
    *point("2e-5", "glue/cola", 0.45, 0.46, 0.47),
    *point("3e-5", "glue/cola", 0.40, 0.41, 0.42),
    *point("5e-5", "glue/cola", 0.0, 0.0, 0.0),
]


def test_the_best_median_is_chosen_task_by_task() -> None:
    (entry,) = one_board(ROWS).entries
    assert entry.cells["glue/rte"].values == (0.70, 0.64, 0.63)
    assert entry.cells["glue/cola"].values == (0.45, 0.46, 0.47)


def test_the_label_says_of_how_many_it_is_the_best() -> None:
    (entry,) = one_board(ROWS).entries
    assert entry.points == 3
    assert entry.recipe_label == "paper+set sweep, best of 3 on dev"
    (entry,) = one_board(ROWS[:6]).entries
    assert entry.recipe_label == "paper+set sweep, best of 2 on dev"


def test_any_order_of_rows_gives_the_same_board() -> None:
    shuffled = random.Random(3).sample(ROWS, len(ROWS))
    assert build_boards(shuffled, GLUE) == build_boards(ROWS, GLUE)


def test_other_values_are_another_entry_where_nobody_swept() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.60, is_sweep=False),
        *point("3e-5", "glue/rte", 0.70, is_sweep=False),
    ]
    entries = one_board(rows).entries
    assert len(entries) == 2
    assert {entry.points for entry in entries} == {0}
    assert best_points(rows, GLUE.rule) == rows


def test_a_point_that_failed_is_never_the_best() -> None:
    failed = make_failed_row(task="glue/rte", recipe_digest="1e-2", **SWEEP)
    (entry,) = one_board([failed, *ROWS]).entries
    assert entry.cells["glue/rte"].median == 0.64
    assert entry.failures == ()
    assert count_points([failed, *ROWS]) == 3


def test_a_sweep_that_failed_as_a_whole_shows_a_failure() -> None:
    rows = [
        make_failed_row(task="glue/rte", recipe_digest=rate, **SWEEP) for rate in ("2e-5", "3e-5")
    ]
    (entry,) = one_board(rows).entries
    assert (entry.points, len(entry.failures), dict(entry.cells)) == (0, 1, {})


@pytest.mark.parametrize("more", [(0.64,), (0.64, 0.64)])
def test_of_equal_points_that_with_more_seeds_counts(more: tuple[float, ...]) -> None:
    rows = [*point("2e-5", "glue/rte", 0.64), *point("3e-5", "glue/rte", *more)]
    (entry,) = one_board(rows).entries
    assert len(entry.cells["glue/rte"].values) == max(1, len(more))


def test_a_point_that_was_given_up_is_not_the_best_by_one_lucky_seed() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.99),
        *point("3e-5", "glue/rte", 0.70, 0.71, 0.72),
        *point("5e-5", "glue/rte", 0.60, 0.61, 0.62),
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/rte"].values == (0.70, 0.71, 0.72)
    assert entry.points == 3


def test_a_seed_that_failed_was_tried() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.80, 0.81),
        make_failed_row(task="glue/rte", seed=2, recipe_digest="2e-5", **SWEEP),
        *point("3e-5", "glue/rte", 0.70, 0.71, 0.72),
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/rte"].values == (0.80, 0.81)


def test_the_best_of_equal_points_says_what_chance_has_given_it() -> None:
    draw = random.Random(1)
    rows = [
        run
        for number in range(8)
        for run in point(f"{number}e-5", "glue/rte", *(draw.gauss(0.7, 0.02) for _ in range(5)))
    ]
    (entry,) = one_board(rows).entries
    cell = entry.cells["glue/rte"]
    assert cell.gain is not None
    assert 0.005 < cell.gain < 0.02
    assert f"it may score {100 * cell.gain:.1f} lower" in cell.choice


def test_one_seed_a_point_and_no_sweep_say_nothing_of_chance() -> None:
    rows = [*point("2e-5", "glue/rte", 0.6), *point("3e-5", "glue/rte", 0.7)]
    (entry,) = one_board(rows).entries
    assert (entry.cells["glue/rte"].gain, entry.cells["glue/rte"].choice) == (None, "")
    (entry,) = one_board(point("2e-5", "glue/rte", 0.6, 0.7, is_sweep=False)).entries
    assert entry.cells["glue/rte"].gain is None
