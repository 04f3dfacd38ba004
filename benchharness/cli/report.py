"""`bench report` and `bench predictions`: the leaderboard, and every prediction, as HTML."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.chosen import Chosen, System, of_chosen
from benchharness.cli.compare import Split
from benchharness.cli.options import (
    REPORT,
    Database,
    NoTexts,
    Out,
    ShowPaths,
    Suites,
    completed_by,
    with_plugins,
)
from benchharness.cli.output import tell_notes
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.sharing import shared_board
from benchharness.leaderboard.report.plots.section import Pages
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.answers import (
    check_folder,
    page_name,
    predicted_task,
    write_page,
    write_pages,
)
from benchharness.stored.boards import lacking_plugins
from benchharness.stored.predictions import StoredPredictions
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
        help="Write a page of every prediction for each cell too, into a folder next to it.",
    ),
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="The page's heading.")]
Description = Annotated[
    str, typer.Option("--description", metavar="TEXT", help="A sentence or two below the heading.")
]
InFolder = Annotated[
    bool | None,
    typer.Option(
        "--split/--no-split",
        help="Write the details of runs into a folder next to the page, or all into the page. "
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
    split: InFolder = None,
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
            written = write_pages(store, boards, folder, path.name, texts=not no_texts)
            notes.extend(written.notes)
            return written.pages

        wanted = Wanted(
            suites=suite or (),
            title=title,
            description=description,
            intervals=intervals,
            split=split,
            show_paths=show_paths,
        )
        make_report(store, path, wanted, pages=pages if predictions else None)
        notes.extend(() if suite else lacking_plugins(store))
    tell_notes(notes)
    typer.echo(visible(f"report: {out}"))
    if open_it:
        typer.launch(str(Path(out).resolve()))


FOLDER = "results/predictions"

Other = Annotated[
    str | None,
    typer.Argument(
        metavar="OTHER",
        autocompletion=completed_by("stored_systems"),
        help="A second system next to it: which examples flip, with the answers of both.",
    ),
]
Folder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder to write a page a task into.")
]
OpenFirst = Annotated[bool, typer.Option("--open", help="Open the first page in the browser.")]


@of_chosen("as_json")
def predictions(  # noqa: PLR0913  (one parameter for each option)
    system: System,
    other: Other = None,
    *,
    chosen: Chosen,
    split: Split = "dev",
    no_texts: NoTexts = False,
    show_paths: ShowPaths = False,
    out: Folder = Path(FOLDER),
    open_it: OpenFirst = False,
) -> None:
    """Write a page a task: every example with the gold answer and what each seed predicted.

    The hardest examples come first, below scores, confusion matrices and categories.
    """
    pages: list[Path] = []
    notes: dict[str, None] = {}
    with chosen.open() as store:
        found = chosen.rows(store, [system] if other is None else [system, other])
        check_folder(out)
        for board, entries, tasks in found:
            data = (board if show_paths else shared_board(board)).data_label
            for task in tasks:
                predicted = predicted_task(StoredPredictions(store), data, task, entries, split)
                if predicted.reason:
                    notes[f"a page without texts: {predicted.reason}"] = None
                page = out / page_name(board, task, entries)
                pages.append(page if split == "dev" else page.with_stem(f"{page.stem}-{split}"))
                write_page(pages[-1], replace(predicted, texts=not no_texts))
    tell_notes(notes)
    for page in pages:
        typer.echo(visible(f"predictions: {page}"))
    if open_it:
        typer.launch(str(pages[0].resolve()))
