"""What stored runs have predicted, and the examples that they predicted, read again and checked."""

from collections.abc import Iterable

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store
from benchharness.splits import read_split
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import Example
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import Task


class UnreadableError(Exception):
    """The examples cannot be had; says why."""


class StoredPredictions:
    """The finished runs of a store, with their predictions, and the rows that these are for.

    A store keeps no examples, which may not be passed on. They are read again as the run read them
    and must have the fingerprint that it saw. Rows of one fingerprint are read once and kept, so an
    object of this class should live no longer than the runs that share them are looked at.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[str, SplitRows] = {}

    def result(self, key: str) -> Result:
        """A finished run, complete."""
        result = self._store.result(key)
        assert isinstance(result, Result), "a finished run has a result"
        return result

    def rows(self, job: Job, name: str) -> SplitRows:
        """The rows of "task:split" that the job predicted.

        Raises DataError where they cannot be read, and ChangedRowsError where they are others now.
        """
        fingerprint = job.fingerprints[name]
        if fingerprint not in self._rows:
            self._rows[fingerprint] = read_split(job, name)
        return self._rows[fingerprint]

    def labelled_examples(self, name: str, jobs: Iterable[Job]) -> tuple[Example, ...]:
        """The examples of "task:split" with their labels, from the first source that has them.

        Raises UnreadableError where no job's source has them any more, or where labels are hidden.
        """
        reasons = []
        for job in {job.data: job for job in jobs}.values():
            try:
                examples = self.rows(job, name).examples
            except BenchError as error:
                reasons.append(str(error))
                continue
            if not any(e.is_hidden for e in examples):
                return examples
            reasons.append(f"{name.replace(':', ' ')} hides its labels there.")
        raise UnreadableError("its examples could not be read: " + " ".join(reasons))


def splits_of(task: Task, kind: str) -> tuple[str, ...]:
    """The dev splits or the test splits; of a diagnostic set the only one."""
    found = (task.dev_splits or task.test_splits) if kind == "dev" else task.test_splits
    if not found:
        raise BenchError(f"{task.name} has no {kind} split: leave it out with --task.")
    return found
