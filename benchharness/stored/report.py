"""The report of what is stored: which boards it shows, and what of them is read for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchharness.leaderboard.boards.board import Board, best_of
from benchharness.leaderboard.report.plots.cost import ModelSize, Sizes
from benchharness.leaderboard.report.plots.figure import Figure
from benchharness.leaderboard.report.plots.section import Background, BoardKey
from benchharness.leaderboard.report.write import About, write_report
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.models import MODELS
from benchharness.stored.boards import gather_boards, left_out, recent_suites, report_mark
from benchharness.stored.uncertainty import add_uncertainty
from benchharness.tasks.errors import BenchError

MANY_RUNS = 250
"""Reading more than so many takes longer than a report should."""

MOST_RUNS = 500
"""Runs of a report; more would make it slow to write and to open."""

NOT_DENSE = ("albert", "funnel")
"""Families in which a token does not pass every weight once: shared layers, pooled tokens."""


def make_report(
    store: Store,
    out: Path,
    suites: Sequence[str] = (),
    *,
    intervals: bool | None = None,
    last: Sequence[Board] = (),
) -> None:
    """Writes the report of some suites, or of all that have runs.

    Of a large store that is the suites that ran last, before them those of the boards in `last`,
    and the best rows; the report says so. With intervals or without, by default with them where few
    runs need be read. Raises BenchError where the file cannot be written.
    """
    mark = report_mark(store, suites, last, intervals=intervals)  # before others store more
    whole, boards, notes = _chosen(store, suites, last)
    sure = intervals or (intervals is None and sum(1 for _ in _runs(boards)) <= MANY_RUNS)
    if sure:
        boards = [add_uncertainty(board, store) for board in boards]
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    try:
        stages, faults = _stages(store, whole, examples=bool(sure))
        notes += faults
        past = store.past_runs(_runs(boards))
        background = Background(sizes=known_sizes(), past=past, stages=stages)
        details = _details(store, boards)
        write_report(out, boards, details, generated, background, about=About(notes=notes, mark=mark))
    except OSError as error:
        raise BenchError(
            f"the report {out} could not be written: {error.strerror or error}. Give another "
            "--out; the results are stored."
        ) from error


def _stages(
    store: Store, whole: Sequence[Board], *, examples: bool
) -> tuple[Mapping[BoardKey, tuple[Figure, ...]], list[str]]:
    """The plots of pretraining runs; few stores have any."""
    if not any(entry.stage for board in whole for entry in board.entries):
        return {}, []
    from benchharness.stored.curves import curve_figures  # noqa: PLC0415

    return curve_figures(store, whole, examples=examples)


def _chosen(
    store: Store, suites: Sequence[str], last: Sequence[Board]
) -> tuple[Sequence[Board], list[Board], list[str]]:
    """The boards, what is shown of them, and what is said of what is left out."""
    known = {board.suite for board in last}
    recent = None if suites else recent_suites(store, first=known)
    shown = suites or (recent.shown if recent else ())
    whole = last if last and set(shown) == known else gather_boards(store, shown)
    boards = best_of(whole, MOST_RUNS)
    return whole, boards, [*left_out(whole, boards), *(recent.sentences if recent else ())]


def _runs(boards: Iterable[Board]) -> Iterator[RunRow]:
    return (run for board in boards for entry in board.entries for run in entry.runs)


def _details(store: Store, boards: Iterable[Board]) -> Iterator[Result | Failure]:
    """The runs of the boards, each read once and when it is needed."""
    for key in dict.fromkeys(run.key for run in _runs(boards)):
        yield store.result(key)


def known_sizes() -> Sizes:
    """By every name that a checkpoint goes by here, in lower case; those of unknown size have none.

    A folder goes by its own name, which mostly is the last part of the hub's.
    """
    found: dict[str, ModelSize] = {}
    for spec in MODELS.values():
        if spec.parameters is not None:
            size = ModelSize(
                parameters=spec.parameters * 1e6,
                backbone=None if spec.backbone is None else spec.backbone * 1e6,
                is_dense=spec.family not in NOT_DENSE,
                family=spec.family,
            )
            for name in (spec.checkpoint.rpartition("/")[2], *spec.aliases, spec.name):
                found[name.lower()] = size
    return found
