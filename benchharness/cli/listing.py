"""`bench list`: suites, tasks, models, published results and stored runs."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from benchharness.cli.options import DATABASE, AsJson, Database, Suites
from benchharness.cli.printing import print_json, print_table
from benchharness.cli.with_plugins import with_plugins

__all__ = ["list_app"]

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
    from leaderboard.published import published as rows_of
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
