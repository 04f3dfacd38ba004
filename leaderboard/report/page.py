"""What the report shows, worked out before any HTML: boards, groups of runs, failures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.report.blocks import ReproductionView, reproduction_views
from benchharness.leaderboard.report.plots.cost import RunFacts, facts_of
from benchharness.leaderboard.report.plots.figure import Figure, Table
from benchharness.leaderboard.report.plots.lines import seed_figures
from benchharness.leaderboard.report.plots.section import (
    Background,
    Pages,
    Plots,
    board_key,
    build_plots,
)
from benchharness.leaderboard.report.rows import RowView
from benchharness.leaderboard.report.run import RunSection, build_run
from benchharness.leaderboard.report.table import (
    Statistics,
    TableView,
    build_table,
    group_anchor,
    run_anchor,
    statistics,
)
from benchharness.leaderboard.result import Failure, Result, RunRow

Places = Mapping[str, str]
"""By the ids of sections that stand in files of their own, the address of the file."""

INLINE_RUNS = 120
"""Runs whose sections need no script; those of more would make the page slow to open."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The runs of one entry on one task, seed by seed; what a cell of a table links to.

    `reproductions` hold its scores against the published ones of the same model, `curves` the
    learning curves of several seeds together, `predictions` a task and the address of its page of
    every prediction.
    """

    anchor: str
    title: str
    statistics: tuple[Statistics, ...]
    reproductions: tuple[ReproductionView, ...]
    curves: tuple[Figure, ...]
    runs: tuple[RunSection, ...]
    predictions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class EntryRuns:
    """All runs of an entry, task by task; `is_packed` where a script unpacks them."""

    model: str
    recipe: str
    runs: int
    groups: tuple[Group, ...]
    is_packed: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """What links lead to."""
        return tuple(
            id_ for group in self.groups for id_ in (group.anchor, *(r.anchor for r in group.runs))
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """The runs of a board, entry by entry."""

    table: TableView
    entries: tuple[EntryRuns, ...]


@dataclass(frozen=True, kw_only=True)
class FailedRun:
    """A run that failed, as the list of them has it."""

    model: str
    task: str
    seed: int
    status: str
    error: str
    href: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report. `others` are runs that stand on no board; baselines are no `models`."""

    tables: tuple[TableView, ...]
    plots: tuple[Plots, ...]
    parts: tuple[Part, ...]
    others: tuple[RunSection, ...]
    failures: tuple[FailedRun, ...]
    runs: int
    models: int


def build_page(
    boards: Sequence[Board],
    details: Iterable[Result | Failure],
    background: Background | None = None,
    places: Places = MappingProxyType({}),
) -> Page:
    """The boards with a section for each run in `details`, and what plots know besides.

    A run on a board without details (a store that keeps rows only) has its scores and no section.
    With `places` the sections are there, in files of their own: the page links to them and has
    none itself.
    """
    background = background or Background()
    sections, facts = _read(details, with_sections=not places)
    tables = tuple(
        build_table(board, number, background.sizes, background.contrasts.get(board_key(board), {}))
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
            {e.model for e in entries if e.kind != "floor"}
            | {s.job.model for s in sections.values() if s.job.kind != "floor"}
        ),
    )
    return moved(page, places) if places else page


def _read(
    details: Iterable[Result | Failure], *, with_sections: bool
) -> tuple[dict[str, RunSection], dict[str, RunFacts]]:
    """The section of each run, and the facts of those of encoders, by key; each is read once."""
    sections, facts = {}, {}
    for run in details:
        if with_sections:
            section = build_run(run)
            sections[section.key] = section
        if (found := facts_of(run)) is not None:
            facts[run.job.key] = found
    return sections, facts


def _failures(entries: Iterable[Entry], others: Iterable[RunSection]) -> Iterator[FailedRun]:
    """Each failed run once."""
    rows = {run.key: run for entry in entries for run in entry.failures}
    for run in rows.values():
        yield FailedRun(
            model=run.model,
            task=run.title,
            seed=run.seed,
            status=run.status,
            error=run.error,
            href="#" + run_anchor(run.key),
        )
    for section in others:
        if section.error:
            job = section.job
            yield FailedRun(
                model=job.model,
                task=job.title,
                seed=job.seed,
                status=section.status,
                error=section.error,
                href="#" + section.anchor,
            )


def _parts(
    tables: Iterable[TableView],
    boards: Iterable[Board],
    sections: Mapping[str, RunSection],
    predictions: Pages,
) -> Iterator[Part]:
    """The boards' runs; the first of a page stand in it as they are, and each stands there once."""
    left, shown = INLINE_RUNS, set[str]()
    for table, board in zip(tables, boards, strict=True):
        found = []
        for entry in board.entries:
            groups = [
                group
                for group in groups_of(board, entry, sections, predictions)
                if group.anchor not in shown
            ]
            if not groups:
                continue
            shown.update(group.anchor for group in groups)
            left -= max(1, sum(len(group.runs) for group in groups))
            found.append(entry_runs(entry, groups, is_packed=left < 0))
        yield Part(table=table, entries=tuple(found))


def entry_runs(entry: Entry, groups: Iterable[Group], *, is_packed: bool = False) -> EntryRuns:
    """The runs of an entry in these groups."""
    return EntryRuns(
        model=entry.name,
        recipe=entry.beside_name,
        runs=len(entry.runs),
        groups=tuple(groups),
        is_packed=is_packed,
    )


def groups_of(
    board: Board, entry: Entry, sections: Mapping[str, RunSection], predictions: Pages
) -> Iterator[Group]:
    """The runs of an entry, task by task, with the sections and pages of those that have any."""
    views = reproduction_views(board, entry)
    for runs in group_runs(board, entry).values():
        found = tuple(view for each in runs[0].trained_tasks for view in views.get(each, ()))
        group = _group(entry, runs, sections, found)
        pages = [(cell, predictions.get((group.anchor, cell), "")) for cell in entry.cells]
        yield replace(group, predictions=tuple(page for page in pages if page[1]))


def group_runs(board: Board, entry: Entry) -> dict[str, list[RunRow]]:
    """The runs of an entry by task; a failed task that is no column comes last."""
    by_task: dict[str, list[RunRow]] = {}
    for run in entry.runs:
        by_task.setdefault(run.task, []).append(run)
    tasks = [task for task in board.tasks if task in by_task]
    return {task: by_task[task] for task in (*tasks, *sorted(by_task.keys() - tasks))}


def _group(
    entry: Entry,
    runs: Sequence[RunRow],
    sections: Mapping[str, RunSection],
    reproductions: tuple[ReproductionView, ...],
) -> Group:
    keys = {run.key for run in runs}
    cells = [c for c in entry.cells.values() if keys & {run.key for run in c.runs}]
    return Group(
        anchor=group_anchor(entry, runs[0].task),
        title=runs[0].title,
        statistics=tuple(statistics(cell) for cell in cells),
        reproductions=reproductions,
        curves=_curves([sections[run.key] for run in runs if run.key in sections]),
        runs=tuple(sections[run.key] for run in runs if run.key in sections),
    )


def _curves(runs: Sequence[RunSection]) -> tuple[Figure, ...]:
    """The learning curves of several seeds in one chart; a single run's stand in its section."""
    curves = {f"seed {run.job.seed}": run.curve for run in runs if run.curve}
    return seed_figures(curves, runs[0].job.curve_split) if len(curves) > 1 else ()


# Where details stand in files of their own, links lead there.


def moved(page: Page, places: Places) -> Page:
    """The page with its links to sections as links to files."""

    def there(href: str) -> str:
        place = places.get(href.removeprefix("#"))
        return href if place is None else f"{place}{href}"

    def figures(found: Iterable[Figure]) -> tuple[Figure, ...]:
        return tuple(
            replace(
                figure,
                marks=tuple(replace(mark, href=there(mark.href)) for mark in figure.marks),
                table=figure.table and numbers(figure.table),
            )
            for figure in found
        )

    def numbers(table: Table) -> Table:
        return replace(table, rows=tuple(replace(r, href=there(r.href)) for r in table.rows))

    def row(found: RowView) -> RowView:
        return replace(
            found,
            href=there(found.href),
            score=replace(found.score, href=there(found.score.href)),
            cells=tuple(replace(cell, href=there(cell.href)) for cell in found.cells),
        )

    return replace(
        page,
        tables=tuple(
            replace(
                table,
                groups=tuple(replace(g, rows=tuple(map(row, g.rows))) for g in table.groups),
            )
            for table in page.tables
        ),
        plots=tuple(
            replace(
                plots,
                tradeoffs=tuple(
                    replace(each, figures=figures(each.figures), table=numbers(each.table))
                    for each in plots.tradeoffs
                ),
                spreads=figures(plots.spreads),
                categories=figures(plots.categories),
                histories=figures(plots.histories),
                stages=figures(plots.stages),
                shots=figures(plots.shots),
                layers=figures(plots.layers),
            )
            for plots in page.plots
        ),
        failures=tuple(replace(each, href=there(each.href)) for each in page.failures),
    )
