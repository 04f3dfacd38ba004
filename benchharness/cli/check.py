"""`bench check`: is a model worse than its baseline, beyond noise? For continuous integration."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import AsJson, with_plugins, with_run_options
from benchharness.cli.output import print_json, print_table, tell_notes
from benchharness.driver.display import displayed
from benchharness.driver.gate import BASELINE, read_baseline, run_gate
from benchharness.driver.options import OF_CHECK, WHAT, RunOptions
from benchharness.leaderboard.regression import Verdict
from benchharness.leaderboard.regression.verdict_text import (
    COLUMNS,
    annotations,
    change_line,
    explanations,
    facts_of,
    flip_lines,
    row_of,
    to_junit,
    to_markdown,
)
from benchharness.leaderboard.text import check_place, visible
from benchharness.tasks.errors import BenchError

BaselineFile = Annotated[
    str,
    typer.Option(
        "--baseline", metavar="FILE", help="What `bench baseline` wrote.", rich_help_panel=WHAT
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="The false-alarm rate.")]
Junit = Annotated[
    str | None, typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML.")
]
AllowChange = Annotated[
    bool,
    typer.Option(
        "--allow-change",
        help="Do not fail where training computes something else and no score is worse.",
    ),
]
MarkdownFile = Annotated[
    str | None, typer.Option("--markdown", metavar="FILE", help="Write the verdict as Markdown.")
]


@with_plugins
@with_run_options(OF_CHECK)
def check(  # noqa: PLR0913  (its own options, one by one)
    options: RunOptions,
    *,
    baseline: BaselineFile = BASELINE,
    alpha: Alpha = 0.05,
    allow_change: AllowChange = False,
    junit: Junit = None,
    markdown: MarkdownFile = None,
    as_json: AsJson = False,
) -> None:
    """Run a small fixed part of a suite and fail where a task is worse than the baseline.

    Exit code 3 is a regression beyond noise or a change of what training computes, 4 a task that
    could not be compared.
    """
    for file in filter(None, (junit, markdown)):
        _check_place(Path(file))
    compared = read_baseline(Path(baseline))
    watch = partial(displayed, kept="kept")
    verdict = run_gate(options, compared, watch, alpha=alpha, may_change=allow_change)
    _show(verdict, as_json=as_json)
    if junit:
        _put(Path(junit), to_junit(verdict), "w")
    if markdown:
        _put(Path(markdown), to_markdown(verdict), "w")
    _tell_github(verdict)
    raise typer.Exit(verdict.exit_code)


def _show(verdict: Verdict, *, as_json: bool) -> None:
    if as_json:
        print_json(facts_of(verdict))
        return
    rows = [dict(zip(COLUMNS, row_of(task), strict=True)) for task in verdict.tasks]
    if rows:
        print_table(rows, COLUMNS, "")
        typer.echo("\n".join(explanations(verdict)))
    for task in verdict.worse:
        heading, *lines = (visible(line) for line in flip_lines(task))
        typer.echo("\n  ".join([heading, *lines]))
    for line in filter(None, map(change_line, verdict.tasks)):
        typer.echo(visible(line))
    tell_notes(map(str, (*verdict.unjudged, *verdict.notes)))
    typer.echo(visible(f"{verdict.title}: {verdict.sentence}"))


def _tell_github(verdict: Verdict) -> None:
    """Annotations and the step summary, inside GitHub Actions; stdout stays the verdict's."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations(verdict):
            typer.echo(line, err=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _put(Path(summary), to_markdown(verdict), "a")


def _check_place(path: Path) -> None:
    """Finds out before anything is trained that the verdict could not be written."""
    try:
        if path.exists() and not path.is_dir():
            with path.open("a", encoding="utf-8"):
                return
        check_place(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _put(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> BenchError:
    reason = error.strerror or error
    return BenchError(f"the verdict could not be written to {path}: {reason}. Give another file.")
