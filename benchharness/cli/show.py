"""`bench show`: everything that is known about a run, a model, a task, a suite or a recipe."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchharness.cli.options import DATABASE, AsJson, Database, Suites, with_plugins
from benchharness.cli.output import print_json, print_outline, print_table

if TYPE_CHECKING:
    from benchharness.models import ModelSpec
    from benchharness.recipes.resolve import Difference

__all__ = ["diff_app", "list_app", "show"]

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="The beginning of a run's key, a model, a task, a suite, or: recipe MODEL TASK.",
    ),
]

RUN_KEY = re.compile(r"[0-9a-f]{4,64}")
"""What is taken for the beginning of a key; three digits could be a word such as "bad"."""


@with_plugins
def show(names: Names, *, db: Database = DATABASE, as_json: AsJson = False) -> None:
    """Show a stored run with its scores, recipe, cost and origin; or a model, task or suite.

    `bench show recipe roberta cola` shows the values that a model is trained with on a task.
    """
    is_recipe = names[0] == "recipe"
    found = [_recipe(names[1:])] if is_recipe else [_find(name, db) for name in names]
    if as_json:
        print_json(found[0] if len(found) == 1 else found)
        return
    for number, facts in enumerate(found):
        if number:
            typer.echo()
        # A curve is for the report and for --json: forty lines of numbers hide the rest.
        print_outline({name: value for name, value in facts.items() if name != "curve"})


def _recipe(names: Sequence[str]) -> dict[str, Any]:
    from benchharness.cli.output import recipe_facts
    from benchharness.recipes import resolve_recipe
    from benchharness.recipes.resolve import with_start
    from tasks.errors import BenchError
    from tasks.suites import find_task

    if len(names) != 2:
        raise BenchError(
            f"`bench show recipe` takes a model and a task, found {len(names)} names: try "
            "`bench show recipe roberta cola`."
        )
    model, task = recipe_owner(names[0]), find_task(names[1])
    recipe = with_start(resolve_recipe(model, task.name, None, {}, task.head), model, task)
    return {"kind": "recipe", **recipe_facts(recipe, model.name, task.name)}


def _find(name: str, db: str) -> dict[str, Any]:
    """What a name stands for: a suite or a task first, then a run's key, then a model."""
    from benchharness.cli.output import collection_facts, suite_facts, task_facts
    from tasks.suites import COLLECTIONS, SUITES, TASKS, find_task

    wanted = name.lower()
    if wanted in SUITES:
        return {"kind": "suite", **suite_facts(SUITES[wanted])}
    if wanted in COLLECTIONS:
        return {"kind": "collection", **collection_facts(wanted)}
    if any(wanted in (full, full.partition("/")[2]) for full in TASKS):
        return {"kind": "task", **task_facts(find_task(name))}
    if RUN_KEY.fullmatch(wanted):
        return {"kind": "run", **_run(name, db)}
    return {"kind": "model", **_model(name, [*SUITES, *COLLECTIONS, *TASKS])}


def _model(name: str, others: Sequence[str]) -> dict[str, Any]:
    """A model; the error for a name that is nothing proposes `others` too."""
    from benchharness.cli.output import model_facts
    from benchharness.models import MODELS, find_model
    from tasks.errors import BenchError, ModelError, unknown_name

    try:
        return model_facts(find_model(name))
    except ModelError:
        raise
    except BenchError:
        known = [*others, *(n for spec in MODELS.values() for n in (spec.name, *spec.aliases))]
        hint = "`bench list suites`, `tasks`, `models` and `runs` show what there is."
        raise unknown_name("run, model, task or suite", name, known, hint) from None


def _run(name: str, db: str) -> dict[str, Any]:
    from benchharness.cli.output import outcome_facts
    from leaderboard.store.store import open_store

    with open_store(db, create=False) as store:
        return outcome_facts(store.result(name))


# `bench list`: suites, tasks, models, published results and stored runs.

list_app = typer.Typer(
    no_args_is_help=True, help="List suites, tasks, models, published results or stored runs."
)

Model = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="Only runs of this model.")
]
TaskName = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help="Only runs of this task.")
]


@list_app.command()
@with_plugins
def suites(*, as_json: AsJson = False) -> None:
    """The suites, with their tasks and score rules."""
    from benchharness.cli.output import collection_facts, suite_facts
    from tasks.suites import COLLECTIONS, SUITES

    rows = [suite_facts(suite) for suite in SUITES.values()]
    rows += [collection_facts(name) for name in COLLECTIONS]
    _show(rows, ("name", "title", "rule", "tasks"), as_json=as_json)


@list_app.command()
@with_plugins
def tasks(*, suite: Suites = None, as_json: AsJson = False) -> None:
    """The tasks, with what they predict and how they are scored."""
    from benchharness.cli.output import task_facts
    from tasks.suites import TASKS, find_suites

    chosen = [found for name in suite or () for found in find_suites(name)]
    wanted = {task for found in chosen for task in found.tasks} or set(TASKS)
    rows = [task_facts(task) for name, task in TASKS.items() if name in wanted]
    _show(rows, ("name", "head", "labels", "metrics", "splits", "trained_on"), as_json=as_json)


@list_app.command()
@with_plugins
def models(*, as_json: AsJson = False) -> None:
    """The known models, and of every published system what runs here. Sizes in millions.

    Any checkpoint folder or hub name runs unregistered.
    """
    from benchharness.cli.output import model_facts, system_facts
    from benchharness.models import MODELS
    from leaderboard.boards.systems import systems

    known = [model_facts(spec) for spec in MODELS.values()]
    published = [system_facts(system) for system in systems()]
    if as_json:
        print_json({"models": known, "systems": published})
        return
    columns = ("name", "aliases", "parameters", "backbone", "max_tokens", "checkpoint", "title")
    print_table(known, columns, "nothing to list.")
    told = [{**row, "as": row["model"] or row["reason"]} for row in published]
    print_table(told, ("system", "status", "as", "published_rows"), "nothing to list.")


@list_app.command()
def published(*, suite: Suites = None, as_json: AsJson = False) -> None:
    """The published results, with split, protocol and source; scores are in percent."""
    from benchharness.cli.output import published_facts
    from leaderboard.boards.published import published as rows_of
    from tasks.suites import SUITES, find_suites

    chosen = [found.name for name in suite or () for found in find_suites(name)]
    rows = [published_facts(row) for name in chosen or SUITES for row in rows_of(name)]
    _show(rows, ("system", "split", "protocol", "date", "scores", "source"), as_json=as_json)


@list_app.command()
def runs(
    *,
    model: Model = None,
    suite: Suites = None,
    task: TaskName = None,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """The stored runs, oldest first: one a job, its newest result or else its newest failure."""
    from benchharness.cli.output import run_facts
    from leaderboard.store.store import open_store
    from tasks.suites import find_suites, find_task

    suites = {chosen.name for name in suite or () for chosen in find_suites(name)}
    with open_store(db, create=False) as store:
        name = find_task(task).name if task else None
        found = store.runs(model=model, suite=suites or None, task=name)
    rows = [run_facts(row) for row in found]
    if as_json:
        print_json(rows)
        return
    columns = ("key", "model", "task", "data", "seed", "recipe", "status", "scores", "seconds")
    print_table([_short(row) for row in rows], columns, "no run is stored that fits.")


def _show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    else:
        print_table(rows, columns, "nothing to list.")


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for the eye: the key's beginning, and the scores of the run's own task."""
    return {
        **row,
        "key": row["key"][:12],
        "scores": row["scores"].get(row["task"], {}) or row["error"],
    }


# From a name to the model whose recipe is meant.


def recipe_owner(name: str) -> "ModelSpec":
    """The model of that name; for the name of a recipe alone, one that is trained by it.

    Raises as `find_model` does where the name is neither.
    """
    from benchharness.models import ModelSpec, find_model
    from benchharness.recipes.read import packaged_names
    from tasks.errors import BenchError, ModelError

    try:
        return find_model(name)
    except ModelError:
        raise
    except BenchError:
        if name in packaged_names():
            return ModelSpec(name=name, checkpoint=name, recipe=name)
        raise


# `bench diff`: what two things of a kind do not have in common.

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
    from benchharness.recipes.resolve import compare_recipes
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
