"""Compare a stored run with a training of another tool, value by value."""

from benchharness.extensions.explanation.differences import Explanation, explain
from benchharness.extensions.explanation.foreign import read_training
from benchharness.extensions.explanation.training import of_run
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store


def explain_run(run: Result, place: str, store: Store) -> Explanation:
    """Compare a stored run with another training.

    Args:
        run: The stored run.
        place: The other training: a folder, a file, a run's key or a published row.
        store: The store of the run.

    Raises:
        BenchError: `place` is none of these, or the training is on another task.
        DataError: The folder or file has no training, is damaged, or would run code.
    """
    return explain(of_run(run), read_training(place, run, store))
