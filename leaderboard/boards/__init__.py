"""Leaderboards: grouping of runs into entries and boards, ranks, and published scores."""
