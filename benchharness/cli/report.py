"""`bench report`: the leaderboard as one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import DATABASE, REPORT, Database, Out, Suites, with_plugins
from benchharness.cli.output import tell_notes
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.boards import lacking_plugins
from benchharness.stored.report import Wanted, make_report

Open = Annotated[bool, typer.Option("--open", help="Open the report in the browser.")]
Intervals = Annotated[
    bool | None,
    typer.Option(
        "--intervals/--no-intervals",
        help="Show 95 % intervals of scores and ranks, or not; they take reading every prediction. "
        "Default: show them for up to 250 runs.",
    ),
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="The page's heading.")]
Description = Annotated[
    str, typer.Option("--description", metavar="TEXT", help="A sentence or two below the heading.")
]
Split = Annotated[
    bool | None,
    typer.Option(
        "--split/--no-split",
        help="Write the details of runs into a folder beside the page, or all into the page. "
        "Default: into a folder from 1,500 runs on.",
    ),
]


@with_plugins
def report(  # noqa: PLR0913  (one parameter for each option)
    *,
    suite: Suites = None,
    db: Database = DATABASE,
    out: Out = REPORT,
    intervals: Intervals = None,
    title: Title = "Leaderboard",
    description: Description = "",
    split: Split = None,
    open_it: Open = False,
) -> None:
    """Write the HTML report: a table per suite, a section per run."""
    with open_store(db, create=False) as store:
        wanted = Wanted(title=title, description=description, intervals=intervals, split=split)
        make_report(store, Path(out), suite or (), wanted=wanted)
        lacking = () if suite else tuple(lacking_plugins(store))
    tell_notes(lacking)
    typer.echo(visible(f"report: {out}"))
    if open_it:
        typer.launch(str(Path(out).resolve()))
