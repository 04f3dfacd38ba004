"""Two systems, example by example: what `bench compare` says of them."""

from leaderboard.comparing.contrast import ALPHA, Contrast, Slice, contrast, correct
from leaderboard.paired.flips import Flip
from leaderboard.paired.headline import headline_outcomes
from leaderboard.paired.predicted import PredictedSplit, match_runs

__all__ = [
    "ALPHA",
    "Contrast",
    "Flip",
    "PredictedSplit",
    "Slice",
    "contrast",
    "correct",
    "headline_outcomes",
    "match_runs",
]
