"""Worker processes, each of which runs one job, reports its progress and writes its outcome."""

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
from typing import IO, Any, Protocol

from benchharness.engines.fork_server import ANSWER_SECONDS, Fork, is_readable
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
    """Options that the driver passes to every engine.

    Attributes:
        timeout: The number of seconds without progress after which a job counts as hanging.
        checkpoints: The folder in which jobs save their trained models, and from which other jobs
            load them.
        keep: The keys of the jobs that save their trained models.
        snapshots: The folder in which running jobs save their training states; None if they do not.
        holds: The locks on jobs that this process holds. A worker on this machine inherits the lock
            of its job; a worker on another node cannot. None if jobs are not locked.
    """

    timeout: float = math.inf
    checkpoints: Path = KEPT_MODELS
    keep: Collection[str] = ()
    snapshots: SnapshotFolder | None = None
    holds: Holds | None = None


class Engine(Protocol):
    """Interface of an engine, which runs jobs on some machines and yields their outcomes."""

    def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
        """Yield the Result or Failure of each job when the job ends; see `LocalEngine.run`."""


WORKER = (sys.executable, "-P", "-m", "benchharness.worker")
"""Command that starts a worker.

The option -P prevents the import of modules from the current folder, such as a user's `tasks.py`.
"""


def worker_command(processes: int) -> tuple[str, ...]:
    """Return the command that starts a worker; `processes` processes train its job together."""
    if processes == 1:
        return WORKER
    return (*WORKER[:-1], "benchharness.worker.ranks", str(processes))


CHUNK_BYTES = 64 * 1024
LOG_BYTES = 64 * 1024
GRACE_SECONDS = 5.0
"""Maximum number of seconds to wait for the end of a process after SIGTERM, before it is killed."""

SAVING_SECONDS = 120.0
"""Maximum number of seconds to wait for the end of a process that is saving its training state, as
long as the process computes or waits for a disk. In this time, the 18 GB of DeBERTa-xxlarge can be
written at 150 MB/s."""

IDLE_SECONDS = 5.0
"""Number of seconds after which a process that is saving its state, but neither computes nor waits
for a disk, counts as hanging or stopped."""

LAST_SECONDS = 8.0
"""Number of seconds between one of the FINAL signals, or a second Ctrl-C, and the forced end of
this process if it has not ended by itself. While workers save their states, the end is delayed."""

POLL_SECONDS = 0.02

FINAL = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end this process even if they arrive only once; Ctrl-C must be pressed twice."""


Child = subprocess.Popen[bytes] | Fork


class WorkerProcess:
    """Worker process that runs one job.

    The process has its own session. For this reason, Ctrl-C reaches only the driver (the process
    that started the worker), and signals reach the worker together with its child processes. The
    kernel ends the worker when the thread that started it ends, so one thread must start and watch
    all workers.

    Args:
        job: The job, which is sent to the worker through its standard input.
        slot: The slot in which the job runs.
        result_file: The file into which the worker writes the outcome.
        process: The process that has been started.

    Attributes:
        job: Job to run.
        slot: Slot (device) on which the job runs.
        is_computing: Whether the job is training, saving or predicting, according to its last
            progress report.
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
        # One thread reads the output of all workers, so reading must not block if one is silent.
        self._pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        assert process.stdin
        # The process may have ended already. This is ignored here, because its exit status will
        # show the reason.
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(job.to_json()).encode())

    @property
    def descriptors(self) -> list[int]:
        """File descriptors of the process's output pipes that are still open."""
        return [pipe.fileno() for pipe in self._pipes if not pipe.closed]

    @property
    def silent_seconds(self) -> float:
        """Seconds since the worker last reported progress."""
        return time.monotonic() - self._last_sign

    @property
    def has_ended(self) -> bool:
        """True if the process has ended, for any reason."""
        return self._process.poll() is not None

    def misses_its_starter(self, timeout: float) -> bool:
        """Return whether the worker must be started again, because its fork server has failed.

        The fork server has failed if it has ended before the worker had a result, if it has not
        forked the worker after `timeout` seconds, or if it does not report that the worker has
        ended.
        """
        if not isinstance(self._process, Fork):
            return False
        if self.has_ended:
            is_orphan = self._process.is_orphan
            return is_orphan and not isinstance(_read_outcome(self._result_file), Result)
        if not self._process.has_begun:
            return self.silent_seconds > timeout
        # If the worker is a zombie with closed pipes, the fork server should report its exit
        # status.
        if not self.descriptors and (own := _stat_of(self._process.pid))[0] == "Z":
            state, *rest = _stat_of(int(own[1]))
            # The fork server does not hang if it is running, if it is waiting for a processor or a
            # disk, or if it has used CPU time since the last call.
            if state in ("R", "D") or rest[10:12] != self._parents_life:
                self._parents_life, self._seen_dead = rest[10:12], math.inf
            self._seen_dead = min(self._seen_dead, time.monotonic())
        return time.monotonic() - self._seen_dead > GRACE_SECONDS

    def read(self, report: Report = lambda *_: None) -> bool:
        """Read the output of the worker that has arrived since the last call.

        Other lines than progress reports are added to the log of the job.

        Args:
            report: Function that is called with the job and each progress report.

        Returns:
            True if any output was read.
        """
        output, errors = map(_read_chunk, self._pipes)
        *lines, rest = (self._line + output).split(b"\n")
        # Limit the length of the incomplete line: a library that prints without newlines must not
        # fill the memory.
        self._line = rest[-LOG_BYTES:]
        self._log = (self._log + errors)[-LOG_BYTES:]
        for line in lines:
            progress = _parse_progress(line)
            if progress is None:  # the line was printed by a library
                self._log = (self._log + line + b"\n")[-LOG_BYTES:]
            else:
                self._last_sign = time.monotonic()
                self._is_saving = progress.phase == "saving"
                self.is_computing = progress.phase in ("training", "saving", "predicting")
                report(self.job, progress)
        return bool(output or errors)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its child processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def is_awaited(self, seconds: float) -> bool:
        """Return whether to wait longer until the process ends by itself after SIGTERM.

        The limits are GRACE_SECONDS and, for a process that is saving its training state,
        SAVING_SECONDS and IDLE_SECONDS.

        Args:
            seconds: The number of seconds since SIGTERM was sent.
        """
        if self.has_ended or (isinstance(self._process, Fork) and not self._process.has_begun):
            return False
        if not self._is_saving:
            return seconds < GRACE_SECONDS
        state, *rest = _stat_of(self._process.pid)
        # Detect by its CPU time whether the process computes. `rest` begins with the 4th field of
        # proc_pid_stat(5), so `life` contains the 14th and 15th, utime and stime. In state "D", the
        # process waits for a disk.
        life = rest[10:12]
        if state in ("D", "") or life != self._life:
            self._life, self._last_life = life, time.monotonic()
        return seconds < SAVING_SECONDS and time.monotonic() - self._last_life < IDLE_SECONDS

    def close(self, report: Report = lambda *_: None) -> None:
        """Kill the process and its child processes, and read the rest of their output.

        `report` is called with the job and each progress report.
        """
        self.signal(signal.SIGKILL)
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            if isinstance(self._process, Fork):
                self._process.give_up()
        # Read the pipes to their ends: they still contain the last lines of a killed process.
        while self.read(report):
            pass
        for pipe in self._pipes:
            pipe.close()

    @property
    def has_lost_its_result(self) -> bool:
        """True if the process ended with status 0 but left no readable result."""
        return self._process.poll() == 0 and isinstance(_read_outcome(self._result_file), str)

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Return the outcome of a process that has ended.

        If the process left no outcome, a Failure with the likely cause is returned.

        Args:
            timeout: The number of seconds without progress after which the process was stopped;
                None if it was not stopped.
        """
        left = _read_outcome(self._result_file)
        # After a timeout, ignore the worker's own Failure, which only says "interrupted".
        if isinstance(left, Result) or (isinstance(left, Failure) and timeout is None):
            return left
        lost, status = str(left), self._process.poll()
        # A process without a status was killed, but the kernel still waits for a disk.
        kind, error = _explain(-signal.SIGKILL if status is None else status, timeout, lost)
        return Failure.of(self.job, kind, error, self._log.decode(errors="replace"))


def end_processes(
    workers: Iterable[WorkerProcess], end_starter: Callable[[], None] = lambda: None
) -> None:
    """Send SIGTERM to the processes, and kill those that still run after some seconds.

    Processes that are saving their states get more time. If an exception is raised meanwhile, for
    example by a second Ctrl-C, all processes are killed at once.

    Args:
        workers: Processes to end.
        end_starter: Function that ends the fork server. It is called before any process is killed,
            because a fork server that hangs would not report the ends of the processes.
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
"""Lock that is held while this process waits, for a limited time, until workers have saved their
states and have ended."""


@contextmanager
def ended_at_last() -> Iterator[None]:
    """Context manager in which SIGTERM, SIGHUP or a second Ctrl-C reliably ends this process.

    The process ends LAST_SECONDS after the signal, even if it hangs in a library that blocks
    exceptions (as SQLite does while it waits for a lock) or in cleanup code. After a single signal,
    the process does not end while STATES_AWAITED is held. Workers end with this process. In other
    threads than the main thread, the context manager does nothing.
    """
    # Only the main thread can handle signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    # Python runs signal handlers only between bytecodes, so never while a library hangs. However,
    # it writes the number of each signal into this pipe at once, and a thread reads the pipe.
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    threading.Thread(target=_end_at_last, args=(told,), name="last", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tells)


def _end_at_last(told: int) -> None:
    """Read signal numbers from a pipe; end this process LAST_SECONDS after a final signal.

    Return if the pipe is closed before. `told` is the file descriptor of the pipe.
    """
    seen, deadline = b"", math.inf
    with os.fdopen(told, "rb", buffering=0) as numbers:
        while time.monotonic() < deadline:
            # If there is no deadline yet, wait for a signal without a time limit.
            if is_readable(numbers, None if deadline == math.inf else POLL_SECONDS):
                number = numbers.read(1)
                if not number:  # the context manager has closed the pipe
                    return
                seen += number if number[0] in (signal.SIGINT, *FINAL) else b""
            # While workers save their states, extend the deadline until a second signal arrives.
            is_final = len(seen) > 1 or any(number in seen for number in FINAL)
            if is_final and (deadline == math.inf or (STATES_AWAITED.locked() and len(seen) == 1)):
                deadline = time.monotonic() + LAST_SECONDS
    sys.stderr.write("bench: the process did not stop by itself and was ended by force.\n")
    # Exit with the code that shells use, e.g. 143 for SIGTERM. An exception would end only this
    # thread.
    os._exit(128 + seen[-1])


def _stat_of(pid: int) -> Sequence[str]:
    """Return the fields of /proc/PID/stat that begin with the state; see proc_pid_stat(5).

    If the process does not exist, return ("",).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ("",)
    # The last ")" ends the process name: in "4711 (a (b) c) S 1 4711 ...", it is "a (b) c".
    return stat.rpartition(")")[2].split()


def _read_chunk(pipe: IO[bytes]) -> bytes:
    """Read up to CHUNK_BYTES bytes that are in a pipe now; close the pipe at EOF."""
    if pipe.closed:
        return b""
    # `read` returns None if the pipe is empty now, and b"" at EOF.
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
    """Build a Result or a Failure from the JSON data `left`, which a worker has written."""
    return Result.from_json(left) if "evaluations" in left else Failure.from_json(left)


def _read_outcome(file: Path) -> Outcome | str:
    """Read the outcome that a worker wrote.

    If there is none, return a clause with the reason, such as "left no result".
    """
    try:
        return outcome_of(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        gone = "" if file.parent.is_dir() else f", because {file.parent} was deleted"
        return f"left no result{gone}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return f"left a result that cannot be read ({type(error).__name__}: {first_line(error)})"


def _explain(status: int, timeout: float | None, lost: str) -> tuple[str, str]:
    """Return the kind and the message of the failure of a process that left no outcome.

    Args:
        status: Exit status of the process.
        timeout: Number of seconds without output after which the process was stopped; None if it
            was not stopped.
        lost: Clause with the reason why there is no outcome.
    """
    if timeout is not None:
        return "timeout", (
            f"the job printed no progress for {timeout:g} seconds and was stopped: "
            "set a longer --timeout if it was only slow."
        )
    if status < 0:
        names = {each.value: each.name for each in signal.Signals}  # real-time signals have none
        name = names.get(-status, f"signal {-status}")
        return "killed", (
            f"the process of the job was killed by {name}. If memory ran out, use fewer --jobs, "
            "--set activation_checkpointing=true or --set accumulation=2."
        )
    return "failed", (
        f"the process of the job ended with exit code {status} and {lost}: "
        "`bench show` prints the end of its log."
    )
