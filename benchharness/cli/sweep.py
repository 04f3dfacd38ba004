"""What `bench plan --model` says: the jobs, GPU hours and storage of a sweep."""

from collections.abc import Sequence
from dataclasses import asdict

import typer

from benchharness.cli.display import duration
from benchharness.cli.printing import print_json, print_table
from benchharness.driver.estimate import SweepCost, sweep_cost
from leaderboard.visible import visible

__all__ = ["show_costs"]

COLUMNS = (
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
    from benchharness.driver.request import select_tasks
    from benchharness.models import find_model
    from tasks.suites import find_suites

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
    lines = [dict(zip(COLUMNS, _cells(cost), strict=True)) for cost in costs]
    print_table(lines, COLUMNS, "no model was named.")
    typer.echo(
        f"on one GPU of {peak_tflops:g} TFLOP/s at {utilisation:.0%}, {seeds} seeds; 6 operations "
        "for each parameter and token trained on, 2 for each predicted."
    )
    if unknown := sorted({task for cost in costs for task in cost.unknown}):
        typer.echo(
            visible(f"not counted, because their sizes are not known: {', '.join(unknown)}.")
        )


def _cells(cost: SweepCost) -> tuple[str, ...]:
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
