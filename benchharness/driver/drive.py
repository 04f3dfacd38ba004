"""The only orchestration: runs what a schedule lacks, stores what each job leaves, and cleans up.

`bench run`, `bench check`, the pytest plugin and Python code call `drive`. It knows jobs, engines
and the store, and prints nothing: whoever calls it watches.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import NamedTuple

from benchharness.driver.request import Request
from benchharness.driver.schedule import Schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines.choice import Placement
from benchharness.engines.process import Outcome, ended_at_last
from benchharness.kept_folders import EVERY_SECONDS, Holds, SnapshotFolder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.models.weights import hub_revision, require_checkpoint
from benchharness.progress import Progress, Watcher
from benchharness.tasks.errors import ModelError
from benchharness.worker.fork_server import modules_of

TIMEOUT_SECONDS = 1800.0
"""A job that is silent for so long hangs, or waits for a download."""


SECONDS_BETWEEN_LOOKS = 0.5
"""How often it is looked whether another process still runs a job: one call of the kernel."""


class _Silent:
    """A watcher that shows nothing."""

    def report(self, job: Job, progress: Progress) -> None:
        pass

    def finish(self, outcome: Outcome) -> None:
        pass

    def leave_out(self, job: Job) -> None:
        pass


Watch = Callable[[Schedule, Store], AbstractContextManager[Watcher]]
"""Makes the watcher of a run, which lasts as long as the jobs do."""


def unwatched(_schedule: Schedule, _store: Store) -> AbstractContextManager[Watcher]:
    """Nobody watches."""
    return nullcontext(_Silent())


class Driven(NamedTuple):
    """A run that has ended: the store, still open, and what the jobs of this run left in it."""

    store: Store
    outcomes: Sequence[Outcome]


@contextmanager
def prepared_workers(request: Request) -> Iterator[None]:
    """While it lasts, workers on this machine start with the libraries of the request's jobs.

    Importing them takes seconds, and is done while the jobs are still planned. SIGTERM and a second
    Ctrl-C end this process soon, whatever hangs.
    """
    with ended_at_last(), request.placement.prepared(modules_of(request.kind, request.tasks)):
        yield


@contextmanager
def drive(  # noqa: PLR0913  (what runs, where, and who watches)
    schedule: Schedule,
    placement: Placement,
    db: str,
    watch: Watch = unwatched,
    *,
    timeout: float | None = TIMEOUT_SECONDS,
    snapshot_every: float = EVERY_SECONDS,
    force: bool = False,
) -> Iterator[Driven]:
    """Runs the jobs of a schedule in a place and stores what each leaves behind.

    A job that is silent for `timeout` seconds is ended (None: never). A running job keeps its state
    every `snapshot_every` seconds (0: never) and resumes from there when it is driven again. A job
    that starts from another one waits until that has ended, while others go before it, and fails
    where that has failed. A job that another process of this machine runs is waited for, while
    others go before it. Just before a job starts, it is left out where another process has stored
    its result meanwhile (unless `force`), or where its model could not be loaded for an earlier
    job. Raises ModelError before anything starts where a checkpoint can be had from nowhere.
    """
    for job in {job.weights: job for job in schedule.todo}.values():
        if (revision := hub_revision(job.weights)) is not None:
            require_checkpoint(job.checkpoint, revision)
    holds = schedule.checkpoints.holds
    snapshots = SnapshotFolder.of(schedule.checkpoints.folder.parent, snapshot_every)
    engine = placement.engine(
        timeout=timeout,
        checkpoints=schedule.checkpoints.folder,
        keep=schedule.starts,
        snapshots=snapshots,
        holds=holds,
    )
    with open_store(db) as store:
        with closing(holds), watch(schedule, store) as watcher:
            run = _Run(schedule, store, watcher, snapshots, force=force)
            _delete_finished(snapshots, holds, store, run.going)
            schedule.checkpoints.release(store, run.going)
            with closing(engine.run(run.queue(), watcher.report)) as outcomes:
                for outcome in outcomes:
                    run.end(outcome)
        yield Driven(store, run.stored)


class _Run:
    """How far the jobs of a run have come.

    `going` are the keys of those that wait or run, `stored` is what they have left behind. A job
    that runs is held, from before its result is looked for until that is stored. So of several
    processes one runs it, and the others wait and take the result, or run it after one that died.
    """

    def __init__(
        self,
        schedule: Schedule,
        store: Store,
        watcher: Watcher,
        snapshots: SnapshotFolder | None,
        *,
        force: bool,
    ) -> None:
        self._waiting = list(schedule.todo)
        self._snapshots = snapshots
        self._checkpoints: StartCheckpoints = schedule.checkpoints
        self._holds = schedule.checkpoints.holds
        self._looks: dict[str, float] = {}  # when to look next at what others run
        self._store = store
        self._watcher = watcher
        self._force = force
        self._broken: set[str] = set()
        self._failed: dict[str, Failure] = {}
        self.going = {job.key for job in schedule.todo}
        self.stored: list[Outcome] = []

    def queue(self) -> Iterator[Job | None]:
        """The jobs to start, one by one; None while all that are left wait for one that runs.

        While all that are left are run by other processes, it waits itself.
        """
        while self._waiting:
            ready = (job for job in self._waiting if job.start_from not in self.going)
            job = next(filter(self._hold, ready), None)
            if job is None:
                if len(self.going) > len(self._waiting):  # some run here
                    yield None
                else:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            self._waiting.remove(job)
            self._checkpoints.discard_damaged(job.key)
            if self._is_needless(job):
                self.going.remove(job.key)
                self._release(job)
                self._watcher.leave_out(job)
            elif job.start_from in self._failed:
                self.end(
                    Failure.of(
                        job,
                        "failed",
                        f"it starts from {job.started_from}, which failed: "
                        "the same command retries both.",
                        self._failed[job.start_from].error,
                    )
                )
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
        # Planning has read the data, so what a worker cannot read is the checkpoint.
        if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
            self._broken.add(job.weights)
        if _keep(self._store, outcome, force=self._force):
            self.stored.append(outcome)
        if self._snapshots is not None and _is_final(outcome):
            self._snapshots.delete_all([job.key])
        self._release(job)
        self._watcher.finish(outcome)

    def _release(self, job: Job) -> None:
        """Lets go of a job that has ended, here or elsewhere, and of what it has started from."""
        self._holds.release(job.key)
        if job.start_from is not None:
            self._checkpoints.release(self._store, self.going)

    def _hold(self, job: Job) -> bool:
        """Takes a job for this process; says once that another one has it."""
        if time.monotonic() < self._looks.get(job.key, 0.0):
            return False
        if self._holds.take(job.key):
            return True
        is_known = job.key in self._looks
        note = "" if is_known else f"is run by {self._holds.holder(job.key)}, and is waited for"
        self._watcher.report(job, Progress(phase="waiting", note=note))
        self._looks[job.key] = time.monotonic() + SECONDS_BETWEEN_LOOKS
        return False

    def _is_needless(self, job: Job) -> bool:
        if job.weights in self._broken:
            return True
        if self._force or not self._store.finished_keys([job.key]):
            return False
        return not self._checkpoints.is_missing(job.key, self._store)


def _delete_finished(
    snapshots: SnapshotFolder | None, holds: Holds, store: Store, going: set[str]
) -> None:
    """Deletes what stored jobs have kept that nobody runs, of a driver that was killed."""
    if snapshots is None:
        return
    for key in store.finished_keys(snapshots.keys() - going):
        if holds.take(key):
            snapshots.delete_all([key])
            holds.release(key)


def _is_final(outcome: Outcome) -> bool:
    """Whether a job can come to nothing else from the state that it has kept."""
    return isinstance(outcome, Result) or outcome.kind == "diverged"


def _keep(store: Store, outcome: Outcome, *, force: bool) -> bool:
    """Stores an outcome; without force only where no other driver has stored a result before."""
    if not force:
        return store.add_missing(outcome)
    if isinstance(outcome, Result):
        store.add_result(outcome)
    else:
        store.add_failure(outcome)
    return True
