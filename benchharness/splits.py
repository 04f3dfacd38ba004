"""The splits of a job: its rows read as they were planned, its predictions scored."""

from collections.abc import Sequence

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Evaluation, to_row
from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import Prediction
from benchharness.tasks.metrics.classification import prediction_flags
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import is_hidden, score


class ChangedRowsError(DataError):
    """A split no longer has the rows that a job was planned with."""


def read_split(job: Job, name: str) -> SplitRows:
    """The rows of "task:split"; ChangedRowsError where the job was planned with others."""
    task, split = name.rsplit(":", 1)
    rows = read(find_task(task), split, parse_data(job.data), job.limit)
    if rows.fingerprint != job.fingerprints[name]:
        raise ChangedRowsError(
            f"{task} {split} ({job.data}) has changed since this run was planned: its rows have "
            f"the digest {rows.fingerprint[:12]}, not {job.fingerprints[name][:12]}; start again."
        )
    return rows


def evaluate_split(name: str, rows: SplitRows, predictions: Sequence[Prediction]) -> Evaluation:
    """The scores of the predictions of "task:split"; none where its labels are hidden."""
    task_name, split = name.rsplit(":", 1)
    task, hidden = find_task(task_name), any(map(is_hidden, rows.examples))
    return Evaluation(
        task=task_name,
        split=split,
        fingerprint=rows.fingerprint,
        scores={} if hidden else score(task, split, predictions, rows.examples),
        predictions=tuple(map(to_row, predictions)),
        flags=prediction_flags(predictions),
    )
