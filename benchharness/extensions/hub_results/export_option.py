"""`bench export --imported`: export scores that were imported from the Hub."""

from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.output import tell_notes, writing
from benchharness.driver.options import OUTPUT
from benchharness.errors import BenchError
from benchharness.extensions.exports.cards import model_card_data, upload
from benchharness.extensions.hub_results.layout import Form
from benchharness.extensions.hub_results.parameters import Function, add_parameters
from benchharness.extensions.hub_results.records import imported_content
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible, whole_file
from benchharness.plugins import load_plugins

Imported = Annotated[
    bool,
    typer.Option(
        "--imported",
        help="Export the results that `bench db import hub:ORG/MODEL` imported, unchanged; needs "
        "--model ORG/MODEL and --format model-index or eval-results.",
        rich_help_panel=OUTPUT,
    ),
]

FORMS: tuple[Form, ...] = ("model-index", "eval-results")


def with_imported(command: Function) -> Function:
    """Return a function like `bench export` with the option --imported."""

    @wraps(command)
    def called(  # noqa: PLR0913  (options of the command)
        *,
        imported: bool,
        form: str,
        model: list[str] | None,
        out: Path | None,
        push: str | None,
        db: str,
        plugin: list[Path] | None,
        **others: object,
    ) -> None:
        if not imported:
            command(form=form, model=model, out=out, push=push, db=db, plugin=plugin, **others)
            return
        load_plugins(plugin or ())
        chosen = next((each for each in FORMS if each == form), None)
        if chosen is None or len(model or ()) != 1 or any(others.values()) or (out and push):
            raise BenchError(
                "--imported needs --format model-index or eval-results and one --model ORG/MODEL, "
                "and can be used only with --db, --plugin, and --out or --push."
            )
        export_imported((model or [""])[0], chosen, out=out, push=push, db=db)

    option = Parameter("imported", Parameter.KEYWORD_ONLY, default=False, annotation=Imported)
    return add_parameters(called, command, option)


def export_imported(model: str, form: Form, *, out: Path | None, push: str | None, db: str) -> None:
    """Export the scores that were imported from a repository in one of its formats.

    Args:
        model: Name of the repository from which they were imported.
        form: Format.
        out: File to write; None for stdout.
        push: Repository to which the scores are sent; None to send nothing.
        db: The database: a path or a SQLAlchemy URL.
    """
    with open_store(db, create=False) as store:
        content, others = imported_content(store, model, form)
    if others:
        tell_notes(
            [f"{others} entries of {model} are left out: they were not imported, or give no unit."]
        )
    if push:
        typer.echo(visible(f"sent: {upload(content, push)}"))
        return
    text = content if isinstance(content, str) else f"{model_card_data(**content)}\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    with writing(out), whole_file(out) as file:
        file.write(text.encode("utf-8"))
    typer.echo(visible(f"export: {out}"))
