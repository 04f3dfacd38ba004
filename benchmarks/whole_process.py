"""Run a command as a process, and measure its time and memory, including its children's."""

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LIMIT", "Ended", "run_whole"]

SAMPLE_SECONDS = 0.5

LIMIT: ContextVar[float | None] = ContextVar("LIMIT", default=None)
"""Seconds after which a command counts as hanging and is killed."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The output, time and memory of a process that has ended successfully.

    `cpu_seconds` includes the time of child processes. `peak_bytes` is the larger of two figures,
    which are sampled twice per second. One is the kernel's peak for the largest process. The other
    is the sum over the process tree, with shared pages counted once (Pss, if /proc has it).
    """

    stdout: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_whole(command: Sequence[str], environment: Mapping[str, str]) -> Ended:
    """Run a command to its end, and measure it.

    The command has also ended if an exception is raised.

    Raises:
        RuntimeError: The command fails; the message has the end of its error output.
        subprocess.TimeoutExpired: The command exceeds LIMIT.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watch = _Watch(process.pid)
        watch.start()
        try:
            stdout, stderr = process.communicate(timeout=LIMIT.get())
            seconds = time.monotonic() - start
        finally:
            process.kill()  # has no effect if the process has ended
            watch.stop()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ended(stdout=stdout, seconds=seconds, cpu_seconds=cpu, peak_bytes=watch.peak_bytes)


class _Watch(threading.Thread):
    """Thread that samples the memory of a process tree until the thread is stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            tree = _tree(self.pid)
            together = sum(_kilobytes(pid, "smaps_rollup", "Pss:") for pid in tree)
            largest = max((_kilobytes(pid, "status", "VmHWM:") for pid in tree), default=0)
            self.peak_bytes = max(self.peak_bytes, 1024 * max(together, largest))

    def stop(self) -> None:
        self._over.set()
        self.join()


def _tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        text = " ".join((thread / "children").read_text() for thread in threads)
    except OSError:
        return []
    return [pid, *(inner for child in text.split() for inner in _tree(int(child)))]


def _kilobytes(pid: int, file: str, name: str) -> int:
    """Return a figure from a process's file in /proc; 0 if the file cannot be read."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
