import re

import pytest

from benchharness.extensions.plots.chart import Axis, Figure, Mark, named_entries
from benchharness.extensions.plots.rows import spread_of_task
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.statistics import median_interval
from tests.helpers.boards import board_of, plotted


def figure_of(runs: list[Result], task: str = "glue/rte") -> Figure:
    figure = spread_of_task(named_entries(board_of(runs), "board-1"), task)
    assert figure is not None
    return figure


def seeds_of(model: str, *scores: float) -> list[Result]:
    return [plotted(model, seed=seed, score=score) for seed, score in enumerate(scores)]


def score_at(axis: Axis, x: float) -> float:
    first, *_, last = axis.ticks
    low, high = float(first.text), float(last.text)
    return low + (x - first.place) / (last.place - first.place) * (high - low)


def name(mark: Mark) -> str:
    return mark.texts[0].text


def line(mark: Mark) -> tuple[float, float]:
    """Return the ends of a mark's interval."""
    low, high = re.findall(r"^M([\d.]+),[\d.]+H([\d.]+)", mark.paths["interval"])[0]
    return float(low), float(high)


def dots(path: str) -> list[float]:
    return [float(x) for x in re.findall(r"M([\d.]+),", path)]


def test_seed_plot_has_a_dot_at_the_score_of_each_seed() -> None:
    figure = figure_of(seeds_of("minilm", 0.61, 0.634, 0.702))
    found = [score_at(figure.x, x) for x in dots(figure.marks[0].paths["dots"])]
    assert found == pytest.approx([61.0, 63.4, 70.2], abs=0.05)


def test_seed_plot_has_a_bar_at_the_median_and_a_line_for_its_interval() -> None:
    figure = figure_of([*seeds_of("minilm", 0.60, 0.61, 0.63), *seeds_of("bert", 0.2, 0.9)])
    row = next(row for row in figure.marks if name(row) == "minilm")
    interval = median_interval([60.0, 61.0, 63.0])
    found = [score_at(figure.x, x) for x in (*dots(row.paths["median"]), *line(row))]
    assert found == pytest.approx([61.0, interval.low, interval.high], abs=0.2)
    assert row.paths["interval"].count("v6") == 2


def test_seed_plot_clips_long_intervals_and_draws_no_cap_at_a_clipped_end() -> None:
    figure = figure_of(seeds_of("minilm", 0.600, 0.601, 0.6095))
    (row,) = figure.marks
    assert line(row) == (figure.x.start, figure.x.end)
    assert "v6" not in row.paths["interval"]


def test_seed_plot_has_no_interval_for_fewer_than_three_seeds() -> None:
    two, one = figure_of([*seeds_of("two", 0.7, 0.8), *seeds_of("one", 0.6)]).marks
    assert set(two.paths) == {"median", "dots"}
    assert set(one.paths) == {"dots"}


def test_seed_plot_rows_are_sorted_by_median_without_overlap() -> None:
    runs = [*seeds_of("low", 0.5, 0.5), *seeds_of("high", 0.9), *seeds_of("mid", 0.7)]
    rows = figure_of(runs).marks
    assert [name(row) for row in rows] == ["high", "mid", "low"]
    assert [row.y for row in rows] == sorted(row.y for row in rows)
    assert len({row.entry for row in rows}) == 3


def test_seed_plot_draws_collapsed_runs_as_crosses() -> None:
    good, bad = seeds_of("minilm", 0.7, 0.5)
    flagged = tuple(
        type(e)(**{**vars(e), "flags": ("constant predictions",)}) for e in bad.evaluations
    )
    figure = figure_of([good, type(bad)(**{**vars(bad), "evaluations": flagged})])
    assert len(dots(figure.marks[0].paths["dots"])) == 1
    assert score_at(figure.x, dots(figure.marks[0].paths["crosses"])[0] + 3) == pytest.approx(
        50, abs=0.1
    )


def test_seed_plot_note_lists_every_seed() -> None:
    note = figure_of(seeds_of("minilm", 0.61, 0.634, 0.702)).marks[0].note
    assert note.startswith("minilm (paper): median 63.4 (95 % interval from ")
    assert note.endswith("61.0 (seed 0), 63.4 (seed 1), 70.2 (seed 2)")


def test_seed_plot_draws_up_to_200_rows() -> None:
    runs = [plotted(f"model {i}", score=0.4 + i / 500) for i in range(200)]
    runs.append(plotted("model 0", seed=1, score=0.4))
    figure = figure_of(runs)
    assert figure.height > 200 * 15
    assert len(figure.marks) == 200
    assert all(figure.top < row.y < figure.bottom for row in figure.marks)
    assert figure.note == ""
    assert "model 199 79.8" in figure.description


def test_seed_plot_note_counts_rows_beyond_200() -> None:
    runs = [plotted(f"model {i}", score=0.4 + i / 500) for i in range(203)]
    runs.append(plotted("model 0", seed=1, score=0.4))
    figure = figure_of(runs)
    assert len(figure.marks) == 200
    assert figure.note == "Only the best 200 rows are drawn; the leaderboard's table has 3 more."


def test_task_without_runs_has_no_seed_plot() -> None:
    assert spread_of_task(named_entries(board_of([plotted()]), "board-1"), "glue/cola") is None


def test_seed_plot_needs_an_entry_with_two_seeds() -> None:
    board = board_of([plotted("minilm"), plotted("bert", score=0.7)])
    assert spread_of_task(named_entries(board, "board-1"), "glue/rte") is None
    assert len(figure_of([*seeds_of("minilm", 0.6, 0.7), plotted("bert")]).marks) == 2
