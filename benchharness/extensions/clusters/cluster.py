"""The engine for other machines: jobs go to a cluster, and elsewhere again where a node is lost."""

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
from benchharness.leaderboard.job import METHOD, Job, define_task
from benchharness.leaderboard.result import Failure
from benchharness.machine import estimate_memory
from benchharness.plugins import VARIABLE
from benchharness.progress import Progress
from benchharness.tasks.errors import BenchError, JobError

# A job for another machine: what the driver sends to a node, and how the node carries it out.

REFUSED = "refused"
"""The key of what comes back where a node could not even start a job: a sentence."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a job takes up on its node in all: GPUs, cores, bytes of main memory, processes.

    It trains in so many `processes`, on a GPU each where it has any. Without bytes they follow from
    the size of its model.
    """

    gpus: int
    cpus: int
    memory_bytes: int = 0
    processes: int = 1

    def of(self, job: Job) -> "Needs":
        """What this one takes up, where others take up that; a baseline is learned on one core."""
        if job.kind == "baseline":
            return Needs(gpus=0, cpus=1, memory_bytes=estimate_memory(job))
        estimated = self.processes * estimate_memory(job, gpu=self.gpus > 0)
        return replace(self, memory_bytes=self.memory_bytes or estimated)


@dataclass(frozen=True, kw_only=True)
class RemoteJob:
    """One job with everything a node has to know; all of it is plain data, and none is secret.

    `ticket` is the engine's name of it, another one each time that it is sent. `folder` is the
    driver's current one, which relative paths of data and checkpoints start from. The driver writes
    the file `mark` into the folder of encoders that jobs leave for each other: a node that does not
    see it has another folder of that name. It must see it where the job leaves an encoder or starts
    from one; where it does not, other jobs keep no states.
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
    """What has to be the same on the driver's machine and on a node."""
    return f"{__version__}, method {METHOD}"


def run_remote(
    remote: RemoteJob, tell: Callable[[Progress], None], seconds: float = 0.0
) -> Mapping[str, Any]:
    """Runs the job on this machine as the local engine does; its Result or Failure as plain data.

    Each new phase is told at once, and anything else every so many `seconds` at most. Raises
    nothing that the user can mend: it comes back under REFUSED.
    """
    try:
        return _run(remote, sparsely(seconds, tell))
    except BenchError as error:
        return refuse(f"{socket.gethostname()}: {error}")


def sparsely(seconds: float, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """A reporter that passes on each new phase at once, and anything else so often at most."""
    phase, told = "", float("-inf")

    def report(progress: Progress) -> None:
        nonlocal phase, told
        now = time.monotonic()
        if progress.phase != phase or now - told >= seconds:
            phase, told = progress.phase, now
            tell(progress)

    return report


def refuse(sentence: str, details: object = "") -> Mapping[str, Any]:
    """What comes back from a node on which nothing could be started."""
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
    # The GPUs that the cluster has given to the job are those that are visible here.
    gpus = ",".join(find_gpus()) if remote.needs.gpus else ""
    if remote.needs.gpus and not gpus:
        raise JobError(
            "this node shows the job no GPU, by CUDA_VISIBLE_DEVICES or `nvidia-smi -L`: ask for "
            "nodes that have some, or use --device cpu."
        )
    slot = make_slot(gpus, max(1, remote.needs.cpus // remote.needs.processes))
    # What the user has set for `bench run` counts on nodes too.
    slot = replace(slot, environment={**slot.environment, **remote.variables})
    orders = orders if is_seen else replace(orders, snapshots=None)
    engine = LocalEngine([slot], orders, worker_command(remote.needs.processes))
    # A relative --data or --model means what it means where `bench run` was started.
    there = chdir(remote.folder) if Path(remote.folder).is_dir() else nullcontext()
    with there, closing(engine.run([job], lambda _, progress: report(progress))) as outcomes:
        return next(outcomes).to_json()


RETRIES = 2
"""How often a job is sent again after its node was lost, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A job's node, or the process that watched over it, is gone; `reason` is a sentence's end."""

    reason: str


News = Progress | Lost | Mapping[str, Any]
"""What a cluster says of a remote job: how far it is, that it is lost, or what it has left."""


class Cluster(Protocol):
    """Machines that run remote jobs, each of which it knows by what `send` has given.

    News may come late, twice, of a remote job that was given up, or never.
    """

    name: str

    def open(self) -> AbstractContextManager[object]:
        """Connects for the time of a run."""

    def room(self) -> int:
        """How many remote jobs it makes sense to have on their way, at least one."""

    def send(self, remote: RemoteJob) -> Any:
        """Sends a remote job to the next node that has what it needs."""

    def news(self, sent: Mapping[str, Any]) -> Iterable[tuple[str, News]]:
        """What has become known of remote jobs, by ticket; waits a moment where that is nothing."""

    def cancel(self, sent: Collection[Any]) -> None:
        """Ends remote jobs, and waits until their processes have ended or some seconds are over."""


class _Sent(NamedTuple):
    """A job that was sent, how often by now, and as what its cluster knows it."""

    job: Job
    attempt: int
    known: Any


class ClusterEngine:
    """Runs jobs on a cluster, each in the ordinary worker process of a node.

    `at_once` of them are on their way, None for as many as the cluster has room for. Only the
    process that iterates learns of results, so a database has one writer.
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
        """Yields what each job left behind, as the jobs end, each once.

        A job is taken from `jobs` only when the cluster has room for it; None says that what is
        left must wait for a job that runs. A job whose node was lost is sent again, at most so
        often as `retries` says. Closing the iterator, or an exception in it, cancels what
        runs.
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
        """Sends jobs while there is room; False when nothing is left to send or to wait for."""
        room = self._at_once or self._cluster.room()
        while len(self._sent) < room and (job := next(queue, None)) is not None:
            self._send(job, 1, report)
        return bool(self._sent)

    def _send(self, job: Job, attempt: int, report: Report, note: str = "") -> None:
        # The variables of the driver's environment that jobs need everywhere; never a token.
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
        """What a piece of news means: an outcome, or nothing for the caller."""
        if ticket not in self._sent:  # it was given up, or has ended before
            return
        job, attempt, _ = self._sent[ticket]
        if isinstance(news, Progress):
            report(job, news)
            return
        # From here on news of this ticket that come late or twice are nobody's.
        del self._sent[ticket]
        if not isinstance(news, Lost):
            outcome = self._arrived(job, attempt, news)
            # Somebody else than the driver may have ended it, such as a queue at its time limit.
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
        """Puts a mark into the folder of encoders by which nodes tell that it is the same."""
        folder = self._orders.checkpoints
        if self._orders.keep or self._orders.snapshots or folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        try:
            yield
        finally:
            self._mark.unlink(missing_ok=True)
            with suppress(OSError):  # where encoders are left in it
                folder.rmdir()


# What the options of every cluster are.

NUMBERS = {"cpus": 1, "memory": 1, "retries": 0, "minutes": 1}
"""Options that are whole numbers, and the least: cores and gigabytes of a job, how often it is sent
again after its node was lost, and for Slurm alone its time limit."""

CANCEL_SECONDS = SAVING_SECONDS + 10
"""How long cancelled jobs may take to save their states and end."""


def placement(cluster: Cluster, choice: EngineChoice, *, gpus: int, cpus: int) -> Placement:
    """The placement of a cluster's engine; what else each job gets, the choice says."""
    numbers = read_numbers(choice)
    memory = int(numbers.get("memory", 0) * 1e9)
    needs = Needs(gpus=gpus, cpus=cpus, memory_bytes=memory, processes=choice.processes)
    slot = Slot(device="cuda" if gpus else "cpu", environment={})
    retries = numbers.get("retries", RETRIES)
    engine = partial(ClusterEngine, cluster, needs, at_once=choice.jobs, retries=retries)
    return Placement(slots=(slot,) * (choice.jobs or cluster.room()), engine=engine)


def gpus_of_job(choice: EngineChoice, *, there: bool) -> int:
    """How many GPUs a job gets; `there` says whether the cluster has any, as far as is known."""
    if choice.device not in ("auto", "cpu", "cuda"):
        raise BenchError(
            f"--device {choice.device} names a device of this machine: with --engine "
            f"{choice.name} use auto, cpu or cuda."
        )
    is_used = choice.device == "cuda" or (choice.device == "auto" and there)
    return choice.processes if is_used else 0


def read_numbers(choice: EngineChoice) -> dict[str, int]:
    """The options that are numbers; BenchError where one is something else, or too small."""
    given = {name: text for name, text in choice.options.items() if name in NUMBERS}
    for name, text in given.items():
        least = NUMBERS[name]
        if not text.isdecimal() or int(text) < least:
            raise BenchError(
                f"--engine-option {name}={text}: expected a whole number from {least} up."
            )
    return {name: int(text) for name, text in given.items()}
