"""`bench db import hub:ORG/MODEL`: import the scores that a repository on the Hub publishes."""

from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import argument
from benchharness.cli.output import print_json, tell_notes
from benchharness.errors import BenchError
from benchharness.extensions.hub_results.parameters import Function, add_parameters
from benchharness.extensions.hub_results.records import to_results
from benchharness.extensions.hub_results.repository import read_repository
from benchharness.extensions.hub_results.scores import read_scores
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import counted, visible
from benchharness.plugins import load_plugins

PREFIX = "hub:"

File = Annotated[
    Path,
    argument(
        "FILE",
        "Archive that `bench export --all` wrote (.jsonl.gz), a table of scores from other "
        "programs (.csv or .json), or hub:ORG/MODEL[@REVISION] for the results in a model's "
        "repository on the hub.",
    ),
]


def with_repositories(command: Function) -> Function:
    """Return a function like `bench db import` that also imports from repositories on the Hub."""

    @wraps(command)
    def called(
        file: Path, *, db: str, as_json: bool, plugin: list[Path] | None, **others: object
    ) -> None:
        if str(file).startswith(PREFIX):
            load_plugins(plugin or ())
            import_repository(str(file).removeprefix(PREFIX), db, as_json=as_json)
        else:
            command(file=file, db=db, as_json=as_json, plugin=plugin, **others)

    return add_parameters(
        called, command, Parameter("file", Parameter.POSITIONAL_OR_KEYWORD, annotation=File)
    )


def import_repository(place: str, db: str, *, as_json: bool) -> None:
    """Import the scores of a repository as unranked rows, and print how many were added.

    Everything is read and checked before the database is opened.

    Args:
        place: Name of the repository, and perhaps "@" with a commit, branch or tag.
        db: The database: a path or a SQLAlchemy URL.
        as_json: True to print JSON.
    """
    name, at, revision = place.partition("@")
    if at and not revision:
        raise BenchError(f"{PREFIX}{place} names no revision: add one after @, or leave out the @.")
    repository = read_repository(name, revision or None)
    found = read_scores(repository)
    results = to_results(repository, found)
    with open_store(db) as store:
        tell_notes(store.taken.sentences(store.name))
        added = store.add_results(results)
    others = sum(found.others.values())
    if others:
        names = ", ".join(list(found.others)[:10])
        tell_notes(
            [f"entries on other tasks, splits or metrics were left out: {others} ({names})."]
        )
    if as_json:
        facts = {"repository": name, "commit": repository.commit, "scores": len(results)}
        print_json({**facts, "added": added, "left_out": dict(found.others)})
        return
    known = f", already stored: {len(results) - added}" if added < len(results) else ""
    said = f"{PREFIX}{name}@{repository.commit}: {added} of {counted(len(results), 'score')} added"
    typer.echo(visible(f"{said}{known}"))
