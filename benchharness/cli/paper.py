"""`bench paper`: the tables of an encoder paper, from the runs to the LaTeX."""

from collections import Counter
from pathlib import Path

import typer
from rich.console import Console

from benchharness.cli.options import AsJson, with_options
from benchharness.cli.output import complaints, exit_code, print_json, print_table, tell_notes
from benchharness.driver.display import displayed
from benchharness.driver.options import OF_PAPER, OPTIONS, WHAT, RunOptions, option
from benchharness.driver.paper import PaperRun, paper_options
from benchharness.driver.schedule import Schedule
from benchharness.driver.session import Session
from benchharness.leaderboard.text import visible
from benchharness.progress import job_names
from benchharness.tasks.suites import SUITES


@with_options(but=OPTIONS.keys() - OF_PAPER)
def paper(
    options: RunOptions,
    *,
    against: list[str] = option(
        ...,
        "The encoders and baselines that it stands against; repeatable.",
        metavar="NAME,NAME,...",
        proposes="models",
        head=WHAT,
    ),
    hours: float | None = option(
        None,
        "Run as many seeds of everything as are expected to fit, and start nothing later.",
        metavar="N",
        head=WHAT,
    ),
    to: Path = option(Path("paper"), "The folder to write.", metavar="DIR"),
    as_json: AsJson = False,
) -> None:
    """Run an encoder and others on the suites of a paper, and write its tables as LaTeX.

    The suites are those of the collection `paper`, unless --suite names others. What is stored is
    not run again, so the same command resumes where it stopped.
    """
    session = Session.of(paper_options(options, against, to), displayed)
    with session.prepared():
        with Console(stderr=True).status("reading the data and the checkpoints"):
            found = PaperRun.of(session, against, hours)
            schedule = found.schedule
        tell_notes(f"{task} is left out: {why}." for task, why in found.whole.left_out.items())
        tell_notes(found.whole.notes)
        _announce(schedule, found, as_json=as_json)
        if options.dry_run:
            return
        failures, notes = found.run(to)
    tell_notes(notes)
    tell_notes(complaints(failures, job_names(found.whole.jobs)))
    if as_json:
        print_json({"exit_code": exit_code(failures), "folder": str(to), "failed": len(failures)})
    else:
        typer.echo(visible(f"paper: {to}, LaTeX in main.tex, what to cite in README.md"))
    raise typer.Exit(exit_code(failures))


def _announce(schedule: Schedule, found: PaperRun, *, as_json: bool) -> None:
    """How much there is to run, by suite, in hours of a job's device."""
    dry_run = found.session.options.dry_run
    if as_json:
        if dry_run:
            print_json({"dry_run": True, "jobs": schedule.to_json()})
        return
    typer.echo(visible(schedule.sentence()))
    if later := len(found.whole.jobs) - len(found.part.jobs):
        typer.echo(f"{later} more jobs, of other seeds, do not fit --hours {found.hours:g}.")
    jobs, todo, hours = (Counter[str]() for _ in range(3))
    for job in schedule.jobs:
        suite = SUITES[job.task.partition("/")[0]].title
        jobs[suite] += 1
        todo[suite] += job.key in schedule.estimates
        hours[suite] += schedule.weights.get(job.key, 0.0) / 3600
    if dry_run:
        rows = [
            {"suite": s, "jobs": str(n), "to run": str(todo[s]), "device-hours": f"{hours[s]:.2f}"}
            for s, n in jobs.items()
        ]
        print_table(rows, list(rows[0]), "nothing to run.")
