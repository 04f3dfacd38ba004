"""Compare the settings of a stored run with those of another tool's training."""

from benchharness.extensions.explanation.differences import Explanation, explain
from benchharness.extensions.explanation.foreign import read_training
from benchharness.extensions.explanation.training import of_run
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store


def explain_run(run: Result, place: str, store: Store) -> Explanation:
    """Compare a stored run with another training, and return their differences and scores.

    Args:
        run: The stored run.
        place: The other training: a Trainer's output folder, a file with its arguments, the key of
            a run, or a published result ("TABLE: SYSTEM").
        store: The database of stored runs.

    Raises:
        BenchError: `place` is none of these, or the training is on another task.
        DataError: The folder or file contains no training arguments, is damaged, or would run code
            when it is loaded.
    """
    return explain(of_run(run), read_training(place, run, store))
