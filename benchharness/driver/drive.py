"""Driver of a schedule: runs the missing jobs, stores each outcome, and cleans up.

It knows jobs, engines and the store. It prints nothing: its caller passes a watcher.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from types import TracebackType
from typing import NamedTuple

from benchharness.driver.live import LiveFile
from benchharness.driver.options import RunOptions
from benchharness.driver.request import Request
from benchharness.driver.schedule import Schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines.local import Placement
from benchharness.engines.process import Orders, Outcome, ended_at_last
from benchharness.errors import (
    BusyStoreError,
    DataError,
    ForeignCodeError,
    ModelError,
    StoreError,
)
from benchharness.kept_folders import Holds, SnapshotFolder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.database import BUSY_SECONDS, is_there
from benchharness.leaderboard.store.store import Store, as_store_error, open_store
from benchharness.models.weights import hub_revision, require_checkpoint
from benchharness.progress import Progress, Watcher, job_name
from benchharness.tasks.custom import code_of
from benchharness.tasks.foreign_code import name_code, require_named
from benchharness.worker.fork_server import modules_of

SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds between two checks whether another process still runs a job; each is one system call."""


Watch = Callable[[Schedule, Store], AbstractContextManager[Watcher]]
"""Function that creates the watcher of a run, as a context that lasts as long as the jobs."""


def unwatched(_schedule: Schedule, _store: Store) -> AbstractContextManager[Watcher]:
    """Return a watcher that shows nothing."""
    return nullcontext(Watcher())


class Driven(NamedTuple):
    """Finished run: its schedule, the store (still open), and the new outcomes of its jobs.

    Attributes:
        schedule: Schedule that was driven.
        store: Store of the results.
        outcomes: Results and failures of this run. The failure of a job of a stored run, which ran
            again for its network alone, is included, but it is not stored.
        again: Results of jobs that ran again for their network alone; the store keeps the earlier
            ones.
    """

    schedule: Schedule
    store: Store
    outcomes: Sequence[Outcome]
    again: Sequence[Result] = ()


@contextmanager
def prepared_workers(request: Request, options: RunOptions) -> Iterator[None]:
    """Preload the libraries of the request's jobs in the parent of local workers.

    Importing them takes seconds, so it overlaps with planning. It is skipped if the store seems to
    hold all results, since then most likely no job will start. Within the context, SIGTERM or a
    second Ctrl-C ends this process soon, even if something hangs.
    """
    modules = () if _seem_stored(request, options) else modules_of(request.kind, request.tasks)
    with ended_at_last(), request.placement.prepared(modules):
        yield


def _seem_stored(request: Request, options: RunOptions) -> bool:
    """Return whether the store has at least as many runs as are requested, with any recipe."""
    if options.force or not is_there(options.db):
        return False
    tasks = {task.name for task in request.tasks}
    # A baseline has one run per task, whatever the seeds.
    runs = {m.name: 1 if m.is_baseline else len(request.seeds) for m in request.models}
    try:
        with open_store(options.db, create=False) as store:
            stored = store.count(model=set(runs), task=tasks)
    except StoreError:  # a server without tables; the schedule reports any other error
        return False
    return stored >= len(tasks) * sum(runs.values())


@contextmanager
def drive(
    schedule: Schedule,
    placement: Placement,
    options: RunOptions,
    watch: Watch = unwatched,
    until: float = math.inf,
) -> Iterator[Driven]:
    """Run the jobs of a schedule and store each outcome; yield the finished run.

    A job that makes no progress for the `timeout` of the options is ended. A running job saves its
    state and resumes from it when it is driven again. A job that starts from another job waits for
    it, while other jobs run, and fails if that job failed. A job that another process of this
    machine runs is waited for, while other jobs run. Just before a job starts, it is skipped if
    another process has stored its result meanwhile (unless `force`), or if its model could not be
    loaded for an earlier job. An outcome that cannot be stored is kept in a file next to the store,
    and the run goes on.

    Args:
        schedule: Jobs to run, in order.
        placement: Engine and slots that run the jobs.
        options: Options of the run: timeouts, trust, `force` and the database.
        watch: Creates the watcher that receives progress and outcomes.
        until: Time on the monotonic clock after which no job starts.

    Raises:
        ModelError: A checkpoint cannot be found, or quick checks show that it cannot be loaded;
            raised before anything starts.
        ForeignCodeError: A stored job that runs again needs third-party code that was not trusted.
        StoreError: An outcome is still not stored when the run ends.
    """
    holds = schedule.checkpoints.holds
    with holds.unless_it_fails():
        # Each checkpoint once, and once more if its decoder is needed.
        for job in {(job.weights, job.as_text): job for job in schedule.todo}.values():
            revision = hub_revision(job.weights)
            require_checkpoint(job.checkpoint, revision, job.trust, whole=job.as_text)
        folder = schedule.checkpoints.folder.parent
        snapshots = SnapshotFolder.of(folder, 60 * options.checkpoint_every)
        engine = placement.engine(
            Orders(
                timeout=options.timeout or math.inf,
                checkpoints=schedule.checkpoints.folder,
                keep={*schedule.starts, *schedule.checkpoints.kept},
                snapshots=snapshots,
                holds=holds,
            )
        )
    with holds.unless_it_fails(), open_store(options.db) as store:
        store.keep_named_code()
        _require_trust(schedule, options)
        with (
            # They end from last to first: the locks are released when no worker runs any more and
            # the waiting outcomes are written.
            closing(holds),
            watch(schedule, store) as shown,
            LiveFile(shown, schedule, folder) as watcher,
        ):
            keeping = _Keeping(store, watcher, force=options.force)
            run = _Run(schedule, keeping, snapshots, until)
            _delete_finished(snapshots, holds, store, run.going)
            schedule.checkpoints.release(store, run.going)
            with keeping, closing(engine.run(run.queue(), run.report)) as outcomes:
                for outcome in outcomes:
                    run.end(outcome)
            schedule.checkpoints.release(store, run.going)
        yield Driven(schedule, store, run.stored, run.again)


def _require_trust(schedule: Schedule, options: RunOptions) -> None:
    """Raise ForeignCodeError if a job needs third-party code that only the store names.

    The code need not have run on this machine. Newly planned jobs carry the user's permissions; a
    job that is run again, or that another job starts or learns from, carries those it was stored
    with.
    """
    keys = {key for job in schedule.todo for key in (job.key, *job.needs)}
    for job in schedule.jobs:
        if job.key not in keys:
            continue
        code = code_of(job.definition)
        if options.trust_remote_code:
            name_code(code)
        require_named(code)
        if job.trust.remote_code and not options.trust_remote_code:
            raise ForeignCodeError(
                f"run {job.key[:12]} ({job_name(job)}) needs the Python code that "
                f"{job.checkpoint} comes with: read it, then give --trust-remote-code."
            )


class _Run:
    """Progress of a run: the jobs that wait, run or have ended.

    A running job is locked from before its result is looked up until the result is stored. Of
    several processes only one runs it, while the others wait and use the result, or run the job if
    that process died.

    Attributes:
        going: Keys of the jobs that wait or run.
        stored: Outcomes of this run.
        again: Results of jobs that ran again for their network alone, as in `Driven`.
    """

    def __init__(
        self,
        schedule: Schedule,
        keeping: "_Keeping",
        snapshots: SnapshotFolder | None,
        until: float,
    ) -> None:
        self._until = until
        self._waiting = list(schedule.todo)
        self._snapshots = snapshots
        self._checkpoints: StartCheckpoints = schedule.checkpoints
        self._holds = schedule.checkpoints.holds
        self._looks: dict[str, float] = {}  # when to check again a job of another process
        self._watcher = keeping.watcher
        self._states = _States()
        self._keeping = keeping
        self._broken: set[str] = set()
        self._failed: dict[str, Failure] = {}
        self.going = {job.key for job in schedule.todo}
        self.stored: list[Outcome] = []
        self.again: list[Result] = []
        self._stored_before = schedule.again

    def queue(self) -> Iterator[Job | None]:
        """Yield the jobs to start, one by one, and None while all others wait for a running job.

        If other processes run all the jobs that are left, it sleeps until one is free.
        """
        while self._waiting:
            if time.monotonic() >= self._until:
                self._leave_out_the_rest()
                return
            # `going` has waiting and running jobs, so a job that needs one of them is not ready.
            # The test `_hold` locks a job, so both iterators must stay lazy: a list would lock all
            # of them.
            ready = (job for job in self._waiting if self.going.isdisjoint(job.needs))
            job = next(filter(self._hold, ready), None)
            if job is None:
                if len(self.going) > len(self._waiting):  # some run here
                    yield None
                else:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            self._waiting.remove(job)
            # From here on no other process runs this job. Its result is looked up only now, because
            # another process may have stored it just before releasing the lock.
            self._checkpoints.discard_damaged(job.key)
            if self._is_needless(job):
                self._checkpoints.stay([job.key])
                self.going.remove(job.key)
                self._release(job)
                self._watcher.leave_out(job)
            elif failed := [key for key in job.needs if key in self._failed]:
                before = f"learns from {job.shown_teacher}"
                if failed[0] == job.start_from:
                    before = f"starts from {job.started_from}"
                self.end(
                    Failure.of(
                        job,
                        "failed",
                        f"it {before}, which failed: the same command retries both.",
                        self._failed[failed[0]].error,
                    )
                )
            else:
                yield job

    def _leave_out_the_rest(self) -> None:
        """Skip all waiting jobs."""
        while self._waiting:
            job = self._waiting.pop()
            self.going.remove(job.key)
            self._release(job)
            self._watcher.leave_out(job)

    def report(self, job: Job, progress: Progress) -> None:
        """Pass the progress of a running job to the watcher."""
        if progress.is_kept is not None:
            progress = replace(progress, note=self._states.note(job.key, progress))
        self._watcher.report(job, progress)

    def end(self, outcome: Outcome) -> None:
        """Store the outcome of a job if it is new, and release the jobs that wait for it."""
        job = outcome.job
        if job.key not in self.going:  # an engine that resubmits jobs may return one twice
            return
        self.going.remove(job.key)
        self._states.lacking.discard(job.key)
        if isinstance(outcome, Failure):
            self._failed[job.key] = outcome
        # Planning has read the data, so an error about unreadable input is about the checkpoint.
        if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
            self._broken.add(job.weights)
        self._checkpoints.stay([job.key])  # before its result is stored
        is_news = self._keeping.put(outcome, is_last=not self.going)
        was_stored = job.key in self._stored_before
        if is_news or (was_stored and isinstance(outcome, Failure)):
            self.stored.append(outcome)
        elif was_stored and isinstance(outcome, Result):
            self.again.append(outcome)
        # An outcome that is only in memory may still be lost; then the snapshot saves the hours of
        # training.
        if self._snapshots is not None and _is_final(outcome) and self._keeping.is_safe(outcome):
            self._snapshots.delete_all([job.key])
        self._release(job)
        self._watcher.finish(outcome)

    def _release(self, job: Job) -> None:
        """Unlock a job that has ended, here or elsewhere, and delete networks no longer needed."""
        self._holds.release(job.key)
        if job.needs:
            with suppress(StoreError):  # repeated when the next job or the run ends
                self._checkpoints.release(self._keeping.store, self.going)

    def _hold(self, job: Job) -> bool:
        """Lock a job for this process; report once if another process holds it."""
        if time.monotonic() < self._looks.get(job.key, 0.0):
            return False
        if self._holds.take(job.key):
            return True
        is_known = job.key in self._looks
        note = (
            "" if is_known else f"is already run by {self._holds.holder(job.key)}; waiting for it"
        )
        self._watcher.report(job, Progress(phase="waiting", note=note))
        self._looks[job.key] = time.monotonic() + SECONDS_BETWEEN_LOOKS
        return False

    def _is_needless(self, job: Job) -> bool:
        if job.weights in self._broken:
            return True
        with suppress(StoreError):  # if the store cannot be read, the job runs
            if self._keeping.force or not self._keeping.store.finished_keys([job.key]):
                return False
            return not self._checkpoints.is_missing(job.key, self._keeping.store)
        return False


class _States:
    """Notes about snapshots: one when they cannot be written, and one when they can again.

    Attributes:
        lacking: Keys of running jobs whose last snapshot could not be written.
    """

    def __init__(self) -> None:
        self.lacking: set[str] = set()
        self._is_told = False

    def note(self, key: str, progress: Progress) -> str:
        """Return the note about a job's attempt to write a snapshot, empty if already known."""
        was_told = self._is_told
        # The first job that cannot write is reported for all. The recovery is reported once, when
        # no running job lacks its last snapshot any more.
        if not progress.is_kept:
            self.lacking.add(key)
            self._is_told = True
            return "" if was_told else progress.note
        self.lacking.discard(key)
        self._is_told = was_told and bool(self.lacking)
        return "saves its state again, as all jobs do" if was_told and not self._is_told else ""


def _delete_finished(
    snapshots: SnapshotFolder | None, holds: Holds, store: Store, going: set[str]
) -> None:
    """Delete the snapshots of stored jobs that no process runs, left by a killed driver."""
    if snapshots is None:
        return
    for key in store.finished_keys(snapshots.keys() - going):
        if holds.take(key):
            snapshots.delete_all([key])
            holds.release(key)


def _is_final(outcome: Outcome) -> bool:
    """Return whether resuming the job from its snapshot could not change its outcome."""
    return isinstance(outcome, Result) or outcome.kind == "diverged"


# Outcomes that cannot be stored, because another process holds the database or the disk is full.

PATIENCE_SECONDS = 10.0
"""Seconds that a job's end may wait for the store; running jobs are not listened to meanwhile."""

HURRIED_SECONDS = 0.5
"""Seconds to wait while an outcome waits already, so that a locked store slows no job down."""


class _Keeping:
    """Writer of outcomes, which retries those that the store does not accept.

    Such an outcome waits in a file next to the store, or in memory if that fails. It is stored when
    the next job ends, or with the last job, which waits as long as any write does for a locked
    database. Use it as a context manager.

    Raises:
        StoreError: An outcome is still not stored at the end; raised by `__exit__`.
    """

    def __init__(self, store: Store, watcher: Watcher, *, force: bool) -> None:
        self._store, self.watcher, self.force = store, watcher, force
        self._patient, self._hurried = map(store.hurried, (PATIENCE_SECONDS, HURRIED_SECONDS))
        self._waiting = 0
        self._folders: dict[str, None] = {}
        self._in_memory: list[Outcome] = []
        self._error: StoreError | None = None
        self._patience = float(BUSY_SECONDS)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._waiting or (kind is None and self._take_within(self._patience)):
            return
        self._write_out()
        if kind is None:
            raise StoreError(*self._sentences())

    @property
    def store(self) -> Store:
        """Store with a timeout that does not hold up the running jobs."""
        return self._hurried if self._waiting else self._patient

    def is_safe(self, outcome: Outcome) -> bool:
        """Return whether the outcome is on disk."""
        return all(one is not outcome for one in self._in_memory)

    def put(self, outcome: Outcome, *, is_last: bool) -> bool:
        """Store an outcome now or later; return False if another driver has stored a result."""
        try:
            is_news = _add(self.store, outcome, force=self.force)
        except StoreError as error:
            self._keep(outcome, error)
            is_news = True
        # During a run one attempt suffices; the last outcome may wait as long as any write.
        if self._waiting and self._take_within(self._patience if is_last else 0.0):
            self._tell(
                outcome, "can write to its leaderboard again; the waiting results are stored"
            )
            self._waiting = 0
        if is_last:  # wait only once
            self._patience = 0.0
        return is_news

    def _keep(self, outcome: Outcome, error: StoreError) -> None:
        self._error = error
        where = "memory"
        try:
            where = self._write(outcome)
        except (OSError, DataError):
            self._in_memory.append(outcome)
        if not self._waiting:
            # The store has been locked at least since the first attempt, with the long timeout,
            # began to wait.
            self._hurried = self._store.hurried(
                HURRIED_SECONDS, since=time.monotonic() - PATIENCE_SECONDS
            )
            self._tell(
                outcome, f"has ended, and its result waits in {where}, because {self._error}"
            )
        self._waiting += 1

    def _write(self, outcome: Outcome) -> str:
        """Write an outcome to a file next to the store, and return the folder."""
        folder = str(self._store.keep(outcome, force=self.force).parent)
        self._folders[folder] = None
        return folder

    def _take_within(self, seconds: float) -> bool:
        """Store all waiting outcomes, with retries if the database is locked; return success."""
        end = time.monotonic() + seconds
        while not self._take():
            if not isinstance(self._error, BusyStoreError) or time.monotonic() >= end:
                return False
            time.sleep(min(1.0, seconds))
        return True

    def _take(self) -> bool:
        try:
            while self._in_memory:
                _add(self._hurried, self._in_memory[0], force=self.force)
                # One by one: a stored outcome must not be stored again if the next one fails.
                del self._in_memory[0]
            self._hurried.take_kept()
        except StoreError as error:
            self._error = error
            return False
        return True

    def _write_out(self) -> None:
        """Try once more to write the outcomes in memory to files next to the store."""
        for outcome in tuple(self._in_memory):
            with suppress(OSError, DataError):
                self._write(outcome)
                self._in_memory.remove(outcome)

    def _sentences(self) -> list[str]:
        lost = [job_name(outcome.job) for outcome in self._in_memory]
        kept = self._waiting - len(lost)
        parts = [str(self._error)]
        if kept:
            jobs = "a job" if kept == 1 else f"{kept} jobs"
            parts.append(
                f"The results of {jobs} wait in {' and '.join(self._folders)} and enter the "
                "leaderboard with the next command that writes to it."
            )
        if lost:
            parts.append(
                f"There was no room for the results of {', '.join(lost)}: the same command "
                "runs them again, from their newest state."
            )
        return parts

    def _tell(self, outcome: Outcome, note: str) -> None:
        progress = Progress(phase="saving", note=note.rstrip("."))
        self.watcher.report(outcome.job, progress)


def _add(store: Store, outcome: Outcome, *, force: bool) -> bool:
    """Store an outcome and return whether it is new.

    Unless `force` is set, an outcome is not stored if another driver has stored a result already.
    """
    with as_store_error(f"the result of {job_name(outcome.job)}"):
        if not force:
            return store.add_missing(outcome)
        if isinstance(outcome, Result):
            store.add_result(outcome)
        else:
            store.add_failure(outcome)
        return True
