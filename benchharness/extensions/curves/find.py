"""Find the checkpoints of a pretraining run, or the layers of a model, and compute the curves."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from glob import has_magic

from benchharness.errors import BenchError, unknown_name
from benchharness.extensions.curves.curves import (
    LayerCurve,
    StageCurve,
    layer_curves,
    lines_of,
    stage_curves,
)
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing import Known
from benchharness.leaderboard.job import Stage
from benchharness.leaderboard.store.store import Store
from benchharness.models import find_models, weights_identity
from benchharness.stored import Within, gather_boards, wanted_tasks
from benchharness.stored.predictions import known_cells


def find_curves(
    store: Store,
    name: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, StageCurve]]:
    """Return the score curves of a pretraining run over its checkpoints.

    There are curves for every leaderboard with at least two checkpoints of the pretraining run.

    Args:
        store: Store that contains the fine-tuning runs of the checkpoints.
        name: Name of the pretraining run, or a glob pattern that matches the folders of its
            checkpoints. With a pattern, checkpoints are found by their weights, so their runs may
            have been stored under other names.
        suites: Names of suites or collections to include; empty for all.
        tasks: Full or short names of tasks to include; empty for all.
        data: Data source of the runs to include, as in `Within.data`; None for all.

    Returns:
        Pairs of a leaderboard and one of its curves. A leaderboard has one curve per task, and one
        for the mean of several tasks.

    Raises:
        BenchError: The pretraining run is unknown, no leaderboard has two of its checkpoints, the
            checkpoints have different model families, or two checkpoints of the same step have
            different weights.
    """
    if has_magic(name):
        # Match runs by their weights, because their models may have any name.
        by_weights = {weights_identity(spec): spec.stage for spec in find_models(name)}
    stages, models = dict[str, Stage](), set[str]()
    for row in store.runs():
        if has_magic(name):
            stage = by_weights.get(row.weights)
        else:
            stage = row.stage if row.stage and row.stage.run == name else None
        if stage is not None:
            stages[row.key] = stage
            models.add(row.model)
    if not stages and not find_layers(store, name):
        raise _unknown(store, name)

    def stage_of(entry: Entry) -> Stage | None:
        """Return the pretraining stage of an entry; all of its runs have the same weights."""
        return next((stages[run.key] for run in entry.runs if run.key in stages), None)

    boards = _narrowed(store, suites, tasks, data, models) if stages else []
    if found := [(board, curve) for board in boards for curve in curves_of(store, board, stage_of)]:
        return found
    of = f" on {', '.join([*suites, *tasks])}" if suites or tasks else ""
    raise BenchError(
        f"no two {'checkpoints' if stages else 'layers'} of {name} have results{of} with the same "
        "data: `bench show runs` lists the stored runs."
    )


def find_layers(
    store: Store,
    model: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, LayerCurve]]:
    """Return the scores of a frozen model as curves over the layer on which a head was trained.

    There are curves for every leaderboard with results of at least two layers of the model.

    Args:
        store: Store that contains the runs.
        model: Name of the model.
        suites: Names of suites or collections to include; empty for all.
        tasks: Full or short names of tasks to include; empty for all.
        data: Data source of the runs to include, as in `Within.data`; None for all.

    Returns:
        Pairs of a leaderboard and one of its curves, of which there is one per task, precision and
        combination of settings other than the layer. Empty if there are no such curves.
    """
    boards = _narrowed(store, suites, tasks, data, {model})
    return [(board, curve) for board in boards for curve in layer_curves(board)]


def _narrowed(
    store: Store,
    suites: Sequence[str],
    tasks: Sequence[str],
    data: str | None,
    models: Collection[str],
) -> Iterator[Board]:
    """Yield the leaderboards of the given models, reduced to the requested tasks."""
    wanted = wanted_tasks(store, suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    for board in gather_boards(store, Within(suites=tuple(names), data=data), models):
        chosen = tuple(task for task in board.tasks if not wanted or task in wanted)
        yield replace(board, tasks=chosen)


def _unknown(store: Store, name: str) -> BenchError:
    if has_magic(name):
        return BenchError(
            f"no checkpoint that {name!r} matches has stored results: run the checkpoints first."
        )
    runs = {row.stage.run for row in store.runs() if row.stage is not None}
    hint = (
        "Run several of its checkpoints first with `bench run --model 'DIR/step-*'`, or all layers "
        "of a model with --set features=each."
    )
    return unknown_name("pretraining run with stored checkpoints", name, runs, hint)


def curves_of(
    store: Store, board: Board, stage_of: Callable[[Entry], Stage | None], *, examples: bool = True
) -> Iterator[StageCurve]:
    """Yield the score curves of all pretraining runs on a leaderboard, over their checkpoints.

    Args:
        store: Store that contains the runs.
        board: Leaderboard with the runs.
        stage_of: Function that returns the position of an entry in its pretraining run; None if the
            entry is not a checkpoint of such a run.
        examples: True to read predictions, so that the noise of a score covers the choice of
            examples and of seeds; False to read none, so that the noise covers only seeds.

    Raises:
        BenchError: The checkpoints of a pretraining run have different model families, or two of
            the same step have different weights.
    """
    for line in lines_of(board, stage_of):
        known: dict[str, Sequence[Known | None]] = {}
        for task in board.tasks:
            known[task] = ("not read",) * len(line.entries)
            if examples:
                known[task] = known_cells(board, line.entries, task, store)
        yield from stage_curves(board, line, known)
