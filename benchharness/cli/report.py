"""`bench report`: the leaderboard as one HTML file."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchharness.cli.options import DATABASE, REPORT, Database, Out, Suites
from leaderboard.visible import visible

if TYPE_CHECKING:
    from leaderboard.board import Board
    from leaderboard.result import Failure, Result
    from leaderboard.store import Store

__all__ = ["gather_boards", "make_report", "report"]

Open = Annotated[bool, typer.Option("--open", help="Open the report in the browser.")]
Intervals = Annotated[
    bool | None,
    typer.Option(
        "--intervals/--no-intervals",
        help="With or without 95 % intervals of scores and ranks, which every prediction is read "
        "for. Default: with them for up to 250 runs.",
    ),
]

MANY_RUNS = 250
"""Reading more than so many takes longer than a report should."""


def report(
    *,
    suite: Suites = None,
    db: Database = DATABASE,
    out: Out = REPORT,
    intervals: Intervals = None,
    open_it: Open = False,
) -> None:
    """Write the HTML report: a table per suite, a section per run."""
    from leaderboard.store import open_store

    with open_store(db, create=False) as store:
        make_report(store, Path(out), suite or (), intervals=intervals)
    typer.echo(visible(f"report: {out}"))
    if open_it:
        typer.launch(str(Path(out).resolve()))


def make_report(
    store: "Store", out: Path, suites: Sequence[str] = (), *, intervals: bool | None = None
) -> None:
    """Writes the report of some suites, or of all that have runs.

    With intervals or without, by default with them where few runs need be read. Raises BenchError
    where the file cannot be written.
    """
    from benchharness.cli.sizes import known_sizes
    from leaderboard.report import write_report
    from leaderboard.report.plots.section import Background
    from tasks.errors import BenchError

    boards = gather_boards(store, suites)
    if intervals or (intervals is None and _count(boards) <= MANY_RUNS):
        from benchharness.cli.standings import add_standings

        boards = [add_standings(board, store) for board in boards]
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    try:
        background = Background(sizes=known_sizes(), past=store.past_runs())
        write_report(out, boards, _details(store, boards), generated, background)
    except OSError as error:
        raise BenchError(
            f"the report {out} could not be written: {error.strerror or error}. Give another "
            "--out; the results are stored."
        ) from error


def _count(boards: "Iterable[Board]") -> int:
    return sum(len(entry.runs) for board in boards for entry in board.entries)


def gather_boards(
    store: "Store", suites: Sequence[str] = (), data: str | None = None
) -> "list[Board]":
    """The boards of the named suites, or of all; a suite without runs has none.

    `data` keeps only those whose rows came through that door.
    """
    from leaderboard.board import build_boards
    from tasks.suites import SUITES, find_suites

    named = {suite.name: suite for name in suites for suite in find_suites(name)}
    chosen = (named if suites else SUITES).values()
    runs = store.runs()  # of all suites: one may start from a run of another
    return [
        board
        for suite in chosen
        for board in build_boards(runs, suite)
        if data is None or data in board.data or str(Path(data).resolve()) in board.data
    ]


def _details(store: "Store", boards: "Iterable[Board]") -> "Iterator[Result | Failure]":
    """The runs of the boards, each read once and when it is needed."""
    entries = (entry for board in boards for entry in board.entries)
    for key in dict.fromkeys(run.key for entry in entries for run in entry.runs):
        yield store.result(key)
