"""`bench plan`: how many seeds would tell two systems apart."""

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Any

import typer

from benchharness.cli.options import (
    DATABASE,
    AsJson,
    Database,
    DataFilter,
    Suites,
    Tasks,
    completed_by,
    with_plugins,
)
from benchharness.cli.output import print_json, print_table
from benchharness.leaderboard.boards.naming import full_label, heads
from benchharness.leaderboard.comparing.power import Comparison, compare
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.boards import Rows, find_rows
from benchharness.stored.uncertainty import known_cells
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import title_of

System = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        autocompletion=completed_by("stored_models"),
        help="A model with stored runs; MODEL:RECIPE where it has several rows on a board.",
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="The false-alarm rate.")]
Power = Annotated[
    float, typer.Option("--power", help="The chance of finding a difference that exists.")
]

COLUMNS = ("difference", "p-value", "seeds now", "seeds of each")


@with_plugins
def plan(  # noqa: PLR0913  (one parameter for each option)
    one: System,
    other: System,
    *,
    suite: Suites = None,
    task: Tasks = None,
    data: DataFilter = None,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Say how many seeds would tell two systems apart.

    By the spread of their stored runs and by their predictions: the test is that of bench compare,
    over examples and seeds.
    """
    _check_chances(alpha=alpha, power=power)
    with open_store(db, create=False) as store:
        found = find_rows(store, (one, other), suite or (), task or (), data)
        compared = [(rows, _compare(store, rows, alpha, power)) for rows in found]
    if as_json:
        chances = {"alpha": alpha, "power": power}
        print_json([{**_board(rows), **chances, **_facts(each)} for rows, each in compared])
        return
    for rows, comparisons in compared:
        names = " and ".join(entry.name for entry in rows.entries)
        typer.echo(visible(f"{rows.board.title} on {rows.board.data_label}: {names}"))
        columns = ("task", *map(visible, heads(rows.entries)), *COLUMNS)
        lines = [dict(zip(columns, _cells(comparison), strict=True)) for comparison in comparisons]
        print_table(lines, columns, "no task has results of both.", in_parts=True)
        for each in comparisons:
            if each.unread:
                typer.echo(visible(f"{title_of(each.task)}: over seeds alone, {each.unread}"))
    typer.echo(
        f"seeds of each: what the test of bench compare, over examples and seeds, needs at alpha "
        f"{alpha:g} to find this difference with power {power:g}, if the stored spreads are true."
    )


def _compare(store: Store, rows: Rows, alpha: float, power: float) -> list[Comparison]:
    known = {task: known_cells(rows.board, rows.entries, task, store) for task in rows.tasks}
    return compare(rows.board, rows.entries, known, alpha=alpha, power=power)


def _check_chances(**chances: float) -> None:
    for name, value in chances.items():
        if not 0 < value < 1:
            raise BenchError(f"--{name} must be between 0 and 1, got {value:g}.")


def _cells(comparison: Comparison) -> tuple[str, ...]:
    one, other = comparison.values
    first, second = comparison.spreads or (None, None)
    p_value = comparison.p_value
    return (
        title_of(comparison.task),
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


def _board(rows: Rows) -> dict[str, Any]:
    board, entries, _ = rows
    return {
        "suite": board.suite,
        "data": list(board.data),
        "limit": board.limit,
        "systems": [full_label(entry) for entry in entries],
    }


def _facts(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "tasks": {
            comparison.task: {
                "values": [list(values) for values in comparison.values],
                "difference": comparison.difference,
                "spreads": list(comparison.spreads or ()),
                "p_value": comparison.p_value,
                "seeds_needed": comparison.needed,
                "reason": comparison.reason,
                "unread": comparison.unread,
            }
            for comparison in comparisons
        }
    }
