"""Jobs on a Ray cluster, one Ray task per job. Nodes may join, leave and lose their connection."""

import os
import signal
import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchharness.engines.local import EngineChoice, Placement
from benchharness.errors import BenchError, first_line, unknown_name
from benchharness.extensions.clusters.cluster import (
    CANCEL_SECONDS,
    NUMBERS,
    Lost,
    News,
    RemoteJob,
    gpus_of_job,
    placement,
    read_numbers,
    refuse,
    run_remote,
)
from benchharness.progress import Progress

try:
    import ray.util.scheduling_strategies
except ImportError:  # an optional dependency
    ray: Any = None  # type: ignore[no-redef]

POLL_SECONDS = 0.2
"""Maximum number of seconds to wait for the end of a task before progress is read again."""

SECONDS_BETWEEN_NOTES = 1.0
"""Minimum number of seconds between two progress messages of a job."""

KNOCK_SECONDS = 5.0
"""Maximum number of seconds to wait until the head node of a cluster accepts a connection."""


def place(choice: EngineChoice) -> Placement:
    """Connect to a Ray cluster, and return the slots and the engine for running jobs on it.

    Raises BenchError if an option is invalid, no cluster answers, or no node is large enough for a
    job.
    """
    numbers = read_numbers(choice)
    known = NUMBERS.keys() - {"minutes"}
    for name in choice.options:
        if name not in known:
            raise unknown_name(f"option of --engine {choice.name}", name, known)
    connect(choice.address or "auto")
    sizes = node_sizes()
    gpus = gpus_of_job(choice, there=any(size.gpus for size in sizes))
    # A job with one of a node's 8 GPUs gets an eighth of the node's cores. If nodes differ, use the
    # smallest share, so that every node has enough cores to use all of its GPUs.
    shares = [s.cpus * gpus // s.gpus if gpus else s.cpus for s in sizes if s.gpus or not gpus]
    cpus = numbers.get("cpus", 1 if choice.small else max(1, min(shares, default=1)))
    if not jobs_at_once(sizes, gpus, cpus):
        raise BenchError(
            f"a job needs {gpus} GPUs and {cpus} cores, but no node of the Ray cluster has that "
            f"many. Its {len(sizes)} nodes have {sum(size.gpus for size in sizes)} GPUs and "
            f"{sum(size.cpus for size in sizes)} cores in total."
        )
    return placement(RayCluster(gpus, cpus), choice, gpus=gpus, cpus=cpus)


class NodeSize(NamedTuple):
    """Total GPUs, CPU cores and bytes of main memory of a node, including those in use."""

    gpus: int
    cpus: int
    memory_bytes: int


def connect(address: str) -> None:
    """Connect this process to a running Ray cluster.

    Args:
        address: HOST:PORT of the cluster's head node, or "auto" for the cluster of this machine.

    Raises:
        BenchError: Ray is not installed, the address has the wrong form, or no cluster answers.
    """
    if ray is None:
        raise BenchError(
            "--engine ray needs Ray, which is not installed: pip install 'benchharness[ray]'."
        )
    if address.startswith("ray://"):
        raise BenchError(
            f"--address {address!r} is an address for Ray clients: start `bench run` on a node of "
            "the cluster, with --address auto or the HOST:PORT of `ray start --address`."
        )
    handler = signal.getsignal(signal.SIGTERM)  # ray.init replaces this handler
    try:
        # Fail at once if no cluster listens: Ray would try for minutes.
        host, colon, port = address.rpartition(":")
        if colon and port.isdecimal():
            socket.create_connection((host, int(port)), KNOCK_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, RuntimeError, ValueError) as error:
        raise BenchError(
            f"no Ray cluster answers at {address} ({first_line(error)}): start one with "
            "`ray start --head`, or run this command on a node of a cluster with --address "
            "HOST:PORT."
        ) from error
    finally:
        signal.signal(signal.SIGTERM, handler)


def node_sizes() -> list[NodeSize]:
    """Return the total resources of each live node of the connected cluster."""
    offers = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [
        NodeSize(*(int(offer.get(name, 0)) for name in ("GPU", "CPU", "memory")))
        for offer in offers
    ]


def jobs_at_once(sizes: Collection[NodeSize], gpus: int, cpus: int) -> int:
    """Return how many jobs, with this number of GPUs and cores each, fit on the nodes at once."""
    return sum(
        min(size.cpus // cpus, size.gpus // gpus if gpus else size.cpus // cpus) for size in sizes
    )


class RayCluster:
    """The Ray cluster to which this process is connected.

    Args:
        gpus: Number of GPUs per job.
        cpus: Number of CPU cores per job.
    """

    name = "ray"

    def __init__(self, gpus: int, cpus: int) -> None:
        self._fit = partial(jobs_at_once, gpus=gpus, cpus=cpus)
        self._notes: Any = None

    @contextmanager
    def open(self) -> Iterator[None]:
        """Context manager that starts a ProgressActor on this node, and disconnects at the end.

        Within the context, nothing is printed to stdout, because Ray prints long messages about
        lost nodes there. Lost jobs are reported anyway.
        """
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            actor = ray.remote(num_cpus=0, scheduling_strategy=here)(ProgressActor)
            self._progress = actor.remote()
            try:
                yield
            finally:
                ray.shutdown()

    def room(self) -> int:
        """Return how many jobs fit on the nodes that are in the cluster now, but at least 1."""
        return max(1, self._fit(node_sizes()))

    def send(self, remote: RemoteJob) -> Any:
        """Send a remote job as a Ray task to the next node that can run it; return the task."""
        needs = remote.needs
        largest = max((size.memory_bytes for size in node_sizes()), default=0)
        task = ray.remote(
            num_gpus=needs.gpus,
            num_cpus=needs.cpus,
            # Limit the memory: a job that requests more than any node has would wait forever.
            memory=min(needs.memory_bytes, largest),
            # ClusterEngine sends lost jobs again instead, to count and report them.
            max_retries=0,
        )(run_on_node)
        return task.remote(remote, self._progress)

    def news(self, sent: Mapping[str, Any]) -> Iterator[tuple[str, News]]:
        """Wait a moment for a task to end; yield new progress, then the outcomes of ended tasks."""
        waiting = {task: ticket for ticket, task in sent.items()}
        ended, _ = ray.wait(
            list(waiting), num_returns=len(waiting), timeout=POLL_SECONDS, fetch_local=False
        )
        # Yield progress before outcomes: progress of a job that has ended is dropped.
        yield from self._read_notes()
        for task in ended:
            yield waiting[task], self._read_end(task)

    def cancel(self, sent: Collection[Any]) -> None:
        """Interrupt tasks, which then end their processes; kill tasks that do not end in time."""
        if not sent:
            return
        try:
            for task in sent:
                ray.cancel(task, force=False)
            ray.wait(list(sent), num_returns=len(sent), timeout=CANCEL_SECONDS, fetch_local=False)
        finally:
            for task in sent:
                ray.cancel(task, force=True)

    def _read_notes(self) -> Iterator[tuple[str, News]]:
        """Yield the latest progress of each remote job; nothing while the actor is unavailable."""
        # Keep the request until it is answered: the actor forgets progress that it has returned.
        self._notes = self._notes or self._progress.take.remote()
        with suppress(ray.exceptions.RayError):
            ready, _ = ray.wait([self._notes], timeout=0)
            if ready:
                done, self._notes = self._notes, None
                yield from ray.get(done).items()

    def _read_end(self, task: Any) -> News:
        try:
            left: Mapping[str, Any] = ray.get(task)
        except ray.exceptions.RayTaskError as error:
            sentence = f"the job could not start on its node: {first_line(error.cause)}"
            return refuse(sentence, details=error)
        except ray.exceptions.RayError as error:
            return Lost(reason=first_line(error).rstrip("."))
        return left


class ProgressActor:
    """Ray actor that keeps the latest progress of each remote job until `bench run` reads it."""

    def __init__(self) -> None:
        self._notes: dict[str, Progress] = {}

    def put(self, ticket: str, note: Progress) -> None:
        """Store the progress of a remote job, and drop its earlier progress."""
        self._notes[ticket] = note

    def take(self) -> dict[str, Progress]:
        """Return the latest progress of each job, keyed by ticket, and forget it."""
        notes, self._notes = self._notes, {}
        return notes


def run_on_node(remote: RemoteJob, progress: Any) -> Mapping[str, Any]:
    """Run a remote job in a Ray task, and return its outcome as `run_remote` does.

    Args:
        remote: The job and everything that it needs.
        progress: Handle of the ProgressActor that receives the progress of the job.
    """
    return run_remote(remote, partial(progress.put.remote, remote.ticket), SECONDS_BETWEEN_NOTES)
