"""Comparison of a stored run with a training of another tool, value by value."""

from benchharness.extensions.explanation.differences import Explanation, explain
from benchharness.extensions.explanation.foreign import read_training
from benchharness.extensions.explanation.training import of_run
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store


def explain_run(run: Result, place: str, store: Store) -> Explanation:
    """Compare a stored run with the training that `place` names: a folder, a file, a key or a row.

    Raises:
        BenchError: `place` names nothing, or a training on another task.
        DataError: The folder or file holds no training, is damaged, or would run code.
    """
    return explain(of_run(run), read_training(place, run, store))
