"""Python function `bh.calibration`, which returns the measures of calibration in a data frame."""

from collections.abc import Iterator, Sequence
from os import fspath
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from benchharness.driver.options import DATABASE, listed, speaks_python
from benchharness.errors import BenchError
from benchharness.extensions.calibration.calibrate import (
    DEFAULT,
    Calibration,
    Measured,
    Wanted,
    calibrations_of,
)
from benchharness.leaderboard.boards.board import select_entry_or_run
from benchharness.leaderboard.store.store import open_store
from benchharness.stored import Within, find_rows
from benchharness.tasks.foreign_code import begin

_COLUMNS = ("task", "split", "measure", "value", "low", "high", "rows", "seeds", "flags")


@speaks_python
def calibration(  # noqa: PLR0913  (the options of `bench calibration`)
    system: str,
    *,
    suite: str | Sequence[str] = (),
    task: str | Sequence[str] = (),
    data: str | None = None,
    split: Literal["dev", "test"] = "dev",
    accuracy: float = DEFAULT.accuracy,
    trust_remote_code: bool = False,
    db: str | Path = DATABASE,
) -> pd.DataFrame:
    """Measure how far the probabilities of a system's predictions can be trusted.

    This is `bench calibration` as a function.

    Args:
        system: System: "MODEL", "MODEL:RECIPE", or the first characters of a run's key.
        suite: Suites to include; by default, all suites.
        task: Tasks to include; by default, all tasks.
        data: Data source of the runs ("hub", "mini" or a folder); by default, all sources.
        split: Split whose predictions are used, "dev" or "test".
        accuracy: Accuracy for which the coverage is computed, above 0 and at most 1.
        trust_remote_code: True to run third-party code of metrics, which imported runs may need.
        db: Path or URL of the database of results.

    Returns:
        A data frame with a row per task, split and measure. `value` is the mean over seeds, and
            `low` and `high` are the ends of its 95 % interval over rows and seeds (NaN without an
            interval). docs/calibration.md describes the measures; "coverage" is the share of rows
            that can be answered with the accuracy `accuracy`, and "threshold" the lowest confidence
            of these rows. `frame.attrs` has, keyed by "task:split", the points of the reliability
            diagram (`reliability`) and of the risk-coverage curve (`curve`) as data frames, and the
            `reasons` why splits have no measures.

    Raises:
        BenchError: The system is unknown, `accuracy` is out of range, or no selected task has
            predictions with probabilities.
    """
    begin(trust=trust_remote_code)
    wanted = Wanted(split=split, accuracy=accuracy)
    within = Within(suites=listed(suite), tasks=listed(task), data=data)
    with open_store(fspath(db), create=False) as store:
        found = [
            each
            for rows in find_rows(store, (system,), within, select=select_entry_or_run)
            for each in calibrations_of(store, rows, wanted)
        ]
    known = {f"{each.task}:{each.split}": each for each in found if not each.reason}
    reasons = {f"{each.task}:{each.split}": each.reason for each in found if each.reason}
    if not known:
        raise BenchError(*dict.fromkeys(reasons.values()))
    lines = [line for each in found for line in _lines(each)]
    frame = pd.DataFrame(lines, columns=list(_COLUMNS))
    frame = frame.astype(dict.fromkeys(("value", "low", "high"), "float64"))
    frame.attrs = {
        "reliability": {name: _points(each.bins) for name, each in known.items()},
        "curve": {name: _points(each.curve) for name, each in known.items()},
        "reasons": reasons,
    }
    return frame


def _lines(found: Calibration) -> Iterator[dict[str, Any]]:
    measures = dict(found.measures)
    if found.reached is not None:
        measures["coverage"] = found.reached.coverage
        if found.reached.confidence is not None:
            measures["threshold"] = Measured(value=found.reached.confidence)
    for name, measure in measures.items():
        ends = measure.interval
        yield {
            "task": found.task,
            "split": found.split,
            "measure": name,
            "value": measure.value,
            "low": ends and ends.low,
            "high": ends and ends.high,
            "rows": found.rows,
            "seeds": found.seeds,
            "flags": "; ".join(found.flags),
        }


def _points(points: Sequence[Any]) -> pd.DataFrame:
    """Return the points of a diagram or a curve, with the ends of their intervals."""
    ends = ({"low": each.interval.low, "high": each.interval.high} for each in points)
    lines = [vars(each) | both for each, both in zip(points, ends, strict=True)]
    return pd.DataFrame(lines).drop(columns="interval")
