"""What papers, model cards and leaderboards print, as data: every number with its source."""

from leaderboard.boards.published import PublishedCell, PublishedRow, published

__all__ = ["PublishedCell", "PublishedRow", "published"]
