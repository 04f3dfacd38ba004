"""Leaderboard tables: which runs form an entry and a board, next to published scores."""
