"""The command `bench run`.

It fine-tunes models, scores them, stores the results and shows the leaderboard.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from benchharness.cli.leaderboard import show_boards
from benchharness.cli.options import AsJson, Out, in_this_database, page_beside, with_options
from benchharness.cli.output import complaints, exit_code, tell_notes
from benchharness.driver.advice import advice_on
from benchharness.driver.display import displayed
from benchharness.driver.drive import Driven, Watch
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.request import Request
from benchharness.driver.schedule import Schedule
from benchharness.driver.session import Session
from benchharness.driver.start_checkpoints import compared
from benchharness.errors import BenchError, JobError
from benchharness.leaderboard.boards.board import TOP, Board, boards_of, top_of, unranked
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result, reading_words, truncated_words
from benchharness.leaderboard.sharing import path_label
from benchharness.leaderboard.store.database import check_writable, is_there
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import are, check_place, counted, visible
from benchharness.plugins import plugin_files
from benchharness.progress import Watcher
from benchharness.stored import (
    LARGE_STORE,
    Within,
    gained,
    gather_boards,
    is_reported,
    left_out,
    own_page,
)
from benchharness.tasks.read import odd_sentences
from benchharness.tasks.suites import distinct_title


@with_options()
def run(options: RunOptions, *, out: Out = None, as_json: AsJson = False) -> None:
    """Fine-tune models on tasks, store their scores and show the leaderboard.

    Finished jobs are skipped, so the same command resumes where it stopped.
    """
    db, page = options.db, page_beside(options.db, out)
    session = Session.of(options, _watching(db, page, as_json=as_json))
    for note in session.request.notes:
        typer.echo(visible(note), err=as_json)
    if not options.dry_run and not is_there(db):  # without a database, all jobs will run
        _check_places(db, page)
    with session.prepared():
        planned = _plan(session)
        halving = session.halving(planned)
        if options.dry_run:
            show_schedule(session.preview(planned), _left_out(planned), as_json=as_json)
        elif halving is not None:
            tell_notes(session.preview(planned).notes)
        if halving is not None and not (options.dry_run and as_json):
            typer.echo(f"{halving.sentence()}.", err=as_json)
        if options.dry_run:
            return
        with session.run(planned) as driven:
            place, kept = (page, "") if out else own_page(driven.store, page)
            tell_notes([kept] if kept else [])
            code = _conclude(
                driven, place, session.options, left_out=_left_out(planned), as_json=as_json
            )
    raise typer.Exit(code)


def _plan(session: Session) -> Plan:
    """Return the plan of a session, and print messages about missing data and unused settings."""
    with Console(stderr=True).status("reading the data and the checkpoints"):
        planned = session.plan()
    _name_missing_rows(session.request, planned)
    tell_notes(planned.notes)
    return planned


def _left_out(planned: Plan) -> dict[str, dict[str, str]]:
    """Return {"left_out": reasons by task} for JSON output, or {} if no task was left out."""
    return {"left_out": dict(planned.left_out)} if planned.left_out else {}


def show_schedule(
    schedule: Schedule, left_out: Mapping[str, Mapping[str, str]], *, as_json: bool
) -> None:
    """Print the jobs that would run.

    For successive halving, all jobs of the grid are printed, although only some of them would run.

    Args:
        schedule: The schedule of the jobs.
        left_out: {"left_out": {task: reason}} if tasks are skipped; this is added to the JSON data.
        as_json: Whether to print JSON instead of text.
    """
    tell_notes(schedule.notes)
    if as_json:
        facts = {"dry_run": True, "jobs": schedule.to_json(), **left_out}
        typer.echo(json.dumps(facts, indent=2))
        return
    _announce(schedule, as_json=False)
    for line in schedule.lines():
        typer.echo(visible(line))


def _check_places(db: str, out: Path) -> None:
    """Raise BenchError if the database or the report cannot be written.

    This is called before any training starts.
    """
    check_writable(db)
    try:
        check_place(out)
    except OSError as error:
        raise BenchError(
            f"the report {out} cannot be written: {error.strerror or error}. Use another --out. "
            "No job was started."
        ) from error


def _name_missing_rows(request: Request, planned: Plan) -> None:
    """Print messages about data that are missing, excluded or irregular.

    The messages are about tasks and test splits without files, about examples that a rule of the
    benchmark excludes, and about known irregularities of the data.
    """
    tell_notes(f"{task} is left out: {reason}." for task, reason in planned.left_out.items())
    if counts := planned.left_out_rows():
        splits = ", ".join(f"{count} of {split}" for split, count in counts.items())
        tell_notes([f"examples that the benchmark leaves out: {splits}."])
    tell_notes(odd_sentences(planned.odd_rows()))
    if "test" in request.splits:
        _name_untested(request, planned.jobs)


def _name_untested(request: Request, jobs: Sequence[Job]) -> None:
    """Print which tasks have no test split. Their jobs run without one."""
    predicted = {split for job in jobs for split in job.predicted_splits}
    without = [
        distinct_title(task.name)
        for task in request.tasks
        if not any((task.name, split) in predicted for split in task.test_splits)
    ]
    if without:
        names = ", ".join(without)
        tell_notes([f"these tasks have no test split in {jobs[0].data}: {names}."])


def _announce(schedule: Schedule, *, as_json: bool) -> None:
    """Print how many jobs will run and what they start from, before any job starts."""
    said = (*schedule.start_sentences(), *schedule.model_sentences())
    for line in (schedule.sentence(), *said):
        typer.echo(visible(line), err=as_json)


def _watching(db: str, out: Path, *, as_json: bool) -> Watch:
    """Return a function that shows the progress of a run, for use as `Session.watch`."""

    @contextmanager
    def watch(schedule: Schedule, store: Store) -> Iterator[Watcher]:
        if schedule.todo:
            _check_places(db, out)
        _announce(schedule, as_json=as_json)
        if schedule.todo:
            _report()
        with displayed(schedule, store) as display:
            yield display

    return watch


def _report() -> Any:
    """Import and return the module that writes the report.

    The import takes long, because of numpy and the plots. It is therefore called once before the
    report is needed.
    """
    return import_module("benchharness.stored.report")


def _conclude(
    driven: Driven,
    out: Path,
    options: RunOptions,
    *,
    left_out: Mapping[str, Mapping[str, str]],
    as_json: bool,
) -> int:
    """Show the results, write the report, give advice, and return the exit code.

    If the database is large, only runs of the models of this run are read, and no report is
    written. The exit code is 0 if all jobs finished, 4 if a model that cannot be used caused every
    failure, and otherwise 1, for example if a job has no outcome at all.
    """
    schedule, store, outcomes, db = driven.schedule, driven.store, driven.outcomes, options.db
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    finished = store.finished_keys(job.key for job in schedule.jobs)
    is_large = store.count() > LARGE_STORE
    models = None
    if is_large:
        models = {row.model for row in store.runs_with(job.key for job in schedule.jobs)}
    boards = gather_boards(store, Within(suites=_suites_of(schedule)), models)
    if is_large:  # runs of other models were not read, so the ranks are unknown
        boards = list(map(unranked, boards))
    boards = gained(boards, store)
    if not as_json and finished:
        places = {path_label(job.data): job.data for job in schedule.jobs}
        _show_boards(boards_of(finished, boards), finished, places)
    rows = store.runs_with(finished)
    tell_notes([*truncated_words(rows), *reading_words(rows)])
    if not is_large and (outcomes or not is_reported(store, out, boards)):
        report = _report()
        report.make_report(store, out, report.Wanted(last=boards))
    advice = advice_on(options, store, finished)
    if as_json:
        summary = _summary(schedule, failures, finished, None if is_large else out)
        said = {"advice": [{"sentence": a.sentence, "command": a.command} for a in advice]}
        typer.echo(json.dumps({**summary, **said, **left_out}, indent=2))
    else:
        typer.echo("\n".join(_closing_lines(schedule, failures, finished, db)))
        for tasks in left_out.values():
            typer.echo(
                visible(f"tasks that were left out, because files are missing: {', '.join(tasks)}")
            )
        typer.echo(visible(_where_to_look(schedule, out, db, is_large=is_large)))
        for each in advice:
            typer.echo(f"{visible(each.sentence)}\n    {visible(each.command)}")
    tell_notes(
        f"{schedule.names[found.job.key]}: {compared(stored, found)}"
        for found in driven.again
        if isinstance(stored := store.result(found.job.key), Result)
    )
    tell_notes(complaints(failures, schedule.names))
    lost = not failures and len(finished) < len(schedule.jobs)
    return JobError.exit_code if lost else exit_code(failures)


def _show_boards(whole: Sequence[Board], finished: set[str], places: Mapping[str, str]) -> None:
    """Print the leaderboards, reduced to their best entries and the entries of this run.

    `places` maps shortened paths of data to complete ones.
    """
    boards = [top_of(board, TOP, keep=finished) for board in whole]
    # The report has shortened paths, but the terminal shows those of this run, as `bench
    # leaderboard` does.
    show_boards(
        [
            replace(board, data=tuple(places.get(each, each) for each in board.data))
            for board in boards
        ]
    )
    for line in left_out(whole, boards):
        typer.echo(visible(line))


def _closing_lines(
    schedule: Schedule, failures: Sequence[Failure], finished: set[str], db: str
) -> Iterator[str]:
    jobs, before = len(schedule.jobs), len(schedule.jobs) - len(schedule.todo)
    parts = [f"{len(finished)} of {counted(jobs, 'job')} {are(jobs)} finished"]
    if before:
        parts.append(f"{before} of them before this run")
    if failures:
        parts.append(f"{len(failures)} failed")
    yield f"{', '.join(parts)}."
    if len(finished) < jobs:
        runs = shlex.join(["bench", "show", "runs", *in_this_database(db)])
        yield f"The same command runs the missing jobs; `{runs}` shows the failures."
    elif len({j.seed for j in schedule.jobs if j.kind == "model" and not j.is_zero_shot}) == 1:
        yield "These are scores of one seed; --seeds 5 shows how much they vary between seeds."


def _where_to_look(schedule: Schedule, out: Path, db: str, *, is_large: bool) -> str:
    """Return a line with the report's path and the commands that show the results.

    If the database is large, the report was not written, and the line contains the command that
    writes the report.
    """
    words = [word for suite in _suites_of(schedule) for word in ("--suite", suite)]
    there = in_this_database(db)
    files = plugin_files(task for job in schedule.jobs for task in job.trained_tasks)
    plugins = [word for file in files for word in ("--plugin", file)]
    table = shlex.join(["bench", "leaderboard", *words, *there, *plugins])
    one = shlex.join(["bench", "show", schedule.jobs[0].key[:12], *there])
    if is_large:
        report = shlex.join(["bench", "report", *there, "--out", str(out), *plugins])
        return f"`{table}` prints ranks, `{report}` writes the report, and `{one}` shows one run."
    return f"report: {out}. `{table}` prints the leaderboard, and `{one}` shows one run."


def _suites_of(schedule: Schedule) -> tuple[str, ...]:
    """Return the suites of the tasks that the jobs are trained on."""
    tasks = (task for job in schedule.jobs for task in job.trained_tasks)
    return tuple(dict.fromkeys(task.partition("/")[0] for task in tasks))


def _summary(
    schedule: Schedule, failures: Sequence[Failure], finished: set[str], out: Path | None
) -> dict[str, Any]:
    stored_before = {job.key for job in schedule.jobs} - {job.key for job in schedule.todo}
    return {
        "exit_code": exit_code(failures),
        "jobs": len(schedule.jobs),
        "stored_before": len(stored_before),
        "finished": len(finished - stored_before),
        "failed": [
            {
                "key": failure.job.key,
                "model": failure.job.model,
                "task": failure.job.task,
                "seed": failure.job.seed,
                "status": failure.kind,
                "error": failure.error,
            }
            for failure in failures
        ],
        "missing": len(schedule.jobs) - len(finished),
        "report": None if out is None else str(out),
    }
