"""What runs started from, told by the runs that they started from. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from leaderboard.boards.grouping import variant_of
from leaderboard.result import RunRow

__all__ = ["start_task", "with_starts"]

UNKNOWN = "another run"


def with_starts(runs: Iterable[RunRow], known: Iterable[RunRow]) -> list[RunRow]:
    """The runs, each with what it started from: its task, and four digits for how it was trained.

    Seeds of one task have starts of their own seeds, which say the same here.
    """
    by_key = {run.key: run for run in known}
    return [_with_start(run, by_key) for run in runs]


def start_task(run: RunRow) -> str:
    """The name of the task that a run started from, as `with_starts` has found it; "" for none."""
    return UNKNOWN if run.start == UNKNOWN else run.start.partition(" ")[0]


def _with_start(run: RunRow, by_key: Mapping[str, RunRow]) -> RunRow:
    if run.start_from is None:
        return run
    start = by_key.get(run.start_from)
    if start is None:
        return replace(run, start=UNKNOWN)
    return replace(run, start=f"{start.task} {variant_of(_with_start(start, by_key))}")
