"""Write the HTML report: choose its leaderboards and read the data that it shows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchharness.discovery import member, places
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board, best_of
from benchharness.leaderboard.boards.terminal import over_seeds_alone
from benchharness.leaderboard.report.addition import Background, Pages, board_key
from benchharness.leaderboard.report.sizes import ModelSize, Sizes
from benchharness.leaderboard.report.table import Contrasts
from benchharness.leaderboard.report.write import About, render_report, write_page, write_runs
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.sharing import without_paths
from benchharness.leaderboard.store.store import Store
from benchharness.models import MODELS
from benchharness.stored import (
    Rows,
    Within,
    gained,
    gather_boards,
    read_outcomes,
    recent_suites,
    report_mark,
    store_mark,
)
from benchharness.stored.predictions import add_uncertainty, contrasts_of
from benchharness.version import package_version

MANY_RUNS = 250
"""Number of runs above which a report has no confidence intervals by default, because reading all
predictions would take too long."""

MOST_RUNS = 500
"""Approximate maximum number of runs (of the best entries) whose details the page itself contains
if details are written to a separate folder. Additions to the report need them."""

MOST_DETAILS = 5_000
"""Approximate maximum number of runs (of the best entries) whose details are written to a separate
folder by default. Writing the details of a hundred thousand runs takes minutes."""

PACKED_RUNS = 250
"""Number of runs above which details are written to a separate folder by default. A page with the
details of more runs would be slow to write and to open."""

MOST_PAIRS = 12
"""Maximum number of pairs of neighbouring entries that are compared by a statistical test, per
leaderboard. Each test takes as long as `bench compare`."""

NOT_DENSE = ("albert", "funnel")
"""Model families in which a token does not pass through every weight exactly once, because layers
share weights (ALBERT) or tokens are pooled (Funnel)."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options for writing the HTML report.

    Attributes:
        suites: Names of the suites to show; empty for all suites with runs.
        title: Title of the page.
        description: Text of one or two sentences below the title.
        intervals: True to compute confidence intervals, for which all predictions are read; None to
            do so only if there are few runs.
        split: True to write the details of all runs to a folder next to the page; False to include
            these details in the page. None to decide by the number of runs: the folder contains
            only the details of the best entries if there are many runs, and there is no folder if
            there are few.
        show_paths: True to show local paths in full.
        last: Leaderboards of the run that has just ended. If the store is so large that only some
            suites are shown, the suites of these leaderboards are selected first.
    """

    suites: Sequence[str] = ()
    title: str = "Leaderboard"
    description: str = ""
    intervals: bool | None = None
    split: bool | None = None
    show_paths: bool = False
    last: Sequence[Board] = ()


_ANY = Wanted()

Outcomes = Iterator[Result | Failure]
Counting = Callable[[str, int], AbstractContextManager[Callable[[Outcomes], Outcomes]]]
"""Function that displays the progress of an iteration, such as `cli.tables.counting`.

It is called with a label and the total number of items, and returns a context manager. The value of
the context manager is a function that wraps an iterator so that its items are counted.
"""

Pager = Callable[[Sequence[Board]], Pages]
"""Function that writes HTML pages with the predictions for single examples.

It is called with the leaderboards, and returns the relative paths of the pages, keyed by pairs
(HTML id of the section with the runs, task).
"""


def make_report(
    store: Store,
    out: Path,
    wanted: Wanted = _ANY,
    *,
    pages: Pager | None = None,
    counting: Counting = lambda *_: nullcontext(iter),
) -> None:
    """Write the HTML report of the requested suites, or of all suites that have runs.

    If the store is large and no suites are requested, only the suites that ran last are shown, and
    a note in the report explains how to show the others. All entries of a leaderboard are shown.

    Args:
        store: Store that contains the runs.
        out: HTML file to write.
        wanted: Options of the report.
        pages: Function that writes the pages with predictions, to which the report then links; None
            if there are no such pages.
        counting: Function that displays progress while the details of runs are written.

    Raises:
        BenchError: A file cannot be written.
    """
    # The mark (see `report_mark`) is computed before the runs are read, because more runs may be
    # stored meanwhile.
    mark = _mark(store, wanted)
    boards, notes = _chosen(store, wanted)
    boards = gained(boards, store)
    runs = sum(1 for _ in _runs(boards))
    sure = runs <= MANY_RUNS if wanted.intervals is None else wanted.intervals
    if sure:
        boards = [add_uncertainty(board, store) for board in boards]
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = About(
        title=wanted.title,
        description=wanted.description,
        version=package_version(),
        mark=mark,
        store=store_mark(store, out),
        paths=wanted.show_paths,
    )
    read = partial(read_outcomes, store, paths=wanted.show_paths)

    def read_many(keys: Iterable[str]) -> Iterator[Result | Failure]:
        listed = list(keys)
        with counting("runs in detail", len(listed)) as counted:
            yield from counted(read(listed))

    with _writing(out):
        background = _background(store, boards, pages, sure=sure)
        detailed: Sequence[Board] = boards
        if runs > PACKED_RUNS if wanted.split is None else wanted.split:
            written = boards if wanted.split else best_of(boards, MOST_DETAILS)
            places = write_runs(out, written, read_many, about, background.predictions)
            background, detailed = replace(background, places=places), best_of(boards, MOST_RUNS)
            more = "`bench report --split` writes them for all"
            notes += in_part(boards, written, "details were written for", more)
        for addition in background.additions:
            notes += addition.read(store, boards, detailed, examples=sure)
        alone = (said for board in boards for said in over_seeds_alone(board))
        notes += dict.fromkeys(alone)
        if not wanted.show_paths:
            notes = [without_paths(note) for note in notes]
        details = read(dict.fromkeys(run.key for run in _runs(detailed)))
        about = replace(about, notes=notes)
        write_page(out, render_report(boards, details, generated, background, about))


def _mark(store: Store, wanted: Wanted) -> str:
    options = [value for name, value in vars(wanted).items() if name not in ("suites", "last")]
    asked = [] if replace(wanted, suites=(), last=()) == _ANY else options
    return report_mark(store, wanted.suites, wanted.last, asked)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Context manager that turns an OSError from writing the report into a BenchError."""
    try:
        yield
    except OSError as error:
        named = Path(error.filename or out)
        place = out if named in out.parents else named
        raise BenchError(
            f"the report {place} could not be written: {error.strerror or error}. The results are "
            "stored; choose another file with --out."
        ) from error


def _background(
    store: Store, boards: Sequence[Board], pages: Pager | None, *, sure: bool
) -> Background:
    """Return the data and content of the report that the leaderboards do not contain.

    If `sure` is true, predictions and examples are read for confidence intervals and tests.
    """
    return Background(
        sizes=known_sizes(),
        contrasts={board_key(board): _neighbours(store, board) for board in boards if sure},
        sections={board_key(board): [*_sections(store, board)] for board in boards},
        predictions={} if pages is None else pages(boards),
    )


def _sections(store: Store, board: Board) -> Iterator[tuple[str, str]]:
    """Yield the heading and the HTML of each section that an extension adds to a leaderboard."""
    for heading, place in places("sections").items():
        if html := member(f"the section {heading!r} of the report", place)(store, board):
            yield heading, html


def in_part(boards: Sequence[Board], shown: Sequence[Board], what: str, rest: str) -> Iterator[str]:
    """Yield a message for each leaderboard in `shown` with fewer entries than in `boards`.

    The message is "GLUE: WHAT the best 2 of 3 entries; REST."
    """
    for board, part in zip(boards, shown, strict=True):
        if len(part.entries) < len(board.entries):
            some, every = len(part.entries), len(board.entries)
            yield f"{board.title}: {what} the best {some:,} of {every:,} entries; {rest}."


def _neighbours(store: Store, board: Board) -> Contrasts:
    """Return paired tests of neighbouring entries, keyed by pairs of positions on the leaderboard.

    Only ranked entries are tested: first all adjacent ones, then those with one ranked entry
    between them. Pairs of entries that have no seed in common, or that were scored on different
    examples, are left out.
    """
    places = [place for place, entry in enumerate(board.entries) if entry.competes]
    pairs = [(a, b) for apart in (1, 2) for a, b in zip(places, places[apart:], strict=False)]
    found = {}
    for pair in pairs[:MOST_PAIRS]:
        one, other = (board.entries[place] for place in pair)
        tasks = tuple(t for t in board.tasks if t in one.cells and t in other.cells)
        with suppress(BenchError):
            rows = Rows(board, (one, other), tasks)
            found[pair] = contrasts_of(store, rows, "dev", with_slices=False)
    return {pair: contrasts for pair, contrasts in found.items() if contrasts}


def _chosen(store: Store, wanted: Wanted) -> tuple[Sequence[Board], list[str]]:
    """Choose the leaderboards to show; return them, and notes on suites that are left out."""
    last = wanted.last
    known = {board.suite for board in last}
    recent = None if wanted.suites else recent_suites(store, first=known)
    shown = wanted.suites or (recent.shown if recent else ())
    is_read = last and set(shown) == known and {b.paths for b in last} == {wanted.show_paths}
    boards = (
        last if is_read else gather_boards(store, Within(suites=shown), paths=wanted.show_paths)
    )
    return boards, list(recent.sentences if recent else ())


def _runs(boards: Iterable[Board]) -> Iterator[RunRow]:
    return (run for board in boards for entry in board.entries for run in entry.runs)


def known_sizes() -> Sizes:
    """Return the numbers of parameters of known checkpoints, keyed by name in lower case.

    Each checkpoint has several keys: its name, its aliases, and the last part of its hub id, which
    a local folder with the checkpoint usually has as its name. Checkpoints of unknown size are left
    out.
    """
    found: dict[str, ModelSize] = {}
    for spec in MODELS.values():
        if spec.parameters is not None:
            size = ModelSize(
                parameters=spec.parameters * 1e6,
                backbone=None if spec.backbone is None else spec.backbone * 1e6,
                is_dense=spec.family not in NOT_DENSE,
                family=spec.family,
                cite=spec.cite,
            )
            for name in (spec.checkpoint.rpartition("/")[2], *spec.aliases, spec.name):
                found[name.lower()] = size
    return found
