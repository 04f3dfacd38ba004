"""The best of a board, for where all of it would be too much."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import groupby

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry

__all__ = ["TOP", "best_of", "top_of"]

TOP = 10
"""Entries of each kind that are shown unasked: of several seeds they have five lines each."""


def top_of(board: Board, number: int, keep: Set[str] = frozenset()) -> Board:
    """The board with the first `number` entries of each kind, in their order and with their ranks.

    The best of each column stay too, and the entries of the runs with the keys to `keep`, so that
    nothing is shown as the best that is not, and everybody finds their own. 0 leaves all.
    """
    if number == 0 or len(board.entries) <= number:
        return board
    chosen = {id(entry) for entry in (*_first(board, number), *_best(board), *_of(board, keep))}
    return replace(board, entries=tuple(e for e in board.entries if id(e) in chosen))


def best_of(boards: Sequence[Board], most: int) -> list[Board]:
    """The boards with so few of their best entries that they have no more than `most` runs.

    Every board keeps one entry of each kind and the best of each column, however many runs these
    have.
    """
    runs = [[len(entry.runs) for entry in board.entries] for board in boards]
    number = max((len(board.entries) for board in boards), default=0)
    while number > 1 and sum(sum(counts[:number]) for counts in runs) > most:
        number = number * 3 // 4
    whole = sum(map(sum, runs)) <= most
    return [top_of(board, 0 if whole else number) for board in boards]


def _first(board: Board, number: int) -> Iterator[Entry]:
    for _, entries in groupby(board.entries, key=lambda entry: entry.kind):
        yield from list(entries)[:number]


def _best(board: Board) -> Iterator[Entry]:
    models = [entry for entry in board.entries if entry.kind == "model"]
    for task in board.tasks:
        ran = [entry for entry in models if task in entry.cells]
        yield from sorted(ran, key=lambda entry: -entry.cells[task].median)[:1]


def _of(board: Board, keys: Set[str]) -> Iterator[Entry]:
    return (e for e in board.entries if keys and any(run.key in keys for run in e.runs))
