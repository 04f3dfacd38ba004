"""What a model costs: the facts of its runs, its size, what they compute, and how it is written."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchharness.leaderboard.boards.published import PublishedRow, find_system, printed_size
from benchharness.leaderboard.job import MACHINE
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.text import counted

_EVERY_WEIGHT: Mapping[str, object] = {"features": "fine-tuned", "unfreeze": "all", "lora_rank": 0}
"""The settings of a recipe that trains every weight at every step; they stand where others do."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The cost of one run.

    `tokens` are real ones seen in training; `train_seconds` are 0 where nothing was trained.
    `trains_all` where every weight was trained with every token. `predict_seconds` are those of a
    million tokens, None where its model was not timed.
    """

    parameters: int
    tokens: int
    train_seconds: float
    machine: str
    trains_all: bool
    predict_seconds: float | None = None


Facts = Mapping[str, RunFacts]
"""By the keys of runs."""


def facts_of(run: Result | Failure) -> RunFacts | None:
    """The facts of a run of an encoder; None for a failure, a baseline or an ensemble."""
    if isinstance(run, Failure) or run.job.kind != "model" or not run.cost.parameters:
        return None
    # A GPU by its name, a CPU with its threads; empty where nothing was recorded.
    machine = run.provenance.get("machine", {})
    device, threads = str(machine.get("device") or ""), machine.get("threads")
    cpu = str(machine.get("cpu") or "")
    cpu += f", {counted(threads, 'thread')}" if cpu and threads else ""
    return RunFacts(
        parameters=run.cost.parameters,
        tokens=run.cost.train_tokens,
        train_seconds=run.cost.train_seconds,
        machine=device if device not in ("", "cpu") else cpu,
        trains_all=all(
            name not in run.job.settings or run.job.settings[name].value == value
            for name, value in _EVERY_WEIGHT.items()
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Seconds for a million tokens in prediction, by a model's weights, all on one machine."""

    machine: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)


TIMED_SUITE = "efficiency"
TIMED_TASK = f"{TIMED_SUITE}/drawn-256"
"""Whose documents a model's speed is told by: of about 256 tokens."""


def timed_of(rows: Iterable[RunRow]) -> Timed:
    """The newest measurements, of the machine and number format that most models were timed in."""
    found: dict[tuple[object, ...], dict[str, float]] = {}
    for row in rows:
        rate = row.scores.get(TIMED_TASK, {}).get("predict_tokens_per_second")
        if rate and MACHINE in row.settings and not row.is_hidden:
            place = (row.settings[MACHINE].value, row.precision, row.limit, row.data == "mini")
            found.setdefault(place, {})[row.weights] = 1e6 / rate
    if not found:
        return Timed()
    (machine, precision, *_), seconds = max(found.items(), key=lambda each: len(each[1]))
    return Timed(machine=f"{machine}, {precision}", seconds=seconds)


_NEAR = 0.15
"""A checkpoint's published size and that of a run of it differ by less, whatever its head is."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A checkpoint's weights: all of them, and those besides embeddings, None where unknown.

    `family` is its architecture ("roberta"), `cite` its paper, both empty where unknown. `is_dense`
    where every token passes every weight besides embeddings once: not where layers share weights
    (ALBERT), nor where later layers see fewer tokens (Funnel).
    """

    parameters: float
    backbone: float | None = None
    is_dense: bool = True
    family: str = ""
    cite: str = ""


Sizes = Mapping[str, ModelSize]
"""By the names, in lower case, that checkpoints have on a board."""


def known_size(model: str, sizes: Sizes) -> ModelSize | None:
    """What is known of a model by its name, or by a folder's last part."""
    return sizes.get(model.rpartition("/")[2].lower())


def published_size(row: PublishedRow, sizes: Sizes) -> tuple[float | None, ModelSize | None]:
    """The weights that a source prints, else those of the checkpoint; what is known of the last."""
    system = find_system(row.system, row.table)
    known = known_size(system.model, sizes) if system is not None else None
    return printed_size(row.parameters) or (known.parameters if known else None), known


def size_of_run(model: str, facts: RunFacts, sizes: Sizes) -> ModelSize:
    """The size of a run's model, as far as its name says it; else that of all weights it had.

    A known name (a folder's last part) is not believed where the numbers of weights differ.
    """
    known = known_size(model, sizes)
    if known is None or abs(known.parameters - facts.parameters) > _NEAR * facts.parameters:
        return ModelSize(parameters=facts.parameters)
    return known


def training_flops(size: ModelSize, facts: RunFacts) -> float | None:
    """6·N·T (Kaplan et al. 2020, section 2.1), None where weights were not all trained."""
    if not (size.is_dense and facts.trains_all and facts.tokens):
        return None
    return 6.0 * (size.backbone or size.parameters) * facts.tokens


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A cost. `note` says how it is counted, and after whom; `steps` are values for ticks.

    `of` has that of one run, whose model is of that size, None where it is not known. Of several
    tasks it `adds_up`, or is the model's own. A time is of the kind of machine that `trained`, or
    that `timed` models of their own: times on others say nothing of each other.
    """

    name: str
    title: str
    axis: str
    note: str
    of: Callable[[RunFacts, ModelSize], float | None]
    text: Callable[[float], str]
    steps: tuple[float, ...]
    adds_up: bool = False
    machine: Literal["", "trained", "timed"] = ""


def _in_units(value: float, *units: tuple[float, str]) -> str:
    """A number of three digits in the largest unit that it fills: "22.7M", "9.5 min"."""
    # Three digits of 999.5 would be 1e+03: that is one of the next unit.
    unit, sign = next((found for found in units if value >= 0.9995 * found[0]), units[-1])
    return f"{value / unit:.3g}{sign}"


def count_text(value: float) -> str:
    """A large number in its unit: "22.7M"."""
    return _in_units(value, (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1, ""))


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float) -> str:
    """A number of operations, mostly two digits: "2.3×10¹⁵"."""
    if value < 1000:
        return f"{value:.3g}"
    digits, _, exponent = f"{value:.1e}".partition("e+")
    factor = digits.removesuffix(".0")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    return power if factor == "1" else f"{factor}×{power}"


def _decades(first: int, last: int) -> tuple[float, ...]:
    return tuple(
        float(factor * 10**power) for power in range(first, last + 1) for factor in (1, 2, 5)
    )


_TIMES = tuple(
    float(factor * unit)
    for unit, factors in (
        (1, (1, 2, 5, 10, 20, 30)),
        (60, (1, 2, 5, 10, 20, 30)),
        (3600, (1, 2, 5, 10)),
        (86400, (1, 2, 5, 10, 20, 50, 100)),
    )
    for factor in factors
)

_KAPLAN = "Kaplan et al. 2020, arXiv:2001.08361, section 2.1"

QUANTITIES = (
    Quantity(
        name="parameters",
        title="parameters",
        axis="parameters (log scale)",
        note="Measured: all weights that were loaded, the head's included. Published: as the "
        "source prints them, else as the checkpoint's paper does.",
        of=lambda facts, _: facts.parameters,
        text=count_text,
        steps=_decades(2, 13),
    ),
    Quantity(
        name="training-flops",
        title="training FLOPs",
        axis="fine-tuning, FLOPs (log scale)",
        note="Estimated as 6·N·T: N weights besides embeddings (all weights where that is not "
        f"known) and T tokens seen in training, without padding ({_KAPLAN}). Attention between "
        "tokens, pretraining and the training of an earlier task are not in it. Left out: what "
        "does not train every weight with every token (adapters, frozen encoders, ALBERT's shared "
        "layers, Funnel's pooling), and published rows, which do not say T.",
        of=lambda facts, size: training_flops(size, facts),
        text=_power,
        steps=_decades(3, 27),
        adds_up=True,
    ),
    Quantity(
        name="prediction-time",
        title="prediction time",
        axis="a million tokens (log scale)",
        note="Of a million real tokens, in documents of about 256, as `bench run --suite "
        "efficiency` has measured it; models that were not timed on this machine are left out.",
        of=lambda facts, _: facts.predict_seconds,
        text=lambda seconds: _in_units(seconds, (60, " min"), (1, " s"), (1e-3, " ms")),
        steps=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, *_TIMES),
        machine="timed",
    ),
    Quantity(
        name="training-time",
        title="training time",
        axis="training (log scale)",
        note="Wall time of training alone, the median over seeds, summed over tasks. Only runs on "
        "the kind of machine that has most are shown; other work on it may have slowed them.",
        of=lambda facts, _: facts.train_seconds or None,
        text=lambda seconds: _in_units(
            seconds, (86400, " d"), (3600, " h"), (60, " min"), (1, " s")
        ),
        steps=_TIMES,
        adds_up=True,
        machine="trained",
    ),
)
