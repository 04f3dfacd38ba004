"""Summarize the runs of a task for the regression check: scores per seed, outcomes per example."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from statistics import fmean
from types import MappingProxyType, UnionType
from typing import Any

from benchharness.errors import DataError
from benchharness.leaderboard.boards.cell import spread_of
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Evaluation, Result, predictions_of
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.suites import find_task

# Conditions of runs. New runs can be compared with the runs of a baseline only if all conditions,
# except for the weights, are equal.

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Everything that determines the result of a run, except its seed and the machine.

    Attributes:
        weights: Identifier of the pretrained weights.
        fingerprints: Digests of the rows, keyed by "task:split".
        settings: Values of the recipe, keyed by setting.
        precision: Number format, such as "bf16".
        task_version: Version of the task's scoring.
        method: Version of the training code.
        plugins: Digests of the plugins that the task needs, keyed by their names.
    """

    weights: str
    fingerprints: Mapping[str, str]
    settings: Mapping[str, Value]
    precision: str
    task_version: int
    method: int
    plugins: Mapping[str, str]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Conditions":
        """Create the conditions from JSON data, which has the fields of this class.

        Raises:
            TypeError: A field is unknown or missing, or the weights or a mapping have the wrong
                type.
        """
        found = cls(**data)
        tables = (found.fingerprints, found.settings, found.plugins)
        if not isinstance(found.weights, str) or not all(isinstance(t, Mapping) for t in tables):
            raise TypeError(
                "weights must be a string, and fingerprints, settings and plugins must be objects"
            )
        return found


def conditions_of(job: Job) -> Conditions:
    """Return the conditions of a job. Jobs that differ only in the seed have equal conditions."""
    return Conditions(
        weights=job.weights,
        fingerprints=dict(job.fingerprints),
        settings={name: setting.value for name, setting in job.settings.items()},
        precision=job.precision,
        task_version=job.task_version,
        method=job.method,
        plugins=dict(job.plugins),
    )


def differences(before: Conditions, now: Conditions) -> Iterator[str]:
    """Yield each difference that prevents a comparison, as a clause.

    An example is "the rows of glue/rte:dev have changed". Different weights are allowed, because
    the purpose of a check may be to compare a retrained checkpoint.
    """
    for name in _changed(before.fingerprints, now.fingerprints):
        yield f"the rows of {name} have changed"
    settings = [
        f"{name} is {_shown(now.settings, name)}, no longer {_shown(before.settings, name)}"
        for name in _changed(before.settings, now.settings)
    ]
    if settings:
        yield f"the recipe has changed ({', '.join(settings)})"
    if before.precision != now.precision:
        yield f"the precision is {now.precision}, no longer {before.precision}"
    if before.task_version != now.task_version:
        yield "the scoring of the task has changed"
    if before.method != now.method:
        yield f"the training code has version {now.method}, no longer {before.method}"
    for name in _changed(before.plugins, now.plugins):
        yield f"the plugin {name} has changed"


def _changed(before: Mapping[str, Value], now: Mapping[str, Value]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _shown(settings: Mapping[str, Value], name: str) -> str:
    return str(settings.get(name, "unset"))


# Losses of the first training steps. They are equal for equal seeds, unless training has changed.
#
# A seed determines the initial weights of the head, the order of the examples and the dropout
# masks. Another processor or number of threads adds only rounding errors, which need many steps to
# grow. So the first losses of a single run reveal a change that scores reveal only with many seeds.

FIRST_STEPS = 10
"""Number of training steps in which losses are compared. If the learning curve begins later, only
its first point is compared.
"""

LATEST_POINT = 30
"""Latest step at which the first point of a learning curve is still compared. Later, rounding
errors may have grown too much.
"""

TOLERANCE = 2e-3
"""Maximum relative difference between two losses that count as equal. Examples of relative changes,
measured over ten steps of the model tiny in bf16 on RTE: at most 0.0002 with another number of
threads, 0.0004 with other instructions (AVX2 instead of AVX-512), 0.005 to 0.02 with label
smoothing of 0.1, and 0.06 with shuffled token types or a wrong maximum length (docs/regression.md).
"""

DECIDING = ("torch", "transformers", "tokenizers", "numpy")
"""Libraries whose versions determine random numbers and token ids. Losses are compared only between
runs with the same versions."""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """First points of a run's learning curve.

    Attributes:
        steps: Training step of each point.
        losses: Mean training loss since the previous point, one per point.
    """

    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Beginning":
        """Create the points from JSON data, which has the fields of this class.

        Raises:
            ValueError: The numbers of steps and losses differ.
        """
        losses = tuple(float(loss) for loss in data["losses"])
        found = cls(steps=tuple(data["steps"]), losses=losses)
        if len(found.steps) != len(losses):
            raise ValueError("`steps` and `losses` must have the same length")
        return found


@dataclass(frozen=True, kw_only=True)
class Change:
    """First training step whose loss differs from that of the baseline's run with the same seed.

    Attributes:
        seed: Seed of both runs.
        step: Number of the training step.
        before: Loss of the baseline's run.
        now: Loss of the new run.
    """

    seed: int
    step: int
    before: float
    now: float

    def __str__(self) -> str:
        return (
            f"with seed {self.seed}, the loss at step {self.step} is {self.now:.4f}, but it was "
            f"{self.before:.4f} in the baseline, with the same weights, data, recipe and libraries"
        )


def beginning_of(result: Result) -> Beginning:
    """Return the first losses of a run.

    The result is empty if the run was not trained, or if its first loss was recorded too late (see
    `LATEST_POINT`).
    """
    points = list(takewhile(lambda point: point.step <= FIRST_STEPS, result.curve))
    points = points or [p for p in result.curve[:1] if p.step <= LATEST_POINT]
    return Beginning(
        steps=tuple(point.step for point in points), losses=tuple(point.loss for point in points)
    )


def maker_of(result: Result) -> str:
    """Return the device and the library versions that a run used; "" if unknown.

    An example is "cpu, torch 2.13.0, ...". Only the libraries in DECIDING are included.
    """
    try:
        versions = result.provenance["versions"]
        libraries = [f"{name} {versions[name]}" for name in DECIDING]
        return ", ".join((result.provenance["machine"]["device"], *libraries))
    except (KeyError, TypeError):
        return ""


def shared_seeds(before: Mapping[int, Beginning], now: Mapping[int, Beginning]) -> list[int]:
    """Return the seeds for which the old and the new run recorded losses at the same steps.

    Args:
        before: First losses of the baseline's runs, keyed by seed.
        now: First losses of the new runs, keyed by seed.
    """
    both = sorted(before.keys() & now.keys())
    return [seed for seed in both if before[seed].steps == now[seed].steps != ()]


def find_change(before: Mapping[int, Beginning], now: Mapping[int, Beginning]) -> Change | None:
    """Return the first changed loss of the lowest seed with a change; None if there is no change.

    Only seeds for which the old and the new run recorded losses at the same steps are compared.

    Args:
        before: First losses of the baseline's runs, keyed by seed.
        now: First losses of the new runs, keyed by seed.
    """
    for seed in shared_seeds(before, now):
        old, new = before[seed], now[seed]
        for step, was, found in zip(old.steps, old.losses, new.losses, strict=True):
            if abs(found - was) > TOLERANCE * abs(was):
                return Change(seed=seed, step=step, before=was, now=found)
    return None


FEW_SEEDS = 5
"""Number of seeds below which a baseline is called weak. With fewer seeds, the tolerated drop is
far above the standard deviation of the scores (docs/regression.md)."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Runs of one task that differ only in the seed.

    Attributes:
        conditions: Everything that determines the results, except the seeds and the machine.
        seeds: Seed of each run.
        scores: Score of each run, by the rule of the suite, mostly from 0 to 1.
        right: Outcomes per example, keyed by scored split ("glue/cola:dev"). Each value has one
            string per run, with one character per example in the order of the split: "1" for a
            correct prediction, "0" for a wrong one.
        beginnings: First training losses of each run.
        maker: Device and libraries with which the losses were computed; empty if unknown.
        collapsed: Seeds of the runs that have learned nothing.
        guards: Value of each run, keyed by guard (see guards.py).
    """

    conditions: Conditions
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    right: Mapping[str, tuple[str, ...]]
    beginnings: tuple[Beginning, ...] = ()
    maker: str = ""
    collapsed: tuple[int, ...] = ()
    guards: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def unfit(self) -> str:
        """Reason why these runs are unfit as a baseline, as a clause; empty if they are fit.

        They are unfit if some of them have collapsed, or if there is only one seed.
        """
        if self.collapsed:
            return (
                f"{len(self.collapsed)} of {len(self.seeds)} seeds collapsed (seed "
                f"{', '.join(map(str, self.collapsed))})"
            )
        return "it has one seed, so its spread is unknown" if len(self.seeds) < 2 else ""

    @property
    def weakness(self) -> str:
        """Reason why a check against these runs can detect only large drops, if any, as a clause.

        It is `unfit` or, if this is empty, a clause about fewer than FEW_SEEDS seeds. It is empty
        if neither applies.
        """
        few = len(self.seeds) < FEW_SEEDS
        return self.unfit or (f"it has {len(self.seeds)} seeds" if few else "")

    @property
    def learned(self) -> "Sample | None":
        """Sample of the runs that have not collapsed; None if all have.

        Drops are measured with these runs alone. Collapsed runs would lower the mean, or increase
        the spread so much that any drop would be hidden.
        """
        kept = [place for place, seed in enumerate(self.seeds) if seed not in self.collapsed]

        # A sample may have no first losses, or first losses of only some of its runs.
        def those(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[place] for place in kept if place < len(values))

        found = replace(
            self,
            seeds=those(self.seeds),
            scores=those(self.scores),
            right={split: those(runs) for split, runs in self.right.items()},
            beginnings=those(self.beginnings),
            collapsed=(),
            guards={guard: those(values) for guard, values in self.guards.items()},
        )
        return found if kept else None

    @property
    def first_losses(self) -> dict[int, Beginning]:
        """First training losses of the runs, keyed by seed."""
        return dict(zip(self.seeds, self.beginnings, strict=False))

    @property
    def mean(self) -> float:
        """Mean score of the runs."""
        return fmean(self.scores)

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the scores; None if there is only one run."""
        return spread_of(self.scores)

    @property
    def examples(self) -> int:
        """Number of examples from which the score of a run is computed, over all scored splits."""
        return sum(len(runs[0]) for runs in self.right.values())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Sample":
        """Create a sample from JSON data, which has the fields of this class.

        Raises:
            ValueError: The fields are inconsistent.
            TypeError: A field has the wrong type.
            KeyError: A field is missing.
        """
        sample = cls(
            conditions=Conditions.from_json(data["conditions"]),
            seeds=tuple(data["seeds"]),
            scores=tuple(float(score) for score in data["scores"]),
            right={split: tuple(runs) for split, runs in data["right"].items()},
            beginnings=tuple(map(Beginning.from_json, data["beginnings"])),
            maker=str(data["maker"]),
            collapsed=tuple(data["collapsed"]),
            guards={name: tuple(map(float, v)) for name, v in data.get("guards", {}).items()},
        )
        if fault := _fault(sample):
            raise ValueError(fault)
        return sample


def _fault(sample: Sample) -> str:
    """Return an error message if the fields are inconsistent, else an empty string."""
    runs = len(sample.seeds)
    if not all(isinstance(seed, int) for seed in sample.seeds):
        return "a seed is not a whole number"
    if not runs or len(sample.scores) != runs or not all(map(math.isfinite, sample.scores)):
        return f"expected one finite score for each of {runs} seeds"
    for guard, values in sample.guards.items():
        if len(values) != runs or not all(map(math.isfinite, values)):
            return f"the guard {guard} must have one finite value for each of {runs} seeds"
    if set(sample.collapsed) - set(sample.seeds):
        return "`collapsed` contains a seed that is not in `seeds`"
    for split, outcomes in sample.right.items():
        texts = [outcome for outcome in outcomes if isinstance(outcome, str)]
        if len(texts) != runs or len(set(map(len, texts))) != 1 or set("".join(texts)) - {*"01"}:
            return f"{split} must have one string of 0 and 1 per seed ({runs}), of equal length"
    return "" if sample.examples else "there are no examples"


def sample_of(
    results: Sequence[Result],
    scores: Sequence[float],
    examples: Mapping[str, Sequence[Example]],
    collapsed: Sequence[int] = (),
    guards: Mapping[str, tuple[float, ...]] = MappingProxyType({}),
) -> Sample:
    """Summarize the results of runs of one task that differ only in the seed.

    Args:
        results: Result of each run.
        scores: Score of each run.
        examples: Examples of the scored splits, keyed by "task:split".
        collapsed: Seeds of the runs that have learned nothing.
        guards: Value of each run, keyed by guard.

    Raises:
        DataError: A result has predictions for other examples than `examples`.
    """
    return Sample(
        conditions=conditions_of(results[0].job),
        seeds=tuple(result.job.seed for result in results),
        scores=tuple(scores),
        right={
            split: tuple(_outcomes(result.evaluation(split), rows) for result in results)
            for split, rows in examples.items()
        },
        beginnings=tuple(map(beginning_of, results)),
        maker=maker_of(results[0]),
        collapsed=tuple(collapsed),
        guards=dict(guards),
    )


def _outcomes(evaluation: Evaluation, examples: Sequence[Example]) -> str:
    predictions = predictions_of(evaluation)
    if [p.id for p in predictions] != [e.id for e in examples]:
        raise DataError(
            f"the predictions of {evaluation.name} are for other rows than the data has now: "
            "restore the data with which the runs were made."
        )
    kind = answer_type(find_task(evaluation.task))
    right = map(kind.is_right, predictions, examples)
    return "".join("1" if each else "0" for each in right)


# The baseline: a file with a model's scores over several seeds, which users commit with their code.


FORMAT = 2
"""Version of the format of baseline files. Version 1 was used before benchharness 0.1.0."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Runs of a model with which later runs are compared.

    Attributes:
        model: Name of the model.
        data: Source of the data: "mini", "hub", or "files" for a local folder or file.
        limit: Maximum number of rows per split; None for all rows.
        recipe: Label of the recipe.
        environment: Code, versions and machine of the runs. They are only information for people;
            the comparison uses the `maker` of each sample.
        tasks: Runs of each task, keyed by task.
    """

    model: str
    data: str
    limit: int | None
    recipe: str
    environment: Mapping[str, Any]
    tasks: Mapping[str, Sample]

    def to_text(self) -> str:
        """Return the text of the baseline's file: JSON with one value per line."""
        spreads = {task: sample.spread for task, sample in self.tasks.items()}
        means = {task: sample.mean for task, sample in self.tasks.items()}
        summary = {task: {"mean": means[task], "spread": spreads[task]} for task in self.tasks}
        # The summary is for readers of a diff; `from_text` ignores it.
        data = {"format": FORMAT, "summary": summary, **asdict(self)}
        return json.dumps(data, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_text(cls, text: str, name: str) -> "Baseline":
        """Read a baseline from the text of its file.

        Args:
            text: Text of the file.
            name: Name of the file, for error messages.

        Raises:
            DataError: The text is not a baseline, or has another format.
        """
        try:
            # After a merge or an edit, the file may contain anything. Numbers with hundreds of
            # digits cause an OverflowError, and deeply nested brackets cause a RecursionError.
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise DataError(
                    f"{name} is a baseline in format {data['format']}, but this version reads "
                    f"format {FORMAT}: write it again with `bench check --write`."
                )
            tasks = {task: Sample.from_json(sample) for task, sample in data["tasks"].items()}
            fields = {field: _field(data, field) for field in _PLAIN}
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise DataError(
                f"{name} is not a valid baseline ({type(error).__name__}: {error}): write it again "
                "with `bench check --write`."
            ) from error
        return cls(**fields, tasks=tasks)


_PLAIN: Mapping[str, UnionType | type] = {
    "model": str,
    "data": str,
    "limit": int | None,
    "recipe": str,
    "environment": dict,
}


def _field(data: Mapping[str, Any], name: str) -> Any:
    if not isinstance(data[name], _PLAIN[name]):
        raise TypeError(f"{name} has the wrong type: {data[name]!r}")
    return data[name]
