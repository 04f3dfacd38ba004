"""What predicting with an encoder costs on a slot of this machine, measured in a process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from benchharness.engines.slots import Slot
from benchharness.leaderboard.job import Job
from benchharness.tasks.errors import JobError
from benchharness.worker import DIES_WITH
from benchharness.worker.__main__ import QUIET

COMMAND = (sys.executable, "-P", "-m", "benchharness.worker.inference")


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Real tokens a second, without padding, and the most memory of its process, in bytes.

    On a CPU that is main memory, the libraries' own half a gigabyte included, and `threads` is on
    how many it computed; on a GPU it is the GPU's.
    """

    tokens_per_second: float
    peak_memory_bytes: int
    parameters: int
    threads: int


def measure_inference(job: Job, slot: Slot, timeout: float | None = None) -> Inference:
    """Predicts rows of the job's dev split for some seconds; JobError where that cannot be done."""
    environment = {**os.environ, **QUIET, **slot.environment, DIES_WITH: str(os.getpid())}
    try:
        ended = subprocess.run(  # noqa: S603  (our own module)
            COMMAND,
            input=json.dumps(job.to_json()),
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        found = json.loads(ended.stdout.rstrip().rpartition("\n")[2])  # libraries print, too
        if "error" in found:
            raise JobError(found["error"])
        return Inference(**found)
    except subprocess.TimeoutExpired as error:
        raise JobError(f"measuring {job.model} took more than {timeout:g} seconds.") from error
    except (ValueError, TypeError) as error:
        last = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise JobError(f"measuring {job.model} failed: {last}") from error
