"""A board as a plain table: what Markdown and LaTeX have in common."""

from collections.abc import Iterator
from dataclasses import dataclass

from leaderboard.boards.board import Board
from leaderboard.boards.cell import Cell, shown
from leaderboard.boards.entry import Entry

__all__ = ["Table", "TableCell", "TableRow", "build_table"]


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """A value times 100 with its spread, empty where there is none; `best` of its column or not."""

    value: str = ""
    spread: str = ""
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One entry; `rank` is empty where it has none."""

    rank: str
    model: str
    recipe: str
    cells: tuple[TableCell, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """One board. `columns` name the cells of a row, `notes` are sentences for below the table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]


def build_table(board: Board) -> Table:
    """The table of a board: its score, where it has every task of it, and its tasks."""
    scored = set(board.rule.cells) <= set(board.tasks)
    names = tuple(task.rpartition("/")[2] for task in board.tasks)
    return Table(
        title=f"{board.title} on {board.data_label}",
        columns=("score", *names) if scored else names,
        rows=tuple(_row(board, entry, scored=scored) for entry in board.entries),
        notes=tuple(_notes(board, scored=scored)),
    )


def _row(board: Board, entry: Entry, *, scored: bool) -> TableRow:
    cells = [_cell(board, entry, task) for task in board.tasks]
    return TableRow(
        rank="" if entry.rank is None else str(entry.rank),
        model=entry.model,
        recipe=entry.recipe_label,
        cells=(_score(board, entry), *cells) if scored else tuple(cells),
    )


def _score(board: Board, entry: Entry) -> TableCell:
    if entry.score is None:
        return TableCell()
    models = (other.score for other in board.entries if other.competes)
    scores = [score for score in models if score is not None]
    best = entry.competes and len(scores) > 1 and shown(entry.score) == shown(max(scores))
    return TableCell(value=shown(entry.score), spread=_spread(entry.spread), best=best)


def _cell(board: Board, entry: Entry, task: str) -> TableCell:
    cell: Cell | None = entry.cells.get(task)
    if cell is None:
        return TableCell()
    value = shown(cell.median)
    best = entry.competes and value == board.best(task)
    return TableCell(value=value, spread=_spread(cell.spread), best=best)


def _spread(spread: float | None) -> str:
    return "" if spread is None else shown(spread)


def _notes(board: Board, *, scored: bool) -> Iterator[str]:
    yield "Values are times 100, the median over seeds; ± is the sample standard deviation."
    if scored:
        yield f"The score is {board.rule.name}."
    if any(entry.kind != "model" for entry in board.entries):
        yield "Ensembles and floors have no rank."
