"""The splits of a job: reading their rows as planned, and scoring predictions."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from benchharness.errors import DataError
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Evaluation, to_row
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Prediction
from benchharness.tasks.read import SplitRows, document_digest, read, read_train
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, find_task
from benchharness.tasks.task import score, suffix_of


class ChangedRowsError(DataError):
    """A split no longer has the rows that a job was planned with."""


def languages_of(settings: Mapping[str, Setting]) -> str:
    """Return the languages to train on instead of the task's own train split; usually empty."""
    return str(settings["train_languages"].value) if "train_languages" in settings else ""


def read_split(job: Job, name: str) -> SplitRows:
    """Read the rows of "task:split"; raise ChangedRowsError if the job was planned with others."""
    task, split = name.rsplit(":", 1)
    found, data = find_task(task), parse_data(job.data)
    if split == "train" and (languages := languages_of(job.settings)):
        rows = read_train(found, languages, data, job.limit)
    else:
        rows = read(found, split, data, job.limit)
    if rows.fingerprint != job.fingerprints[name]:
        raise ChangedRowsError(
            f"{task} {split} ({job.data}) has changed since this run was planned: its rows have "
            f"the digest {rows.fingerprint[:12]}, not {job.fingerprints[name][:12]}; start again."
        )
    return rows


def check_documents(job: Job, splits: Mapping[str, SplitRows]) -> None:
    """Raise ChangedRowsError if sentences are in other documents than the job was planned with."""
    for name, digest in job.documents.items():
        if document_digest(splits[name].examples) != digest:
            task, split = name.rsplit(":", 1)
            raise ChangedRowsError(
                f"{task} {split} ({job.data}) has changed since this run was planned: its "
                "documents begin elsewhere; start again."
            )


def headline(name: str, scores: Mapping[str, float]) -> float | None:
    """Return a board's score of a task for its first split: the mean of the metrics that count.

    Returns None if one of them is undefined, or if the split's labels are hidden. For MNLI it is
    the score of the matched split alone.
    """
    task = find_task(name.rsplit(":", 1)[0])
    first = task.metrics[0].name
    counted = SUITES[task.suite].rule.cells.get(task.name, (first,))
    endings = {suffix_of(each) for each in task.source.splits}
    wanted = [m.name for m in task.metrics if any(m.name + e in counted for e in endings)]
    wanted = wanted or [first]
    return fmean(scores[each] for each in wanted) if scores.keys() >= set(wanted) else None


def evaluate_split(name: str, rows: SplitRows, predictions: Sequence[Prediction]) -> Evaluation:
    """Score predictions of "task:split"; the scores are empty if its labels are hidden."""
    task_name, split = name.rsplit(":", 1)
    task, hidden = find_task(task_name), any(e.is_hidden for e in rows.examples)
    return Evaluation(
        task=task_name,
        split=split,
        fingerprint=rows.fingerprint,
        scores={} if hidden else score(task, split, predictions, rows.examples),
        predictions=tuple(map(to_row, predictions)),
        flags=answer_type(task).flags(predictions),
    )
