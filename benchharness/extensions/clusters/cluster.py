"""Engine that sends jobs to the nodes of a cluster, and sends a job again if its node is lost."""

import os
import socket
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, chdir, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from benchharness.engines.local import EngineChoice, LocalEngine, Placement
from benchharness.engines.process import (
    SAVING_SECONDS,
    STATES_AWAITED,
    Orders,
    Outcome,
    Report,
    outcome_of,
    worker_command,
)
from benchharness.engines.slots import WAITING, Slot, find_gpus, make_slot
from benchharness.errors import BenchError, JobError
from benchharness.leaderboard.job import METHOD, Job
from benchharness.leaderboard.result import Failure
from benchharness.machine import estimate_memory
from benchharness.plugins import VARIABLE
from benchharness.progress import Progress
from benchharness.tasks.custom import define_task
from benchharness.version import package_version

# Jobs for other machines: the message that the driver sends to a node, and the job's execution.

REFUSED = "refused"
"""Key in the answer of a node that could not start a job. The value of the key is a sentence with
the reason.
"""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Resources that a job needs on its node.

    GPUs, cores and memory are sums over all processes in which the job trains.

    Attributes:
        gpus: Number of GPUs; 0 if the job runs on the CPU.
        cpus: Number of CPU cores.
        memory_bytes: Main memory in bytes; 0 to estimate it from the size of the model.
        processes: Number of processes. If the job has GPUs, each process uses one of them.
    """

    gpus: int
    cpus: int
    memory_bytes: int = 0
    processes: int = 1

    def of(self, job: Job) -> "Needs":
        """Return the resources for one job; a baseline needs one core and no GPU."""
        if job.kind == "baseline":
            return Needs(gpus=0, cpus=1, memory_bytes=estimate_memory(job))
        estimated = self.processes * estimate_memory(job, gpu=self.gpus > 0)
        return replace(self, memory_bytes=self.memory_bytes or estimated)


@dataclass(frozen=True, kw_only=True)
class RemoteJob:
    """A job with everything that a node needs to run it, as plain data without secrets.

    The driver is the process of `bench run` that sends the job.

    Attributes:
        ticket: Unique id of this attempt; a job that is sent again gets a new one.
        job: The job as JSON data.
        needs: The resources that the job needs.
        folder: The driver's working directory. Paths of data and checkpoints may be relative to it.
        variables: Environment variables of the driver that jobs need on every node, and their
            values.
        orders: The options of the engine.
        mark: Path of an empty file that the driver creates in the folder of saved models. A node
            that does not see the file does not share this folder. On such a node, jobs that save a
            model or need a saved one fail, and other jobs run without snapshots.
        version: The version of benchharness on the driver's machine.
    """

    ticket: str
    job: Mapping[str, Any]
    needs: Needs
    folder: str
    variables: Mapping[str, str]
    orders: Orders
    mark: Path
    version: str


def version() -> str:
    """Return a text with the versions of benchharness and of its training method (`METHOD`).

    It must be the same on all machines of a run.
    """
    return f"{package_version()}, method {METHOD}"


def run_remote(
    remote: RemoteJob, tell: Callable[[Progress], None], seconds: float = 0.0
) -> Mapping[str, Any]:
    """Run a job on this machine as the local engine does, and return its outcome as JSON data.

    An error that the user can fix is not raised, but returned under the key REFUSED.

    Args:
        remote: The job and everything that it needs.
        tell: Function that is called with the job's progress.
        seconds: Minimum number of seconds between two calls of `tell` in the same phase of the job.
    """
    try:
        return _run(remote, sparsely(seconds, tell))
    except BenchError as error:
        return refuse(f"{socket.gethostname()}: {error}")


def sparsely(seconds: float, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Return a function that passes on progress to `tell`, but at most every `seconds` seconds.

    Progress in between is dropped. A new phase of the job, such as "training", is always passed on
    at once.
    """
    phase, told = "", float("-inf")

    def report(progress: Progress) -> None:
        nonlocal phase, told
        now = time.monotonic()
        if progress.phase != phase or now - told >= seconds:
            phase, told = progress.phase, now
            tell(progress)

    return report


def refuse(sentence: str, details: object = "") -> Mapping[str, Any]:
    """Return the answer of a node that could not start a job.

    `sentence` is the reason, and `details` is further text for the log, such as an exception.
    """
    return {REFUSED: sentence, "details": str(details)}


def _run(remote: RemoteJob, report: Callable[[Progress], None]) -> Mapping[str, Any]:
    if remote.version != version():
        raise JobError(
            f"this node has benchharness {version()}, but `bench run` was started with "
            f"{remote.version}: install the same version on every node."
        )
    job, orders, is_seen = Job.from_json(remote.job), remote.orders, remote.mark.is_file()
    define_task(job.definition)
    if (orders.keep or job.needs) and not is_seen:
        raise JobError(
            f"{orders.checkpoints} is not shared with the machine of `bench run`, but this job "
            "saves or loads a model in it: move --db to a folder that all nodes share, or run "
            "without --keep-models and with --start-from pretrained."
        )
    # The cluster makes only the job's own GPUs visible to this process.
    gpus = ",".join(find_gpus()) if remote.needs.gpus else ""
    if remote.needs.gpus and not gpus:
        raise JobError(
            "no GPU was found on this node, neither in CUDA_VISIBLE_DEVICES nor by "
            "`nvidia-smi -L`: use nodes with GPUs, or --device cpu."
        )
    slot = make_slot(gpus, max(1, remote.needs.cpus // remote.needs.processes))
    # Apply the environment variables that the user set for `bench run`.
    slot = replace(slot, environment={**slot.environment, **remote.variables})
    orders = orders if is_seen else replace(orders, snapshots=None)
    engine = LocalEngine([slot], orders, worker_command(remote.needs.processes))
    # Relative paths of --data and --model are relative to the folder where `bench run` started.
    there = chdir(remote.folder) if Path(remote.folder).is_dir() else nullcontext()
    with there, closing(engine.run([job], lambda _, progress: report(progress))) as outcomes:
        return next(outcomes).to_json()


RETRIES = 2
"""Default number of times that a job is sent again because its node was lost."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Message that a job was lost: its node failed, could not be reached or stopped the job.

    Attributes:
        reason: A clause that can follow "because", such as "its node stopped it".
    """

    reason: str


News = Progress | Lost | Mapping[str, Any]
"""Message about a remote job: its progress, the loss of its node, or its outcome as JSON data. The
outcome is a Result, a Failure, or the answer from `refuse`.
"""


class Cluster(Protocol):
    """Interface of a cluster that runs remote jobs; `name` is its name in messages and results."""

    name: str

    def open(self) -> AbstractContextManager[object]:
        """Context manager that connects to the cluster for the duration of a run."""

    def room(self) -> int:
        """Return how many remote jobs may be queued or running at the same time, at least one."""

    def send(self, remote: RemoteJob) -> Any:
        """Send a remote job to the next node that can run it; return a handle for this job."""

    def news(self, sent: Mapping[str, Any]) -> Iterable[tuple[str, News]]:
        """Return pairs (ticket, message) about jobs, or nothing after a short wait.

        Messages may be late, repeated or missing. `sent` contains the handle of each job that was
        sent and has not ended, keyed by the job's ticket.
        """

    def cancel(self, sent: Collection[Any]) -> None:
        """Cancel the jobs with these handles, and wait some seconds for their processes to end."""


class _Sent(NamedTuple):
    """Job that was sent, with the number of the attempt and the cluster's handle."""

    job: Job
    attempt: int
    known: Any


class ClusterEngine:
    """Engine that runs each job in an ordinary worker process on a node of a cluster.

    Nodes send results to the process that iterates over `run`, so only this process writes to the
    database.

    Args:
        cluster: Cluster that runs the jobs.
        needs: The resources that each job needs.
        orders: The options of the engine.
        at_once: Maximum number of jobs that are queued or running; by default, as many as the
            cluster has room for.
        retries: Number of times that a job is sent again because its node was lost.
    """

    def __init__(
        self,
        cluster: Cluster,
        needs: Needs,
        orders: Orders,
        at_once: int | None = None,
        retries: int = RETRIES,
    ) -> None:
        self._cluster, self._at_once = cluster, at_once
        self._needs, self._retries = needs, retries
        folder, states = orders.checkpoints.absolute(), orders.snapshots
        states = states and replace(states, root=states.root.absolute())
        self._orders = replace(orders, checkpoints=folder, snapshots=states, holds=None)
        self._mark = folder / f"shared-{uuid4().hex}"
        self._sent: dict[str, _Sent] = {}

    def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
        """Yield the Result or Failure of each job once, in the order in which jobs end.

        The iterator `jobs` is advanced only when the cluster has room for another job. A None in it
        means that the next jobs must wait until a running job has ended. If the node of a job was
        lost or stopped the job, the job is sent again, at most `retries` times. Closing the
        iterator that is returned, or an exception in it, cancels the running jobs.

        Args:
            jobs: Jobs to run, and None where the engine must wait.
            report: Function that is called with a job and its progress.
        """
        queue = iter(jobs)
        self._sent = {}
        with self._cluster.open(), self._marked():
            try:
                while self._fill(queue, report):
                    known = {ticket: sent.known for ticket, sent in self._sent.items()}
                    for ticket, news in self._cluster.news(known):
                        yield from self._take(ticket, news, report)
            finally:
                with STATES_AWAITED:
                    self._cluster.cancel([sent.known for sent in self._sent.values()])

    def _fill(self, queue: Iterator[Job | None], report: Report) -> bool:
        """Send jobs while the cluster has room; return whether any job is queued or running."""
        room = self._at_once or self._cluster.room()
        while len(self._sent) < room and (job := next(queue, None)) is not None:
            self._send(job, 1, report)
        return bool(self._sent)

    def _send(self, job: Job, attempt: int, report: Report, note: str = "") -> None:
        # Only variables that jobs need on every node are sent, and never an access token.
        names = (VARIABLE, "OMP_NUM_THREADS", *WAITING)
        remote = RemoteJob(
            ticket=uuid4().hex,
            job=job.to_json(),
            needs=self._needs.of(job),
            folder=str(Path.cwd()),
            variables={name: os.environ[name] for name in names if os.environ.get(name)},
            orders=replace(self._orders, keep={job.key}.intersection(self._orders.keep)),
            mark=self._mark,
            version=version(),
        )
        self._sent[remote.ticket] = _Sent(job, attempt, self._cluster.send(remote))
        report(job, Progress(phase="waiting", note=note))

    def _take(self, ticket: str, news: News, report: Report) -> Iterator[Outcome]:
        """Process a message about a job; yield the job's outcome if the job has ended."""
        if ticket not in self._sent:  # the job was given up, or has ended before
            return
        job, attempt, _ = self._sent[ticket]
        if isinstance(news, Progress):
            report(job, news)
            return
        # Ignore late or repeated messages about this ticket from now on.
        del self._sent[ticket]
        if not isinstance(news, Lost):
            outcome = self._arrived(job, attempt, news)
            # Send an interrupted job again: Slurm may have stopped it at its time limit.
            if not (isinstance(outcome, Failure) and outcome.kind == "interrupted"):
                yield outcome
                return
            news = Lost(reason=f"its node stopped it ({outcome.error})")
        if attempt <= self._retries:
            note = f"was lost ({news.reason}) and is sent again"
            self._send(job, attempt + 1, report, note)
        else:
            yield Failure.of(
                job,
                "killed",
                f"the job was lost {attempt} times on {self._cluster.name}, the last time because "
                f"{news.reason}. Find out why the nodes fail, or request more memory with "
                "--engine-option memory=GB.",
            )

    def _arrived(self, job: Job, attempt: int, left: Mapping[str, Any]) -> Outcome:
        if REFUSED in left:
            return Failure.of(job, "failed", left[REFUSED], left.get("details", ""))
        outcome = outcome_of(left)
        if isinstance(outcome, Failure):
            return outcome
        engine = {"name": self._cluster.name, "attempt": attempt}
        return replace(outcome, provenance={**outcome.provenance, "engine": engine})

    @contextmanager
    def _marked(self) -> Iterator[None]:
        """Context manager that creates the file by which nodes recognize the folder of models."""
        folder = self._orders.checkpoints
        if self._orders.keep or self._orders.snapshots or folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        try:
            yield
        finally:
            self._mark.unlink(missing_ok=True)
            with suppress(OSError):  # the folder is not empty if it contains saved models
                folder.rmdir()


# Options that are common to all clusters.

NUMBERS = {"cpus": 1, "memory": 1, "retries": 0, "minutes": 1}
"""Minimum values of the options (`--engine-option`) that are whole numbers: the cores of a job, its
memory in gigabytes, the number of retries after its node was lost, and, for Slurm only, its time
limit in minutes.
"""

CANCEL_SECONDS = SAVING_SECONDS + 10
"""Maximum number of seconds that cancelled jobs have to save their states and end."""


def placement(cluster: Cluster, choice: EngineChoice, *, gpus: int, cpus: int) -> Placement:
    """Return the slots in which jobs run concurrently on a cluster, and the engine's constructor.

    Args:
        cluster: Cluster that runs the jobs.
        choice: The engine, and the options that the user chose for it.
        gpus: Number of GPUs per job.
        cpus: Number of CPU cores per job.

    Raises:
        BenchError: One of the options is invalid.
    """
    numbers = read_numbers(choice)
    memory = int(numbers.get("memory", 0) * 1e9)
    needs = Needs(gpus=gpus, cpus=cpus, memory_bytes=memory, processes=choice.processes)
    slot = Slot(device="cuda" if gpus else "cpu", environment={})
    retries = numbers.get("retries", RETRIES)
    engine = partial(ClusterEngine, cluster, needs, at_once=choice.jobs, retries=retries)
    return Placement(slots=(slot,) * (choice.jobs or cluster.room()), engine=engine)


def gpus_of_job(choice: EngineChoice, *, there: bool) -> int:
    """Return the number of GPUs per job, which is 0 if jobs run on CPUs.

    Args:
        choice: The engine, and the options that the user chose for it.
        there: True if the cluster has or may have GPUs. `--device auto` then means cuda, else cpu.

    Raises:
        BenchError: `--device` names a device of this machine, such as cuda:1.
    """
    if choice.device not in ("auto", "cpu", "cuda"):
        raise BenchError(
            f"--device {choice.device} is a device of this machine: with --engine "
            f"{choice.name}, use --device auto, cpu or cuda."
        )
    is_used = choice.device == "cuda" or (choice.device == "auto" and there)
    return choice.processes if is_used else 0


def read_numbers(choice: EngineChoice) -> dict[str, int]:
    """Parse the engine options that are whole numbers (see NUMBERS), keyed by name.

    Options that the user has not set are left out. Raises BenchError if a value is not a whole
    number or is too small.
    """
    given = {name: text for name, text in choice.options.items() if name in NUMBERS}
    for name, text in given.items():
        least = NUMBERS[name]
        if not text.isdecimal() or int(text) < least:
            raise BenchError(
                f"--engine-option {name}={text} is invalid: expected a whole number of at least "
                f"{least}."
            )
    return {name: int(text) for name, text in given.items()}
