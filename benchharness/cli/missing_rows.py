"""What a user should know of the rows before a run: some are left out, some are not there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from leaderboard.visible import visible

if TYPE_CHECKING:
    from benchharness.driver.request import Request
    from leaderboard.job import Job

__all__ = ["name_missing_rows"]


def name_missing_rows(request: "Request", jobs: "Sequence[Job]", *, test: bool) -> None:
    """Says which splits are shorter than their files, and which tests are not there."""
    _name_left_out(jobs)
    if test:
        _name_untested(request, jobs)


def _name_left_out(jobs: "Sequence[Job]") -> None:
    """Says which splits are shorter than their files."""
    from benchharness.driver.plan import left_out_rows

    if counts := left_out_rows(jobs):
        splits = ", ".join(f"{count} of {split}" for split, count in counts.items())
        typer.echo(visible(f"bench: rows left out as their benchmark does: {splits}."), err=True)


def _name_untested(request: "Request", jobs: "Sequence[Job]") -> None:
    """Says which tasks have no test rows here; their jobs run all the same."""
    predicted = {split for job in jobs for split in job.predicted_splits}
    without = [
        task.name
        for task in request.tasks
        if not any((task.name, split) in predicted for split in task.test_splits)
    ]
    if without:
        names = ", ".join(without)
        typer.echo(visible(f"bench: no test split in {jobs[0].data}: {names}."), err=True)
