"""Brings jobs, an engine and the store together: what is missing is run, and kept as it ends."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Protocol

from benchharness.driver.handover import Handover
from benchharness.engines.process import Engine, Outcome
from benchharness.kept_folders import SnapshotFolder
from benchharness.progress import Progress
from leaderboard.job import Job
from leaderboard.result import Failure, Result
from leaderboard.store.store import Store
from tasks.errors import JobError, ModelError

__all__ = ["Watcher", "drive"]


class Watcher(Protocol):
    """Who is told how the jobs go."""

    def report(self, job: Job, progress: Progress) -> None:
        """Takes what a running job says of itself."""

    def finish(self, outcome: Outcome) -> None:
        """Takes what a job has left behind."""

    def leave_out(self, job: Job) -> None:
        """Takes that a job need not run any more."""


def drive(  # noqa: PLR0913  (who takes part in it)
    jobs: Sequence[Job],
    engine: Engine,
    store: Store,
    watcher: Watcher,
    handover: Handover,
    *,
    force: bool,
    snapshots: SnapshotFolder | None = None,
) -> list[Outcome]:
    """Runs jobs in their order and stores what each leaves behind; gives what was stored.

    A job that starts from another of them waits until that has ended, while others go before it,
    and fails where that has failed. Just before a job starts, it is left out where another process
    has stored its result meanwhile (unless `force`), or where its model could not be loaded for an
    earlier job.
    """
    course = _Course(jobs, store, watcher, handover, force=force)
    if snapshots is not None:
        snapshots.delete_all(store.finished_keys(snapshots.keys() - course.going))
    handover.discard_damaged(course.going)
    handover.release(store, course.going)
    with closing(engine.run(course.queue(), watcher.report)) as outcomes:
        for outcome in outcomes:
            course.end(outcome)
            if snapshots is not None and _is_final(outcome):
                snapshots.delete_all([outcome.job.key])
    return course.stored


class _Course:
    """How far the jobs of a run have come.

    `going` are the keys of those that wait or run, `stored` is what they have left behind.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        store: Store,
        watcher: Watcher,
        handover: Handover,
        *,
        force: bool,
    ) -> None:
        self._waiting = list(jobs)
        self._store = store
        self._watcher = watcher
        self._handover = handover
        self._force = force
        self._broken: set[str] = set()
        self._failed: dict[str, Failure] = {}
        self.going = {job.key for job in jobs}
        self.stored: list[Outcome] = []

    def queue(self) -> Iterator[Job | None]:
        """The jobs to start, one by one; None while all that are left wait for one that runs."""
        while self._waiting:
            job = next((job for job in self._waiting if job.start_from not in self.going), None)
            if job is None:
                yield None
                continue
            self._waiting.remove(job)
            if self._is_needless(job):
                self.going.remove(job.key)
                self._watcher.leave_out(job)
            elif job.start_from in self._failed:
                self.end(_failure_after(job, self._failed[job.start_from]))
            else:
                yield job

    def end(self, outcome: Outcome) -> None:
        """Stores what a job has left behind, where it is news, and lets others start from it."""
        job = outcome.job
        if job.key not in self.going:  # an engine that sends jobs again may bring one back twice
            return
        self.going.remove(job.key)
        if isinstance(outcome, Failure):
            self._failed[job.key] = outcome
        if _is_broken_model(outcome):
            self._broken.add(job.weights)
        if _keep(self._store, outcome, force=self._force):
            self.stored.append(outcome)
        self._watcher.finish(outcome)
        if job.start_from is not None:
            self._handover.release(self._store, self.going)

    def _is_needless(self, job: Job) -> bool:
        if job.weights in self._broken:
            return True
        if self._force or not self._store.finished_keys([job.key]):
            return False
        return not self._handover.is_missing(job.key, self._store)


def _is_final(outcome: Outcome) -> bool:
    """Whether a job can come to nothing else from the state that it has kept."""
    return isinstance(outcome, Result) or outcome.kind == "diverged"


def _is_broken_model(outcome: Outcome) -> bool:
    """Planning has read the data, so what a worker cannot read is the checkpoint."""
    return isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code


def _failure_after(job: Job, failure: Failure) -> Failure:
    """The failure of a job whose start has failed."""
    return Failure(
        job=job,
        kind="failed",
        error=f"it starts from {job.started_from}, which failed: the same command tries both.",
        details=failure.error,
        exit_code=JobError.exit_code,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _keep(store: Store, outcome: Outcome, *, force: bool) -> bool:
    """Stores an outcome; without force only where no other driver has stored a result before."""
    if not force:
        return store.add_missing(outcome)
    if isinstance(outcome, Result):
        store.add_result(outcome)
    else:
        store.add_failure(outcome)
    return True
