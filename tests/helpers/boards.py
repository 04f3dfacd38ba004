"""Synthetic rows for the tests of boards, terminal output and report."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import (
    CurvePoint,
    Evaluation,
    Failure,
    Measure,
    Result,
    RunRow,
    measures_of,
)
from benchharness.tasks.suites import SUITES
from tests.helpers import results
from tests.helpers.results import make_cost, make_evaluation, make_failure, make_result

GLUE = SUITES["glue"]
TASKS = tuple(GLUE.rule.cells)
SCORES: Mapping[str, Mapping[str, float]] = {
    "glue/cola": {"mcc": 0.471},
    "glue/sst2": {"accuracy": 0.923},
    "glue/mrpc": {"accuracy": 0.860, "f1": 0.901},
    "glue/stsb": {"pearson": 0.857, "spearman": 0.851},
    "glue/qqp": {"accuracy": 0.890, "f1": 0.853},
    "glue/mnli": {"accuracy": 0.813},
    "glue/qnli": {"accuracy": 0.901},
    "glue/rte": {"accuracy": 0.650},
    "glue/wnli": {"accuracy": 0.563},
}
"""Dev scores of an average encoder by task and metric name."""

make_job = partial(results.make_job, recipe="paper", precision="fp32")


def make_row(
    model: str = "minilm",
    task: str = "glue/rte",
    seed: int = 0,
    scores: Mapping[str, float] | float | None = None,
    **fields: Any,
) -> RunRow:
    """Return a finished run; a single number is the value of every score of its task."""
    names = ("data", "fingerprints", "recipe", "kind", "overridden", "is_sweep")
    job_fields = {name: fields.pop(name) for name in names if name in fields}
    job = make_job(model=model, task=task, seed=seed, **job_fields)
    if not isinstance(scores, Mapping):
        value = 0.5 if scores is None else scores
        scores = dict.fromkeys(GLUE.rule.cells[task], value)
    standard = {**_shared(job), "status": "finished", "scores": {task: scores}, "error": ""}
    return with_measures(RunRow(**{**standard, **fields}))


def with_measures(row: RunRow) -> RunRow:
    """Return the row as a store does; a score unknown to its task belongs to dev."""
    measures = {
        task: {name: measures_of(task).get(name, Measure("dev", name)) for name in scores}
        for task, scores in row.scores.items()
    }
    return replace(row, measures=measures)


def make_failed_row(error: str = "the loss became nan at step 7.", **fields: Any) -> RunRow:
    """Return a run that diverged."""
    return make_row(**{"scores": {}, "status": "diverged", "error": error, **fields})


def make_rows(
    model: str = "minilm", values: Iterable[float] = (0.5,), **fields: Any
) -> list[RunRow]:
    """Return a run per GLUE task and value of `values`, one seed each, with equal scores."""
    return [
        make_row(model, task, seed, value, **fields)
        for task in TASKS
        for seed, value in enumerate(values)
    ]


def row_of(run: Result | Failure) -> RunRow:
    """Return the row that a store keeps for a run."""
    if isinstance(run, Failure):
        return RunRow(**_shared(run.job), status=run.kind, scores={}, error=run.error)
    scores: dict[str, dict[str, float]] = {}
    for evaluation in run.evaluations:
        scores.setdefault(evaluation.task, {}).update(evaluation.scores)
    flags = {evaluation.task: evaluation.flags for evaluation in run.evaluations}
    fields = {**_shared(run.job), "flags": flags, "parameters": run.cost.parameters}
    return with_measures(RunRow(**fields, status="finished", scores=scores, error=""))


def _shared(job: Job) -> dict[str, Any]:
    return {
        "key": job.key,
        "model": job.model,
        "weights": job.weights,
        "recipe": job.recipe,
        "kind": job.kind,
        "overridden": job.overridden,
        "is_sweep": job.is_sweep,
        "recipe_digest": "a" * 64,
        "task": job.task,
        "data": job.data,
        "limit": job.limit,
        "seed": job.seed,
        "precision": job.precision,
        "flags": {},
        "fingerprints": job.fingerprints,
        "seconds": 12.5,
        "parameters": 22_713_601,
        "finished": "2026-08-01T12:00:00Z",
    }


def one_board(rows: Iterable[RunRow]) -> Board:
    """Return the only board of these rows."""
    (board,) = build_boards(list(rows), GLUE)
    return board


LEVELS = {"minilm": 0.0, "bert-base": 0.04, "roberta-base": 0.07, "tiny": -0.25}
"""Difference of each model's scores from the default ones."""


def make_runs() -> list[Result | Failure]:
    """Return varied runs: four models, three seeds, AX with MNLI, flags, an unfinished model."""
    runs: list[Result | Failure] = [
        learned(make_job(model=model, task=task, seed=seed), shift)
        for model, shift in LEVELS.items()
        for task in TASKS
        for seed in range(3)
    ]
    started = [
        learned(make_job(model="distilbert-base", task=task, seed=0), 0.01) for task in TASKS[:5]
    ]
    failed = make_failure(make_job(model="distilbert-base", task="glue/rte", seed=0))
    return [*runs, *started, failed]


def learned(job: Job, shift: float) -> Result:
    """Return a finished run with a falling loss curve and scores near the model's level."""
    draw = random.Random(f"{job.model} {job.task} {job.seed}")
    evaluations = []
    for task, split in job.predicted_splits:
        ending = "_mm" if split == "dev_mm" else ""
        scores = {
            name + ending: round(max(0.0, value + shift + draw.gauss(0, 0.008)), 4)
            for name, value in SCORES[task].items()
        }
        flags = ("constant predictions",) if (job.model, task) == ("tiny", "glue/wnli") else ()
        evaluations.append(_evaluation(job, task, split, scores, flags))
    if job.task == "glue/mnli":
        scores = {"mcc": round(0.3 + shift / 2, 4), "mcc_logic": 0.11}
        evaluations.append(_evaluation(job, "glue/ax", "test", scores, ()))
    # The models differ in their sizes.
    return make_result(
        job,
        evaluations=tuple(evaluations),
        curve=tuple(_curve(job, draw, shift)),
        cost=make_cost(parameters=round(22_713_601 * (1 + shift))),
    )


def _evaluation(
    job: Job, task: str, split: str, scores: Mapping[str, float], flags: tuple[str, ...]
) -> Evaluation:
    return Evaluation(
        task=task,
        split=split,
        fingerprint=job.fingerprints.get(f"{task}:{split}", "f" * 64),
        scores=scores,
        predictions=(),
        flags=flags,
    )


def _curve(job: Job, draw: random.Random, shift: float) -> Iterable[CurvePoint]:
    for step in range(1, 13):
        scores = {
            name: round(max(0.0, value + shift - 0.4 / step + draw.gauss(0, 0.01)), 4)
            for name, value in SCORES[job.task].items()
        }
        yield CurvePoint(
            step=step * 25,
            epoch=step / 4,
            loss=round(0.7 / step**0.5 + draw.gauss(0, 0.01), 4),
            learning_rate=2e-5 * (1 - step / 13),
            scores=scores if step % 3 == 0 else {},
        )


MACHINE = {"device": "cpu", "cpu": "a CPU", "threads": 2}


def plotted(
    model: str = "minilm",
    task: str = "glue/rte",
    seed: int = 0,
    score: float = 0.6,
    *,
    parameters: int = 22_000_000,
    tokens: int = 1000,
    seconds: float = 60.0,
    machine: dict[str, Any] | None = None,
    scores: dict[str, float] | None = None,
    **job_fields: Any,
) -> Result:
    """Return a finished run whose scores are `score`, unless `scores` has another value."""
    job = make_job(model=model, task=task, seed=seed, **job_fields)
    return make_result(
        job,
        evaluations=tuple(
            make_evaluation(job, name, split, scores=scores or _scores(name, split, score))
            for name, split in job.predicted_splits
        ),
        cost=make_cost(parameters=parameters, train_tokens=tokens, train_seconds=seconds),
        provenance={"machine": MACHINE if machine is None else machine},
    )


def suite_of(model: str, score: float, seeds: Sequence[int] = (0,), **fields: Any) -> list[Result]:
    """Return a run per GLUE task and seed."""
    return [plotted(model, task, seed, score, **fields) for task in TASKS for seed in seeds]


def _scores(task: str, split: str, score: float) -> dict[str, float]:
    ending = "_mm" if split == "dev_mm" else ""
    return {name + ending: score for name in SCORES[task]}


def board_of(runs: Iterable[Result]) -> Board:
    """Return the only board of these runs."""
    return one_board(map(row_of, runs))
