"""Leaderboards: grouping of stored runs into ranked entries, and published scores."""
