"""What rich prints on stdout: tables. Other files import this one where they print."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_cells(
    columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]], width: int | None
) -> None:
    """Prints a table: `columns` says of each whether it is of numbers; no width is the terminal's.

    Cells are shown as they are: rich markup in a model's name has no effect.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column, is_number in columns:
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=width).print(table)
