"""`bench predictions`: pages of every prediction of a model, or of two side by side."""

from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.chosen import Chosen, System, of_chosen
from benchharness.cli.compare import Split
from benchharness.cli.options import NoTexts, ShowPaths, completed_by
from benchharness.cli.output import tell_notes
from benchharness.leaderboard.text import visible
from benchharness.stored.answers import check_folder, page_name, predicted_task, write_page
from benchharness.stored.predictions import StoredPredictions

FOLDER = "results/predictions"

Other = Annotated[
    str | None,
    typer.Argument(
        metavar="OTHER",
        autocompletion=completed_by("stored_systems"),
        help="A second system beside it: which examples flip, with the answers of both.",
    ),
]
Folder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="The folder to write a page a task into.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the first page in the browser.")]


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
    open_it: Open = False,
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
            for task in tasks:
                predicted = predicted_task(
                    StoredPredictions(store),
                    board,
                    task,
                    entries,
                    kind=split,
                    texts=not no_texts,
                    show_paths=show_paths,
                )
                if predicted.reason:
                    notes[f"a page without texts: {predicted.reason}"] = None
                page = out / page_name(board, task, entries)
                pages.append(page if split == "dev" else page.with_stem(f"{page.stem}-{split}"))
                write_page(pages[-1], predicted)
    tell_notes(notes)
    for page in pages:
        typer.echo(visible(f"predictions: {page}"))
    if open_it:
        typer.launch(str(pages[0].resolve()))
