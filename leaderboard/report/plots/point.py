"""The points of plots against cost: entries and published rows, each with its score and costs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from leaderboard.boards.board import Board
from leaderboard.boards.cell import Cell, score_names
from leaderboard.boards.entry import Entry
from leaderboard.boards.published import PublishedCell, PublishedRow, published
from leaderboard.boards.reproduction import LIKE_OURS
from leaderboard.boards.systems import find_system
from leaderboard.job import Job
from leaderboard.report.table import group_anchor
from leaderboard.result import Failure, Result
from tasks.suites import ScoreRule, complete_mean

__all__ = [
    "QUANTITIES",
    "Facts",
    "ModelSize",
    "NamedEntry",
    "Point",
    "Quantity",
    "RunFacts",
    "Sizes",
    "facts_of",
    "find_quantity",
    "measured_points",
    "named_entries",
    "published_points",
    "size_of_run",
    "token_flops",
    "training_flops",
]

# What plots need of a finished run besides its row: cost and machine.

EVERY_WEIGHT: Mapping[str, object] = {"features": "fine-tuned", "unfreeze": "all", "lora_rank": 0}
"""The settings of a recipe that trains every weight at every step; they stand where others do."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The cost of one run.

    `tokens` are real ones seen in training; `train_seconds` are 0 where nothing was trained.
    `trains_all` where every weight was trained with every token.
    """

    parameters: int
    tokens: int
    train_seconds: float
    machine: str
    trains_all: bool


def facts_of(run: Result | Failure) -> RunFacts | None:
    """The facts of a run of an encoder; None for a failure, a floor or an ensemble."""
    if isinstance(run, Failure) or run.job.kind != "model" or not run.cost.parameters:
        return None
    return RunFacts(
        parameters=run.cost.parameters,
        tokens=run.cost.train_tokens,
        train_seconds=run.cost.train_seconds,
        machine=_machine(run.provenance.get("machine", {})),
        trains_all=_trains_all(run.job),
    )


def _trains_all(job: Job) -> bool:
    return all(
        name not in job.settings or job.settings[name].value == value
        for name, value in EVERY_WEIGHT.items()
    )


def _machine(machine: Mapping[str, Any]) -> str:
    """A GPU by its name, a CPU with its threads; empty where nothing was recorded."""
    device = str(machine.get("device") or "")
    if device not in ("", "cpu"):
        return device
    name, threads = str(machine.get("cpu") or ""), machine.get("threads")
    if not name or not threads:
        return name
    return f"{name}, {threads} thread{'' if threads == 1 else 's'}"


# Sizes of checkpoints, and what a run of one has computed.

NEAR = 0.15
"""A checkpoint's published size and that of a run of it differ by less, whatever its head is."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A checkpoint's weights: all of them, and those besides embeddings, None where unknown.

    `is_dense` where every token passes every weight besides embeddings once: not where layers share
    weights (ALBERT), nor where later layers see fewer tokens (Funnel).
    """

    parameters: float
    backbone: float | None = None
    is_dense: bool = True


Sizes = Mapping[str, ModelSize]
"""By the names, in lower case, that checkpoints have on a board."""


def size_of_run(model: str, facts: RunFacts, sizes: Sizes) -> ModelSize:
    """The size of a run's model, as far as its name says it; else that of all weights it had.

    A known name (a folder's last part) is not believed where the numbers of weights differ.
    """
    known = sizes.get(model.rpartition("/")[2].lower())
    if known is None or abs(known.parameters - facts.parameters) > NEAR * facts.parameters:
        return ModelSize(parameters=facts.parameters)
    return known


def training_flops(size: ModelSize, facts: RunFacts) -> float | None:
    """6·N·T (Kaplan et al. 2020, section 2.1), None where weights were not all trained."""
    if not (size.is_dense and facts.trains_all and facts.tokens):
        return None
    return 6.0 * (size.backbone or size.parameters) * facts.tokens


def token_flops(size: ModelSize) -> float | None:
    """2·N for each token that is predicted (Kaplan et al. 2020, section 2.1)."""
    return 2.0 * size.backbone if size.is_dense and size.backbone else None


# A board's entries as charts call them.


@dataclass(frozen=True, kw_only=True)
class NamedEntry:
    """An entry with the `id` that all its marks carry, and a name that no other one has."""

    id: str
    name: str
    entry: Entry


def named_entries(board: Board, anchor: str) -> tuple[NamedEntry, ...]:
    """The entries of a board, whose id in the page is `anchor`.

    A name is the model, with its recipe where models repeat, and with the precision where that is
    not enough.
    """
    recipes = [(entry.model, entry.recipe_label) for entry in board.entries]
    models, pairs = Counter(model for model, _ in recipes), Counter(recipes)
    found = []
    for number, (entry, (model, recipe)) in enumerate(zip(board.entries, recipes, strict=True)):
        name = model if models[model] == 1 else f"{model}, {recipe}"
        if pairs[model, recipe] > 1:
            name = f"{model}, {recipe}, {entry.precision}"
        found.append(NamedEntry(id=f"{anchor}-e{number}", name=name, entry=entry))
    return tuple(found)


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
        if each.entry.is_single and all(name in each.entry.cells for name in tasks)
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


# What a model costs, as something to hold its score against: how it is written and counted.


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A cost. `note` says how it is counted, and after whom; `steps` are values for ticks."""

    name: str
    title: str
    axis: str
    note: str
    text: Callable[[float], str]
    steps: tuple[float, ...]


def _count(value: float) -> str:
    """A number of weights, three digits: "22.7M"."""
    for unit, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.3g}"


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float) -> str:
    """A number of operations, mostly two digits: "2.3×10¹⁵"."""
    if value < 1000:
        return f"{value:.3g}"
    digits, _, exponent = f"{value:.1e}".partition("e+")
    factor = digits.removesuffix(".0")
    power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
    return power if factor == "1" else f"{factor}×{power}"


def _time(seconds: float) -> str:
    """A span of time, two or three digits: "9.5 min"."""
    for unit, sign in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {sign}"
    return f"{seconds:.3g} s"


def _decades(first: int, last: int) -> tuple[float, ...]:
    return tuple(
        float(factor * 10**power) for power in range(first, last + 1) for factor in (1, 2, 5)
    )


TIMES = tuple(
    float(factor * unit)
    for unit, factors in (
        (1, (1, 2, 5, 10, 20, 30)),
        (60, (1, 2, 5, 10, 20, 30)),
        (3600, (1, 2, 5, 10)),
        (86400, (1, 2, 5, 10, 20, 50, 100)),
    )
    for factor in factors
)

KAPLAN = "Kaplan et al. 2020, arXiv:2001.08361, section 2.1"

QUANTITIES = (
    Quantity(
        name="parameters",
        title="parameters",
        axis="parameters (log scale)",
        note="Measured: all weights that were loaded, the head's included. Published: as the "
        "source prints them, else as the checkpoint's paper does.",
        text=_count,
        steps=_decades(2, 13),
    ),
    Quantity(
        name="training-flops",
        title="training FLOPs",
        axis="fine-tuning, FLOPs (log scale)",
        note="Estimated as 6·N·T: N weights besides embeddings (all weights where that is not "
        f"known) and T tokens seen in training, without padding ({KAPLAN}). Attention between "
        "tokens, pretraining and the training of an earlier task are not in it. Left out: what "
        "does not train every weight with every token (adapters, frozen encoders, ALBERT's shared "
        "layers, Funnel's pooling), and published rows, which do not say T.",
        text=_power,
        steps=_decades(3, 27),
    ),
    Quantity(
        name="inference-flops",
        title="inference FLOPs",
        axis="inference, FLOPs a token (log scale)",
        note=f"Estimated as 2·N a token: N weights besides embeddings ({KAPLAN}). Left out: models "
        "of which N is not known, and those that use weights several times or not for every token "
        "(ALBERT, Funnel).",
        text=_power,
        steps=_decades(2, 15),
    ),
    Quantity(
        name="training-time",
        title="training time",
        axis="training (log scale)",
        note="Wall time of training alone, the median over seeds, summed over tasks. Only runs on "
        "one kind of machine stand in one plot; other work on it may have slowed them.",
        text=_time,
        steps=TIMES,
    ),
)


def find_quantity(name: str) -> Quantity:
    """The quantity of that name."""
    return next(quantity for quantity in QUANTITIES if quantity.name == name)
