"""`bench show`: everything that is known about a run, a model, a task, a suite or a recipe."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from benchharness.cli.options import DATABASE, AsJson, Database
from benchharness.cli.printing import print_json, print_outline

__all__ = ["show"]

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="The beginning of a run's key, a model, a task, a suite, or: recipe MODEL TASK.",
    ),
]

RUN_KEY = re.compile(r"[0-9a-f]{4,64}")
"""What is taken for the beginning of a key; three digits could be a word such as "bad"."""


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
    from benchharness.cli.chosen_recipe import recipe_owner
    from benchharness.cli.output import recipe_facts
    from benchharness.recipes import resolve_recipe
    from benchharness.recipes.start import with_start
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
