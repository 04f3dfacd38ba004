"""The boards of what is stored: of the suites that are asked for, or of those that ran last."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from leaderboard.boards.board import Board, build_boards
from leaderboard.result import RunRow
from leaderboard.store.store import Store
from tasks.suites import SUITES, find_suites

__all__ = ["Recent", "gather_boards", "left_out", "recent_suites"]

MANY_RUNS = 5_000
"""Runs of several suites that are shown unasked; reading and ranking so many takes a second."""


class Recent(NamedTuple):
    """The suites to show where none is named, and those that would be too much."""

    shown: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def sentences(self) -> Iterator[str]:
        """What is left out, and how to see it."""
        if more := len(self.left_out):
            some = ", ".join(self.left_out[:10]) + (", ..." if more > 10 else "")
            yield f"{', '.join(self.shown)} ran last; --suite NAME shows {more} more: {some}."


def recent_suites(store: Store, first: Collection[str] = (), most: int = MANY_RUNS) -> Recent:
    """The suites with runs, those that ran last first, as far as they have no more than `most`.

    Those of `first` come before them. One is always shown; in a small store it is all of them, in
    the order of the list of suites.
    """
    found = [name for name in store.suites() if name in SUITES]
    stored = sorted(found, key=lambda name: name not in first)
    shown: list[str] = []
    for name in stored:
        most -= store.count(suite=name)
        if shown and most < 0:
            break
        shown.append(name)
    return Recent(
        shown=tuple(name for name in SUITES if name in shown), left_out=tuple(stored[len(shown) :])
    )


def gather_boards(
    store: Store,
    suites: Sequence[str] = (),
    data: str | None = None,
    models: Collection[str] | None = None,
) -> list[Board]:
    """The boards of the named suites, or of all; a suite without runs has none.

    `data` keeps only those whose rows came through that door, `models` only the runs of these.
    """
    named = {suite.name: suite for name in suites for suite in find_suites(name)}
    stored = set(named if suites else store.suites())
    return [
        board
        for suite in (named or SUITES).values()
        if suite.name in stored
        for board in build_boards(_runs(store, suite.name, models), suite)
        if data is None or data in board.data or str(Path(data).resolve()) in board.data
    ]


def _runs(store: Store, suite: str, models: Collection[str] | None) -> list[RunRow]:
    """The runs of a suite, and those that they have started from."""
    runs = store.runs(suite=suite, model=models)
    return [*runs, *_ancestors(store, runs)]


def _ancestors(store: Store, runs: Sequence[RunRow]) -> Iterator[RunRow]:
    known = {run.key for run in runs}
    while wanted := {run.start_from for run in runs if run.start_from} - known:
        known |= wanted
        runs = store.runs_with(wanted)
        yield from runs


def left_out(whole: Sequence[Board], boards: Sequence[Board]) -> Iterator[str]:
    """A sentence for each board that is not shown whole."""
    for board, shown in zip(whole, boards, strict=True):
        if len(shown.entries) < len(board.entries):
            yield (
                f"{board.title}: the best {len(shown.entries)} of {len(board.entries)} rows; "
                "`bench leaderboard --top 0` shows all."
            )
