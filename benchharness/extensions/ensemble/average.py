"""Combine the stored predictions of several runs into one prediction per example."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.scoring import untrained_result
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Evaluation, Result, predictions_of
from benchharness.plugins import plugins_of
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Prediction
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task


def average(task: Task, members: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
    """Combine the predictions of an ensemble's members for the same examples.

    How predictions are averaged depends on the answer type of the task (see
    `benchharness.tasks.answers`). In a tie between labels or options, the one that the task or the
    example lists first wins. In a tie between tags or texts, the one wins that was predicted by the
    member with the lowest index.

    Args:
        task: Task of the predictions.
        members: Predictions of each member. All members have the same order of examples.

    Returns:
        One prediction per example, in the same order.
    """
    kind = answer_type(task)
    return tuple(kind.average(predictions) for predictions in zip(*members, strict=True))


def make_ensemble(members: Sequence[tuple[str, Result]], name: str) -> Result:
    """Create an ensemble from results of several runs on the same task.

    The ensemble predicts the splits that all members have predicted.

    Args:
        members: One pair per run: the name of the system that the run belongs to, and its result.
        name: Name of the ensemble.

    Raises:
        BenchError: There are fewer than two different runs, or no split that all of them have
            predicted.
        DataError: The members have predicted different examples, or the data have changed since
            then.
    """
    start = time.monotonic()
    results = [result for _, result in members]
    splits = _shared_splits(results)
    job = _job(members, name, splits)
    evaluations = tuple(_evaluate(job, split, results) for split in splits)
    seconds, told = time.monotonic() - start, dict(_members(members))
    return untrained_result(job, evaluations, seconds, {"method": job.method}, members=told)


def _shared_splits(results: Sequence[Result]) -> dict[str, str]:
    """Return the fingerprints of the splits that all results have predicted, keyed by "task:split".

    Raises BenchError if there is no such split, and DataError if the fingerprints differ.
    """
    if len({result.job.key for result in results}) < 2:
        raise BenchError("an ensemble needs at least two runs of a task.")
    first, *others = [{e.name: e.fingerprint for e in r.evaluations} for r in results]
    shared = {split: digest for split, digest in first.items() if all(split in o for o in others)}
    if not shared:
        raise BenchError(f"the runs of {results[0].job.task} have no predicted split in common.")
    for split, digest in shared.items():
        for result, other in zip(results[1:], others, strict=True):
            if other[split] != digest:
                raise DataError(
                    f"runs {results[0].job.key[:12]} and {result.job.key[:12]} have predicted "
                    f"different rows of {split.replace(':', ' ')} (digests {digest[:12]} and "
                    f"{other[split][:12]}): an ensemble needs predictions for the same rows."
                )
    return shared


def _job(members: Sequence[tuple[str, Result]], name: str, splits: Mapping[str, str]) -> Job:
    first = members[0][1].job
    return Job(
        model=name,
        checkpoint="stored predictions",
        weights=f"ensemble:{name}",
        task=first.task,
        task_version=first.task_version,
        data=first.data,
        fingerprints=splits,
        kind="ensemble",
        recipe="ensemble",
        settings={
            f"member_{number}": Setting(value=result.job.key, source=system)
            for number, (system, result) in enumerate(members, start=1)
        },
        seed=0,
        precision=" and ".join(sorted({result.job.precision for _, result in members})),
        limit=first.limit,
        plugins=plugins_of(split.rpartition(":")[0] for split in splits),
    )


def _evaluate(job: Job, split: str, results: Sequence[Result]) -> Evaluation:
    rows, task = read_split(job, split), find_task(split.rpartition(":")[0])
    predictions = [predictions_of(result.evaluation(split), rows.examples) for result in results]
    return evaluate_split(split, rows, average(task, predictions))


def _members(members: Sequence[tuple[str, Result]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and a short description of each member of an ensemble.

    The complete description is stored in the member's own result.
    """
    for number, (_, result) in enumerate(members, start=1):
        job = result.job
        yield (
            f"member_{number}",
            {
                "key": job.key,
                "model": job.model,
                "weights": job.weights,
                "recipe": job.recipe_label,
                "seed": job.seed,
                "scores": {e.name: dict(e.scores) for e in result.evaluations},
            },
        )
