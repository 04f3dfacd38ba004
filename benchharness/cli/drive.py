"""Brings jobs, an engine and the store together: what is missing is run, and kept as it ends."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Protocol

from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Outcome
from benchharness.progress import Progress
from leaderboard.job import Job
from leaderboard.result import Failure, Result
from leaderboard.store import Store
from tasks.errors import ModelError

__all__ = ["Watcher", "drive"]


class Watcher(Protocol):
    """Who is told how the jobs go."""

    def report(self, job: Job, progress: Progress) -> None:
        """Takes what a running job says of itself."""

    def finish(self, outcome: Outcome) -> None:
        """Takes what a job has left behind."""

    def leave_out(self, job: Job) -> None:
        """Takes that a job need not run any more."""


def drive(
    jobs: Sequence[Job], engine: LocalEngine, store: Store, watcher: Watcher, *, force: bool
) -> list[Outcome]:
    """Runs jobs in their order and stores what each leaves behind; gives what was stored.

    Just before a job starts, it is left out where another process has stored its result meanwhile
    (unless `force`), or where its model could not be loaded for an earlier job.
    """
    broken: set[str] = set()
    kept: list[Outcome] = []

    def queue() -> Iterator[Job]:
        for job in jobs:
            if job.weights in broken or (not force and store.finished_keys([job.key])):
                watcher.leave_out(job)
            else:
                yield job

    with closing(engine.run(queue(), watcher.report)) as outcomes:
        for outcome in outcomes:
            if _is_broken_model(outcome):
                broken.add(outcome.job.weights)
            if force or not store.finished_keys([outcome.job.key]):
                _keep(store, outcome)
                kept.append(outcome)
            watcher.finish(outcome)
    return kept


def _is_broken_model(outcome: Outcome) -> bool:
    """Planning has read the data, so what a worker cannot read is the checkpoint."""
    return isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code


def _keep(store: Store, outcome: Outcome) -> None:
    if isinstance(outcome, Result):
        store.add_result(outcome)
    else:
        store.add_failure(outcome)
