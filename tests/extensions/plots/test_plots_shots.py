"""Plot of few-shot runs: score against the number of training rows."""

from dataclasses import replace

from benchharness.extensions.plots.chart import named_entries
from benchharness.extensions.plots.lines import shot_figures
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.job import Setting
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import make_row


def figures(*runs):
    (board,) = build_boards(runs, SUITES["glue"])
    return shot_figures(named_entries(board, "b"), board)


def run(value: float, seed: int, shots: int | None = None):
    row = make_row("tiny", "glue/cola", seed, value)
    if shots is None:
        return row
    settings = {**row.settings, "shots": Setting(value=shots, source="--set")}
    return replace(row, settings=settings, recipe_digest=f"{shots:064x}", key=f"{shots}{seed}")


def test_few_shot_plot_shows_the_median_per_number_of_training_rows() -> None:
    runs = [run(0.1 * n + 0.01 * seed, seed, 8**n) for n in (1, 2) for seed in (1, 2, 3)]
    (figure,) = figures(*runs)
    assert figure.table is not None
    found = [row.cells for row in figure.table.rows]
    assert found == [("8", "3", "12.0", "11.0 to 13.0"), ("64", "3", "22.0", "21.0 to 23.0")]
    one, two = figure.marks
    assert one.x < two.x
    assert one.y > two.y


def test_few_shot_plot_needs_two_different_numbers_of_rows() -> None:
    assert figures(run(0.1, 1, 8)) == ()
    assert figures(run(0.1, 1)) == ()
