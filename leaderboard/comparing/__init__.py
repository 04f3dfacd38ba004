"""Two systems, example by example: what `bench compare` says of them."""

from leaderboard.comparing.breakdown import PredictedSplit, headline_outcomes, match_runs
from leaderboard.comparing.contrast import Contrast, Flip, Slice, contrast, correct

__all__ = [
    "Contrast",
    "Flip",
    "PredictedSplit",
    "Slice",
    "contrast",
    "correct",
    "headline_outcomes",
    "match_runs",
]
