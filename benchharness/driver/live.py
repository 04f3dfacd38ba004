"""Live state of a run: kept in a file while the run lasts, and used to estimate the time left.

    results/live/PID-NUMBER.jsonl       the jobs to run, then one line per change

The file is next to the database. Its process locks it, so that other processes can recognize a
killed run, and deletes it at the end. Times in it are seconds of the machine's monotonic clock.
"""

import fcntl
import heapq
import json
import math
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

from benchharness.driver.schedule import Schedule
from benchharness.leaderboard.job import Job, recipe_digest
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress, Watcher, ending

LIVE = "live"
"""Name of the folder next to the database."""

SECONDS_BETWEEN_LINES = 1.0
"""Minimum seconds between two lines about a running job, unless its phase changes."""

SHARE_BETWEEN_LINES = 0.005
"""Minimum pause between two lines as a fraction of the job's time so far, so that a job of a day
has hundreds of lines, not thousands."""


@dataclass(frozen=True, kw_only=True)
class LiveJob:
    """Job to run, as the live file describes it.

    Attributes:
        key: Key of the job.
        name: Name for the user.
        group: Identifier shared by jobs that differ only in their seed.
        task: Task that the job is trained on.
        kind: Kind of its model.
        seconds: Estimated seconds.
        after: Keys of the jobs that it waits for.
    """

    key: str
    name: str
    group: str
    task: str
    kind: str
    seconds: float
    after: Sequence[str] = ()

    @classmethod
    def of(cls, job: Job, schedule: Schedule) -> Self:
        """Create the live description of a scheduled job."""
        return cls(
            key=job.key,
            name=schedule.names[job.key],
            group=" ".join(
                (job.weights, *job.trained_tasks, recipe_digest(job)[:12], job.precision)
            ),
            task=job.task,
            kind=job.kind,
            seconds=schedule.estimates[job.key].seconds,
            after=job.needs,
        )


@dataclass(kw_only=True)
class Running:
    """Job that runs, with the times of its steps.

    Attributes:
        job: Description of the job.
        since: Time of its start.
        progress: Latest progress.
        first: Time and number of the first step that was reported; a resumed job has earlier steps.
        last: Time and number of the last step that was reported, and the total number of steps.
        losses: Reported finite losses, in order.
    """

    job: LiveJob
    since: float
    progress: Progress
    first: tuple[float, int] | None = None
    last: tuple[float, int, int] = (0.0, 0, 0)
    losses: list[float] = field(default_factory=list)

    def take(self, progress: Progress, at: float) -> None:
        """Record a progress report that arrived at time `at`."""
        self.progress = progress
        if progress.phase == "training" and progress.step:
            self.first = self.first or (at, progress.step)
            self.last = (at, progress.step, progress.steps)
            if progress.loss is not None and math.isfinite(progress.loss):
                self.losses.append(progress.loss)

    @property
    def share(self) -> float:
        """Fraction of the work that is done; training counts as 90 % of the work."""
        _, step, steps = self.last
        trained = _TRAINING * step / steps if steps else 0.0
        # Dev is also scored between the steps; only after the last step is predicting the rest of
        # the work.
        if self.progress.phase == "predicting" and self.progress.steps and step == steps:
            return trained + (1 - _TRAINING) * self.progress.step / self.progress.steps
        return trained

    @property
    def work(self) -> float | None:
        """Seconds from the first step to the end, by the pace of steps; None before step two."""
        at, step, steps = self.last
        if self.first is None or step == self.first[1]:
            return None
        since, first = self.first
        # The seconds per step times all steps, plus the work after training.
        return (at - since) * steps / (step - first) / _TRAINING

    @property
    def trust(self) -> float:
        """Weight of the job's own pace: 1 after five seconds of steps or a fifth of the work."""
        seconds = self.last[0] - self.first[0] if self.first else 0.0
        return min(1.0, max(5 * self.share, seconds / 5))


_TRAINING = 0.9


@dataclass(frozen=True, kw_only=True)
class Ended:
    """Job that has ended, with the text of its outcome; `is_left_out` means that it was skipped."""

    job: LiveJob
    text: str
    losses: tuple[float, ...] = ()
    is_failed: bool = False
    is_left_out: bool = False


class RunState:
    """State of a run: its jobs in the order of their start, and which of them run or have ended.

    Args:
        jobs: Jobs to run.
        at_once: Number of jobs that run at the same time.
        started: Time of the run's start, on the same clock as all other times.
    """

    def __init__(self, jobs: Iterable[LiveJob], at_once: int = 1, started: float = 0.0) -> None:
        self.jobs = {job.key: job for job in jobs}
        self.at_once = at_once
        self.started = started
        self.running: dict[str, Running] = {}
        self.ended: dict[str, Ended] = {}
        self._pace = _Pace()

    @classmethod
    def of(cls, schedule: Schedule, started: float) -> Self:
        """Create the state of a schedule before any job runs."""
        jobs = (LiveJob.of(job, schedule) for job in schedule.todo)
        return cls(jobs, schedule.at_once, started)

    @property
    def failed(self) -> int:
        """Number of failed jobs."""
        return sum(each.is_failed for each in self.ended.values())

    def report(self, key: str, progress: Progress, at: float) -> None:
        """Record the progress of a running job."""
        # A report about a snapshot does not show how far the job is.
        if key not in self.jobs or key in self.ended or progress.is_kept is not None:
            return
        # A resubmitted job waits too. Its clock restarts, and it moves behind the others.
        if progress.phase == "waiting":
            self.running.pop(key, None)
            self.running[key] = Running(job=self.jobs[key], since=at, progress=progress)
            return
        run = self.running.get(key)
        if run is None or run.progress.phase == "waiting":
            run = self.running[key] = Running(job=self.jobs[key], since=at, progress=progress)
        run.take(progress, at)

    def end(
        self, key: str, text: str, at: float, *, is_failed: bool = False, is_left_out: bool = False
    ) -> None:
        """Record that a job has ended or is skipped."""
        if key not in self.jobs:
            return
        run = self.running.pop(key, None)
        losses = tuple(run.losses) if run else ()
        if run and not is_failed and not is_left_out:
            self._pace.learn(run, at)
        self.ended[key] = Ended(
            job=self.jobs[key],
            text=text,
            losses=losses,
            is_failed=is_failed,
            is_left_out=is_left_out,
        )

    def remaining(self, now: float) -> Callable[[LiveJob], float]:
        """Return a function that estimates a job's remaining seconds, once it has a slot."""
        return self._pace.remaining(self.running.values(), now)

    def seconds_left(self, now: float) -> float:
        """Estimate the seconds until all jobs have ended, `at_once` jobs at a time, in order."""
        seconds = self.remaining(now)
        busy = [run for run in self.running.values() if run.progress.phase != "waiting"]
        ends = {run.job.key: seconds(run.job) for run in busy}
        free = max(self.at_once, len(busy)) - len(busy)
        slots = [*ends.values(), *(0.0 for _ in range(free))]
        # List scheduling: in order, each job takes the slot that is free first, and starts when all
        # jobs that it waits for have ended too. The heap holds the times at which the slots become
        # free.
        heapq.heapify(slots)
        for job in self.jobs.values():
            if job.key in ends or job.key in self.ended:
                continue
            begins = max(heapq.heappop(slots), *(ends.get(key, 0.0) for key in job.after), 0.0)
            ends[job.key] = begins + seconds(job)
            heapq.heappush(slots, ends[job.key])
        return max(ends.values(), default=0.0)


class _Pace:
    """Estimator of the ratio of jobs' times to their estimates, from jobs that run or have ended.

    The time until a job's first step is separated from its work after that. The ratio of the work
    to its estimate is learned in levels: from all jobs of a kind, then of a task, then of jobs that
    differ only in their seed.
    """

    def __init__(self) -> None:
        self._starts: list[float] = []  # seconds to the first step, if begun after another's
        self._first_step: float | None = None
        self._factors = _Factors()

    def learn(self, run: Running, at: float) -> None:
        """Learn from a job that ends at time `at`."""
        work = at - run.since
        if run.first is not None:
            since, first = run.first
            told, step, steps = run.last
            # A step is reported when it is done, so the first one began one step's time earlier.
            of_a_step = (told - since) / (step - first) if step > first else 0.0
            start = max(0.0, since - of_a_step - run.since)
            if self._first_step is not None and run.since > self._first_step:
                self._starts.append(start)
            self._first_step = min(since, self._first_step or since)
            work -= start
            # A resumed job did only the remaining steps; its work is scaled up to all of them.
            if first > steps / 10:  # it has resumed
                work *= steps / max(1, steps - first)
        self._factors.add(run.job, work, 1.0)

    @property
    def start_seconds(self) -> float:
        """Estimated seconds of a job until its first step, once another job has reached its own.

        Jobs that start with the run also wait for libraries to be imported; later jobs find them
        loaded. The value is a constant until any job has reached its first step.
        """
        if self._first_step is None:
            return _START_SECONDS
        # A mean in which the default counts as much as 0.3 jobs.
        return (sum(self._starts) + 0.3 * _WARM_SECONDS) / (len(self._starts) + 0.3)

    def remaining(self, runs: Iterable[Running], now: float) -> Callable[[LiveJob], float]:
        """Return a function that estimates a job's remaining seconds, given the running jobs."""
        by_key = {run.job.key: run for run in runs}
        factors = self._factors.copy()
        for each in by_key.values():
            if each.work is not None:
                factors.add(each.job, each.work, max(each.share, 0.2 * each.trust))

        def seconds(job: LiveJob) -> float:
            work = _work(job) * factors.of(job)
            start = 0.0 if job.kind == "baseline" else self.start_seconds
            run = by_key.get(job.key)
            if run is None or run.progress.phase == "waiting":
                return work + start
            if run.first is None:
                return max(0.0, work + start - (now - run.since))
            if run.work is not None:
                # Interpolate on a logarithmic scale between the estimate and the job's own pace.
                work = work ** (1 - run.trust) * run.work**run.trust
            return max(0.0, work * (1 - run.share) - (now - run.last[0]))

        return seconds


class _Factors:
    """Ratios of work to its estimate, as weighted sums of logarithms per kind, task and group."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}

    def copy(self) -> "_Factors":
        """Return a copy, to which temporary observations can be added."""
        other = _Factors()
        other._sums = dict(self._sums)
        return other

    def add(self, job: LiveJob, work: float, weight: float) -> None:
        """Add an observation: the seconds of work of a job, with a weight."""
        found = math.log(max(work, 1e-3) / _work(job))
        for level in _levels(job):
            total, weights = self._sums.get(level, (0.0, 0.0))
            self._sums[level] = total + weight * found, weights + weight

    def of(self, job: LiveJob) -> float:
        """Return the expected ratio of a job's work to its estimate."""
        value = 0.0
        # From kind to task to group: each level is the mean of its own logarithms and of the
        # previous level, which counts as `trust` jobs.
        for level, trust in zip(_levels(job), _WEIGHTS, strict=True):
            total, weights = self._sums.get(level, (0.0, 0.0))
            value = (trust * value + total) / (trust + weights)
        return math.exp(value)


def _levels(job: LiveJob) -> Iterator[tuple[str, str]]:
    yield "kind", job.kind
    yield "task", f"{job.kind} {job.task}"
    yield "group", job.group


_WEIGHTS = (0.15, 0.5, 0.3)
"""Weight, in jobs, of the estimate for a kind, of the kind for a task, and of the task for a group.
The weights are low, since two jobs predict more about a machine than any estimate."""

_START_SECONDS = 5.0
"""Seconds until the first step that estimates include."""

_WARM_SECONDS = 2.0
"""Seconds until the first step if the libraries are imported already."""


def _work(job: LiveJob) -> float:
    """Return the estimated seconds of a job without the time until its first step."""
    if job.kind == "baseline":
        return max(job.seconds, 0.1)
    return max(job.seconds - _START_SECONDS, 0.1 * job.seconds, 0.1)


# The live file: written by the run, read by other processes.


class LiveFile(Watcher):
    """Watcher that forwards all events to another one and writes them to the live file.

    It is a context manager. Write errors are ignored, so that no run fails because it cannot be
    watched.
    """

    def __init__(self, watcher: Watcher, schedule: Schedule, folder: Path) -> None:
        self._watcher = watcher
        self._schedule = schedule
        self._path = folder / LIVE / f"{os.getpid()}-{time.monotonic_ns()}.jsonl"
        self._file: BinaryIO | None = None
        self._told: dict[str, tuple[tuple[str, bool, bool] | None, float, float]] = {}

    def __enter__(self) -> Self:
        delete_dead(self._path.parent)
        if not self._schedule.todo:
            return self
        draft = self._path.with_suffix(".new")  # hidden from readers until it is locked
        with suppress(OSError):
            draft.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered, so that the lines of a killed process are in the file.
            self._file = draft.open("xb", buffering=0)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX)
        jobs = [asdict(LiveJob.of(job, self._schedule)) for job in self._schedule.todo]
        self._tell(
            "run",
            jobs=jobs,
            at_once=self._schedule.at_once,
            stored=len(self._schedule.jobs) - len(jobs),
            process=os.getpid(),
            host=platform.node(),
        )
        with suppress(OSError):
            draft.rename(self._path)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._tell("over", interrupted=kind is not None)
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink()
                self._path.parent.rmdir()
            self._file.close()
            self._file = None

    def report(self, job: Job, progress: Progress) -> None:
        """Write a running job's progress, unless a similar line was written only just before."""
        now = time.monotonic()
        stage = progress.phase, progress.step > 0, progress.step == progress.steps
        before, since, last = self._told.get(job.key, (None, now, now))
        pause = max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * (now - since))
        if stage != before or progress.note or now - last >= pause:
            self._told[job.key] = (stage, since, now)
            self._tell("progress", key=job.key, **_without_defaults(progress))
        self._watcher.report(job, progress)

    def finish(self, outcome: Result | Failure) -> None:
        """Write the outcome of a job."""
        failed = isinstance(outcome, Failure)
        self._tell("end", key=outcome.job.key, text=ending(outcome), is_failed=failed)
        self._watcher.finish(outcome)

    def leave_out(self, job: Job) -> None:
        """Write that a job is skipped."""
        self._tell("end", key=job.key, text="is left out", is_left_out=True)
        self._watcher.leave_out(job)

    def say(self, line: str) -> None:
        """Pass a line about the run to the other watcher."""
        self._watcher.say(line)

    def _tell(self, event: str, **facts: Any) -> None:
        if self._file is None:
            return
        # {"event": "progress", "at": 5012.318, "key": "3fa9...", "phase": "training", ...}
        line = json.dumps({"event": event, "at": round(time.monotonic(), 3), **facts})
        try:
            self._file.write(line.encode() + b"\n")
        except OSError:
            self._file.close()
            self._file = None


def _without_defaults(progress: Progress) -> Mapping[str, Any]:
    plain = asdict(Progress(phase=""))
    return {name: value for name, value in asdict(progress).items() if value != plain[name]}


def delete_dead(folder: Path) -> None:
    """Delete the live files of killed processes, and the folder if it is then empty."""
    # A symbolic link is not followed: nothing is deleted at its target.
    if folder.is_symlink():
        return
    with suppress(OSError):
        for path in filter(_is_ours, tuple(folder.iterdir())):
            with suppress(OSError), path.open("rb") as file:
                # A living process holds an exclusive lock, so this raises and the file stays.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink()
        folder.rmdir()


def _is_ours(path: Path) -> bool:
    # "4711-98765432101.jsonl", or ".new" until readers may follow it.
    return re.fullmatch(r"[0-9]+-[0-9]+\.(jsonl|new)", path.name) is not None


class Followed:
    """Run of another process, followed through its live file.

    Close it at the end. `is_over` means that the run has ended, `is_lost` that its process was
    killed before it could report the end.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""
        self.state = RunState(())
        self.process = 0
        self.stored = 0
        self.is_over = self.is_lost = self.is_interrupted = False
        self._is_here = True
        self._last = 0.0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def now(self) -> float:
        """Time on the run's clock; for a run of another machine, the time of its last line."""
        return time.monotonic() if self._is_here else self._last

    def news(self) -> Iterator[Mapping[str, Any]]:
        """Yield the lines that were written since the last call, as parsed JSON."""
        # Checked first, so that lines that a process wrote before it died are read below.
        is_held = self._is_held()
        # After the last line end is an unfinished line, or nothing.
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):
                said = json.loads(line)
                self._take(said)
                yield said
        if not is_held and not self.is_over:
            self.is_over = self.is_lost = True

    def _is_held(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(self._file, fcntl.LOCK_UN)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return True
        return False

    def _take(self, said: Mapping[str, Any]) -> None:
        at = self._last = float(said["at"])
        match said["event"]:
            case "run":
                jobs = (LiveJob(**job) for job in said["jobs"])
                self.state = RunState(jobs, said["at_once"], at)
                self.process, self.stored = said["process"], said["stored"]
                self._is_here = said["host"] == platform.node()
            case "progress":
                # Without "event", "at" and "key", and without fields of later versions.
                fields = {name: said[name] for name in said if name in _PROGRESS}
                self.state.report(said["key"], Progress(**fields), at)
            case "end":
                self.state.end(
                    said["key"],
                    said["text"],
                    at,
                    is_failed=said.get("is_failed", False),
                    is_left_out=said.get("is_left_out", False),
                )
            case "over":
                self.is_over, self.is_interrupted = True, said["interrupted"]


_PROGRESS = frozenset(asdict(Progress(phase="")))


def is_alive(process: int) -> bool:
    """Return whether a process of this machine still exists."""
    return Path(f"/proc/{process}").exists()


def live_files(folder: Path) -> list[Path]:
    """Return the live files next to a database, oldest first."""
    return sorted((folder / LIVE).glob("*.jsonl"), key=_began)


def _began(file: Path) -> tuple[int, str]:
    """Return the nanoseconds in a file's name as a number: as text, 9 would sort after 10."""
    nanoseconds = file.stem.rpartition("-")[2]
    return int(nanoseconds) if nanoseconds.isdecimal() else 0, file.name
