"""Jobs, stored results, leaderboards and reports. Nothing in this package imports torch."""
