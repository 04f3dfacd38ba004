"""`bench plan`: how many seeds would tell two systems apart, or what a sweep costs."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchharness.cli.options import (
    DATABASE,
    AsJson,
    Database,
    DataFilter,
    Suites,
    Tasks,
    with_plugins,
)
from benchharness.cli.output import print_json, print_table
from benchharness.estimate import SweepCost, sweep_cost
from benchharness.progress import duration
from leaderboard.text import visible

if TYPE_CHECKING:
    from benchharness.stored.boards import Rows
    from leaderboard.comparing.power import Comparison

__all__ = ["plan"]

System = Annotated[
    str | None,
    typer.Argument(
        metavar="SYSTEM",
        help="A model with stored runs; MODEL:RECIPE where it has several rows on a board.",
    ),
]
Alpha = Annotated[
    float, typer.Option("--alpha", help="The chance to see a difference where there is none.")
]
Power = Annotated[
    float, typer.Option("--power", help="The chance to see a difference that is there.")
]

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Say what a sweep of this model costs, instead of comparing; repeatable.",
    ),
]
Seeds = Annotated[
    int, typer.Option("--seeds", min=1, metavar="N", help="Seeds of each task, with --model.")
]
PeakTflops = Annotated[
    float,
    typer.Option("--peak-tflops", min=0.1, help="What a GPU computes at most, with --model."),
]
Utilisation = Annotated[
    float,
    typer.Option(
        "--utilisation", min=0.001, max=1, help="The share of that which is reached, with --model."
    ),
]

COLUMNS = ("task", "one", "other", "difference", "p-value", "seeds now", "seeds of each")


@with_plugins
def plan(  # noqa: PLR0913  (one parameter for each option)
    one: System = None,
    other: System = None,
    *,
    model: Models = None,
    suite: Suites = None,
    task: Tasks = None,
    data: DataFilter = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    seeds: Seeds = 5,
    peak_tflops: PeakTflops = 312.0,
    utilisation: Utilisation = 0.3,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Say how many seeds would tell two systems apart, or what a sweep would cost.

    Two systems are told apart by the spread of their stored runs: the test is Welch's two-sided
    t-test of the means over seeds. With --model nothing is looked up but published sizes.
    """
    if model:
        show_costs(
            model,
            suite or (),
            task or (),
            seeds=seeds,
            peak_tflops=peak_tflops,
            utilisation=utilisation,
            as_json=as_json,
        )
        return
    if one is None or other is None:
        from tasks.errors import BenchError

        raise BenchError("name two systems to compare, or a --model whose sweep is to be reckoned.")
    from benchharness.stored.boards import find_rows
    from leaderboard.comparing.power import compare
    from leaderboard.store.store import open_store

    _check_chances(alpha=alpha, power=power)
    with open_store(db, create=False) as store:
        found = find_rows(store, (one, other), suite or (), task or (), data)
    compared = [(rows, compare(*rows, alpha=alpha, power=power)) for rows in found]
    if as_json:
        chances = {"alpha": alpha, "power": power}
        print_json([{**_board(rows), **chances, **_facts(each)} for rows, each in compared])
        return
    for rows, comparisons in compared:
        _show(rows, comparisons)
    typer.echo(
        f"seeds of each: what a two-sided Welch t-test at alpha {alpha:g} needs to find this "
        f"difference with power {power:g}, were the stored spreads the true ones."
    )


def _check_chances(**chances: float) -> None:
    from tasks.errors import BenchError

    for name, value in chances.items():
        if not 0 < value < 1:
            raise BenchError(f"--{name} {value:g} is no chance: give a number between 0 and 1.")


def _show(rows: "Rows", comparisons: "Sequence[Comparison]") -> None:
    names = " and ".join(entry.model for entry in rows.entries)
    typer.echo(visible(f"{rows.board.title} on {rows.board.data_label}: {names}"))
    lines = [dict(zip(COLUMNS, _cells(comparison), strict=True)) for comparison in comparisons]
    print_table(lines, COLUMNS, "no task has results of both.")


def _cells(comparison: "Comparison") -> tuple[str, ...]:
    one, other = comparison.values
    first, second = comparison.spreads or (None, None)
    p_value = comparison.p_value
    return (
        comparison.task.rpartition("/")[2],
        _mean(one, first),
        _mean(other, second),
        f"{comparison.difference * 100:+.2f}",
        "" if p_value is None else f"{p_value:.3f}",
        f"{len(one)} and {len(other)}",
        comparison.reason or str(comparison.needed),
    )


def _mean(values: Sequence[float], spread: float | None) -> str:
    mean = f"{fmean(values) * 100:.2f}"
    return mean if spread is None else f"{mean} ± {spread * 100:.2f}"


def _board(rows: "Rows") -> dict[str, Any]:
    from leaderboard.boards.board import full_label

    board, entries, _ = rows
    return {
        "suite": board.suite,
        "data": list(board.data),
        "limit": board.limit,
        "systems": [full_label(entry) for entry in entries],
    }


def _facts(comparisons: "Sequence[Comparison]") -> dict[str, Any]:
    return {
        "tasks": {
            comparison.task: {
                "values": [list(values) for values in comparison.values],
                "difference": comparison.difference,
                "spreads": list(comparison.spreads or ()),
                "p_value": comparison.p_value,
                "seeds_needed": comparison.needed,
                "reason": comparison.reason,
            }
            for comparison in comparisons
        }
    }


# What `bench plan --model` says: the jobs, GPU hours and storage of a sweep.

COST_COLUMNS = (
    "model",
    "jobs",
    "GPU hours",
    "longest job",
    "download",
    "encoders",
    "states",
    "database",
)


def show_costs(  # noqa: PLR0913  (the options of the command)
    models: Sequence[str],
    suites: Sequence[str],
    tasks: Sequence[str],
    *,
    seeds: int,
    peak_tflops: float,
    utilisation: float,
    as_json: bool,
) -> None:
    """Prints a line for each model; reads neither data nor weights."""
    from benchharness.models import find_model
    from tasks.suites import find_suites, select_tasks

    chosen = select_tasks([suite for name in suites for suite in find_suites(name)], tasks)
    costs = [
        sweep_cost(
            find_model(name), chosen, seeds, peak_tflops=peak_tflops, utilisation=utilisation
        )
        for name in models
    ]
    if as_json:
        print_json([asdict(cost) for cost in costs])
        return
    lines = [dict(zip(COST_COLUMNS, _cost_cells(cost), strict=True)) for cost in costs]
    print_table(lines, COST_COLUMNS, "no model was named.")
    typer.echo(
        f"on one GPU of {peak_tflops:g} TFLOP/s at {utilisation:.0%}, {seeds} seeds; 6 operations "
        "for each parameter and token trained on, 2 for each predicted."
    )
    if unknown := sorted({task for cost in costs for task in cost.unknown}):
        typer.echo(
            visible(f"not counted, because their sizes are not known: {', '.join(unknown)}.")
        )


def _cost_cells(cost: SweepCost) -> tuple[str, ...]:
    return (
        cost.model,
        str(cost.jobs),
        f"{cost.gpu_hours:.1f}",
        duration(3600 * cost.longest_hours),
        *(
            _size(number)
            for number in (
                cost.download_bytes,
                cost.encoder_bytes,
                cost.state_bytes,
                cost.database_bytes,
            )
        ),
    )


def _size(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.1f} MB"
