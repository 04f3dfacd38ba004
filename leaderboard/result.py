"""What a job leaves behind: a Result with scores and predictions, or a Failure with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from leaderboard.job import Job, Kind, kind_of
from tasks.errors import BenchError
from tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)
from tasks.metrics.classification import CONSTANT
from tasks.suites import TASKS, find_task
from tasks.task import Task, ending_of

__all__ = [
    "AVERAGE_SPLITS",
    "COLLAPSED",
    "NEVER_FELL",
    "Cost",
    "CurvePoint",
    "Evaluation",
    "Failure",
    "Result",
    "RunRow",
    "curve_ends",
    "curve_flags",
    "flags_of_ends",
    "predictions_of",
    "split_of",
    "stored_name",
    "to_row",
]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One split predicted by the fine-tuned model.

    `scores` are by metric name in the metric's own unit, empty where the labels are hidden.
    `predictions` are plain rows, one per example in the split's order (the fields of the
    prediction class of the task's head). `flags` say what a reader must know of this score, e.g.
    "constant predictions".
    """

    task: str
    split: str
    fingerprint: str
    scores: Mapping[str, float]
    predictions: tuple[Mapping[str, Any], ...]
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The split as a job's fingerprints name it: "task:split"."""
        return f"{self.task}:{self.split}"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Evaluation":
        """The evaluation that its plain data describe."""
        plain = {"predictions": tuple(data["predictions"]), "flags": tuple(data["flags"])}
        return cls(**{**data, **plain})


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One point of the learning curve; `loss` is the mean training loss since the point before.

    `scores` are those of the job's first dev split where it was scored at this step.
    """

    step: int
    epoch: float
    loss: float
    learning_rate: float
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the job took: seconds of a monotonic clock, real tokens without padding."""

    seconds: float
    train_seconds: float
    predict_seconds: float
    steps: int
    train_examples_per_second: float
    train_tokens: int
    parameters: int
    peak_memory_bytes: int

    @classmethod
    def without_network(
        cls, seconds: float, train_seconds: float = 0.0, predict_seconds: float = 0.0
    ) -> "Cost":
        """What took time and no encoder: a floor, an ensemble, somebody's prediction file."""
        return cls(
            seconds=seconds,
            train_seconds=train_seconds,
            predict_seconds=predict_seconds,
            steps=0,
            train_examples_per_second=0.0,
            train_tokens=0,
            parameters=0,
            peak_memory_bytes=0,
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished job. `provenance` says which code, data, weights, versions and machine made it."""

    job: Job
    evaluations: tuple[Evaluation, ...]
    curve: tuple[CurvePoint, ...]
    cost: Cost
    provenance: Mapping[str, Any]
    finished: str

    def evaluation(self, name: str) -> Evaluation:
        """What the run has predicted of "task:split"; BenchError where that is nothing."""
        for evaluation in self.evaluations:
            if evaluation.name == name:
                return evaluation
        raise BenchError(
            f"run {self.job.key[:12]} of {self.job.model} has not predicted "
            f"{name.replace(':', ' ')}: leave the task out with --task, or run it again."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal result."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Result":
        """The result that `to_json` described."""
        return cls(
            job=Job.from_json(data["job"]),
            evaluations=tuple(Evaluation.from_json(row) for row in data["evaluations"]),
            curve=tuple(CurvePoint(**point) for point in data["curve"]),
            cost=Cost(**data["cost"]),
            provenance=data["provenance"],
            finished=data["finished"],
        )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A job that did not finish: `error` is one sentence, `details` a traceback or a log's end.

    `kind` is "failed", "diverged", "killed", "timeout" or "interrupted"; `exit_code` is that of the
    error (see tasks.errors).
    """

    job: Job
    kind: str
    error: str
    details: str
    exit_code: int
    finished: str

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal failure."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Failure":
        """The failure that `to_json` described."""
        return cls(**{**data, "job": Job.from_json(data["job"])})


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One stored run without its predictions and curves: what lists and boards are made of.

    `status` is "finished" or the kind of its Failure; `scores` are by task, then by metric, of
    every scored split (MNLI's run also holds AX); `flags` are by task; `fingerprints` as in Job;
    `error` is the failure's sentence, empty for a finished run. `limit` is None where it took no
    row away; `largest_split` is the number of rows of the run's largest split, 0 where unknown.
    `start_from` is as in Job, and `start` what a board tells of that run (see lineage.py).
    """

    key: str
    model: str
    weights: str
    recipe: str
    recipe_digest: str
    task: str
    data: str
    limit: int | None
    seed: int
    precision: str
    status: str
    scores: Mapping[str, Mapping[str, float]]
    flags: Mapping[str, tuple[str, ...]]
    fingerprints: Mapping[str, str]
    seconds: float
    parameters: int
    finished: str
    error: str
    start_from: str | None = None
    largest_split: int = 0
    start: str = ""

    @property
    def kind(self) -> Kind:
        """What made the run."""
        return kind_of(self.weights)

    @property
    def suite(self) -> str:
        """The suite that the task belongs to."""
        return self.task.partition("/")[0]


# Stored predictions as the objects that metrics and submissions take.

CLASSES: Mapping[str, type[Prediction]] = {
    "pair": PairPrediction,
    "span": SpanPrediction,
    "choice": ChoicePrediction,
    "tag": TagPrediction,
}
"""By head type."""


def predictions_of(evaluation: Evaluation) -> tuple[Prediction, ...]:
    """The predictions of one split, in its order; what `to_row` made rows of."""
    kind = CLASSES[find_task(evaluation.task).head]
    return tuple(kind(**_with_tuples(row)) for row in evaluation.predictions)


def to_row(prediction: Prediction) -> dict[str, Any]:
    """The fields as JSON gives them back: with lists, not tuples."""
    fields = vars(prediction).items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields}


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


# Which split a stored score is of, by its name.

AVERAGE_SPLITS = {"dev": "", "test": "_test"}
"""The splits that a suite's score may be of, and what its name ends with."""


def split_of(task: str, name: str) -> tuple[str, str]:
    """The metric and the split of a score of a task, or of a suite's: "f1_test" is f1 of test."""
    endings = _endings(task)
    fitting = (split for split, ending in endings.items() if name.endswith(ending))
    split = max(fitting, key=lambda split: len(endings[split]))
    return name.removesuffix(endings[split]), split


def stored_name(task: str, metric: str, split: str) -> str:
    """What the score is called in a store; the other way round."""
    return metric + _endings(task)[split]


def _endings(task: str) -> dict[str, str]:
    """By split, the first one without an ending."""
    if task not in TASKS:
        return AVERAGE_SPLITS
    found = TASKS[task]
    return {split: ending_of(found, split) for split in _scored_splits(found)}


def _scored_splits(task: Task) -> tuple[str, ...]:
    return task.dev_splits + task.test_splits


# Which runs have collapsed: fine-tuning that ended where it began, or with one answer for all.
#
# Small data sets and large encoders collapse with some seeds and not with others (Mosbach et al.,
# On the Stability of Fine-tuning BERT, ICLR 2021): such a run counts, and a reader must see it.

NEVER_FELL = "the training loss never fell"

COLLAPSED = frozenset({CONSTANT, NEVER_FELL})
"""The flags of a run that has learned nothing."""

FEWEST_POINTS = 4
"""A curve with fewer points has no first and last quarter to compare."""

LEAST_FALL = 0.02
"""The share by which the loss of a run that learns falls at the very least: a classifier that only
finds the labels' shares moves by about one per cent, from its random start to their entropy."""


def curve_flags(losses: Sequence[float]) -> tuple[str, ...]:
    """Says "the training loss never fell" where a curve ends as high as it begins.

    `losses` are the means of a learning curve's stretches, in their order; its first quarter is
    compared with the last, and too few points say nothing.
    """
    return flags_of_ends(curve_ends(losses))


def curve_ends(losses: Sequence[float]) -> tuple[float, float] | None:
    """The mean loss of a curve's first quarter and of its last; None for too few points."""
    if len(losses) < FEWEST_POINTS:
        return None
    quarter = len(losses) // 4
    return fmean(losses[:quarter]), fmean(losses[-quarter:])


def flags_of_ends(ends: Sequence[float] | None) -> tuple[str, ...]:
    """What `curve_flags` says, by what `curve_ends` gave."""
    if ends is None:
        return ()
    first, last = ends
    return (NEVER_FELL,) if last >= first * (1 - LEAST_FALL) else ()
