"""A board as a table in the terminal."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from leaderboard.board import Board, Cell, Entry, shown
from leaderboard.visible import visible

__all__ = ["render"]

NAMES = 1
"""The place of the column of names, the one that may be folded to fit."""

NAME_WIDTH = 14
"""As long as "distilbert-base" nearly is; nine tasks and this much fit 80 columns."""


def render(board: Board, console: Console) -> None:
    """Print the board: rank, model, score, each task's median and spread, then a legend.

    Names are shown as text: rich markup in them has no effect, and control characters are spelled
    out. Without colours (a pipe, NO_COLOR) the same table is plain. Where a line is too narrow,
    spreads go below their values, then tasks outside of the score are left out, then the tasks are
    spread over several tables.
    """
    console.print(Text(f"{board.title} on {visible(board.data_label)}", style="bold"))
    tables, left_out = _fitting(board, console)
    for table in tables:
        console.print(table)
        console.print()
    for line in _legend(board, left_out):
        console.print(Text(line, style="dim"))


def _fitting(board: Board, console: Console) -> tuple[list[Table], tuple[str, ...]]:
    """The tables that fit the console, and the tasks left out of them."""
    counted = tuple(task for task in board.tasks if task not in board.extras)
    layouts = (
        (board.tasks, " ", 1),
        (board.tasks, "\n", 1),
        (board.tasks, "\n", 0),
        (counted, "\n", 0),
    )
    for tasks, gap, space in layouts:
        table = _table(board, tasks, gap, space)
        if _fits(table, console):
            return [table], tuple(task for task in board.tasks if task not in tasks)
    return list(_tables(board, counted, console)), board.extras


def _tables(board: Board, tasks: Sequence[str], console: Console) -> Iterator[Table]:
    """As many tasks in each table as fit, at least one."""
    count = 1
    while count < len(tasks) and _fits(_table(board, tasks[: count + 1]), console):
        count += 1
    yield _table(board, tasks[:count])
    if tasks[count:]:
        yield from _tables(board, tasks[count:], console)


def _fits(table: Table, console: Console) -> bool:
    """Whether nothing but a long name need be folded."""
    unbounded = console.options.update(width=1000)
    return Measurement.get(console, unbounded, table).minimum <= console.width


def _table(board: Board, tasks: Sequence[str], gap: str = "\n", space: int = 0) -> Table:
    best = {task: board.best(task) for task in tasks}
    rows = [
        [
            _rank(entry),
            _name(entry),
            _score(board, entry, gap),
            *(_cell(entry.cells.get(task), best[task], gap) for task in tasks),
        ]
        for entry in board.entries
    ]
    heads = [Text(head) for head in ("#", "model", "score", *map(_short, tasks))]
    table = Table(box=SIMPLE_HEAD, padding=(0, space, 0, 0), pad_edge=False, show_edge=False)
    for number, head in enumerate(heads):
        if number == NAMES:
            table.add_column(head, overflow="fold", min_width=NAME_WIDTH)
            continue
        lines = [line for cells in (heads, *rows) for line in cells[number].split()]
        width = max(line.cell_len for line in lines)
        table.add_column(head, justify="right", no_wrap=True, min_width=width)
    for row in rows:
        table.add_row(*row)
    return table


def _short(task: str) -> str:
    return task.rpartition("/")[2]


def _rank(entry: Entry) -> Text:
    return Text("-" if entry.rank is None else str(entry.rank))


def _name(entry: Entry) -> Text:
    name = Text(visible(entry.model))
    name.append("\n" + visible(", ".join(_details(entry))), style="dim")
    return name


def _details(entry: Entry) -> Iterator[str]:
    yield entry.recipe_label
    if entry.precision != "fp32":
        yield entry.precision
    if entry.failures:
        yield f"{len(entry.failures)} failed"


def _score(board: Board, entry: Entry, gap: str) -> Text:
    if entry.score is None:
        there = len(board.rule.cells) - len(entry.missing)
        return Text(f"{there} of {len(board.rule.cells)}{gap}tasks", style="dim")
    return _with_spread(Text(shown(entry.score), style="bold"), entry.spread, gap)


def _cell(cell: Cell | None, best: str, gap: str) -> Text:
    if cell is None:
        return Text("-", style="dim")
    value = shown(cell.median)
    text = Text(value + ("!" if cell.flags else ""), style="bold" if value == best else "")
    return _with_spread(text, cell.spread, gap)


def _with_spread(text: Text, spread: float | None, gap: str) -> Text:
    if spread is not None:
        text.append(f"{gap}±{shown(spread)}", style="dim not bold")
    return text


def _legend(board: Board, left_out: Sequence[str]) -> Iterator[str]:
    rule, data = visible(board.rule.name), visible(board.data_label)
    yield f"score: {rule}, over each task's median; data: {data}."
    yield _seeds(board)
    if board.extras:
        place = "left out of this table for its width" if left_out else "shown beside it"
        names = ", ".join(_short(task) for task in board.extras)
        yield f"{names}: not part of the score, {place}."
    flags = {flag for e in board.entries for cell in e.cells.values() for flag in cell.flags}
    if flags:
        yield f"!: {visible('; '.join(sorted(flags)))}."


def _seeds(board: Board) -> str:
    counts = [count for entry in board.entries for count in entry.seeds if count]
    if not counts:
        return "no run has finished."
    low, high = min(counts), max(counts)
    number = str(low) if low == high else f"{low} to {high}"
    noun = "seed" if high == 1 else "seeds"
    meaning = "; ±: sample standard deviation over seeds" if high > 1 else ""
    return f"values: times 100, the median of {number} {noun}{meaning}."
