"""The HTML report of stored runs: the choice of boards, and the data that is read for it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchharness import __version__
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board, best_of
from benchharness.leaderboard.boards.terminal import over_seeds_alone
from benchharness.leaderboard.report.plots import Figure
from benchharness.leaderboard.report.plots.cost import TIMED_SUITE, ModelSize, Sizes, timed_of
from benchharness.leaderboard.report.plots.lines import stage_figures
from benchharness.leaderboard.report.plots.section import Background, BoardKey, Pages, board_key
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
)
from benchharness.stored.predictions import add_uncertainty, contrasts_of, curves_of

MANY_RUNS = 250
"""Number of runs above which a report does not read every prediction by default, to save time."""

MOST_RUNS = 500
"""Number of runs in plots against cost, if run details are in a separate folder."""

MOST_DETAILS = 5_000
"""Number of runs whose details are written by default; for a hundred thousand runs it takes
minutes."""

PACKED_RUNS = 250
"""Number of runs whose details fit into the page; more would make it slow to write and to open."""

MOST_PAIRS = 12
"""Number of pairs of neighbours on a board that are tested; each takes as long as
`bench compare`."""

NOT_DENSE = ("albert", "funnel")
"""Families in which a token does not pass every weight exactly once: shared layers, pooled
tokens."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of a report.

    Attributes:
        suites: Suites to show; empty for all with runs.
        title: Title of the page.
        description: A sentence or two below the title.
        intervals: Whether to compute intervals from predictions; None to do it if there are few
            runs.
        split: Whether to write run details to a folder next to the page; None to do it if there are
            many runs, and then only for the best rows.
        show_paths: Whether to show whole paths of this machine.
        last: Boards whose suites are always shown.
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
"""Progress display: called with a label and a total, it returns a context whose function wraps
an iterator and counts its runs, as `cli.tables.counting` does."""

Pager = Callable[[Sequence[Board]], Pages]
"""Function that writes the pages of every prediction and returns their places."""


def make_report(
    store: Store,
    out: Path,
    wanted: Wanted = _ANY,
    *,
    pages: Pager | None = None,
    counting: Counting = lambda *_: nullcontext(iter),
) -> None:
    """Write the report of some suites, or of all that have runs.

    For a large store it shows the suites that ran last, preceded by those of `wanted.last`, and a
    note explains that; each board has all of its rows.

    Args:
        store: Store of the runs.
        out: HTML file to write.
        wanted: Options of the report.
        pages: Function that writes the pages of every prediction, to which the report then links.
        counting: Progress display for runs with details.

    Raises:
        BenchError: A file cannot be written.
    """
    mark = _mark(store, wanted)  # before other processes store more
    boards, notes, has_timed = _chosen(store, wanted)
    boards = gained(boards, store)
    runs = sum(1 for _ in _runs(boards))
    sure = runs <= MANY_RUNS if wanted.intervals is None else wanted.intervals
    if sure:
        boards = [add_uncertainty(board, store) for board in boards]
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = About(
        title=wanted.title,
        description=wanted.description,
        version=__version__,
        mark=mark,
        paths=wanted.show_paths,
    )
    read = partial(read_outcomes, store, paths=wanted.show_paths)

    def read_many(keys: Iterable[str]) -> Iterator[Result | Failure]:
        listed = list(keys)
        with counting("runs in detail", len(listed)) as counted:
            yield from counted(read(listed))

    with _writing(out):
        background, faults = _background(store, boards, pages, sure=sure)
        if has_timed:
            background = replace(background, timed=timed_of(store.runs(suite=TIMED_SUITE)))
        detailed: Sequence[Board] = boards
        if runs > PACKED_RUNS if wanted.split is None else wanted.split:
            written = boards if wanted.split else best_of(boards, MOST_DETAILS)
            places = write_runs(out, written, read_many, about, background.predictions)
            background, detailed = replace(background, places=places), best_of(boards, MOST_RUNS)
            more = "`bench report --split` writes those of all"
            notes += _in_part(boards, written, "the details are of", more)
        alone = (said for board in boards for said in over_seeds_alone(board))
        notes += [*faults, *_in_part(boards, detailed, *_DRAWN), *dict.fromkeys(alone)]
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
    """Raise BenchError if the report, or a file in the folder next to it, cannot be written."""
    try:
        yield
    except OSError as error:
        named = Path(error.filename or out)
        place = out if named in out.parents else named
        raise BenchError(
            f"the report {place} could not be written: {error.strerror or error}. Give another "
            "--out; the results are stored."
        ) from error


def _background(
    store: Store, boards: Sequence[Board], pages: Pager | None, *, sure: bool
) -> tuple[Background, list[str]]:
    """Return facts for plots and comparisons, and reasons why some boards have no plot.

    With `sure`, examples are read for intervals and tests.
    """
    stages, faults = _curve_figures(store, boards, examples=sure)
    background = Background(
        sizes=known_sizes(),
        stages=stages,
        contrasts={board_key(board): _neighbours(store, board) for board in boards if sure},
        predictions={} if pages is None else pages(boards),
    )
    return background, faults


def _curve_figures(
    store: Store, boards: Iterable[Board], *, examples: bool
) -> tuple[Mapping[BoardKey, tuple[Figure, ...]], list[str]]:
    """Return the plots of all pretraining runs on some boards, and reasons why some have none.

    With `examples` the noise is over examples and seeds, else over seeds alone.
    """
    figures: dict[BoardKey, tuple[Figure, ...]] = {}
    faults: list[str] = []
    for board in boards:
        try:
            found = list(curves_of(store, board, lambda entry: entry.stage, examples=examples))
        except BenchError as error:
            faults.append(f"{board.title} has no plot over pretraining: {error}")
            continue
        figures[board_key(board)] = stage_figures(found)
    return figures, faults


_DRAWN = ("the plots against cost have", "the table has all")


def _in_part(
    boards: Sequence[Board], shown: Sequence[Board], what: str, rest: str
) -> Iterator[str]:
    """Yield a sentence for each board of which only the best rows are shown."""
    for board, part in zip(boards, shown, strict=True):
        if len(part.entries) < len(board.entries):
            some, every = len(part.entries), len(board.entries)
            yield f"{board.title}: {what} the best {some:,} of {every:,} rows; {rest}."


def _neighbours(store: Store, board: Board) -> Contrasts:
    """Return paired tests of adjacent rows, then of rows with one row between them.

    Two rows that share no seed, or were scored on different examples, are left out.
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


def _chosen(store: Store, wanted: Wanted) -> tuple[Sequence[Board], list[str], bool]:
    """Return the boards, notes on suites that are left out, and whether models may be timed."""
    last = wanted.last
    known = {board.suite for board in last}
    recent = None if wanted.suites else recent_suites(store, first=known)
    shown = wanted.suites or (recent.shown if recent else ())
    is_read = last and set(shown) == known and {b.paths for b in last} == {wanted.show_paths}
    boards = (
        last if is_read else gather_boards(store, Within(suites=shown), paths=wanted.show_paths)
    )
    has_timed = recent is None or TIMED_SUITE in (*recent.shown, *recent.left_out)
    return boards, list(recent.sentences if recent else ()), has_timed


def _runs(boards: Iterable[Board]) -> Iterator[RunRow]:
    return (run for board in boards for entry in board.entries for run in entry.runs)


def known_sizes() -> Sizes:
    """Return the sizes of checkpoints, keyed by all of their names in lower case.

    Checkpoints of unknown size are left out. A folder is looked up by its own name, which is
    usually the last part of the hub id.
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
