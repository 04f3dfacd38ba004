"""`bench sheet`: write one page about a system."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import argument, with_options
from benchharness.cli.output import print_json, tell_notes, writing
from benchharness.discovery import member, places
from benchharness.driver.options import option
from benchharness.errors import BenchError
from benchharness.extensions.sheet.page import Sheet, render_sheet, to_json, to_text
from benchharness.extensions.sheet.parts import sheet_of
from benchharness.kept_folders import JOB, TAKEN
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.report.table import group_anchor
from benchharness.leaderboard.report.write import write_page
from benchharness.leaderboard.text import visible
from benchharness.stored.sheet import Subject, subjects_of
from benchharness.version import package_version

Name = Annotated[
    str,
    argument(
        "KEY|MODEL|DIR",
        "The first characters of a run's key, a model with stored runs (MODEL:RECIPE if it has "
        "several leaderboard entries), or a folder that `bench model` wrote.",
        "stored_systems",
    ),
]


@with_options()
def sheet(
    name: Name,
    *,
    chosen: Chosen,
    out: Path = option(Path("sheet.html"), "Page to write.", metavar="FILE"),
    predictions: bool = option(
        False, "Also write pages with all predictions, to which the rows of the sheet link."
    ),
) -> None:
    """Write one page about a system: its results, how certain they are, and which are missing.

    The sheet is computed from stored runs; nothing is trained. Its numbers link to the rows from
    which they were computed.
    """
    folder = Path(name) if Path(name).is_dir() else None
    with chosen.open() as store:
        known = name if folder is None else key_of(folder)
        found = list(subjects_of(store, known, chosen.within, folder=folder))
        if len(found) > 1:
            where = " and on ".join(f"{s.board.title} ({s.board.data_label})" for s in found)
            raise BenchError(
                f"{name} has runs on {where}: choose one leaderboard with --suite, --task or "
                "--data."
            )
        (subject,) = found
        pages = _pages(subject, out) if predictions else {}
        made = Sheet(subject=subject, parts=sheet_of(subject), pages=pages)
    if chosen.as_json:
        print_json(to_json(made))
        return
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    with writing(f"the sheet {out}", "Choose another file with --out."):
        write_page(out, render_sheet(made, generated, package_version()))
    typer.echo(to_text(made))
    typer.echo(visible(f"sheet: {out}"))


def key_of(folder: Path) -> str:
    """Return the key of the run that trained the model in a folder.

    Raises:
        BenchError: The folder has no model of a run, or the description of the run is damaged.
    """
    for name, field in ((TAKEN, "job"), (JOB, None)):
        try:
            text = (folder / name).read_text(encoding="utf-8")
            found = json.loads(text)
            return Job.from_json(found[field] if field else found).key
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchError(
                f"{folder / name} cannot be read ({error}): export it again."
            ) from error
    raise BenchError(
        f"{folder} has no model of a run: pass a folder that `bench model --to` has written, the "
        "key of a run, or a model."
    )


def _pages(subject: Subject, out: Path) -> Mapping[str, str]:
    """Write pages with all predictions of the system; return their relative URLs, keyed by task."""
    known = places("pages")
    if "predictions" not in known:
        raise BenchError("--predictions needs the extension prediction_pages.")
    write = member("the pages of predictions", known["predictions"])
    writer = write(out.with_suffix(".predictions"), out.name)
    board = replace(subject.board, entries=(subject.entry,), tasks=subject.tasks)
    found = writer(subject.store, [board])
    tell_notes(writer.notes)
    anchors = {
        (group_anchor(subject.entry, subject.entry.cells[task].runs[0].task), task): task
        for task in subject.tasks
    }
    return {task: found[key] for key, task in anchors.items() if key in found}
