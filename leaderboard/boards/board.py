"""Boards: the stored runs of a suite, grouped into ranked entries.

Every function is pure: it takes run rows that were read before, and returns tables.
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
"""Kinds of entries in the order in which a board shows them; only the first kind is ranked."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """Ranked table of entries, all evaluated on the same rows of each task.

    `tasks` are the columns; the tasks in `extras` have a column but do not count in the score.
    `data` are the sources of the rows ("hub", "mini" or folders), `limit` is the number of rows
    kept per split. `imported` are third-party scores on the same data, as far as can be known: they
    are not entries, have no rank and cannot be the best of a column. `hidden` counts the entries
    that the user has hidden. `machine` names the machine that models were timed on, and the
    reference model that they were compared with. `parity` maps the key of a run to its text from
    `reproduction.parity_of`, if it was asked for. `paths` is true if paths of this machine are
    shown in full.
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

    def parity_of(self, runs: Iterable[RunRow]) -> str:
        """Return what the parity certificate proves about these runs, each distinct text once."""
        return "; ".join(dict.fromkeys(filter(None, (self.parity.get(run.key) for run in runs))))

    @property
    def data_label(self) -> str:
        """Evaluation data, for a title: "mini data, at most 100 rows per split"."""
        sources = {"mini": "mini data", "hub": "hub data", "imported": "imported data"}
        names = " and ".join(sources.get(source, f"files in {source}") for source in self.data)
        names += f" on {self.machine}" if self.machine else ""
        return names if self.limit is None else f"{names}, at most {self.limit} rows per split"

    @property
    def has_score(self) -> bool:
        """True if the board shows a score: not if its only task is a user-defined one."""
        return not (len(self.tasks) == 1 and TASKS[self.tasks[0]].definition)

    @property
    def is_whole(self) -> bool:
        """True if the rows are the benchmark's own data and none of them was left out."""
        return self.limit is None and "mini" not in self.data

    def best(self, task: str) -> str:
        """Return a column's best median as displayed; empty if there is nothing to compare.

        Only single models that were trained here are compared: an ensemble costs several times as
        much, and the training data of imported predictions are unknown.
        """
        models = [entry for entry in self.entries if entry.competes]
        cells = [entry.cells[task] for entry in models if task in entry.cells]
        medians = [cell.median for cell in cells if cell.has_learned]
        return shown(max(medians)) if medians and len(cells) > 1 else ""


def build_boards(runs: Sequence[RunRow], suite: Suite, *, paths: bool = False) -> tuple[Board, ...]:
    """Return the boards of a suite, one per set of evaluation data that its runs were scored on.

    Two runs share a board only if the fingerprints of the splits that both predicted agree, so two
    data sets never mix in a column. Boards with the most runs come first; the order of `runs` does
    not matter. Runs of other suites are used only to find out what the runs of this suite started
    from.

    Args:
        runs: Stored runs of any suite.
        suite: Suite to build boards of.
        paths: Show paths of this machine in full; by default `sharing` shortens them.
    """
    ours = with_starts((run for run in runs if suite.name in run.suites), runs)
    ours = ours if paths else list(map(shared_row, ours))
    # Grouping is greedy, so its result must not depend on the order of the rows.
    ordered = sorted(ours, key=lambda run: (run.finished, run.key))
    measured = [run for run in ordered if run.kind != "imported"]
    boards = [_board(group, suite) for group in group_by_data(measured)]
    # The fingerprints of imported rows are unknown: an imported score belongs to every board of the
    # same limit whose data are mini if and only if the score's are. Scores that match no board get
    # boards of their own.
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
    # A task that counts in the score always has a column, any other task only if it has a result.
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
    """Yield the entries sorted by rank, best first, with their ranks set.

    Entries with equal scores share the better rank (1, 2, 2, 4) and are sorted by name. Entries
    without a score come last. Imported predictions, ensembles and baselines come after the models
    and have no rank.
    """

    def order(entry: Entry) -> tuple[Any, ...]:
        # Sort by the score as displayed, so that scores that look equal are a tie. Models come
        # first, so that the place of a model among all entries is its place among the models.
        has_none = entry.score is None
        last = len(entry.missing) if entry.score is None else -float(shown(entry.score))
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
    """Return the board without ranks, for use when not all of its rows were read."""
    return replace(board, entries=tuple(replace(entry, rank=None) for entry in board.entries))


# The top of a board, for use if the whole board is too long.

TOP = 30
"""Default number of entries of each kind that are shown."""


def top_of(board: Board, number: int, keep: Set[str] = frozenset()) -> Board:
    """Return the board with its first `number` entries of each kind; order and ranks stay the same.

    The best single model of each column is kept too, and the best one that was trained here, so
    that a column's best value is always on the board. So is every entry with a run whose key is in
    `keep`. A `number` of 0 keeps all entries.
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
    # Compare by identity: comparing two entries by value would compare all of their runs.
    chosen = set(map(id, kept))
    return replace(board, entries=tuple(e for e in board.entries if id(e) in chosen))


def best_of(boards: Sequence[Board], most: int) -> list[Board]:
    """Shorten all boards to the same number of best entries, so that about `most` runs remain.

    Every board keeps at least one entry of each kind and the best entry of each column, even if
    more than `most` runs remain then.
    """
    runs = [[len(entry.runs) for entry in board.entries] for board in boards]
    number = max((len(board.entries) for board in boards), default=0)
    while number > 1 and sum(sum(counts[:number]) for counts in runs) > most:
        number = number * 3 // 4
    whole = sum(map(sum, runs)) <= most
    return [top_of(board, 0 if whole else number) for board in boards]


Select = Callable[[Board, str], Entry | None]
"""Function that finds the entry with a given name on a board, None if there is none."""

_MANY_NAMES = 50  # longest list of names in an error message


def select_entry(board: Board, name: str) -> Entry | None:
    """Return the entry with this name (see `naming.is_called`), None if there is none.

    Raises:
        BenchError: Several entries have this name.
    """
    found = called(board.entries, name)
    if len(found) > 1:
        choices = " or ".join(short_name(entry, board.entries) for entry in found)
        raise BenchError(f"{name!r} is more than one row of {board.title}: use {choices}.")
    return found[0] if found else None


def select_entry_or_run(board: Board, name: str) -> Entry | None:
    """Return the entry with this name, else an entry of the one run whose key starts with `name`.

    The beginning of a key must have 6 or more characters. The entry of a single run contains only
    that run's values. Returns None if nothing matches.

    Raises:
        BenchError: Several entries have this name, or several keys start with it.
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
        raise BenchError(f"{prefix!r} begins the keys of several runs: use {keys}.")
    for key, whole in found.items():  # reduce the entry to this run
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
    """Return the boards on which every name has an entry, with these entries in order of names.

    Args:
        boards: Boards to search.
        names: Names that must all be on the same board.
        select: Function that finds the entry with a name on a board.
        known: Function that returns the stored names for the error message; needed if `boards` do
            not contain everything that is stored.

    Raises:
        BenchError: No board has all the names; the message lists the names that exist.
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
    hidden = any(board.hidden for board in listed)
    raise BenchError(
        f"no board has {' and '.join(wanted)} with results on the same rows: stored are "
        f"{stored or 'no runs'}; `bench show runs` shows on which data each "
        f"was run{', `bench db hide` which rows are hidden' if hidden else ''}."
    )


def boards_of(keys: Set[str], boards: Iterable[Board]) -> list[Board]:
    """Return the boards that contain at least one of the runs with these keys."""
    return [
        board
        for board in boards
        if any(run.key in keys for entry in board.entries for run in entry.runs)
    ]


@dataclass(frozen=True, kw_only=True)
class LanguageTable:
    """Results of a task by language: column heads, and each entry's name and texts."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def language_tables(board: Board) -> Iterator[LanguageTable]:
    """Yield a table for each task that has a test split per language and a result.

    A value is the median over seeds of the mean of the task's metrics, times 100.
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
