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

from benchharness import __version__
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

# A job for another machine: the message from the driver to a node, and its execution there.

REFUSED = "refused"
"""Key in the answer of a node that could not start a job; the value is a sentence with the reason.
"""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Resources that a job needs on its node: GPUs, cores, and main memory in bytes.

    They are the sums over the job's processes. The job trains in `processes` processes, with one
    GPU each if it has GPUs. If `memory_bytes` is 0, the memory is estimated from the size of the
    model.
    """

    gpus: int
    cpus: int
    memory_bytes: int = 0
    processes: int = 1

    def of(self, job: Job) -> "Needs":
        """Return the resources of a particular job: a baseline gets one core and no GPU."""
        if job.kind == "baseline":
            return Needs(gpus=0, cpus=1, memory_bytes=estimate_memory(job))
        estimated = self.processes * estimate_memory(job, gpu=self.gpus > 0)
        return replace(self, memory_bytes=self.memory_bytes or estimated)


@dataclass(frozen=True, kw_only=True)
class RemoteJob:
    """A job with everything that a node needs to run it, as plain data without secrets.

    Attributes:
        ticket: The engine's id of this attempt; a job that is sent again gets a new one.
        job: The job as plain data.
        needs: Its resources.
        folder: The driver's working directory, to which paths of data and checkpoints may be
            relative.
        variables: Variables of the driver's environment that jobs need on every node.
        orders: The options of the engine.
        mark: A file that the driver creates in the folder of kept encoders. If a node does not see
            the file, it does not share this folder. Jobs that write an encoder or need one then
            fail; other jobs run without snapshots.
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
    """Return the version string, which must be the same on the driver's machine and on a node."""
    return f"{__version__}, method {METHOD}"


def run_remote(
    remote: RemoteJob, tell: Callable[[Progress], None], seconds: float = 0.0
) -> Mapping[str, Any]:
    """Run a job on this machine as the local engine does; return its outcome as plain data.

    An error that the user can fix is not raised, but returned under the key REFUSED. `tell` is
    called with each new phase at once, and with other progress at most every `seconds` seconds.
    """
    try:
        return _run(remote, sparsely(seconds, tell))
    except BenchError as error:
        return refuse(f"{socket.gethostname()}: {error}")


def sparsely(seconds: float, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Return a reporter that passes on new phases at once, and other progress every `seconds`."""
    phase, told = "", float("-inf")

    def report(progress: Progress) -> None:
        nonlocal phase, told
        now = time.monotonic()
        if progress.phase != phase or now - told >= seconds:
            phase, told = progress.phase, now
            tell(progress)

    return report


def refuse(sentence: str, details: object = "") -> Mapping[str, Any]:
    """Build the answer of a node that could not start the job."""
    return {REFUSED: sentence, "details": str(details)}


def _run(remote: RemoteJob, report: Callable[[Progress], None]) -> Mapping[str, Any]:
    if remote.version != version():
        raise JobError(
            f"this node has benchharness {version()}, and `bench run` has {remote.version}: "
            "install the same version on every node."
        )
    job, orders, is_seen = Job.from_json(remote.job), remote.orders, remote.mark.is_file()
    define_task(job.definition)
    if (orders.keep or job.needs) and not is_seen:
        raise JobError(
            f"{orders.checkpoints} is not the folder that `bench run` sees there, and models that "
            "are kept or that others start from go into it: put --db into a folder that every node "
            "shares, or do without (no --keep-models, --start-from pretrained)."
        )
    # The cluster makes only the job's own GPUs visible to this process.
    gpus = ",".join(find_gpus()) if remote.needs.gpus else ""
    if remote.needs.gpus and not gpus:
        raise JobError(
            "this node shows the job no GPU, by CUDA_VISIBLE_DEVICES or `nvidia-smi -L`: ask for "
            "nodes that have some, or use --device cpu."
        )
    slot = make_slot(gpus, max(1, remote.needs.cpus // remote.needs.processes))
    # Variables that the user set for `bench run` also apply on nodes.
    slot = replace(slot, environment={**slot.environment, **remote.variables})
    orders = orders if is_seen else replace(orders, snapshots=None)
    engine = LocalEngine([slot], orders, worker_command(remote.needs.processes))
    # A relative --data or --model is relative to the folder where `bench run` was started.
    there = chdir(remote.folder) if Path(remote.folder).is_dir() else nullcontext()
    with there, closing(engine.run([job], lambda _, progress: report(progress))) as outcomes:
        return next(outcomes).to_json()


RETRIES = 2
"""Default number of times that a job is sent again after its node was lost."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Message that a job's node or its watching process was lost; `reason` can follow "because"."""

    reason: str


News = Progress | Lost | Mapping[str, Any]
"""News about a remote job from a cluster: its progress, its loss, or its Result or Failure."""


class Cluster(Protocol):
    """Interface of a cluster that runs remote jobs.

    `send` returns the cluster's own handle for a job. News may be late, repeated, missing, or about
    a remote job that was given up.
    """

    name: str

    def open(self) -> AbstractContextManager[object]:
        """Context manager that connects to the cluster for the duration of a run."""

    def room(self) -> int:
        """Return how many remote jobs should be queued or running at once, at least one."""

    def send(self, remote: RemoteJob) -> Any:
        """Send a remote job to the next node that has the resources for it; return its handle."""

    def news(self, sent: Mapping[str, Any]) -> Iterable[tuple[str, News]]:
        """Return pairs of ticket and news about remote jobs; wait a moment if there are none.

        `sent` maps the tickets of the jobs to their handles.
        """

    def cancel(self, sent: Collection[Any]) -> None:
        """Cancel remote jobs; wait until their processes have ended, or for some seconds."""


class _Sent(NamedTuple):
    """A job that was sent, the number of the attempt, and the cluster's handle for it."""

    job: Job
    attempt: int
    known: Any


class ClusterEngine:
    """Engine that runs each job in an ordinary worker process on a node of a cluster.

    At most `at_once` jobs are queued or running; None means as many as the cluster has room for.
    Only the process that iterates over `run` receives results, so a database has a single writer.
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

        A job is taken from `jobs` only when the cluster has room for it; None in `jobs` means that
        the rest must wait for a running job. A job whose node was lost is sent again, at most
        `retries` times. Closing the iterator, or an exception in it, cancels the running jobs.
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
        """Send jobs while there is room; return False if no job is left to send or to wait for."""
        room = self._at_once or self._cluster.room()
        while len(self._sent) < room and (job := next(queue, None)) is not None:
            self._send(job, 1, report)
        return bool(self._sent)

    def _send(self, job: Job, attempt: int, report: Report, note: str = "") -> None:
        # Variables of the driver's environment that jobs need on every node; never a token.
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
        """Process news about a job; yield the job's outcome if it has one."""
        if ticket not in self._sent:  # the job was given up, or had ended before
            return
        job, attempt, _ = self._sent[ticket]
        if isinstance(news, Progress):
            report(job, news)
            return
        # From here on late or repeated news of this ticket are ignored.
        del self._sent[ticket]
        if not isinstance(news, Lost):
            outcome = self._arrived(job, attempt, news)
            # The job may have been ended by others, such as a queue at its time limit.
            if not (isinstance(outcome, Failure) and outcome.kind == "interrupted"):
                yield outcome
                return
            news = Lost(reason=f"its node ended it ({outcome.error})")
        if attempt <= self._retries:
            note = f"was lost ({news.reason}) and is sent again"
            self._send(job, attempt + 1, report, note)
        else:
            yield Failure.of(
                job,
                "killed",
                f"the job was lost {attempt} times on {self._cluster.name}, the last time because "
                f"{news.reason}: see what ends the nodes, or give --engine-option memory=GB.",
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
        """Context manager for the file by which nodes recognize the folder of kept encoders."""
        folder = self._orders.checkpoints
        if self._orders.keep or self._orders.snapshots or folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        try:
            yield
        finally:
            self._mark.unlink(missing_ok=True)
            with suppress(OSError):  # the folder is not empty if encoders are left in it
                folder.rmdir()


# Options that every cluster has.

NUMBERS = {"cpus": 1, "memory": 1, "retries": 0, "minutes": 1}
"""Options that are whole numbers, with their minimum: the cores and gigabytes of a job, the number
of retries after its node was lost, and, for Slurm only, its time limit in minutes."""

CANCEL_SECONDS = SAVING_SECONDS + 10
"""Seconds that cancelled jobs have to save their states and end."""


def placement(cluster: Cluster, choice: EngineChoice, *, gpus: int, cpus: int) -> Placement:
    """Build the placement of a cluster's engine from the jobs' resources and the user's options."""
    numbers = read_numbers(choice)
    memory = int(numbers.get("memory", 0) * 1e9)
    needs = Needs(gpus=gpus, cpus=cpus, memory_bytes=memory, processes=choice.processes)
    slot = Slot(device="cuda" if gpus else "cpu", environment={})
    retries = numbers.get("retries", RETRIES)
    engine = partial(ClusterEngine, cluster, needs, at_once=choice.jobs, retries=retries)
    return Placement(slots=(slot,) * (choice.jobs or cluster.room()), engine=engine)


def gpus_of_job(choice: EngineChoice, *, there: bool) -> int:
    """Return how many GPUs a job gets.

    `there` tells whether the cluster has GPUs, as far as known.
    """
    if choice.device not in ("auto", "cpu", "cuda"):
        raise BenchError(
            f"--device {choice.device} names a device of this machine: with --engine "
            f"{choice.name} use auto, cpu or cuda."
        )
    is_used = choice.device == "cuda" or (choice.device == "auto" and there)
    return choice.processes if is_used else 0


def read_numbers(choice: EngineChoice) -> dict[str, int]:
    """Parse the engine options that are whole numbers.

    Raise BenchError if one is not a number or is too small.
    """
    given = {name: text for name, text in choice.options.items() if name in NUMBERS}
    for name, text in given.items():
        least = NUMBERS[name]
        if not text.isdecimal() or int(text) < least:
            raise BenchError(
                f"--engine-option {name}={text}: expected a whole number from {least} up."
            )
    return {name: int(text) for name, text in given.items()}
