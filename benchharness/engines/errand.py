"""A job for another machine: what the driver sends to a node, and how the node carries it out."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import chdir, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness import __version__
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import worker_command
from benchharness.engines.slots import Slot
from benchharness.plugins import VARIABLE
from benchharness.progress import Progress
from benchharness.restart.folder import SnapshotFolder
from leaderboard.job import METHOD, Job
from tasks.errors import BenchError, JobError

__all__ = [
    "REFUSED",
    "Errand",
    "Needs",
    "Share",
    "carry_out",
    "refuse",
    "sent_variables",
    "sparsely",
    "version",
]

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
