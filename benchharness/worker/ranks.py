"""Command that runs one job in several processes.

    python -P -m benchharness.worker.ranks COUNT RESULT_FILE [options]

The command starts COUNT ordinary workers, gives each its number, and ends all of them if one fails.
An engine uses the command like a single worker: it reads the job from stdin, and the first of its
workers prints progress and writes the result. torchrun can start the processes of a job too (as
workers with `--job FILE`), but they find each other through a port that is open on all network
interfaces. The workers of this command use a file instead.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchharness.kept_folders import scratch_folder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure
from benchharness.machine import STORE, is_instance
from benchharness.worker import DIES_WITH, die_with
from benchharness.worker.__main__ import rank_file

Process = subprocess.Popen[bytes]

WORKER = (sys.executable, "-P", "-m", "benchharness.worker")

LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""Environment variables that make the processes communicate over the loopback interface."""

POLL_SECONDS = 0.05

GRACE_SECONDS = 5.0
"""Time in seconds after which the other processes are killed if one process has failed."""

STOPPED = 128 + signal.SIGTERM
"""Exit status of a worker that was stopped by SIGTERM. The worker may have saved its state."""

CONSEQUENCES = ("gloo", "NCCL", "Connection closed", "DistBackendError", "DistNetworkError")
"""Words in the error messages of processes that failed only because another process has ended."""


def main(
    count: int, result_file: Path, words: Sequence[str], worker: Sequence[str] = WORKER
) -> int:
    """Run the job from stdin in several processes.

    Args:
        count: Number of processes. A job without training is computed by one process.
        result_file: File for the Result or the Failure.
        words: Further command-line arguments of each worker, after the result file.
        worker: Command that starts a worker, without arguments.

    Returns:
        0 if no process failed, else the exit status of the process whose failure is reported.
    """
    die_with(os.getppid())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the workers get the signal too, and then end
    job = sys.stdin.buffer.read()  # each process gets a copy of the job
    described = Job.from_json(json.loads(job))
    # A job without training is computed by one process.
    if described.kind == "baseline" or described.is_zero_shot:
        count = 1
    with scratch_folder() as folder:
        command = (*worker, str(result_file), *words)
        ranks = [_start(command, _told(rank, count, folder), job) for rank in range(count)]
        try:
            failed = _wait(ranks)
        finally:
            for process in ranks:  # kill has no effect on processes that have ended
                process.kill()
    return _settle(failed, result_file)


def _told(rank: int, count: int, folder: Path) -> dict[str, str]:
    """Return the environment variables for a process, which set its rank, store file and device.

    CUDA shows a process only the first of several MIG instances, so each process gets its own.
    """
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    told = {**LOOPBACK, **{name: str(n) for name, n in numbers.items()}, STORE: f"{folder}/store"}
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if any(is_instance(device) for device in devices):
        told["CUDA_VISIBLE_DEVICES"] = devices[rank % len(devices)]
    return told


def _start(command: Sequence[str], told: Mapping[str, str], job: bytes) -> Process:
    process = subprocess.Popen(  # noqa: S603  (a command of benchharness, without a shell)
        command,
        stdin=subprocess.PIPE,
        env={**os.environ, **told, DIES_WITH: str(os.getpid())},
        close_fds=False,  # so that each process inherits the locks of this process
    )
    assert process.stdin
    # A process that ended at once has not read its job; its exit status is handled later.
    with suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(job)
    return process


def _wait(ranks: Sequence[Process]) -> dict[int, int]:
    """Wait for the processes; return the exit statuses of those that failed, in order of failure.

    The statuses are keyed by the number of the process. After a failure, the other processes have
    some seconds to end, because most of them notice that one is missing.
    """
    failed: dict[int, int] = {}
    deadline = float("inf")
    while any(process.poll() is None for process in ranks) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        for rank, process in enumerate(ranks):
            if rank not in failed and (status := process.poll()):
                failed[rank] = status
                if status != STOPPED:  # after a stop signal, the others may still be saving
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
    return failed


def _settle(failed: Mapping[int, int], result_file: Path) -> int:
    """Write the failure of the process that failed first as the job's result.

    Processes that failed only because another one is missing are ignored. Returns the exit status.
    """
    if not failed:
        return 0
    left = {rank: _read(rank_file(result_file, rank)) for rank in failed}
    rank = min(failed, key=lambda rank: _is_consequence(left[rank]))
    if left[rank] is not None:
        rank_file(result_file, rank).replace(result_file)  # the engine reads this file
        return failed[rank]
    result_file.unlink(missing_ok=True)
    if failed[rank] < 0:  # a signal killed the process: end in the same way, for the engine
        if failed[rank] != -signal.SIGKILL:
            signal.signal(-failed[rank], signal.SIG_DFL)
        os.kill(os.getpid(), -failed[rank])
    return failed[rank]


def _read(file: Path) -> Failure | None:
    try:
        return Failure.from_json(json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _is_consequence(failure: Failure | None) -> bool:
    return failure is not None and any(word in failure.error for word in CONSEQUENCES)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
