"""Compute measures of the calibration of stored systems, with intervals over rows and seeds.

The value of a measure is its mean over seeds. Its interval is computed in the same way as the
intervals of scores on leaderboards and in `bench compare`: the measure is expressed as a number per
seed and unit (a row, or a group of rows that are scored together), and
`benchharness.leaderboard.comparing.noise` estimates the variance of these numbers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchharness.errors import BenchError
from benchharness.extensions.calibration import measures as of
from benchharness.extensions.calibration.judged import Judged, judge
from benchharness.extensions.calibration.measures import Array, Places, Ranked
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import LEVEL
from benchharness.leaderboard.comparing import Outcomes, divided, ratio
from benchharness.leaderboard.comparing.noise import (
    Sample,
    noise_of,
    sample_of,
    sample_of_table,
)
from benchharness.leaderboard.statistics import Interval, student_t, unseen_share
from benchharness.leaderboard.store.store import Store
from benchharness.stored import Rows
from benchharness.stored.predictions import (
    StoredPredictions,
    UnreadableError,
    predicted_split,
    splits_of,
)
from benchharness.tasks.suites import find_task, split_title


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options for the calibration of a system.

    Attributes:
        split: "dev" or "test".
        accuracy: Accuracy for which the coverage is computed, above 0 and at most 1.
        coverages: Number of points of the risk-coverage curve: with 100, there are points for
            coverages of 1 %, 2 %, ... 100 %.
    """

    split: str = "dev"
    accuracy: float = 0.95
    coverages: int = 100


DEFAULT = Wanted()


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Value of a measure with its interval.

    Attributes:
        value: Mean over seeds.
        interval: 95 % confidence interval over rows and seeds; None if it has no width, or if no
            interval is computed for the measure.
    """

    value: float
    interval: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Bin of the reliability diagram: items with similar confidences, of all seeds together.

    Attributes:
        confidence: Mean confidence of the items.
        accuracy: Share of the items whose answer is right.
        interval: 95 % confidence interval of the accuracy over rows.
        share: Share of all items that are in the bin.
    """

    confidence: float
    accuracy: float
    interval: Interval
    share: float


@dataclass(frozen=True, kw_only=True)
class Covered:
    """Point of the risk-coverage curve.

    Attributes:
        coverage: Share of the rows that are answered: the rows with the highest confidence.
        accuracy: Share of right answers among the answered rows; mean over seeds.
        interval: 95 % confidence interval of the accuracy over rows and seeds.
        confidence: Lowest confidence among the answered rows; median over seeds.
    """

    coverage: float
    accuracy: float
    interval: Interval
    confidence: float


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Share of the rows that can be answered with a given accuracy.

    Attributes:
        accuracy: Required accuracy.
        coverage: Largest share of the rows, beginning with the most confident row, that has this
            accuracy; 0 if no share has it.
        confidence: Lowest confidence among these rows, as the median over seeds; None if there are
            no such rows.
    """

    accuracy: float
    coverage: Measured
    confidence: float | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration of a system on one split.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        flags: Warnings about the runs.
        reason: Reason why there are no measures; empty if there are measures.
        rows: Number of rows.
        seeds: Number of runs, one per seed.
        items: Number of judged answers or decisions per run (see the module `judged`).
        measures: Measures, keyed by the names in `NAMES`; empty if there is a reason.
        bins: Reliability diagram, from low to high confidence.
        curve: Risk-coverage curve, from low to high coverage.
        reached: Coverage at the required accuracy; None if there are no measures.
    """

    task: str
    split: str
    flags: tuple[str, ...] = ()
    reason: str = ""
    rows: int = 0
    seeds: int = 0
    items: int = 0
    measures: dict[str, Measured]
    bins: tuple[Bin, ...] = ()
    curve: tuple[Covered, ...] = ()
    reached: Reached | None = None

    @property
    def title(self) -> str:
        """Title of the task and the split, e.g. "RTE dev"."""
        return split_title(self.task, self.split)


NAMES = {
    "accuracy": "accuracy",
    "confidence": "mean confidence",
    "overconfidence": "confidence minus accuracy",
    "nll": "negative log likelihood (nats)",
    "brier": "Brier score (0 to 2)",
    "balanced_brier": "balanced Brier score (0 to 2)",
    "ece": "ECE, bins of equal mass",
    "ece_if_calibrated": "  the same if it were calibrated",
    "ece_equal_width": "ECE, 15 bins of equal width",
    "rms_error": "calibration error without bias (RMS)",
    "aurc": "AURC (mean error rate over coverages)",
}
"""Descriptions of the measures, keyed by their names."""

IN_PERCENT = frozenset(NAMES) - {"nll", "brier", "balanced_brier"}
"""Names of the measures that tables show multiplied by 100."""


def calibrations_of(store: Store, rows: Rows, wanted: Wanted) -> Iterator[Calibration]:
    """Yield the calibration of the first entry of `rows`, for each split of its tasks.

    Args:
        store: Store that contains the runs.
        rows: Leaderboard entry and tasks.
        wanted: Options for the calibration.

    Raises:
        BenchError: `wanted.accuracy` is not above 0 and at most 1.
    """
    if not 0 < wanted.accuracy <= 1:
        raise BenchError(
            f"--accuracy must be above 0 and at most 1, but got {wanted.accuracy:g}: use 0.95 for "
            "95 %."
        )
    for task in rows.tasks:
        stored = StoredPredictions(store, paths=rows.board.paths)
        yield from cell_calibrations(stored, rows.entries[0].cells[task], wanted)


def cell_calibrations(
    stored: StoredPredictions, cell: Cell, wanted: Wanted
) -> Iterator[Calibration]:
    """Yield the calibration of the runs in a leaderboard's cell, for each split of the task.

    If the calibration cannot be computed, the field `reason` of the result explains why.

    Args:
        stored: Reader of the stored predictions and their examples.
        cell: Cell with the runs.
        wanted: Options for the calibration.
    """
    results = [stored.result(run.key) for run in cell.runs]
    jobs, task = [result.job for result in results], find_task(cell.task)
    try:
        splits = splits_of(task, wanted.split)
    except BenchError as error:
        yield Calibration(task=cell.task, split=wanted.split, reason=str(error), measures={})
        return
    for split in splits:
        plain = Calibration(task=cell.task, split=split, flags=cell.notes, measures={})
        try:
            judged = judge(predicted_split(stored, task, split, results), jobs)
        except (UnreadableError, BenchError) as error:
            yield replace(plain, reason=stored.said_of(jobs[0], str(error)))
        else:
            yield calibrate(judged, plain, wanted)


def calibrate(judged: Judged, plain: Calibration, wanted: Wanted = DEFAULT) -> Calibration:
    """Compute all measures of a system's predictions for a split.

    Args:
        judged: Predictions of all seeds, as numbers.
        plain: Result to complete: it has the task, the split and the flags, but no measures.
        wanted: Options for the calibration.
    """
    orders = [of.ranked(run.row_confidence, run.row_right) for run in judged.runs]
    curve = tuple(_curve(judged, orders, wanted.coverages))
    return replace(
        plain,
        rows=len(judged.row_unit),
        seeds=len(judged.runs),
        items=len(judged.unit),
        measures=_measures(judged, orders),
        bins=tuple(_bins(judged)),
        curve=curve,
        reached=_reached(orders, curve, wanted.accuracy),
    )


# Intervals.


def _measured(sample: Sample, low: float, high: float = math.inf) -> Measured:
    """Return the mean of a sample with its interval, within the possible values of the measure."""
    value = float(sample.table.mean())
    interval = noise_of(sample).estimate(value).interval(LEVEL)
    # Due to rounding, the value may be slightly outside of the bounds.
    bounds = Interval(low=min(low, value), high=max(high, value))
    return Measured(value=value, interval=interval.within(bounds) if interval.has_width else None)


def _summed(values: Sequence[Array], places: Places, size: int) -> Array:
    """Return the sums of each run's values per place (an index below `size`), `[size, runs]`."""
    return np.stack([np.bincount(places, each, size) for each in values], axis=1)


def _mean_sample(judged: Judged, values: Sequence[Array]) -> Sample:
    """Return the sample of a mean over items; `values` has one number per item for each run."""
    sums = _summed(values, judged.unit, judged.units)
    counts = _summed([np.ones(len(judged.unit))] * len(values), judged.unit, judged.units)
    parts = np.stack([sums, counts], axis=-1)  # (units, runs, 2)
    return sample_of(Outcomes(parts=parts, score=ratio, is_ratio=True))


def _balanced_sample(judged: Judged, groups: Places, values: Sequence[Array]) -> Sample:
    """Return the sample of a balanced mean: the mean over groups of the mean over their items."""
    _, group = np.unique(groups, return_inverse=True)
    count = int(group.max()) + 1
    place, size = judged.unit * count + group, judged.units * count
    sums = _summed(values, place, size)
    counts = _summed([np.ones(len(place))] * len(values), place, size)
    parts = np.stack([sums, counts], axis=-1)  # (units * groups, runs, 2)
    parts = parts.reshape(judged.units, count, len(values), 2).transpose(0, 2, 1, 3)

    def score(means: Array) -> Array:
        pairs = means.reshape(*means.shape[:-1], count, 2)
        mean: Array = divided(pairs[..., 0], pairs[..., 1]).mean(-1)
        return mean

    flat = parts.reshape(judged.units, len(values), count * 2)
    return sample_of(Outcomes(parts=flat, score=score))


def _error_sample(judged: Judged) -> Sample:
    """Return the sample of the mean squared calibration error without bias."""
    parts = []
    for run in judged.runs:
        bins = of.equal_mass(run.confidence)
        found = (run.confidence, run.right, bins, judged.unit, judged.units)
        parts.append(of.squared_error_parts(*found))
    # Runs with equal confidences have fewer bins, so append empty bins to them.
    width = max(part.shape[1] for part in parts)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]
    score = partial(of.squared_error, units=judged.units)
    return sample_of(Outcomes(parts=np.stack(padded, axis=1), score=score))


def _measures(judged: Judged, orders: Sequence[Ranked]) -> dict[str, Measured]:
    """Return the measures, keyed by name, in the order of `NAMES`."""
    runs, mean = judged.runs, partial(_mean_sample, judged)
    briers = [run.brier for run in runs]
    found = {
        "accuracy": _measured(mean([run.right for run in runs]), 0, 1),
        "confidence": _measured(mean([run.confidence for run in runs]), 0, 1),
        "overconfidence": _measured(mean([run.confidence - run.right for run in runs]), -1, 1),
        "nll": _measured(mean([of.log_losses(run.chance) for run in runs]), 0),
        "brier": _measured(mean(briers), 0, 2),
    }
    if judged.group is not None:
        found["balanced_brier"] = _measured(_balanced_sample(judged, judged.group, briers), 0, 2)
    masses = [of.equal_mass(run.confidence) for run in runs]
    pairs = list(zip(runs, masses, strict=True))
    plain = {
        "ece": [of.calibration_error(run.confidence, run.right, bins) for run, bins in pairs],
        "ece_if_calibrated": [of.error_if_calibrated(run.confidence, bins) for run, bins in pairs],
        "ece_equal_width": [
            of.calibration_error(run.confidence, run.right, of.equal_width(run.confidence))
            for run in runs
        ],
    }
    found |= {name: Measured(value=float(np.mean(values))) for name, values in plain.items()}
    squared = _measured(_error_sample(judged), -1, 1)
    found["rms_error"] = Measured(value=_root(squared.value), interval=_root_of(squared.interval))
    return found | {"aurc": _measured(_area_sample(judged, orders), 0, 1)}


def _root(square: float) -> float:
    return math.sqrt(max(0.0, square))


def _root_of(squares: Interval | None) -> Interval | None:
    return squares and Interval(low=_root(squares.low), high=_root(squares.high))


def _area_sample(judged: Judged, orders: Sequence[Ranked]) -> Sample:
    return sample_of_table(_table(judged, [of.risk_area(order) for order in orders]))


def _table(judged: Judged, found: Sequence[tuple[float, Array]]) -> Array:
    """Return numbers per unit and run, `[units, runs]`, for `sample_of_table`.

    `found` has, for each run, the value of a measure and the influence of each row on it.
    """
    columns = [of.per_unit(*pair, judged.row_unit, judged.units) for pair in found]
    return np.stack(columns, axis=1)


# The risk-coverage curve, and the reliability diagram.


def _curve(judged: Judged, orders: Sequence[Ranked], count: int) -> Iterator[Covered]:
    rows = len(judged.row_unit)
    for number in range(1, count + 1):
        coverage = number / count
        if coverage * rows < 1 - 1e-9:
            continue
        table = _table(judged, [of.accuracy_at(order, coverage) for order in orders])
        # If all answers are right, the accuracy on other rows may still be lower (see `sample_of`).
        reach = unseen_share(math.ceil(coverage * rows - 1e-9), level=LEVEL)
        least = (reach / student_t(judged.units - 1, (1 + LEVEL) / 2)) ** 2
        sample = replace(sample_of_table(table), least=least)
        value = float(table.mean())
        interval = noise_of(sample).estimate(value).interval(LEVEL)
        yield Covered(
            coverage=coverage,
            accuracy=value,
            interval=interval.within(Interval(low=min(0, value), high=max(1, value))),
            confidence=float(np.median([of.confidence_at(order, coverage) for order in orders])),
        )


def _reached(orders: Sequence[Ranked], curve: Sequence[Covered], wanted: float) -> Reached:
    """Return the largest coverage with the required accuracy `wanted`.

    The interval of the coverage begins at the largest coverage whose interval of the accuracy is
    completely above the required accuracy, and ends at the largest coverage whose interval is not
    completely below it.
    """
    mean = np.mean([of.accuracies(order) for order in orders], axis=0)
    enough = np.flatnonzero(mean >= wanted - 1e-12)
    coverage = (int(enough[-1]) + 1) / len(mean) if len(enough) else 0.0
    low = _largest(curve, lambda point: point.interval.low >= wanted)
    high = _largest(curve, lambda point: point.interval.high >= wanted)
    at = [of.confidence_at(order, coverage) for order in orders] if coverage else []
    return Reached(
        accuracy=wanted,
        coverage=Measured(
            value=coverage, interval=Interval(low=min(low, coverage), high=max(high, coverage))
        ),
        confidence=float(np.median(at)) if at else None,
    )


def _largest(curve: Sequence[Covered], fits: Callable[[Covered], bool]) -> float:
    return max((point.coverage for point in curve if fits(point)), default=0.0)


def _bins(judged: Judged) -> Iterator[Bin]:
    """Yield the bins of the reliability diagram, for the items of all runs together."""
    confidence = np.concatenate([run.confidence for run in judged.runs])
    right = np.concatenate([run.right for run in judged.runs])
    unit = np.tile(judged.unit, len(judged.runs))
    bins = of.equal_mass(confidence, max(1, min(of.BINS, len(judged.unit) // of.LEAST_IN_BIN)))
    for number in range(int(bins.max()) + 1):
        inside = bins == number
        yield Bin(
            confidence=float(confidence[inside].mean()),
            accuracy=float(right[inside].mean()),
            interval=_share_interval(right[inside], unit[inside]),
            share=float(inside.mean()),
        )


def _share_interval(right: Array, unit: Places) -> Interval:
    """Return the 95 % confidence interval over units for the share of right items."""
    _, place = np.unique(unit, return_inverse=True)
    units, share = int(place.max()) + 1, float(right.mean())
    if units < 2:
        return Interval(low=0.0, high=1.0)
    residuals = np.bincount(place, right - share, units)
    error = math.sqrt(float((residuals**2).sum()) * units / (units - 1)) / len(right)
    reach = max(error * student_t(units - 1, (1 + LEVEL) / 2), unseen_share(units, level=LEVEL))
    return Interval(low=max(0.0, share - reach), high=min(1.0, share + reach))
