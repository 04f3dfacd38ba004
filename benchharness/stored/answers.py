"""Export predictions for each example, as HTML pages and as data for other tools."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import NamedTuple

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.naming import heads
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.report.examples import PredictedTask, System
from benchharness.leaderboard.report.plots.section import Pages
from benchharness.leaderboard.report.predictions import render_predictions
from benchharness.leaderboard.report.rows import row_anchor
from benchharness.leaderboard.report.table import group_anchor
from benchharness.leaderboard.report.write import write_page as write_html
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, counted
from benchharness.splits import ChangedRowsError
from benchharness.stored.predictions import StoredPredictions, splits_of
from benchharness.tasks.examples import Example
from benchharness.tasks.suites import find_task, split_title, title_of

PAGE_MARK = '<meta name="bench-predictions"'
"""Text in the first 4,096 bytes of every page of predictions; files that contain it may be deleted
when a new report is written."""


class Written(NamedTuple):
    """Outcome of `write_pages`.

    Attributes:
        pages: The pages that were written.
        notes: Messages about predictions without a page, and about pages without example texts.
    """

    pages: Pages
    notes: tuple[str, ...]


def write_pages(
    store: Store, boards: Iterable[Board], folder: Path, home: str, *, texts: bool = True
) -> Written:
    """Write an HTML page of predictions for each entry and task of the leaderboards.

    Each page compares the entry with the best other model on the task. Pages of an earlier report
    that are not written again are deleted.

    Args:
        store: Store that contains the runs.
        boards: Leaderboards whose predictions are written.
        folder: Folder for the pages.
        home: File name of the leaderboard, which is in the parent of `folder`.
        texts: Whether to show the texts of the examples.

    Raises:
        BenchError: The folder cannot be written.
    """
    check_folder(folder)
    pages: dict[tuple[str, str], str] = {}
    notes: dict[str, None] = {}
    for board in boards:
        for task in board.tasks:
            stored = StoredPredictions(store, paths=board.paths)
            ranked = sorted(
                (entry for entry in board.entries if task in entry.cells),
                key=lambda entry: (
                    not entry.competes,
                    not entry.cells[task].has_learned,
                    -entry.cells[task].median,
                ),
            )
            for entry in ranked:
                other = next((each for each in ranked if each is not entry), None)
                systems = [entry] if other is None or not other.competes else [entry, other]
                try:
                    predicted = predicted_task(stored, board.data_label, task, systems)
                except BenchError as error:  # for example, imported scores have no predictions
                    notes[f"a page of predictions was left out: {error}"] = None
                    continue
                if predicted.reason:
                    notes[f"some pages have no example texts: {predicted.reason}"] = None
                name = page_name(board, task, [entry])
                write_page(folder / name, replace(predicted, texts=texts), f"../{home}")
                anchor = group_anchor(entry, entry.cells[task].runs[0].task)
                pages[anchor, task] = f"{folder.name}/{name}"
    _delete_others(folder, {PurePath(page).name for page in pages.values()})
    return Written(pages, tuple(notes))


def _delete_others(folder: Path, kept: set[str]) -> None:
    for path in folder.glob("*.html"):
        with path.open("rb") as file:
            is_ours = PAGE_MARK.encode() in file.read(4096)
        if is_ours and path.name not in kept:
            path.unlink()


def check_folder(folder: Path) -> None:
    """Raise BenchError if pages cannot be written into the folder, without changing anything."""
    try:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError("it is a file")
        check_place(folder / "page.html")
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(path: Path, error: OSError) -> BenchError:
    reason = error.strerror or error
    return BenchError(
        f"the pages of predictions could not be written to {path}: {reason}. Choose another folder "
        "with --out; stored runs are not changed."
    )


def write_page(path: Path, predicted: PredictedTask, home: str = "") -> None:
    """Write the predictions of one task to an HTML file; raise BenchError if this fails.

    `home` is the relative URL of the leaderboard that the page links to.
    """
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    try:
        write_html(path, render_predictions(predicted, generated, home))
    except OSError as error:
        raise _unwritable(path, error) from error


def page_name(board: Board, task: str, entries: Sequence[Entry]) -> str:
    """Return a descriptive file name for a page, determined by the task and the entries."""
    said = [title_of(task), *(entry.model for entry in entries)]
    # Convert "SST-2" to "sst-2". Different names may become equal, but the digest in `anchor` still
    # distinguishes them.
    words = "-".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-.")[:40] for word in said)
    names = [name for e in entries for name in (e.model, e.recipe, e.precision, e.variant)]
    anchor = row_anchor(board.title, board.data_label, task, *names).removeprefix("row-")
    return f"{words}-{anchor}.html"


# Reading the predictions on one task, with the examples if they can be read.


def predicted_task(
    stored: StoredPredictions, data: str, name: str, entries: Sequence[Entry], kind: str = "dev"
) -> PredictedTask:
    """Return the predictions of one or two leaderboard entries on a task.

    If the examples cannot be read or have changed, they are left out, and `reason` of the result
    explains why.

    Args:
        stored: Stored runs and their examples.
        data: Label of the data that the page shows.
        name: Full name of the task.
        entries: One or two leaderboard entries.
        kind: "dev" or "test".

    Raises:
        BenchError: A run has no predictions for a split of this kind.
    """
    task = find_task(name)
    sides = [[stored.result(run.key) for run in entry.cells[name].runs] for entry in entries]
    wholes = [f"{name}:{split}" for split in splits_of(task, kind)]
    read, reason = [], ""
    for whole in wholes:
        examples, reason = examples_of(stored, whole, [run for side in sides for run in side])
        read.append(examples)
        if reason:  # show the gold answers either of all splits or of none
            read = [()] * len(wholes)
            break
    runs = [
        [
            tuple(predictions_of(run.evaluation(whole), examples or None) for run in side)
            for side in sides
        ]
        for whole, examples in zip(wholes, read, strict=True)
    ]
    names = [entry.name for entry in entries]
    # If both entries have the same name, use labels that distinguish them.
    labels = names if len(set(names)) == len(names) else heads(entries)
    return PredictedTask(
        task=task,
        data=data,
        systems=tuple(
            _system(label, entry, side, wholes)
            for label, entry, side in zip(labels, entries, sides, strict=True)
        ),
        splits=tuple(
            PredictedSplit(
                task=task,
                split=whole.rpartition(":")[2],
                examples=examples,
                one=found[0],
                other=found[1] if len(found) > 1 else (),
            )
            for whole, examples, found in zip(wholes, read, runs, strict=True)
        ),
        reason=reason,
    )


def _system(name: str, entry: Entry, results: Sequence[Result], splits: Sequence[str]) -> System:
    task = splits[0].rpartition(":")[0]
    seeds = f", {counted(len(results), 'seed')}" if entry.is_single else ""
    return System(
        name=name,
        details=", ".join(filter(None, (entry.beside_name, entry.precision))) + seeds,
        seeds=tuple(str(r.job.seed) if entry.is_single else "" for r in results),
        keys=tuple(r.job.key for r in results),
        scores=tuple(
            {n: v for split in splits for n, v in r.evaluation(split).scores.items()}
            for r in results
        ),
        flags={r.job.key: r.flags[task] for r in results if task in r.flags},
    )


def examples_of(
    stored: StoredPredictions, name: str, results: Sequence[Result]
) -> tuple[tuple[Example, ...], str]:
    """Return the examples that all of the results predicted, and an empty reason.

    If the results predicted different examples, or the examples cannot be read, return () and the
    reason.
    """
    digests = {result.evaluation(name).fingerprint for result in results}
    task, split = name.rsplit(":", 1)
    if len(digests) > 1:
        return (), f"the runs predicted different rows of {split_title(task, split)}."
    reason = ""
    for job in {result.job.data: result.job for result in results}.values():
        try:
            return stored.rows(job, name).examples, ""
        except ChangedRowsError:
            where = f"{split_title(task, split)} in {job.data}"
            reason = f"{where} has changed since these runs read it (its fingerprint differs)."
        except BenchError as error:
            reason = f"{split_title(task, split)} could not be read: {error}"
        reason = stored.said_of(job, reason)
    return (), reason
