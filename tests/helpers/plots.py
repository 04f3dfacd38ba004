"""Facts about synthetic runs for the tests of plots."""

from collections.abc import Iterable

from benchharness.extensions.plots.cost import RunFacts, facts_of
from benchharness.leaderboard.result import Result


def facts_by_key(runs: Iterable[Result]) -> dict[str, RunFacts]:
    """Return the facts that a report reads from the runs."""
    return {run.job.key: found for run in runs if (found := facts_of(run)) is not None}
