"""`bench paper`: run the experiments of an encoder paper and write its tables as LaTeX."""

from pathlib import Path

import typer
from rich.console import Console

from benchharness.cli.options import with_options
from benchharness.cli.output import complaints, exit_code, tell_notes
from benchharness.cli.run import show_schedule
from benchharness.driver.display import displayed
from benchharness.driver.options import OPTIONS, WHAT, RunOptions, option
from benchharness.driver.session import Session
from benchharness.extensions.paper.paper_run import OF_PAPER, PaperRun, paper_options
from benchharness.leaderboard.text import counted, visible
from benchharness.progress import job_names


@with_options(but=OPTIONS.keys() - OF_PAPER)
def paper(
    options: RunOptions,
    *,
    against: list[str] = option(
        ...,
        "Encoders and baselines to compare with; repeatable.",
        metavar="NAME,NAME,...",
        proposes="models",
        head=WHAT,
    ),
    hours: float | None = option(
        None,
        "Time limit in hours: run as many seeds of each job as are expected to fit, and start no "
        "job later.",
        metavar="N",
        head=WHAT,
    ),
    to: Path = option(Path("paper"), "Folder to write.", metavar="DIR"),
) -> None:
    """Run an encoder and other systems on the suites of a paper, and write its tables as LaTeX.

    Without --suite and --task, the suites of the collection `paper` are run. Finished jobs are
    skipped, so the same command resumes where it stopped.
    """
    session = Session.of(paper_options(options, against, to), displayed)
    with session.prepared():
        with Console(stderr=True).status("reading the data and the checkpoints"):
            found = PaperRun.of(session, against, hours)
            schedule = session.preview(found.part)
        tell_notes(f"{task} is left out: {why}." for task, why in found.whole.left_out.items())
        tell_notes(found.whole.notes)
        if later := len(found.whole.jobs) - len(found.part.jobs):
            more = f"{counted(later, 'job')} with more seeds"
            tell_notes([f"{more} {'does' if later == 1 else 'do'} not fit into --hours {hours:g}."])
        if options.dry_run:
            show_schedule(schedule, {}, as_json=False)
            return
        typer.echo(visible(schedule.sentence()))
        failures, notes = found.run(to)
    tell_notes(notes)
    tell_notes(complaints(failures, job_names(found.whole.jobs)))
    typer.echo(visible(f"written: {to} (LaTeX in main.tex, citations in README.md)"))
    raise typer.Exit(exit_code(failures))
