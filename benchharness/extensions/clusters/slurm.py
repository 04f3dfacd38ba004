"""Jobs on a Slurm cluster whose nodes share a folder.

The library submitit submits each job as a batch job of Slurm.
"""

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchharness.engines.local import EngineChoice, Placement
from benchharness.engines.slots import find_gpus
from benchharness.errors import BenchError
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
    import submitit.core.utils
except ImportError:  # an optional dependency
    submitit: Any = None  # type: ignore[no-redef]

POLL_SECONDS = {"slurm": 2.0, "local": 0.2}
"""Seconds between two reads of the shared folder, keyed by executor: Slurm, or processes on this
machine. Reading more often could overload a network file system.
"""

SECONDS_BETWEEN_NOTES = 2.0
"""Minimum number of seconds between two progress messages that a job writes to the folder."""

AT_ONCE = 64
"""Default maximum number of batch jobs that are queued or running at once (`--jobs`)."""

MINUTES = 24 * 60
"""Default time limit of a batch job in minutes. Many partitions allow no more than a day."""

CPUS = 8
"""Default number of cores of a batch job. A job that is shorter than its own start gets one."""


def place(choice: EngineChoice) -> Placement:
    """Return the slots and the engine for running jobs through Slurm's queue.

    Raises BenchError if an option is invalid, or if submitit or Slurm is not on this machine.
    """
    numbers, where = read_numbers(choice), choice.address or "slurm"
    if where not in ("slurm", "local"):
        raise BenchError(
            f"--address {where!r} is not possible with --engine slurm: remove it to submit to "
            "Slurm, or use --address local to test on this machine without Slurm."
        )
    is_local = where == "local"
    gpus = gpus_of_job(choice, there=bool(find_gpus()) if is_local else True)
    if submitit is None:
        raise BenchError(
            "--engine slurm needs submitit, which is not installed: "
            "pip install 'benchharness[slurm]'."
        )
    if not is_local and shutil.which("sbatch") is None:
        raise BenchError(
            "--engine slurm needs `sbatch`, which is not on this machine: start `bench run` on a "
            "login node, or use --address local to test on this machine without Slurm."
        )
    cpus = numbers.get("cpus", 1 if choice.small else CPUS)
    root = Path(choice.options.get("folder", choice.folder / "slurm")).absolute()
    # All other options are passed to sbatch under their own names, such as partition and account.
    ours = NUMBERS.keys() | {"folder"}
    cluster = SlurmCluster(
        name="submitit's local executor" if is_local else "slurm",
        where=where,
        folder=root / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}",
        minutes=numbers.get("minutes", MINUTES),
        options={name: value for name, value in choice.options.items() if name not in ours},
    )
    return placement(cluster, choice, gpus=gpus, cpus=cpus)


@dataclass(kw_only=True)
class SlurmCluster:
    """Cluster that submits batch jobs to Slurm or, for tests, starts processes on this machine.

    Attributes:
        name: Name of the cluster in messages and results.
        where: Executor of submitit: "slurm", or "local" for processes on this machine.
        folder: Folder of this run, which every node must see under the same path. It is removed at
            the end of the run.
        minutes: Time limit of a batch job in minutes.
        options: Other options that are passed to sbatch, keyed by name.
    """

    name: str
    where: str
    folder: Path
    minutes: int
    options: Mapping[str, str]

    @contextmanager
    def open(self) -> Iterator[None]:
        """Context manager that creates the shared folder, and removes it at the end of the run."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            yield
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def room(self) -> int:
        """Return how many batch jobs may be queued or running at the same time."""
        return 1 if self.where == "local" else AT_ONCE

    def send(self, remote: RemoteJob) -> Any:
        """Submit a remote job as a batch job; return submitit's object for the batch job."""
        executor = submitit.AutoExecutor(self.folder, cluster=self.where)
        executor.update_parameters(
            name="bench",
            timeout_min=self.minutes,
            gpus_per_node=remote.needs.gpus or None,
            cpus_per_task=remote.needs.cpus,
            # Round up to whole gigabytes.
            mem_gb=-(-remote.needs.memory_bytes // 10**9),
            slurm_additional_parameters=dict(self.options) or None,
        )
        return executor.submit(run_on_node, remote, self._note(remote.ticket))

    def news(self, sent: Mapping[str, Any]) -> Iterator[tuple[str, News]]:
        """Wait a moment, then yield new progress and the outcomes of batch jobs that have ended."""
        time.sleep(POLL_SECONDS[self.where])
        for ticket, job in sent.items():
            if job.done():
                yield ticket, self._read_end(job)
                continue
            note = self._note(ticket)
            with suppress(OSError, ValueError, TypeError):  # no new progress was written
                taken = note.replace(note.with_suffix(".taken"))
                yield ticket, Progress(**json.loads(taken.read_bytes()))

    def cancel(self, sent: Collection[Any]) -> None:
        """Remove batch jobs from the queue, and wait some seconds for running ones to end."""
        for job in sent:
            job.cancel(check=False)
        deadline = time.monotonic() + CANCEL_SECONDS
        while time.monotonic() < deadline and not all(job.done() for job in sent):
            time.sleep(POLL_SECONDS["local"])

    def _note(self, ticket: str) -> Path:
        return self.folder / f"{ticket}.progress"

    def _read_end(self, job: Any) -> News:
        try:
            left: Mapping[str, Any] = job.result()
        except submitit.core.utils.FailedJobError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            # Find the line of the exception, such as "ImportError: No module named 'x'".
            said = next((line for line in reversed(lines) if ": " in line), lines[-1])
            return refuse(f"the job could not start on its node ({said})", details=error)
        except (submitit.core.utils.UncompletedJobError, OSError, EOFError):
            return Lost(reason=f"batch job {job.job_id} left no result (state {job.state})")
        return left


def run_on_node(remote: RemoteJob, note: Path) -> Mapping[str, Any]:
    """Run a remote job inside a batch job, and return its outcome as `run_remote` does.

    Args:
        remote: The job and everything that it needs.
        note: The file to which the latest progress of the job is written.
    """

    def write(progress: Progress) -> None:
        draft = note.with_suffix(".draft")
        with suppress(OSError):  # a full disk only prevents progress messages
            draft.write_text(json.dumps(asdict(progress)), encoding="utf-8")
            draft.replace(note)

    return run_remote(remote, write, SECONDS_BETWEEN_NOTES)
