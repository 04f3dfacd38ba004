"""The tests and what they share; a package, so that no other `tests` is found first."""
