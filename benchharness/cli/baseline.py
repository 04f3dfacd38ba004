"""`bench baseline`: what stored runs came to, as the file that `bench check` compares with."""

from pathlib import Path
from typing import Annotated, Any

import typer

from benchharness.cli.options import (
    AsJson,
    Database,
    DataFilter,
    Suites,
    Tasks,
    completed_by,
    with_plugins,
)
from benchharness.cli.output import print_json, print_table
from benchharness.driver.gate import BASELINE, DEFAULT_ALPHA, DEFAULT_SEEDS
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.regression import Baseline, Sample
from benchharness.leaderboard.regression.judge import detectable_drop
from benchharness.leaderboard.regression.verdict_text import seen_drop
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible, whole_file
from benchharness.stored.boards import Rows, find_rows
from benchharness.stored.samples import Samples, counted_tasks
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import distinct_title

Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="SYSTEM",
        help="The model with stored runs; MODEL:RECIPE where it has several rows on a board.",
        autocompletion=completed_by("stored_models"),
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="Only runs with at most N rows a split."),
]
Out = Annotated[str, typer.Option("--out", metavar="FILE", help="The baseline to write.")]

AllowWeak = Annotated[
    bool,
    typer.Option(
        "--allow-weak",
        help="Write tasks with collapsed runs or a single seed too; every check says that they are "
        "weak.",
    ),
]


@with_plugins
def baseline(  # noqa: PLR0913  (one parameter for each option)
    *,
    model: Model,
    suite: Suites = None,
    task: Tasks = None,
    limit: Limit = None,
    data: DataFilter = None,
    db: Database = DATABASE,
    out: Out = BASELINE,
    allow_weak: AllowWeak = False,
    as_json: AsJson = False,
) -> None:
    """Write the baseline of a model from its stored runs: scores, spreads, and what was right.

    Every seed that is stored counts; ten make a check about twice as sharp as three do.
    """
    with open_store(db, create=False) as store:
        found = find_rows(store, (model,), suite or (), task or (), data)
        # The rows of one board of each suite: of the limit, or the only ones there are.
        chosen = [rows for rows in found if limit is None or rows.board.limit == limit]
        suites = [rows.board.suite for rows in chosen]
        doubled = [rows.board.data_label for rows in chosen if suites.count(rows.board.suite) > 1]
        if doubled:
            raise BenchError(
                f"{model} has runs on {' and on '.join(doubled)}: say which with --limit or --data."
            )
        if not chosen or len({(rows.board.data, rows.board.limit) for rows in chosen}) > 1:
            there = " and on ".join(rows.board.data_label for rows in found)
            raise BenchError(
                f"one baseline is of one data set and limit, and {model} has runs on {there}: "
                f"expected some {'of one limit' if limit is None else f'with --limit {limit}'}; "
                "run those first."
            )
        made = _make(store, chosen, model)
    unfit = [
        f"{distinct_title(task)}: {sample.unfit}"
        for task, sample in made.tasks.items()
        if sample.unfit
    ]
    if unfit and not allow_weak:
        raise BenchError(
            f"no drop would be seen from this baseline ({'; '.join(unfit)}): run more seeds, name "
            "the other tasks with --task, or mark them with --allow-weak. Nothing was written."
        )
    _write(Path(out), made)
    _show(made, as_json=as_json)
    typer.echo(visible(f"baseline: {out}"), err=as_json)


def _make(store: Store, chosen: list[Rows], model: str) -> Baseline:
    samples = Samples(store)
    runs = {
        task: rows.entries[0].cells[task].runs
        for rows in chosen
        for task in counted_tasks(rows.tasks)
    }
    if not runs:
        raise BenchError(f"no task that was asked for counts for a score: {model} has no others.")
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
        tasks={task: s for task, found in runs.items() if (s := samples.of(task, found))},
    )


def _write(out: Path, made: Baseline) -> None:
    try:
        with whole_file(out) as file:
            file.write(made.to_text().encode())
    except OSError as error:
        raise BenchError(
            f"the baseline {out} could not be written: {error.strerror or error}. Give another "
            "--out."
        ) from error


def _show(made: Baseline, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "task": task,
            "mean": round(sample.mean * 100, 2),
            "spread": None if sample.spread is None else round(sample.spread * 100, 2),
            "seeds": len(sample.seeds),
            "examples": sample.examples,
            "would see": _seen(sample, len(made.tasks)),
            "collapsed": len(sample.collapsed),
        }
        for task, sample in made.tasks.items()
    ]
    if as_json:
        print_json({"model": made.model, "data": made.data, "limit": made.limit, "tasks": rows})
        return
    for row in rows:
        row["task"] = distinct_title(row["task"])
    print_table(rows, ("task", "mean", "spread", "seeds", "examples", "would see"), "nothing")
    tasks = f"{len(rows)} task{'s' * (len(rows) > 1)}"
    typer.echo(
        f"would see: the drop that 4 of 5 checks of {tasks} with {DEFAULT_SEEDS} seeds find."
    )
    for task, sample in made.tasks.items():
        if weakness := sample.weakness:
            title = distinct_title(task)
            typer.echo(f"{title} is marked as weak: {weakness}; {_sight(sample, len(rows))}.")


MORE_SEEDS = (3, 5, 10)
"""What a baseline of few seeds is told of; more than ten bring little (docs/regression.md)."""


def _sight(sample: Sample, tasks: int) -> str:
    """What checks see by this sample, and what they would see by one of more seeds."""
    seen = _seen(sample, tasks)
    drop = "no drop would be seen" if seen == "none" else f"only drops of {seen} would be seen"
    more = {count: _seen(sample, tasks, count) for count in MORE_SEEDS if count > len(sample.seeds)}
    found = [f"{seen} with {count} seeds" for count, seen in more.items() if seen != "none"]
    told = f", but one of {', '.join(found)}" if found else ""
    return f"{drop}{told} (`bench run --seeds 10`)"


def _seen(sample: Sample, tasks: int, seeds: int | None = None) -> str:
    """The drop that is detected, by Holm's share of alpha for one of several tasks."""
    runs = sample.learned
    if runs is None or len(runs.seeds) < 2:
        return "none"
    share = DEFAULT_ALPHA / tasks
    drop = detectable_drop(runs.scores, DEFAULT_SEEDS, 1 / runs.examples, share, seeds)
    return seen_drop(drop, runs)
