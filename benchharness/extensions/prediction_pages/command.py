"""The command `bench report predictions`: write every prediction of one or two systems."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.chosen import Chosen, System
from benchharness.cli.compare import Split
from benchharness.cli.options import NoTexts, ShowPaths, argument, pages_beside, with_options
from benchharness.cli.output import tell_notes
from benchharness.driver.options import option
from benchharness.extensions.prediction_pages.pages import (
    check_folder,
    page_name,
    predicted_task,
    write_page,
)
from benchharness.leaderboard.text import visible
from benchharness.stored.predictions import StoredPredictions

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
    """Options of `bench report predictions` for the folder and the content of the pages."""

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
