"""What rich prints on stdout: tables and boards. Other files import this one where they print."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.imported import imported_blocks
from benchharness.leaderboard.boards.published import published_blocks
from benchharness.leaderboard.boards.terminal import render, render_published, render_reproductions


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


def print_boards(boards: Sequence[Board], *, published: bool) -> None:
    """Prints boards, each with what it reproduces and what was imported."""
    for board in boards:
        render(board, Console())
        render_reproductions(board, Console())
        blocks = published_blocks(board) if published else ()
        for block in (*imported_blocks(board), *blocks):
            render_published(block, Console())
