"""Boards: stored runs of a suite, gathered into ranked entries. Pure: rows in, tables out."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median
from typing import Any

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
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import TASKS, ScoreRule, Suite, complete_mean, find_task
from benchharness.tasks.task import Task, suffix_of

_KINDS = ("model", "scored", "ensemble", "zero-shot", "baseline")
"""The order in which a board shows its entries; only what was trained here is ranked."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """A ranked table. All its runs were evaluated on the same rows, task by task.

    `tasks` are the columns; those in `extras` are shown and never counted. `data` are the sources
    the rows came through ("hub", "mini" or folders), `limit` the rows kept of each split.
    `imported` are scores that others have measured on the same data, as far as one can know: they
    are no entries, and have neither rank nor part in what is best. `hidden` counts the rows that
    the user has hidden. `machine` is what models were timed on, and beside what. `parity` is what
    `parity_of` says of runs, by key, where it was asked. `paths`: those of this machine are whole.
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
        """What the certificate says of these runs, each thing once."""
        return "; ".join(dict.fromkeys(filter(None, (self.parity.get(run.key) for run in runs))))

    @property
    def data_label(self) -> str:
        """What the scores were measured on, for a title: "mini data, first 100 rows a split"."""
        sources = {"mini": "mini data", "hub": "hub data", "imported": "data that others used"}
        names = " and ".join(sources.get(source, f"files in {source}") for source in self.data)
        names += f" on {self.machine}" if self.machine else ""
        return names if self.limit is None else f"{names}, at most {self.limit} rows a split"

    @property
    def has_score(self) -> bool:
        """Whether the score is shown: of a task of one's own that stands alone it is the task's."""
        return not (len(self.tasks) == 1 and TASKS[self.tasks[0]].definition)

    @property
    def is_whole(self) -> bool:
        """True where the rows are a benchmark's own and none of them was left out."""
        return self.limit is None and "mini" not in self.data

    def best(self, task: str) -> str:
        """The best median of a column as shown, empty where there is nothing to compare.

        Only single models that were trained here are compared: an ensemble has several times their
        cost, and of predictions from elsewhere nobody here knows what they were trained on.
        """
        models = [entry for entry in self.entries if entry.competes]
        cells = [entry.cells[task] for entry in models if task in entry.cells]
        medians = [cell.median for cell in cells if cell.has_learned]
        return shown(max(medians)) if medians and len(cells) > 1 else ""


def build_boards(runs: Sequence[RunRow], suite: Suite, *, paths: bool = False) -> tuple[Board, ...]:
    """The boards of a suite: one for each set of evaluation data that its runs were scored on.

    Two runs share a board only where the fingerprints of the splits they both predicted agree, so
    data sets never mix in a column. Boards with most runs come first; the same rows give the same
    boards in whatever order they are passed. Runs of other suites tell only what those of this one
    have started from. What a board says of places on this machine is as in `sharing`, or whole
    with `paths`.
    """
    ours = with_starts((run for run in runs if suite.name in run.suites), runs)
    ours = ours if paths else list(map(shared_row, ours))
    # Groups are made greedily, so they need one order, whatever that of the rows was.
    ordered = sorted(ours, key=lambda run: (run.finished, run.key))
    measured = [run for run in ordered if run.kind != "imported"]
    boards = [_board(group, suite) for group in group_by_data(measured)]
    # Nobody knows the fingerprints of imported rows: a score belongs wherever the limit agrees and
    # the data are mini on both sides or on neither. Those that belong nowhere have own boards.
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
    # A task of the score has a column even where nobody has run it, any other only with a score.
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
    """Best first; ties share the better rank (1, 2, 2, 4); entries without a score come last.

    Predictions of others, ensembles and baselines stand below the models, without a rank. Ties as
    shown stand in the order of their names.
    """

    def order(entry: Entry) -> tuple[Any, ...]:
        # By the score as shown, so that what looks equal is a tie. Models come first, so that the
        # place of one among all is its place among them.
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
    """The board without ranks, for where not all of its rows were read."""
    return replace(board, entries=tuple(replace(entry, rank=None) for entry in board.entries))


# The best of a board, for where all of it would be too much.

TOP = 30
"""Entries of each kind that are shown unasked, each in a line."""


def top_of(board: Board, number: int, keep: Set[str] = frozenset()) -> Board:
    """The board with the first `number` entries of each kind, in their order and with their ranks.

    The best of each column stay too, and the entries of the runs with the keys to `keep`, so that
    nothing is shown as the best that is not, and everybody finds their own. 0 leaves all.
    """
    if number == 0 or len(board.entries) <= number:
        return board
    kinds = groupby(board.entries, key=lambda entry: entry.shown_kind)
    kept = [entry for _, entries in kinds for entry in list(entries)[:number]]
    for task in board.tasks:
        ran = [(e.cells[task], e) for e in board.entries if e.is_single and task in e.cells]
        ran.sort(key=lambda pair: (not pair[0].has_learned, -pair[0].median))
        kept += [entry for _, entry in ran[:1]]
    kept += [e for e in board.entries if keep and any(run.key in keep for run in e.runs)]
    # By identity: to compare two entries is to compare all of their runs.
    chosen = set(map(id, kept))
    return replace(board, entries=tuple(e for e in board.entries if id(e) in chosen))


def best_of(boards: Sequence[Board], most: int) -> list[Board]:
    """The boards with so few of their best entries that they have no more than `most` runs.

    Every board keeps one entry of each kind and the best of each column, however many runs these
    have.
    """
    runs = [[len(entry.runs) for entry in board.entries] for board in boards]
    number = max((len(board.entries) for board in boards), default=0)
    while number > 1 and sum(sum(counts[:number]) for counts in runs) > most:
        number = number * 3 // 4
    whole = sum(map(sum, runs)) <= most
    return [top_of(board, 0 if whole else number) for board in boards]


Select = Callable[[Board, str], Entry | None]
"""Finds what a name stands for on a board, None where it stands for nothing there."""

_MANY_NAMES = 50  # more are not listed in an error


def select_entry(board: Board, name: str) -> Entry | None:
    """The entry of that name (see `naming.is_called`); None where none is.

    Raises BenchError where several are.
    """
    found = called(board.entries, name)
    if len(found) > 1:
        choices = " or ".join(short_name(entry, board.entries) for entry in found)
        raise BenchError(f"{name!r} is more than one row of {board.title}: say {choices}.")
    return found[0] if found else None


def select_entry_or_run(board: Board, name: str) -> Entry | None:
    """The entry of that name, or else one run of an entry: the run whose key begins so.

    A key is told by 6 characters or more. Raises BenchError where several fit.
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
        raise BenchError(f"{prefix!r} begins the keys of several runs: say {keys}.")
    for key, whole in found.items():  # the entry with nothing but this run
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
    """The boards on which every name has an entry, each with these entries, in the names' order.

    `select` says what a name stands for. Raises BenchError, naming what there is (by `known`, where
    the boards are not of everything that is stored), where there is no such board.
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
    """The boards on which one of these runs stands."""
    return [
        board
        for board in boards
        if any(run.key in keys for entry in board.entries for run in entry.runs)
    ]


@dataclass(frozen=True, kw_only=True)
class LanguageTable:
    """Of a task: the names of its languages, and each entry's name with a text for each."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def language_tables(board: Board) -> Iterator[LanguageTable]:
    """One for each task of languages that has a score.

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
