"""The leaderboard shows the best point of a sweep per task, with the number of points."""

import random
from dataclasses import replace

import pytest
from rich.console import Console

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.cell import best_points, count_points, shown
from benchharness.leaderboard.boards.terminal import render
from benchharness.leaderboard.result import RunRow
from tests.helpers.boards import GLUE, make_failed_row, make_row, one_board, with_measures

SWEEP = {"overridden": True, "is_sweep": True}


def point(rate: str, task: str, *values: float, is_sweep: bool = True) -> list[RunRow]:
    """Make the finished runs of one point, one seed per value."""
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


def test_best_setting_of_a_sweep_is_selected_per_task_by_its_median_score() -> None:
    (entry,) = one_board(ROWS).entries
    assert entry.cells["glue/rte"].values == (0.70, 0.64, 0.63)
    assert entry.cells["glue/cola"].values == (0.45, 0.46, 0.47)


def test_label_of_a_sweep_states_the_number_of_hyperparameter_settings() -> None:
    (entry,) = one_board(ROWS).entries
    assert entry.points == 3
    assert entry.recipe_label == "paper+set sweep, best of 3 on dev"
    (entry,) = one_board(ROWS[:6]).entries
    assert entry.recipe_label == "paper+set sweep, best of 2 on dev"


def test_best_setting_of_a_sweep_does_not_depend_on_the_order_of_runs() -> None:
    shuffled = random.Random(3).sample(ROWS, len(ROWS))
    assert build_boards(shuffled, GLUE) == build_boards(ROWS, GLUE)


def test_runs_with_different_values_are_separate_entries_unless_in_a_sweep() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.60, is_sweep=False),
        *point("3e-5", "glue/rte", 0.70, is_sweep=False),
    ]
    entries = one_board(rows).entries
    assert len(entries) == 2
    assert {entry.points for entry in entries} == {0}
    assert best_points(rows, GLUE.rule) == rows


def test_failed_setting_of_a_sweep_is_never_the_best() -> None:
    failed = make_failed_row(task="glue/rte", recipe_digest="1e-2", **SWEEP)
    (entry,) = one_board([failed, *ROWS]).entries
    assert entry.cells["glue/rte"].median == 0.64
    assert entry.failures == ()
    assert count_points([failed, *ROWS]) == 3


def test_sweep_whose_settings_all_failed_shows_a_single_failure() -> None:
    rows = [
        make_failed_row(task="glue/rte", recipe_digest=rate, **SWEEP) for rate in ("2e-5", "3e-5")
    ]
    (entry,) = one_board(rows).entries
    assert (entry.points, len(entry.failures), dict(entry.cells)) == (0, 1, {})


@pytest.mark.parametrize("more", [(0.64,), (0.64, 0.64)])
def test_sweep_prefers_the_setting_with_more_seeds_among_settings_with_equal_scores(
    more: tuple[float, ...],
) -> None:
    rows = [*point("2e-5", "glue/rte", 0.64), *point("3e-5", "glue/rte", *more)]
    (entry,) = one_board(rows).entries
    assert len(entry.cells["glue/rte"].values) == max(1, len(more))


def test_sweep_prefers_settings_with_all_seeds_over_incomplete_settings() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.99),
        *point("3e-5", "glue/rte", 0.70, 0.71, 0.72),
        *point("5e-5", "glue/rte", 0.60, 0.61, 0.62),
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/rte"].values == (0.70, 0.71, 0.72)
    assert entry.points == 3


def test_failed_run_counts_as_a_seed_of_its_setting_in_a_sweep() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.80, 0.81),
        make_failed_row(task="glue/rte", seed=2, recipe_digest="2e-5", **SWEEP),
        *point("3e-5", "glue/rte", 0.70, 0.71, 0.72),
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/rte"].values == (0.80, 0.81)


def test_sweep_of_equally_good_settings_shows_the_expected_selection_gain() -> None:
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


def test_sweep_with_one_finished_setting_has_no_selection_gain() -> None:
    (entry,) = one_board(point("2e-5", "glue/rte", 0.6, 0.7)).entries
    assert entry.cells["glue/rte"].gain is None
    assert entry.cells["glue/rte"].choice == ""


def test_leaderboard_prints_the_selection_bias_of_a_sweep() -> None:
    rows = [
        *point("2e-5", "glue/rte", 0.688, 0.5),
        *point("3e-5", "glue/rte", 0.5, 0.5),
        *point("2e-5", "glue/mrpc", 0.70, 0.71),
        *point("3e-5", "glue/mrpc", 0.60, 0.61),
        *point("2e-5", "glue/cola", 0.5, 0.5),
        *point("3e-5", "glue/cola", 0.4, 0.4),
    ]
    board = one_board(rows)
    console = Console(width=400, record=True)
    render(board, console)
    text = console.export_text()
    best = f"{board.entries[0].name}: being chosen as the best of 2 settings raises"
    bias = shown(board.entries[0].cells["glue/rte"].gain or 0.0)
    assert float(bias) > 3
    assert (
        f"{best} MRPC by less than 0.1, RTE by {bias} (estimates). Expect scores that are lower by "
        "this much with other seeds."
    ) in text or f"{best} RTE by {bias}, MRPC by less than 0.1 (estimates)." in text
    assert (
        f"{best} CoLA by an unknown amount: in each setting, all seeds have the same score." in text
    )
    notes = {task: cell.choice for task, cell in board.entries[0].cells.items()}
    assert "unknown: in each setting" in notes["glue/cola"]
    assert notes["glue/mrpc"].endswith("with other seeds it may score less than 0.1 lower")


def test_selection_gain_is_omitted_for_single_seeds_and_without_a_sweep() -> None:
    rows = [*point("2e-5", "glue/rte", 0.6), *point("3e-5", "glue/rte", 0.7)]
    (entry,) = one_board(rows).entries
    assert (entry.cells["glue/rte"].gain, entry.cells["glue/rte"].choice) == (None, "")
    (entry,) = one_board(point("2e-5", "glue/rte", 0.6, 0.7, is_sweep=False)).entries
    assert entry.cells["glue/rte"].gain is None


def test_task_predicted_by_runs_on_another_task_has_no_selection_gain() -> None:
    points = [*point("2e-5", "glue/mnli", 0.7, 0.7), *point("3e-5", "glue/mnli", 0.7, 0.7)]
    rows = [
        with_measures(replace(run, scores={**run.scores, "glue/ax": {"mcc": 0.3}}))
        for run in points
    ]
    (entry,) = one_board(rows).entries
    assert entry.cells["glue/mnli"].gain is not None
    ax = entry.cells["glue/ax"]
    assert (ax.gain, [other.values for other in ax.others]) == (None, [(0.3, 0.3)])
