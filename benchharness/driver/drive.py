"""The driver, which runs the missing jobs of a schedule, stores their outcomes, and cleans up.

It prints nothing itself, but notifies a watcher that its caller passes.
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
"""Seconds between two checks of whether another process still runs a job. Each check is a single
system call."""


Watch = Callable[[Schedule, Store], AbstractContextManager[Watcher]]
"""Type of functions that get the schedule and the open store of a run and return a context manager.
The context manager yields the watcher that observes the run, and the jobs run inside its block."""


def unwatched(_schedule: Schedule, _store: Store) -> AbstractContextManager[Watcher]:
    """Return a context manager that yields a watcher that ignores all progress."""
    return nullcontext(Watcher())


class Driven(NamedTuple):
    """Outcomes of a run that has ended, with its schedule and the open store.

    A job that already has a stored result is run again if its trained model is needed but missing.
    Its new result or failure is not stored, and the earlier result stays.

    Attributes:
        schedule: The schedule of the run.
        store: The database of results, which is still open.
        outcomes: The results and failures that this run stored, and also the failures of jobs that
            were run again.
        again: The new results of jobs that were run again.
    """

    schedule: Schedule
    store: Store
    outcomes: Sequence[Outcome]
    again: Sequence[Result] = ()


@contextmanager
def prepared_workers(request: Request, options: RunOptions) -> Iterator[None]:
    """Context manager in which the fork server imports the libraries that the jobs will need.

    The fork server is the process from which worker processes are forked. The import takes seconds
    and happens in parallel with the planning of the run. It is skipped if the database seems to
    have all results already, because probably no job will then start. Within the context, SIGTERM
    or a second Ctrl-C ends this process after some seconds, even if the process hangs.

    Args:
        request: The checked request of the run.
        options: The options of the run.
    """
    modules = () if _seem_stored(request, options) else modules_of(request.kind, request.tasks)
    with ended_at_last(), request.placement.prepared(modules):
        yield


def _seem_stored(request: Request, options: RunOptions) -> bool:
    """Return whether the database has at least as many runs of these models and tasks as requested.

    Their recipes are not compared.
    """
    if options.force or not is_there(options.db):
        return False
    tasks = {task.name for task in request.tasks}
    # A baseline runs once per task, whatever the number of seeds.
    runs = {m.name: 1 if m.is_baseline else len(request.seeds) for m in request.models}
    try:
        with open_store(options.db, create=False) as store:
            stored = store.count(model=set(runs), task=tasks)
    except StoreError:
        # A new database on a server has no leaderboard yet. Other errors are reported later, when
        # the run is scheduled.
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
    """Context manager that runs the jobs of a schedule and yields the outcomes after the last job.

    A job that makes no progress for `options.timeout` seconds is ended. Running jobs save their
    training states, so that a job that is interrupted resumes in the next run. A job that needs the
    model of another job waits until the other job has ended, and fails if the other job failed. If
    another process on this machine already runs one of the jobs, this process uses its result, and
    runs other jobs meanwhile.

    A job is skipped if another process has stored its result meanwhile (unless `options.force` is
    set, or the job's trained model is needed but missing), if an earlier job could not load the
    same checkpoint, or if the time `until` has passed. An outcome that cannot be stored is kept in
    a file next to the database, and the run continues.

    Args:
        schedule: The schedule of the jobs.
        placement: The engine that runs the jobs, and the slots in which they run concurrently.
        options: The options of the run.
        watch: A function that creates the watcher, which receives progress and outcomes.
        until: The time after which no job is started, in seconds of `time.monotonic`.

    Yields:
        The outcomes, with the schedule and the open store.

    Raises:
        ModelError: A checkpoint cannot be found, or quick checks show that it cannot be loaded.
            This error is raised before any job starts.
        ForeignCodeError: A job needs third-party code that the user does not trust.
        StoreError: An outcome could still not be stored at the end of the run.
    """
    holds = schedule.checkpoints.holds
    with holds.unless_it_fails():
        # Check each checkpoint once, and once more if a job needs its decoder.
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
            # The context managers are closed in reverse order, so the locks are released only after
            # all workers have ended and all outcomes are written.
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
    """Raise ForeignCodeError if a job needs third-party code that this user has not permitted.

    Newly planned jobs have the permissions of this user. But a stored job that runs again, or whose
    model another job needs, may name code that only another user has permitted.
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
                f"run {job.key[:12]} ({job_name(job)}) needs the Python code that comes with "
                f"{job.checkpoint}: read the code, then pass --trust-remote-code."
            )


class _Run:
    """Queue of a run's jobs, which chooses the next job to start and handles the outcomes.

    Several processes may have to run the same job. Each of them locks the job before it looks for a
    stored result, and unlocks it after the result is stored. So only one process runs the job. The
    others wait and then use its result, or run the job if that process was killed.

    Attributes:
        going: The keys of jobs that have not ended.
        stored: The outcomes so far, as in `Driven.outcomes`.
        again: The results that are not stored, as in `Driven.again`.
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
        self._looks: dict[str, float] = {}  # time of the next check of a locked job
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
        """Yield the next job to start, or None while all waiting jobs must wait for a running job.

        If all waiting jobs are run by other processes, this sleeps until one is unlocked.
        """
        while self._waiting:
            if time.monotonic() >= self._until:
                self._leave_out_the_rest()
                return
            # A job is ready if all jobs that it needs have ended, so that none of them is in
            # `going`. Because `_hold` locks a job, both iterators must be lazy: in a list, all
            # jobs would be locked.
            ready = (job for job in self._waiting if self.going.isdisjoint(job.needs))
            job = next(filter(self._hold, ready), None)
            if job is None:
                if len(self.going) > len(self._waiting):  # some jobs run in this process
                    yield None
                else:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            self._waiting.remove(job)
            # The job is now locked, so no other process runs it. Its result is looked up only now,
            # because another process may have stored it just before it released the lock.
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
                        f"the job {before}, which failed: run the same command to retry both.",
                        self._failed[failed[0]].error,
                    )
                )
            else:
                yield job

    def _leave_out_the_rest(self) -> None:
        """Skip all waiting jobs, because the time limit has passed."""
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
        """Handle the end of a job: store the outcome if it is new, unlock the job, and clean up."""
        job = outcome.job
        if job.key not in self.going:  # an engine that resubmits jobs may yield an outcome twice
            return
        self.going.remove(job.key)
        self._states.lacking.discard(job.key)
        if isinstance(outcome, Failure):
            self._failed[job.key] = outcome
        # The data were already read during planning, so input that cannot be read must be the
        # checkpoint. Other jobs with this checkpoint are skipped.
        if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
            self._broken.add(job.weights)
        self._checkpoints.discard_drafts(job.key)
        self._checkpoints.stay([job.key])  # this must happen before the result is stored
        is_news = self._keeping.put(outcome, is_last=not self.going)
        was_stored = job.key in self._stored_before
        if is_news or (was_stored and isinstance(outcome, Failure)):
            self.stored.append(outcome)
        elif was_stored and isinstance(outcome, Result):
            self.again.append(outcome)
        # An outcome that is only in memory may still be lost. In this case, keep the snapshot (the
        # saved training state), so that the job need not start over.
        if self._snapshots is not None and _is_final(outcome) and self._keeping.is_safe(outcome):
            self._snapshots.delete_all([job.key])
        self._release(job)
        self._watcher.finish(outcome)

    def _release(self, job: Job) -> None:
        """Unlock a job that has ended, and delete trained models that no job needs any more."""
        self._holds.release(job.key)
        if job.needs:
            with suppress(StoreError):  # this is tried again when the next job or the run ends
                self._checkpoints.release(self._keeping.store, self.going)

    def _hold(self, job: Job) -> bool:
        """Try to lock a job for this process; return False if another process has locked it.

        The first time, the watcher is notified that the job waits for another process.
        """
        if time.monotonic() < self._looks.get(job.key, 0.0):
            return False
        if self._holds.take(job.key):
            return True
        is_known = job.key in self._looks
        note = (
            ""
            if is_known
            else f"is already being run by {self._holds.holder(job.key)}; waiting for its result"
        )
        self._watcher.report(job, Progress(phase="waiting", note=note))
        self._looks[job.key] = time.monotonic() + SECONDS_BETWEEN_LOOKS
        return False

    def _is_needless(self, job: Job) -> bool:
        if job.weights in self._broken:
            return True
        with suppress(StoreError):  # if the store cannot be read, run the job
            if self._keeping.force or not self._keeping.store.finished_keys([job.key]):
                return False
            return not self._checkpoints.is_missing(job.key, self._keeping.store)
        return False


class _States:
    """Record of the jobs that cannot write snapshots, which limits the number of notes about them.

    The user gets one note when the first snapshot cannot be written, and another note when all jobs
    can write snapshots again.

    Attributes:
        lacking: The keys of running jobs whose last snapshot could not be written.
    """

    def __init__(self) -> None:
        self.lacking: set[str] = set()
        self._is_told = False

    def note(self, key: str, progress: Progress) -> str:
        """Return a note about a job's attempt to write a snapshot, or "" if nothing is new."""
        was_told = self._is_told
        # Only the first job that cannot write its snapshot is reported. The recovery is reported
        # once, when the last snapshots of all running jobs have been written.
        if not progress.is_kept:
            self.lacking.add(key)
            self._is_told = True
            return "" if was_told else progress.note
        self.lacking.discard(key)
        self._is_told = was_told and bool(self.lacking)
        is_over = was_told and not self._is_told
        return "saves its state again, and so do all other jobs" if is_over else ""


def _delete_finished(
    snapshots: SnapshotFolder | None, holds: Holds, store: Store, going: set[str]
) -> None:
    """Delete snapshots of jobs that have a stored result and are not running.

    A driver that was killed may have left them.
    """
    if snapshots is None:
        return
    for key in store.finished_keys(snapshots.keys() - going):
        if holds.take(key):
            snapshots.delete_all([key])
            holds.release(key)


def _is_final(outcome: Outcome) -> bool:
    """Return whether a job would have the same outcome if it resumed from its snapshot."""
    return isinstance(outcome, Result) or outcome.kind == "diverged"


# Keep outcomes that cannot be stored yet, because the database is locked or the disk is full.

PATIENCE_SECONDS = 10.0
"""Seconds to wait for a locked database when a job ends. While the driver waits, it does not read
the output of running jobs."""

HURRIED_SECONDS = 0.5
"""Seconds to wait for a locked database if an earlier outcome could not be stored. The time is
short, so that a database that stays locked does not slow down the jobs."""


class _Keeping:
    """Context manager that stores outcomes, and tries again later if one cannot be stored.

    Meanwhile, the outcome is kept in a file next to the database, or in memory if the file cannot
    be written. Whenever a job ends, the object tries once more to store all outcomes; after the
    last job, it tries for up to BUSY_SECONDS. If an outcome is still not stored at the end of the
    block, StoreError is raised.
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
        """Store that waits only a short time for locks, so that running jobs are not delayed."""
        return self._hurried if self._waiting else self._patient

    def is_safe(self, outcome: Outcome) -> bool:
        """Return whether the outcome is stored or in a file, and not only in memory."""
        return all(one is not outcome for one in self._in_memory)

    def put(self, outcome: Outcome, *, is_last: bool) -> bool:
        """Store an outcome now or later; return False if another process has stored a result."""
        try:
            is_news = _add(self.store, outcome, force=self.force)
        except StoreError as error:
            self._keep(outcome, error)
            is_news = True
        # During the run, try once to store earlier outcomes; after the last job, try for longer.
        if self._waiting and self._take_within(self._patience if is_last else 0.0):
            self._tell(
                outcome, "can write to the leaderboard again; all waiting results are stored"
            )
            self._waiting = 0
        if is_last:  # do not wait this long again in `__exit__`
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
            # The failed attempt began PATIENCE_SECONDS ago, and the store was locked from then on.
            self._hurried = self._store.hurried(
                HURRIED_SECONDS, since=time.monotonic() - PATIENCE_SECONDS
            )
            self._tell(
                outcome,
                f"has ended; its result is kept in {where} for now, because {self._error}",
            )
        self._waiting += 1

    def _write(self, outcome: Outcome) -> str:
        """Write an outcome to a file next to the store; return the folder of the file."""
        folder = str(self._store.keep(outcome, force=self.force).parent)
        self._folders[folder] = None
        return folder

    def _take_within(self, seconds: float) -> bool:
        """Try to store all outcomes that are not stored yet; return whether all are stored now.

        If the database is locked, try again for up to `seconds` seconds.
        """
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
                # Delete each outcome as soon as it is stored, so that it is not stored twice if the
                # next one fails.
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
                f"The results of {jobs} are kept in {' and '.join(self._folders)}; the next "
                "command that writes to the leaderboard adds them to it."
            )
        if lost:
            parts.append(
                f"The results of {', '.join(lost)} could not be saved: run the same command to "
                "train these jobs again from their last saved states."
            )
        return parts

    def _tell(self, outcome: Outcome, note: str) -> None:
        progress = Progress(phase="saving", note=note.rstrip("."))
        self.watcher.report(outcome.job, progress)


def _add(store: Store, outcome: Outcome, *, force: bool) -> bool:
    """Store an outcome; return False if it was not stored.

    Unless `force` is set, it is not stored if there is already a result of the same job.
    """
    with as_store_error(f"the result of {job_name(outcome.job)}"):
        if not force:
            return store.add_missing(outcome)
        if isinstance(outcome, Result):
            store.add_result(outcome)
        else:
            store.add_failure(outcome)
        return True
