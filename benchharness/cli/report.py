"""`bench report`: the leaderboard as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import (
    DATABASE,
    REPORT,
    Database,
    NoTexts,
    Out,
    Suites,
    with_plugins,
)
from benchharness.cli.output import tell_notes
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.boards import lacking_plugins
from benchharness.stored.report import make_report
from benchharness.tasks.errors import BenchError

Open = Annotated[bool, typer.Option("--open", help="Open the report in the browser.")]
Intervals = Annotated[
    bool | None,
    typer.Option(
        "--intervals/--no-intervals",
        help="Show 95 % intervals of scores and ranks, or not; they take reading every prediction. "
        "Default: show them for up to 250 runs.",
    ),
]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions",
        help="Write a page of every prediction for each cell too, into a folder beside the report.",
    ),
]


@with_plugins
def report(  # noqa: PLR0913  (one parameter for each option)
    *,
    suite: Suites = None,
    db: Database = DATABASE,
    out: Out = REPORT,
    intervals: Intervals = None,
    predictions: Predictions = False,
    no_texts: NoTexts = False,
    open_it: Open = False,
) -> None:
    """Write the HTML report: a table per suite, a section per run."""
    if no_texts and not predictions:
        raise BenchError("--no-texts is of pages of predictions: add --predictions.")
    texts = not no_texts if predictions else None
    with open_store(db, create=False) as store:
        notes = make_report(store, Path(out), suite or (), intervals=intervals, texts=texts)
        lacking = () if suite else tuple(lacking_plugins(store))
    tell_notes((*notes, *lacking))
    typer.echo(visible(f"report: {out}"))
    if open_it:
        typer.launch(str(Path(out).resolve()))
