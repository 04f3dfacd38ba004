"""Progress of a running job, the objects that watch it, and the handling of signals in workers."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Job, recipe_words
from benchharness.leaderboard.result import MARK, Failure, Result
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import distinct_title


@dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a running job.

    Attributes:
        phase: "loading", "encoding", "training", "saving" or "predicting"; before these, "waiting"
            while a cluster has no room or another process runs the job.
        step: The number of finished optimizer steps (training) or batches (predicting; encoding, if
            a frozen encoder is computed).
        steps: Their total number.
        epoch: The position in the training, in epochs.
        loss: The latest mean training loss; None outside training.
        examples_per_second: The speed over the phase so far.
        note: A clause for the user after the job's name ("skips a damaged snapshot").
        is_kept: Whether its state could be written, if that was just tried; else None.
    """

    phase: str
    step: int = 0
    steps: int = 0
    epoch: float = 0.0
    loss: float | None = None
    examples_per_second: float = 0.0
    note: str = ""
    is_kept: bool | None = None


Reporter = Callable[[Progress], None]


ALIVE_SECONDS = 10.0
"""Interval at which a slow block reports that it is running."""


@contextmanager
def alive(say: Callable[[], str]) -> Iterator[None]:
    """Write a line to stderr every ALIVE_SECONDS while the block runs; `say` returns its text."""
    started, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not ended.wait(ALIVE_SECONDS):
            seconds = time.monotonic() - started
            sys.stderr.write(f"bench: {visible(say())} ({seconds:.0f} s)\n")

    thread = threading.Thread(target=tell, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Watcher:
    """Observer of the jobs of a run; this base class shows nothing."""

    def report(self, job: Job, progress: Progress) -> None:
        """Receive the progress of a running job."""

    def finish(self, outcome: Result | Failure) -> None:
        """Receive the outcome of a job."""

    def leave_out(self, job: Job) -> None:
        """Receive a job that does not need to run any more."""

    def say(self, line: str) -> None:
        """Show a line about the run."""


# SIGTERM and SIGINT in a worker end it at once, or after a block that must not be interrupted.


class Interrupted(BaseException):
    """SIGTERM or SIGINT arrived; the argument is the signal's number."""


@dataclass(kw_only=True)
class Signals:
    """Turns signals into Interrupted, or holds them back.

    Attributes:
        is_held: Whether signals are held back now.
        arrived: The signal that waits; 0 for none.
        announce: A function that is called when a signal has to wait.
    """

    is_held: bool = False
    arrived: int = 0
    announce: Callable[[], None] = lambda: None

    def take(self, number: int, _: FrameType | None = None) -> None:
        """Handle a signal: raise Interrupted, unless signals are held back."""
        if not self.is_held:
            raise Interrupted(number)
        self.arrived = number
        self.announce()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Run a block that no signal interrupts; Interrupted is raised before or after it.

        A nested block belongs to the outer one.
        """
        if self.is_held:
            yield
            return
        self._raise_arrived()
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
        self._raise_arrived()

    @contextmanager
    def announced_by(self, announce: Callable[[], None]) -> Iterator[None]:
        """Run a block in which `announce` is called when a signal has to wait."""
        before, self.announce = self.announce, announce
        try:
            yield
        finally:
            self.announce = before

    def _raise_arrived(self) -> None:
        number, self.arrived = self.arrived, 0
        if number:
            raise Interrupted(number)


SIGNALS = Signals()
"""The signals of this process, which has one handler for each."""


def job_name(job: Job) -> str:
    """Return the user's name of a job: model, task and seed; a baseline has no seed."""
    seed = "" if job.kind == "baseline" else f" seed {job.seed}"
    return f"{job.model} {job.title}{seed}"


def job_names(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the user's names of jobs, by key.

    Jobs with the same name get the settings in which they differ, or their teacher, in the words of
    a board's rows: "tiny CoLA seed 1, lr 3e-4".
    """
    called: dict[str, dict[str, list[str]]] = {}
    for job in jobs:
        words = [word.shown for word in recipe_words(job.recipe_label, [job])]
        words += [] if job.teacher is None else [f"student of {job.teacher.model}"]
        called.setdefault(job_name(job), {})[job.key] = words
    names: dict[str, str] = {}
    for name, alike in called.items():
        shared = set[str]().union(*alike.values()).intersection(*alike.values())
        for key, words in alike.items():
            names[key] = ", ".join([name, *(word for word in words if word not in shared)])
    return names


MOST_SCORES = 8
"""Largest number of scores that are shown of one job; BLiMP has one per paradigm, 67."""


def ending(outcome: Result | Failure) -> str:
    """Describe the outcome of a job for the user: "mcc 0.500 in 2 s", or the error."""
    if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
        return "its model cannot be used, and its other jobs are left out"
    if isinstance(outcome, Failure):
        return f"{outcome.kind}: {outcome.error}" if outcome.kind != "failed" else outcome.error
    first = outcome.evaluations[0].scores
    named: Sequence[tuple[str, float]] = list(first.items())
    if len(outcome.job.trained_tasks) > 1:  # show the first score of each task
        scored = {e.task: e.scores for e in reversed(outcome.evaluations) if e.scores}
        named = [(distinct_title(t), next(iter(scored[t].values()))) for t in sorted(scored)]
    shown = ", ".join(f"{name} {value:.3f}" for name, value in named[:MOST_SCORES])
    more = f" and {len(named) - MOST_SCORES} more" if len(named) > MOST_SCORES else ""
    flags = dict.fromkeys(flag for flags in outcome.flags.values() for flag in flags)
    said = f" ({MARK} {', '.join(flags)})" if flags else ""
    return f"{shown}{more}{said} in {duration(outcome.cost.seconds)}"


def duration(seconds: float) -> str:
    """Format seconds for the user: "45 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
