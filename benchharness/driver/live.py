"""Live state of a run, used to estimate the time left and to show progress in other processes.

    results/live/PID-NUMBER.jsonl       the jobs to run, then one line per change

While a run lasts, its process writes the state to this file in the folder of the database, and
deletes the file at the end. PID is the process id, and NUMBER is the start time in nanoseconds. The
process holds a lock on the file: if the file is not locked, the process was killed. Times in the
file are seconds of the machine's monotonic clock.
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
"""Name of the folder for live files, which is next to the database."""

SECONDS_BETWEEN_LINES = 1.0
"""Minimum seconds between two lines about a running job, unless its phase changes."""

SHARE_BETWEEN_LINES = 0.005
"""Minimum time between two lines about a running job, as a fraction of the time for which the job
has been running. With this fraction, even a job that takes a day writes only hundreds of lines."""


@dataclass(frozen=True, kw_only=True)
class LiveJob:
    """Description of a job in the live file.

    Attributes:
        key: The key of the job.
        name: The name of the job that is shown to the user.
        group: An identifier shared by all jobs that differ only in their seed.
        task: The name of the task on which the job is trained.
        kind: The kind of the job, such as "model" or "baseline".
        seconds: The estimated duration of the job in seconds.
        after: The keys of the jobs that must end before this job starts.
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
        """Create the description of a job that is in this schedule."""
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
    """State of a running job, with the times of its training steps.

    Attributes:
        job: The description of the job.
        since: The time at which the job started or was last restarted, in seconds.
        progress: The latest progress of the job.
        first: The time and the number of the first training step that was reported; None before any
            step is reported. If the job was resumed from a snapshot, this is the first step after
            the resumption.
        last: The time and the number of the last training step that was reported, and the total
            number of steps; all zero before a step is reported.
        losses: All reported training losses that are finite, in order.
    """

    job: LiveJob
    since: float
    progress: Progress
    first: tuple[float, int] | None = None
    last: tuple[float, int, int] = (0.0, 0, 0)
    losses: list[float] = field(default_factory=list)

    def take(self, progress: Progress, at: float) -> None:
        """Record a progress report of the job; `at` is the time in seconds at which it arrived."""
        self.progress = progress
        if progress.phase == "loading" and self.first:  # restarted: this time is no training time
            self.since, self.first, self.last = at, None, (0.0, 0, 0)
        if progress.phase == "training" and progress.step:
            self.first = self.first or (at, progress.step)
            self.last = (at, progress.step, progress.steps)
            if progress.loss is not None and math.isfinite(progress.loss):
                self.losses.append(progress.loss)

    @property
    def share(self) -> float:
        """Fraction of the job's work that is done, from 0 to 1.

        Training counts as 90 % of the work, and the predictions after it as 10 %.
        """
        _, step, steps = self.last
        trained = _TRAINING * step / steps if steps else 0.0
        # Predictions between training steps, for evaluation on dev, do not count as progress.
        if self.progress.phase == "predicting" and self.progress.steps and step == steps:
            return trained + (1 - _TRAINING) * self.progress.step / self.progress.steps
        return trained

    @property
    def work(self) -> float | None:
        """Estimated seconds from the first training step to the end of the job.

        The estimate uses the speed of the steps so far. It is None until two different steps have
        been reported.
        """
        at, step, steps = self.last
        if self.first is None or step == self.first[1]:
            return None
        since, first = self.first
        # Multiply the seconds per step by the number of steps. Dividing by _TRAINING adds the time
        # of the predictions after training.
        return (at - since) * steps / (step - first) / _TRAINING

    @property
    def trust(self) -> float:
        """Weight, from 0 to 1, of the job's own speed in the estimate of its remaining time.

        The estimate combines the job's own speed with the speed of other jobs. The weight of the
        own speed grows with time, and is 1 as soon as the job has trained for five seconds or has
        done a fifth of its work.
        """
        seconds = self.last[0] - self.first[0] if self.first else 0.0
        return min(1.0, max(5 * self.share, seconds / 5))


_TRAINING = 0.9


@dataclass(frozen=True, kw_only=True)
class Ended:
    """State of a job that has ended.

    Attributes:
        job: The description of the job.
        text: A short description of the job's outcome, such as its scores or an error.
        losses: The training losses that the job reported.
        is_failed: Whether the job failed.
        is_left_out: Whether the job was skipped instead of run.
    """

    job: LiveJob
    text: str
    losses: tuple[float, ...] = ()
    is_failed: bool = False
    is_left_out: bool = False


class RunState:
    """State of a run, with the jobs that are running or have ended.

    All times are in seconds on the same clock.

    Args:
        jobs: The jobs to run, in the order in which they will start.
        at_once: The number of jobs that run concurrently.
        started: The time at which the run started.
        stored: The number of other jobs of the command, which had a stored result before the run.

    Attributes:
        jobs: All jobs of the run, keyed by job key.
        running: The states of running jobs, keyed by job key.
        ended: The states of jobs that have ended or were skipped, keyed by job key, in the order in
            which they ended.
    """

    def __init__(
        self, jobs: Iterable[LiveJob], at_once: int = 1, started: float = 0.0, stored: int = 0
    ) -> None:
        self.jobs = {job.key: job for job in jobs}
        self.at_once = at_once
        self.started = started
        self.stored = stored
        self.running: dict[str, Running] = {}
        self.ended: dict[str, Ended] = {}
        self._pace = _Pace()

    @classmethod
    def of(cls, schedule: Schedule, started: float) -> Self:
        """Create the state of a run that starts at the time `started`, before any job runs."""
        jobs = [LiveJob.of(job, schedule) for job in schedule.todo]
        return cls(jobs, schedule.at_once, started, len(schedule.jobs) - len(jobs))

    @property
    def failed(self) -> int:
        """Number of failed jobs."""
        return sum(each.is_failed for each in self.ended.values())

    def report(self, key: str, progress: Progress, at: float) -> None:
        """Record a progress report that arrived at the time `at` from the job `key`.

        Reports about snapshots are ignored, and so are reports of jobs that have ended or do not
        belong to the run.
        """
        # A report with `is_kept` is about a snapshot and contains no progress of the job.
        if key not in self.jobs or key in self.ended or progress.is_kept is not None:
            return
        # A job that is resubmitted to a cluster waits again. Its time is measured from now, and it
        # is listed after the other running jobs.
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
        """Record that a job has ended or was skipped.

        Args:
            key: The key of the job.
            text: A short description of the outcome.
            at: The time of the end.
            is_failed: Whether the job failed.
            is_left_out: Whether the job was skipped.
        """
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
        """Return a function that estimates the remaining seconds of a job at the time `now`.

        For a job that has not started, this is its whole duration, without the time until it can
        start.
        """
        return self._pace.remaining(self.running.values(), now)

    def seconds_left(self, now: float) -> float:
        """Estimate the seconds from the time `now` until all jobs have ended.

        The estimate assumes that jobs start in the order of `jobs`, and that `at_once` jobs run
        concurrently.
        """
        seconds = self.remaining(now)
        busy = [run for run in self.running.values() if run.progress.phase != "waiting"]
        ends = {run.job.key: seconds(run.job) for run in busy}
        free = max(self.at_once, len(busy)) - len(busy)
        slots = [*ends.values(), *(0.0 for _ in range(free))]
        # Simulate list scheduling: each job takes the slot that becomes free first, and starts when
        # all jobs that it waits for have ended too. The heap contains the times at which slots
        # become free.
        heapq.heapify(slots)
        for job in self.jobs.values():
            if job.key in ends or job.key in self.ended:
                continue
            begins = max(heapq.heappop(slots), *(ends.get(key, 0.0) for key in job.after), 0.0)
            ends[job.key] = begins + seconds(job)
            heapq.heappush(slots, ends[job.key])
        return max(ends.values(), default=0.0)


class _Pace:
    """Estimator of the remaining time of jobs, which learns from jobs that run or have ended.

    The time until a job's first training step and its work after that are estimated separately. The
    ratio of the actual work to the work that was estimated before the run is learned on three
    levels: from jobs of the same kind, from jobs on the same task, and from jobs that differ only
    in their seed (a group).
    """

    def __init__(self) -> None:
        # Seconds until the first step, for jobs that started after another job had reached its
        # first step.
        self._starts: list[float] = []
        self._first_step: float | None = None
        self._factors = _Factors()

    def learn(self, run: Running, at: float) -> None:
        """Learn from the duration of a job that ended at time `at`."""
        work = at - run.since
        if run.first is not None:
            since, first = run.first
            told, step, steps = run.last
            # A step is reported after it is done, so the first step began one step duration before.
            of_a_step = (told - since) / (step - first) if step > first else 0.0
            start = max(0.0, since - of_a_step - run.since)
            if self._first_step is not None and run.since > self._first_step:
                self._starts.append(start)
            self._first_step = min(since, self._first_step or since)
            work -= start
            # A resumed job did only its remaining steps, so scale its work to all steps.
            if first > steps / 10:  # the job was resumed from a snapshot
                work *= steps / max(1, steps - first)
        self._factors.add(run.job, work, 1.0)

    @property
    def start_seconds(self) -> float:
        """Estimated seconds from the start of a job to its first training step.

        The first jobs of a run also wait until libraries are imported, so the value is a larger
        constant until some job has reached its first step.
        """
        if self._first_step is None:
            return _START_SECONDS
        # Compute a mean over jobs, in which the default value counts as 0.3 jobs.
        return (sum(self._starts) + 0.3 * _WARM_SECONDS) / (len(self._starts) + 0.3)

    def remaining(self, runs: Iterable[Running], now: float) -> Callable[[LiveJob], float]:
        """Return a function that estimates the remaining seconds of a job.

        The estimates also use the progress of the running jobs in `runs`.
        """
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
                # Interpolate geometrically between the estimate from other jobs (`work`) and the
                # estimate from the job's own speed (`run.work`).
                work = work ** (1 - run.trust) * run.work**run.trust
            return max(0.0, work * (1 - run.share) - (now - run.last[0]))

        return seconds


class _Factors:
    """Statistics of the ratio between the actual and the estimated work of jobs.

    They are weighted sums of logarithms of the ratio, per kind, task and group of jobs.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}

    def copy(self) -> "_Factors":
        """Return a copy, so that jobs that still run can be added without changing the original."""
        other = _Factors()
        other._sums = dict(self._sums)
        return other

    def add(self, job: LiveJob, work: float, weight: float) -> None:
        """Add an observation: a job needed `work` seconds. `weight` is its weight in the means."""
        found = math.log(max(work, 1e-3) / _work(job))
        for level in _levels(job):
            total, weights = self._sums.get(level, (0.0, 0.0))
            self._sums[level] = total + weight * found, weights + weight

    def of(self, job: LiveJob) -> float:
        """Return the expected ratio of a job's work to its estimate."""
        value = 0.0
        # Go from kind to task to group. Each level's value is a weighted mean of its own
        # observations and the previous level's value, which counts as much as `trust` jobs.
        for level, trust in zip(_levels(job), _WEIGHTS, strict=True):
            total, weights = self._sums.get(level, (0.0, 0.0))
            value = (trust * value + total) / (trust + weights)
        return math.exp(value)


def _levels(job: LiveJob) -> Iterator[tuple[str, str]]:
    yield "kind", job.kind
    yield "task", f"{job.kind} {job.task}"
    yield "group", job.group


_WEIGHTS = (0.15, 0.5, 0.3)
"""Weights, in numbers of jobs, of the prior value of the ratio on the levels kind, task and group.

The prior value of a kind is 1, which assumes that the estimate is right. The prior value of a task
is the value of its kind, and that of a group is the value of its task. The weights are low, because
two jobs that have run on a machine predict more than any estimate.
"""

_START_SECONDS = 5.0
"""Seconds from a job's start to its first training step, as included in its estimated duration."""

_WARM_SECONDS = 2.0
"""Seconds until the first training step of a job if its libraries are already imported."""


def _work(job: LiveJob) -> float:
    """Return the estimated duration of a job in seconds, without the time until its first step."""
    if job.kind == "baseline":
        return max(job.seconds, 0.1)
    return max(job.seconds - _START_SECONDS, 0.1 * job.seconds, 0.1)


# Write the live file in the process of the run, and read it in other processes.


class LiveFile(Watcher):
    """Watcher of a run that writes all events to the live file and passes them to another watcher.

    Other processes read the live file to show the progress of the run. The object is a context
    manager, which creates the file and deletes it at the end. Errors in writing the file are
    ignored, because a run must not fail only because of its live file.

    Args:
        watcher: The other watcher.
        schedule: The schedule of the run.
        folder: The folder of the database.
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
        draft = self._path.with_suffix(".new")  # renamed after it is locked; readers ignore ".new"
        with suppress(OSError):
            draft.parent.mkdir(parents=True, exist_ok=True)
            # Do not buffer, so that the file has all lines even if this process is killed.
            self._file = draft.open("xb", buffering=0)
            with suppress(OSError):  # the file system may not support locks
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
        """Write the progress of a running job, unless a line about the job was written recently.

        A line is always written if a phase of the job begins or ends, or if the report has a note.
        The other watcher gets every report.
        """
        now = time.monotonic()
        stage = progress.phase, progress.step > 0, progress.step == progress.steps
        before, since, last = self._told.get(job.key, (None, now, now))
        pause = max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * (now - since))
        if stage != before or progress.note or now - last >= pause:
            self._told[job.key] = (stage, since, now)
            self._tell("progress", key=job.key, **_without_defaults(progress))
        self._watcher.report(job, progress)

    def finish(self, outcome: Result | Failure) -> None:
        """Write the outcome of a job to the live file, and pass it to the other watcher."""
        failed = isinstance(outcome, Failure)
        self._tell("end", key=outcome.job.key, text=ending(outcome), is_failed=failed)
        self._watcher.finish(outcome)

    def leave_out(self, job: Job) -> None:
        """Write that a job is skipped, and tell the other watcher.

        A job is skipped if it is not needed any more, if its checkpoint cannot be loaded, or if the
        time limit has passed.
        """
        self._tell("end", key=job.key, text="is skipped", is_left_out=True)
        self._watcher.leave_out(job)

    def say(self, line: str) -> None:
        """Pass a line about the run to the other watcher; it is not written to the file."""
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
    """Delete the live files of killed processes in a folder, and the folder if it is then empty.

    If the folder is a symbolic link, nothing is deleted.
    """
    # A link may lead to a folder that does not belong to benchharness.
    if folder.is_symlink():
        return
    with suppress(OSError):
        for path in filter(_is_ours, tuple(folder.iterdir())):
            with suppress(OSError), path.open("rb") as file:
                # If the run's process is alive, it has locked the file, so this raises an error.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink()
        folder.rmdir()


def _is_ours(path: Path) -> bool:
    # A live file has a name such as "4711-98765432101.jsonl"; the name ends in ".new" until the
    # file is locked.
    return re.fullmatch(r"[0-9]+-[0-9]+\.(jsonl|new)", path.name) is not None


class Followed:
    """Reader of the live file of a run in another process; call `close` at the end.

    Args:
        path: The path of the live file.

    Attributes:
        state: The state of the run, as of the last call of `news`.
        process: The process id of the run.
        stored: The number of jobs that had a stored result before the run.
        is_over: Whether the run has ended.
        is_lost: Whether the process of the run was killed, so that the run has ended.
        is_interrupted: Whether an exception, such as that of Ctrl-C, has ended the run.
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
        """Close the live file."""
        self._file.close()

    @property
    def now(self) -> float:
        """Current time on the clock of the run, in seconds.

        If the run is on another machine, whose clock cannot be read, this is the time of the last
        line in the file.
        """
        return time.monotonic() if self._is_here else self._last

    def news(self) -> Iterator[Mapping[str, Any]]:
        """Read the lines that were written since the last call, and update the state with each.

        Each line is yielded as a mapping. "event" is the kind of change: "run" (the run starts),
        "progress" (of a job), "end" (of a job) or "over" (the run has ended). "at" is the time of
        the change. Other keys depend on the kind; for example, "key" is the key of the job. Lines
        that cannot be read are skipped.
        """
        # Check the lock first, so that all lines of a process that has just died are read below.
        is_held = self._is_held()
        # The text after the last newline is an incomplete line, or empty.
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
                self.process, self.stored = said["process"], said["stored"]
                self.state = RunState(jobs, said["at_once"], at, self.stored)
                self._is_here = said["host"] == platform.node()
            case "progress":
                # Ignore "event", "at" and "key", and fields written by later versions of
                # benchharness.
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
    """Return whether a process with this id exists on this machine."""
    return Path(f"/proc/{process}").exists()


def live_files(folder: Path) -> list[Path]:
    """Return the live files in the results folder `folder`, oldest first."""
    return sorted((folder / LIVE).glob("*.jsonl"), key=_began)


def _began(file: Path) -> tuple[int, str]:
    """Return a sort key for live files: the start time in the file's name, then the name."""
    nanoseconds = file.stem.rpartition("-")[2]
    return int(nanoseconds) if nanoseconds.isdecimal() else 0, file.name
