"""Fixtures: the command line without real jobs."""

import benchharness.driver.retrain  # noqa: F401  (bound before tests put other engines in its place)
