"""Define the guard `worst-group` of `bench check`: the score of the worst group."""

from benchharness.errors import BenchError
from benchharness.extensions.groups.groups import Found, Wanted, groups_of_split
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.job import Job


def worst_group(predicted: PredictedSplit, job: Job, argument: str) -> float:
    """Return the score of the worst group of a run.

    Args:
        predicted: Examples of the split, and the predictions of the run.
        job: Job of the run.
        argument: Grouping, as in `--groups`; empty for thirds by length.

    Raises:
        BenchError: The split has no groups of this kind, or their scores cannot be computed.
    """
    wanted = Wanted(specs=(argument or "length",))
    plain = Found(task=job.task, split=predicted.split)
    found = groups_of_split(predicted, job, plain, wanted)
    if found.reason or not found.groupings:
        raise BenchError(found.reason or f"{plain.title} has no groups by {argument or 'length'}.")
    return min(group.score for group in found.groupings[0].groups)
