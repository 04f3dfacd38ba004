"""Why is my number another one? A stored run beside a training of another tool, value by value."""

from benchharness.extensions.explanation.differences import Explanation, explain
from benchharness.extensions.explanation.foreign import read_training
from benchharness.extensions.explanation.training import of_run
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store


def explain_run(run: Result, place: str, store: Store) -> Explanation:
    """A stored run beside the training that `place` names: a folder, a file, a key, a row.

    BenchError for a name that is nothing and for another task, DataError for a folder or file that
    holds no training, is damaged, or would run code.
    """
    return explain(of_run(run), read_training(place, run, store))
