"""Write pages of predictions, for the entries of a report or for one or two systems."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath

from benchharness.errors import BenchError
from benchharness.extensions.prediction_pages.examples import PredictedTask, System
from benchharness.extensions.prediction_pages.page import render_predictions
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.naming import heads
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.report.addition import Pages
from benchharness.leaderboard.report.rows import row_anchor
from benchharness.leaderboard.report.table import group_anchor
from benchharness.leaderboard.report.write import write_page as write_html
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, counted
from benchharness.stored.predictions import StoredPredictions, examples_of, splits_of
from benchharness.tasks.suites import find_task, title_of

PAGE_MARK = '<meta name="bench-predictions"'
"""Text that every page of predictions has in its first 4,096 bytes. Only files with this text are
deleted when a new report is written."""


class PredictionPages:
    """Writer of the pages of predictions to which a report links.

    Attributes:
        folder: Folder for the pages.
        home: File name of the report, which is in the parent of `folder`.
        texts: True if the pages show the texts of the examples.
        notes: Dictionary whose keys are messages about predictions that have no page, and about
            pages without texts; the values are None. A dictionary keeps the order of the messages
            and drops repeated ones.
    """

    def __init__(self, folder: Path, home: str, *, texts: bool = True) -> None:
        """Check that the folder can be written.

        Args:
            folder: Folder for the pages.
            home: File name of the report, which is in the parent of `folder`.
            texts: True to show the texts of the examples.

        Raises:
            BenchError: The folder cannot be written.
        """
        check_folder(folder)
        self.folder, self.home, self.texts = folder, home, texts
        self.notes: dict[str, None] = {}

    def __call__(self, store: Store, boards: Iterable[Board]) -> Pages:
        """Write a page for each entry and task of the leaderboards.

        Each page compares the entry with the best other model on the task, if there is one. Pages
        of an earlier report that are not written again are deleted. Messages about predictions
        without a page, and about pages without example texts, are added to `notes`.

        Returns:
            Relative URLs of the pages, keyed by the HTML id of the entry's section in the report
            and by task.

        Raises:
            BenchError: A page cannot be written.
        """
        pages: dict[tuple[str, str], str] = {}
        for board in boards:
            for task in board.tasks:
                for entry, systems in _compared(board, task):
                    name = self._write(store, board, task, systems)
                    if name:
                        anchor = group_anchor(entry, entry.cells[task].runs[0].task)
                        pages[anchor, task] = f"{self.folder.name}/{name}"
        _delete_others(self.folder, {PurePath(page).name for page in pages.values()})
        return pages

    def _write(self, store: Store, board: Board, task: str, systems: Sequence[Entry]) -> str:
        """Write the page of the first system, and return its name; "" if it has no predictions."""
        stored = StoredPredictions(store, paths=board.paths)
        try:
            predicted = predicted_task(stored, board.data_label, task, systems)
        except BenchError as error:  # for example, imported scores have no predictions
            self.notes[f"a page of predictions was left out: {error}"] = None
            return ""
        if predicted.reason:
            self.notes[f"some pages have no example texts: {predicted.reason}"] = None
        name = page_name(board, task, systems[:1])
        write_page(self.folder / name, replace(predicted, texts=self.texts), f"../{self.home}")
        return name


def _compared(board: Board, task: str) -> Iterator[tuple[Entry, list[Entry]]]:
    """Yield each entry with a score on the task, best first, and the entries on its page."""
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
        yield entry, [entry] if other is None or not other.competes else [entry, other]


def _delete_others(folder: Path, kept: set[str]) -> None:
    for path in folder.glob("*.html"):
        with path.open("rb") as file:
            is_ours = PAGE_MARK.encode() in file.read(4096)
        if is_ours and path.name not in kept:
            path.unlink()


def check_folder(folder: Path) -> None:
    """Raise BenchError if pages cannot be written to a folder. Nothing is changed by this check."""
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
    """Write the page with the predictions for one task.

    Args:
        path: HTML file to write.
        predicted: Predictions to show.
        home: Relative URL of the leaderboard's page, for a link; empty for no link.

    Raises:
        BenchError: The file cannot be written.
    """
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    try:
        write_html(path, render_predictions(predicted, generated, home))
    except OSError as error:
        raise _unwritable(path, error) from error


def page_name(board: Board, task: str, entries: Sequence[Entry]) -> str:
    """Return the file name of a page.

    It consists of the title of the task, the names of the models, and a digest. The digest makes it
    unique for the leaderboard, the task and the entries.
    """
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
        data: Description of the data source, which the page shows.
        name: Full name of the task, such as "glue/rte".
        entries: One or two leaderboard entries.
        kind: "dev" for the predictions on dev splits, "test" for those on test splits.

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
