"""`bench check` tests a model for regressions; `bench check --write` writes its baseline."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import AsJson, with_options
from benchharness.cli.output import print_json, print_table, tell_notes, writing
from benchharness.driver.display import displayed
from benchharness.driver.options import OF_CHECK, OPTIONS, WHAT, RunOptions, option
from benchharness.errors import BenchError
from benchharness.extensions.gate.gate import (
    BASELINE,
    DEFAULT_ALPHA,
    DEFAULT_SEEDS,
    Samples,
    counted_tasks,
    read_baseline,
    run_gate,
)
from benchharness.extensions.gate.guards import COLUMNS as GUARDS
from benchharness.extensions.gate.guards import Guard, below_minimum
from benchharness.extensions.gate.judge import Verdict, detectable_drop
from benchharness.extensions.gate.sample import Baseline, Sample
from benchharness.extensions.gate.verdict_text import (
    COLUMNS,
    annotations,
    change_line,
    explanations,
    facts_of,
    flip_lines,
    row_of,
    seen_drop,
    to_junit,
    to_markdown,
)
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, visible, whole_file
from benchharness.stored import Rows, find_rows
from benchharness.tasks.suites import distinct_title


@dataclass(frozen=True, kw_only=True)
class Written:
    """Options of `bench check` that write the verdict to files or print it as JSON."""

    junit: str | None = option(None, "Write the verdict as JUnit XML.", metavar="FILE")
    markdown: str | None = option(None, "Write the verdict as Markdown.", metavar="FILE")
    as_json: AsJson = False


@with_options(but=OPTIONS.keys() - OF_CHECK)
def check(
    options: RunOptions,
    *,
    baseline: str = option(
        BASELINE, "Baseline file to compare with, which --write created.", metavar="FILE", head=WHAT
    ),
    alpha: float = option(0.05, "Maximum probability of a false alarm."),
    allow_change: bool = option(
        False, "Do not fail if training has changed but no score is worse."
    ),
    written: Written,
) -> None:
    """Fine-tune a model on the baseline's tasks and fail if a score is significantly worse.

    Exits with 3 if a score is worse, training has changed or more runs collapse, and with 4 if a
    task could not be compared.
    """
    for file in filter(None, (written.junit, written.markdown)):
        _check_place(Path(file))
    compared = read_baseline(Path(baseline))
    watch = partial(displayed, kept="kept")
    verdict = run_gate(options, compared, watch, alpha=alpha, may_change=allow_change)
    _show(verdict, as_json=written.as_json)
    places = filter(None, (options.data, options.data_file))
    verdict = verdict.without_paths(str(Path(place).resolve()) for place in places)
    if written.junit:
        _put(Path(written.junit), to_junit(verdict), "w")
    if written.markdown:
        _put(Path(written.markdown), to_markdown(verdict), "w")
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
    if verdict.guards:
        found = [dict(zip(GUARDS, each.cells, strict=True)) for each in verdict.guards]
        print_table(found, GUARDS, "")
    for task in verdict.worse:
        heading, *lines = (visible(line) for line in flip_lines(task))
        typer.echo("\n  ".join([heading, *lines]))
    for line in filter(None, map(change_line, verdict.tasks)):
        typer.echo(visible(line))
    tell_notes(map(str, (*verdict.unjudged, *verdict.notes)))
    typer.echo(visible(f"{verdict.title}: {verdict.sentence}"))


def _tell_github(verdict: Verdict) -> None:
    """In GitHub Actions, print annotations to stderr and write the step summary."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations(verdict):
            typer.echo(line, err=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        # Append the text: other commands of the same step may have written to the file.
        _put(Path(summary), to_markdown(verdict), "a")


def _check_place(path: Path) -> None:
    """Raise BenchError, before anything is trained, if the verdict's file cannot be written."""
    try:
        if path.exists() and not path.is_dir():
            # Open the file to append, so that its content stays.
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
    return BenchError(f"the verdict could not be written to {path}: {reason}. Choose another file.")


# `bench check --write`: write the scores of stored runs to a file, the baseline of `bench check`.


@with_options()
def write_baseline(  # noqa: PLR0913  (its options)
    *,
    model: str = option(
        ...,
        "Model with stored runs; use MODEL:RECIPE if it was run with several recipes.",
        metavar="SYSTEM",
        proposes="stored_models",
    ),
    limit: int | None = option(
        None, "Use only runs that were made with --limit N.", least=1, metavar="N"
    ),
    out: str = option(BASELINE, "Baseline file to write.", metavar="FILE"),
    guard: list[str] = option(
        [],
        "In addition to the score, guard calibration, coverage=0.95, worst-group=GROUPS or "
        "recall=LABEL; with a minimum, as in 'recall=LABEL>=0.8' (repeatable).",
        metavar="GUARD",
    ),
    allow_weak: bool = option(
        False,
        "Include tasks with a single seed or with runs that learned nothing; "
        "`bench check` warns about them.",
    ),
    chosen: Chosen,
) -> None:
    """Write the baseline of a model from its stored runs: scores, spreads and correct examples.

    All stored seeds are used. Checks against ten seeds are about twice as sensitive as against
    three.
    """
    for each in guard:
        Guard.parse(each)
    with chosen.open() as store:
        found = find_rows(store, (model,), chosen.within)
        fit = _fitting(found, model, limit)
        made = _make(store, fit, model, guard)
    _check_fit(made, allow_weak=allow_weak)
    with (
        writing(f"the baseline {out}", "Choose another file with --out."),
        whole_file(Path(out)) as file,
    ):
        file.write(made.to_text().encode())
    _show_baseline(made, as_json=chosen.as_json)
    typer.echo(visible(f"baseline: {out}"), err=chosen.as_json)


def _fitting(found: list[Rows], model: str, limit: int | None) -> list[Rows]:
    """Return the rows of the leaderboards with this limit; raise BenchError if they differ."""
    # Each suite must have one leaderboard: the one with this limit, or the only one.
    fit = [rows for rows in found if limit is None or rows.board.limit == limit]
    suites = [rows.board.suite for rows in fit]
    doubled = [rows.board.data_label for rows in fit if suites.count(rows.board.suite) > 1]
    if doubled:
        raise BenchError(
            f"{model} has runs on {' and on '.join(doubled)}. Choose one with --limit or --data."
        )
    if not fit or len({(rows.board.data, rows.board.limit) for rows in fit}) > 1:
        there = " and on ".join(rows.board.data_label for rows in found)
        raise BenchError(
            "all runs of a baseline must have the same --data and --limit, but "
            f"{model} has runs on {there}. Run all tasks with "
            f"{'the same limit' if limit is None else f'--limit {limit}'} first."
        )
    return fit


def _check_fit(made: Baseline, *, allow_weak: bool) -> None:
    """Raise BenchError if some runs of a baseline are unfit for it, unless this is allowed."""
    unfit = [
        f"{distinct_title(task)}: {reason}"
        for task, sample in made.tasks.items()
        for reason in (sample.unfit, *below_minimum(sample.guards))
        if reason
    ]
    if unfit and not allow_weak:
        raise BenchError(
            "the baseline was not written, because some runs are unfit for it "
            f"({'; '.join(unfit)}). Run more seeds, select other tasks with --task, or accept "
            "these runs with --allow-weak."
        )


def _make(store: Store, chosen: list[Rows], model: str, guards: list[str]) -> Baseline:
    samples = Samples(store)
    runs = {
        task: rows.entries[0].cells[task].runs
        for rows in chosen
        for task in counted_tasks(rows.tasks)
    }
    if not runs:
        raise BenchError(
            f"{model} has no runs of requested tasks that count toward a suite's score."
        )
    first = samples.result(next(iter(runs.values()))[0])
    return Baseline(
        model=first.job.model,
        data=first.job.data if first.job.data in ("mini", "hub") else "files",
        limit=chosen[0].board.limit,
        recipe=first.job.recipe_label,
        environment={
            name: first.provenance[name]
            for name in ("code", "versions", "machine")
            if name in first.provenance
        },
        tasks={task: s for task, found in runs.items() if (s := samples.of(task, found, guards))},
    )


def _show_baseline(made: Baseline, *, as_json: bool) -> None:
    # Holm's correction covers the guards too, except for those with a minimum.
    guards = [Guard.parse(name) for sample in made.tasks.values() for name in sample.guards]
    tests = len(made.tasks) + sum(guard.minimum is None for guard in guards)
    rows: list[dict[str, Any]] = [
        {
            "task": task,
            "mean": round(sample.mean * 100, 2),
            "spread": None if sample.spread is None else round(sample.spread * 100, 2),
            "seeds": len(sample.seeds),
            "examples": sample.examples,
            "would see": _seen(sample, tests),
            "collapsed": len(sample.collapsed),
        }
        for task, sample in made.tasks.items()
    ]
    if as_json:
        print_json({"model": made.model, "data": made.data, "limit": made.limit, "tasks": rows})
        return
    for row in rows:
        row["task"] = distinct_title(row["task"])
        row["detectable drop"] = row["would see"]
    print_table(rows, ("task", "mean", "spread", "seeds", "examples", "detectable drop"), "nothing")
    tasks = f"{len(rows)} task{'s' * (len(rows) > 1)}"
    typer.echo(
        f"detectable drop: the true drop that 4 of 5 checks detect (in checks of {tasks} with "
        f"{DEFAULT_SEEDS} seeds)."
    )
    for task, sample in made.tasks.items():
        if weakness := sample.weakness:
            title = distinct_title(task)
            typer.echo(f"{title} is marked as weak: {weakness}. {_sight(sample, tests)}.")


MORE_SEEDS = (3, 5, 10)
"""Numbers of seeds that are proposed for a weak baseline. More than ten seeds help little
(docs/regression.md).
"""


def _sight(sample: Sample, tasks: int) -> str:
    """Return a sentence about the drops that checks detect with this sample and with more seeds."""
    seen = _seen(sample, tasks)
    drop = "Checks cannot detect any drop"
    if seen != "none":
        drop = f"Checks can only detect drops of {seen} or more"
    more = {count: _seen(sample, tasks, count) for count in MORE_SEEDS if count > len(sample.seeds)}
    found = [f"{seen} with {count} seeds" for count, seen in more.items() if seen != "none"]
    better = f", but could detect drops of {', '.join(found)}" if found else ""
    return f"{drop}{better} (run more seeds with `bench run --seeds 10`)"


def _seen(sample: Sample, tasks: int, seeds: int | None = None) -> str:
    """Return the smallest drop that a check of `tasks` tasks detects, as text, or "none".

    With several tasks, each is tested at `alpha` divided by the number of tasks, as in Holm's
    correction for the smallest p-value.
    """
    runs = sample.learned
    if runs is None or len(runs.seeds) < 2:
        return "none"
    share = DEFAULT_ALPHA / tasks
    drop = detectable_drop(runs.scores, DEFAULT_SEEDS, 1 / runs.examples, share, seeds)
    return seen_drop(drop, runs)
