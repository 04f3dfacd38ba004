"""Results that need no training: of prediction files, and of ensembles of stored predictions."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchharness import __version__
from benchharness.errors import BenchError, DataError
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, Evaluation, Result, predictions_of
from benchharness.machine import library_versions, source_commit
from benchharness.plugins import plugins_of
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Prediction
from benchharness.tasks.prediction_files import (
    THRESHOLD,
    NoAnswer,
    layout_of,
    read_predictions,
)
from benchharness.tasks.read import holds, odd_sentences, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task, check_labels, ending_of


@dataclass(frozen=True, kw_only=True)
class ScoredSplit:
    """A split of a prediction file: its evaluation with its official metrics.

    `official` holds the same scores with the keys and in the unit of the official script that the
    task names (such as SQuAD's or conlleval), and `unit` names that unit; both are empty for other
    tasks. `notes` are remarks on odd rows and on deviations that were tolerated in the file, and
    `missing` is the number of answers that the file lacks.
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
    """All splits of a task that were scored; `seconds` is the time that it took."""

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
    """Score one prediction file per split of a task.

    Missing answers count as wrong if the official script counts them so.

    Args:
        files: Prediction files, one for each split.
        task: Name of the task.
        data: Source of the rows, as in --data.
        splits: Splits in the order of the files; by default the task's first dev splits.
        no_answer: Threshold for unanswered questions, and the file of no-answer scores.

    Raises:
        BenchError: Files and splits do not pair, or labels are hidden.
        DataError: A file does not clearly contain a prediction for every row.
    """
    start = time.monotonic()
    found, source = find_task(task, holds(data)), parse_data(data)
    known = found.dev_splits or found.test_splits
    chosen = [name for name in splits or known[: len(files)] if found.source.split(name)]
    if len(chosen) != len(files) or len(set(chosen)) != len(chosen):
        raise BenchError(
            f"{len(files)} prediction files do not pair with the splits {', '.join(chosen)} of "
            f"{found.name}: give one file for each split, in the order of --split."
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
    names = {metric: metric.name + ending for metric in (*task.metrics, *task.details)}
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
    """Convert the scores to a result of `model` with the recipe "scored here", for the leaderboard.

    Nothing was trained, so there are no steps, parameters or training rows. The digests of the
    predictions are the job's settings: the same answers make the same job.
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
    return _result(job, evaluations, scored.seconds)


def _result(
    job: Job,
    evaluations: tuple[Evaluation, ...],
    seconds: float,
    code: Mapping[str, object] = MappingProxyType({}),
    **provenance: object,
) -> Result:
    """Return the result of a job without training, finished now."""
    return Result(
        job=job,
        evaluations=evaluations,
        curve=(),
        cost=Cost.without_network(seconds),
        provenance={
            "code": {"version": __version__, **code, **source_commit()},
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
    """Yield the settings of a scoring job: digest and file of predictions, and thresholds."""
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


# Ensembles: one prediction from the stored predictions of several runs.


def average(task: Task, members: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
    """Return the predictions of an ensemble, from its members' predictions for the same examples.

    All members list the examples in the same order. Each type of answer defines its average
    (tasks/answers). A tie goes to the label that the task names first, else to the first member.
    """
    kind = answer_type(task)
    return tuple(kind.average(predictions) for predictions in zip(*members, strict=True))


def make_ensemble(members: Sequence[tuple[str, Result]], name: str) -> Result:
    """Make an ensemble from results of one task, each paired with the user's name for its system.

    The ensemble predicts the splits that all members have predicted. Raises BenchError if there is
    no such split or fewer than two members, and DataError if the members' rows differ, or have
    changed at their source.
    """
    start = time.monotonic()
    results = [result for _, result in members]
    splits = _shared_splits(results)
    job = _job(members, name, splits)
    evaluations = tuple(_evaluate(job, split, results) for split in splits)
    seconds, told = time.monotonic() - start, dict(_members(members))
    return _result(job, evaluations, seconds, {"method": job.method}, members=told)


def _shared_splits(results: Sequence[Result]) -> dict[str, str]:
    """Return the fingerprints of the splits that all results have predicted, keyed by "task:split".

    Raises BenchError if there is none, and DataError if the fingerprints differ.
    """
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
    rows, task = read_split(job, split), find_task(split.rpartition(":")[0])
    predictions = [predictions_of(result.evaluation(split), rows.examples) for result in results]
    return evaluate_split(split, rows, average(task, predictions))


def _members(members: Sequence[tuple[str, Result]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a description of each member; its own row of the leaderboard has the rest."""
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
