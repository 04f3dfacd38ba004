"""What a running job says of itself, who watches, and when a signal may end it."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from benchharness.leaderboard.job import Job, recipe_words
from benchharness.leaderboard.result import MARK, Failure, Result
from benchharness.leaderboard.text import visible
from benchharness.tasks.errors import ModelError
from benchharness.tasks.suites import distinct_title


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a job is.

    `phase` is "loading", "encoding", "training", "saving" or "predicting", and "waiting" before
    those while a cluster has no room, or another process runs the job.

    `step` of `steps` optimizer steps (training) or batches (predicting; encoding, where a frozen
    encoder is computed); `loss` is the latest mean training loss, None outside training;
    `examples_per_second` is over the phase so far. A `note` is what a user should know of the job,
    the rest of a sentence that begins with its name ("skips a damaged snapshot"). `is_kept` says
    whether its state could be written, where that was tried just now.
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
"""How often a block that takes long says so."""


@contextmanager
def alive(say: Callable[[], str]) -> Iterator[None]:
    """A block that may take long: every ALIVE_SECONDS a line on stderr says what goes on in it."""
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
    """Who is told how the jobs of a run go; one of this very class shows nothing."""

    def report(self, job: Job, progress: Progress) -> None:
        """Takes what a running job says of itself."""

    def finish(self, outcome: Result | Failure) -> None:
        """Takes what a job has left behind."""

    def leave_out(self, job: Job) -> None:
        """Takes that a job need not run any more."""

    def say(self, line: str) -> None:
        """Shows a line about the run."""


# SIGTERM and SIGINT in a worker: they end it at once, or after what must not be left half done.


class Interrupted(BaseException):
    """SIGTERM or SIGINT arrived; its number is the argument."""


@dataclass(kw_only=True)
class Signals:
    """Turns signals into Interrupted, or holds them back.

    `arrived` is the one that waits, 0 for none, and `announce` is called when one has to wait.
    """

    is_held: bool = False
    arrived: int = 0
    announce: Callable[[], None] = lambda: None

    def take(self, number: int, _: FrameType | None = None) -> None:
        """Raises Interrupted, unless signals are held back; the handler of the signals."""
        if not self.is_held:
            raise Interrupted(number)
        self.arrived = number
        self.announce()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A block that no signal interrupts; Interrupted is raised before or after it.

        Within another one it is a part of that.
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
        """A block in which a signal that has to wait is announced."""
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
"""Those of this process, which has one handler for each."""


def job_name(job: Job) -> str:
    """What a user calls a job: model, task and seed; a baseline has no seed."""
    seed = "" if job.kind == "baseline" else f" seed {job.seed}"
    return f"{job.model} {job.title}{seed}"


def job_names(jobs: Iterable[Job]) -> dict[str, str]:
    """What a user calls each of some jobs, by key.

    Those that differ in what was set, or in who taught them, are told apart by that, in the words
    of a board's rows: "tiny CoLA seed 1, lr 3e-4".
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
"""More are not said of one job; BLiMP has a score for each of 67 paradigms."""


def ending(outcome: Result | Failure) -> str:
    """What a job has left behind, for a person: "mcc 0.500 in 2 s", or what went wrong."""
    if isinstance(outcome, Failure) and outcome.exit_code == ModelError.exit_code:
        return "its model cannot be used, and its other jobs are left out"
    if isinstance(outcome, Failure):
        return f"{outcome.kind}: {outcome.error}" if outcome.kind != "failed" else outcome.error
    first = outcome.evaluations[0].scores
    named: Sequence[tuple[str, float]] = list(first.items())
    if len(outcome.job.trained_tasks) > 1:  # the first score of each
        scored = {e.task: e.scores for e in reversed(outcome.evaluations) if e.scores}
        named = [(distinct_title(t), next(iter(scored[t].values()))) for t in sorted(scored)]
    shown = ", ".join(f"{name} {value:.3f}" for name, value in named[:MOST_SCORES])
    more = f" and {len(named) - MOST_SCORES} more" if len(named) > MOST_SCORES else ""
    flags = dict.fromkeys(flag for flags in outcome.flags.values() for flag in flags)
    said = f" ({MARK} {', '.join(flags)})" if flags else ""
    return f"{shown}{more}{said} in {duration(outcome.cost.seconds)}"


def duration(seconds: float) -> str:
    """Seconds as a person says them: "45 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
