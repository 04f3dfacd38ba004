"""Boards: stored runs of a suite, gathered into ranked entries. Pure: rows in, tables out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from leaderboard.boards.cell import shown
from leaderboard.boards.entry import Entry, build_entry
from leaderboard.boards.grouping import group_by_data, group_by_recipe
from leaderboard.lineage import with_starts
from leaderboard.result import RunRow
from tasks.rules import ScoreRule
from tasks.suites import Suite

__all__ = ["Board", "build_boards"]

KINDS = ("model", "ensemble", "floor")
"""The order in which a board shows its entries; only single models are ranked."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """A ranked table. All its runs were evaluated on the same rows, task by task.

    `tasks` are the columns; those in `extras` are shown and never counted. `data` are the doors
    the rows came through ("hub", "mini" or folders), `limit` the rows kept of each split.
    `imported` are scores that others have measured on the same data, as far as one can know: they
    are no entries, and have neither rank nor part in what is best.
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

    @property
    def data_label(self) -> str:
        """What the scores were measured on, for a title: "mini data, first 100 rows a split"."""
        doors = {"mini": "mini data", "hub": "hub data", "imported": "data that others used"}
        names = " and ".join(doors.get(door, f"files in {door}") for door in self.data)
        return names if self.limit is None else f"{names}, at most {self.limit} rows a split"

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
        medians = [entry.cells[task].median for entry in models if task in entry.cells]
        return shown(max(medians)) if len(medians) > 1 else ""


def build_boards(runs: Sequence[RunRow], suite: Suite) -> tuple[Board, ...]:
    """The boards of a suite: one for each set of evaluation data that its runs were scored on.

    Two runs share a board only where the fingerprints of the splits they both predicted agree, so
    data sets never mix in a column. Boards with most runs come first; the same rows give the same
    boards in whatever order they are passed. Runs of other suites tell only what those of this one
    have started from.
    """
    ours = with_starts((run for run in runs if run.suite == suite.name), runs)
    ordered = sorted(ours, key=lambda run: (run.finished, run.key))
    measured = [run for run in ordered if run.kind != "imported"]
    boards = [_board(group, suite) for group in group_by_data(measured)]
    imported = [run for run in ordered if run.kind == "imported" and run.status == "finished"]
    boards = list(_with_imported(boards, imported, suite))
    return tuple(sorted(boards, key=lambda b: (-_size(b), b.data_label)))


def _with_imported(
    boards: Sequence[Board], imported: Sequence[RunRow], suite: Suite
) -> Iterator[Board]:
    """The boards with the imported scores that belong there, and boards of those with no home.

    Nobody knows the fingerprints of the rows: a score belongs wherever the limit agrees and the
    data are mini on both sides or on neither.
    """
    groups: dict[tuple[int | None, bool], list[RunRow]] = {}
    for run in imported:
        groups.setdefault((run.limit, run.data == "mini"), []).append(run)
    for board in boards:
        yield replace(board, imported=tuple(groups.get(_kind_of_data(board), ())))
    homeless = groups.keys() - set(map(_kind_of_data, boards))
    for kind in sorted(homeless, key=str):
        yield _board((), suite, groups[kind])


def _kind_of_data(board: Board) -> tuple[int | None, bool]:
    return board.limit, "mini" in board.data


def _size(board: Board) -> int:
    return sum(len(entry.runs) for entry in board.entries)


def _board(runs: Sequence[RunRow], suite: Suite, imported: Sequence[RunRow] = ()) -> Board:
    counted = set(suite.rule.cells)
    entries = [build_entry(group, suite) for group in group_by_recipe(runs)]
    scored = {task for entry in entries for task in entry.cells}
    tasks = tuple(t for t in _columns(suite) if t in counted or t in scored)
    return Board(
        suite=suite.name,
        title=suite.title,
        rule=suite.rule,
        data=tuple(sorted({run.data for run in runs or imported})),
        limit=next((run.limit for run in runs or imported if run.limit is not None), None),
        tasks=tasks,
        extras=tuple(t for t in tasks if t not in counted),
        entries=tuple(_told_apart(_ranked(entries))),
        imported=tuple(imported),
    )


def _columns(suite: Suite) -> Iterator[str]:
    """The suite's tasks, those that count first."""
    yield from (task for task in suite.tasks if task in suite.rule.cells)
    yield from (task for task in suite.tasks if task not in suite.rule.cells)


def _ranked(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Best first; ties share the better rank (1, 2, 2, 4); entries without a score come last.

    Predictions of others, ensembles and floors stand below the models, without a rank.
    """
    ordered = sorted(entries, key=_standing)
    rank, last = 0, ""
    for place, entry in enumerate(ordered, start=1):
        if entry.score is None or not entry.competes:
            yield entry
            continue
        if shown(entry.score) != last:
            rank, last = place, shown(entry.score)
        yield replace(entry, rank=rank)


def _standing(entry: Entry) -> tuple[int, bool, bool, float, int, str, str, str, str]:
    kind = (KINDS.index(entry.kind), not entry.competes)
    tie = (entry.model, entry.recipe, entry.precision, entry.variant)
    if entry.score is None:
        return (*kind, True, 0.0, len(entry.missing), *tie)
    # Ties as shown stand in the order of their names.
    return (*kind, False, -float(shown(entry.score)), 0, *tie)


def _told_apart(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries; only those whose names are taken twice keep their variant."""
    listed = list(entries)
    names = Counter((e.model, e.recipe, e.precision) for e in listed)
    for entry in listed:
        alone = names[entry.model, entry.recipe, entry.precision] == 1
        yield replace(entry, variant="") if alone else entry
