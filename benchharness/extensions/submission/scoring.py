"""Results that need no training: of prediction files, and of ensembles of stored predictions."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from benchharness import __version__
from benchharness.errors import BenchError
from benchharness.extensions.submission.prediction_files import (
    THRESHOLD,
    NoAnswer,
    layout_of,
    read_predictions,
)
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.machine import library_versions, source_commit
from benchharness.plugins import plugins_of
from benchharness.splits import evaluate_split
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
    return untrained_result(job, evaluations, scored.seconds)


def untrained_result(
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
