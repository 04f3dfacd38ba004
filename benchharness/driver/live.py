"""How a run goes, for whoever watches it: kept in a file while it lasts, and reckoned with.

    results/live/PID-NUMBER.jsonl       the jobs to run, then a line a change

The file stands beside the database. Its process holds it by a lock, so that others can tell a run
that was killed, and deletes it at the end. Times in it are seconds of the clock of the machine that
never jumps.
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
"""The name of the folder beside the database."""

SECONDS_BETWEEN_LINES = 1.0
"""At least so long lies between two lines of a job that only goes on."""

SHARE_BETWEEN_LINES = 0.005
"""And so much of its time so far, so that a job of a day has hundreds of lines, not thousands."""


@dataclass(frozen=True, kw_only=True)
class LiveJob:
    """A job to run: its name, and about how many seconds it takes by the estimate.

    Jobs of one `group` differ in their seeds alone; `task` is the one that it is trained on, `kind`
    that of its model. It waits for the jobs `after`.
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
        """A job of a schedule."""
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
    """A job that runs: since when, where it is, and the losses that it has told of, in their order.

    `first` is when it told of its first step, and which that was; a job that resumes has others
    before it.
    """

    job: LiveJob
    since: float
    progress: Progress
    first: tuple[float, int] | None = None
    last: tuple[float, int, int] = (0.0, 0, 0)
    losses: list[float] = field(default_factory=list)

    def take(self, progress: Progress, at: float) -> None:
        """Takes what it says of itself."""
        self.progress = progress
        if progress.phase == "training" and progress.step:
            self.first = self.first or (at, progress.step)
            self.last = (at, progress.step, progress.steps)
            if progress.loss is not None and math.isfinite(progress.loss):
                self.losses.append(progress.loss)

    @property
    def share(self) -> float:
        """How much of its work is done, reckoning that training is nearly all of it."""
        _, step, steps = self.last
        trained = _TRAINING * step / steps if steps else 0.0
        # Dev is scored on the way too; only after the last step is predicting what is left.
        if self.progress.phase == "predicting" and self.progress.steps and step == steps:
            return trained + (1 - _TRAINING) * self.progress.step / self.progress.steps
        return trained

    @property
    def work(self) -> float | None:
        """The seconds from its first step to its end, by the pace of its steps; None before two."""
        at, step, steps = self.last
        if self.first is None or step == self.first[1]:
            return None
        since, first = self.first
        # The seconds of a step, for all steps, and what comes after training on top.
        return (at - since) * steps / (step - first) / _TRAINING

    @property
    def trust(self) -> float:
        """How much its own pace counts: alone after five seconds of steps, or a fifth of them."""
        seconds = self.last[0] - self.first[0] if self.first else 0.0
        return min(1.0, max(5 * self.share, seconds / 5))


_TRAINING = 0.9


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job that has ended, and what is said of it; `is_failed`, or `is_left_out` and never run."""

    job: LiveJob
    text: str
    losses: tuple[float, ...] = ()
    is_failed: bool = False
    is_left_out: bool = False


class RunState:
    """How far a run is: its jobs in the order in which they start, `at_once` of them at a time.

    `started` is when it began, on the clock of all other times.
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
        """The state before anything runs."""
        jobs = (LiveJob.of(job, schedule) for job in schedule.todo)
        return cls(jobs, schedule.at_once, started)

    @property
    def failed(self) -> int:
        """How many jobs have failed."""
        return sum(each.is_failed for each in self.ended.values())

    def report(self, key: str, progress: Progress, at: float) -> None:
        """Takes what a running job says of itself."""
        # Whether a state could be written says nothing of how far the job is.
        if key not in self.jobs or key in self.ended or progress.is_kept is not None:
            return
        # A job that is sent again waits too. Its clock starts anew, and it goes behind the others.
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
        """Takes that a job has ended, or need not run any more."""
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
        """About how many seconds a job still takes, once it has its slot."""
        return self._pace.remaining(self.running.values(), now)

    def seconds_left(self, now: float) -> float:
        """About how long all still take: as many at once as there are slots, in their order."""
        seconds = self.remaining(now)
        busy = [run for run in self.running.values() if run.progress.phase != "waiting"]
        ends = {run.job.key: seconds(run.job) for run in busy}
        free = max(self.at_once, len(busy)) - len(busy)
        slots = [*ends.values(), *(0.0 for _ in range(free))]
        # List scheduling: in their order, each job takes the slot that is free first, and begins
        # when all that it waits for has ended too. The heap holds when each slot is free.
        heapq.heapify(slots)
        for job in self.jobs.values():
            if job.key in ends or job.key in self.ended:
                continue
            begins = max(heapq.heappop(slots), *(ends.get(key, 0.0) for key in job.after), 0.0)
            ends[job.key] = begins + seconds(job)
            heapq.heappush(slots, ends[job.key])
        return max(ends.values(), default=0.0)


class _Pace:
    """How long jobs take beside their estimates, as those that have ended or run show it.

    Of each, what it takes until its first step is told apart from its work after that. By which
    factor the work is longer than was estimated is learned of all jobs of a kind, from there of
    those of a task, and from there of those that differ in their seeds alone.
    """

    def __init__(self) -> None:
        self._starts: list[float] = []  # of jobs that began after another's first step
        self._first_step: float | None = None
        self._factors = _Factors()

    def learn(self, run: Running, at: float) -> None:
        """Takes how long a job has taken that ends now."""
        work = at - run.since
        if run.first is not None:
            since, first = run.first
            told, step, steps = run.last
            # A step is told of when it is done, so the first one began a step's time before.
            of_a_step = (told - since) / (step - first) if step > first else 0.0
            start = max(0.0, since - of_a_step - run.since)
            if self._first_step is not None and run.since > self._first_step:
                self._starts.append(start)
            self._first_step = min(since, self._first_step or since)
            work -= start
            # Then it has only done the remaining steps, and its work is scaled up to all of them.
            if first > steps / 10:  # it has resumed
                work *= steps / max(1, steps - first)
        self._factors.add(run.job, work, 1.0)

    @property
    def start_seconds(self) -> float:
        """About how long a job takes until its first step, once others have had theirs.

        Those that begin with the run also wait for libraries to be imported, which others find.
        """
        if self._first_step is None:
            return _START_SECONDS
        # A mean in which the usual seconds count as much as 0.3 of a job.
        return (sum(self._starts) + 0.3 * _WARM_SECONDS) / (len(self._starts) + 0.3)

    def remaining(self, runs: Iterable[Running], now: float) -> Callable[[LiveJob], float]:
        """About how many seconds a job still takes, one of these that run or another."""
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
                # From the estimate to its own pace, on the scale of logarithms.
                work = work ** (1 - run.trust) * run.work**run.trust
            return max(0.0, work * (1 - run.share) - (now - run.last[0]))

        return seconds


class _Factors:
    """The factors of jobs, as weighted sums of logarithms by kind, task and group."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}

    def copy(self) -> "_Factors":
        """The same, to add what is for now alone."""
        other = _Factors()
        other._sums = dict(self._sums)
        return other

    def add(self, job: LiveJob, work: float, weight: float) -> None:
        """Takes how long the work of a job is."""
        found = math.log(max(work, 1e-3) / _work(job))
        for level in _levels(job):
            total, weights = self._sums.get(level, (0.0, 0.0))
            self._sums[level] = total + weight * found, weights + weight

    def of(self, job: LiveJob) -> float:
        """By how much longer its work is expected to be than estimated."""
        value = 0.0
        # From all of a kind to a task to a group, each the mean of its own logarithms and of the
        # level before, which counts as so many jobs.
        for level, trust in zip(_levels(job), _WEIGHTS, strict=True):
            total, weights = self._sums.get(level, (0.0, 0.0))
            value = (trust * value + total) / (trust + weights)
        return math.exp(value)


def _levels(job: LiveJob) -> Iterator[tuple[str, str]]:
    yield "kind", job.kind
    yield "task", f"{job.kind} {job.task}"
    yield "group", job.group


_WEIGHTS = (0.15, 0.5, 0.3)
"""For how many jobs count an estimate, what is known of the kind for a task, and of the task for a
group. Little: two jobs say more of a machine than any estimate."""

_START_SECONDS = 5.0
"""What estimates reckon until the first step."""

_WARM_SECONDS = 2.0
"""The same where the libraries are imported."""


def _work(job: LiveJob) -> float:
    """The estimate without what a job takes until its first step."""
    if job.kind == "baseline":
        return max(job.seconds, 0.1)
    return max(job.seconds - _START_SECONDS, 0.1 * job.seconds, 0.1)


# The file: written by the run, read by others.


class LiveFile(Watcher):
    """A watcher that tells another one, and a file, how the jobs go; a context manager.

    What cannot be written is not told: no run fails because nobody can watch it.
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
        draft = self._path.with_suffix(".new")  # which nobody follows before it is held
        with suppress(OSError):
            draft.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer, so that a killed process leaves all lines that it has told.
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
        """Tells what a running job says of itself, unless it has said nearly the same just now."""
        now = time.monotonic()
        stage = progress.phase, progress.step > 0, progress.step == progress.steps
        before, since, last = self._told.get(job.key, (None, now, now))
        pause = max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * (now - since))
        if stage != before or progress.note or now - last >= pause:
            self._told[job.key] = (stage, since, now)
            self._tell("progress", key=job.key, **_without_defaults(progress))
        self._watcher.report(job, progress)

    def finish(self, outcome: Result | Failure) -> None:
        """Tells what a job has left behind."""
        failed = isinstance(outcome, Failure)
        self._tell("end", key=outcome.job.key, text=ending(outcome), is_failed=failed)
        self._watcher.finish(outcome)

    def leave_out(self, job: Job) -> None:
        """Tells that a job need not run any more."""
        self._tell("end", key=job.key, text="is left out", is_left_out=True)
        self._watcher.leave_out(job)

    def say(self, line: str) -> None:
        """Passes on a line about the run."""
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
    """Deletes what killed processes have left, and the folder where nothing else is in it."""
    # Nothing is deleted where a link leads.
    if folder.is_symlink():
        return
    with suppress(OSError):
        for path in filter(_is_ours, tuple(folder.iterdir())):
            with suppress(OSError), path.open("rb") as file:
                # A process that lives holds its file alone, so this raises and the file stays.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink()
        folder.rmdir()


def _is_ours(path: Path) -> bool:
    # "4711-98765432101.jsonl", or ".new" as long as nobody is to follow it.
    return re.fullmatch(r"[0-9]+-[0-9]+\.(jsonl|new)", path.name) is not None


class Followed:
    """A run that another process drives, as its file tells of it. Close it when it is over.

    `is_over` says that it has ended, `is_lost` that its process was killed meanwhile.
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
        """Lets go of the file."""
        self._file.close()

    @property
    def now(self) -> float:
        """The time on the run's clock: of a run of another machine, that of its last change."""
        return time.monotonic() if self._is_here else self._last

    def news(self) -> Iterator[Mapping[str, Any]]:
        """What has changed since the last call, each with what its line says."""
        # Looked at first: what a process has written before it died is read below.
        is_held = self._is_held()
        # Behind the last line end stands what is still being written, or nothing.
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
                # Without "event", "at" and "key", and without what a later version says besides.
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
    """Whether a process of this machine has not ended."""
    return Path(f"/proc/{process}").exists()


def live_files(folder: Path) -> list[Path]:
    """The files of the runs beside a database, the oldest first."""
    return sorted((folder / LIVE).glob("*.jsonl"), key=_began)


def _began(file: Path) -> tuple[int, str]:
    """The nanoseconds in a file's name: as text, 9 would come after 10."""
    nanoseconds = file.stem.rpartition("-")[2]
    return int(nanoseconds) if nanoseconds.isdecimal() else 0, file.name
