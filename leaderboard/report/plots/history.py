"""A model over time: every run of a task by the day it finished, with the code that made it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from leaderboard.boards.board import Board
from leaderboard.boards.cell import build_cell, shown
from leaderboard.boards.grouping import evaluation_fingerprints
from leaderboard.report.plots.axis import (
    WIDTH,
    Axis,
    Frame,
    date_axis,
    date_text,
    frame_of,
    linear_axis,
    seconds_of,
)
from leaderboard.report.plots.labels import Box, Label, place_labels, shortened
from leaderboard.report.plots.tradeoff import score_label
from leaderboard.report.table import run_anchor
from leaderboard.result import RunRow
from leaderboard.store.store import PastRun

__all__ = ["Batch", "History", "Moment", "Series", "histories"]

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 250, 48, 36, 16, 46

SHAPES = 4
"""Shapes and colours that can be told apart; further recipes share the last."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One run: when it finished, and its score."""

    x: float
    y: float
    note: str
    href: str


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Runs of one recipe by one version of the code, each seed once; texts for the table."""

    first: str
    last: str
    code: str
    recipe: str
    seeds: str
    median: str


@dataclass(frozen=True, kw_only=True)
class Series:
    """The runs of one recipe; `line` joins the medians of its batches. `shape` counts from 0."""

    name: str
    shape: int
    line: str
    moments: tuple[Moment, ...]


@dataclass(frozen=True, kw_only=True)
class History:
    """One figure: a model on a task. `labels` name the code at its first batch."""

    model: str
    task: str
    title: str
    description: str
    frame: Frame
    series: tuple[Series, ...]
    labels: tuple[Label, ...]
    batches: tuple[Batch, ...]


@dataclass(frozen=True, kw_only=True)
class _Run:
    row: RunRow
    code: str
    seconds: float
    score: float


def histories(
    board: Board, past: Sequence[PastRun], sections: Iterable[str]
) -> tuple[History, ...]:
    """The figures of a board: of each model and task where some seed was run more than once.

    Only runs that were scored on the board's own rows are taken. `sections` are the keys that the
    page can link to. The points of a sweep are no history.
    """
    return tuple(_histories(board, past, frozenset(sections)))


def _histories(board: Board, past: Sequence[PastRun], keys: frozenset[str]) -> Iterator[History]:
    by_model: dict[str, list[PastRun]] = {}
    for run in past:
        if run.row.is_single and not run.row.is_sweep:
            by_model.setdefault(run.row.model, []).append(run)
    models = dict.fromkeys(entry.model for entry in board.entries if entry.is_single)
    evaluated = _evaluated(board)
    for model in models:
        for task in board.tasks:
            found = _runs_of(board, task, by_model.get(model, ()), evaluated)
            seeds = Counter(run.row.seed for run in found)
            if seeds and max(seeds.values()) > 1:
                yield _history(model, task, found, keys)


def _evaluated(board: Board) -> Mapping[str, str]:
    """The fingerprints of all splits that the board's runs were scored on."""
    return {
        split: fingerprint
        for entry in board.entries
        for cell in entry.cells.values()
        for run in cell.runs
        for split, fingerprint in evaluation_fingerprints(run).items()
    }


def _runs_of(
    board: Board, task: str, past: Sequence[PastRun], evaluated: Mapping[str, str]
) -> list[_Run]:
    """The runs with a score of the task on the board's rows, oldest first."""
    found = []
    for run in past:
        cell = build_cell(task, [run.row], board.rule)
        seconds = seconds_of(run.row.finished)
        if cell and seconds is not None and _is_same_data(run.row, task, evaluated):
            score = 100 * cell.median
            found.append(_Run(row=run.row, code=run.code, seconds=seconds, score=score))
    return sorted(found, key=lambda run: (run.seconds, run.row.key))


def _is_same_data(row: RunRow, task: str, evaluated: Mapping[str, str]) -> bool:
    own = evaluation_fingerprints(row)
    splits = [split for split in own if split.startswith(f"{task}:")]
    return bool(splits) and all(own[split] == evaluated.get(split) for split in splits)


def _history(model: str, task: str, runs: Sequence[_Run], keys: frozenset[str]) -> History:
    x = date_axis([run.seconds for run in runs], LEFT, WIDTH - RIGHT)
    y = linear_axis([run.score for run in runs], HEIGHT - BOTTOM, TOP)
    name = task.rpartition("/")[2]
    groups = {recipe: list(_batches(found)) for recipe, found in _by_recipe(runs).items()}
    series = tuple(
        _series(recipe, min(number, SHAPES - 1), batches, (x, y), keys)
        for number, (recipe, batches) in enumerate(groups.items())
    )
    every = sorted((b for found in groups.values() for b in found), key=lambda b: b[0].seconds)
    return History(
        model=model,
        task=task,
        title=f"{model} on {name} over time",
        description=_describe(every),
        frame=frame_of(x, y, height=HEIGHT, x_label="finished (UTC)", y_label=score_label(name, y)),
        series=series,
        labels=tuple(_labels(every, x, y)),
        batches=tuple(map(_batch, every)),
    )


def _by_recipe(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """By recipe and precision; values that differ under one name are told apart by their digest."""
    digests: dict[str, set[str]] = {}
    for run in runs:
        digests.setdefault(_recipe(run), set()).add(run.row.recipe_digest)
    found: dict[str, list[_Run]] = {}
    for run in runs:
        name = _recipe(run)
        several = len(digests[name]) > 1
        found.setdefault(f"{name} ~{run.row.recipe_digest[:4]}" if several else name, []).append(
            run
        )
    return found


def _recipe(run: _Run) -> str:
    return f"{run.row.recipe_label}, {run.row.precision}"


def _batches(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
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


def _middle(batch: Sequence[_Run]) -> tuple[float, float]:
    return fmean(run.seconds for run in batch), median(run.score for run in batch)


def _series(
    recipe: str,
    shape: int,
    batches: Sequence[Sequence[_Run]],
    axes: tuple[Axis, Axis],
    keys: frozenset[str],
) -> Series:
    x, y = axes
    middles = [(x(when), y(score)) for when, score in map(_middle, batches)]
    return Series(
        name=recipe,
        shape=shape,
        line=" ".join(f"{across:g},{up:g}" for across, up in middles),
        moments=tuple(_moment(run, x, y, keys) for batch in batches for run in batch),
    )


def _moment(run: _Run, x: Axis, y: Axis, keys: frozenset[str]) -> Moment:
    row = run.row
    said = (f"seed {row.seed}", f"{run.score:.1f}", date_text(run.seconds), _recipe(run), run.code)
    return Moment(
        x=x(run.seconds),
        y=y(run.score),
        note=", ".join(part for part in said if part),
        href="#" + run_anchor(row.key) if row.key in keys else "",
    )


def _labels(batches: Sequence[Sequence[_Run]], x: Axis, y: Axis) -> Iterator[Label]:
    """The version of the code beside the first median that it made."""
    firsts: dict[str, tuple[float, float]] = {}
    for batch in batches:
        when, score = _middle(batch)
        if batch[0].code:
            firsts.setdefault(batch[0].code, (x(when), y(score)))
    marks = [(x(run.seconds), y(run.score)) for batch in batches for run in batch]
    frame = Box(left=x.start, top=y.end - 8, right=x.end, bottom=y.start)
    points = [(*place, shortened(code)) for code, place in firsts.items()]
    lines = [[(x(when), y(score)) for when, score in map(_middle, batches)]]
    labels = place_labels(points, marks, frame, lines)
    yield from (label for label in labels if label is not None)


def _batch(runs: Sequence[_Run]) -> Batch:
    return Batch(
        first=date_text(runs[0].seconds),
        last=date_text(runs[-1].seconds),
        code=runs[0].code or "–",
        recipe=_recipe(runs[0]),
        seeds=str(len(runs)),
        median=shown(_middle(runs)[1] / 100),
    )


def _describe(batches: Sequence[Sequence[_Run]]) -> str:
    texts = map(_batch, batches)
    said = (f"{b.first}: median {b.median} of {b.seeds}, {b.recipe}, code {b.code}" for b in texts)
    return "; ".join(said) + "."
