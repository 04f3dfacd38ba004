"""Score prediction files, and create leaderboard results that need no training."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from benchharness.errors import BenchError
from benchharness.extensions.submission.prediction_files import (
    THRESHOLD,
    NoAnswer,
    layout_of,
    read_predictions,
)
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.machine import library_versions
from benchharness.plugins import plugins_of
from benchharness.splits import evaluate_split
from benchharness.tasks.read import holds, odd_sentences, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task, check_labels, ending_of
from benchharness.version import package_version, source_commit


@dataclass(frozen=True, kw_only=True)
class ScoredSplit:
    """Scores of a prediction file on one split.

    Attributes:
        evaluation: Predictions and scores.
        official: The numbers that the task's official script prints (e.g. SQuAD's or conlleval),
            keyed by the names that it prints; empty if the task has no such script.
        unit: Unit of `official`, e.g. "in percent"; empty if the task has no such script.
        notes: Remarks on irregular rows, and on problems in the file that were tolerated.
        missing: Number of answers that the file lacks.
        file: Path of the file.
        no_answer: No-answer scores and threshold that were passed with the file; None if none were.
    """

    evaluation: Evaluation
    official: Mapping[str, float]
    unit: str
    notes: tuple[str, ...]
    missing: int
    file: Path
    no_answer: NoAnswer | None


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Scores of the prediction files for a task.

    Attributes:
        task: Task that was predicted.
        data: Source of the labelled rows.
        splits: Scores on each split.
        seconds: Time that the scoring took.
    """

    task: Task
    data: str
    splits: tuple[ScoredSplit, ...]
    seconds: float


def score_files(
    files: Sequence[Path],
    task: str,
    data: str,
    splits: Sequence[str] = (),
    no_answer: NoAnswer | None = None,
) -> Scored:
    """Score prediction files for a task, one file per split.

    Missing answers count as wrong if the official script accepts a file without them.

    Args:
        files: Prediction files, one for each split.
        task: Name of the task.
        data: Source of the labelled rows, as in --data.
        splits: Splits in the order of the files. If it is empty, the task's dev splits are used in
            their order, as many as there are files, or its test splits if it has no dev split.
        no_answer: No-answer scores and threshold, for SQuAD 2.0.

    Raises:
        BenchError: The task or a split is unknown, the numbers of files and splits differ, or the
            labels are not published.
        DataError: A file does not have exactly one clear prediction for every row (missing answers
            are accepted if the official script accepts them).
    """
    start = time.monotonic()
    found, source = find_task(task, holds(data)), parse_data(data)
    known = found.dev_splits or found.test_splits
    chosen = [name for name in splits or known[: len(files)] if found.source.split(name)]
    if len(chosen) != len(files) or len(set(chosen)) != len(chosen):
        raise BenchError(
            f"{len(files)} prediction files do not match the splits {', '.join(chosen)} of "
            f"{found.name}: pass one file per split, in the order of --split."
        )
    pairs = list(zip(files, chosen, strict=True))
    scored = tuple(_score(found, split, str(source), file, no_answer) for file, split in pairs)
    return Scored(task=found, data=str(source), splits=scored, seconds=time.monotonic() - start)


def _score(
    task: Task, split: str, data: str, file: Path, no_answer: NoAnswer | None
) -> ScoredSplit:
    rows = read(task, split, parse_data(data))
    check_labels(task, split, rows.examples)
    found = read_predictions(file, task, rows, no_answer)
    evaluation = evaluate_split(f"{task.name}:{split}", rows, found.predictions)
    own, ending = layout_of(task).own_scores(found, rows.examples), ending_of(task, split)
    names = {metric: metric.name + ending for metric in task.every_metric}
    known = {metric: evaluation.scores.get(name) for metric, name in names.items()}
    lines = task.script.lines.values() if task.script else ()
    known |= {metric: own[metric] for metric in own if metric in names and metric in lines}
    scores = {names[metric]: score for metric, score in known.items() if score is not None}
    return ScoredSplit(
        evaluation=replace(evaluation, scores={**evaluation.scores, **scores}),
        official=task.script.prints(known) if task.script else {},
        unit=task.script.said if task.script else "",
        notes=(*odd_sentences({evaluation.name: rows.odd}), *found.notes),
        missing=found.missing,
        file=file,
        no_answer=no_answer,
    )


def to_result(scored: Scored, model: str) -> Result:
    """Convert scores to a result that the leaderboard lists with the recipe "scored here".

    The settings of the job contain digests of the predictions, so equal predictions give the same
    job.

    Args:
        scored: Scores of the prediction files.
        model: Name of the system that made the predictions.
    """
    evaluations = tuple(split.evaluation for split in scored.splits)
    job = Job(
        model=model,
        checkpoint="prediction files",
        weights=f"predictions of {model}",
        task=scored.task.name,
        task_version=scored.task.version,
        data=scored.data,
        fingerprints={each.name: each.fingerprint for each in evaluations},
        kind="scored",
        recipe="scored here",
        settings=dict(_settings(scored.splits)),
        seed=0,
        precision="unknown precision",
        plugins=plugins_of([scored.task.name]),
    )
    return untrained_result(job, evaluations, scored.seconds)


def untrained_result(
    job: Job,
    evaluations: tuple[Evaluation, ...],
    seconds: float,
    code: Mapping[str, object] = MappingProxyType({}),
    **provenance: object,
) -> Result:
    """Create the result of a job that needed no training and has just finished.

    Args:
        job: Job that has finished.
        evaluations: Predictions and scores on each split.
        seconds: Time that the job took.
        code: Additional facts about the code, for the provenance (the record of the code, the data
            and the library versions that produced the result).
        provenance: Additional sections of the provenance, keyed by name.
    """
    return Result(
        job=job,
        evaluations=evaluations,
        curve=(),
        cost=Cost.without_network(seconds),
        provenance={
            "code": {"version": package_version(), **code, **source_commit()},
            **provenance,
            "data": {
                e.name: {"rows": len(e.predictions), "fingerprint": e.fingerprint}
                for e in evaluations
            },
            "versions": library_versions(),
        },
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _settings(splits: Sequence[ScoredSplit]) -> Iterator[tuple[str, Setting]]:
    """Yield the names and settings of a scoring job.

    The settings are the digest and path of each prediction file, no-answer thresholds, and the
    numbers of missing answers.
    """
    for split in splits:
        text = json.dumps(split.evaluation.predictions, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        yield (
            f"predictions_{split.evaluation.split}",
            Setting(value=f"sha256:{digest}", source=str(split.file)),
        )
        if split.no_answer:
            threshold, file = split.no_answer.threshold, split.no_answer.file
            value = THRESHOLD if threshold is None else threshold
            yield "na_prob_threshold", Setting(value=value, source=str(file or ""))
        if split.missing:
            name = f"missing_{split.evaluation.split}"
            yield name, Setting(value=split.missing, source="--allow-missing")
