"""Tests and their shared helpers; a package, so that no other `tests` is imported first."""
