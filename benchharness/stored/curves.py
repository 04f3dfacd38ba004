"""Stored runs as curves: score against the step of a pretraining run, or against the layer."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import has_magic
from typing import NamedTuple

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing.layers import LayerCurve, layer_curves
from benchharness.leaderboard.comparing.stages import Line, StageCurve, lines_of, stage_curves
from benchharness.leaderboard.comparing.uncertainty import Known
from benchharness.leaderboard.job import Stage
from benchharness.leaderboard.report.plots.figure import Figure
from benchharness.leaderboard.report.plots.lines import stage_figures
from benchharness.leaderboard.report.plots.section import BoardKey, board_key
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.store import Store
from benchharness.models import find_models, weights_identity
from benchharness.stored.boards import gather_boards, wanted_tasks
from benchharness.stored.uncertainty import known_cells
from benchharness.tasks.errors import BenchError, unknown_name


class BoardCurves(NamedTuple):
    """The curves of one pretraining run on one board."""

    board: Board
    curves: tuple[StageCurve, ...]


def find_curves(
    store: Store,
    name: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[BoardCurves]:
    """The curves of a pretraining run on every board that has two of its checkpoints.

    `name` is that of the run, or the pattern of its folders, which also finds what was run of them
    one by one. `suites`, `tasks` and `data` narrow the boards; empty they do not. Raises BenchError
    where there is no such run, it has no two checkpoints on one board, or not of one family.
    """
    stage_of = _stages(name)
    wanted = wanted_tasks(store, suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    models = {row.model for row in store.runs() if stage_of(row) is not None}
    if not models:
        if find_layers(store, name):  # of other tasks
            raise _too_few("layers", name, [*suites, *tasks])
        raise _unknown(store, name)
    boards = gather_boards(store, tuple(names), data, models)
    narrowed = [replace(b, tasks=_among(b.tasks, wanted)) for b in boards]
    curves = [BoardCurves(b, tuple(_curves(store, b, _of_entry(stage_of)))) for b in narrowed]
    if not any(each.curves for each in curves):
        raise _too_few("checkpoints", name, [*suites, *tasks])
    return [each for each in curves if each.curves]


def _too_few(what: str, name: str, tasks: Sequence[str]) -> BenchError:
    of = f" of {', '.join(tasks)}" if tasks else ""
    return BenchError(
        f"no two {what} of {name} have results{of} on the same rows: `bench list runs` shows what "
        "is stored."
    )


class BoardLayers(NamedTuple):
    """The scores over the layers of one model on one board."""

    board: Board
    curves: tuple[LayerCurve, ...]


def find_layers(
    store: Store,
    model: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[BoardLayers]:
    """The curves over layers of a model on every board that has two of its layers or more."""
    wanted = wanted_tasks(store, suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    boards = gather_boards(store, tuple(names), data, {model})
    narrowed = [replace(board, tasks=_among(board.tasks, wanted)) for board in boards]
    found = [BoardLayers(board, layer_curves(board)) for board in narrowed]
    return [each for each in found if each.curves]


def _among(tasks: Iterable[str], wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(task for task in tasks if not wanted or task in wanted)


def _stages(name: str) -> Callable[[RunRow], Stage | None]:
    """Says of a stored run which checkpoint of the named pretraining run it is of."""
    if not has_magic(name):
        return lambda row: row.stage if row.stage is not None and row.stage.run == name else None
    by_weights = {weights_identity(spec): spec.stage for spec in find_models(name)}
    return lambda row: by_weights.get(row.weights)


def _of_entry(stage_of: Callable[[RunRow], Stage | None]) -> Callable[[Entry], Stage | None]:
    """The same of an entry, whose runs are all of the same weights."""

    def of_entry(entry: Entry) -> Stage | None:
        return next((stage for run in entry.runs if (stage := stage_of(run)) is not None), None)

    return of_entry


def _unknown(store: Store, name: str) -> BenchError:
    if has_magic(name):
        return BenchError(f"no folder that {name!r} matches has stored results: run them first.")
    runs = {row.stage.run for row in store.runs() if row.stage is not None}
    hint = (
        "Run several of its checkpoints first, bench run --model 'DIR/step-*', or all layers of a "
        "model: --set features=each."
    )
    return unknown_name("pretraining run with stored checkpoints", name, runs, hint)


def _curves(
    store: Store, board: Board, stage_of: Callable[[Entry], Stage | None], *, examples: bool = True
) -> Iterator[StageCurve]:
    for line in lines_of(board, stage_of):
        yield from stage_curves(board, line, _known(store, board, line, examples=examples))


def _known(
    store: Store, board: Board, line: Line, *, examples: bool
) -> Mapping[str, Sequence[Known | None]]:
    """What is known of each task's cells of a line, in its order; without examples, nothing."""
    if not examples:
        return dict.fromkeys(board.tasks, ("not read",) * len(line.entries))
    return {task: known_cells(board, line.entries, task, store) for task in board.tasks}


def curve_figures(
    store: Store, boards: Iterable[Board], *, examples: bool
) -> tuple[Mapping[BoardKey, tuple[Figure, ...]], list[str]]:
    """The plots of all pretraining runs on some boards, and why some have none.

    Noise is that of the examples too where they are to be read, else that of the seeds alone.
    """
    figures: dict[BoardKey, tuple[Figure, ...]] = {}
    faults: list[str] = []
    for board in boards:
        try:
            found = list(_curves(store, board, lambda entry: entry.stage, examples=examples))
        except BenchError as error:
            faults.append(f"{board.title} has no plot over pretraining: {error}")
            continue
        figures[board_key(board)] = stage_figures(found)
    return figures, faults
