"""Functions that read the splits of a job, check them for changes, and score predictions."""

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
    """Raised if a split no longer has the examples with which a job was planned."""


def languages_of(settings: Mapping[str, Setting]) -> str:
    """Return the languages whose data replace the task's own train split.

    They are the value of the hyperparameter `train_languages`, or "" if it is not set.
    """
    return str(settings["train_languages"].value) if "train_languages" in settings else ""


def read_split(job: Job, name: str) -> SplitRows:
    """Read the examples of the split `name`, such as "glue/rte:train".

    Raises ChangedRowsError if they are not the examples with which the job was planned.
    """
    task, split = name.rsplit(":", 1)
    found, data = find_task(task), parse_data(job.data)
    if split == "train" and (languages := languages_of(job.settings)):
        rows = read_train(found, languages, data, job.limit)
    else:
        rows = read(found, split, data, job.limit)
    if rows.fingerprint != job.fingerprints[name]:
        raise ChangedRowsError(
            f"{task} {split} ({job.data}) has changed since this run was planned: the digest of "
            f"its examples is {rows.fingerprint[:12]} instead of {job.fingerprints[name][:12]}. "
            "Start the run again."
        )
    return rows


def check_documents(job: Job, splits: Mapping[str, SplitRows]) -> None:
    """Raise ChangedRowsError if sentences are grouped into documents differently than planned."""
    for name, digest in job.documents.items():
        if document_digest(splits[name].examples) != digest:
            task, split = name.rsplit(":", 1)
            raise ChangedRowsError(
                f"{task} {split} ({job.data}) has changed since this run was planned: its "
                "sentences are grouped into other documents. Start the run again."
            )


def headline(name: str, scores: Mapping[str, float]) -> float | None:
    """Return the score of a task that a leaderboard would show, computed from a single split.

    It is the mean of the metrics that count on the leaderboard. For MNLI, whose leaderboard score
    covers two splits, it is the score on the matched split only. Returns None if a metric is
    missing from `scores`, for example because the labels are hidden.

    Args:
        name: The name of the split, as "task:split".
        scores: The scores on the split, keyed by metric.
    """
    task = find_task(name.rsplit(":", 1)[0])
    first = task.metrics[0].name
    counted = SUITES[task.suite].rule.cells.get(task.name, (first,))
    endings = {suffix_of(each) for each in task.source.splits}
    wanted = [m.name for m in task.metrics if any(m.name + e in counted for e in endings)]
    wanted = wanted or [first]
    return fmean(scores[each] for each in wanted) if scores.keys() >= set(wanted) else None


def evaluate_split(name: str, rows: SplitRows, predictions: Sequence[Prediction]) -> Evaluation:
    """Score the predictions for the split `name`, such as "glue/rte:dev".

    If the labels are hidden, the evaluation has no scores.
    """
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
