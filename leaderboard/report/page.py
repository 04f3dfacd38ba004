"""What the report shows, worked out before any HTML: boards, groups of runs, failures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.report.blocks import ReproductionView, reproduction_views
from benchharness.leaderboard.report.plots.cost import RunFacts, facts_of
from benchharness.leaderboard.report.plots.curve import seed_figures
from benchharness.leaderboard.report.plots.figure import Figure
from benchharness.leaderboard.report.plots.section import Background, Plots, build_plots
from benchharness.leaderboard.report.run import RunSection, build_run
from benchharness.leaderboard.report.table import (
    Statistics,
    TableView,
    build_table,
    group_anchor,
    statistics,
)
from benchharness.leaderboard.result import Failure, Result, RunRow

INLINE_RUNS = 300
"""Runs whose sections need no script; those of more would make the page slow to open."""

BATCH = 50
"""Groups that are unpacked together."""

Pages = Mapping[tuple[str, str], str]
"""The addresses of pages of every prediction, by a group's anchor and the task of a cell."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The runs of one entry on one task, seed by seed; what a cell of a table links to.

    `reproductions` hold its scores against the published ones of the same model, `curves` the
    learning curves of several seeds together, `predictions` a task and the address of its page of
    every prediction.
    """

    anchor: str
    model: str
    task: str
    recipe: str
    statistics: tuple[Statistics, ...]
    reproductions: tuple[ReproductionView, ...]
    curves: tuple[Figure, ...]
    runs: tuple[RunSection, ...]
    predictions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """The groups of a board: those in the page as it stands, and batches that a script unpacks."""

    table: TableView
    inline: tuple[Group, ...]
    batches: tuple[tuple[Group, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report. `others` are runs that stand on no board."""

    tables: tuple[TableView, ...]
    plots: tuple[Plots, ...]
    parts: tuple[Part, ...]
    others: tuple[RunSection, ...]
    failures: tuple[RunSection, ...]
    runs: int
    models: int


def build_page(
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    background: Background | None = None,
    predictions: Pages = MappingProxyType({}),
) -> Page:
    """The boards with a section for each run in `details`, and what plots know besides.

    `predictions` are the pages that a cell's runs lead to. A run on a board without details (a
    store that keeps rows only) has its scores and no section.
    """
    sections, facts = _read(details)
    tables = tuple(build_table(board, number) for number, board in enumerate(boards, start=1))
    plots = (
        build_plots(board, table.anchor, facts, background or Background())
        for board, table in zip(boards, tables, strict=True)
    )
    groups = _each_once(_groups(board, sections, predictions) for board in boards)
    entries = [entry for board in boards for entry in board.entries]
    placed = {run.key for entry in entries for run in entry.runs}
    return Page(
        tables=tables,
        plots=tuple(plots),
        parts=tuple(_parts(tables, groups)),
        others=tuple(section for key, section in sections.items() if key not in placed),
        failures=tuple(section for section in sections.values() if section.error),
        runs=len(placed | sections.keys()),
        models=len({e.model for e in entries} | {s.job.model for s in sections.values()}),
    )


def _read(
    details: Iterable[Result | Failure],
) -> tuple[dict[str, RunSection], dict[str, RunFacts]]:
    """The section of each run, and the facts of those of encoders, by key; each is read once."""
    sections, facts = {}, {}
    for run in details:
        section, found = build_run(run), facts_of(run)
        sections[section.key] = section
        if found is not None:
            facts[section.key] = found
    return sections, facts


def _parts(tables: Iterable[TableView], groups: Iterable[tuple[Group, ...]]) -> Iterator[Part]:
    """The boards' groups; the first runs of a page stand in it as they are."""
    left = INLINE_RUNS
    for table, found in zip(tables, groups, strict=True):
        totals = list(accumulate(max(1, len(group.runs)) for group in found))
        inline = sum(total <= left for total in totals)
        left -= totals[inline - 1] if inline else 0
        rest = found[inline:]
        batches = (rest[first : first + BATCH] for first in range(0, len(rest), BATCH))
        yield Part(table=table, inline=found[:inline], batches=tuple(batches))


def _each_once(boards: Iterable[Iterable[Group]]) -> Iterator[tuple[Group, ...]]:
    """Every board's groups without those that an earlier board has shown: an id is there once."""
    shown: set[str] = set()
    for groups in boards:
        fresh = tuple(group for group in groups if group.anchor not in shown)
        shown.update(group.anchor for group in fresh)
        yield fresh


def _groups(
    board: Board, sections: Mapping[str, RunSection], predictions: Pages
) -> Iterator[Group]:
    for entry in board.entries:
        views = reproduction_views(board, entry)
        by_task: dict[str, list[RunRow]] = {}
        for run in entry.runs:
            by_task.setdefault(run.task, []).append(run)
        # A failed task that no entry has scores of is no column; it comes last.
        tasks = [task for task in board.tasks if task in by_task]
        for task in dict.fromkeys([*tasks, *sorted(by_task)]):
            group = _group(entry, task, by_task[task], sections, views.get(task, ()))
            pages = [(cell, predictions.get((group.anchor, cell), "")) for cell in entry.cells]
            yield replace(group, predictions=tuple(page for page in pages if page[1]))


def _group(
    entry: Entry,
    task: str,
    runs: Sequence[RunRow],
    sections: Mapping[str, RunSection],
    reproductions: tuple[ReproductionView, ...],
) -> Group:
    keys = {run.key for run in runs}
    cells = [c for c in entry.cells.values() if keys & {run.key for run in c.runs}]
    return Group(
        anchor=group_anchor(entry, task),
        model=entry.name,
        task=task,
        recipe=entry.beside_name,
        statistics=tuple(statistics(cell) for cell in cells),
        reproductions=reproductions,
        curves=_curves([sections[run.key] for run in runs if run.key in sections]),
        runs=tuple(sections[run.key] for run in runs if run.key in sections),
    )


def _curves(runs: Sequence[RunSection]) -> tuple[Figure, ...]:
    """The learning curves of several seeds in one chart; a single run's stand in its section."""
    curves = {f"seed {run.job.seed}": run.curve for run in runs if run.curve}
    return seed_figures(curves, runs[0].job.curve_split) if len(curves) > 1 else ()
