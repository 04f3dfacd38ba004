"""Progress of jobs, watchers that receive it, and handling of signals in workers."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from types import FrameType

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Job, recipe_words
from benchharness.leaderboard.result import MARK, Failure, Result
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import SUITES, TASKS, distinct_title
from benchharness.tasks.task import ending_of, score_title


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Report about the progress of a running job.

    Attributes:
        phase: "loading", "encoding" (computing the states of a frozen encoder), "training",
            "saving" or "predicting". It is "waiting" while a job waits for a free slot, or for
            another process that already runs the job.
        step: The number of finished optimizer steps during training; in other phases, the number of
            finished batches.
        steps: The total number of steps or batches; 0 if it is unknown.
        epoch: The number of epochs that are done, including the fraction of the current one.
        loss: The latest mean training loss; None outside training.
        examples_per_second: The mean speed in this phase so far; 0 if it is unknown.
        note: A message for the user, such as "skips a damaged snapshot", which is printed after the
            job's name; otherwise empty.
        is_kept: If the job has just tried to write a snapshot, whether this was successful; None in
            all other reports.
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
"""Number of seconds between two messages that a slow operation is still running."""


@contextmanager
def alive(say: Callable[[], str]) -> Iterator[None]:
    """Context manager that writes a line to stderr every ALIVE_SECONDS while the block runs.

    The function `say` returns the text of the line. The number of seconds so far is appended.
    """
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
    """Base class of objects that observe the jobs of a run. Its methods do nothing."""

    def report(self, job: Job, progress: Progress) -> None:
        """Receive the progress of a running job."""

    def finish(self, outcome: Result | Failure) -> None:
        """Receive the outcome of a job that has ended."""

    def leave_out(self, job: Job) -> None:
        """Receive a job that is skipped because it is not needed or the time limit has passed."""

    def say(self, line: str) -> None:
        """Show a line about the run to the user."""


# Handling SIGTERM and SIGINT in a worker: it ends at once, or after an uninterruptible block.


class Interrupted(BaseException):
    """Raised when SIGTERM or SIGINT arrives; the argument is the number of the signal."""


@dataclass(kw_only=True)
class Signals:
    """Signal handler that raises Interrupted, at once or after an uninterruptible block.

    Attributes:
        is_held: Whether signals are held back, because an uninterruptible block is running.
        arrived: The number of the signal that is held back; 0 if there is none.
        announce: The function that is called when a signal arrives and is held back.
    """

    is_held: bool = False
    arrived: int = 0
    announce: Callable[[], None] = lambda: None

    def take(self, number: int, _: FrameType | None = None) -> None:
        """Handle the signal with this number by raising Interrupted.

        If signals are held back, the signal is recorded and `announce` is called instead.
        """
        if not self.is_held:
            raise Interrupted(number)
        self.arrived = number
        self.announce()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Context manager for a block that signals must not interrupt.

        If a signal arrives in the block, Interrupted is raised at the end of the block. If such
        blocks are nested, only the outermost one has an effect.
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
        """Context manager that sets the attribute `announce` while its block runs."""
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
"""The signal handler of this process."""


def job_name(job: Job) -> str:
    """Return the name of a job for the user, such as "tiny CoLA seed 1".

    It is made of model, task and seed; the job of a baseline has no seed in its name.
    """
    seed = "" if job.kind == "baseline" else f" seed {job.seed}"
    return f"{job.model} {job.title}{seed}"


def job_names(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the names of jobs for the user, keyed by job key.

    If several jobs have the same model, task and seed, their names also contain the hyperparameters
    or the teacher in which they differ, as in "tiny CoLA seed 1, lr 3e-4".
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
"""Largest number of scores of a job that are shown. For example, BLiMP has 67 scores, one per
paradigm."""


def ending(outcome: Result | Failure) -> str:
    """Describe the outcome of a job for the user: scores such as "mcc 0.500 in 2 s", or an error.

    At most MOST_SCORES scores are shown; for a job that was trained on several tasks, only the
    first score of each task.
    """
    if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
        return "the model cannot be used, so its other jobs are skipped"
    if isinstance(outcome, Failure):
        return f"{outcome.kind}: {outcome.error}" if outcome.kind != "failed" else outcome.error
    task = TASKS.get(outcome.job.task)
    named = [(score_title(task, n) if task else n, v) for n, v in _shown_scores(outcome)]
    if len(outcome.job.trained_tasks) > 1:  # show the first score of each task
        scored = {e.task: e.scores for e in reversed(outcome.evaluations) if e.scores}
        named = [(distinct_title(t), next(iter(scored[t].values()))) for t in sorted(scored)]
    # Round as leaderboards do: 0.7875 is 78.8 there.
    rounded = [(name, round(value * 100, 1) / 100) for name, value in named[:MOST_SCORES]]
    shown = ", ".join(f"{name} {value:.3f}" for name, value in rounded)
    more = f" and {len(named) - MOST_SCORES} more" if len(named) > MOST_SCORES else ""
    flags = dict.fromkeys(flag for flags in outcome.flags.values() for flag in flags)
    said = f" ({MARK} {', '.join(flags)})" if flags else ""
    return f"{shown}{more}{said} in {duration(outcome.cost.seconds)}"


def _shown_scores(outcome: Result) -> list[tuple[str, float]]:
    """Return the names and values of the scores of a job that are shown to the user.

    These are the scores of its first split. If leaderboards show the mean over several splits, such
    as languages, the values are the means of each metric over these splits.
    """
    name, means = outcome.job.task, list[tuple[str, float]]()
    if task := TASKS.get(name):
        shown = SUITES[task.suite].rule.cells.get(name, ()) if task.suite in SUITES else ()
        own = [each.scores for each in outcome.evaluations if each.task == name]
        known = dict(pair for scores in own for pair in scores.items())
        for metric in task.metrics:
            scores = [metric.name + ending_of(task, split) for split in task.dev_splits]
            values = [known[score] for score in scores if score in shown and score in known]
            if len(values) > 1:
                means.append((f"mean {metric.name} of {len(values)} splits", fmean(values)))
    return means or list(outcome.evaluations[0].scores.items())


def duration(seconds: float) -> str:
    """Format seconds for the user, such as "45 s", "3 min" or "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
