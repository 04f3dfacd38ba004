"""The HTML report: one self-contained file that opens from disk with no network."""

from leaderboard.report.write import write_report

__all__ = ["write_report"]
