"""Progress of a `bench run` on stderr: live lines in a terminal, plain ones elsewhere."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from benchharness.cli.output import tell_notes
from benchharness.driver.schedule import Schedule
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import visible
from benchharness.progress import Progress, duration, job_name
from benchharness.tasks.errors import ModelError, StoreError

PLAIN_SECONDS = 10.0
"""How often a plain line is printed about a job that goes on."""


INTERRUPTED_SECONDS = 1.0
"""How long who has pressed Ctrl-C waits for a store that another process holds."""


class Display:
    """Shows the jobs of one run.

    `weights` are the expected seconds by job key, which the time left is reckoned with; a job
    without one counts like an average one. Use it as a context manager.
    """

    def __init__(self, jobs: int, weights: Mapping[str, float], console: Console) -> None:
        self._jobs = jobs
        self._weights = weights
        self._average = sum(weights.values()) / len(weights) if weights else 1.0
        self._console = console
        self._running: dict[str, tuple[Job, Progress]] = {}
        self._done = self._failed = 0
        self._done_weight = 0.0
        self._start = self._last_line = time.monotonic()
        live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, get_renderable=self._render) if live else None

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.transient = True
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, job: Job, progress: Progress) -> None:
        """Takes what a running job says of itself."""
        if progress.is_kept is None:
            self._running[job.key] = (job, progress)
        if progress.note:
            self.say(f"{job_name(job)} {progress.note}.")
        now = time.monotonic()
        if self._live is None and now - self._last_line >= PLAIN_SECONDS:
            self._last_line = now
            self.say(f"{self._headline()}; {describe(job, progress)}")

    def finish(self, outcome: Result | Failure) -> None:
        """Takes what a job has left behind, and prints a line about it."""
        job = outcome.job
        self.leave_out(job)
        self._failed += isinstance(outcome, Failure)
        self._last_line = time.monotonic()
        self.say(f"[{self._done}/{self._jobs}] {job_name(job)}: {_ending(outcome)}")

    def leave_out(self, job: Job) -> None:
        """Takes that a job has not to be run any more."""
        self._running.pop(job.key, None)  # where it has waited for another process
        self._done += 1
        self._done_weight += self._weight(job)

    def say(self, line: str) -> None:
        """Prints a line above what is live."""
        self._console.print(Text(visible(line)), soft_wrap=True)

    def _weight(self, job: Job) -> float:
        return self._weights.get(job.key, self._average)

    def _render(self) -> Group:
        lines = [self._headline(), *(describe(*state) for state in self._running.values())]
        return Group(*(Text(visible(line), no_wrap=True, overflow="ellipsis") for line in lines))

    def _headline(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        left = self._seconds_left()
        time_left = "" if left is None else f", about {duration(left)} left"
        return f"{self._done} of {self._jobs} jobs done{failed}{time_left}"

    def _seconds_left(self) -> float | None:
        """The time left at the pace so far; None before anything can be said."""
        running = (self._weight(job) * fraction(p) for job, p in self._running.values())
        done = self._done_weight + sum(running)
        missing = self._jobs - self._done - len(self._running)
        todo = sum((self._weight(job) for job, _ in self._running.values()), 0.0)
        total = self._done_weight + todo + missing * self._average
        if done <= 0 or total <= 0:
            return None
        return (time.monotonic() - self._start) * max(0.0, total - done) / done


@contextmanager
def interruption_told(schedule: Schedule, store: Store, kept: str) -> Iterator[None]:
    """Says how much of a run is kept ("stored", say) when it is interrupted."""
    tell_notes(schedule.notes)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        try:
            hurried = store.hurried(INTERRUPTED_SECONDS)
            there = str(len(hurried.finished_keys(job.key for job in schedule.jobs)))
        except StoreError as error:
            tell_notes([str(error)])
            there = "some"
        typer.echo(
            f"bench: interrupted; {there} of {len(schedule.jobs)} jobs are {kept}, and the same "
            "command resumes from there.",
            err=True,
        )
        raise


def fraction(progress: Progress) -> float:
    """How much of a job is done, reckoning that training is nearly all of it."""
    share = progress.step / progress.steps if progress.steps else 0.0
    shares = {"training": 0.9 * share, "saving": 0.9 * share, "predicting": 0.9 + 0.1 * share}
    return shares.get(progress.phase, 0.0)


def describe(job: Job, progress: Progress) -> str:
    """One line about a running job."""
    parts = [f"{job_name(job)}: {progress.phase}"]
    if progress.phase == "training":
        parts.append(f"epoch {progress.epoch:.2f}")
    if progress.steps:
        parts.append(f"step {progress.step}/{progress.steps}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.examples_per_second:
        parts.append(f"{progress.examples_per_second:.0f} examples/s")
    return ", ".join(parts)


def _ending(outcome: Result | Failure) -> str:
    if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
        return "its model cannot be used, and its other jobs are left out"
    if isinstance(outcome, Failure):
        return f"{outcome.kind}: {outcome.error}" if outcome.kind != "failed" else outcome.error
    scores = outcome.evaluations[0].scores.items()
    shown = ", ".join(f"{name} {value:.3f}" for name, value in scores)
    return f"{shown} in {duration(outcome.cost.seconds)}"
