"""The regression gate: is a task worse than its baseline, beyond what another seed does? Pure."""

from benchharness.leaderboard.regression.judge import (
    FAILED_JOB,
    NOT_COMPARED,
    TaskVerdict,
    Unjudged,
    Verdict,
    judge,
)
from benchharness.leaderboard.regression.sample import (
    Baseline,
    Conditions,
    Sample,
    conditions_of,
    differences,
    sample_of,
)

__all__ = [
    "FAILED_JOB",
    "NOT_COMPARED",
    "Baseline",
    "Conditions",
    "Sample",
    "TaskVerdict",
    "Unjudged",
    "Verdict",
    "conditions_of",
    "differences",
    "judge",
    "sample_of",
]
