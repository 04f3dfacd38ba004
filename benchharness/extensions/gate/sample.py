"""One task's runs as the gate sees them: a score for each seed, and which examples were right."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from statistics import fmean
from types import UnionType
from typing import Any

from benchharness.leaderboard.boards.cell import spread_of
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Evaluation, Result, predictions_of
from benchharness.tasks.answers import answer_type
from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import Example
from benchharness.tasks.suites import find_task

# What two sets of runs must have in common, so that only code or weights can make one worse.

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """A job without its seed and its names: weights, rows, recipe, precision, versions.

    The fields are those of Job; `settings` are plain values, `plugins` digests by name.
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
        """The conditions whose fields these are; TypeError where one is of another kind."""
        found = cls(**data)
        tables = (found.fingerprints, found.settings, found.plugins)
        if not isinstance(found.weights, str) or not all(isinstance(t, Mapping) for t in tables):
            raise TypeError("weights must be a text; fingerprints, settings and plugins objects")
        return found


def conditions_of(job: Job) -> Conditions:
    """The conditions of a job; its seeds share them."""
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
    """What keeps them from being compared, each a clause: "the rows of glue/rte:dev have changed".

    Other weights do not: a checkpoint that was trained anew may be the very thing to check.
    """
    for name in _changed(before.fingerprints, now.fingerprints):
        yield f"the rows of {name} have changed"
    settings = [
        f"{name} is {_shown(now.settings, name)}, no longer {_shown(before.settings, name)}"
        for name in _changed(before.settings, now.settings)
    ]
    if settings:
        yield f"its recipe has changed ({', '.join(settings)})"
    if before.precision != now.precision:
        yield f"it is computed in {now.precision}, no longer in {before.precision}"
    if before.task_version != now.task_version:
        yield "the task is scored in another way"
    if before.method != now.method:
        yield f"runs are made by method {now.method}, no longer by method {before.method}"
    for name in _changed(before.plugins, now.plugins):
        yield f"the plugin {name} has changed"


def _changed(before: Mapping[str, Value], now: Mapping[str, Value]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _shown(settings: Mapping[str, Value], name: str) -> str:
    return str(settings.get(name, "unset"))


# The first losses of a run: the same for the same seed, unless training computes something else.
#
# A seed decides the new weights, the order of the examples and what is dropped. What another
# processor or number of threads adds are rounding errors, which need many steps to grow. So the
# first losses tell at once, and from a single run, what a score needs many seeds for.

FIRST_STEPS = 10
"""So many steps are compared, or where points are further apart, the first point."""

LATEST_POINT = 30
"""A first point that is later than this is not compared: rounding errors may have grown."""

TOLERANCE = 2e-3
"""Of a loss. Tiny in bf16 on RTE, ten steps: other threads change at most 0.0002 of it and other
instructions (AVX2 for AVX-512) 0.0004; labels smoothed by 0.1 change 0.005 to 0.02, shuffled token
types and a wrong maximum length 0.06 (docs/regression.md)."""

DECIDING = ("torch", "transformers", "tokenizers", "numpy")
"""The libraries that random numbers and token ids come from."""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """The first points of a learning curve: their steps, and each one's loss since the last."""

    steps: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Beginning":
        """The beginning whose fields these are."""
        losses = tuple(float(loss) for loss in data["losses"])
        found = cls(steps=tuple(data["steps"]), losses=losses)
        if len(found.steps) != len(losses):
            raise ValueError("the first losses need as many steps")
        return found


@dataclass(frozen=True, kw_only=True)
class Change:
    """The first point at which a run of a seed left the baseline's run of that seed."""

    seed: int
    step: int
    before: float
    now: float

    def __str__(self) -> str:
        return (
            f"with seed {self.seed} its loss is {self.now:.4f} at step {self.step}, and the "
            f"baseline's was {self.before:.4f}, with the same weights, rows, recipe and libraries"
        )


def beginning_of(result: Result) -> Beginning:
    """The points of the first steps; none of what was not trained, or is looked at too late."""
    points = list(takewhile(lambda point: point.step <= FIRST_STEPS, result.curve))
    points = points or [p for p in result.curve[:1] if p.step <= LATEST_POINT]
    return Beginning(
        steps=tuple(point.step for point in points), losses=tuple(point.loss for point in points)
    )


def maker_of(result: Result) -> str:
    """What the same seed gives the same numbers on: "cpu, torch 2.13.0, ..."; "" where unknown."""
    try:
        versions = result.provenance["versions"]
        libraries = [f"{name} {versions[name]}" for name in DECIDING]
        return ", ".join((result.provenance["machine"]["device"], *libraries))
    except (KeyError, TypeError):
        return ""


def shared_seeds(before: Mapping[int, Beginning], now: Mapping[int, Beginning]) -> list[int]:
    """The seeds that both have, with points of the same steps."""
    both = sorted(before.keys() & now.keys())
    return [seed for seed in both if before[seed].steps == now[seed].steps]


def find_change(before: Mapping[int, Beginning], now: Mapping[int, Beginning]) -> Change | None:
    """The first change of any seed that both have; points of other steps are not compared."""
    for seed in shared_seeds(before, now):
        old, new = before[seed], now[seed]
        for step, was, found in zip(old.steps, old.losses, new.losses, strict=True):
            if abs(found - was) > TOLERANCE * abs(was):
                return Change(seed=seed, step=step, before=was, now=found)
    return None


FEW_SEEDS = 5
"""With fewer the tolerance is far above the spread: see docs/regression.md."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The runs of one task that differ in nothing but the seed.

    `scores` are the task's score by the suite's rule, in the order of `seeds`, in 0..1. `right` has
    for each scored split ("glue/cola:dev") one text for each seed, of one character for each
    example in the split's order: "1" where it was right, "0" where not. `beginnings` are the first
    losses of each seed and `maker` what they were computed by. `collapsed` are the seeds whose run
    has learned nothing.
    """

    conditions: Conditions
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    right: Mapping[str, tuple[str, ...]]
    beginnings: tuple[Beginning, ...] = ()
    maker: str = ""
    collapsed: tuple[int, ...] = ()

    @property
    def unfit(self) -> str:
        """Why a drop from these runs says little or nothing, as a clause; empty where it does."""
        if self.collapsed:
            return (
                f"{len(self.collapsed)} of {len(self.seeds)} seeds collapsed (seed "
                f"{', '.join(map(str, self.collapsed))})"
            )
        return "it has one seed, which shows no spread" if len(self.seeds) < 2 else ""

    @property
    def weakness(self) -> str:
        """The same, or that there are few seeds."""
        few = len(self.seeds) < FEW_SEEDS
        return self.unfit or (f"it has {len(self.seeds)} seeds" if few else "")

    @property
    def learned(self) -> "Sample | None":
        """Its runs that have not collapsed, None where all have.

        Drops are of these alone: collapsed runs leave a low mean or a spread that hides any drop.
        """
        kept = [place for place, seed in enumerate(self.seeds) if seed not in self.collapsed]

        # A sample may have no first losses, or those of fewer runs than it has seeds.
        def those(values: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(values[place] for place in kept if place < len(values))

        found = replace(
            self,
            seeds=those(self.seeds),
            scores=those(self.scores),
            right={split: those(runs) for split, runs in self.right.items()},
            beginnings=those(self.beginnings),
            collapsed=(),
        )
        return found if kept else None

    @property
    def first_losses(self) -> dict[int, Beginning]:
        """The first losses by seed."""
        return dict(zip(self.seeds, self.beginnings, strict=False))

    @property
    def mean(self) -> float:
        """The mean score over the seeds."""
        return fmean(self.scores)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over the seeds; None for one seed."""
        return spread_of(self.scores)

    @property
    def examples(self) -> int:
        """How many examples a score is of."""
        return sum(len(runs[0]) for runs in self.right.values())

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Sample":
        """The sample whose fields these are, as JSON has them; ValueError where they do not fit."""
        sample = cls(
            conditions=Conditions.from_json(data["conditions"]),
            seeds=tuple(data["seeds"]),
            scores=tuple(float(score) for score in data["scores"]),
            right={split: tuple(runs) for split, runs in data["right"].items()},
            beginnings=tuple(map(Beginning.from_json, data["beginnings"])),
            maker=str(data["maker"]),
            collapsed=tuple(data["collapsed"]),
        )
        if fault := _fault(sample):
            raise ValueError(fault)
        return sample


def _fault(sample: Sample) -> str:
    """What no run can have left; empty where there is nothing."""
    runs = len(sample.seeds)
    if not all(isinstance(seed, int) for seed in sample.seeds):
        return "a seed is not a whole number"
    if not runs or len(sample.scores) != runs or not all(map(math.isfinite, sample.scores)):
        return f"{runs} seeds need as many scores"
    if set(sample.collapsed) - set(sample.seeds):
        return "a seed that collapsed is not among the seeds"
    for split, outcomes in sample.right.items():
        texts = [outcome for outcome in outcomes if isinstance(outcome, str)]
        if len(texts) != runs or len(set(map(len, texts))) != 1 or set("".join(texts)) - {*"01"}:
            return f"{split} needs a text of 0 and 1 for each of {runs} seeds, all of one length"
    return "" if sample.examples else "there are no examples"


def sample_of(
    results: Sequence[Result],
    scores: Sequence[float],
    examples: Mapping[str, Sequence[Example]],
    collapsed: Sequence[int] = (),
) -> Sample:
    """The sample of one task's results, each of another seed, and of their scores.

    `examples` are those of the splits that count, by "task:split", and `collapsed` the seeds whose
    run has learned nothing. Raises DataError where they are
    not those that were predicted.
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
    )


def _outcomes(evaluation: Evaluation, examples: Sequence[Example]) -> str:
    predictions = predictions_of(evaluation)
    if [p.id for p in predictions] != [e.id for e in examples]:
        raise DataError(
            f"the predictions of {evaluation.name} are not for the rows that are there now: "
            "expected the data that the runs were made with."
        )
    kind = answer_type(find_task(evaluation.task))
    right = map(kind.is_right, predictions, examples)
    return "".join("1" if each else "0" for each in right)


# The baseline: what a model's runs came to, in a file that stands beside the code.


FORMAT = 2
"""Goes up when the file's fields change; 1 was written before 0.1.0."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A model's samples by task, and what they were made with.

    `data` is the source ("mini", "hub" or "files", whose folder the file does not tell), `limit`
    the rows kept of each split. `environment` says which code, versions and machine made the runs;
    it is for a reader, and nothing is decided by it (a sample's `maker` says what decides).
    """

    model: str
    data: str
    limit: int | None
    recipe: str
    environment: Mapping[str, Any]
    tasks: Mapping[str, Sample]

    def to_text(self) -> str:
        """The file's text: JSON with a line for each value, so that changes can be read."""
        spreads = {task: sample.spread for task, sample in self.tasks.items()}
        means = {task: sample.mean for task, sample in self.tasks.items()}
        summary = {task: {"mean": means[task], "spread": spreads[task]} for task in self.tasks}
        # The summary is for those who read a change of the file: `from_text` takes no notice.
        data = {"format": FORMAT, "summary": summary, **asdict(self)}
        return json.dumps(data, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_text(cls, text: str, name: str) -> "Baseline":
        """The baseline of a file's text; `name` is what an error calls the file.

        Raises DataError where the text is no baseline, or one of another format.
        """
        try:
            # A merge or an editor may have left anything there: an OverflowError is a number of
            # hundreds of digits, a RecursionError brackets within brackets.
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise DataError(
                    f"{name} is a baseline of format {data['format']}, and this version reads "
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
                f"{name} is not a baseline ({type(error).__name__}: {error}): expected a file that "
                "`bench check --write` wrote; write it again."
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
        raise TypeError(f"{name} is {data[name]!r}")
    return data[name]
