"""Scores over the layers of a frozen encoder: what its head reads of each one alone. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.job import FEATURES_SETTING
from benchharness.leaderboard.statistics import Interval, useful_interval
from benchharness.tasks.suites import distinct_title

EMBEDDINGS, LAYER = "embeddings", "layer-"
"""How a single layer is called; the embeddings are the layer 0."""


@dataclass(frozen=True, kw_only=True)
class LayerPoint:
    """The score of one layer, 0 for the embeddings: `entry` has the runs, `cell` their values."""

    layer: int
    entry: Entry
    cell: Cell

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the median over seeds, None of fewer than three."""
        return useful_interval(self.cell.values)


@dataclass(frozen=True, kw_only=True)
class LayerCurve:
    """The layers of one model on one task, in their order; `name` has what else was set."""

    model: str
    name: str
    task: str
    title: str
    points: tuple[LayerPoint, ...]


def layer_curves(board: Board) -> tuple[LayerCurve, ...]:
    """A curve for each task and each model with two or more of its layers on the board.

    Runs of other settings are on curves of their own. Of two entries of one layer the first stands.
    """
    return tuple(curve for task in board.tasks for curve in _of_task(board.entries, task))


def _of_task(entries: Sequence[Entry], task: str) -> Iterator[LayerCurve]:
    found: dict[str, dict[int, LayerPoint]] = {}
    for entry in entries:
        cell = entry.cells.get(task)
        layer = None if cell is None else _layer_of(cell)
        if cell is not None and layer is not None:
            point = LayerPoint(layer=layer, entry=entry, cell=cell)
            found.setdefault(_name_but_layer(entry), {}).setdefault(layer, point)
    for name, points in found.items():
        if len(points) > 1:
            ordered = tuple(points[layer] for layer in sorted(points))
            model, title = ordered[0].entry.model, distinct_title(task)
            yield LayerCurve(model=model, name=name, task=task, title=title, points=ordered)


def _layer_of(cell: Cell) -> int | None:
    """The number of the layer that all runs of a cell read; None where it is not a single one."""
    found = (run.settings.get(FEATURES_SETTING) for run in cell.runs)
    read = {None if setting is None else setting.value for setting in found}
    word = str(read.pop()) if len(read) == 1 else ""
    if word == EMBEDDINGS:
        return 0
    number = word.removeprefix(LAYER)
    return int(number) if number != word and number.isdecimal() else None


def _name_but_layer(entry: Entry) -> str:
    """The entry's name without its layer, with its precision."""
    typed = f"{FEATURES_SETTING}="
    words = (w.shown for w in entry.words[entry.unsaid :] if not w.typed.startswith(typed))
    return ", ".join((entry.model, *words, entry.precision))
