"""What rich prints on stdout: tables and boards. Other files import this one where they print."""

from collections.abc import Mapping, Sequence
from typing import Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.imported import imported_blocks
from benchharness.leaderboard.boards.published import published_blocks
from benchharness.leaderboard.boards.systems import like_those_of
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


def print_boards(
    boards: Sequence[Board],
    *,
    details: bool = False,
    published: Literal["none", "like", "all"] = "none",
    sizes: Mapping[str, float] | None = None,
) -> None:
    """Prints boards, each with what it reproduces and what was imported.

    Of published rows none, those of models like the board's (`sizes` are those of known models), or
    all.
    """
    for board in boards:
        render(board, Console(), details=details)
        render_reproductions(board, Console(), details=details)
        for block in imported_blocks(board):
            render_published(block, Console())
        for block in published_blocks(board) if published != "none" else ():
            like = like_those_of(board, block, sizes or {}) if published == "like" else block
            if like.lines:
                left_out = len(block.lines) - len(like.lines)
                render_published(like, Console(), left_out=left_out)
            else:
                typer.echo(
                    f"{block.title}, published ({block.split}): {len(block.lines)} rows, none of a "
                    "model like these; --all-published shows them."
                )
