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
    """Return the value of the hyperparameter `train_languages`, or "" if it is not set.

    If it is set, the job is trained on data in these languages instead of the task's train split.
    `settings` contains the hyperparameters of the job.
    """
    return str(settings["train_languages"].value) if "train_languages" in settings else ""


def read_split(job: Job, name: str) -> SplitRows:
    """Read the examples of a split of a job.

    Args:
        job: Job that uses the split.
        name: The name of the split in the form "task:split", such as "glue/rte:train".

    Raises:
        DataError: The examples cannot be read.
        ChangedRowsError: The examples are not those with which the job was planned.
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
    """Raise ChangedRowsError if documents have changed since the job was planned.

    A document is a sequence of sentences, from which the job takes the context of each sentence.

    Args:
        job: Planned job.
        splits: The examples of the splits, keyed by "task:split".
    """
    for name, digest in job.documents.items():
        if document_digest(splits[name].examples) != digest:
            task, split = name.rsplit(":", 1)
            raise ChangedRowsError(
                f"{task} {split} ({job.data}) has changed since this run was planned: its "
                "sentences are now grouped into documents differently. Start the run again."
            )


def headline(name: str, scores: Mapping[str, float]) -> float | None:
    """Compute the score that a leaderboard shows for a task, but from a single split.

    Args:
        name: The name of the split, in the form "task:split".
        scores: The scores on the split, keyed by metric.

    Returns:
        The mean of the metrics that count on the leaderboard. For MNLI, whose leaderboard score
        covers two splits, it is the score on the matched split only. The result is None if a metric
        is missing from `scores`, for example because the labels are hidden.
    """
    task = find_task(name.rsplit(":", 1)[0])
    first = task.metrics[0].name
    counted = SUITES[task.suite].rule.cells.get(task.name, (first,))
    endings = {suffix_of(each) for each in task.source.splits}
    wanted = [m.name for m in task.metrics if any(m.name + e in counted for e in endings)]
    wanted = wanted or [first]
    return fmean(scores[each] for each in wanted) if scores.keys() >= set(wanted) else None


def evaluate_split(name: str, rows: SplitRows, predictions: Sequence[Prediction]) -> Evaluation:
    """Score predictions for a split; if the labels are hidden, there are no scores.

    Args:
        name: The name of the split, in the form "task:split", such as "glue/rte:dev".
        rows: The examples of the split.
        predictions: The predictions, in the order of the examples.
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
