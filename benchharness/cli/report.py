"""The command `bench report`, which writes the leaderboard as an HTML page."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from benchharness.cli.options import (
    Database,
    NoTexts,
    Out,
    ShowPaths,
    Suites,
    TrustCode,
    page_beside,
    with_options,
)
from benchharness.cli.output import tell_notes
from benchharness.cli.tables import counting
from benchharness.discovery import member, places
from benchharness.driver.options import DATABASE, option
from benchharness.errors import BenchError
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored import LARGE_STORE, lacking_plugins, own_page
from benchharness.stored.report import Wanted, make_report


@dataclass(frozen=True, kw_only=True)
class Page:
    """Options of `bench report` that determine the content of the page."""

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
        "Write the details of runs into a folder next to the page (--split), or into the page "
        "itself (--no-split). Default: into the page for up to 250 runs, else into a folder, which "
        "then has the details of about 5,000 runs of the best entries.",
        flag="--split/--no-split",
    )
    show_paths: ShowPaths = False


@dataclass(frozen=True, kw_only=True)
class Written:
    """Options of `bench report`: the files to write, and whether to open the report."""

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
    with open_store(db, create=False) as store:
        if written.out is None:
            path, kept = own_page(store, path)
            notes += [kept] if kept else []
        pages = _pages(path, texts=texts) if written.predictions else None
        wanted = Wanted(suites=suite or (), **vars(page))
        if (runs := store.count()) > LARGE_STORE:
            tell_notes([f"reading {runs:,} runs for the report."])
        pager = pages and partial(pages, store)
        make_report(store, path, wanted, pages=pager, counting=counting)
        notes.extend(pages.notes if pages else ())
        notes.extend(() if suite else lacking_plugins(store))
    tell_notes(notes)
    typer.echo(visible(f"report: {path}"))
    if written.open_it:
        typer.launch(str(path.resolve()))


def _pages(path: Path, *, texts: bool) -> Any:
    """Return the writer of the pages of predictions for the report at `path`.

    Raises:
        BenchError: No extension writes such pages, or their folder cannot be written.
    """
    place = places("pages").get("predictions")
    if place is None:
        raise BenchError("--predictions needs the extension prediction_pages, which is missing.")
    folder = path.with_name(f"{path.stem}-predictions")
    return member("the pages of predictions", place)(folder, path.name, texts=texts)
