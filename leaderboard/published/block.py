"""Published rows as they stand under a board: one block a split, never ranked."""

from collections.abc import Iterator
from dataclasses import dataclass

from leaderboard.board import Board
from leaderboard.published.reading import PublishedCell, PublishedRow, published

__all__ = ["PublishedBlock", "PublishedLine", "published_blocks"]


@dataclass(frozen=True, kw_only=True)
class PublishedLine:
    """One published row: its score under each rule, and its cells, task by task of the block."""

    row: PublishedRow
    averages: tuple[PublishedCell, ...]
    cells: tuple[tuple[PublishedCell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class PublishedBlock:
    """What is published of a suite on one split. `tasks` are the columns that have a number."""

    title: str
    split: str
    tasks: tuple[str, ...]
    lines: tuple[PublishedLine, ...]


def published_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """The blocks that belong under a board, dev before test; none where its data is not whole.

    Numbers on made-up or cut data say nothing about published ones.
    """
    return tuple(_blocks(board)) if board.is_whole else ()


def _blocks(board: Board) -> Iterator[PublishedBlock]:
    for split in ("dev", "test"):
        rows = [row for row in published(board.suite) if row.split == split]
        # A board has columns only for what was run; these rows may know other tasks.
        tasks = dict.fromkeys((*board.tasks, *(c.task for row in rows for c in row.cells)))
        columns = tuple(t for t in tasks if "/" in t and any(row.of(t) for row in rows))
        if rows:
            yield PublishedBlock(
                title=board.title,
                split=split,
                tasks=columns,
                lines=tuple(_line(row, board.suite, columns) for row in rows),
            )


def _line(row: PublishedRow, suite: str, tasks: tuple[str, ...]) -> PublishedLine:
    return PublishedLine(
        row=row, averages=row.of(suite), cells=tuple(row.of(task) for task in tasks)
    )
