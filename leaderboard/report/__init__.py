"""HTML report: one self-contained file that opens from disk without a network.

This module computes the content of the page before any HTML is made: boards, groups of runs and
failures.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, cast

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.reproduction import Reproduction, parity_of, reproductions
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.report.plots import Figure
from benchharness.leaderboard.report.plots.cost import RunFacts, facts_of
from benchharness.leaderboard.report.plots.lines import seed_figures
from benchharness.leaderboard.report.plots.section import (
    Background,
    Pages,
    Places,
    Plots,
    board_key,
    build_plots,
)
from benchharness.leaderboard.report.run import RunSection, build_run
from benchharness.leaderboard.report.table import (
    SECTIONS,
    TableView,
    build_table,
    group_anchor,
    run_anchor,
    says_more,
    statistics,
)
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.text import grouped

INLINE_RUNS = 120
"""Largest number of runs whose sections are plain HTML. Further sections are packed and need a
script, because a longer page would open slowly."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of one entry on one task, one per seed; a cell of a table links to it.

    `statistics` has a sentence for each score that has more than one value. `reproductions` are
    comparisons with published scores of the same model, `curves` are the learning curves of several
    seeds in one chart, `predictions` has pairs of a task and the address of its predictions page.
    """

    anchor: str
    title: str
    statistics: tuple[tuple[str, str], ...]
    reproductions: tuple[Reproduction, ...]
    curves: tuple[Figure, ...]
    runs: tuple[RunSection, ...]
    predictions: tuple[tuple[str, str], ...]

    @property
    def is_bare(self) -> bool:
        """True if the group contains nothing but the table of the entry's runs."""
        says = (self.statistics, self.reproductions, self.curves, self.predictions)
        return not any(says)

    @property
    def scores(self) -> Sequence[str]:
        """Names of the runs' scores; a single empty name if all runs have failed."""
        return list(dict.fromkeys(name for run in self.runs for name in run.scores)) or [""]


@dataclass(frozen=True, kw_only=True)
class EntryRuns:
    """All runs of an entry, grouped by task; `is_packed` is true if a script unpacks them."""

    entry: Entry
    groups: tuple[Group, ...]
    is_packed: bool = False

    @property
    def seeds(self) -> Sequence[int]:
        """Seeds of all runs, sorted."""
        return sorted({run.job.seed for group in self.groups for run in group.runs})

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the sections that links can lead to."""
        return tuple(
            id_ for group in self.groups for id_ in (group.anchor, *(r.anchor for r in group.runs))
        )


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """Failed run, as the page's list of failures shows it."""

    run: RunRow | Job
    status: str
    error: str
    href: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Content of the whole report.

    `parts` are the runs of each table, entry by entry. `others` are runs that belong to no board.
    `models` is the number of models, without baselines.
    """

    tables: tuple[TableView, ...]
    plots: tuple[Plots, ...]
    parts: tuple[tuple[TableView, tuple[EntryRuns, ...]], ...]
    others: tuple[RunSection, ...]
    failures: tuple[FailedRun, ...]
    runs: int
    models: int


def build_page(
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    background: Background,
) -> Page:
    """Return the content of the report.

    A run of a board that is not in `details` (of a store that keeps rows only) has its scores and
    no section. If `background` has places, the sections are in files of their own; then the page
    links to these and has no sections itself.

    Args:
        boards: Boards to show.
        details: Runs that get a section; the iterable is read once.
        background: Facts for plots and comparisons that no board has.
    """
    places = background.places
    sections, facts, parity = dict[str, RunSection](), dict[str, RunFacts](), dict[str, str]()
    for run in details:  # read each run once
        if not places:
            sections[run.job.key] = build_run(run)
        if (found := facts_of(run)) is not None:
            seconds = background.timed.seconds.get(run.job.weights)
            facts[run.job.key] = replace(found, predict_seconds=seconds)
        parity[run.job.key] = parity_of(run)
    tables = tuple(
        build_table(
            replace(board, parity=parity),
            number,
            background.sizes,
            background.contrasts.get(board_key(board), {}),
        )
        for number, board in enumerate(boards, start=1)
    )
    plots = (
        build_plots(board, table.anchor, facts, background)
        for board, table in zip(boards, tables, strict=True)
    )
    entries = [entry for board in boards for entry in board.entries]
    placed = {run.key for entry in entries for run in entry.runs}
    parts = () if places else _parts(tables, boards, sections, background.predictions)
    others = tuple(section for key, section in sections.items() if key not in placed)
    page = Page(
        tables=tables,
        plots=tuple(plots),
        parts=tuple(parts),
        others=others,
        failures=tuple(_failures(entries, others)),
        runs=len(placed | sections.keys()),
        models=len(
            {e.model for e in entries if e.kind != "baseline"}
            | {s.job.model for s in sections.values() if s.job.kind != "baseline"}
        ),
    )
    return cast("Page", moved(page, places)) if places else page


def _failures(entries: Iterable[Entry], others: Iterable[RunSection]) -> Iterator[FailedRun]:
    """Yield each failed run once."""
    rows = {run.key: run for entry in entries for run in entry.failures}
    found: list[tuple[RunRow | Job, str, str]] = [
        *((run, run.status, run.error) for run in rows.values()),
        *((other.job, other.status, other.error) for other in others if other.error),
    ]
    for run, status, error in found:
        yield FailedRun(run=run, status=status, error=error, href="#" + run_anchor(run.key))


def _parts(
    tables: Iterable[TableView],
    boards: Iterable[Board],
    sections: Mapping[str, RunSection],
    predictions: Pages,
) -> Iterator[tuple[TableView, tuple[EntryRuns, ...]]]:
    """Yield each board's table with its runs; a group that is on several boards is yielded once.

    The first INLINE_RUNS runs of the page are plain HTML, all others are packed.
    """
    left, known = INLINE_RUNS, set[str]()
    for table, board in zip(tables, boards, strict=True):
        found = []
        for entry in board.entries:
            every = groups_of(board, entry, sections, predictions)
            if groups := tuple(group for group in every if group.anchor not in known):
                known.update(group.anchor for group in groups)
                left -= max(1, sum(len(group.runs) for group in groups))
                found.append(EntryRuns(entry=entry, groups=groups, is_packed=left < 0))
        yield table, tuple(found)


def groups_of(
    board: Board, entry: Entry, sections: Mapping[str, RunSection], predictions: Pages
) -> Iterator[Group]:
    """Yield the runs of an entry, one group per task, with their sections and predictions pages."""
    reproduced = reproductions(board, entry)
    for task, runs in group_runs(board, entry).items():
        anchor, keys = group_anchor(entry, task), {run.key for run in runs}
        cells = [c for c in entry.cells.values() if keys & {run.key for run in c.runs}]
        found = [sections[run.key] for run in runs if run.key in sections]
        curves = {f"seed {run.job.seed}": run.curve for run in found if run.curve}
        yield Group(
            anchor=anchor,
            title=runs[0].title,
            statistics=tuple((c.task, statistics(c)) for c in cells if says_more(c)),
            reproductions=tuple(r for r in reproduced if r.task in runs[0].trained_tasks),
            # The curves of a single run are in its section.
            curves=seed_figures(curves, found[0].job.curve_split) if len(curves) > 1 else (),
            runs=tuple(found),
            predictions=tuple(
                (cell, predictions[anchor, cell])
                for cell in entry.cells
                if (anchor, cell) in predictions
            ),
        )


def group_runs(board: Board, entry: Entry) -> dict[str, list[RunRow]]:
    """Return the runs of an entry, keyed by task; failed tasks that have no column come last."""
    by_task = grouped((run.task, run) for run in entry.runs)
    tasks = [task for task in board.tasks if task in by_task]
    return {task: by_task[task] for task in (*tasks, *sorted(by_task.keys() - tasks))}


# Links to details that are in files of their own.


def moved(shown: Any, places: Places) -> Any:
    """Return the page, or a part of it, with links to sections replaced by links to files.

    A link to a section that is in no file becomes empty.
    """
    if isinstance(shown, tuple):
        # A part without links stays the same object, so that most of a page is not copied.
        found = tuple(moved(each, places) for each in shown)
        return shown if all(map(operator.is_, shown, found)) else found
    if not is_dataclass(shown) or isinstance(shown, type):
        return shown
    changed = {}
    for name, value in vars(shown).items():
        if name == "href" and value.startswith(SECTIONS):
            place = places.get(value.removeprefix("#"))
            changed[name] = f"{place}{value}" if place else ""
        elif (found := moved(value, places)) is not value:
            changed[name] = found
    return replace(shown, **changed) if changed else shown
