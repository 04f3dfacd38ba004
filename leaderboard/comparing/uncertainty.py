"""Intervals for the entries of a board, and whom a test tells apart. Pure.

Every entry of a board is scored on the same examples, and what makes a set easy or hard moves all
alike. So ranks come from tests of pairs, and not from the intervals of single entries.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

import numpy as np

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_bounds, score_names
from benchharness.leaderboard.boards.entry import LEVEL, Entry, Intervals, Uncertainty
from benchharness.leaderboard.comparing.noise import (
    Estimate,
    Sample,
    average,
    difference,
    median_estimate,
    pooled,
    sample_of,
    sample_of_table,
)
from benchharness.leaderboard.comparing.resampling import Known, Outcomes, resampled_scores
from benchharness.leaderboard.statistics import Interval, holm, selection_gain
from benchharness.tasks.suites import ScoreRule, find_task

GAIN_DRAWS = 500
"""A variance needs fewer draws than the end of an interval."""

SCOPES = ("both", "examples", "seeds")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Known:
    """What is known of an entry's cell: a sample, and an estimate of its median for each scope."""

    sample: Sample
    estimates: Mapping[str, Estimate]
    bounds: Interval
    reason: str


Tried = Mapping[str, Sequence[Sequence[Known]]]
"""What is known, by task and entry, of the points that the entry's own was chosen from."""


def with_uncertainty(
    board: Board,
    known: Mapping[str, Sequence[Known | None]],
    *,
    tried: Tried | None = None,
    is_pooled: bool = False,
) -> Board:
    """The board with the uncertainty of each entry.

    `known` has for each task what is known of every entry's cell, in the order of the entries,
    None where there is no cell. Intervals are of the median over seeds, and of the suite's score,
    the mean that its rule takes of these. Ranks are by the test of `difference`, corrected by Holm
    for all pairs. `is_pooled` takes all entries of a task for equally noisy over seeds, where most
    have too few to show their own. Where `tried` has the other points of a sweep, the gain by
    choice of its cells is over other examples too.
    """
    by_task = {task: _known_of(board, task, known[task], is_pooled) for task in board.tasks}
    by_entry: list[dict[str, _Known]] = [
        {task: row[place] for task, row in by_task.items() if place in row}
        for place in range(len(board.entries))
    ]
    entries = [
        replace(entry, uncertainty=_uncertainty(board.rule, entry, found))
        for entry, found in zip(board.entries, by_entry, strict=True)
    ]
    ranked = _ranked(board.rule, entries, by_entry)
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


def _known_of(
    board: Board, task: str, known: Sequence[Known | None], is_pooled: bool
) -> dict[int, _Known]:
    """The cells of a column by the places of their entries."""
    cells = {n: entry.cells[task] for n, entry in enumerate(board.entries) if task in entry.cells}
    samples = {
        place: sample_of(outcomes)
        if isinstance(outcomes := known[place], Outcomes)
        else sample_of_table(np.array([cell.values]))
        for place, cell in cells.items()
    }
    if is_pooled:
        spread = pooled(sample.spread for sample in samples.values())
        samples = {place: replace(sample, spread=spread) for place, sample in samples.items()}
    return {
        place: _known_cell(cell, board.rule, samples[place], known[place])
        for place, cell in cells.items()
    }


def _known_cell(cell: Cell, rule: ScoreRule, sample: Sample, known: Known | None) -> _Known:
    estimates = {}
    if sample.spread is not None:
        estimates["seeds"] = median_estimate(sample.without_units)
    if isinstance(known, Outcomes):
        estimates["examples"] = median_estimate(replace(sample, spread=None))
    if estimates:
        found = [median_estimate(sample), *estimates.values()]
        estimates["both"] = max(found, key=lambda each: each.variance)  # no surer than either
    names = score_names(cell.task, rule)
    return _Known(
        sample=sample,
        estimates=estimates,
        bounds=score_bounds(find_task(cell.task), names, cell.values),
        reason=known if isinstance(known, str) else "",
    )


def _uncertainty(rule: ScoreRule, entry: Entry, found: Mapping[str, _Known]) -> Uncertainty:
    """Of each cell, and of the score: the mean over the rule's tasks, which all weigh the same."""
    cells = {task: _intervals([each]) for task, each in found.items()}
    score = Intervals()
    if entry.score is not None:
        score = _intervals([found[task] for task in rule.cells])
    return Uncertainty(cells=cells, score=score)


def _intervals(cells: Sequence[_Known]) -> Intervals:
    """Of the mean of some cells; of a scope that one of them lacks there is none."""
    bounds = Interval(
        low=fmean(cell.bounds.low for cell in cells), high=fmean(cell.bounds.high for cell in cells)
    )
    found = {
        scope: average([cell.estimates[scope] for cell in cells]).interval(LEVEL).within(bounds)
        for scope in SCOPES
        if all(scope in cell.estimates for cell in cells)
    }
    reason = "; ".join(dict.fromkeys(cell.reason for cell in cells if cell.reason))
    return Intervals(**found, reason=reason)


def _ranked(
    rule: ScoreRule, entries: Sequence[Entry], known: Sequence[Mapping[str, _Known]]
) -> list[Entry]:
    """The entries with the ranks that they may have, and whom they are not told apart from.

    Above an entry are those that are told apart from it and score more. As no pair of equal
    systems is told apart on 95 % of such boards, all ranks hold the true ones on as many.
    """
    racing = [place for place, entry in enumerate(entries) if entry.rank is not None]
    pairs = list(combinations(racing, 2))
    tests = [
        average([difference(known[a][t].sample, known[b][t].sample) for t in rule.cells])
        for a, b in pairs
    ]
    corrected = holm([test.p_value for test in tests])
    better: dict[int, set[int]] = {place: set() for place in racing}
    worse: dict[int, set[int]] = {place: set() for place in racing}
    for (a, b), test, p_value in zip(pairs, tests, corrected, strict=True):
        if p_value < 1 - LEVEL:
            first, second = (a, b) if test.value > 0 else (b, a)
            worse[first].add(second)
            better[second].add(first)
    found = list(entries)
    for place in racing:
        uncertainty = entries[place].uncertainty
        if uncertainty is None or uncertainty.score.both is None:
            continue
        tied = set(racing) - better[place] - worse[place] - {place}
        ranks = 1 + len(better[place]), len(racing) - len(worse[place])
        labels = tuple(entries[other].name for other in sorted(tied))
        found[place] = replace(
            entries[place], uncertainty=replace(uncertainty, ranks=ranks, tied=labels)
        )
    return found
