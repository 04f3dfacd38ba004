"""The points of plots against cost: entries and published rows, each with its score and costs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from leaderboard.boards.board import Board
from leaderboard.boards.cell import Cell, score_names
from leaderboard.boards.reproduction import LIKE_OURS
from leaderboard.boards.systems import find_system
from leaderboard.published import PublishedCell, PublishedRow, published
from leaderboard.report.plots.facts import RunFacts
from leaderboard.report.plots.named import NamedEntry
from leaderboard.report.plots.size import (
    ModelSize,
    Sizes,
    size_of_run,
    token_flops,
    training_flops,
)
from leaderboard.report.table import group_anchor
from tasks.rules import ScoreRule, complete_mean

__all__ = ["Facts", "Point", "measured_points", "published_points"]

Facts = Mapping[str, RunFacts]
"""By the keys of runs."""


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

    Floors and ensembles are left out: they have no size and no training of their own. So are models
    of whose runs there are no facts.
    """
    tasks = tuple(rule.cells) if task is None else (task,)
    scored = (
        (each, [each.entry.cells[name] for name in tasks])
        for each in named
        if each.entry.kind == "model" and all(name in each.entry.cells for name in tasks)
    )
    return [
        _measured(each, task, cells, facts, sizes)
        for each, cells in scored
        if all(run.key in facts for cell in cells for run in cell.runs)
    ]


@dataclass(frozen=True, kw_only=True)
class _Costs:
    """The costs of one task's runs, as far as they are known of each of its seeds."""

    costs: Mapping[str, float]
    machine: str


def _costs(model: str, cell: Cell, facts: Facts, sizes: Sizes) -> _Costs:
    runs = [facts[run.key] for run in cell.runs]
    found = [size_of_run(model, run, sizes) for run in runs]
    machines = {run.machine for run in runs}
    machine = machines.pop() if len(machines) == 1 else ""
    costs = {
        "parameters": _median(run.parameters for run in runs),
        "training-flops": _median(map(training_flops, found, runs)),
        "inference-flops": _median(map(token_flops, found)),
        "training-time": _median(run.train_seconds or None for run in runs) if machine else None,
    }
    return _Costs(
        costs={name: cost for name, cost in costs.items() if cost is not None}, machine=machine
    )


def _median(values: Iterable[float | None]) -> float | None:
    """The median over seeds, None where one of them has no value."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return median(known) if known and len(known) == len(listed) else None


def _measured(
    named: NamedEntry, task: str | None, cells: Sequence[Cell], facts: Facts, sizes: Sizes
) -> Point:
    entry = named.entry
    known = [_costs(entry.model, cell, facts, sizes) for cell in cells]
    values = entry.seed_scores if task is None else cells[0].values
    score = entry.score if task is None else cells[0].median
    assert score is not None, "an entry with every task has a score"
    machines = {found.machine for found in known}
    return Point(
        kind="measured",
        entry=named.id,
        name=named.name,
        details=f"{entry.recipe_label}, {entry.precision}",
        score=100 * score,
        low=100 * min((*values, score)),
        high=100 * max((*values, score)),
        costs=dict(_whole_costs(known, one_machine=len(machines) == 1)),
        machine=machines.pop() if len(machines) == 1 else "",
        href="#" + group_anchor(entry, cells[0].runs[0].task),
    )


def _whole_costs(known: Sequence[_Costs], *, one_machine: bool) -> Iterator[tuple[str, float]]:
    """The costs of all tasks: sizes are one model's, what training takes adds up."""
    shared = set.intersection(*(set(found.costs) for found in known))
    for name in sorted(shared):
        values = [found.costs[name] for found in known]
        if name == "training-time" and not one_machine:
            continue
        yield name, sum(values) if name.startswith("training") else median(values)


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
        [next((c.value for c in cells if _is_score(c, name)), None) for name in names]
    )


def _is_score(cell: PublishedCell, name: str) -> bool:
    return cell.scores == (name,)


def _published(row: PublishedRow, score: float, anchor: str, sizes: Sizes) -> Point:
    said = (row.by, "" if row.protocol == "unsaid" else row.protocol, row.source, row.place)
    return Point(
        kind="published",
        entry="",
        name=row.system,
        details=", ".join(part for part in said if part),
        score=score,
        low=score,
        high=score,
        costs=_published_costs(row, sizes),
        machine="",
        href=f"#{anchor}-published-dev",
    )


def _published_costs(row: PublishedRow, sizes: Sizes) -> dict[str, float]:
    system = find_system(row.system, row.table)
    size = sizes.get(system.model) if system is not None else None
    printed = _printed_size(row.parameters) or (size.parameters if size else None)
    per_token = token_flops(size or ModelSize(parameters=0))
    costs = {"parameters": printed, "inference-flops": per_token}
    return {name: cost for name, cost in costs.items() if cost is not None}


def _printed_size(text: str) -> float | None:
    """The number of weights that a source prints: "110M"."""
    units = {"M": 1e6, "B": 1e9}
    return float(text[:-1]) * units[text[-1]] if text[-1:] in units else None
