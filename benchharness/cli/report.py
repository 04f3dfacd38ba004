"""`bench report`: the leaderboard as one HTML file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import REPORT, Database, NoTexts, Out, ShowPaths, Suites, with_plugins
from benchharness.cli.output import tell_notes
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.plots.section import Pages
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.answers import check_folder, write_pages
from benchharness.stored.boards import lacking_plugins
from benchharness.stored.report import Wanted, make_report
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
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="The page's heading.")]
Description = Annotated[
    str, typer.Option("--description", metavar="TEXT", help="A sentence or two below the heading.")
]
Split = Annotated[
    bool | None,
    typer.Option(
        "--split/--no-split",
        help="Write the details of runs into a folder beside the page, or all into the page. "
        "Default: into a folder from 250 runs on.",
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
    predictions: Predictions = False,
    no_texts: NoTexts = False,
    show_paths: ShowPaths = False,
    open_it: Open = False,
) -> None:
    """Write the HTML report: a table per suite, a section per run."""
    if no_texts and not predictions:
        raise BenchError("--no-texts is of pages of predictions: add --predictions.")
    path, notes = Path(out), list[str]()
    folder = path.with_name(f"{path.stem}-predictions")
    if predictions:
        check_folder(folder)
    with open_store(db, create=False) as store:

        def pages(boards: Sequence[Board]) -> Pages:
            written = write_pages(
                store, boards, folder, path.name, texts=not no_texts, show_paths=show_paths
            )
            notes.extend(written.notes)
            return written.pages

        wanted = Wanted(
            title=title,
            description=description,
            intervals=intervals,
            split=split,
            show_paths=show_paths,
        )
        make_report(store, path, suite or (), wanted=wanted, pages=pages if predictions else None)
        notes.extend(() if suite else lacking_plugins(store))
    tell_notes(notes)
    typer.echo(visible(f"report: {out}"))
    if open_it:
        typer.launch(str(Path(out).resolve()))
