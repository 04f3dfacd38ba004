"""Define the guards `calibration` and `coverage` of `bench check`."""

from benchharness.errors import BenchError
from benchharness.extensions.calibration import measures as of
from benchharness.extensions.calibration.judged import judge
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.job import Job


def calibration(predicted: PredictedSplit, job: Job, argument: str) -> float:
    """Return 1 minus the expected calibration error (ECE, bins of equal mass) of a run.

    The ECE is biased, but about equally for all runs on the same rows, so they can be compared.

    Args:
        predicted: Examples of the split, and the predictions of the run.
        job: Job of the run.
        argument: Must be empty.

    Raises:
        BenchError: There is an argument, or the predictions have no probabilities.
    """
    if argument:
        raise BenchError(f"--guard calibration takes no value, but got {argument!r}: leave it out.")
    (run,) = judge(predicted, [job]).runs
    return 1 - of.calibration_error(run.confidence, run.right, of.equal_mass(run.confidence))


def coverage(predicted: PredictedSplit, job: Job, argument: str) -> float:
    """Return the largest share of rows that a run can answer with a required accuracy.

    The rows are answered in the order of their confidence.

    Args:
        predicted: Examples of the split, and the predictions of the run.
        job: Job of the run.
        argument: Required accuracy, above 0 and at most 1; empty for 0.95.

    Raises:
        BenchError: The argument is out of range, or the predictions have no probabilities.
    """
    try:
        wanted = float(argument or 0.95)
    except ValueError:
        wanted = 0.0
    if not 0 < wanted <= 1:
        raise BenchError(
            f"--guard coverage={argument} must be an accuracy above 0 and at most 1: for example, "
            "coverage=0.95 is the share of rows that can be answered with 95 % accuracy."
        )
    (run,) = judge(predicted, [job]).runs
    mean = of.accuracies(of.ranked(run.row_confidence, run.row_right))
    enough = (mean >= wanted - 1e-12).nonzero()[0]
    return (int(enough[-1]) + 1) / len(mean) if len(enough) else 0.0
