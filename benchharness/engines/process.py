"""A job in a process of its own: progress comes out, a Result or a Failure is left behind."""

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
from benchharness.kept_folders import KEPT_MODELS, Holds, SnapshotFolder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from benchharness.tasks.errors import first_line

Outcome = Result | Failure
Report = Callable[[Job, Progress], None]


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What a driver has any engine do.

    A job may stay silent for `timeout` seconds before it counts as hanging.
    Jobs leave their encoders for others in the folder `checkpoints`; those with the keys `keep` do.
    They keep their states in `snapshots`, None for nowhere. A worker of this machine inherits what
    its job is held by in `holds`; no other node can.
    """

    timeout: float = math.inf
    checkpoints: Path = KEPT_MODELS
    keep: Collection[str] = ()
    snapshots: SnapshotFolder | None = None
    holds: Holds | None = None


class Engine(Protocol):
    """What starts jobs, here or elsewhere, and brings back what they leave."""

    def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
        """Yields what each job left behind, as the jobs end; see the local engine."""


WORKER = (sys.executable, "-P", "-m", "benchharness.worker")
"""The command of a worker; -P keeps a `tasks.py` in the current folder from shadowing ours."""


def worker_command(processes: int) -> tuple[str, ...]:
    """The command of a worker that trains in so many processes."""
    if processes == 1:
        return WORKER
    return (*WORKER[:-1], "benchharness.worker.ranks", str(processes))


CHUNK_BYTES = 64 * 1024
LOG_BYTES = 64 * 1024
GRACE_SECONDS = 5.0
"""How long a process may take to end when it is asked to."""

SAVING_SECONDS = 120.0
"""How long one may that says it is saving its state, as long as it computes or waits for a disk:
DeBERTa-xxlarge's 18 GB at 150 MB/s."""

IDLE_SECONDS = 5.0
"""How long it may do neither: it hangs, or somebody has stopped it."""

LAST_SECONDS = 8.0
"""How long this process may take to end when it was told to, unless states are being saved."""

POLL_SECONDS = 0.02

FINAL = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end this process for good; Ctrl-C has to come twice."""


Child = subprocess.Popen[bytes] | Fork


class WorkerProcess:
    """One running job.

    The process leads a session of its own, so that Ctrl-C reaches only the driver and what the
    process starts ends with it. The worker asks the kernel to die with the thread that started it,
    so the thread that starts workers must be the one that watches over them.
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
        # One thread reads what all workers say: a silent one must not hold up the others.
        self._pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        assert process.stdin
        # Where the process is already gone, its exit status will say why.
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(job.to_json()).encode())

    @property
    def descriptors(self) -> list[int]:
        """The descriptors of the pipes that may still have something to read."""
        return [pipe.fileno() for pipe in self._pipes if not pipe.closed]

    @property
    def silent_seconds(self) -> float:
        """How long the worker has printed no progress."""
        return time.monotonic() - self._last_sign

    @property
    def has_ended(self) -> bool:
        """True when the process is gone, whoever ended it."""
        return self._process.poll() is not None

    def misses_its_starter(self, timeout: float) -> bool:
        """Whether the process that it is forked from is gone, before it left a result, or silent.

        A silent one has not forked it after `timeout` seconds, or does not tell of its end.
        """
        if not isinstance(self._process, Fork):
            return False
        if self.has_ended:
            is_orphan = self._process.is_orphan
            return is_orphan and not isinstance(_read_outcome(self._result_file), Result)
        if not self._process.has_begun:
            return self.silent_seconds > timeout
        # Its pipes are closed and it is a zombie: only its parent, the server, knows how it ended.
        if not self.descriptors and (own := _stat_of(self._process.pid))[0] == "Z":
            state, *rest = _stat_of(int(own[1]))
            # One that computes, or waits for a processor or a disk, will tell of it yet.
            if state in ("R", "D") or rest[10:12] != self._parents_life:
                self._parents_life, self._seen_dead = rest[10:12], math.inf
            self._seen_dead = min(self._seen_dead, time.monotonic())
        return time.monotonic() - self._seen_dead > GRACE_SECONDS

    def read(self, report: Report = lambda *_: None) -> bool:
        """Reports the progress lines that have come in; False where nothing was there to read."""
        output, errors = map(_read_chunk, self._pipes)
        *lines, rest = (self._line + output).split(b"\n")
        # The rest has no line end yet. A library that prints without any must not fill the memory.
        self._line = rest[-LOG_BYTES:]
        self._log = (self._log + errors)[-LOG_BYTES:]
        for line in lines:
            progress = _parse_progress(line)
            if progress is None:  # a library's print, not ours
                self._log = (self._log + line + b"\n")[-LOG_BYTES:]
            else:
                self._last_sign = time.monotonic()
                self._is_saving = progress.phase == "saving"
                self.is_computing = progress.phase in ("training", "saving", "predicting")
                report(self.job, progress)
        return bool(output or errors)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process and to everything that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def is_awaited(self, seconds: float) -> bool:
        """Whether to wait on for the process so long after it was asked to end."""
        if self.has_ended or (isinstance(self._process, Fork) and not self._process.has_begun):
            return False
        if not self._is_saving:
            return seconds < GRACE_SECONDS
        state, *rest = _stat_of(self._process.pid)
        # The processor's time changes while it computes: `rest` begins with the fourth field, so
        # these are utime and stime, the 14th and 15th of proc_pid_stat(5). "D" waits for a disk.
        life = rest[10:12]
        if state in ("D", "") or life != self._life:
            self._life, self._last_life = life, time.monotonic()
        return seconds < SAVING_SECONDS and time.monotonic() - self._last_life < IDLE_SECONDS

    def close(self, report: Report = lambda *_: None) -> None:
        """Kills what is left of the process and its own, and reads the rest of what they said."""
        self.signal(signal.SIGKILL)
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            if isinstance(self._process, Fork):
                self._process.give_up()
        # Its last lines are still in the pipes, also of a process that was killed.
        while self.read(report):
            pass
        for pipe in self._pipes:
            pipe.close()

    @property
    def has_lost_its_result(self) -> bool:
        """Tell whether the process ended with status 0 but left no result that can be read."""
        return self._process.poll() == 0 and isinstance(_read_outcome(self._result_file), str)

    def outcome(self, timeout: float | None = None) -> Outcome:
        """What the ended process left behind; `timeout` says after which silence it was ended."""
        left = _read_outcome(self._result_file)
        # A worker that we have ended may have called itself interrupted.
        if isinstance(left, Result) or (isinstance(left, Failure) and timeout is None):
            return left
        lost, status = str(left), self._process.poll()
        # What was killed and has not ended waits in the kernel, for a disk that does not answer.
        kind, error = _explain(-signal.SIGKILL if status is None else status, timeout, lost)
        return Failure.of(self.job, kind, error, self._log.decode(errors="replace"))


def end_processes(
    workers: Iterable[WorkerProcess], end_starter: Callable[[], None] = lambda: None
) -> None:
    """Asks the processes to end, and kills those that are still there after some seconds.

    Those that save their state have longer. An exception on the way (a second Ctrl-C) kills them
    at once. Where they are not to go on, what has started them is ended before they are killed,
    because it may hang and not tell of their ends.
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
"""Held by what waits, for a limited time, for workers to save their states and end."""


@contextmanager
def ended_at_last() -> Iterator[None]:
    """A block in which SIGTERM, SIGHUP or a second Ctrl-C ends this process within LAST_SECONDS.

    It does so by itself unless it hangs: in a library that lets no exception be raised, as while
    SQLite waits for a lock, or in what is cleaned up. After one, who holds STATES_AWAITED has the
    time for it. Workers end with this process.
    """
    if threading.current_thread() is not threading.main_thread():  # no signal is handled there
        yield
        return
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    # A handler runs between two steps of Python, so never while a library hangs. The number of a
    # signal is written into this pipe at once, and a thread reads it.
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    threading.Thread(target=_end_at_last, args=(told,), name="last", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tells)


def _end_at_last(told: int) -> None:
    """Reads the numbers of signals, and ends this process some seconds after the last it needs."""
    seen, deadline = b"", math.inf
    with os.fdopen(told, "rb", buffering=0) as numbers:
        while time.monotonic() < deadline:
            # Until there is a deadline, nothing is to be done before the next signal.
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
    # As shells tell of a signal, 143 for SIGTERM. An exception here would end this thread alone.
    os._exit(128 + seen[-1])


def _stat_of(pid: int) -> Sequence[str]:
    """The state of a process and what proc_pid_stat(5) has behind it; an empty state for none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ("",)
    # "4711 (a (b) c) S 1 4711 ...": a name may have brackets and blanks, so the last one counts.
    return stat.rpartition(")")[2].split()


def _read_chunk(pipe: IO[bytes]) -> bytes:
    """What is in a pipe now, at most CHUNK_BYTES; closes the pipe at its end."""
    if pipe.closed:
        return b""
    # None where nothing is there at the moment, b"" where nothing will ever come again.
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
    """The Result or Failure that plain data are."""
    return Result.from_json(left) if "evaluations" in left else Failure.from_json(left)


def _read_outcome(file: Path) -> Outcome | str:
    """Read the result or the failure that a worker wrote; say in words why there is none."""
    try:
        return outcome_of(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        gone = "" if file.parent.is_dir() else f", because somebody has deleted {file.parent}"
        return f"left no result{gone}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return f"left a result that cannot be read ({type(error).__name__}: {first_line(error)})"


def _explain(status: int, timeout: float | None, lost: str) -> tuple[str, str]:
    """The kind and the sentence for a process that left no result, which is `lost`."""
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
