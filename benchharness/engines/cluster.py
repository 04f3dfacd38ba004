"""The engine for other machines: jobs go to a cluster, and elsewhere again where a node is lost."""

import os
import socket
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    chdir,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeGuard
from uuid import uuid4

from benchharness import __version__
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Outcome, Report, worker_command
from benchharness.engines.slots import Slot
from benchharness.estimate import estimate_memory
from benchharness.kept_folders import CHECKPOINTS, SnapshotFolder
from benchharness.plugins import VARIABLE
from benchharness.progress import Progress
from leaderboard.job import METHOD, Job
from leaderboard.result import Failure, Result
from tasks.errors import BenchError, JobError

__all__ = [
    "Cluster",
    "ClusterEngine",
    "Crew",
    "Errand",
    "Lost",
    "Needs",
    "News",
    "Share",
    "carry_out",
    "refuse",
    "sparsely",
    "version",
]

# A job for another machine: what the driver sends to a node, and how the node carries it out.

REFUSED = "refused"
"""The key of what comes back where a node could not even start a job: a sentence."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a job takes up on its node in all: GPUs, cores, bytes of main memory, processes."""

    gpus: int
    cpus: int
    memory_bytes: int
    processes: int = 1


@dataclass(frozen=True, kw_only=True)
class Share:
    """What jobs keep for each other and for themselves, and how a node knows whether it sees it.

    `folder` is that of the encoders that jobs leave for each other; the driver writes `token` into
    the file `mark` of it, and a node that does not see that has another folder of that name. The
    states of running jobs are in `snapshots`, beside it.
    """

    folder: Path
    token: str
    snapshots: SnapshotFolder | None = None

    @property
    def mark(self) -> Path:
        """The file that only the driver writes."""
        return self.folder / f"shared-{self.token}"

    @property
    def is_seen(self) -> bool:
        """Whether this machine sees the driver's folder."""
        return self.mark.is_file()


@dataclass(frozen=True, kw_only=True)
class Errand:
    """One job with everything a node has to know; all of it is plain data, and none is secret.

    `folder` is the driver's current one, which relative paths of data and checkpoints start from.
    `command` starts the worker, None for that of the node's own Python. A node must see `share`
    where the job leaves an encoder for others (`keep`) or starts from one; where it does not, other
    jobs keep no states.
    """

    job: Mapping[str, Any]
    needs: Needs
    folder: str
    variables: Mapping[str, str]
    timeout: float | None
    share: Share
    keep: bool
    command: tuple[str, ...] | None
    version: str


def version() -> str:
    """What has to be the same on the driver's machine and on a node."""
    return f"{__version__}, method {METHOD}"


def sent_variables() -> dict[str, str]:
    """The variables of the driver's environment that jobs need everywhere; never a token."""
    names = (VARIABLE, "OMP_NUM_THREADS")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def carry_out(errand: Errand, report: Callable[[Progress], None]) -> Mapping[str, Any]:
    """Runs the job on this machine as the local engine does; its Result or Failure as plain data.

    Raises nothing that the user can mend: it comes back under REFUSED.
    """
    try:
        return _run(errand, report)
    except BenchError as error:
        return {REFUSED: f"{socket.gethostname()}: {error}"}


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


def refuse(sentence: str) -> Mapping[str, Any]:
    """What comes back from a node on which nothing could be started."""
    return {REFUSED: sentence}


def _run(errand: Errand, report: Callable[[Progress], None]) -> Mapping[str, Any]:
    _check_version(errand)
    job, share = Job.from_json(errand.job), errand.share
    if errand.keep or job.start_from:
        _check_share(share)
    engine = LocalEngine(
        [_slot(errand)],
        errand.timeout,
        errand.command or worker_command(errand.needs.processes),
        checkpoints=share.folder,
        keep=[job.key] if errand.keep else (),
        snapshots=share.snapshots if share.is_seen else None,
    )
    there = chdir(errand.folder) if Path(errand.folder).is_dir() else nullcontext()
    with there, closing(engine.run([job], lambda _, progress: report(progress))) as outcomes:
        return next(outcomes).to_json()


def _check_version(errand: Errand) -> None:
    if errand.version != version():
        raise JobError(
            f"this node has benchharness {version()}, and `bench run` has {errand.version}: "
            "install the same version on every node."
        )


def _check_share(share: Share) -> None:
    if not share.is_seen:
        raise JobError(
            f"{share.folder} is not the folder that `bench run` sees there, and encoders that "
            "other jobs start from go through it: put --db into a folder that every node shares, "
            "or do without (--start-from scratch)."
        )


def _slot(errand: Errand) -> Slot:
    """The place that the cluster has given to the job: its GPUs are those that are visible here."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") if errand.needs.gpus else ""
    environment = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": gpus,
        "OMP_NUM_THREADS": str(max(1, errand.needs.cpus // errand.needs.processes)),
    }
    return Slot(
        device=f"cuda:{gpus}" if errand.needs.gpus else "cpu",
        environment={**environment, **errand.variables},
    )


RETRIES = 2
"""How often a job is sent again after its node was lost, unless told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A job's node, or the process that watched over it, is gone; `reason` is a sentence's end."""

    reason: str


News = Progress | Lost | Mapping[str, Any]
"""What a cluster says of an errand: how far it is, that it is lost, or what `carry_out` gave."""


class Cluster(Protocol):
    """Machines that carry out errands; a ticket is the cluster's name of an errand on its way.

    News may come late, twice, of an errand that was given up, or never.
    """

    name: str

    def open(self) -> AbstractContextManager[object]:
        """Connects for the time of a run."""

    def room(self) -> int:
        """How many errands it makes sense to have on their way, at least one."""

    def send(self, errand: Errand) -> str:
        """Sends an errand to the next node that has what it needs; gives its ticket."""

    def news(self, tickets: Collection[str]) -> Iterable[tuple[str, News]]:
        """What has become known of these errands; waits a moment where that is nothing."""

    def cancel(self, tickets: Collection[str]) -> None:
        """Ends errands, and waits until their processes have ended or some seconds are over."""


@dataclass(frozen=True, kw_only=True)
class Crew:
    """What each job gets on a node: GPUs, cores, and gigabytes (None: by its model's size).

    It trains in so many `processes`, on a GPU each where it has any.
    """

    gpus: int
    cpus: int
    memory_gb: float | None = None
    retries: int = RETRIES
    processes: int = 1

    def needs(self, job: Job) -> Needs:
        """What one job takes up; a floor is learned on one core."""
        if job.kind == "floor":
            return Needs(gpus=0, cpus=1, memory_bytes=estimate_memory(job))
        estimated = self.processes * estimate_memory(job, gpu=self.gpus > 0)
        return Needs(
            gpus=self.gpus,
            cpus=self.cpus,
            memory_bytes=estimated if self.memory_gb is None else int(self.memory_gb * 1e9),
            processes=self.processes,
        )


class _Trip(NamedTuple):
    """A job on its way, the how manyth time."""

    job: Job
    attempt: int


class ClusterEngine:
    """Runs jobs on a cluster, each in the ordinary worker process of a node.

    Only the process that iterates learns of results, so a database has one writer. The arguments
    are those of the local engine, but for the cluster and what each job gets there.
    """

    def __init__(  # noqa: PLR0913  (those of the local engine, and two)
        self,
        cluster: Cluster,
        crew: Crew,
        timeout: float | None = None,
        command: Sequence[str] | None = None,
        *,
        checkpoints: Path = CHECKPOINTS,
        keep: Collection[str] = (),
        snapshots: SnapshotFolder | None = None,
    ) -> None:
        self._cluster = cluster
        self._crew = crew
        self._timeout = timeout
        self._command = None if command is None else tuple(command)
        self._share = Share(
            folder=checkpoints.absolute(),
            token=uuid4().hex,
            snapshots=snapshots and replace(snapshots, root=snapshots.root.absolute()),
        )
        self._keep = frozenset(keep)

    def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
        """Yields what each job left behind, as the jobs end, each once.

        A job is taken from `jobs` only when the cluster has room for it; None says that what is
        left must wait for a job that runs. A job whose node was lost is sent again, at most so
        often as the crew's `retries`. Closing the iterator, or an exception in it, cancels what
        runs.
        """
        queue, trips = iter(jobs), dict[str, _Trip]()
        with self._cluster.open(), self._marked():
            try:
                while self._fill(queue, trips, report):
                    for ticket, news in self._cluster.news(tuple(trips)):
                        outcome = self._take(trips, ticket, news, report)
                        if outcome is not None:
                            yield outcome
            finally:
                self._cluster.cancel(tuple(trips))

    def _fill(self, queue: Iterator[Job | None], trips: dict[str, _Trip], report: Report) -> bool:
        """Sends jobs while there is room; False when nothing is left to send or to wait for."""
        while len(trips) < self._cluster.room() and (job := next(queue, None)) is not None:
            self._send(_Trip(job, 1), trips, report)
        return bool(trips)

    def _send(self, trip: _Trip, trips: dict[str, _Trip], report: Report, note: str = "") -> None:
        trips[self._cluster.send(self._errand(trip.job))] = trip
        report(trip.job, Progress(phase="waiting", note=note))

    def _errand(self, job: Job) -> Errand:
        keep = job.key in self._keep
        return Errand(
            job=job.to_json(),
            needs=self._crew.needs(job),
            folder=str(Path.cwd()),
            variables=sent_variables(),
            timeout=self._timeout,
            share=self._share,
            keep=keep,
            command=self._command,
            version=version(),
        )

    def _take(
        self, trips: dict[str, _Trip], ticket: str, news: News, report: Report
    ) -> Outcome | None:
        """What a piece of news means: an outcome, or nothing for the caller."""
        trip = trips.get(ticket)
        if trip is None:  # it was given up, or has ended before
            return None
        if isinstance(news, Progress):
            report(trip.job, news)
            return None
        del trips[ticket]
        if not isinstance(news, Lost):
            outcome = self._arrived(trip, news)
            if not _is_stopped(outcome):
                return outcome
            news = Lost(reason=f"its node ended it ({outcome.error})")
        if trip.attempt <= self._crew.retries:
            note = f"was lost ({news.reason}) and is sent again"
            self._send(trip._replace(attempt=trip.attempt + 1), trips, report, note)
            return None
        return _failure(
            trip.job,
            "killed",
            f"the job was lost {trip.attempt} times on {self._cluster.name}, the last time because "
            f"{news.reason}: see what ends the nodes, or give --engine-option memory=GB.",
        )

    def _arrived(self, trip: _Trip, left: Mapping[str, Any]) -> Outcome:
        if REFUSED in left:
            return _failure(trip.job, "failed", str(left[REFUSED]), str(left.get("details", "")))
        if "evaluations" not in left:
            return Failure.from_json(left)
        result = Result.from_json(left)
        engine = {"name": self._cluster.name, "attempt": trip.attempt}
        return replace(result, provenance={**result.provenance, "engine": engine})

    @contextmanager
    def _marked(self) -> Iterator[None]:
        """Puts a mark into the folder of encoders by which nodes tell that it is the same."""
        if self._keep or self._share.snapshots or self._share.folder.is_dir():
            self._share.folder.mkdir(parents=True, exist_ok=True)
            self._share.mark.touch()
        try:
            yield
        finally:
            self._share.mark.unlink(missing_ok=True)
            with suppress(OSError):  # where encoders are left in it
                self._share.folder.rmdir()


def _is_stopped(outcome: Outcome) -> TypeGuard[Failure]:
    """Whether somebody else than the driver has ended a job, such as a queue at its time limit."""
    return isinstance(outcome, Failure) and outcome.kind == "interrupted"


def _failure(job: Job, kind: str, error: str, details: str = "") -> Failure:
    return Failure(
        job=job,
        kind=kind,
        error=error,
        details=details,
        exit_code=JobError.exit_code,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
