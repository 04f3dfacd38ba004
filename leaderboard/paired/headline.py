"""A task's headline score on its splits as pairs that can be resampled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leaderboard.comparing import Outcomes, Pairs
from leaderboard.comparing.breakdown import Breakdown, break_down
from leaderboard.paired.predicted import PredictedSplit
from leaderboard.paired.units import Units, units_of
from tasks.task import Metric

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["Headline", "headline_outcomes", "headline_pairs"]

Named = tuple[PredictedSplit, Metric[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The pairs of a task's score; `units` are the examples of each, split after split.

    `is_accuracy` where the score is the share of examples that are right, of one split.
    """

    pairs: Pairs
    units: Units
    is_accuracy: bool


def headline_pairs(splits: Sequence[PredictedSplit], names: Sequence[str]) -> Headline | None:
    """The headline score, the mean of the scores of these names; None where one has no parts.

    A name of a second split ends with what the split's name does: MNLI's "accuracy_mm".
    """
    import numpy as np

    known = _known(splits, names)
    if known is None:
        return None
    one, other = (_side(splits, known, side) for side in ("one", "other"))
    is_binary = all(bool(np.isin(side[..., 0], (0.0, 1.0)).all()) for side in (one, other))
    alone = len(known) == len(splits) == 1 and known[0][1].is_mean
    units = _all_units(splits)
    return Headline(
        pairs=Pairs(one=one, other=other, score=_mean_score(known)),
        units=units,
        is_accuracy=alone and is_binary and all(len(unit) == 1 for unit in units),
    )


def headline_outcomes(splits: Sequence[PredictedSplit], names: Sequence[str]) -> Outcomes | None:
    """The same of one system alone, whose predictions are `one`."""
    known = _known(splits, names)
    if known is None:
        return None
    return Outcomes(parts=_side(splits, known, "one"), score=_mean_score(known))


def _known(
    splits: Sequence[PredictedSplit], names: Sequence[str]
) -> list[tuple[Named, Breakdown]] | None:
    """Each score's split and metric, and how it is taken apart."""
    columns = [_find(splits, name) for name in names]
    ways = [None if column is None else _way(*column) for column in columns]
    known = [(c, w) for c, w in zip(columns, ways, strict=True) if c is not None and w is not None]
    return known if len(known) == len(names) else None


def _side(
    splits: Sequence[PredictedSplit], known: Sequence[tuple[Named, Breakdown]], side: str
) -> "Array":
    """[units of all splits, seeds, parts of all scores]."""
    import numpy as np

    return np.concatenate([_placed(splits, c[0], w, side) for c, w in known], axis=-1)


def _mean_score(known: Sequence[tuple[Named, Breakdown]]) -> "Callable[[Array], Array]":
    """The mean of the scores, each of its own parts."""
    import numpy as np

    widths = [_parts(c[0], w, c[0].one[0]).shape[-1] for c, w in known]
    formulas = [w.score for _, w in known]

    def score(means: "Array") -> "Array":
        pieces = np.split(means, np.cumsum(widths)[:-1], axis=-1)
        scores = [formula(piece) for formula, piece in zip(formulas, pieces, strict=True)]
        mean: Array = np.mean(scores, axis=0)
        return mean

    return score


def _find(splits: Sequence[PredictedSplit], name: str) -> Named | None:
    """The split and the metric of a score's name."""
    for split in splits:
        ending = split.split.partition("_")[2]
        for metric in (*split.task.metrics, *split.task.details):
            if name == (f"{metric.name}_{ending}" if ending else metric.name):
                return split, metric
    return None


def _way(split: PredictedSplit, metric: Metric[Any, Any]) -> Breakdown | None:
    return break_down(split.task, metric, (*split.one, *split.other), split.examples)


def _parts(split: PredictedSplit, way: Breakdown, run: Sequence[Any]) -> "Array":
    return way.parts(run, split.examples, units_of(split.examples))


def _placed(
    splits: Sequence[PredictedSplit], own: PredictedSplit, way: Breakdown, side: str
) -> "Array":
    """[units of all splits, seeds, parts], 0 at the units of other splits."""
    import numpy as np

    runs: Sequence[Sequence[Any]] = getattr(own, side)
    parts = np.stack([_parts(own, way, run) for run in runs], axis=1)
    empty = [np.zeros((len(units_of(s.examples)), *parts.shape[1:])) for s in splits]
    return np.concatenate([parts if s is own else e for s, e in zip(splits, empty, strict=True)])


def _all_units(splits: Sequence[PredictedSplit]) -> Units:
    """The units of all splits, whose examples are counted on from split to split."""
    found: list[list[int]] = []
    start = 0
    for split in splits:
        found += [[start + place for place in unit] for unit in units_of(split.examples)]
        start += len(split.examples)
    return found
