"""Measured scores beside the published ones of the same models, as a table in the terminal."""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from leaderboard.boards.reproduction import Reproduction, reproductions
from leaderboard.visible import visible

__all__ = ["render_reproductions"]

NUMBERS = ("ours", "theirs", "difference", "noise")


def render_reproductions(board: Board, console: Console) -> None:
    """Print a line for each score that an entry shares with a published row of its model.

    Nothing where there is none.
    """
    rows = list(_rows(board))
    if not rows:
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for head in ("model", "task", "score"):
        table.add_column(head, overflow="fold")
    for head in NUMBERS:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(Text(f"{board.title}, reproduction of published scores", style="bold"))
    console.print(table)
    console.print()
    legend = "in percent; ours: the median over seeds; noise: how far theirs may lie by chance."
    console.print(Text(legend, style="dim"))
    console.print()


def _rows(board: Board) -> Iterator[tuple[str, ...]]:
    """The lines of every entry, of which the first names it."""
    for entry in board.entries:
        for place, found in enumerate(reproductions(board, entry)):
            yield _row(_name(entry) if place == 0 else "", found)


def _name(entry: Entry) -> str:
    return visible(f"{entry.model} ({entry.recipe_label})")


def _row(name: str, found: Reproduction) -> tuple[str, ...]:
    return (
        name,
        found.task.rpartition("/")[2],
        " or ".join(found.theirs.scores),
        "" if found.ours is None else f"{found.ours:.1f}",
        found.theirs.printed,
        "" if found.difference is None else f"{found.difference:+.1f}",
        "" if found.noise is None else f"±{found.noise:.1f}",
        f"{found.verdict}: {visible(found.reason)}" if found.reason else found.verdict,
    )
