"""The only orchestration: runs what a schedule lacks, stores what each job leaves, and cleans up.

It knows jobs, engines and the store, and prints nothing: whoever calls it watches.
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
from benchharness.kept_folders import Holds, SnapshotFolder
from benchharness.leaderboard.job import Job, code_of
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.database import BUSY_SECONDS, is_there
from benchharness.leaderboard.store.store import Store, as_store_error, open_store
from benchharness.models.weights import hub_revision, require_checkpoint
from benchharness.progress import Progress, Watcher, job_name
from benchharness.tasks.errors import (
    BusyStoreError,
    DataError,
    ForeignCodeError,
    ModelError,
    StoreError,
)
from benchharness.tasks.foreign_code import name_code, require_named
from benchharness.worker.fork_server import modules_of

SECONDS_BETWEEN_LOOKS = 0.5
"""How often it is looked whether another process still runs a job: one call of the kernel."""


Watch = Callable[[Schedule, Store], AbstractContextManager[Watcher]]
"""Makes the watcher of a run, which lasts as long as the jobs do."""


def unwatched(_schedule: Schedule, _store: Store) -> AbstractContextManager[Watcher]:
    """Nobody watches."""
    return nullcontext(Watcher())


class Driven(NamedTuple):
    """A run that has ended: its schedule, the store, still open, and what its jobs left in it.

    `again` are results that are stored already, of jobs that ran for their network alone; where
    such a job has failed, that is among the outcomes, and not stored.
    """

    schedule: Schedule
    store: Store
    outcomes: Sequence[Outcome]
    again: Sequence[Result] = ()


@contextmanager
def prepared_workers(request: Request, options: RunOptions) -> Iterator[None]:
    """While it lasts, workers on this machine start with the libraries of the request's jobs.

    Importing them takes seconds, and is done while the jobs are still planned, but where as many
    are stored as there may be: then most likely none will start. SIGTERM and a second Ctrl-C end
    this process soon, whatever hangs.
    """
    modules = () if _seem_stored(request, options) else modules_of(request.kind, request.tasks)
    with ended_at_last(), request.placement.prepared(modules):
        yield


def _seem_stored(request: Request, options: RunOptions) -> bool:
    """Whether the database has runs for each model, task and seed, by whatever recipe."""
    if options.force or not is_there(options.db):
        return False
    tasks = {task.name for task in request.tasks}
    # A baseline has one run of a task, whatever the seeds.
    runs = {m.name: 1 if m.is_baseline else len(request.seeds) for m in request.models}
    try:
        with open_store(options.db, create=False) as store:
            stored = store.count(model=set(runs), task=tasks)
    except StoreError:  # a server without tables; whatever else it is, the schedule will say it
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
    """Runs the jobs of a schedule in a place and stores what each leaves behind.

    A job that is silent for the `timeout` of the options is ended. A running job keeps its state
    and resumes from there when it is driven again. A job
    that starts from another one waits until that has ended, while others go before it, and fails
    where that has failed. A job that another process of this machine runs is waited for, while
    others go before it. From the moment `until` of the monotonic clock on, what has not started is
    left out. Just before a job starts, it is left out where another process has stored
    its result meanwhile (unless `force`), or where its model could not be loaded for an earlier
    job. What the store does not take is kept beside it, and the run goes on. Raises ModelError
    before anything starts where a checkpoint can be had from nowhere, or cannot be loaded as far as
    that is quickly told, ForeignCodeError where a job that is run again has a metric's code from
    elsewhere, and StoreError at the end where something is kept still.
    """
    holds = schedule.checkpoints.holds
    with holds.unless_it_fails():
        # Each checkpoint once, and once more where its decoder is asked for.
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
            # They end from the last to the first: the holds are let go of when no worker runs any
            # more and what waits for the store is written.
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
    """ForeignCodeError for a job with code that only a store names: it need not have run here.

    Jobs that were planned have what was asked for; those that run again, start another one or teach
    it are as they were stored.
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
    """How far the jobs of a run have come.

    `going` are the keys of those that wait or run, `stored` is what they have left behind, and
    `again` as in Driven. A job that runs is held, from before its result is looked for until that
    is stored. So of several processes one runs it, and the others wait and take the result, or run
    it after one that died.
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
        self._looks: dict[str, float] = {}  # when to look next at what others run
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
        """The jobs to start, one by one; None while all that are left wait for one that runs.

        While all that are left are run by other processes, it waits itself.
        """
        while self._waiting:
            if time.monotonic() >= self._until:
                self._leave_out_the_rest()
                return
            # `going` has waiting and running jobs: what needs one of them is not ready. A job is
            # held by the very test, so both stay lazy; a list would hold them all.
            ready = (job for job in self._waiting if self.going.isdisjoint(job.needs))
            job = next(filter(self._hold, ready), None)
            if job is None:
                if len(self.going) > len(self._waiting):  # some run here
                    yield None
                else:
                    time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            self._waiting.remove(job)
            # From here on nobody else runs it. Only now is its result looked for: another process
            # may have stored that just before it let go of the job.
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
        """Takes what still waits for not asked for."""
        while self._waiting:
            job = self._waiting.pop()
            self.going.remove(job.key)
            self._release(job)
            self._watcher.leave_out(job)

    def report(self, job: Job, progress: Progress) -> None:
        """Passes on what a running job says of itself."""
        if progress.is_kept is not None:
            progress = replace(progress, note=self._states.note(job.key, progress))
        self._watcher.report(job, progress)

    def end(self, outcome: Outcome) -> None:
        """Stores what a job has left behind, where it is news, and lets others start from it."""
        job = outcome.job
        if job.key not in self.going:  # an engine that sends jobs again may bring one back twice
            return
        self.going.remove(job.key)
        self._states.lacking.discard(job.key)
        if isinstance(outcome, Failure):
            self._failed[job.key] = outcome
        # Planning has read the data, so what a worker cannot read is the checkpoint.
        if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
            self._broken.add(job.weights)
        self._checkpoints.stay([job.key])  # before its result is stored
        is_news = self._keeping.put(outcome, is_last=not self.going)
        was_stored = job.key in self._stored_before
        if is_news or (was_stored and isinstance(outcome, Failure)):
            self.stored.append(outcome)
        elif was_stored and isinstance(outcome, Result):
            self.again.append(outcome)
        # An outcome that is in memory alone may still be lost, and the state saves its hours then.
        if self._snapshots is not None and _is_final(outcome) and self._keeping.is_safe(outcome):
            self._snapshots.delete_all([job.key])
        self._release(job)
        self._watcher.finish(outcome)

    def _release(self, job: Job) -> None:
        """Lets go of a job that has ended, here or elsewhere, and of what it has started from."""
        self._holds.release(job.key)
        if job.needs:
            with suppress(StoreError):  # the next job's end, or the run's, does it
                self._checkpoints.release(self._keeping.store, self.going)

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
        with suppress(StoreError):  # what cannot be seen is no reason to wait
            if self._keeping.force or not self._keeping.store.finished_keys([job.key]):
                return False
            return not self._checkpoints.is_missing(job.key, self._keeping.store)
        return False


class _States:
    """Whether states find room: told once for all jobs when that ends, and once when it is over.

    `lacking` are the keys of running jobs whose last state could not be written.
    """

    def __init__(self) -> None:
        self.lacking: set[str] = set()
        self._is_told = False

    def note(self, key: str, progress: Progress) -> str:
        """What to say of a state that a job has tried to write; empty where all know it."""
        was_told = self._is_told
        # The first job that cannot write speaks for all. That it is over is said when none of
        # those that run lacks a state any more, and not by each of them.
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


# What the store does not take: another process holds it, or its disk is full.

PATIENCE_SECONDS = 10.0
"""How long the end of a job may wait for the store: nobody listens to running jobs meanwhile."""

HURRIED_SECONDS = 0.5
"""The same while something waits already, so that a store that is held slows no job down."""


class _Keeping:
    """Stores what jobs leave; what the store does not take waits beside it, or else in memory.

    What waits enters the store when the next job ends, or with the last one, which waits as long
    as any write does where another process has the store. Use it as a context manager: at its end
    StoreError says what waits still.
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
        """The store for what must not hold up the jobs that run."""
        return self._hurried if self._waiting else self._patient

    def is_safe(self, outcome: Outcome) -> bool:
        """Whether the outcome is on the disk."""
        return all(one is not outcome for one in self._in_memory)

    def put(self, outcome: Outcome, *, is_last: bool) -> bool:
        """Stores an outcome now or later; False where another driver has stored a result before."""
        try:
            is_news = _add(self.store, outcome, force=self.force)
        except StoreError as error:
            self._keep(outcome, error)
            is_news = True
        # In the middle of a run one try has to do; the last outcome may wait as any write does.
        if self._waiting and self._take_within(self._patience if is_last else 0.0):
            self._tell(outcome, "finds its leaderboard writable again; what waited is stored")
            self._waiting = 0
        if is_last:  # nobody waits twice
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
            # The store has been held at least since the patient try began to wait.
            self._hurried = self._store.hurried(
                HURRIED_SECONDS, since=time.monotonic() - PATIENCE_SECONDS
            )
            self._tell(
                outcome, f"has ended, and what it left waits in {where}, because {self._error}"
            )
        self._waiting += 1

    def _write(self, outcome: Outcome) -> str:
        """Writes an outcome to a file; gives the folder."""
        folder = str(self._store.keep(outcome, force=self.force).parent)
        self._folders[folder] = None
        return folder

    def _take_within(self, seconds: float) -> bool:
        """Whether the store takes all that waits; asks again and again where that may help."""
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
                # One by one: what is stored must not be tried again where the next one fails.
                del self._in_memory[0]
            self._hurried.take_kept()
        except StoreError as error:
            self._error = error
            return False
        return True

    def _write_out(self) -> None:
        """Writes what is in memory beside the store after all, where that has room by now."""
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
                f"What {jobs} left waits in {' and '.join(self._folders)} and enters the "
                "leaderboard with the next command that writes to it."
            )
        if lost:
            parts.append(
                f"There was no room for what {', '.join(lost)} left: the same command runs "
                "it again, from its newest state."
            )
        return parts

    def _tell(self, outcome: Outcome, note: str) -> None:
        progress = Progress(phase="saving", note=note.rstrip("."))
        self.watcher.report(outcome.job, progress)


def _add(store: Store, outcome: Outcome, *, force: bool) -> bool:
    """Stores an outcome; without force only where no other driver has stored a result before."""
    with as_store_error(f"what {job_name(outcome.job)} left"):
        if not force:
            return store.add_missing(outcome)
        if isinstance(outcome, Result):
            store.add_result(outcome)
        else:
            store.add_failure(outcome)
        return True
