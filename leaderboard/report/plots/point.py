"""The points of plots against cost: entries and published rows, each with its score and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_names
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.published import PublishedRow, published
from benchharness.leaderboard.boards.reproduction import LIKE_OURS
from benchharness.leaderboard.boards.systems import find_system, printed_size
from benchharness.leaderboard.report.plots.cost import (
    Facts,
    Sizes,
    size_of_run,
    training_flops,
)
from benchharness.leaderboard.report.table import group_anchor
from benchharness.tasks.suites import ScoreRule, complete_mean


@dataclass(frozen=True, kw_only=True)
class NamedEntry:
    """An entry with the `id` that all its marks carry, and a name that no other one has."""

    id: str
    name: str
    entry: Entry

    @property
    def title(self) -> str:
        """The same with what it leaves unsaid."""
        unsaid = self.entry.beside_name
        return f"{self.name} ({unsaid})" if unsaid else self.name

    def href(self, cell: Cell) -> str:
        """Leads to the runs of one of its cells."""
        return "#" + group_anchor(self.entry, cell.runs[0].task)


def named_entries(board: Board, anchor: str) -> tuple[NamedEntry, ...]:
    """The entries of a board, whose id in the page is `anchor`."""
    return tuple(
        NamedEntry(id=f"{anchor}-e{number}", name=entry.name, entry=entry)
        for number, entry in enumerate(board.entries)
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """One score, in percent, with what is known of its costs by the names of quantities.

    `entry` is the same for all points of an entry, empty for a published row; `low` and `high` are
    the lowest and highest seed; `machine` is what trained it, empty for several kinds of machine.
    """

    kind: Literal["measured", "published"]
    entry: str
    name: str
    details: str
    score: float
    low: float
    high: float
    costs: Mapping[str, float]
    machine: str
    href: str


def measured_points(
    named: Sequence[NamedEntry], rule: ScoreRule, task: str | None, facts: Facts, sizes: Sizes
) -> list[Point]:
    """The models that have the task's score, or the suite's by `rule` where `task` is None.

    Baselines and ensembles are left out: they have no size and no training of their own. So are
    models of whose runs there are no facts.
    """
    tasks = tuple(rule.cells) if task is None else (task,)
    scored = (
        (each, [each.entry.cells[name] for name in tasks])
        for each in named
        if each.entry.is_single and all(name in each.entry.cells for name in tasks)
    )
    return [
        _measured(each, task, cells, facts, sizes)
        for each, cells in scored
        if all(run.key in facts for cell in cells for run in cell.runs)
    ]


def _measured(
    named: NamedEntry, task: str | None, cells: Sequence[Cell], facts: Facts, sizes: Sizes
) -> Point:
    entry = named.entry
    values = entry.seed_scores if task is None else cells[0].values
    score = entry.score if task is None else cells[0].median
    assert score is not None, "an entry with every task has a score"
    machines = {facts[run.key].machine for cell in cells for run in cell.runs}
    machine = machines.pop() if len(machines) == 1 else ""
    costs = _whole_costs([_costs(entry.model, cell, facts, sizes) for cell in cells])
    if not machine:
        costs.pop("training-time", None)
    return Point(
        kind="measured",
        entry=named.id,
        name=named.name,
        details=", ".join(filter(None, (entry.beside_name, entry.precision))),
        score=100 * score,
        low=100 * min((*values, score)),
        high=100 * max((*values, score)),
        costs=costs,
        machine=machine,
        href=named.href(cells[0]),
    )


def _costs(model: str, cell: Cell, facts: Facts, sizes: Sizes) -> dict[str, float | None]:
    """The costs of one task's runs, None where one of its seeds has none."""
    runs = [facts[run.key] for run in cell.runs]
    found = [size_of_run(model, run, sizes) for run in runs]
    return {
        "parameters": _median([run.parameters for run in runs]),
        "training-flops": _median(list(map(training_flops, found, runs))),
        "training-time": _median([run.train_seconds or None for run in runs]),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def _whole_costs(tasks: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    """The costs of all tasks: sizes are one model's, what training takes adds up."""
    found = {}
    for name in tasks[0]:
        values = [costs[name] for costs in tasks]
        whole = _median(values)
        if whole is not None:
            found[name] = sum(filter(None, values)) if name.startswith("training") else whole
    return found


def published_points(board: Board, anchor: str, task: str | None, sizes: Sizes) -> list[Point]:
    """The published rows with the same score on dev, of single models as ours are.

    None where the board's data are made up or cut: such numbers say nothing of each other.
    """
    if not board.is_whole:
        return []
    return [
        _published(row, score, anchor, sizes)
        for row in published(board.suite)
        if row.split == "dev" and not row.is_human and row.protocol.startswith(LIKE_OURS)
        if (score := _printed(board, row, task)) is not None
    ]


def _printed(board: Board, row: PublishedRow, task: str | None) -> float | None:
    """The very score that the board shows; None where a part of it is not printed."""
    cells = row.of(board.suite if task is None else task)
    names = (board.rule.name,) if task is None else score_names(task, board.rule)
    return complete_mean(
        [next((c.value for c in cells if (c.scores == (name,))), None) for name in names]
    )


def _published(row: PublishedRow, score: float, anchor: str, sizes: Sizes) -> Point:
    said = (row.by, "" if row.protocol == "unsaid" else row.protocol, row.source, row.place)
    # The size that the source prints, else that of the checkpoint; nobody prints the others.
    system = find_system(row.system, row.table)
    known = sizes.get(system.model) if system is not None else None
    size = printed_size(row.parameters) or (known.parameters if known else None)
    return Point(
        kind="published",
        entry="",
        name=row.system,
        details=", ".join(part for part in said if part),
        score=score,
        low=score,
        high=score,
        costs={} if size is None else {"parameters": size},
        machine="",
        href=f"#{anchor}-published-dev",
    )
