"""Jobs on a Slurm cluster by submitit: a batch job for each, through a folder that nodes share."""

import json
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchharness.engines.cluster import (
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
from benchharness.engines.local import EngineChoice, Placement
from benchharness.engines.slots import find_gpus
from benchharness.progress import Progress
from benchharness.tasks.errors import BenchError

try:
    import submitit.core.utils
except ImportError:  # an extra
    submitit: Any = None  # type: ignore[no-redef]

POLL_SECONDS = {"slurm": 2.0, "local": 0.2}
"""How often the folder is looked at: a network's file system is not to be stormed."""

SECONDS_BETWEEN_NOTES = 2.0
"""How often a job writes its progress into the folder."""

AT_ONCE = 64
"""How many batch jobs are in the queue at once unless --jobs says otherwise."""

MINUTES = 24 * 60
"""A batch job's time limit unless told otherwise, and the longest that many partitions grant."""

CPUS = 8
"""The cores of a batch job unless told otherwise."""


def place(choice: EngineChoice) -> Placement:
    """Where jobs run in Slurm's queue; BenchError where an option has no such value."""
    numbers, where = read_numbers(choice), choice.address or "slurm"
    if where not in ("slurm", "local"):
        raise BenchError(
            f"--address {where} is not a queue: leave it out to use this machine's Slurm, or try "
            "things out without Slurm by --address local."
        )
    is_local = where == "local"
    gpus = gpus_of_job(choice, there=bool(find_gpus()) if is_local else True)
    cpus = numbers.get("cpus", 1 if choice.small else CPUS)
    at_once = choice.jobs or (1 if is_local else AT_ONCE)
    folder = Path(choice.options.get("folder", choice.folder / "slurm"))
    minutes = numbers.get("minutes", MINUTES)
    # What else is said is meant for sbatch itself, by its own names, such as partition and account.
    ours = NUMBERS | {"minutes", "folder"}
    sbatch = {name: value for name, value in choice.options.items() if name not in ours}
    cluster = SlurmCluster(folder, where, at_once, minutes, sbatch)
    return placement(cluster, choice, at_once, gpus=gpus, cpus=cpus)


class SlurmCluster:
    """Slurm's queue, or for trying things out, `where="local"`, processes of this machine.

    `folder` is one that every node sees under the same name; a run takes a folder of its own in it,
    and removes that at its end. `minutes` is the time limit of a job; `options` go to sbatch.
    """

    def __init__(
        self, folder: Path, where: str, at_once: int, minutes: int, options: Mapping[str, str]
    ) -> None:
        if submitit is None:
            raise BenchError(
                "--engine slurm needs submitit, which is not installed: "
                "pip install 'benchharness[slurm]'."
            )
        if where == "slurm" and shutil.which("sbatch") is None:
            raise BenchError(
                "--engine slurm needs `sbatch`, which is not on this machine: start `bench run` on "
                "a login node, or try things out by --address local."
            )
        self.name = "slurm" if where == "slurm" else "submitit's local executor"
        self._where = where
        self._root = folder.absolute()
        self._at_once = at_once
        self._minutes = minutes
        self._options = dict(options)
        self._jobs: dict[str, Any] = {}
        self._seen: dict[str, int] = {}

    @contextmanager
    def open(self) -> Iterator[None]:
        """Makes the folder of this run."""
        self._folder = self._root / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._folder.mkdir(parents=True, mode=0o700)
        try:
            yield
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def room(self) -> int:
        """How many batch jobs are in the queue or run at the same time."""
        return self._at_once

    def send(self, remote: RemoteJob) -> str:
        """Puts a remote job into the queue; gives its ticket, which is not the queue's."""
        needs, ticket = remote.needs, os.urandom(8).hex()
        executor = submitit.AutoExecutor(self._folder, cluster=self._where)
        executor.update_parameters(
            name="bench",
            timeout_min=self._minutes,
            gpus_per_node=needs.gpus or None,
            cpus_per_task=needs.cpus,
            # Rounded up.
            mem_gb=-(-needs.memory_bytes // 10**9),
            slurm_additional_parameters=self._options or None,
        )
        self._jobs[ticket] = executor.submit(run_on_node, remote, self._note(ticket))
        return ticket

    def news(self, tickets: Collection[str]) -> Iterator[tuple[str, News]]:
        """What has become known of these remote jobs, after a moment."""
        time.sleep(POLL_SECONDS[self._where])
        for ticket in tickets:
            if self._jobs[ticket].done():
                yield ticket, self._read_end(self._jobs.pop(ticket))
            elif (progress := self._read_note(ticket)) is not None:
                yield ticket, progress

    def cancel(self, tickets: Collection[str]) -> None:
        """Takes jobs out of the queue, and waits some seconds for those that ran."""
        jobs = [self._jobs.pop(ticket) for ticket in tickets]
        for job in jobs:
            job.cancel(check=False)
        deadline = time.monotonic() + CANCEL_SECONDS
        while time.monotonic() < deadline and not all(job.done() for job in jobs):
            time.sleep(POLL_SECONDS["local"])

    def _note(self, ticket: str) -> Path:
        return self._folder / f"{ticket}.progress"

    def _read_note(self, ticket: str) -> Progress | None:
        """The progress that a job has written since the last time; None where there is none."""
        note = self._note(ticket)
        with suppress(OSError, ValueError, TypeError):
            written = note.stat().st_mtime_ns
            if written != self._seen.get(ticket):
                progress = Progress(**json.loads(note.read_bytes()))
                self._seen[ticket] = written
                return progress
        return None

    def _read_end(self, job: Any) -> News:
        errors = submitit.core.utils
        try:
            left: Mapping[str, Any] = job.result()
        except errors.FailedJobError as error:
            sentence = f"the job could not be started on its node ({_last_line(str(error))})"
            return refuse(sentence, details=error)
        except (errors.UncompletedJobError, OSError, EOFError):
            return Lost(reason=f"batch job {job.job_id} left nothing (state {job.state})")
        return left


def run_on_node(remote: RemoteJob, note: Path) -> Mapping[str, Any]:
    """What a batch job runs: the remote job, with its progress in a file."""
    return run_remote(remote, lambda p: _write_note(note, p), SECONDS_BETWEEN_NOTES)


def _write_note(note: Path, progress: Progress) -> None:
    """Puts a progress in the place of the one before; a full disk costs the view, not the job."""
    draft = note.with_suffix(".draft")
    with suppress(OSError):
        draft.write_text(json.dumps(asdict(progress)), encoding="utf-8")
        draft.replace(note)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # "ImportError: No module named 'x'" may have other lines behind it.
    return next((line for line in reversed(lines) if ": " in line), lines[-1] if lines else "")
