"""The local engine, which runs each job in a supervised process on this machine.

Each slot runs one job at a time. `find_placement` returns the engine that `--engine` names.
"""

import subprocess
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing.connection import wait
from pathlib import Path

from benchharness.discovery import member, places
from benchharness.engines.fork_server import ForkServer, can_fork, spawn
from benchharness.engines.process import (
    WORKER,
    Child,
    Engine,
    Orders,
    Outcome,
    Report,
    WorkerProcess,
    end_processes,
    worker_command,
)
from benchharness.engines.slots import Sharing, Slot, find_slots
from benchharness.errors import BenchError, JobError, unknown_name
from benchharness.kept_folders import checkpoint_folder, scratch_folder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress, job_name
from benchharness.worker.fork_server import modules_for

POLL_SECONDS = 0.1

ALONE = "ran out of memory on a shared GPU and starts over; from now on each GPU runs one job"

STARTERS = 2
"""Number of fork servers that are tried one after another. If all of them fail, workers are started
without forking."""


class LocalEngine:
    """Engine that runs jobs in worker processes on this machine.

    A job that hangs is stopped and repeated once from its newest snapshot. A job whose process
    exits with status 0 but leaves no result is also repeated once. A job whose process was killed
    is not repeated, because the usual cause is a lack of memory, which would occur again. If the
    fork server hangs or was killed, its workers are started again from a second fork server; if
    this also fails, they are started without forking. If slots share a GPU, `Sharing` decides how
    many of them are used. If a job runs out of memory on a shared GPU, it starts over, and from
    then on each GPU runs one job at a time.

    Args:
        slots: The slots; in each slot, one job runs at a time.
        orders: Options from the driver.
        command: Command that starts a worker, to which the path of the result file and the worker's
            options are appended. If it is empty, workers are forked if the kernel supports it.
        forks: Fork server to use; by default, a new one.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        orders: Orders,
        command: Sequence[str] = (),
        forks: ForkServer | None = None,
    ) -> None:
        self._slots = tuple(slots)
        self._orders = orders
        self._timeout = orders.timeout
        self._command = tuple(command or WORKER)
        self._forks = forks or ForkServer()
        self._sharing = Sharing()
        self._starters = 0 if command or not can_fork() else STARTERS

    def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
        """Yield the Result or Failure of each job, in the order in which the jobs end.

        When the iterator is closed or raises an exception, all worker processes are stopped.

        Args:
            jobs: The jobs. The next one is requested only when a slot is free, so that the caller
                can skip jobs that have become unnecessary. A None means that all remaining jobs
                must wait until a running job ends.
            report: Function that is called with a job and its progress.
        """
        self._report, self._again = report, deque[Job]()  # jobs that ran out of memory
        self._free, self._running = list(self._slots), list[WorkerProcess]()
        self._crowded, self._failed_to_end = set[str](), dict[str, str]()  # both contain job keys
        queue = iter(jobs)
        with scratch_folder() as self._folder, closing(self._forks):
            try:
                while self._start(queue):
                    # Wait until a worker writes or closes its pipe. A worker that hangs does
                    # neither, so the wait has a time limit.
                    wait([d for worker in self._running for d in worker.descriptors], POLL_SECONDS)
                    if any(w.misses_its_starter(self._timeout) for w in self._running):
                        self._replace_starter()
                    for worker in tuple(self._running):
                        worker.read(report)
                        if worker.misses_its_starter(self._timeout):
                            continue  # the next iteration will replace the fork server
                        if worker.has_ended or worker.silent_seconds > self._timeout:
                            yield from self._finish(worker)
            finally:
                end_processes(self._running, self._forks.close)

    def _start(self, queue: Iterator[Job | None]) -> bool:
        """Start jobs in the free slots; return False if then no job is running."""
        for slot in tuple(self._free):
            beside = [worker for worker in self._running if worker.slot.device == slot.device]
            if not self._sharing.has_room(slot, [worker.is_computing for worker in beside]):
                continue
            # None means that no jobs are left or that they must wait until the next call.
            job = self._again.popleft() if self._again else next(queue, None)
            if job is None:
                break
            if slot.is_shared and beside:
                # Remember these jobs: if one of them runs out of memory, it is run again alone.
                self._crowded.update((job.key, *(worker.job.key for worker in beside)))
            self._free.remove(slot)
            self._begin(job, slot)
        return bool(self._running)

    def _begin(self, job: Job, slot: Slot, note: str = "") -> None:
        """Start a worker process for a job, for the first time or again.

        `note` is a message that is shown to the user.
        """
        file = self._folder / f"{job.key}.json"
        file.parent.mkdir(exist_ok=True)  # the folder may have been deleted meanwhile
        file.unlink(missing_ok=True)  # an earlier attempt that hung may have left the file
        holds = self._orders.holds
        held = None if holds is None else holds.descriptor(job.key)
        options = (str(file), *self._options(job))
        inherited = () if held is None else (held,)
        try:
            if self._starters:
                modules = modules_for(job)
                process: Child = self._forks.start(options, slot.environment, modules, inherited)
            else:
                words, pipe = (*self._command, *options), subprocess.PIPE
                process = spawn(words, slot.environment, pipe, pipe, inherited)
        except OSError as error:
            raise JobError(
                f"no process can be started for {job_name(job)} ({error.strerror}; processes that "
                f"already run: {len(self._running)}): use fewer --jobs, or raise the system's "
                "limits (ulimit -a)."
            ) from error
        self._running.append(WorkerProcess(job, slot, file, process))
        self._report(job, Progress(phase="loading", note=note))

    def _replace_starter(self) -> None:
        """Replace the fork server, and restart all running jobs that have no result yet.

        Before, the workers are asked to save their states and to end.
        """
        self._starters -= 1
        end_processes(self._running, self._forks.close)
        cause = "the process from which workers are forked hangs or was killed"
        rest = "" if self._starters else "; from now on, workers start without it"
        for worker in tuple(self._running):
            if not isinstance(worker.outcome(), Result):
                self._running.remove(worker)
                self._begin(worker.job, worker.slot, f"is started again, because {cause}{rest}")

    def _options(self, job: Job) -> list[str]:
        """Return the worker's options: folders for snapshots and for models to load or save."""
        snapshots, folder = self._orders.snapshots, self._orders.checkpoints.absolute()
        options = snapshots.options(job.key) if snapshots else []
        if job.start_from is not None:
            options += ["--start-from", str(checkpoint_folder(folder, job.start_from))]
        if job.teacher is not None:
            options += ["--teacher", str(checkpoint_folder(folder, job.teacher.run))]
        if job.key in self._orders.keep:
            options += ["--keep", str(checkpoint_folder(folder, job.key))]
        return options

    def _finish(self, worker: WorkerProcess) -> Iterator[Outcome]:
        """Handle a job that has ended or hangs; yield its outcome unless the job is repeated."""
        self._running.remove(worker)
        hangs = not worker.has_ended
        if hangs:
            end_processes([worker])
        worker.close(self._report)
        outcome = worker.outcome(timeout=self._timeout if hangs else None)
        job, kind = worker.job, outcome.kind if isinstance(outcome, Failure) else ""
        # Check this only for a Failure, because it reads the result file again, which is slow if
        # the file contains the predictions for a million examples.
        is_lost = isinstance(outcome, Failure) and not hangs and worker.has_lost_its_result
        if (kind == "timeout" or is_lost) and job.key not in self._failed_to_end:
            self._failed_to_end[job.key] = "lost" if is_lost else "hung"
            hung = f"printed no progress for {self._timeout:g} seconds"
            note = f"{'left no result' if is_lost else hung} and is started again"
            self._begin(job, worker.slot, note)
            return
        self._free.append(worker.slot)
        if kind == "memory" and job.key in self._crowded:
            # The job needs more memory than the others leave free, so stop sharing GPUs.
            self._crowded.discard(job.key)
            self._sharing.is_over = True
            self._report(job, Progress(phase="waiting", note=ALONE))
            self._again.append(job)
        elif (how := self._failed_to_end.get(job.key)) is None:
            yield outcome
        elif isinstance(outcome, Failure):
            before = "It hung" if how == "hung" else "It left no result"
            yield replace(outcome, error=f"{outcome.error} {before} before and was started again.")
        else:
            yield replace(outcome, provenance={**outcome.provenance, how: 1})


# Choice of the engine and its slots, according to `--engine` and related options.

LOCAL = "local"
"""Name of the engine that runs jobs on this machine. Extensions add other engines."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The engine that runs the jobs of a run, and the slots in which they run concurrently.

    Attributes:
        slots: The slots, as far as they are known before the run; on a cluster, the GPUs of a slot
            are not known yet.
        engine: The function that creates the engine from the driver's options.
        forks: The fork server; None if workers are not forked on this machine.
    """

    slots: tuple[Slot, ...]
    engine: Callable[[Orders], Engine]
    forks: ForkServer | None = None

    @contextmanager
    def prepared(self, modules: Sequence[str]) -> Iterator[None]:
        """Context manager in which the fork server imports the modules that jobs will need.

        The fork server is stopped when the block ends. Without a fork server, the context manager
        does nothing.

        Args:
            modules: The names of the modules; if there are none, nothing is imported.
        """
        with nullcontext() if self.forks is None else closing(self.forks) as forks:
            if forks and modules:
                forks.prepare(self.slots[0].environment, modules)
            yield


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """Command-line options that choose an engine and its slots.

    Attributes:
        name: The name of the engine: "local", or the name that an extension gives its engine.
        address: The address of the cluster; None if there is none.
        words: The values of `--engine-option`, each in the form NAME=VALUE.
        device: The device: "auto", "cpu", "cuda" or "cuda:N".
        jobs: The number of concurrent jobs; None leaves the choice to the engine.
        processes: The number of processes that train one job together.
        small: Whether the jobs are so small that starting takes longer than computing.
        fit: The largest number of jobs that can run concurrently on this machine, because there are
            no more jobs or because no more fit into the main memory.
        folder: The folder of the database, in which a run keeps models and snapshots.
    """

    name: str = LOCAL
    address: str | None = None
    words: tuple[str, ...] = ()
    device: str = "auto"
    jobs: int | None = None
    processes: int = 1
    small: bool = False
    fit: int = 1
    folder: Path = Path()

    @cached_property
    def options(self) -> dict[str, str]:
        """The values of `--engine-option`, keyed by name.

        Raises:
            BenchError: A value does not have the form NAME=VALUE, or a name occurs twice.
        """
        parsed: dict[str, str] = {}
        for word in self.words:
            name, equals, value = (part.strip() for part in word.partition("="))
            if not (name and equals and value) or name in parsed:
                raise BenchError(
                    f"--engine-option {word!r} does not have the form NAME=VALUE, such as cpus=4, "
                    "or repeats a name."
                )
            parsed[name] = value
        return parsed


def find_placement(choice: EngineChoice) -> Placement:
    """Return the placement (the engine and its slots) for the chosen engine.

    Raises:
        BenchError: The engine is unknown, is not available, or does not accept these options.
    """
    if choice.name == LOCAL:
        return place(choice)
    if choice.name not in (others := places("engines")):
        raise unknown_name("engine", choice.name, (LOCAL, *others))
    found: Placement = member(f"the engine {choice.name}", others[choice.name])(choice)
    return found


def place(choice: EngineChoice) -> Placement:
    """Return the placement (the engine and its slots) for the local engine.

    Raises:
        BenchError: An option is set that only other engines accept, or the device does not exist.
    """
    if choice.address is not None or choice.options:
        raise BenchError(
            "--address and --engine-option can only be used with --engine ray or slurm."
        )
    slots = find_slots(
        choice.device, choice.jobs, fit=choice.fit, processes=choice.processes, small=choice.small
    )
    if choice.processes > 1:
        command = worker_command(choice.processes)
        return Placement(slots=slots, engine=partial(LocalEngine, slots, command=command))
    forks = ForkServer() if can_fork() else None
    return Placement(slots=slots, engine=partial(LocalEngine, slots, forks=forks), forks=forks)
