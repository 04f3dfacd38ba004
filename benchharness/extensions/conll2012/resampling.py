"""Parts of coreference scores per document, from which bootstrap resamples are scored."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchharness.extensions.conll2012.metrics import MEASURES
from benchharness.leaderboard.comparing import Array, Breakdown, Units, divided, summed


def breakdowns(_: Any, metric: str) -> Iterator[Breakdown]:
    """Yield a decomposition of the mean F1, from which bootstrap resamples are scored.

    The parts are the numerators and denominators of all coreference metrics for each document.
    Nothing is yielded for any metric except the mean F1.

    Args:
        _: Not used.
        metric: The name of the metric.
    """
    if metric == "f1":
        yield Breakdown(parts=_cluster_sums, score=mean_f1_of_sums)


def _cluster_sums(predictions: Sequence[Any], examples: Sequence[Any], units: Units) -> Array:
    """Return the numerators and denominators of all coreference metrics for each document."""
    pairs = zip(predictions, examples, strict=True)
    return summed(
        [
            [number for m in MEASURES.values() for number in m(e.scored, p.clusters)]
            for p, e in pairs
        ],
        units,
    )


def mean_f1_of_sums(means: Array) -> Array:
    """Return the mean of the F1 scores of several metrics.

    Args:
        means: Array whose last axis has four numbers per metric, one metric after the other:
            numerator and denominator of recall, then numerator and denominator of precision. Other
            axes are kept.
    """
    # Each slice has every fourth number, e.g. the recall numerators of all metrics.
    recalled, gold, precise, predicted = (means[..., place::4] for place in range(4))
    precision, recall = divided(precise, predicted), divided(recalled, gold)
    mean: Array = divided(2 * precision * recall, precision + recall).mean(-1)
    return mean
