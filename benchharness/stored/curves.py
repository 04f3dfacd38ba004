"""Stored runs as curves: score against the step of a pretraining run, or against the layer."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import has_magic

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing.curves import (
    LayerCurve,
    StageCurve,
    layer_curves,
    lines_of,
    stage_curves,
)
from benchharness.leaderboard.comparing.resampling import Known
from benchharness.leaderboard.job import Stage
from benchharness.leaderboard.report.plots.chart import Figure
from benchharness.leaderboard.report.plots.lines import stage_figures
from benchharness.leaderboard.report.plots.section import BoardKey, board_key
from benchharness.leaderboard.store.store import Store
from benchharness.models import find_models, weights_identity
from benchharness.stored.boards import gather_boards, wanted_tasks
from benchharness.stored.contrasts import known_cells
from benchharness.tasks.errors import BenchError, unknown_name


def find_curves(
    store: Store,
    name: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, StageCurve]]:
    """The curves of a pretraining run on every board that has two of its checkpoints.

    `name` is that of the run, or the pattern of its folders, which also finds what was run of them
    one by one. `suites`, `tasks` and `data` narrow the boards; empty they do not. Raises BenchError
    where there is no such run, it has no two checkpoints on one board, or not of one family.
    """
    if has_magic(name):
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
        """An entry's runs are all of the same weights."""
        return next((stages[run.key] for run in entry.runs if run.key in stages), None)

    boards = _narrowed(store, suites, tasks, data, models) if stages else []
    if found := [(board, curve) for board in boards for curve in _curves(store, board, stage_of)]:
        return found
    of = f" of {', '.join([*suites, *tasks])}" if suites or tasks else ""
    raise BenchError(
        f"no two {'checkpoints' if stages else 'layers'} of {name} have results{of} on the same "
        "rows: `bench list runs` shows what is stored."
    )


def find_layers(
    store: Store,
    model: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, LayerCurve]]:
    """The curves over layers of a model on every board that has two of its layers or more."""
    boards = _narrowed(store, suites, tasks, data, {model})
    return [(board, curve) for board in boards for curve in layer_curves(board)]


def _narrowed(
    store: Store,
    suites: Sequence[str],
    tasks: Sequence[str],
    data: str | None,
    models: Collection[str],
) -> Iterator[Board]:
    """The boards of some models, with the tasks that are asked for."""
    wanted = wanted_tasks(store, suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    for board in gather_boards(store, tuple(names), data, models):
        chosen = tuple(task for task in board.tasks if not wanted or task in wanted)
        yield replace(board, tasks=chosen)


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
    """By what is known of each task's cells; without examples that is nothing."""
    for line in lines_of(board, stage_of):
        known: dict[str, Sequence[Known | None]] = {}
        for task in board.tasks:
            known[task] = ("not read",) * len(line.entries)
            if examples:
                known[task] = known_cells(board, line.entries, task, store)
        yield from stage_curves(board, line, known)


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
