"""The command `bench watch`, which shows the progress of runs of other processes."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from benchharness.cli.options import AsJson, Database, with_options
from benchharness.driver.display import (
    PLAIN_SECONDS,
    bars,
    before,
    describe,
    ending_line,
    headline,
    sparkline,
)
from benchharness.driver.live import Followed, is_alive, live_files
from benchharness.driver.options import DATABASE, option
from benchharness.driver.start_checkpoints import folder_beside
from benchharness.errors import JobError, shown_place
from benchharness.leaderboard.text import counted, visible

LOOK_SECONDS = 0.25
"""Seconds between two readings of the live files, to which runs write their progress."""

NEXT_SECONDS = 5.0
"""Seconds to wait for another run of the same process after a run has ended. In successive halving,
each round is a run of its own."""

FIRST_LINES = 10
"""Maximum number of lines about jobs that ended before `bench watch` was started. If there are more
jobs, only the number of the earlier ones is printed."""


@with_options(plugins=False)
def watch(
    *,
    once: bool = option(False, "Show the progress once and exit."),
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Show the progress of current runs: which jobs are done, which are running, and the time left.

    Use it in a second terminal while `bench run` or `bench check` runs in the first one. The first
    bar is the share of the estimated time that has passed; the other bars are running jobs. The
    command ends when these runs end, and exits with 1 if a job failed. With --json, each change is
    printed as one line.
    """
    folder = folder_beside(db)
    known: set[Path] = set()
    runs = list(_opened(folder, known))
    if not runs:
        typer.echo(visible(f"no run is in progress in the folder of {shown_place(db)}."), err=True)
        return
    shown = _JsonLines() if as_json else _Screen(Console())
    if once:
        for run in runs:
            shown.now(run)
            if run.is_over:
                shown.over(run)
            run.close()
    else:
        _follow(folder, runs, known, shown)
    if any(run.is_over and (run.state.failed or run.is_lost) for run in runs):
        raise typer.Exit(JobError.exit_code)


def _opened(folder: Path, known: set[Path]) -> Iterator[Followed]:
    """Open the live files that are not in `known`, and yield each run with its current state.

    The files are added to `known`.
    """
    for path in live_files(folder):
        if path not in known:
            known.add(path)
            try:
                run = Followed(path)
            except FileNotFoundError:  # the run has ended meanwhile
                continue
            # Read all earlier changes, because only later ones are shown one by one.
            for _ in run.news():
                pass
            yield run


class _Screen:
    """Display of runs for humans.

    It prints a line for each job that ends, and shows a progress bar for each running job. If the
    output is not a terminal, it prints a progress line at intervals instead of bars.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, transient=True, auto_refresh=False) if live else None
        self._last = time.monotonic() - PLAIN_SECONDS

    def __enter__(self) -> "_Screen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def begin(self, run: Followed) -> None:
        """Print the jobs that ended before `bench watch` was started."""
        ended = list(run.state.ended)
        if more := len(ended[:-FIRST_LINES]):
            self.say(f"... and {more} earlier jobs")
        for key in ended[-FIRST_LINES:]:
            self._end(run, key)

    def now(self, run: Followed) -> None:
        """Print the current progress of a run."""
        self._console.print(bars(run.state, run.now, self._console))

    def take(self, run: Followed, said: Mapping[str, Any]) -> None:
        """Print a change of a run: a job that has ended, or a note about a job."""
        if said["event"] == "end" and not said.get("is_left_out"):
            self._end(run, said["key"])
        elif note := said.get("note"):
            self.say(f"{run.state.jobs[said['key']].name} {note}.")

    def _end(self, run: Followed, key: str) -> None:
        curve = "" if self._console.options.ascii_only else sparkline(run.state.ended[key].losses)
        self.say(f"{ending_line(run.state, key)}  {curve}".rstrip())

    def going_on(self, runs: list[Followed]) -> None:
        """Update the progress bars of all runs, or print a progress line if it is due."""
        if self._live is not None:
            parts = [bars(run.state, run.now, self._console) for run in runs]
            self._live.update(Group(*parts), refresh=True)
        elif time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            for run in runs:
                going = run.state.running.values()
                running = (f"{each.job.name}: {describe(each.progress)}" for each in going)
                self.say("; ".join([headline(run.state, run.now), *running]))

    def over(self, run: Followed) -> None:
        """Print how a run has ended, and how many of its jobs are done."""
        done, jobs = len(run.state.ended), len(run.state.jobs)
        failed = f", {run.state.failed} failed" if run.state.failed else ""
        jobs_done = f"{done} of {counted(jobs, 'job')} done{failed}{before(run.state)}"
        self.say(f"the run {_how(run)}: {jobs_done}.")

    def say(self, line: str) -> None:
        """Print a line above the live bars."""
        self._console.print(Text(visible(line)), soft_wrap=True)


class _JsonLines(nullcontext[None]):
    """Output for programs as JSON lines: first the state of each run, then a line per change."""

    def begin(self, run: Followed) -> None:
        """Write the state of a run: its ended and running jobs with their loss curves."""
        remaining = run.state.remaining(run.now)
        self._put(
            run,
            event="run",
            process=run.process,
            stored_before=run.stored,
            ended=[
                {
                    "key": each.job.key,
                    "name": each.job.name,
                    "text": each.text,
                    "is_failed": each.is_failed,
                    "is_left_out": each.is_left_out,
                    "losses": list(each.losses),
                }
                for each in run.state.ended.values()
            ],
            running=[
                {
                    "key": each.job.key,
                    "name": each.job.name,
                    "phase": each.progress.phase,
                    "step": each.progress.step,
                    "steps": each.progress.steps,
                    "share": round(each.share, 4),
                    "losses": each.losses,
                    "seconds_left": round(remaining(each.job), 1),
                }
                for each in run.state.running.values()
            ],
        )

    now = begin

    def take(self, run: Followed, said: Mapping[str, Any]) -> None:
        """Write a change of a run, with the counts of its jobs after the change."""
        if said["event"] in ("progress", "end"):
            job = run.state.jobs.get(said["key"])
            self._put(run, **said, name=job.name if job else "")

    def going_on(self, runs: list[Followed]) -> None:
        """Do nothing, because only changes are written."""

    def over(self, run: Followed) -> None:
        """Write that a run has ended, and whether it was interrupted or killed."""
        self._put(run, event="over", process=run.process, how=_how(run))

    def _put(self, run: Followed, **facts: Any) -> None:
        counts = {
            "done": len(run.state.ended),
            "failed": run.state.failed,
            "jobs": len(run.state.jobs),
            "seconds_left": round(run.state.seconds_left(run.now), 1),
        }
        typer.echo(json.dumps({**facts, **counts}))


def _how(run: Followed) -> str:
    if run.is_lost:
        return "was killed"
    return "was interrupted" if run.is_interrupted else "is over"


def _follow(
    folder: Path, runs: list[Followed], known: set[Path], shown: _Screen | _JsonLines
) -> None:
    """Show the changes of runs until they have ended.

    Runs that the same processes start soon afterwards are shown too.
    """
    processes, quiet = {run.process for run in runs}, 0.0
    new, going = list(runs), list[Followed]()
    with ExitStack() as stack, shown:
        while new or going or quiet < NEXT_SECONDS:
            for run in new:
                stack.enter_context(closing(run))
                shown.begin(run)
            going += new
            for run in going:
                for said in run.news():
                    shown.take(run, said)
                if run.is_over:
                    shown.over(run)
            going = [run for run in going if not run.is_over]
            if going:
                shown.going_on(going)
            elif not any(map(is_alive, processes)):
                return
            quiet = 0.0 if going else quiet + LOOK_SECONDS
            time.sleep(LOOK_SECONDS)
            new = [run for run in _opened(folder, known) if run.process in processes]
            runs += new
