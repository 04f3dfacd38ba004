"""Ensembles: the stored predictions of several runs made into one, without any training."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from benchharness import __version__
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, Evaluation, Result, predictions_of
from benchharness.machine import library_versions, source_commit
from benchharness.plugins import plugins_of
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.examples import Prediction
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task


def average(task: Task, members: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
    """The predictions of an ensemble, from those of its members for the same examples in one order.

    Each kind of answer says how (tasks/answers). Ties go to the label that the task names first,
    else to the first member.
    """
    kind = answer_type(task)
    return tuple(kind.average(predictions) for predictions in zip(*members, strict=True))


def make_ensemble(members: Sequence[tuple[str, Result]], name: str) -> Result:
    """The ensemble of results of one task, each with what the user calls its system.

    It predicts the splits that all members have predicted. Raises BenchError where that leaves no
    split or fewer than two members, and DataError where their rows are not the same, or no longer
    those of the source.
    """
    start = time.monotonic()
    results = [result for _, result in members]
    splits = _shared_splits(results)
    job = _job(members, name, splits)
    evaluations = tuple(_evaluate(job, split, results) for split in splits)
    return Result(
        job=job,
        evaluations=evaluations,
        curve=(),
        cost=Cost.without_network(time.monotonic() - start),
        provenance={
            "code": {"version": __version__, "method": job.method, **source_commit()},
            "members": dict(_members(members)),
            "data": {
                e.name: {"rows": len(e.predictions), "fingerprint": e.fingerprint}
                for e in evaluations
            },
            "versions": library_versions(),
        },
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _shared_splits(results: Sequence[Result]) -> dict[str, str]:
    """The fingerprints of the splits that all have predicted, by "task:split"."""
    if len({result.job.key for result in results}) < 2:
        raise BenchError("an ensemble needs at least two runs of a task.")
    first, *others = [{e.name: e.fingerprint for e in r.evaluations} for r in results]
    shared = {split: digest for split, digest in first.items() if all(split in o for o in others)}
    if not shared:
        raise BenchError(f"the runs of {results[0].job.task} have predicted no split in common.")
    for split, digest in shared.items():
        for result, other in zip(results[1:], others, strict=True):
            if other[split] != digest:
                raise DataError(
                    f"runs {results[0].job.key[:12]} and {result.job.key[:12]} have predicted "
                    f"different rows of {split.replace(':', ' ')} (digests {digest[:12]} and "
                    f"{other[split][:12]}): an ensemble needs members on the same rows."
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
    predictions = [predictions_of(result.evaluation(split)) for result in results]
    task = find_task(split.rpartition(":")[0])
    return evaluate_split(split, read_split(job, split), average(task, predictions))


def _members(members: Sequence[tuple[str, Result]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What each member is; its own row of the leaderboard has the rest."""
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
