"""Tests and intervals for what a limited number of examples and of seeds can show. Pure."""

from leaderboard.comparing.statistics import permutation_p_value
from leaderboard.statistics.bootstrap import bootstrap_interval
from leaderboard.statistics.holm import holm
from leaderboard.statistics.interval import Interval, mean_interval
from leaderboard.statistics.mcnemar import mcnemar_exact
from leaderboard.statistics.median_noise import median_error, median_interval
from leaderboard.statistics.outcomes import Outcomes, redrawn_scores
from leaderboard.statistics.pairs import Pairs, pairs_of

__all__ = [
    "Interval",
    "Outcomes",
    "Pairs",
    "bootstrap_interval",
    "holm",
    "mcnemar_exact",
    "mean_interval",
    "median_error",
    "median_interval",
    "pairs_of",
    "permutation_p_value",
    "redrawn_scores",
]
