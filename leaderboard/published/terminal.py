"""Published rows as a table in the terminal."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from leaderboard.boards.published import PublishedCell
from leaderboard.published.block import PublishedBlock, PublishedLine
from leaderboard.visible import visible

__all__ = ["render_published"]

NAME_WIDTH = 16
"""Names are folded to it where a line is short."""

LEGENDS = {
    "published": "as printed, in percent, unranked; sources and metrics: `bench list published`.",
    "imported": "measured elsewhere and brought by `bench import`, in percent, unranked; "
    "sources: `bench leaderboard --json`.",
}


def render_published(block: PublishedBlock, console: Console) -> None:
    """Print a block: one line a published row, as printed, in the order of its sources.

    Where a line is too narrow, a task's numbers stand below one another, then the tasks are spread
    over several tables.
    """
    console.print(Text(f"{block.title}, {block.origin} ({block.split})", style="bold"))
    wide = _table(block, _columns(block), "/")
    tables = [wide] if _fits(wide, console) else _tables(block, _columns(block), console)
    for table in tables:
        console.print(table)
        console.print()
    console.print(Text(LEGENDS[block.origin], style="dim"))
    console.print()


def _columns(block: PublishedBlock) -> range:
    """The columns of numbers: the score, then every task."""
    return range(1 + len(block.tasks))


def _tables(block: PublishedBlock, columns: range, console: Console) -> Iterator[Table]:
    """As many columns in each table as fit, at least one."""
    count = len(columns)
    while count > 1 and not _fits(_table(block, columns[:count], "\n"), console):
        count -= 1
    yield _table(block, columns[:count], "\n")
    if columns[count:]:
        yield from _tables(block, columns[count:], console)


def _fits(table: Table, console: Console) -> bool:
    """Whether nothing but a long name need be folded."""
    unbounded = console.options.update(width=1000)
    return Measurement.get(console, unbounded, table).minimum <= console.width


def _table(block: PublishedBlock, columns: range, gap: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("system", overflow="fold", min_width=NAME_WIDTH)
    heads = ("score", *(task.rpartition("/")[2] for task in block.tasks))
    rows = [[_numbers(cells, gap) for cells in (x.averages, *x.cells)] for x in block.lines]
    for column in columns:
        lines = [text for row in rows for text in row[column].split()]
        width = max(len(heads[column]), *(line.cell_len for line in lines))
        table.add_column(heads[column], justify="right", no_wrap=True, min_width=width)
    for line, row in zip(block.lines, rows, strict=True):
        table.add_row(_name(line), *(row[column] for column in columns))
    return table


def _name(line: PublishedLine) -> Text:
    said = [part for part in (line.row.protocol, line.row.date) if part not in ("", "unsaid")]
    name = Text(visible(line.row.system))
    if said:
        name.append("\n" + visible(", ".join(said)), style="dim")
    return name


def _numbers(cells: Sequence[PublishedCell], gap: str) -> Text:
    return Text(gap.join(cell.printed for cell in cells) or "-")
