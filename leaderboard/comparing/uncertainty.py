"""Intervals for the entries of a board, by resampling its examples and its seeds. Pure.

Every entry of a board is scored on the same examples. So each draw takes the same examples for all
of them, and what makes a set easy or hard moves all alike: ranks are compared in pairs.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_bounds, score_names
from benchharness.leaderboard.boards.entry import LEVEL, Entry, Intervals, Uncertainty
from benchharness.leaderboard.comparing.resampling import (
    Array,
    Outcomes,
    resampled_scores,
    student_draws,
)
from benchharness.leaderboard.statistics import (
    Interval,
    median_deviation,
    selection_gain,
    student_t,
)
from benchharness.tasks.suites import ScoreRule, find_task

DRAWS = 2_000
"""The ends of a 95 % interval are those of 50 draws on either side."""

GAIN_DRAWS = 500
"""A variance needs fewer than the end of an interval."""

Known = Outcomes | str
"""What a cell's stored predictions are worth, seed by seed, or why they cannot be had."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drawn:
    """An entry's cell, or its score, on every draw: with other examples, and what seeds add."""

    examples: Array
    seeds: Array
    intervals: Intervals
    bounds: Interval


@dataclass(frozen=True, kw_only=True)
class SeedSpread:
    """The standard deviation of one seed, and the degrees of freedom that tell it."""

    deviation: float
    freedom: int


Tried = Mapping[str, Sequence[Sequence[Known]]]
"""What is known, by task and entry, of the points that the entry's own was chosen from."""


def with_uncertainty(
    board: Board,
    known: Mapping[str, Sequence[Known | None]],
    *,
    tried: Tried | None = None,
    draws: int = DRAWS,
    spreads: Mapping[str, SeedSpread] | None = None,
) -> Board:
    """The board with the uncertainty of each entry.

    `known` has for each task what is known of every entry's cell, in the order of the entries,
    None where there is no cell. A cell's score on other examples is the median over its runs; what
    other seeds would change is Student's t times the standard error of that median. It counts the
    examples' share of the spread twice and so errs to the wide side. `spreads` are by task, where
    entries have too few seeds to show their own, and hold for all of them. The suite's score is the
    mean that its rule takes of these; ranks are those of the drawn scores. The same board and
    outcomes give the same numbers. Where `tried` has the other points of a sweep, the gain by
    choice of its cells is over other examples too.
    """
    given = spreads or {}
    cells = [_draw(board, task, known[task], draws, given.get(task)) for task in board.tasks]
    by_entry: list[dict[str, _Drawn]] = [
        {task: row[place] for task, row in zip(board.tasks, cells, strict=True) if place in row}
        for place in range(len(board.entries))
    ]
    scores = [
        None if entry.score is None else _score_of(board, entry.score, found)
        for entry, found in zip(board.entries, by_entry, strict=True)
    ]
    entries = [
        replace(entry, uncertainty=_uncertainty(found, score))
        for entry, found, score in zip(board.entries, by_entry, scores, strict=True)
    ]
    ranked = _ranked(entries, scores)
    for task, points in (tried or {}).items():
        ranked = [
            _with_gain(entry, task, outcomes, others)
            for entry, outcomes, others in zip(ranked, known[task], points, strict=True)
        ]
    return replace(board, entries=tuple(ranked))


def _with_gain(entry: Entry, task: str, known: Known | None, others: Sequence[Known]) -> Entry:
    """The entry with what the choice of a task's point gains over other seeds and examples.

    It stays that over seeds alone where the examples of a point cannot be had.
    """
    points = [each for each in (known, *others) if isinstance(each, Outcomes)]
    if not others or len(points) <= len(others):
        return entry
    cell = entry.cells[task]
    generator = np.random.default_rng(zlib.crc32(f"gain {task}".encode()))
    redrawn = resampled_scores(points, generator, draws=GAIN_DRAWS)
    gain = selection_gain(cell.values, [other.values for other in cell.others], redrawn)
    cell = replace(cell, gain=gain, gain_scope="seeds and examples")
    return replace(entry, cells={**entry.cells, task: cell})


def _draw(
    board: Board,
    task: str,
    known: Sequence[Known | None],
    draws: int,
    spread: SeedSpread | None,
) -> dict[int, _Drawn]:
    """The cells of a column by the places of their entries."""
    places = [place for place, outcomes in enumerate(known) if isinstance(outcomes, Outcomes)]
    generator = np.random.default_rng(zlib.crc32(task.encode()))
    systems = [outcomes for outcomes in known if isinstance(outcomes, Outcomes)]
    redrawn = resampled_scores(systems, generator, draws=draws) if systems else []
    by_place = dict(zip(places, redrawn, strict=True))
    return {
        place: _draw_cell(
            entry.cells[task], board.rule, by_place.get(place), known[place], draws, spread
        )
        for place, entry in enumerate(board.entries)
        if task in entry.cells
    }


def _draw_cell(  # noqa: PLR0913, PLR0917  (what is known of a cell)
    cell: Cell,
    rule: ScoreRule,
    redrawn: Array | None,
    known: Known | None,
    draws: int,
    spread: SeedSpread | None,
) -> _Drawn:
    examples = np.full(draws, cell.median) if redrawn is None else np.median(redrawn, axis=1)
    spread = spread or SeedSpread(
        deviation=cell.spread or 0.0, freedom=max(1, len(cell.values) - 1)
    )
    seeds = _seed_noise(cell, draws, spread)
    has_seeds = len(cell.values) > 1 or spread.deviation > 0
    names = score_names(cell.task, rule)
    bounds = score_bounds(find_task(cell.task), names, cell.values)
    return _Drawn(
        examples=examples,
        seeds=seeds,
        intervals=Intervals(
            both=_interval(examples + seeds, bounds) if has_seeds or redrawn is not None else None,
            examples=None if redrawn is None else _interval(examples, bounds),
            seeds=_seed_interval(cell, spread).within(bounds) if has_seeds else None,
            reason=known if isinstance(known, str) else "",
        ),
        bounds=bounds,
    )


def _seed_interval(cell: Cell, spread: SeedSpread) -> Interval:
    error = median_deviation(spread.deviation, len(cell.values))
    reach = error * student_t(spread.freedom, (1 + LEVEL) / 2) if error else 0.0
    return Interval(low=cell.median - reach, high=cell.median + reach)


def _seed_noise(cell: Cell, draws: int, spread: SeedSpread) -> Array:
    """What other seeds would add to the median, of its own for every cell."""
    error = median_deviation(spread.deviation, len(cell.values))
    if not error:
        return np.zeros(draws)
    name = f"{cell.task} {cell.runs[0].key}"
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return error * student_draws(spread.freedom, draws, generator)


def _score_of(board: Board, value: float, found: Mapping[str, _Drawn]) -> _Drawn:
    """The suite's score: the mean over the rule's tasks, which all weigh the same."""
    cells = [found[task] for task in board.rule.cells]
    examples = np.mean([cell.examples for cell in cells], axis=0)
    seeds = np.mean([cell.seeds for cell in cells], axis=0)
    parts = [cell.intervals for cell in cells]
    bounds = Interval(
        low=fmean(cell.bounds.low for cell in cells), high=fmean(cell.bounds.high for cell in cells)
    )
    return _Drawn(
        examples=examples,
        seeds=seeds,
        intervals=Intervals(
            both=_interval(examples + seeds, bounds) if all(part.both for part in parts) else None,
            examples=_interval(examples, bounds) if all(part.examples for part in parts) else None,
            seeds=_interval(value + seeds, bounds) if all(part.seeds for part in parts) else None,
            reason="; ".join(dict.fromkeys(part.reason for part in parts if part.reason)),
        ),
        bounds=bounds,
    )


def _uncertainty(found: Mapping[str, _Drawn], score: _Drawn | None) -> Uncertainty:
    return Uncertainty(
        cells={task: drawn.intervals for task, drawn in found.items()},
        score=Intervals() if score is None else score.intervals,
    )


def _ranked(entries: Sequence[Entry], scores: Sequence[_Drawn | None]) -> list[Entry]:
    """The entries with the ranks that they have in 95 % of the draws, and whom they are tied with.

    Equal scores share all of their ranks.
    """
    racing = [place for place, entry in enumerate(entries) if entry.rank is not None]
    drawn = [score.examples + score.seeds for place in racing if (score := scores[place])]
    if not drawn:
        return list(entries)
    table = np.stack(drawn).round(12)  # equal systems may differ in their last bits
    found = list(entries)
    for row, place in enumerate(racing):
        tied = [entries[racing[other]] for other in _not_told_apart(table, row)]
        # The lowest and the highest of a row's ranks in 95 % of the draws (columns).
        tail = (1 - LEVEL) / 2
        first, last = 1 + (table > table[row]).sum(axis=0), (table >= table[row]).sum(axis=0)
        low = np.quantile(first, tail, method="inverted_cdf")
        high = np.quantile(last, 1 - tail, method="inverted_cdf")
        found[place] = _with_ranks(entries[place], (int(low), int(high)), tied)
    return found


def _not_told_apart(table: Array, row: int) -> list[int]:
    """The rows whose difference from this one has an interval that holds 0."""
    tail = (1 - LEVEL) / 2
    above, below = ((table > table[row]).mean(axis=1), (table < table[row]).mean(axis=1))
    unsure = (above < 1 - tail) & (below < 1 - tail)
    return [int(other) for other in unsure.nonzero()[0] if other != row]


def _with_ranks(entry: Entry, ranks: tuple[int, int], tied: Sequence[Entry]) -> Entry:
    """The entry's uncertainty with its ranks, where something is known of each of its tasks."""
    uncertainty = entry.uncertainty
    assert uncertainty is not None, "every entry has been given one"
    if uncertainty.score.both is None:
        return entry
    labels = tuple(other.name for other in tied)
    return replace(entry, uncertainty=replace(uncertainty, ranks=ranks, tied=labels))


def _interval(drawn: Array, bounds: Interval) -> Interval:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(low=float(low), high=float(high)).within(bounds)
