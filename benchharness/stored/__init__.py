"""Boards of stored runs: of the requested suites, or of those that ran last."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from benchharness import __version__
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import (
    Board,
    Select,
    boards_with,
    build_boards,
    select_entry,
)
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.reproduction import made_by
from benchharness.leaderboard.job import unquoted
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.sharing import path_label, shared_outcome
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import digest
from benchharness.models import MODELS
from benchharness.tasks.suites import SUITES, find_suites, select_tasks

LARGE_STORE = 2_000
"""Number of runs above which a store is not read whole to show the results of a few jobs."""

MANY_RUNS = 5_000
"""Number of runs of several suites that are shown by default; reading and ranking them takes a
second."""


def lacking_plugins(store: Store) -> Iterator[str]:
    """Yield a sentence for each stored suite that is unknown, with the plugin that it needs."""
    for suite in (name for name in store.suites() if name not in SUITES):
        newest = store.result(store.runs(suite=suite)[-1].key)
        named = " and ".join(newest.job.plugins)
        plugin = f"the plugin {named}" if named else "a plugin"
        yield (
            f"the runs of the suite {suite} need {plugin}: name its file with --plugin, or install "
            "its package."
        )


P = ParamSpec("P")
T = TypeVar("T")


def _naming_plugins(
    read: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Decorate `read` so that its errors also name the plugins that stored runs need."""

    @wraps(read)
    def explained(store: Store, /, *words: P.args, **options: P.kwargs) -> T:
        try:
            return read(store, *words, **options)
        except BenchError as error:
            if lacking := set(lacking_plugins(store)) - set(error.args):
                raise type(error)(*error.args, *sorted(lacking)) from error
            raise

    return explained


class Recent(NamedTuple):
    """Suites to show if none is named, and the suites and plugins that are left out.

    `left_out` are suites with too many runs, and `lacking` sentences about suites whose plugin is
    not loaded.
    """

    shown: tuple[str, ...]
    left_out: tuple[str, ...]
    lacking: tuple[str, ...] = ()

    @property
    def sentences(self) -> Iterator[str]:
        """Sentences about what is not shown, and how to show it."""
        yield from self.lacking
        if more := len(self.left_out):
            some = ", ".join(self.left_out[:10]) + (", ..." if more > 10 else "")
            yield f"{', '.join(self.shown)} ran last; --suite NAME shows {more} more: {some}."


def recent_suites(store: Store, first: Collection[str] = (), most: int = MANY_RUNS) -> Recent:
    """Return the suites that ran last, as many as have at most `most` runs together.

    Suites of `first` take precedence. At least one is shown; in a small store all are, in the order
    of the list of suites.
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
        shown=tuple(name for name in SUITES if name in shown),
        left_out=tuple(stored[len(shown) :]),
        lacking=tuple(lacking_plugins(store)),
    )


@dataclass(frozen=True, kw_only=True)
class Within:
    """Filter for boards: suites, tasks and source of the rows; an empty field does not filter."""

    suites: Sequence[str] = ()
    tasks: Sequence[str] = ()
    data: str | None = None


ANYWHERE = Within()


@_naming_plugins
def gather_boards(
    store: Store,
    within: Within = ANYWHERE,
    models: Collection[str] | None = None,
    *,
    with_hidden: bool = False,
    paths: bool = False,
) -> list[Board]:
    """Return the boards of these suites and data, with all of their tasks.

    A suite has one board for each set of evaluation data, or none.

    Args:
        store: Store of the runs.
        within: Suites and data to include; its tasks are ignored.
        models: Names of the models whose runs to include; None for all.
        with_hidden: Include hidden runs.
        paths: Show whole paths of this machine, as in `build_boards`.

    Raises:
        BenchError: A suite is unknown, or no stored run is of a known suite.
    """
    named = {suite.name: suite for name in within.suites for suite in find_suites(name)}
    stored, data = set(named or store.suites()), within.data
    if stored and not stored & set(SUITES):
        raise BenchError("none of the stored runs is of a known suite.")
    # A folder may be given by its path, or by the label that a board without paths shows.
    whole = "" if data is None else str(Path(data).resolve())
    places = {data, whole, path_label(whole)}
    return [
        board
        for suite in (named or SUITES).values()
        if suite.name in stored
        for board in build_boards(_runs(store, suite.name, models, with_hidden), suite, paths=paths)
        if data is None or places & {*board.data}
    ]


def _runs(
    store: Store, suite: str, models: Collection[str] | None, with_hidden: bool
) -> list[RunRow]:
    """Return the runs of a suite, and the runs whose weights they started from."""
    runs = store.runs(suite=suite, model=models)
    if with_hidden:
        runs = [replace(run, is_hidden=False) if run.is_hidden else run for run in runs]
    known, found = {run.key for run in runs}, list(runs)
    while wanted := {run.start_from for run in runs if run.start_from} - known:
        # Such a run may have started from another one, so repeat until none is new. Runs that are
        # no longer stored also count as known, or they would be requested forever.
        known |= wanted
        runs = store.runs_with(wanted)
        found += runs
    return found


def gained(boards: Sequence[Board], store: Store) -> list[Board]:
    """Return the boards with the gains of distilled students; unchanged if there are none."""
    if not any(run.teacher for board in boards for entry in board.entries for run in entry.runs):
        return list(boards)
    from benchharness.stored.predictions import with_gains  # noqa: PLC0415  (numpy, the tests)

    return [with_gains(board, store) for board in boards]


def left_out(whole: Sequence[Board], boards: Sequence[Board]) -> Iterator[str]:
    """Yield a sentence for each board of which only the best rows are shown."""
    for board, shown in zip(whole, boards, strict=True):
        if len(shown.entries) < len(board.entries):
            yield (
                f"{board.title}: the best {len(shown.entries)} of {len(board.entries)} rows; "
                "`bench leaderboard --top 0` shows all."
            )


# Rows of stored boards that the user names, such as two models on a suite.


class Rows(NamedTuple):
    """Entries of one board, and the requested tasks that all of them have."""

    board: Board
    entries: tuple[Entry, ...]
    tasks: tuple[str, ...]


@_naming_plugins
def find_rows(
    store: Store,
    systems: Sequence[str],
    within: Within = ANYWHERE,
    *,
    select: Select = select_entry,
    paths: bool = False,
) -> list[Rows]:
    """Return the rows of the named systems on every board that has all of them.

    Args:
        store: Store of the runs.
        systems: Names of rows, models or keys of runs.
        within: Suites, tasks and data to include.
        select: Function that picks the entry that a name stands for.
        paths: Show whole paths of this machine, as in `build_boards`.

    Raises:
        BenchError: A name is unknown, or no task has results of all systems.
    """
    systems = [stored_name(store, name) for name in systems]
    wanted = wanted_tasks(store, within.suites, within.tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    models = _models(store, systems)
    boards = gather_boards(store, replace(within, suites=tuple(names)), models, paths=paths)
    found = [
        Rows(
            board,
            tuple(entries),
            tuple(
                task
                for task in board.tasks
                if (task in wanted or not wanted) and all(task in entry.cells for entry in entries)
            ),
        )
        for board, entries in boards_with(boards, systems, select, known=store.models)
    ]
    if not any(rows.tasks for rows in found):
        raise BenchError(f"no task that was asked for has results of {' and '.join(systems)}.")
    return [rows for rows in found if rows.tasks]


def _models(store: Store, systems: Sequence[str]) -> set[str]:
    """Return the models that names may refer to: MODEL, MODEL:RECIPE..., or start of key."""
    parted = [name.split(":") for name in systems]
    # A model's name may contain colons: "a:b:lr=3e-4" may refer to "a", to "a:b", or be a whole
    # name.
    names = {":".join(parts[:n]) for parts in parted for n in range(1, len(parts) + 1)}
    names |= {model for model in store.models() if unquoted(model) in names}
    keys = [name for name in systems if _KEY.fullmatch(name)]
    return names | {run.model for key in keys for run in store.runs(key=key)}


def stored_name(store: Store, name: str) -> str:
    """Return a row's name with its model's stored name instead of an alias or an abbreviation.

    A model may be given by an alias, or by the beginning of its name if that is unambiguous.
    """
    stored = store.models()
    # "bert:lr=3e-4" may be a model's whole name, or a row of "bert": the longest name is tried
    # first.
    heads = [":".join(name.split(":")[:n]) for n in range(name.count(":") + 1, 0, -1)]
    if any(head in stored or head in map(unquoted, stored) for head in heads):
        return name
    if _KEY.fullmatch(name) and store.runs(key=name):
        return name
    for head in heads:
        aliased = [spec.name for spec in MODELS.values() if head.lower() in spec.aliases]
        begun = [model for model in stored if model.lower().startswith(head.lower())]
        begun = begun if len(head) >= LEAST_BEGINNING else []
        for found in ([model for model in stored if model in aliased], begun):
            if len(found) == 1:
                return found[0] + name[len(head) :]
    return name


_KEY = re.compile("[0-9a-fA-F]{6,64}")

LEAST_BEGINNING = 3
"""Least number of characters that abbreviate a model's name; shorter names, such as "a" and "b"
in a notebook, may stand for something else."""


def wanted_tasks(store: Store, suites: Sequence[str], tasks: Sequence[str]) -> tuple[str, ...]:
    """Return the full names of the requested tasks; empty if neither suites nor tasks are given.

    A task's name that several suites share stands for the one with runs, if only one of them has
    any.
    """
    if not suites and not tasks:
        return ()
    found = [suite for name in suites for suite in find_suites(name)]
    chosen = select_tasks(found, tasks, fits=lambda task: store.count(task=task.name) > 0)
    return tuple(task.name for task in chosen)


def is_reported(store: Store, out: Path, last: Sequence[Board]) -> bool:
    """Return whether the file already holds the report of these boards, word for word."""
    mark = report_mark(store, (), last)
    try:
        with out.open("rb") as file:
            return mark.encode() in file.read(4096)  # after a policy of a few hundred bytes
    except OSError:
        return False


def report_mark(
    store: Store, suites: Sequence[str], last: Sequence[Board], options: Sequence[object] = ()
) -> str:
    """Return a digest of everything that a report's content depends on, for the head of the page.

    `options` are those of `bench report`, empty if none was given.
    """
    asked = [list(suites), [board.suite for board in last], list(options)]
    return digest([__version__, made_by(), store.name, store.newest(), asked])


def read_outcomes(
    store: Store, keys: Iterable[str], *, paths: bool = False
) -> Iterator[Result | Failure]:
    """Yield runs for pages and files: with families, and with local paths only if `paths`."""
    found = map(with_family, store.results(keys))
    return found if paths else map(shared_outcome, found)


def with_family(run: Result | Failure) -> Result | Failure:
    """Return the run with its encoder's family, which older runs do not record.

    The family is known for checkpoints in the table of models only.
    """
    # The last ModelSpec of the checkpoint, found without building a table for each of many runs.
    specs = reversed(MODELS.values())
    family = next((spec.family for spec in specs if spec.checkpoint == run.job.checkpoint), "")
    if isinstance(run, Failure) or not family or not isinstance(run.provenance, dict):
        return run
    model = run.provenance.get("model")
    said = model if isinstance(model, dict) else {}
    return replace(run, provenance={**run.provenance, "model": {"family": family, **said}})
