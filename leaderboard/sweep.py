"""Sweeps: several points of a grid tried on a task, of which a board shows the best on dev.

Papers report "the best of a grid on dev". The recipe's label says of how many, because the best of
several is higher than any one of them by chance alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from leaderboard.boards.cell import build_cell
from leaderboard.result import RunRow
from tasks.rules import ScoreRule

__all__ = ["best_points", "count_points", "is_sweep", "sweep_name"]

SWEEP = " sweep"


def sweep_name(recipe: str) -> str:
    """The name that a recipe goes by where several of its points are run: "paper+set sweep"."""
    return recipe + SWEEP


def is_sweep(recipe: str) -> bool:
    """Whether a recipe's name is that of a sweep."""
    return recipe.endswith(SWEEP)


def count_points(runs: Iterable[RunRow]) -> int:
    """How many points have finished on a task, on that with the most."""
    finished = [run for run in runs if run.status == "finished"]
    return max((len(points) for points in _points(finished).values()), default=0)


def best_points(runs: Sequence[RunRow], rule: ScoreRule) -> list[RunRow]:
    """Of a sweep's runs those by the best point, task by task; all runs of anything else.

    The best point is that with the best median over seeds of the task's own score; of equal ones
    that with more seeds. A point without a score is the best only where no other has one.
    """
    if not is_sweep(runs[0].recipe):
        return list(runs)
    return [
        run
        for points in _points(runs).values()
        for run in max(points.values(), key=lambda point: _standing(point, rule))
    ]


def _points(runs: Iterable[RunRow]) -> Mapping[str, Mapping[str, list[RunRow]]]:
    """The runs by task and by the digest of their values, in an order that is always the same."""
    found: dict[str, dict[str, list[RunRow]]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.recipe_digest)):
        found.setdefault(run.task, {}).setdefault(run.recipe_digest, []).append(run)
    return found


def _standing(point: Sequence[RunRow], rule: ScoreRule) -> tuple[float, int]:
    finished = [run for run in point if run.status == "finished"]
    cell = build_cell(point[0].task, finished, rule)
    return (-math.inf, 0) if cell is None else (cell.median, len(cell.values))
