"""Functions that build leaderboards from the stored runs of one or several suites."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import urlsplit

from benchharness.discovery import member, places
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
from benchharness.leaderboard.text import digest, grouped
from benchharness.models import MODELS
from benchharness.tasks.suites import SUITES, TASKS, distinct_title, find_suites, select_tasks
from benchharness.version import package_version

LARGE_STORE = 2_000
"""Number of stored runs above which commands that show the results of a few jobs read only the runs
that they need, instead of all runs."""

MANY_RUNS = 5_000
"""Maximum total number of runs of the suites that are shown by default. Reading and ranking this
many runs takes a second."""


def lacking_plugins(store: Store, suites: Collection[str] = ()) -> list[str]:
    """Return a message for each suite or task that has stored runs but is not defined.

    The message names the plugins that the newest of these runs used, if the run records any. A task
    may be undefined although its suite is defined, because plugins can add tasks to a suite.

    Args:
        store: Store that contains the runs.
        suites: Suites to check; empty for all.
    """
    missing = [(name, True) for name in store.suites() if name not in SUITES]
    missing += [
        (name, False)
        for name in store.tasks()
        if name not in TASKS and name.partition("/")[0] in SUITES
    ]
    found = []
    for name, is_suite in missing:
        if suites and name.partition("/")[0] not in suites:
            continue
        runs = store.runs(suite=name) if is_suite else store.runs(task=name)
        named = " and ".join(store.result(runs[-1].key).job.plugins)
        found.append(
            f"the runs of the {'suite' if is_suite else 'task'} {name} need "
            f"{f'the plugin {named}' if named else 'a plugin'}: load its file with --plugin, or "
            "install its package."
        )
    return found


P = ParamSpec("P")
T = TypeVar("T")


def _naming_plugins(
    read: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Decorate `read` so that its BenchErrors also name missing plugins that stored runs need."""

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
    """Selection of the suites that are shown if the user names no suite.

    Attributes:
        shown: Names of the suites to show.
        left_out: Names of the suites that are not shown, because too many runs would have to be
            read.
        lacking: Messages about suites and tasks that have stored runs, but are not defined, because
            their plugin is not loaded.
    """

    shown: tuple[str, ...]
    left_out: tuple[str, ...]
    lacking: tuple[str, ...] = ()

    @property
    def sentences(self) -> Iterator[str]:
        """Messages for the user about suites and tasks that are not shown, and how to show them."""
        yield from self.lacking
        if more := len(self.left_out):
            some = ", ".join(self.left_out[:10]) + (", ..." if more > 10 else "")
            yield (
                f"only the suites that ran last are shown: {', '.join(self.shown)}. Use --suite "
                f"NAME to show one of the others ({more}): {some}."
            )


def recent_suites(store: Store, first: Collection[str] = (), most: int = MANY_RUNS) -> Recent:
    """Select the suites that are shown by default: those with the newest runs.

    At least one suite is selected, however many runs it has. Selected suites are in the order of
    `SUITES`.

    Args:
        store: Store that contains the runs.
        first: Names of suites that are selected before all others, whatever the age of their runs.
        most: Maximum total number of runs of the selected suites.
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
    """Filter that selects leaderboards by suite, task and data source.

    Attributes:
        suites: Names of suites or collections; empty for all suites.
        tasks: Full or short names of tasks; empty for all tasks.
        data: "hub", "mini", the path of a data folder, or the label that leaderboards show for the
            data; None for all data sources.
    """

    suites: Sequence[str] = ()
    tasks: Sequence[str] = ()
    data: str | None = None


ANYWHERE = Within()
"""Filter that selects all leaderboards."""


@_naming_plugins
def gather_boards(
    store: Store,
    within: Within = ANYWHERE,
    models: Collection[str] | None = None,
    *,
    with_hidden: bool = False,
    paths: bool = False,
) -> list[Board]:
    """Build the leaderboards of the selected suites and data sources, with all tasks.

    A suite has one leaderboard for each version of the data on which models were evaluated (other
    examples or another number of examples).

    Args:
        store: Store that contains the runs.
        within: Suites and data source to include; `within.tasks` is ignored.
        models: Names of the models whose runs to include; None for all models.
        with_hidden: True to include runs that the user has hidden.
        paths: True to show local paths in full; by default they are shortened.

    Raises:
        BenchError: A suite is unknown, or all stored runs belong to unknown suites.
    """
    named = {suite.name: suite for name in within.suites for suite in find_suites(name)}
    stored, data = set(named or store.suites()), within.data
    if stored and not stored & set(SUITES):
        raise BenchError("none of the stored runs belongs to a known suite.")
    # The filter for a data folder is its path, or the label that leaderboards show instead.
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
    """Return the runs of a suite, and all runs from whose trained encoders these runs started."""
    runs = store.runs(suite=suite, model=models)
    if with_hidden:
        runs = [replace(run, is_hidden=False) if run.is_hidden else run for run in runs]
    known, found = {run.key for run in runs}, list(runs)
    while wanted := {run.start_from for run in runs if run.start_from} - known:
        # A run in `wanted` may itself have started from another run, so repeat until none is new.
        # Keys of deleted runs are also added to `known`; otherwise the loop would never end.
        known |= wanted
        runs = store.runs_with(wanted)
        found += runs
    return found


def gained(boards: Sequence[Board], store: Store) -> list[Board]:
    """Add to each distilled student its gain over the same model trained without a teacher.

    Leaderboards without distilled students are returned unchanged.

    Args:
        boards: Leaderboards to extend.
        store: Store that contains the runs. If there are students, their predictions are read.
    """
    if not any(run.teacher for board in boards for entry in board.entries for run in entry.runs):
        return list(boards)
    from benchharness.stored.predictions import with_gains  # noqa: PLC0415  (needs numpy)

    return [with_gains(board, store) for board in boards]


def facts_of(store: Store, rows: Iterable[RunRow]) -> dict[str, dict[str, Any]]:
    """Return the facts that extensions have about stored runs, such as numbers of reproductions.

    Args:
        store: Store that contains the runs.
        rows: Stored runs.

    Returns:
        JSON objects, keyed by the key of the run and then by the name of the fact. Each object has
        a "text" for readers. Runs without facts are left out.
    """
    found: dict[str, dict[str, Any]] = {}
    listed = list(rows)
    for name, place in places("facts").items():
        facts = member(f"the fact {name!r} about runs", place)(store, listed)
        for key, fact in facts.items():
            found.setdefault(key, {})[name] = fact
    return found


def facts_of_run(store: Store, key: str) -> dict[str, Any]:
    """Return the facts that extensions have about one stored run, as `facts_of`, keyed by name."""
    return facts_of(store, store.runs_with([key])).get(key, {})


def fact_lines(store: Store, boards: Iterable[Board]) -> Iterator[str]:
    """Yield a line per distinct fact about the runs on leaderboards, with the scores it is about.

    Each line is like "reproduced once on 1 machine: tiny RTE; tiny CoLA."
    """
    for board in boards:
        cells = [(entry, cell) for entry in board.entries for cell in entry.cells.values()]
        known = facts_of(store, (run for _, cell in cells for run in cell.runs))
        pairs = (
            (fact["text"], f"{entry.name} {distinct_title(cell.task)}")
            for entry, cell in cells
            for run in cell.runs
            for fact in known.get(run.key, {}).values()
        )
        for text, names in grouped(pairs).items():
            yield f"{text}: {'; '.join(dict.fromkeys(names))}."


def left_out(whole: Sequence[Board], boards: Sequence[Board]) -> Iterator[str]:
    """Yield a message for each leaderboard of which only the best entries are shown.

    Args:
        whole: Leaderboards with all entries.
        boards: The same leaderboards, in the same order, with the entries that are shown.
    """
    for board, shown in zip(whole, boards, strict=True):
        if len(shown.entries) < len(board.entries):
            yield (
                f"{board.title} shows the best {len(shown.entries)} of {len(board.entries)} "
                "entries; `bench leaderboard --top 0` shows all."
            )


# The following functions find the leaderboard entries that a user names, such as two models to
# compare.


class Rows(NamedTuple):
    """Selected entries of one leaderboard.

    Attributes:
        board: Leaderboard with the entries.
        entries: The selected entries.
        tasks: Full names of those requested tasks on which all of the entries have results.
    """

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
    """Return the entries of the named systems on every leaderboard that contains all of them.

    Args:
        store: Store that contains the runs.
        systems: Names of leaderboard entries, names of models, or keys of runs.
        within: Suites, tasks and data source to include.
        select: Function `(board, name)` that returns the entry with this name; None if the
            leaderboard has no such entry.
        paths: True to show local paths in full; by default they are shortened.

    Returns:
        The selected entries of each leaderboard, without leaderboards on which the systems have no
        requested task in common.

    Raises:
        BenchError: A name is unknown, or there is no requested task on which all systems have
            results.
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
        raise BenchError(f"no requested task has results for {' and '.join(systems)}.")
    return [rows for rows in found if rows.tasks]


def _models(store: Store, systems: Sequence[str]) -> set[str]:
    """Return the models that the names may refer to.

    A name has the form MODEL or MODEL:RECIPE, or is the beginning of a run's key.
    """
    parted = [name.split(":") for name in systems]
    # A model's name may contain colons: in "a:b:lr=3e-4", the model may be "a", "a:b" or the
    # whole text.
    names = {":".join(parts[:n]) for parts in parted for n in range(1, len(parts) + 1)}
    names |= {model for model in store.models() if unquoted(model) in names}
    keys = [name for name in systems if _KEY.fullmatch(name)]
    return names | {run.model for key in keys for run in store.runs(key=key)}


def stored_name(store: Store, name: str) -> str:
    """Replace the alias or abbreviation of a model in the name of an entry with the model's name.

    An abbreviation has at least three characters, with which the name of exactly one stored model
    begins. Other names are returned unchanged.

    Args:
        store: Store that contains the models' runs.
        name: Name that the user typed: MODEL, MODEL:RECIPE, or the key of a run.
    """
    stored = store.models()
    # Try the longest possible model name first: "bert:lr=3e-4" may be the full name of a model, or
    # an entry of the model "bert".
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
"""Minimum number of characters of an abbreviation of a model's name. A shorter name, such as "a" in
a notebook, is probably the full name of another model."""


def wanted_tasks(store: Store, suites: Sequence[str], tasks: Sequence[str]) -> tuple[str, ...]:
    """Return the full names of the requested tasks.

    If no suite is requested and several suites have a task with the requested name, the task with
    stored runs is chosen. It is an error if several of these tasks have stored runs, or none has.

    Args:
        store: Store that contains the runs.
        suites: Names of suites or collections; empty for all suites.
        tasks: Full or short names of tasks; empty for all tasks of `suites`.

    Returns:
        The names; empty if neither suites nor tasks are requested.

    Raises:
        BenchError: If a name is unknown or ambiguous.
    """
    if not suites and not tasks:
        return ()
    found = [suite for name in suites for suite in find_suites(name)]
    chosen = select_tasks(found, tasks, fits=lambda task: store.count(task=task.name) > 0)
    return tuple(task.name for task in chosen)


def is_reported(store: Store, out: Path, last: Sequence[Board]) -> bool:
    """Return whether a file is an up-to-date report that was written with default options.

    Args:
        store: Store that contains the runs.
        out: Path of the file.
        last: Leaderboards of the run that has just ended.
    """
    return report_mark(store, (), last) in _head(out)


def _head(page: Path) -> str:
    """Return the beginning of an HTML page, which contains its marks; "" if there is no page."""
    try:
        with page.open("rb") as file:
            # The marks follow a content security policy of a few hundred bytes.
            return file.read(4096).decode("utf-8", "replace")
    except OSError:
        return ""


def own_page(store: Store, page: Path) -> tuple[Path, str]:
    """Return a path for the report of a database that overwrites no other file.

    Several databases may have the same default path for their report, e.g. those of two servers, or
    `a.sqlite` and `a.db` in one folder.

    Args:
        store: Store that contains the runs.
        page: Default path of the report.

    Returns:
        The path, and a message for the user. The path is `page`, and the message is empty, unless
        `page` is the report of another database or not a report at all. Then six digits that
        identify the database are added to the name.
    """
    head, mark = _head(page), store_mark(store, page)
    known = re.search(r'name="bench-store" content="(\w+)"', head)
    # A page of an earlier version of benchharness does not state its database.
    is_own = known[1] == mark if known else 'name="bench-shows"' in head
    if is_own or not page.exists():
        return page, ""
    own = page.with_stem(f"{page.stem}-{mark[:6]}")
    whose = "the report of another database" if known else "not a report of benchharness"
    return own, f"{page} is {whose} and is kept; this report is {own}."


def store_mark(store: Store, page: Path) -> str:
    """Return 16 hex digits that identify the database of a report.

    A database file in the folder of the report is identified by its name, so that the two can be
    moved together. Any other file is identified by its path, and a database on a server by its host
    and name, whoever reads it.

    Args:
        store: Store that contains the runs.
        page: Path of the report.
    """
    if "://" in store.name:
        url = urlsplit(store.name)
        place = f"{url.netloc.rpartition('@')[2]}{url.path}"
    else:
        file = Path(store.name).resolve()
        place = file.name if file.parent == page.parent.resolve() else str(file)
    return digest(place)[:16]


def report_mark(
    store: Store, suites: Sequence[str], last: Sequence[Board], options: Sequence[object] = ()
) -> str:
    """Return a digest of everything on which the content of a report depends.

    The digest is written into the head of the HTML page, so that an up-to-date report can be
    recognized.

    Args:
        store: Store that contains the runs.
        suites: Names of the suites that the user requested; empty for all.
        last: Leaderboards of the run that has just ended; empty if there is none.
        options: Values of all other options of `bench report`; empty if the user set none.
    """
    asked = [list(suites), [board.suite for board in last], list(options)]
    return digest([package_version(), made_by(), store.name, store.newest(), asked])


def read_outcomes(
    store: Store, keys: Iterable[str], *, paths: bool = False
) -> Iterator[Result | Failure]:
    """Yield stored runs for export, with the family of their encoders (see `with_family`).

    Args:
        store: Store that contains the runs.
        keys: Keys of the runs.
        paths: True to keep local paths; by default they are removed.
    """
    found = map(with_family, store.results(keys))
    return found if paths else map(shared_outcome, found)


def with_family(run: Result | Failure) -> Result | Failure:
    """Add the family of the encoder (e.g. "bert") to a run that does not record it.

    A run is returned unchanged if it records the family, if it failed, or if its checkpoint is not
    in `MODELS`.
    """
    # If several models have this checkpoint, use the last one. Search linearly: building an index
    # for each run would be slower.
    specs = reversed(MODELS.values())
    family = next((spec.family for spec in specs if spec.checkpoint == run.job.checkpoint), "")
    if isinstance(run, Failure) or not family or not isinstance(run.provenance, dict):
        return run
    model = run.provenance.get("model")
    said = model if isinstance(model, dict) else {}
    return replace(run, provenance={**run.provenance, "model": {"family": family, **said}})
