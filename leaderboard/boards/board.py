"""Leaderboards: the stored runs of a suite, grouped into ranked entries.

All functions are pure: they take rows that were read from a store, and return tables.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median
from typing import Any

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.cell import Cell, marked, shown
from benchharness.leaderboard.boards.entry import Entry, build_entry
from benchharness.leaderboard.boards.grouping import (
    group_by_data,
    group_by_recipe,
    timed_on,
    with_starts,
)
from benchharness.leaderboard.boards.naming import called, is_called, short_name, told_apart
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.sharing import shared_row
from benchharness.leaderboard.text import grouped, visible
from benchharness.tasks.suite import ScoreRule, Suite, complete_mean
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import Task, suffix_of

_KINDS = ("model", "scored", "ensemble", "zero-shot", "baseline")
"""Kinds of entries in the order in which leaderboards show them; only the first kind is ranked."""


def _joined(texts: Mapping[str, str], runs: Iterable[RunRow]) -> str:
    return "; ".join(dict.fromkeys(filter(None, (texts.get(run.key) for run in runs))))


@dataclass(frozen=True, kw_only=True)
class Board:
    """Leaderboard: a ranked table of entries that were evaluated on the same examples of each task.

    Attributes:
        suite: Name of the suite.
        title: Title of the suite.
        rule: Rule by which the suite's score is computed from the tasks' scores.
        data: Sources of the evaluation data: "hub", "mini", "imported" or paths of folders.
        limit: Maximum number of rows per split; None if there was no limit.
        tasks: Names of the tasks that have a column.
        extras: Names of the tasks that have a column but do not count in the suite's score.
        entries: Ranked entries, best first, then the entries without a rank.
        imported: Scores that the user has imported, probably measured on the same data. They have
            no rank and cannot be the best in a column.
        hidden: Number of entries that the user has hidden.
        machine: For speed measurements, the machine and the model that was timed for comparison, as
            text; empty if the entries are not speed measurements.
        parity: Text about each run, keyed by job key: whether it is proved that training with
            benchharness equals training with transformers (see `reproduction.parity_of`). Empty if
            it was not requested.
        paths: True if paths of this machine are shown in full.
        remarks: Text about each run for the description of its entry in the report, keyed by job
            key, such as who contributed it.
    """

    suite: str
    title: str
    rule: ScoreRule
    data: tuple[str, ...]
    limit: int | None
    tasks: tuple[str, ...]
    extras: tuple[str, ...]
    entries: tuple[Entry, ...]
    imported: tuple[RunRow, ...] = ()
    hidden: int = 0
    machine: str = ""
    parity: Mapping[str, str] = field(default_factory=dict)
    paths: bool = False
    remarks: Mapping[str, str] = field(default_factory=dict)

    def remarks_of(self, runs: Iterable[RunRow]) -> str:
        """Return the texts in `remarks` about these runs, joined by "; " and without duplicates."""
        return _joined(self.remarks, runs)

    def parity_of(self, runs: Iterable[RunRow]) -> str:
        """Return the texts in `parity` about these runs, joined by "; " and without duplicates."""
        return _joined(self.parity, runs)

    @property
    def data_label(self) -> str:
        """Description of the data for a title, e.g. "mini data, at most 100 rows per split"."""
        # "hub" is the default, also for tasks that are never read from the hub: the rows of such a
        # task are generated, or are in files that the task itself names.
        tasks = [TASKS[task] for task in self.tasks if task in TASKS]
        has_hub = not tasks or any(task.source.hub for task in tasks)
        hub = "hub data" if has_hub else "the task's own data"
        sources = {"mini": "mini data", "hub": hub, "imported": "imported data"}
        names = " and ".join(sources.get(source, f"files in {source}") for source in self.data)
        names += f" on {self.machine}" if self.machine else ""
        return names if self.limit is None else f"{names}, at most {self.limit} rows per split"

    @property
    def has_score(self) -> bool:
        """True if the leaderboard shows the suite's score.

        False if its only task is a custom task, because the suite's score would repeat the value of
        this task.
        """
        return not (len(self.tasks) == 1 and TASKS[self.tasks[0]].definition)

    @property
    def shows_score(self) -> bool:
        """True if the terminal and the report show the suite's score in a column of its own.

        False also if a single task counts in the score, because two columns would be equal.
        """
        return self.has_score and len(self.rule.cells) > 1

    @property
    def is_whole(self) -> bool:
        """True if the runs used the benchmark's complete data: not mini and without a limit."""
        return self.limit is None and "mini" not in self.data

    def best(self, task: str) -> str:
        """Return the best median in a task's column as text, as tables show it.

        Only single models that were fine-tuned here are compared, because an ensemble costs several
        times as much, and the training data of imported predictions are unknown. A model that has
        learned nothing is never the best. Empty if fewer than two such models have a result on the
        task, or if none of them has learned anything.
        """
        models = [entry for entry in self.entries if entry.competes]
        cells = [entry.cells[task] for entry in models if task in entry.cells]
        medians = [cell.median for cell in cells if cell.has_learned]
        return shown(max(medians)) if medians and len(cells) > 1 else ""


def build_boards(runs: Sequence[RunRow], suite: Suite, *, paths: bool = False) -> tuple[Board, ...]:
    """Build the leaderboards of a suite, one per set of evaluation data.

    Two runs are on the same leaderboard only if the splits that both predicted have equal
    fingerprints (digests of their examples), so scores on different data are never in one column.
    The leaderboard with the most runs comes first. The order of `runs` does not matter.

    Args:
        runs: Stored runs. Runs of other suites are not shown; they are used only to describe from
            which run a run of this suite has started.
        suite: Suite whose leaderboards are built.
        paths: Show paths of this machine in full. By default they are shortened (see sharing.py).
    """
    # Compare names, because a task of the suite may be unknown if the plugin that defines it is not
    # loaded. Include the suite's own name, because an imported score may be the suite's average.
    known = {suite.name, *suite.tasks}
    fitting = (run for run in runs if not known.isdisjoint(run.trained_tasks))
    ours = with_starts(fitting, runs)
    ours = ours if paths else list(map(shared_row, ours))
    # Grouping is greedy, so sort the runs to make the result independent of their order.
    ordered = sorted(ours, key=lambda run: (run.finished, run.key))
    measured = [run for run in ordered if run.kind != "imported"]
    boards = [_board(group, suite) for group in group_by_data(measured)]
    # Imported scores have no fingerprints of their data. So each score is shown on every board with
    # the same limit and the same kind of data (mini or not). Scores that match no board get a board
    # of their own.
    imported = grouped(
        ((run.limit, run.data == "mini"), run)
        for run in ordered
        if run.kind == "imported" and run.status == "finished"
    )
    kinds = [(board.limit, "mini" in board.data) for board in boards]
    boards = [
        replace(board, imported=tuple(imported.get(kind, ())))
        for board, kind in zip(boards, kinds, strict=True)
    ]
    boards += [_board((), suite, imported[kind]) for kind in imported.keys() - set(kinds)]
    boards = [replace(board, paths=paths) for board in boards]
    return tuple(
        sorted(boards, key=lambda b: (-sum(len(entry.runs) for entry in b.entries), b.data_label))
    )


def _board(runs: Sequence[RunRow], suite: Suite, imported: Sequence[RunRow] = ()) -> Board:
    counted = set(suite.rule.cells)
    shown_runs = [run for run in runs if not run.is_hidden]
    entries = [build_entry(group, suite) for group in group_by_recipe(shown_runs)]
    scored = {task for entry in entries for task in entry.cells}
    columns = sorted(suite.tasks, key=lambda task: task not in counted)
    # A task that counts in the score always has a column. Any other task has one only if there is a
    # result.
    tasks = tuple(t for t in columns if t in counted or t in scored)
    return Board(
        suite=suite.name,
        title=suite.title,
        rule=suite.rule,
        data=tuple(sorted({run.data for run in runs or imported})),
        limit=next((run.limit for run in runs or imported if run.limit is not None), None),
        tasks=tasks,
        extras=tuple(t for t in tasks if t not in counted),
        entries=tuple(told_apart(_ranked(entries))),
        imported=tuple(imported),
        hidden=len(group_by_recipe([run for run in runs if run.is_hidden])),
        machine=next((timed_on(run) for run in runs), ""),
    )


def _ranked(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Set the ranks of the entries, and yield them best first.

    Entries with equal scores share the better rank (1, 2, 2, 4) and are sorted by name. Models
    without a score come after those with one; the models with the fewest missing tasks come first
    among them. Imported predictions, ensembles and baselines come after the models and have no
    rank.
    """

    def order(entry: Entry) -> tuple[Any, ...]:
        # Sort by the displayed score, so that scores that look equal share a rank. Models come
        # first, so that the position of a model among all entries is its rank.
        has_none = entry.score is None
        if entry.score is None:
            medians = [cell.median for cell in entry.cells.values()]
            last = (len(entry.missing), -sum(medians) / len(medians) if medians else 0.0)
        else:
            last = (0, -float(shown(entry.score)))
        names = (entry.model, entry.recipe, entry.precision, entry.variant)
        return (_KINDS.index(entry.kind), has_none, last, *names)

    rank, last = 0, ""
    for place, entry in enumerate(sorted(entries, key=order), start=1):
        if entry.score is None or not entry.competes:
            yield entry
            continue
        if shown(entry.score) != last:
            rank, last = place, shown(entry.score)
        yield replace(entry, rank=rank)


def unranked(board: Board) -> Board:
    """Return the leaderboard without ranks.

    This is needed if only some of the stored runs were read, because ranks among these would be
    wrong.
    """
    return replace(board, entries=tuple(replace(entry, rank=None) for entry in board.entries))


# Reduction of leaderboards that are too long to their best entries.

TOP = 30
"""Default for the maximum number of entries of each kind (model, ensemble, baseline etc.) that a
leaderboard shows.
"""


def top_of(board: Board, number: int, keep: Set[str] = frozenset()) -> Board:
    """Reduce a leaderboard to its first entries of each kind; their order and ranks do not change.

    In addition, two entries are kept for each column, so that the best value of a column is never
    removed: the best single model, and the best single model that was fine-tuned here.

    Args:
        board: Leaderboard to reduce.
        number: Number of entries to keep per kind ("model", "ensemble", "baseline" etc.); 0 to keep
            all entries.
        keep: Keys of runs whose entries are kept in any case.
    """
    if number == 0 or len(board.entries) <= number:
        return board
    kinds = groupby(board.entries, key=lambda entry: entry.shown_kind)
    kept = [entry for _, entries in kinds for entry in list(entries)[:number]]
    for task in board.tasks:
        ran = [(e.cells[task], e) for e in board.entries if e.is_single and task in e.cells]
        ran.sort(key=lambda pair: (not pair[0].has_learned, -pair[0].median))
        kept += [entry for _, entry in ran[:1]]
        kept += [entry for _, entry in ran if entry.competes][:1]
    kept += [e for e in board.entries if keep and any(run.key in keep for run in e.runs)]
    # Compare entries by identity, because comparing them by value would compare all their runs.
    chosen = set(map(id, kept))
    return replace(board, entries=tuple(e for e in board.entries if id(e) in chosen))


def best_of(boards: Sequence[Board], most: int) -> list[Board]:
    """Reduce leaderboards to their best entries, so that few runs remain.

    The maximum number of entries per kind ("model", "ensemble" etc.) is the same for all
    leaderboards. Each leaderboard keeps at least one entry of each kind and the best entry of each
    column, even if more runs than `most` remain.

    Args:
        boards: Leaderboards to reduce.
        most: Approximate maximum number of runs on all leaderboards together. If there are no more
            runs than this, nothing is removed.
    """
    runs = [[len(entry.runs) for entry in board.entries] for board in boards]
    number = max((len(board.entries) for board in boards), default=0)
    while number > 1 and sum(sum(counts[:number]) for counts in runs) > most:
        number = number * 3 // 4
    whole = sum(map(sum, runs)) <= most
    return [top_of(board, 0 if whole else number) for board in boards]


Select = Callable[[Board, str], Entry | None]
"""Function that gets a leaderboard and a name from the command line, and returns the entry to which
the name refers, or None.
"""

_MANY_NAMES = 50  # maximum number of names in an error message


def select_entry(board: Board, name: str) -> Entry | None:
    """Return the leaderboard entry to which a name refers (see `naming.is_called`), or None.

    Raises:
        BenchError: If the name refers to several entries.
    """
    found = called(board.entries, name)
    if len(found) > 1:
        choices = " or ".join(short_name(entry, board.entries) for entry in found)
        raise BenchError(f"{name!r} matches several rows of {board.title}: use {choices}.")
    return found[0] if found else None


def select_entry_or_run(board: Board, name: str) -> Entry | None:
    """Return the leaderboard entry to which a name refers, or a single run of an entry.

    A run is selected by the first 6 or more characters of its key. It is returned as an entry that
    contains only this run. Returns None if nothing matches.

    Raises:
        BenchError: If the name refers to several entries, or several keys have this prefix.
    """
    entry, prefix = select_entry(board, name), name.lower()
    if entry or not re.fullmatch("[0-9a-f]{6,64}", prefix):
        return entry
    found = {
        run.key: entry
        for entry in board.entries
        for cell in entry.cells.values()
        for run in cell.runs
        if run.key.startswith(prefix)
    }
    if len(found) > 1:
        keys = " or ".join(key[: len(prefix) + 6] for key in found)
        raise BenchError(f"several runs have keys that begin with {prefix!r}: use {keys}.")
    for key, whole in found.items():  # `found` has at most one item
        cells = {
            task: replace(cell, runs=(run,), values=(value,))
            for task, cell in whole.cells.items()
            for run, value in zip(cell.runs, cell.values, strict=True)
            if run.key == key
        }
        return replace(whole, model=f"{whole.model} (run {key[:12]})", cells=cells, failures=())
    return None


def boards_with(
    boards: Iterable[Board],
    names: Iterable[str],
    select: Select = select_entry,
    *,
    known: Callable[[], Iterable[str]] | None = None,
) -> list[tuple[Board, list[Entry]]]:
    """Return the leaderboards with an entry for each name, and these entries in order of the names.

    Args:
        boards: Leaderboards to search.
        names: Names of entries, as on the command line.
        select: Function that returns the entry of a leaderboard to which a name refers, or None.
        known: Function that returns the names of all stored models for the error message; needed if
            `boards` do not contain all of them.

    Raises:
        BenchError: If no leaderboard has an entry for each name (the message lists existing names),
            or if `select` finds several entries for a name on one leaderboard.
    """
    wanted, listed = list(names), list(boards)
    found: list[tuple[Board, list[Entry]]] = []
    for board in listed:
        entries = [entry for name in wanted if (entry := select(board, name))]
        if len(entries) == len(wanted):
            found.append((board, entries))
    if found:
        return found
    unfound = [name for name in wanted if not any(select(board, name) for board in listed)]
    models = dict.fromkeys(
        [
            short_name(entry, board.entries)
            for board in listed
            for entry in board.entries
            if any(is_called(entry, name.partition(":")[0]) for name in unfound)
        ]
        or (known() if known else (entry.model for board in listed for entry in board.entries))
    )
    some = [*models][:_MANY_NAMES]
    more = len(models) - len(some)
    stored = ", ".join(some) + (f" and {more} more" if more else "")
    there = f"There are results of {stored}" if stored else "No runs are stored"
    hidden = any(board.hidden for board in listed)
    place, listing = "", "`bench show runs` lists all runs"
    if not unfound:
        place, listing = " on the same data", "`bench show runs` shows the data of each run"
    raise BenchError(
        f"no leaderboard has results of {' or '.join(unfound) or ' and '.join(wanted)}{place}. "
        f"{there}. {listing}{', and `bench db hide` lists hidden rows' if hidden else ''}."
    )


def boards_of(keys: Set[str], boards: Iterable[Board]) -> list[Board]:
    """Return the leaderboards that contain a run with one of these keys."""
    return [
        board
        for board in boards
        if any(run.key in keys for entry in board.entries for run in entry.runs)
    ]


@dataclass(frozen=True, kw_only=True)
class LanguageTable:
    """Results of one task per language.

    Attributes:
        title: Title of the task.
        heads: Names of the languages, which are the titles of the columns.
        rows: Pairs of a leaderboard entry's name and its values, one text per language.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def language_tables(board: Board) -> Iterator[LanguageTable]:
    """Yield a table of results per language for each task with one test split per language.

    A task without results has no table. A value is the mean of the task's metrics on one language;
    the table shows its median over seeds, times 100, or a dash if it is unknown.
    """
    for task in map(find_task, board.tasks):
        cells = [(e.name, e.cells[task.name]) for e in board.entries if task.name in e.cells]
        if task.public_tests and task.split_titles and cells:
            rows = [(visible(name), tuple(_values(task, cell))) for name, cell in cells]
            heads = tuple(task.split_titles.values())
            yield LanguageTable(title=task.title, heads=heads, rows=tuple(rows))


def _values(task: Task, cell: Cell) -> Iterator[str]:
    for ending in map(suffix_of, task.split_titles):
        names = [metric.name + ending for metric in task.metrics]
        seeds = [complete_mean([run.scores[task.name].get(n) for n in names]) for run in cell.runs]
        known = [value for value in seeds if value is not None]
        yield marked(shown(median(known)), cell.notes) if known else "–"
