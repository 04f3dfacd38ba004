"""A model over time: every run of a task by the day it finished, with the code that made it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import build_cell, shown
from benchharness.leaderboard.boards.grouping import evaluation_fingerprints
from benchharness.leaderboard.boards.naming import recipe_names
from benchharness.leaderboard.report.plots.axis import (
    Axis,
    date_axis,
    date_text,
    score_axis,
    seconds_of,
)
from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Corner,
    Figure,
    Line,
    Point,
    Table,
    TableRow,
    Text,
    place_labels,
    shortened,
    with_lines,
)
from benchharness.leaderboard.report.table import run_anchor
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.store import PastRun
from benchharness.tasks.suites import title_of

_ACROSS, _UP = (48, WIDTH - 36), (204, 16)
"""Where the axes lie."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    row: RunRow
    code: str
    seconds: float
    score: float
    recipe: str


_Batch = Sequence[_Run]
"""Runs of one recipe by one version of the code, each seed once."""


def histories(board: Board, past: Sequence[PastRun], sections: Iterable[str]) -> tuple[Figure, ...]:
    """The figures of a board: of each model and task where some seed was run more than once.

    Only runs that were scored on the board's own rows are taken. `sections` are the keys that the
    page can link to. The points of a sweep are no history.
    """
    keys, figures = frozenset(sections), list[Figure]()
    by_model: dict[str, list[PastRun]] = {}
    for run in past:
        if run.row.is_single and not run.row.is_sweep and not run.row.is_hidden:
            by_model.setdefault(run.row.model, []).append(run)
    models = dict.fromkeys(entry.model for entry in board.entries if entry.is_single)
    # The fingerprints of all splits that the board's runs were scored on.
    evaluated = {
        split: fingerprint
        for entry in board.entries
        for cell in entry.cells.values()
        for run in cell.runs
        for split, fingerprint in evaluation_fingerprints(run).items()
    }
    for model in models:
        for task in board.tasks:
            found = _runs_of(board, task, by_model.get(model, ()), evaluated)
            seeds = Counter(run.row.seed for run in found)
            if seeds and max(seeds.values()) > 1:
                figures.append(_figure(model, title_of(task), found, keys))
    return tuple(figures)


def _runs_of(
    board: Board, task: str, past: Sequence[PastRun], evaluated: Mapping[str, str]
) -> list[_Run]:
    """The runs with a score of the task on the board's rows, oldest first."""
    found = []
    names = recipe_names(run.row for run in past if task in run.row.scores)
    for run in past:
        cell = build_cell(task, [run.row], board.rule)
        seconds = seconds_of(run.row.finished)
        if cell and seconds is not None and _is_same_data(run.row, task, evaluated):
            name = names[run.row.recipe_label, run.row.recipe_digest]
            score, recipe = 100 * cell.median, f"{name}, {run.row.precision}"
            found.append(
                _Run(row=run.row, code=run.code, seconds=seconds, score=score, recipe=recipe)
            )
    return sorted(found, key=lambda run: (run.seconds, run.row.key))


def _is_same_data(row: RunRow, task: str, evaluated: Mapping[str, str]) -> bool:
    own = evaluation_fingerprints(row)
    splits = [split for split in own if split.startswith(f"{task}:")]
    return bool(splits) and all(own[split] == evaluated.get(split) for split in splits)


def _figure(model: str, name: str, runs: Sequence[_Run], keys: frozenset[str]) -> Figure:
    x = date_axis([run.seconds for run in runs], "finished (UTC)", _ACROSS)
    y = score_axis([run.score for run in runs], name, _UP)
    series = {recipe: list(_batches(found)) for recipe, found in _by_recipe(runs).items()}
    every = sorted((b for found in series.values() for b in found), key=lambda b: b[0].seconds)
    figure = Figure(
        title=f"{model} on {name} over time",
        x=x,
        y=y,
        description=f"{len(runs)} runs from {date_text(runs[0].seconds)} to "
        f"{date_text(runs[-1].seconds)}. The table below has the median of each version.",
        texts=tuple(_labels(every, x, y)),
        table=Table(
            columns=("first finished (UTC)", "last", "code", "recipe", "seeds", "median × 100"),
            words=("last", "code", "recipe"),
            rows=tuple(map(_batch_row, every)),
        ),
    )
    return with_lines(figure, (_line(name, found, x, y, keys) for name, found in series.items()))


def _by_recipe(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """By recipe and precision."""
    found: dict[str, list[_Run]] = {}
    for run in runs:
        found.setdefault(run.recipe, []).append(run)
    return found


def _batches(runs: Sequence[_Run]) -> Iterator[_Batch]:
    """Runs in a row by the same code; a seed that comes again begins another batch."""
    batch: list[_Run] = []
    for run in runs:
        again = any(run.row.seed == other.row.seed for other in batch)
        if batch and (again or run.code != batch[0].code):
            yield batch
            batch = []
        batch.append(run)
    if batch:
        yield batch


def _middle(batch: _Batch, x: Axis, y: Axis) -> Corner:
    return x(fmean(run.seconds for run in batch)), y(median(run.score for run in batch))


def _line(recipe: str, batches: Sequence[_Batch], x: Axis, y: Axis, keys: frozenset[str]) -> Line:
    """Joins the medians of a recipe's batches, among the points of their runs."""
    return Line(
        name=recipe,
        corners=[_middle(batch, x, y) for batch in batches],
        points=[_point(run, x, y, keys) for batch in batches for run in batch],
    )


def _point(run: _Run, x: Axis, y: Axis, keys: frozenset[str]) -> Point:
    row = run.row
    said = (f"seed {row.seed}", f"{run.score:.1f}", date_text(run.seconds), run.recipe, run.code)
    return Point(
        x=x(run.seconds),
        y=y(run.score),
        note=", ".join(part for part in said if part),
        href="#" + run_anchor(row.key) if row.key in keys else "",
    )


def _labels(batches: Sequence[_Batch], x: Axis, y: Axis) -> Iterator[Text]:
    """The version of the code beside the first median that it made."""
    firsts: dict[str, _Batch] = {}
    for batch in batches:
        if batch[0].code:
            firsts.setdefault(batch[0].code, batch)
    points = []
    for code, batch in firsts.items():
        across, up = _middle(batch, x, y)
        points.append(Text(x=across, y=up, text=shortened(code)))
    marks = [(x(run.seconds), y(run.score)) for batch in batches for run in batch]
    line = [_middle(batch, x, y) for batch in batches]
    yield from filter(None, place_labels(points, marks, [line], (x, y)))


def _batch_row(batch: _Batch) -> TableRow:
    first, last = date_text(batch[0].seconds), date_text(batch[-1].seconds)
    score = shown(median(run.score for run in batch) / 100)
    code, recipe = batch[0].code or "–", batch[0].recipe
    return TableRow(name=first, cells=(last, code, recipe, str(len(batch)), score))
