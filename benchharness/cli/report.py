"""The commands `bench report` and `bench report predictions`.

They write the leaderboard, and the predictions for each example, as HTML pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.chosen import Chosen, System
from benchharness.cli.compare import Split
from benchharness.cli.options import (
    Database,
    NoTexts,
    Out,
    ShowPaths,
    Suites,
    TrustCode,
    argument,
    page_beside,
    pages_beside,
    with_options,
)
from benchharness.cli.output import tell_notes
from benchharness.cli.tables import counting
from benchharness.driver.options import DATABASE, option
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.plots.section import Pages as Links
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored import LARGE_STORE, lacking_plugins
from benchharness.stored.answers import (
    check_folder,
    page_name,
    predicted_task,
    write_page,
    write_pages,
)
from benchharness.stored.predictions import StoredPredictions
from benchharness.stored.report import Wanted, make_report


@dataclass(frozen=True, kw_only=True)
class Page:
    """Options of `bench report` that set the content of the page."""

    intervals: bool | None = option(
        None,
        "Show 95 % intervals of scores and ranks, for which all predictions are read. By default, "
        "they are shown for up to 250 runs.",
        flag="--intervals/--no-intervals",
    )
    title: str = option("Leaderboard", "Heading of the page.", metavar="TEXT")
    description: str = option("", "Text below the heading.", metavar="TEXT")
    split: bool | None = option(
        None,
        "Write the details of runs into a folder next to the page, or into the page itself. "
        "Default: into the page for up to 250 runs, else into a folder. By default, a folder has "
        "the details of at most the 5,000 best runs.",
        flag="--split/--no-split",
    )
    show_paths: ShowPaths = False


@dataclass(frozen=True, kw_only=True)
class Written:
    """Options of `bench report` that set which files are written and whether to open them."""

    out: Out = None
    predictions: bool = option(
        False,
        "Also write a page with all predictions behind each score, into a folder next to the "
        "report.",
    )
    no_texts: NoTexts = False
    open_it: bool = option(False, "Open the report in the browser.", flag="--open")


@with_options()
def report(
    *,
    suite: Suites = None,
    db: Database = DATABASE,
    trust_remote_code: TrustCode = False,  # noqa: ARG001  (used by `with_options`)
    page: Page,
    written: Written,
) -> None:
    """Write the leaderboard as an HTML page, with a table per suite and a section per run."""
    texts = not written.no_texts
    if not (texts or written.predictions):
        raise BenchError("--no-texts applies only to pages of predictions. Add --predictions.")
    path, notes = page_beside(db, written.out), list[str]()
    folder = path.with_name(f"{path.stem}-predictions")
    if written.predictions:
        check_folder(folder)
    with open_store(db, create=False) as store:

        def pages(boards: Sequence[Board]) -> Links:
            made = write_pages(store, boards, folder, path.name, texts=texts)
            notes.extend(made.notes)
            return made.pages

        wanted = Wanted(suites=suite or (), **vars(page))
        if (runs := store.count()) > LARGE_STORE:
            tell_notes([f"reading {runs:,} runs for the report."])
        pager = pages if written.predictions else None
        make_report(store, path, wanted, pages=pager, counting=counting)
        notes.extend(() if suite else lacking_plugins(store))
    tell_notes(notes)
    typer.echo(visible(f"report: {path}"))
    if written.open_it:
        typer.launch(str(path.resolve()))


Other = Annotated[
    str | None,
    argument(
        "OTHER",
        "Second system; the pages then show on which examples the two differ.",
        "stored_systems",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Options of `bench report predictions` for the pages that it writes."""

    out: Path | None = option(
        None,
        "Folder for the pages. Default: predictions/NAME next to the database NAME.",
        metavar="DIR",
    )
    no_texts: NoTexts = False
    show_paths: ShowPaths = False
    open_it: bool = option(False, "Open the first page in the browser.", flag="--open")


@with_options(but=["as_json"])
def predictions(
    system: System, other: Other = None, *, chosen: Chosen, split: Split = "dev", written: Pages
) -> None:
    """Write a page per task with every example: its gold answer and the prediction of each seed.

    Each page begins with scores, confusion matrices and categories. The examples follow, the
    hardest first.
    """
    pages: list[Path] = []
    notes: dict[str, None] = {}
    folder = pages_beside(chosen.db, written.out)
    with chosen.open() as store:
        systems = [system] if other is None else [system, other]
        found = chosen.rows(store, systems, paths=written.show_paths)
        check_folder(folder)
        for board, entries, tasks in found:
            for task in tasks:
                stored = StoredPredictions(store, paths=board.paths)
                predicted = predicted_task(stored, board.data_label, task, entries, split)
                if predicted.reason:
                    notes[f"a page has no texts, because {predicted.reason}"] = None
                page = folder / page_name(board, task, entries)
                pages.append(page if split == "dev" else page.with_stem(f"{page.stem}-{split}"))
                write_page(pages[-1], replace(predicted, texts=not written.no_texts))
    tell_notes(notes)
    for page in pages:
        typer.echo(visible(f"predictions: {page}"))
    if written.open_it:
        typer.launch(str(pages[0].resolve()))
