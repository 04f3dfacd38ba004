"""Compare a stored run with another training run, of benchharness or of another tool."""

from benchharness.extensions.explanation.differences import Explanation, explain
from benchharness.extensions.explanation.foreign import read_training
from benchharness.extensions.explanation.training import of_run
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store


def explain_run(run: Result, place: str, store: Store) -> Explanation:
    """Compare a stored run with another training run, and return their differences and scores.

    Args:
        run: Stored run.
        place: Location of the other training run: a Trainer's output folder, a file with its
            arguments, the key of a run, or a published result ("TABLE: SYSTEM").
        store: Store that contains the run.

    Raises:
        BenchError: `place` is none of these, or the other training run is on another task.
        DataError: The folder or file contains no training arguments, is damaged, or would run code
            when it is loaded.
    """
    return explain(of_run(run), read_training(place, run, store))
