"""How a `bench run` ends: the table, what failed, the report's path and the exit code."""

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from benchharness.cli.display import job_name
from benchharness.cli.leaderboard import show_boards
from benchharness.cli.report import is_made, make_report
from benchharness.driver.schedule import Outlook
from benchharness.engines.process import Outcome
from benchharness.stored.boards import gather_boards, left_out
from leaderboard.boards.board import Board
from leaderboard.result import Failure
from leaderboard.selection import boards_of
from leaderboard.store.store import Store
from leaderboard.top import TOP, top_of
from leaderboard.visible import visible
from tasks.errors import JobError, ModelError

__all__ = ["conclude", "import_ahead"]

LATER = (
    "benchharness.cli.standings",
    "leaderboard.report.write",
    "leaderboard.comparing.interval",
)
"""What the report imports on use, because other commands do without it: half a second."""


def import_ahead() -> None:
    """Imports what a conclusion needs, at a time when only other processes have work to do."""
    for module in LATER:
        import_module(module)


def conclude(
    outlook: Outlook, outcomes: Sequence[Outcome], store: Store, out: Path, *, as_json: bool
) -> int:
    """Shows what came out, writes the report of all that is stored, and gives the exit code.

    The exit code is 0, 4 where jobs failed only because their checkpoint could not be loaded, and
    1 otherwise, also where a job has come to nothing at all.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    finished = store.finished_keys(job.key for job in outlook.jobs)
    boards = gather_boards(store, _suites(outlook))
    if not as_json and finished:
        _show_boards(boards_of(finished, boards), finished)
    if outcomes or not is_made(store, out, boards):
        make_report(store, out, last=boards)
    if as_json:
        typer.echo(json.dumps(_summary(outlook, failures, finished, out), indent=2))
    else:
        typer.echo("\n".join(_closing_lines(outlook, failures, finished)))
        typer.echo(visible(f"report: {out}"))
    for line in _complaints(failures):
        typer.echo(visible(f"bench: {line}"), err=True)
    lost = not failures and len(finished) < len(outlook.jobs)
    return JobError.exit_code if lost else _exit_code(failures)


def _show_boards(whole: Sequence[Board], finished: set[str]) -> None:
    """The boards on which the jobs stand: the best, and what was asked for."""
    boards = [top_of(board, TOP, keep=finished) for board in whole]
    show_boards(boards)
    for line in left_out(whole, boards):
        typer.echo(visible(line))


def _suites(outlook: Outlook) -> tuple[str, ...]:
    return tuple(dict.fromkeys(job.task.partition("/")[0] for job in outlook.jobs))


def _closing_lines(
    outlook: Outlook, failures: Sequence[Failure], finished: set[str]
) -> Iterator[str]:
    jobs, before = len(outlook.jobs), len(outlook.jobs) - len(outlook.todo)
    parts = [f"{len(finished)} of {jobs} jobs are finished"]
    if before:
        parts.append(f"{before} of them before this run")
    if failures:
        parts.append(f"{len(failures)} failed")
    yield f"{', '.join(parts)}."
    if len(finished) < jobs:
        yield "The same command runs what is missing; `bench list runs` shows what failed."
    elif len({job.seed for job in outlook.jobs if job.kind == "model"}) == 1:
        yield "These are scores of one seed; --seeds 5 shows how much another seed moves them."


def _complaints(failures: Sequence[Failure]) -> Iterator[str]:
    """Every reason once, with the jobs it stopped; a model's reason stops all of its jobs."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.error, []).append(failure)
    for reason, stopped in by_reason.items():
        if all(failure.exit_code == ModelError.exit_code for failure in stopped):
            yield reason
        else:
            yield f"{', '.join(job_name(failure.job) for failure in stopped)}: {reason}"


def _exit_code(failures: Sequence[Failure]) -> int:
    if not failures:
        return 0
    only_models = all(failure.exit_code == ModelError.exit_code for failure in failures)
    return ModelError.exit_code if only_models else JobError.exit_code


def _summary(
    outlook: Outlook, failures: Sequence[Failure], finished: set[str], out: Path
) -> dict[str, Any]:
    stored_before = {job.key for job in outlook.jobs} - {job.key for job in outlook.todo}
    return {
        "exit_code": _exit_code(failures),
        "jobs": len(outlook.jobs),
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
        "missing": len(outlook.jobs) - len(finished),
        "report": str(out),
    }
