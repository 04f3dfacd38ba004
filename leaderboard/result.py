"""What a job leaves behind: a Result with scores and predictions, or a Failure with its reason."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from leaderboard.job import Job, Kind, kind_of

__all__ = ["Cost", "CurvePoint", "Evaluation", "Failure", "Result", "RunRow"]


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
