"""A board as the report's table shows it: every text and number ready, nothing left to compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from leaderboard.board import Board
from leaderboard.cell import Cell, score_names, shown
from leaderboard.entry import Entry
from leaderboard.report.reference import ReferenceView, reference_views

__all__ = [
    "CellView",
    "Column",
    "RowView",
    "Statistics",
    "TableView",
    "build_table",
    "group_anchor",
    "run_anchor",
    "statistics",
]


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """A cell's values over its seeds, as text."""

    task: str
    median: str
    mean: str
    spread: str
    low: str
    high: str
    seeds: str
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        numbers = self.median
        if self.spread:
            numbers = (
                f"median {self.median}, mean {self.mean} ± {self.spread}, "
                f"from {self.low} to {self.high}"
            )
        return ", ".join((numbers, self.seeds, *self.notes))


@dataclass(frozen=True, kw_only=True)
class CellView:
    """One cell: `order` is what its column is sorted by, empty where there is no value."""

    text: str
    spread: str = ""
    order: str = ""
    href: str = ""
    note: str = ""
    flags: str = ""
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """A task's column; `metrics` are what its value is the mean of."""

    task: str
    name: str
    metrics: str
    extra: bool


@dataclass(frozen=True, kw_only=True)
class RowView:
    """One entry."""

    rank: str
    kind: str
    model: str
    details: str
    failed: str
    score: CellView
    cells: tuple[CellView, ...]


@dataclass(frozen=True, kw_only=True)
class TableView:
    """One board, with the published blocks that belong under it."""

    anchor: str
    title: str
    data: str
    rule: str
    cite: str
    columns: tuple[Column, ...]
    rows: tuple[RowView, ...]
    seeds: str
    has_spread: bool
    has_flags: bool
    has_unranked_kinds: bool
    ranked: int
    references: tuple[ReferenceView, ...]


def run_anchor(key: str) -> str:
    """The id of a run's section."""
    return f"run-{key[:16]}"


def group_anchor(entry: Entry, task: str) -> str:
    """The id of the section with an entry's runs of a task."""
    return f"runs-{next(run.key for run in entry.runs if run.task == task)[:16]}"


def statistics(cell: Cell) -> Statistics:
    """A cell's numbers as text, times 100."""
    number = len(cell.values)
    return Statistics(
        task=cell.task,
        median=shown(cell.median),
        mean=shown(cell.mean),
        spread="" if cell.spread is None else shown(cell.spread),
        low=shown(min(cell.values)),
        high=shown(max(cell.values)),
        seeds=f"{number} seed" + ("" if number == 1 else "s"),
        notes=tuple(cell.notes),
    )


def build_table(board: Board, number: int) -> TableView:
    """The board as a table; `number` counts the report's boards from 1."""
    best = {task: board.best(task) for task in board.tasks}
    cells = [cell for entry in board.entries for cell in entry.cells.values()]
    return TableView(
        anchor=f"board-{number}",
        title=board.title,
        data=board.data_label,
        rule=board.rule.name,
        cite=board.rule.cite,
        columns=tuple(_column(board, task) for task in board.tasks),
        rows=tuple(_row(board, entry, best) for entry in board.entries),
        seeds=_seeds(board),
        has_spread=any(cell.spread is not None for cell in cells),
        has_flags=any(note for cell in cells for note in cell.notes),
        has_unranked_kinds=any(entry.kind != "model" for entry in board.entries),
        ranked=sum(entry.rank is not None for entry in board.entries),
        references=reference_views(board, f"board-{number}"),
    )


def _column(board: Board, task: str) -> Column:
    return Column(
        task=task,
        name=task.rpartition("/")[2],
        metrics=" and ".join(score_names(task, board.rule)),
        extra=task in board.extras,
    )


def _row(board: Board, entry: Entry, best: Mapping[str, str]) -> RowView:
    failed = len(entry.failures)
    return RowView(
        rank="" if entry.rank is None else str(entry.rank),
        kind=entry.kind,
        model=entry.model,
        details=_details(entry),
        failed=f"{failed} failed" if failed else "",
        score=_score(board, entry),
        cells=tuple(_cell(entry, task, best[task]) for task in board.tasks),
    )


def _details(entry: Entry) -> str:
    if entry.kind != "model":
        return entry.recipe_label
    low, high = entry.seeds
    seeds = str(high) if low == high else f"{low} to {high}"
    seeds += " seed" if high == 1 else " seeds"
    return ", ".join((entry.recipe_label, entry.precision, seeds, *entry.start_labels))


def _score(board: Board, entry: Entry) -> CellView:
    if entry.score is None:
        there = len(board.rule.cells) - len(entry.missing)
        missing = ", ".join(task.rpartition("/")[2] for task in entry.missing)
        return CellView(text=f"{there} of {len(board.rule.cells)} tasks", note=f"no {missing}")
    spread = "" if entry.spread is None else shown(entry.spread)
    top = entry.rank == 1 and sum(other.rank is not None for other in board.entries) > 1
    return CellView(
        text=shown(entry.score),
        spread=spread,
        order=repr(entry.score),
        note=_seed_note(entry.seed_scores),
        best=top,
    )


def _seed_note(scores: Sequence[float]) -> str:
    """What the score is of the seeds that have every task, where there are several."""
    if len(scores) < 2:
        return ""
    low, high = shown(min(scores)), shown(max(scores))
    return f"over {len(scores)} seeds: mean {shown(fmean(scores))}, from {low} to {high}"


def _cell(entry: Entry, task: str, best: str) -> CellView:
    cell = entry.cells.get(task)
    if cell is None:
        return CellView(text="–")
    numbers = statistics(cell)
    return CellView(
        text=numbers.median,
        spread=numbers.spread,
        order=repr(cell.median),
        href="#" + group_anchor(entry, cell.runs[0].task),
        note=numbers.sentence,
        flags="; ".join(cell.notes),
        best=entry.kind == "model" and numbers.median == best,
    )


def _seeds(board: Board) -> str:
    models = [entry for entry in board.entries if entry.kind == "model"] or board.entries
    counts = sorted({len(cell.values) for entry in models for cell in entry.cells.values()})
    if not counts:
        return ""
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} {'seed' if counts[-1] == 1 else 'seeds'}"
