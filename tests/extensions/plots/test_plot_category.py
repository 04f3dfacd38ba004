import re

import pytest

from benchharness.extensions.plots.chart import Figure, Mark, named_entries
from benchharness.extensions.plots.rows import (
    categories_of_task,
    category_names,
)
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.result import Result
from benchharness.tasks.suites import SUITES, TASKS
from tests.helpers.boards import plotted, row_of

SQUAD, RACE = "squad/v2.0", "race/all"


def figure_of(suite: str, runs: list[Result], task: str) -> Figure | None:
    (board,) = build_boards([row_of(run) for run in runs], SUITES[suite])
    return categories_of_task(named_entries(board, "board-1"), board.rule, task)


def ends(bar: Mark) -> tuple[float, float]:
    """Return where a bar begins and ends."""
    found = re.fullmatch(r"M([\d.]+),[\d.]+H([\d.]+)v12H.*z", bar.paths["rect"])
    assert found is not None
    return float(found[1]), float(found[2])


def squad(model: str, seed: int = 0, **scores: float) -> Result:
    return plotted(model, SQUAD, seed, scores={"em": 0.5, "f1": 0.6, **scores})


def test_category_plot_bar_lengths_are_proportional_to_scores() -> None:
    runs = [squad("bert", f1_hasans=0.8, f1_noans=0.4, f1_best=0.9), squad("tiny", f1_hasans=0.2)]
    figure = figure_of("squad", runs, SQUAD)
    assert figure is not None
    assert [it.text for it in figure.texts] == ["questions with an answer", "questions without one"]
    *has, no = figure.marks
    lengths = {bar.texts[0].text: ends(bar)[1] - ends(bar)[0] for bar in has}
    first, second, *_ = figure.x.ticks
    unit, step = second.place - first.place, float(second.text) - float(first.text)
    assert lengths["bert"] / unit * step == pytest.approx(80, abs=0.2)
    assert lengths["tiny"] / unit * step == pytest.approx(20, abs=0.2)
    assert no.texts[1].text == "40.0"
    assert has[0].y < has[1].y < no.y
    assert figure.x.label == "f1 × 100"


def test_category_plot_bars_begin_at_zero_with_negative_scores_to_the_left() -> None:
    runs = [plotted("a", RACE, scores={"accuracy": 0.5, "accuracy_high": 0.4})]
    figure = figure_of("race", runs, RACE)
    assert figure is not None
    assert figure.x.ticks[0].text == "0"
    assert [ends(bar)[0] for bar in figure.marks] == [figure.x(0)]
    runs = [plotted("a", SQUAD, scores={"em": 0.5, "f1": 0.5, "f1_hasans": -0.3})]
    figure = figure_of("squad", runs, SQUAD)
    assert figure is not None
    assert [ends(bar)[1] for bar in figure.marks] == [figure.x(0)]


def test_category_plot_bars_show_the_median_over_seeds() -> None:
    runs = [squad("bert", seed, f1_hasans=score) for seed, score in enumerate((0.1, 0.7, 0.8))]
    figure = figure_of("squad", runs, SQUAD)
    assert figure is not None
    (bar,) = figure.marks
    assert bar.texts[1].text == "70.0"
    assert "median of 3 seeds" in bar.note


def test_category_plot_draws_four_entries_and_its_table_lists_all() -> None:
    runs = [squad(f"model {i}", f1_hasans=i / 10) for i in range(7)]
    figure = figure_of("squad", runs, SQUAD)
    assert figure is not None
    assert len(figure.marks) == 4
    assert figure.note.startswith("Only the first 4 entries")
    assert figure.table is not None
    assert len(figure.table.rows) == 7


def test_category_plot_uses_only_category_scores() -> None:
    assert set(category_names(SQUAD, SUITES["squad"].rule).values()) == {
        "f1_hasans",
        "f1_noans",
    }


def test_every_plotted_category_has_a_metric_in_a_built_in_task() -> None:
    for task in TASKS.values():
        ends = {metric.name.partition("_")[2] for metric in task.details}
        assert set(task.categories) <= ends
    assert {task.name for task in TASKS.values() if task.categories} >= {
        *("glue/ax", "squad/v2.0", "race/all", "needle/512"),
    }


def test_task_without_category_scores_has_no_category_plot() -> None:
    assert figure_of("squad", [squad("bert")], SQUAD) is None
