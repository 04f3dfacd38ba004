"""A job in a process of its own, which reports progress and leaves a Result or a Failure."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import IO, Any, Protocol

from benchharness.engines.fork_server import ANSWER_SECONDS, Fork
from benchharness.engines.slots import Slot
from benchharness.errors import first_line
from benchharness.kept_folders import KEPT_MODELS, Holds, SnapshotFolder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress

Outcome = Result | Failure
Report = Callable[[Job, Progress], None]


@dataclass(frozen=True, kw_only=True)
class Orders:
    """Options that a driver passes to any engine.

    Attributes:
        timeout: The seconds without progress after which a job counts as hanging.
        checkpoints: The folder where jobs leave their encoders for other jobs.
        keep: The keys of the jobs that leave their encoder.
        snapshots: The folder where jobs save their states; None for no snapshots.
        holds: The locks that a job is held by. A worker of this machine inherits its job's lock; a
            worker on another node cannot.
    """

    timeout: float = math.inf
    checkpoints: Path = KEPT_MODELS
    keep: Collection[str] = ()
    snapshots: SnapshotFolder | None = None
    holds: Holds | None = None


class Engine(Protocol):
    """Object that starts jobs, here or on other machines, and returns their outcomes."""

    def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
        """Yield the Result or Failure of each job as the jobs end; see the local engine."""


WORKER = (sys.executable, "-P", "-m", "benchharness.worker")
"""Command of a worker; -P keeps a `tasks.py` in the current folder from being imported."""


def worker_command(processes: int) -> tuple[str, ...]:
    """Return the command of a worker that trains in `processes` processes."""
    if processes == 1:
        return WORKER
    return (*WORKER[:-1], "benchharness.worker.ranks", str(processes))


CHUNK_BYTES = 64 * 1024
LOG_BYTES = 64 * 1024
GRACE_SECONDS = 5.0
"""Time that a process has to end when it is asked to."""

SAVING_SECONDS = 120.0
"""Time for a process that reports that it is saving its state, while it computes or waits for a
disk: DeBERTa-xxlarge's 18 GB at 150 MB/s."""

IDLE_SECONDS = 5.0
"""Time that a saving process may do neither, before it counts as hanging or stopped."""

LAST_SECONDS = 8.0
"""Time that this process has to end after a final signal, unless states are being saved."""

POLL_SECONDS = 0.02

FINAL = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end this process for good; Ctrl-C has to come twice."""


Child = subprocess.Popen[bytes] | Fork


class WorkerProcess:
    """A running job.

    The process leads its own session, so that Ctrl-C reaches only the driver, and the processes
    that it starts end with it. The worker asks the kernel to die with the thread that started it,
    so the thread that starts workers must be the thread that watches them.
    """

    def __init__(self, job: Job, slot: Slot, result_file: Path, process: Child) -> None:
        self.job = job
        self.slot = slot
        self._result_file = result_file
        self._log = b""
        self._line = b""
        self._last_sign = self._last_life = time.monotonic()
        self._life: Sequence[str] = ()
        self._parents_life: Sequence[str] = ()
        self._seen_dead = math.inf
        self._is_saving = False
        self.is_computing = False
        self._process = process
        # One thread reads the output of all workers: a silent one must not block the others.
        self._pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        assert process.stdin
        # If the process is already gone, its exit status will show why.
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(job.to_json()).encode())

    @property
    def descriptors(self) -> list[int]:
        """File descriptors of the pipes that may still have data."""
        return [pipe.fileno() for pipe in self._pipes if not pipe.closed]

    @property
    def silent_seconds(self) -> float:
        """Seconds since the worker last printed progress."""
        return time.monotonic() - self._last_sign

    @property
    def has_ended(self) -> bool:
        """True if the process is gone, for any reason."""
        return self._process.poll() is not None

    def misses_its_starter(self, timeout: float) -> bool:
        """Return whether the worker has no result and its fork server is gone or does not respond.

        A server that does not respond has not forked the worker after `timeout` seconds, or does
        not report the worker's end.
        """
        if not isinstance(self._process, Fork):
            return False
        if self.has_ended:
            is_orphan = self._process.is_orphan
            return is_orphan and not isinstance(_read_outcome(self._result_file), Result)
        if not self._process.has_begun:
            return self.silent_seconds > timeout
        # The worker's pipes are closed and it is a zombie: only its parent, the server, knows its
        # exit status.
        if not self.descriptors and (own := _stat_of(self._process.pid))[0] == "Z":
            state, *rest = _stat_of(int(own[1]))
            # A server that computes, or waits for a processor or a disk, will still report it.
            if state in ("R", "D") or rest[10:12] != self._parents_life:
                self._parents_life, self._seen_dead = rest[10:12], math.inf
            self._seen_dead = min(self._seen_dead, time.monotonic())
        return time.monotonic() - self._seen_dead > GRACE_SECONDS

    def read(self, report: Report = lambda *_: None) -> bool:
        """Report the progress lines that have arrived; return False if nothing was read."""
        output, errors = map(_read_chunk, self._pipes)
        *lines, rest = (self._line + output).split(b"\n")
        # The rest has no newline yet. A library that prints without newlines must not fill memory.
        self._line = rest[-LOG_BYTES:]
        self._log = (self._log + errors)[-LOG_BYTES:]
        for line in lines:
            progress = _parse_progress(line)
            if progress is None:  # printed by a library
                self._log = (self._log + line + b"\n")[-LOG_BYTES:]
            else:
                self._last_sign = time.monotonic()
                self._is_saving = progress.phase == "saving"
                self.is_computing = progress.phase in ("training", "saving", "predicting")
                report(self.job, progress)
        return bool(output or errors)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and to all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def is_awaited(self, seconds: float) -> bool:
        """Return whether to wait longer for the process, `seconds` after it was asked to end."""
        if self.has_ended or (isinstance(self._process, Fork) and not self._process.has_begun):
            return False
        if not self._is_saving:
            return seconds < GRACE_SECONDS
        state, *rest = _stat_of(self._process.pid)
        # The CPU time changes while the process computes: `rest` begins with the fourth field, so
        # these are utime and stime, the 14th and 15th of proc_pid_stat(5). "D" waits for a disk.
        life = rest[10:12]
        if state in ("D", "") or life != self._life:
            self._life, self._last_life = life, time.monotonic()
        return seconds < SAVING_SECONDS and time.monotonic() - self._last_life < IDLE_SECONDS

    def close(self, report: Report = lambda *_: None) -> None:
        """Kill the process and its children, and read the rest of their output."""
        self.signal(signal.SIGKILL)
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            if isinstance(self._process, Fork):
                self._process.give_up()
        # The last lines are still in the pipes, even if the process was killed.
        while self.read(report):
            pass
        for pipe in self._pipes:
            pipe.close()

    @property
    def has_lost_its_result(self) -> bool:
        """True if the process ended with status 0 but left no readable result."""
        return self._process.poll() == 0 and isinstance(_read_outcome(self._result_file), str)

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Return the outcome of the ended process; `timeout` is set if it ended for silence."""
        left = _read_outcome(self._result_file)
        # A worker that this process has ended may have reported itself as interrupted.
        if isinstance(left, Result) or (isinstance(left, Failure) and timeout is None):
            return left
        lost, status = str(left), self._process.poll()
        # A killed process that has not ended waits in the kernel for a disk that does not answer.
        kind, error = _explain(-signal.SIGKILL if status is None else status, timeout, lost)
        return Failure.of(self.job, kind, error, self._log.decode(errors="replace"))


def end_processes(
    workers: Iterable[WorkerProcess], end_starter: Callable[[], None] = lambda: None
) -> None:
    """Ask the processes to end, and kill those that are still running after some seconds.

    Processes that save their state have longer. An exception meanwhile (a second Ctrl-C) kills them
    at once. `end_starter` ends the process that they were forked from before they are killed,
    because it may hang and not report their ends.
    """
    workers = list(workers)
    asked = time.monotonic()
    try:
        for worker in workers:
            worker.signal(signal.SIGTERM)
        with STATES_AWAITED:
            while any(worker.is_awaited(time.monotonic() - asked) for worker in workers):
                time.sleep(POLL_SECONDS)
                for worker in workers:
                    worker.read()
    finally:
        end_starter()
        for worker in workers:
            worker.close()


STATES_AWAITED = threading.Lock()
"""Lock of code that waits, for a limited time, for workers to save their states and end."""


@contextmanager
def ended_at_last() -> Iterator[None]:
    """Let SIGTERM, SIGHUP or a second Ctrl-C in the block end this process within LAST_SECONDS.

    This is for a process that hangs in a library that blocks exceptions, as SQLite does while it
    waits for a lock, or in a cleanup. After a single signal, code that holds STATES_AWAITED gets
    the time that it needs. Workers end with this process.
    """
    if threading.current_thread() is not threading.main_thread():  # no signal is handled there
        yield
        return
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    # Python runs signal handlers between bytecodes, so never while a library hangs. The number of a
    # signal is written into this pipe at once, and a thread reads it.
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    threading.Thread(target=_end_at_last, args=(told,), name="last", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tells)


def _end_at_last(told: int) -> None:
    """Read signal numbers, and end this process LAST_SECONDS after the last relevant one."""
    seen, deadline = b"", math.inf
    with os.fdopen(told, "rb", buffering=0) as numbers:
        while time.monotonic() < deadline:
            # Without a deadline there is nothing to do before the next signal.
            if select([numbers], (), (), None if deadline == math.inf else POLL_SECONDS)[0]:
                number = numbers.read(1)
                if not number:  # the block has ended
                    return
                seen += number if number[0] in (signal.SIGINT, *FINAL) else b""
            # While states are being saved, the deadline moves on, until a second signal comes.
            is_final = len(seen) > 1 or any(number in seen for number in FINAL)
            if is_final and (deadline == math.inf or (STATES_AWAITED.locked() and len(seen) == 1)):
                deadline = time.monotonic() + LAST_SECONDS
    sys.stderr.write("bench: ended, though something hangs.\n")
    # Shells' exit status for a signal, 143 for SIGTERM. An exception would end only this thread.
    os._exit(128 + seen[-1])


def _stat_of(pid: int) -> Sequence[str]:
    """Return a process's state and later fields of proc_pid_stat(5).

    The state is empty if the process is gone.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ("",)
    # "4711 (a (b) c) S 1 4711 ...": a name may contain brackets, so the last bracket ends it.
    return stat.rpartition(")")[2].split()


def _read_chunk(pipe: IO[bytes]) -> bytes:
    """Read the bytes that are in a pipe now, at most CHUNK_BYTES; close the pipe at its end."""
    if pipe.closed:
        return b""
    # None means that the pipe is empty now, b"" that it is at its end.
    chunk = pipe.read(CHUNK_BYTES)
    if chunk == b"":
        pipe.close()
    return chunk or b""


def _parse_progress(line: bytes) -> Progress | None:
    try:
        return Progress(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None


def outcome_of(left: Mapping[str, Any]) -> Outcome:
    """Build a Result or a Failure from plain data."""
    return Result.from_json(left) if "evaluations" in left else Failure.from_json(left)


def _read_outcome(file: Path) -> Outcome | str:
    """Read the outcome that a worker wrote; return a clause with the reason if there is none."""
    try:
        return outcome_of(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        gone = "" if file.parent.is_dir() else f", because somebody has deleted {file.parent}"
        return f"left no result{gone}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return f"left a result that cannot be read ({type(error).__name__}: {first_line(error)})"


def _explain(status: int, timeout: float | None, lost: str) -> tuple[str, str]:
    """Return the kind and the error text for a process without a result, described by `lost`."""
    if timeout is not None:
        return "timeout", (
            f"the job printed no progress for {timeout:g} seconds and was ended: "
            "give a longer --timeout if it did not hang."
        )
    if status < 0:
        names = {each.value: each.name for each in signal.Signals}  # real-time signals have none
        name = names.get(-status, f"signal {-status}")
        return "killed", (
            f"the process of the job was killed by {name}: if memory ran out, "
            "fewer --jobs, --set activation_checkpointing=true or --set accumulation=2 need less."
        )
    return "failed", (
        f"the process of the job ended with exit code {status} and {lost}: "
        "`bench show` gives the end of its log."
    )
