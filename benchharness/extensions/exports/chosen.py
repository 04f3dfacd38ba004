"""Leaderboards and predictions that `bench export` writes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from benchharness.extensions.exports.lines import narrowed
from benchharness.extensions.exports.predictions import ExportedSplit
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.naming import called
from benchharness.leaderboard.boards.reproduction import parity_of
from benchharness.leaderboard.result import predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.stored import Within, gather_boards, stored_name, wanted_tasks, with_family
from benchharness.stored.predictions import StoredPredictions, examples_of
from benchharness.tasks.suites import SUITES, find_suites, find_task


def exported_boards(
    store: Store, within: Within, models: Sequence[str], *, paths: bool = False
) -> list[Board]:
    """Return the leaderboards to export, reduced to the requested entries and tasks.

    Args:
        store: Store that contains the runs.
        within: Suites, tasks and data to include.
        models: Names of entries to include. One string may contain several names, separated by
            commas. If there are no strings, all entries are included.
        paths: True to show the full paths of local files, False to shorten them.

    Raises:
        BenchError: Nothing matches.
    """
    wanted = wanted_tasks(store, within.suites, within.tasks) if within.tasks else ()
    names = within.suites or tuple(dict.fromkeys(name.partition("/")[0] for name in wanted))
    boards = gather_boards(store, replace(within, suites=names), paths=paths)
    rows = [
        stored_name(store, name)
        for word in models
        for name in (
            [word]
            if any(called(board.entries, word) for board in boards)
            else filter(None, word.split(","))
        )
    ]
    return narrowed(boards, rows, wanted)


def has_boards(store: Store, within: Within) -> bool:
    """Return whether there certainly is a leaderboard to export; no runs are read for this.

    The result is False if this is uncertain: if tasks or data are selected, or if the database has
    annotations, because these may hide runs.

    Raises:
        BenchError: A suite is unknown.
    """
    named = {suite.name for name in within.suites for suite in find_suites(name)} or {*SUITES}
    narrowed = within.tasks or within.data or store.annotations()
    return not narrowed and not named.isdisjoint(store.suites())


def with_parity(store: Store, board: Board) -> Board:
    """Return a copy of a leaderboard with the parity of each run.

    Parity means that benchharness trains as transformers does. The parity certificate lists the
    families, heads and settings for which this was measured.
    """
    keys = dict.fromkeys(run.key for entry in board.entries for run in entry.runs)
    runs = map(with_family, store.origins(keys))
    return replace(board, parity={run.job.key: parity_of(run) for run in runs})


def exported_splits(
    store: Store, boards: Iterable[Board], *, texts: bool = True
) -> Iterator[ExportedSplit]:
    """Yield the predictions of each run on the leaderboards for each split, one run after another.

    If the examples of a split cannot be read, `examples` of the yielded split is empty, and its
    `reason` explains why.

    Args:
        store: Store that contains the runs.
        boards: Leaderboards whose runs are exported.
        texts: False if no texts from the data may be exported.
    """
    for board in boards:
        stored = StoredPredictions(store, paths=board.paths)
        for entry in board.entries:
            cells = (entry.cells[name] for name in board.tasks if name in entry.cells)
            keys = dict.fromkeys(run.key for cell in cells for run in cell.runs)
            for key in keys:
                result = stored.result(key)
                for evaluation in result.evaluations:
                    if evaluation.task not in board.tasks:
                        continue
                    examples, reason = examples_of(stored, evaluation.name, [result])
                    yield ExportedSplit(
                        task=find_task(evaluation.task),
                        split=evaluation.split,
                        model=entry.model,
                        recipe=entry.recipe_label,
                        seed=result.job.seed if entry.is_single else None,
                        run=key,
                        scores=evaluation.scores,
                        predictions=predictions_of(evaluation, examples or None),
                        examples=examples,
                        flags=result.flags.get(evaluation.task, ()),
                        reason=reason,
                        texts=texts,
                    )
