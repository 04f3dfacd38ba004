"""`bench diff`: what two things of a kind do not have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchharness.cli.options import AsJson
from benchharness.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from benchharness.recipes.compare import Difference

__all__ = ["diff_app"]

diff_app = typer.Typer(no_args_is_help=True, help="Show where two recipes differ.")

First = Annotated[str, typer.Argument(metavar="A", help="A model, or the name of a recipe.")]
Second = Annotated[str, typer.Argument(metavar="B", help="Another model or recipe.")]
OneTask = Annotated[
    str | None, typer.Argument(metavar="[TASK]", help="Only on this task; every one otherwise.")
]


@diff_app.callback()
def _diff() -> None:
    pass


@diff_app.command()
def recipe(first: First, second: Second, task: OneTask = None, *, as_json: AsJson = False) -> None:
    """Where the values differ that two models are trained with, side by side."""
    from benchharness.cli.chosen_recipe import recipe_owner
    from benchharness.recipes.compare import compare_recipes
    from tasks.suites import TASKS, find_task

    trained = [found for found in TASKS.values() if not found.trained_on]
    tasks = [find_task(task)] if task else trained
    found = compare_recipes(recipe_owner(first), recipe_owner(second), tasks)
    if as_json:
        print_json([asdict(difference) for difference in found])
        return
    rows = [_row(difference, first, second, [task.name for task in tasks]) for difference in found]
    columns = ("setting", first, second, "tasks")
    print_table(rows, columns[: 3 if task else 4], "the two recipes have the same values.")


def _row(
    difference: "Difference", first: str, second: str, tasks: Sequence[str]
) -> Mapping[str, Any]:
    return {
        "setting": difference.setting,
        first: difference.first.value if difference.first else "the checkpoint's",
        second: difference.second.value if difference.second else "the checkpoint's",
        "tasks": _named(difference.tasks, tasks),
    }


def _named(chosen: Sequence[str], tasks: Sequence[str]) -> str:
    """The chosen tasks in the fewest names."""
    others = [task for task in tasks if task not in chosen]
    if not others:
        return "every task"
    if len(others) < len(chosen):
        return f"all but {', '.join(others)}"
    return ", ".join(chosen)
