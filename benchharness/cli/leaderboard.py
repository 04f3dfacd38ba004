"""`bench leaderboard`: the table in the terminal."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchharness.cli.options import DATABASE, AsJson, Database, Suites

if TYPE_CHECKING:
    from leaderboard.board import Board, Cell, Entry

__all__ = ["leaderboard", "show_boards"]

Data = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="hub|DIR|mini", help="Only boards of rows that came through this door."
    ),
]


def leaderboard(
    *,
    suite: Suites = None,
    data: Data = None,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Show the leaderboard: rank, score, and each task's median and spread over seeds."""
    from benchharness.cli.report import gather_boards
    from leaderboard.store import open_store

    with open_store(db, create=False) as store:
        boards = [board for board in gather_boards(store, suite or ()) if _is_from(board, data)]
    if as_json:
        typer.echo(json.dumps([board_to_json(board) for board in boards], indent=2))
    elif boards:
        show_boards(boards)
    else:
        typer.echo("no run fits; `bench list runs` shows what is stored.")


def show_boards(boards: "list[Board]") -> None:
    """Prints boards on stdout."""
    from rich.console import Console

    from leaderboard.terminal import render

    for board in boards:
        render(board, Console())


def board_to_json(board: "Board") -> dict[str, Any]:
    """A board as plain data; scores are in their own unit, mostly 0 to 1."""
    return {
        "suite": board.suite,
        "rule": board.rule.name,
        "data": list(board.data),
        "limit": board.limit,
        "tasks": list(board.tasks),
        "entries": [_entry_to_json(entry) for entry in board.entries],
    }


def _is_from(board: "Board", data: str | None) -> bool:
    return data is None or data in board.data or str(Path(data).resolve()) in board.data


def _entry_to_json(entry: "Entry") -> dict[str, Any]:
    return {
        "rank": entry.rank,
        "model": entry.model,
        "recipe": entry.recipe,
        "precision": entry.precision,
        "variant": entry.variant,
        "score": entry.score,
        "spread": entry.spread,
        "missing": list(entry.missing),
        "tasks": {task: _cell_to_json(cell) for task, cell in entry.cells.items()},
        "failures": [run.key for run in entry.failures],
    }


def _cell_to_json(cell: "Cell") -> dict[str, Any]:
    return {
        "median": cell.median,
        "mean": cell.mean,
        "spread": cell.spread,
        "values": list(cell.values),
        "seeds": [run.seed for run in cell.runs],
        "keys": [run.key for run in cell.runs],
        "flags": list(cell.flags),
    }
