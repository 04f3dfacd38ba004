"""One split of a task as two systems have predicted it, with the same seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.result import RunRow
from tasks.errors import BenchError
from tasks.examples import Example, Prediction
from tasks.task import Task

__all__ = ["PredictedSplit", "match_runs"]


@dataclass(frozen=True, kw_only=True)
class PredictedSplit:
    """The examples of a split, and the predictions of two systems: a tuple for each seed.

    `other` is empty where one system stands alone.
    """

    task: Task
    split: str
    examples: tuple[Example, ...]
    one: tuple[tuple[Prediction, ...], ...]
    other: tuple[tuple[Prediction, ...], ...] = ()


def match_runs(one: Sequence[RunRow], other: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    """The runs of two systems on one task, paired by their seeds.

    What was made once and knows no seeds, a floor or an ensemble, stands against every run of the
    other; two single runs are a pair whatever their seeds. Raises BenchError where no seed is
    shared.
    """
    if len(one) == len(other) == 1 or _knows_no_seed(other):
        return [(run, other[0]) for run in one]
    if _knows_no_seed(one):
        return [(one[0], run) for run in other]
    by_seed = {run.seed: run for run in other}
    pairs = [(run, by_seed[run.seed]) for run in one if run.seed in by_seed]
    if not pairs:
        raise BenchError(
            f"{one[0].task}: {one[0].model} has the seeds {_seeds(one)} and {other[0].model} the "
            f"seeds {_seeds(other)}, none in common: run both with the same --seed."
        )
    return pairs


def _knows_no_seed(runs: Sequence[RunRow]) -> bool:
    return len(runs) == 1 and runs[0].kind != "model"


def _seeds(runs: Sequence[RunRow]) -> str:
    return ", ".join(str(run.seed) for run in runs)
