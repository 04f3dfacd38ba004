"""Results that no training made: of prediction files, and of ensembles of stored predictions."""

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
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, Evaluation, Result, predictions_of
from benchharness.machine import library_versions, source_commit
from benchharness.plugins import plugins_of
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.errors import BenchError, DataError
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
    """One split of a file: its evaluation, as its official script counts.

    `official` are the same scores by the keys and in the unit of the script that the task names
    (SQuAD's, conlleval), which `unit` names; empty for other tasks.
    `notes` say what is odd about the rows and had to be read leniently of the file, `missing` how
    many answers are left out.
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
    """Every split of one task that was scored; `seconds` is what it took."""

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
    """The scores of one prediction file for each split; by default the task's dev splits in turn.

    Raises BenchError where files and splits do not pair or labels are hidden, and DataError where
    a file does not say clearly what was predicted for every row. Missing answers count as wrong
    where the official script does so.
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
    """The scores as a result of `model` by the recipe "scored here", for the leaderboard.

    Nothing was trained, so there are no steps, no parameters and no training rows. The files'
    digests are the job's settings: the same answers are the same job.
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
    """The result of a job that has trained nothing, made now."""
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
    """What was predicted by its digest, read from which file, decided by which threshold."""
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


# Ensembles: the stored predictions of several runs made into one.


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
    seconds, told = time.monotonic() - start, dict(_members(members))
    return _result(job, evaluations, seconds, {"method": job.method}, members=told)


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
    rows, task = read_split(job, split), find_task(split.rpartition(":")[0])
    predictions = [predictions_of(result.evaluation(split), rows.examples) for result in results]
    return evaluate_split(split, rows, average(task, predictions))


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
