"""Costs of models: numbers of parameters, training FLOPs, training times and prediction times."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchharness.leaderboard.job import MACHINE
from benchharness.leaderboard.report.sizes import (
    ModelSize,
    Sizes,
    count_text,
    in_units,
    known_size,
)
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.text import counted

_EVERY_WEIGHT: Mapping[str, object] = {
    "features": "fine-tuned",
    "unfreeze": "all",
    "lora_rank": 0,
    "frozen_layers": 0,
}
"""Values of settings, keyed by setting, with which a recipe trains all weights at each step. A
recipe without these settings does the same.
"""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Cost of one run, for plots of scores against costs.

    Attributes:
        parameters: Number of parameters.
        tokens: Number of tokens in training, without padding.
        train_seconds: Training time in seconds; 0 if nothing was trained.
        machine: GPU, or CPU with its number of threads; empty if it was not recorded.
        trains_all: True if all weights were trained on all tokens.
        predict_seconds: Prediction time in seconds per million tokens; None if the model was not
            timed.
    """

    parameters: int
    tokens: int
    train_seconds: float
    machine: str
    trains_all: bool
    predict_seconds: float | None = None


Facts = Mapping[str, RunFacts]
"""Costs of runs, keyed by the runs' keys."""


def facts_of(run: Result | Failure) -> RunFacts | None:
    """Return the cost of a run; None if the run failed or did not fine-tune a model."""
    if isinstance(run, Failure) or run.job.kind != "model" or not run.cost.parameters:
        return None
    # The machine is the GPU or, without one, the CPU with its number of threads. A run may have
    # recorded neither.
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
    """Prediction times of models on one machine.

    Attributes:
        machine: Machine and precision; empty if no model was timed.
        seconds: Seconds per million tokens, keyed by `Job.weights`.
    """

    machine: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)


TIMED_SUITE = "efficiency"
TIMED_TASK = f"{TIMED_SUITE}/drawn-256"
"""Task on which prediction is timed for plots. Its documents have about 256 tokens."""


def timed_of(rows: Iterable[RunRow]) -> Timed:
    """Return the prediction times of models that were timed in the same way.

    Of all combinations of machine, precision, data and limit, the one with the most timed models is
    used. If a model was timed several times, the last row is used.

    Args:
        rows: Stored runs; those that are hidden or are not timings are ignored.
    """
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
"""Maximum relative difference between the known size of a checkpoint and the size that a run has
recorded, which includes a head."""


def size_of_run(model: str, facts: RunFacts, sizes: Sizes) -> ModelSize:
    """Return the size of a run's model.

    This is the known size of the model with this name. If there is none, or if it differs from the
    run's number of parameters by more than 15 %, the run's number is used instead. The two may
    differ because a user's folder may have the name of another model.
    """
    known = known_size(model, sizes)
    if known is None or abs(known.parameters - facts.parameters) > _NEAR * facts.parameters:
        return ModelSize(parameters=facts.parameters)
    return known


def training_flops(size: ModelSize, facts: RunFacts) -> float | None:
    """Estimate the FLOPs of training as 6·N·T (Kaplan et al. 2020, section 2.1).

    N is the number of parameters without embeddings (all parameters if that is unknown), and T the
    number of training tokens. Returns None if T is 0. Also returns None if not all weights were
    trained, or if the model is not dense (see `ModelSize`), because the estimate would be wrong.
    """
    if not (size.is_dense and facts.trains_all and facts.tokens):
        return None
    return 6.0 * (size.backbone or size.parameters) * facts.tokens


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Kind of cost, with functions that compute and format it.

    Attributes:
        name: Name, used as a key.
        title: Title for tables and figures.
        axis: Label of the axis.
        note: Explanation of how the quantity is counted, with a reference.
        of: Function that computes the quantity from a run's cost and the size of its model. It
            returns None if the quantity is unknown.
        text: Function that converts the quantity to text with its unit.
        steps: Round values that may have ticks on the axis.
        adds_up: True if the quantity is summed over tasks, False if it is a property of the model.
        machine: For a time, the measurement that it comes from: "trained" (the training itself) or
            "timed" (a separate measurement of the speed). Only times on the same kind of machine
            are compared. Empty for other quantities.
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


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float) -> str:
    """Format a number of operations with two digits, e.g. "2.3×10¹⁵"; below 1000 with three."""
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
        note="For measured models, all loaded weights, including the head. For published scores, "
        "the number in the source or, if it has none, in the checkpoint's paper.",
        of=lambda facts, _: facts.parameters,
        text=count_text,
        steps=_decades(2, 13),
    ),
    Quantity(
        name="training-flops",
        title="training FLOPs",
        axis="FLOPs of fine-tuning (log scale)",
        note="Estimated as 6·N·T, where N is the number of weights without embeddings (of all "
        "weights if that is unknown), and T is the number of training tokens without padding "
        f"({_KAPLAN}). Attention between tokens, pretraining and the training of an earlier task "
        "are not counted. Models that do not train every weight with every token (adapters, frozen "
        "layers, frozen encoders, ALBERT's shared layers, Funnel's pooling) are left out. So are "
        "published scores, because their sources do not state T.",
        of=lambda facts, size: training_flops(size, facts),
        text=_power,
        steps=_decades(3, 27),
        adds_up=True,
    ),
    Quantity(
        name="prediction-time",
        title="prediction time",
        axis="time per million tokens (log scale)",
        note="Time per million tokens without padding, in documents of about 256 tokens, measured "
        "with `bench run --suite efficiency`. Models that were not timed on this machine are left "
        "out.",
        of=lambda facts, _: facts.predict_seconds,
        text=lambda seconds: in_units(seconds, (60, " min"), (1, " s"), (1e-3, " ms")),
        steps=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, *_TIMES),
        machine="timed",
    ),
    Quantity(
        name="training-time",
        title="training time",
        axis="training time (log scale)",
        note="Wall-clock time of training only (median over seeds, summed over tasks). Only runs "
        "on the most frequent kind of machine are shown. Other programs on the machine may have "
        "slowed them down.",
        of=lambda facts, _: facts.train_seconds or None,
        text=lambda seconds: in_units(
            seconds, (86400, " d"), (3600, " h"), (60, " min"), (1, " s")
        ),
        steps=_TIMES,
        adds_up=True,
        machine="trained",
    ),
)
