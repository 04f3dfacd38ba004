"""Metrics of coreference: MUC, B3 and CEAF-e, and their mean F1, which ranked CoNLL-2012's systems.

They are computed as in version 8.01 of the official scorer
(https://github.com/conll/reference-coreference-scorers, lib/CorScorer.pm). Numerators and
denominators are summed over all documents before they are divided.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from benchharness.errors import BenchError
from benchharness.extensions.conll2012.task import (
    ClusterPrediction,
    Clusters,
    DocumentExample,
    Mention,
)
from benchharness.tasks.task import Metric, harmonic, total

CorefMetric = Metric[ClusterPrediction, DocumentExample]
Clustered = Sequence[ClusterPrediction]
Documents = Sequence[DocumentExample]


class Sums(NamedTuple):
    """Numerators and denominators of recall and precision for one coreference metric.

    Attributes:
        recalled: Numerator of recall.
        gold: Denominator of recall.
        precise: Numerator of precision.
        predicted: Denominator of precision.
    """

    recalled: float
    gold: float
    precise: float
    predicted: float

    @property
    def recall(self) -> float:
        """Recall; 0 if the denominator is 0, as in the official scorer."""
        return self.recalled / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Precision; 0 if the denominator is 0, as in the official scorer."""
        return self.precise / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        return harmonic(self.precision, self.recall)


def _shared(gold: Clusters, predicted: Clusters) -> Counter[tuple[int, int]]:
    """Count the mentions that are in both a gold and a predicted cluster.

    The counts are keyed by (index of the gold cluster, index of the predicted cluster). A mention
    in several gold clusters counts for the last of them, as in the official scorer.
    """
    place = {mention: number for number, cluster in enumerate(gold) for mention in cluster}
    return Counter(
        (place[mention], number)
        for number, cluster in enumerate(predicted)
        for mention in cluster
        if mention in place
    )


def _common(gold: Iterable[Iterable[Mention]], predicted: Clusters) -> Counter[tuple[int, int]]:
    """Count shared mentions like `_shared`, but for every gold cluster that contains the mention.

    If a gold cluster contains a mention several times, the mention is counted several times.
    """
    places = defaultdict[Mention, list[int]](list)
    for number, cluster in enumerate(gold):
        for mention in cluster:
            places[mention].append(number)
    return Counter(
        (one, number)
        for number, cluster in enumerate(predicted)
        for mention in cluster
        for one in places.get(mention, ())
    )


def muc(gold: Clusters, predicted: Clusters) -> Sums:
    """Compute MUC (Vilain et al. 1995) for one document.

    MUC counts links between mentions. A cluster with n mentions has n - 1 links. A link is right if
    its mentions are in the same gold cluster and in the same predicted cluster.
    """
    # A gold cluster and a predicted cluster with n common mentions share n - 1 links.
    shared = sum(count - 1 for count in _shared(gold, predicted).values())
    links = [sum(len(cluster) - 1 for cluster in side) for side in (gold, predicted)]
    return Sums(shared, links[0], shared, links[1])


def b_cubed(gold: Clusters, predicted: Clusters) -> Sums:
    """Compute B3 (Bagga and Baldwin 1998) for one document.

    For each mention, B3 computes which share of the mentions in its cluster is right. Precision is
    the mean over predicted mentions, and recall the mean over gold mentions.
    """
    shared = _shared(gold, predicted).items()
    common = _common(map(set, gold), predicted)
    # `count` and `common` are numbers of mentions that a gold and a predicted cluster share. They
    # differ only if a mention is in two gold clusters: `common` counts it for both, and `count` for
    # the last one. Each of the `count` mentions adds `common` / (size of the gold cluster) to the
    # numerator of recall, and `common` / (size of the predicted cluster) to that of precision. If a
    # gold cluster contains a mention twice, its size counts both, but the sum has only one term for
    # the mention.
    return Sums(
        total(count * common[both] / len(gold[both[0]]) for both, count in shared),
        sum(map(len, gold)),
        total(count * common[both] / len(predicted[both[1]]) for both, count in shared),
        sum(map(len, predicted)),
    )


def ceaf_e(gold: Clusters, predicted: Clusters) -> Sums:
    """Compute CEAF-e (Luo 2005) for one document.

    CEAF-e aligns each gold cluster with at most one predicted cluster, so that the total similarity
    of aligned clusters is as high as possible. The similarity of two clusters is twice the number
    of their shared mentions, divided by the sum of their sizes.
    """
    import numpy as np  # noqa: PLC0415  (needed only with scipy)
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  (importing takes a second)

    alike = np.zeros((len(gold), len(predicted)))
    for (one, other), count in _common(gold, predicted).items():
        # This is phi4 in the paper, 2 |K and R| / (|K| + |R|), of a gold cluster K and a predicted
        # cluster R.
        alike[one, other] = 2 * count / (len(gold[one]) + len(predicted[other]))
    best = float(alike[linear_sum_assignment(alike, maximize=True)].sum())
    return Sums(best, len(gold), best, len(predicted))


Measure = Callable[[Clusters, Clusters], Sums]

MEASURES: dict[str, Measure] = {"muc": muc, "b3": b_cubed, "ceafe": ceaf_e}
"""Functions that compute a coreference metric for one document, keyed by the prefix of the names of
the metric's scores.
"""


def summed(measure: Measure, predictions: Clustered, examples: Documents) -> Sums:
    """Sum the numerators and denominators of a coreference metric over all documents.

    Args:
        measure: Function that computes the metric for one document.
        predictions: Predicted clusters of each document.
        examples: Documents with gold clusters.

    Raises:
        BenchError: A document hides its clusters.
    """
    found = []
    for prediction, example in zip(predictions, examples, strict=True):
        if example.scored is None:
            raise BenchError(
                f"the clusters of document {example.id} are hidden: this document cannot be scored."
            )
        found.append(measure(example.scored, prediction.clusters))
    # As in the official scorer, the result is not a mean over documents.
    return Sums(*map(sum, zip(*found, strict=True))) if found else Sums(0, 0, 0, 0)


def _coref(name: str, value: Callable[[Clustered, Documents], float]) -> CorefMetric:
    library = None if name.startswith(("muc", "b3")) else "scipy.optimize"
    # If a gold cluster repeats a mention, CEAF-e counts each repetition as shared. So a similarity
    # may be as high as 2, and the mean of the three metrics as high as 4/3.
    high = 2.0 if name.startswith("ceafe") else 4 / 3 if name == "f1" else 1.0
    return Metric(name=name, compute=value, library=library, bounds=(0.0, high))


coreference_f1 = _coref("f1", lambda *both: fmean(summed(m, *both).f1 for m in MEASURES.values()))
"""CoNLL score: the mean F1 of MUC, B3 and CEAF-e. It can exceed 1 only if a gold cluster contains a
mention several times.
"""


def _detail(name: str, value: str) -> CorefMetric:
    measure = MEASURES[name]
    return _coref(f"{name}_{value}", lambda *both: float(getattr(summed(measure, *both), value)))


coreference_details = tuple(
    _detail(name, value) for name in MEASURES for value in ("precision", "recall", "f1")
)
"""Precision, recall and F1 of each coreference metric, as in the tables of papers."""
