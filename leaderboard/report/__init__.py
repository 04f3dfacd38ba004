"""Content of the HTML report, a self-contained page that can be opened without a network.

This module computes the content of the page, i.e. leaderboards, runs and failures; write.py renders
it as HTML.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, cast

from markupsafe import Markup

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.reproduction import Reproduction, parity_of, reproductions
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.report.addition import (
    Background,
    Pages,
    Places,
    board_key,
    learning_curves,
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
"""Maximum number of runs whose details are plain HTML in the page. The details of all other runs
are compressed, because a longer page would open slowly. A script unpacks them when needed."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of one leaderboard entry on one task, usually one per seed, for a section of the page.

    Attributes:
        anchor: Id of the group's section in the page.
        title: Title of the task, or e.g. "5 tasks together" in multi-task training.
        statistics: Pairs (name of a task that the runs have predicted, line with statistics over
            seeds), for each task with more to report than one score (see `table.says_more`).
        reproductions: Comparisons with published scores of the same model.
        curves: Charts with the learning curves of all seeds, as HTML; empty for a single run.
        runs: Contents of the runs' own sections.
        predictions: Pairs (name of a task, address of the page that shows the predictions for it).
    """

    anchor: str
    title: str
    statistics: tuple[tuple[str, str], ...]
    reproductions: tuple[Reproduction, ...]
    curves: Markup
    runs: tuple[RunSection, ...]
    predictions: tuple[tuple[str, str], ...]

    @property
    def is_bare(self) -> bool:
        """True if the group contains nothing except its runs."""
        says = (self.statistics, self.reproductions, self.curves, self.predictions)
        return not any(says)

    @property
    def scores(self) -> Sequence[str]:
        """Names of all scores of the runs, for the rows of a table.

        If no run has a score, there is one empty name, so that the table has one row.
        """
        return list(dict.fromkeys(name for run in self.runs for name in run.scores)) or [""]


@dataclass(frozen=True, kw_only=True)
class EntryRuns:
    """All runs of a leaderboard entry, grouped by task, for a section of the page.

    Attributes:
        entry: Leaderboard entry.
        groups: Runs of the entry on each task.
        is_packed: True if the section is compressed in the page and unpacked by a script.
    """

    entry: Entry
    groups: tuple[Group, ...]
    is_packed: bool = False

    @property
    def seeds(self) -> Sequence[int]:
        """Sorted seeds of all runs, without duplicates."""
        return sorted({run.job.seed for group in self.groups for run in group.runs})

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the sections for groups and runs, which can be targets of links."""
        return tuple(
            id_ for group in self.groups for id_ in (group.anchor, *(r.anchor for r in group.runs))
        )


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """Failed run, for the list of failures in the page.

    Attributes:
        run: Failed run or, if the run does not belong to a leaderboard, its job.
        status: Kind of failure (see `Failure.kind`).
        error: Error message.
        href: Link to the section of the run; may be empty.
    """

    run: RunRow | Job
    status: str
    error: str
    href: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """Content of the report.

    Attributes:
        tables: Tables of the leaderboards.
        additions: For each leaderboard, the HTML of its additions (see `addition.Addition`).
        added: For each leaderboard, the sections that extensions add, as pairs (heading, HTML).
        parts: For each leaderboard, a pair (its table, runs of each of its entries), for the
            sections with all details of the runs; empty if these sections are in separate files.
        others: Sections of runs that do not belong to a leaderboard.
        failures: Failed runs.
        runs: Number of runs on the leaderboards and in `others`.
        models: Number of models of these runs, without baselines.
    """

    tables: tuple[TableView, ...]
    additions: tuple[Sequence[Markup], ...]
    added: tuple[Sequence[tuple[str, str]], ...]
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
    """Compute the content of the report.

    The page contains a section for each run in `details`. If `background.places` is not empty, the
    sections are in separate files instead, and the page links to these files.

    Args:
        boards: Leaderboards to show.
        details: Runs that get a section with all details, and that additions get. The iterable is
            read once. Of all other runs on the leaderboards, only the scores are shown.
        background: Data and content that the boards do not contain.
    """
    places = background.places
    sections, parity = dict[str, RunSection](), dict[str, str]()
    for run in details:  # the iterable can be read only once
        if not places:
            sections[run.job.key] = build_run(run)
        for addition in background.additions:
            addition.add_run(run)
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
    additions = (
        [each.section(board, table.anchor, background) for each in background.additions]
        for board, table in zip(boards, tables, strict=True)
    )
    entries = [entry for board in boards for entry in board.entries]
    placed = {run.key for entry in entries for run in entry.runs}
    parts = () if places else _parts(tables, boards, sections, background.predictions)
    others = tuple(section for key, section in sections.items() if key not in placed)
    page = Page(
        tables=tables,
        additions=tuple(additions),
        added=tuple(background.sections.get(board_key(board), ()) for board in boards),
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
    """Yield the distinct failed runs."""
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
    """Yield the table of each leaderboard with the runs of its entries.

    A group of runs that is on several leaderboards is yielded only for the first of them. The first
    INLINE_RUNS runs of the page are plain HTML, and all others are compressed.
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
    """Group the runs of a leaderboard entry by task, and yield the groups.

    Args:
        board: Leaderboard that contains the entry.
        entry: Leaderboard entry.
        sections: Sections of runs, keyed by job key; runs without a section are left out.
        predictions: Addresses of pages that show predictions, keyed by the group's id and the task.
    """
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
            # The learning curve of a single run is shown in the section of the run instead.
            curves=(
                learning_curves(curves, found[0].job.curve_split) if len(curves) > 1 else Markup()
            ),
            runs=tuple(found),
            predictions=tuple(
                (cell, predictions[anchor, cell])
                for cell in entry.cells
                if (anchor, cell) in predictions
            ),
        )


def group_runs(board: Board, entry: Entry) -> dict[str, list[RunRow]]:
    """Return the runs of a leaderboard entry, keyed by task.

    Tasks are in the order of the leaderboard's columns. Tasks without a column, on which all runs
    have failed, come last.
    """
    by_task = grouped((run.task, run) for run in entry.runs)
    tasks = [task for task in board.tasks if task in by_task]
    return {task: by_task[task] for task in (*tasks, *sorted(by_task.keys() - tasks))}


# Replacement of links to details that are in separate files.


def moved(shown: Any, places: Places) -> Any:
    """Replace links to sections of runs with links to the files that contain the sections.

    A link to a section that is not in any file becomes empty.

    Args:
        shown: Page or a part of it, i.e. a dataclass or a tuple. Their fields and elements are
            searched for links. Any other object is returned unchanged.
        places: Addresses of the files, keyed by the ids of the sections.

    Returns:
        The changed page or part.
    """
    if isinstance(shown, tuple):
        # Return parts without links unchanged, so that most of the page is not copied.
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
