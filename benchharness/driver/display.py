"""Display of a run's progress, as live bars in a terminal or as plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import fmean

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchharness.driver.live import RunState
from benchharness.driver.schedule import Schedule
from benchharness.errors import StoreError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import are, counted, visible
from benchharness.progress import Progress, Watcher, duration, ending

PLAIN_SECONDS = 10.0
"""Smallest number of seconds between two plain lines about jobs that are still running."""


class Display(Watcher):
    """Watcher of a run that displays the progress of its jobs.

    It is also a context manager: live bars are shown only while its block runs.

    Args:
        state: The progress and the outcomes of the jobs, which this object updates.
        console: The console for the output: live bars if it is a terminal, otherwise plain lines.
    """

    def __init__(self, state: RunState, console: Console) -> None:
        self.state = state
        self._console = console
        self._last_line = time.monotonic()
        live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, get_renderable=self._render) if live else None

    def __enter__(self) -> "Display":
        if self._live is not None:
            self._live.transient = True
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, job: Job, progress: Progress) -> None:
        """Update the display with the progress of a running job."""
        now = time.monotonic()
        self.state.report(job.key, progress, now)
        name = self.state.jobs[job.key].name
        if progress.note:
            self.say(f"{name} {progress.note}.")
        self.going_on(f"{name}: {describe(progress)}")

    def going_on(self, line: str) -> None:
        """Print a line with the number of finished jobs and the time left, followed by `line`.

        Nothing is printed if the output has live bars, or if this function or `finish` has printed
        a line in the last PLAIN_SECONDS seconds.

        Args:
            line: The name of a running job and its progress.
        """
        now = time.monotonic()
        if self._live is None and now - self._last_line >= PLAIN_SECONDS:
            self._last_line = now
            self.say(f"{headline(self.state, now)}; {line}")

    def finish(self, outcome: Result | Failure) -> None:
        """Record the outcome of a job and print a line about it."""
        self._end(outcome.job, ending(outcome), is_failed=isinstance(outcome, Failure))
        self._last_line = time.monotonic()
        self.say(ending_line(self.state, outcome.job.key))

    def leave_out(self, job: Job) -> None:
        """Record that a job is skipped.

        A job is skipped if it is not needed any more, if its checkpoint cannot be loaded, or if the
        time limit has passed.
        """
        self._end(job, "is skipped", is_left_out=True)

    def _end(self, job: Job, text: str, **flags: bool) -> None:
        self.state.end(job.key, text, time.monotonic(), **flags)

    def say(self, line: str) -> None:
        """Print a line; if there are live bars, it appears above them."""
        self._console.print(Text(visible(line)), soft_wrap=True)

    def _render(self) -> Group:
        return bars(self.state, time.monotonic(), self._console)


# Format the progress of a run as text.


def headline(state: RunState, now: float) -> str:
    """Describe a run in one line: the numbers of ended and failed jobs and the time left.

    Jobs that were skipped count as ended. Jobs with a result from an earlier run are counted apart,
    e.g. "0 of 8 jobs done (2 more are stored)". `now` is the current time in seconds, on the clock
    of `state`.
    """
    failed = f", {state.failed} failed" if state.failed else ""
    failed += before(state)
    left, ended = state.seconds_left(now), len(state.ended)
    # If the run takes longer than estimated, the time left is unknown.
    late = ", taking longer than estimated" if ended < len(state.jobs) else ""
    time_left = f", about {duration(left)} left" if left >= 1 else late
    return f"{ended} of {counted(len(state.jobs), 'job')} done{failed}{time_left}"


def before(state: RunState) -> str:
    """Return the number of jobs that had a result before the run, in parentheses; may be empty."""
    return f" ({state.stored} more {are(state.stored)} stored)" if state.stored else ""


def ending_line(state: RunState, key: str) -> str:
    """Describe the outcome of the job `key`, which has ended, in one line.

    `state` is the state of the run. The line "[3/9] tiny CoLA seed 1: mcc 0.500 in 2 s" is about
    the third of nine jobs to end. If earlier jobs were skipped, they are counted too, and the line
    begins with e.g. "[3/9, 1 skipped]".
    """
    ended = state.ended[key]
    place = list(state.ended).index(key) + 1
    skipped = sum(each.is_left_out for each in list(state.ended.values())[:place])
    more = f", {skipped} skipped" if skipped else ""
    return f"[{place}/{len(state.jobs)}{more}] {ended.job.name}: {ended.text}"


def bars(state: RunState, now: float, console: Console) -> Group:
    """Return a progress bar of the run, and a progress bar and a loss curve of each running job.

    The bar of the run is the share of its estimated time that has passed. The time left of a job is
    omitted if the job takes longer than estimated. If more than MOST_BARS jobs are running, the
    others are only counted. On a console that can show
    only ASCII characters, there are no loss curves.

    Args:
        state: The state of the run.
        now: The current time in seconds, on the clock of `state`.
        console: The console on which the bars will be drawn.
    """
    remaining, left = state.remaining(now), state.seconds_left(now)
    running = list(state.running.values())
    shown, bar = running[:MOST_BARS], max(8, console.width // 6)
    names = [Text(visible(run.job.name)) for run in shown]
    longest = max((name.cell_len for name in names), default=0)
    width = min(console.width // 3, longest)
    # Wrap long names if they would look alike when they are cut, as those of a sweep do.
    is_clear = longest == width or len({name.plain[: width - 1] for name in names}) == len(names)
    rows = Table.grid(padding=(0, 1), expand=True)
    rows.add_column(no_wrap=is_clear, overflow="ellipsis" if is_clear else "fold", width=width)
    rows.add_column(width=bar)
    rows.add_column(no_wrap=True, width=4, justify="right")
    rows.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for name, run in zip(names, shown, strict=True):
        curve = "" if console.options.ascii_only else sparkline(run.losses)
        facts = describe(run.progress)
        if (left_here := remaining(run.job)) >= 1:  # otherwise, the estimate has passed
            facts = f"{duration(left_here)} left: {facts}"
        rows.add_row(
            name,
            ProgressBar(total=1.0, completed=run.share, width=bar),
            f"{run.share:.0%}",
            Text(f"{curve} {facts}".strip()),
        )
    passed = now - state.started
    share = passed / (passed + left) if passed + left > 0 else 0.0
    whole = Table.grid(padding=(0, 1))
    whole.add_row(
        ProgressBar(total=1.0, completed=share, width=bar),
        Text(headline(state, now), no_wrap=True, overflow="ellipsis"),
    )
    more = len(running) - len(shown)
    return Group(whole, rows, *([Text(f"and {more} more running")] if more else []))


MOST_BARS = 24
"""Largest number of running jobs that have a bar; further jobs are only counted."""

_LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Draw a curve with at most eight block characters, such as "█▅▃▂▁".

    The values are cut into consecutive segments, one per character, and the height of a character
    shows the mean of its segment. The result is empty for fewer than two values.
    """
    if len(values) < 2:
        return ""
    width = min(8, len(values))
    # For example, ten values are cut into eight segments of one or two values.
    cuts = [round(place * len(values) / width) for place in range(width + 1)]
    means = [fmean(values[start:end]) for start, end in pairwise(cuts)]
    low, high = min(means), max(means)
    # A constant curve is drawn at the bottom, because scaling it would divide by zero.
    scale = (len(_LEVELS) - 1) / (high - low) if high > low else 0.0
    return "".join(_LEVELS[round((mean - low) * scale)] for mean in means)


INTERRUPTED_SECONDS = 1.0
"""Seconds to wait for a locked database after the user has pressed Ctrl-C."""


@contextmanager
def displayed(schedule: Schedule, store: Store, kept: str = "stored") -> Iterator[Display]:
    """Context manager that displays the progress of a run on stderr while its block runs.

    First, the notes of the schedule are printed. If the run is interrupted, a message states how
    many of the jobs have a stored result ("3 of 9 jobs are stored"), and what the same command
    would do.

    Args:
        schedule: The schedule of the jobs to run.
        store: The database in which the results are stored.
        kept: The word that replaces "stored" in this message, such as "kept".
    """
    for note in schedule.notes:
        _print(note)
    console = Console(stderr=True)
    try:
        with Display(RunState.of(schedule, time.monotonic()), console) as display:
            yield display
    except (KeyboardInterrupt, SystemExit):
        try:
            hurried = store.hurried(INTERRUPTED_SECONDS)
            there: int | None = len(hurried.finished_keys(job.key for job in schedule.jobs))
        except StoreError as error:
            _print(str(error))
            there = None
        _print(_interrupted(schedule, there, kept))
        raise


def _interrupted(schedule: Schedule, there: int | None, kept: str) -> str:
    """Describe what an interrupted run has stored, and what the same command would do.

    `there` is the number of jobs that have a stored result; None if it is unknown.
    """
    count = len(schedule.jobs)
    again = "Run the same command again"
    if there != count:
        some = "some" if there is None else there
        of = f"{some} of {counted(count, 'job')} {are(count)} {kept}"
        return f"interrupted; {of}. {again} to resume."
    if schedule.again:  # a stored run is trained again, because its model is needed
        return f"interrupted; all results are {kept}, but a model is missing. {again} to train it."
    return f"interrupted; all jobs are {kept}. {again} to see the results."


def _print(note: str) -> None:
    sys.stderr.write(visible(f"bench: {note}") + "\n")


def describe(progress: Progress) -> str:
    """Describe the progress of a job, such as "training, epoch 0.50, step 5/10, loss 0.6931"."""
    parts = [progress.phase]
    if progress.phase == "training":
        parts.append(f"epoch {progress.epoch:.2f}")
    if progress.steps:
        parts.append(f"step {progress.step}/{progress.steps}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.examples_per_second:
        parts.append(f"{progress.examples_per_second:.0f} examples/s")
    return ", ".join(parts)
