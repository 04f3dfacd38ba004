"""Imported scores as they stand under a board: like published rows, in blocks of their own."""

from collections.abc import Iterator

from leaderboard.boards.board import Board
from leaderboard.boards.published import PublishedCell, PublishedRow
from leaderboard.published.block import PublishedBlock, blocks_of
from leaderboard.result import RunRow
from leaderboard.split_of import split_of

__all__ = ["imported_blocks"]

PREFIX = "imported:"


def imported_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """The blocks of what was imported, dev before test; none of it has a rank."""
    return blocks_of(board, tuple(_rows(board)), "imported")


def _rows(board: Board) -> Iterator[PublishedRow]:
    """One row for each model, recipe and source, with all its scores on a split."""
    groups: dict[tuple[str, ...], list[RunRow]] = {}
    for run in board.imported:
        key = (run.model, run.recipe, run.precision, run.weights, _split(run))
        groups.setdefault(key, []).append(run)
    for (model, recipe, precision, weights, split), runs in groups.items():
        yield PublishedRow(
            table="imported",
            suite=board.suite,
            split=split,
            system=model,
            by="",
            protocol=recipe,
            parameters="" if precision == "unknown precision" else precision,
            date=max(run.finished for run in runs),
            source=weights.removeprefix(PREFIX),
            place="",
            cells=tuple(cell for run in runs for cell in _cells(run)),
        )


def _cells(run: RunRow) -> Iterator[PublishedCell]:
    for name, score in run.scores[run.task].items():
        printed = f"{100 * score:.4f}".rstrip("0").removesuffix(".")
        yield PublishedCell(task=run.task, scores=(name.removesuffix("_test"),), printed=printed)


def _split(run: RunRow) -> str:
    """Dev or test: of two dev splits, the second is told apart by its scores' names."""
    (name,) = run.scores[run.task]
    return split_of(run.task, name)[1].partition("_")[0]
