"""Published rows as they stand under a board: one block a split, never ranked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from leaderboard.boards.board import Board
from leaderboard.boards.published import PublishedCell, PublishedRow, published

__all__ = ["PublishedBlock", "PublishedLine", "blocks_of", "published_blocks"]


@dataclass(frozen=True, kw_only=True)
class PublishedLine:
    """One published row: its score under each rule, and its cells, task by task of the block."""

    row: PublishedRow
    averages: tuple[PublishedCell, ...]
    cells: tuple[tuple[PublishedCell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class PublishedBlock:
    """What others say of a suite on one split. `tasks` are the columns that have a number.

    `origin` is "published", or "imported" where a user has brought the numbers.
    """

    title: str
    split: str
    tasks: tuple[str, ...]
    lines: tuple[PublishedLine, ...]
    origin: Literal["published", "imported"] = "published"


def published_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """The blocks that belong under a board, dev before test; none where its data is not whole.

    Numbers on made-up or cut data say nothing about published ones.
    """
    return blocks_of(board, published(board.suite)) if board.is_whole else ()


def blocks_of(
    board: Board,
    rows: Sequence[PublishedRow],
    origin: Literal["published", "imported"] = "published",
) -> tuple[PublishedBlock, ...]:
    """These rows in blocks that belong under a board, dev before test."""
    return tuple(_blocks(board, rows, origin))


def _blocks(
    board: Board, every: Sequence[PublishedRow], origin: Literal["published", "imported"]
) -> Iterator[PublishedBlock]:
    for split in ("dev", "test"):
        rows = [row for row in every if row.split == split]
        # A board has columns only for what was run; these rows may know other tasks.
        tasks = dict.fromkeys((*board.tasks, *(c.task for row in rows for c in row.cells)))
        columns = tuple(t for t in tasks if "/" in t and any(row.of(t) for row in rows))
        if rows:
            yield PublishedBlock(
                title=board.title,
                split=split,
                tasks=columns,
                lines=tuple(_line(row, board.suite, columns) for row in rows),
                origin=origin,
            )


def _line(row: PublishedRow, suite: str, tasks: tuple[str, ...]) -> PublishedLine:
    return PublishedLine(
        row=row, averages=row.of(suite), cells=tuple(row.of(task) for task in tasks)
    )
