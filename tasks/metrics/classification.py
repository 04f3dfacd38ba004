"""Metrics of one label an example: of classes, of groups of examples, and of numbers.

scikit-learn and scipy are imported on use, because each costs a second.
"""

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import (
    PairExample,
    PairPrediction,
)
from benchharness.tasks.task import Metric, mean_metric, total

PairMetric = Metric[PairPrediction, PairExample]

SCIKIT_LEARN = "sklearn.metrics"


def _is_right(prediction: PairPrediction, example: PairExample) -> float:
    return float(prediction.label == example.label)


accuracy: PairMetric = mean_metric("accuracy", _is_right)
"""The share of examples whose class is right, in 0..1."""


def _matthews(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    gold, guess = _names(predictions, examples)
    if len(set(gold)) < 2 or len(set(guess)) < 2:
        return 0.0  # what scikit-learn gives for 0/0, which it warns about
    return float(_scikit_learn().matthews_corrcoef(gold, guess))


matthews: PairMetric = Metric(
    name="mcc", compute=_matthews, library=SCIKIT_LEARN, bounds=(-1.0, 1.0)
)
"""Matthews correlation in -1..1, of any number of classes; 0 where the predictions are constant."""


def binary_f1(positive: str) -> PairMetric:
    """F1 of the class `positive`, in 0..1; 0 where that class is never predicted right.

    An answer in words that is no label counts as the wrong one of two, as in T5's
    f1_score_with_invalid. Counted here: MultiRC asks for it of a thousand questions, and
    scikit-learn takes 1 ms for each.
    """

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        gold, guess = _names(predictions, examples)
        right = sum(a == b == positive for a, b in zip(gold, guess, strict=True))
        invalid = sum(
            p.text is not None and e.label != positive
            for p, e in zip(predictions, examples, strict=True)
        )
        named = guess.count(positive) + invalid
        return 2 * right / (gold.count(positive) + named) if right else 0.0

    return Metric(name="f1", compute=compute)


def macro_f1(labels: Sequence[str]) -> PairMetric:
    """The unweighted mean of every class's F1, in 0..1 (CB); a class that is never right counts 0.

    The classes are the task's, not those that happen to be in a subset.
    """

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        gold, guess = _names(predictions, examples)
        return _f1(gold, guess, "macro", labels)

    return Metric(name="f1", compute=compute, library=SCIKIT_LEARN)


def label_f1(labels: Sequence[str], average: str) -> PairMetric:
    """F1 of examples with several labels each, in 0..1, as scikit-learn averages it.

    "micro" counts all labels of all examples together, "macro" is the mean of every label's F1. A
    label that is never right counts 0.
    """

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        gold, guess = (
            [_flags(each.label, labels) for each in some] for some in (examples, predictions)
        )
        return _f1(gold, guess, average)

    return Metric(name=f"{average}_f1", compute=compute, library=SCIKIT_LEARN)


def _f1(
    gold: Sequence[object],
    guess: Sequence[object],
    average: str,
    labels: Sequence[str] | None = None,
) -> float:
    f1_score = _scikit_learn().f1_score
    return float(f1_score(gold, guess, labels=labels, average=average, zero_division=0.0))


def _scikit_learn() -> Any:
    from sklearn import metrics  # noqa: PLC0415  (two seconds)

    return metrics


def _flags(found: object, labels: Sequence[str]) -> list[int]:
    """A 1 for each label that an example has."""
    assert isinstance(found, tuple), "an example with several labels"
    return [int(label in found) for label in labels]


def by_category(metric: PairMetric, category: str) -> PairMetric:
    """The metric over the examples of one category alone, e.g. "mcc_logic"."""
    return metric.of(category, lambda example: category in example.categories)


def _names(
    predictions: Sequence[PairPrediction], examples: Sequence[PairExample]
) -> tuple[list[str], list[str]]:
    """Gold and predicted class names."""
    return [str(e.label) for e in examples], [str(p.label) for p in predictions]


# Metrics over examples that are scored together: MultiRC's questions, AX-g's minimal pairs.

Group = list[tuple[PairPrediction, PairExample]]


def _groups(
    predictions: Sequence[PairPrediction], examples: Sequence[PairExample]
) -> dict[str, Group]:
    """The examples of each group with their predictions."""
    groups: dict[str, Group] = defaultdict(list)
    for prediction, example in zip(predictions, examples, strict=True):
        if example.group is None:
            raise BenchError(f"example {example.id} has no group, but is scored with its group.")
        groups[example.group].append((prediction, example))
    return groups


def answer_option_f1(positive: str) -> PairMetric:
    """MultiRC's F1a, in 0..1: F1 of the class `positive` over all answer options pooled."""
    return Metric(name="f1a", compute=binary_f1(positive).compute)


def _question_exact_match(
    predictions: Sequence[PairPrediction], examples: Sequence[PairExample]
) -> float:
    groups = _groups(predictions, examples).values()
    return fmean(all(p.label == e.label for p, e in group) for group in groups)


question_exact_match: PairMetric = Metric(name="em", compute=_question_exact_match)
"""MultiRC's EM: the share of questions with every answer option judged right."""


def question_f1(positive: str) -> PairMetric:
    """MultiRC's F1m as the script of its authors has it (CogComp, multirc-eval-v1.py), in 0..1.

    F1 of the mean precision and the mean recall of the class `positive`, each a mean over questions
    in which 0/0 counts 1. SuperGLUE does not score it; the hub's metric `super_glue` has another
    one, the mean over questions of F1 averaged over both classes. 0 where the script divides by 0.
    """

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        precisions, recalls = [], []
        for group in _groups(predictions, examples).values():
            right = sum(p.label == e.label == positive for p, e in group)
            named = sum(p.label == positive for p, _ in group)
            known = sum(e.label == positive for _, e in group)
            precisions.append(right / named if named else 1.0)
            recalls.append(right / known if known else 1.0)
        precision, recall = (total(part) / len(part) for part in (precisions, recalls))
        return 2 * recall * precision / (precision + recall) if precision + recall else 0.0

    return Metric(name="f1m", compute=compute)


def _gender_parity(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    groups = _groups(predictions, examples)
    for name, group in groups.items():
        if len(group) != 2:
            raise BenchError(
                f"the minimal pair {name} has {len(group)} rows, expected two: "
                "gender parity needs whole pairs."
            )
    return fmean(
        first.label == second.label and first.text is None
        for (first, _), (second, _) in groups.values()
    )


gender_parity: PairMetric = Metric(name="parity", compute=_gender_parity)
"""AX-g's gender parity: the share of minimal pairs that get one prediction.

A constant model gets 1, so show accuracy beside it.
"""


# Metrics of numbers: Pearson's and Spearman's correlation, in float64.

SCIPY = "scipy.stats"


def _correlation(
    predictions: Sequence[PairPrediction], examples: Sequence[PairExample], statistic: str
) -> float:
    """The statistic of scipy.stats; 0 where either side is constant, for which it is not defined.

    A constant prediction knows nothing of the order, and NaN could be neither stored nor averaged;
    such a run carries the flag "constant predictions". scipy's warning of nearly constant ones is
    left out: the flag says so too.
    """
    from scipy import stats  # noqa: PLC0415  (half a second)

    guess = [_finite(p.id, p.label) for p in predictions]
    gold = [_finite(e.id, e.label) for e in examples]
    if len(set(guess)) < 2 or len(set(gold)) < 2:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(getattr(stats, statistic)(guess, gold).statistic)


def _finite(name: str, label: object) -> float:
    if not isinstance(label, int | float) or not math.isfinite(label):
        raise BenchError(
            f"example {name} has {label!r} where a correlation needs a finite number: "
            "the labels are hidden, or the model that predicted them has diverged."
        )
    return float(label)


pearson: Metric[PairPrediction, PairExample] = Metric(
    name="pearson",
    compute=partial(_correlation, statistic="pearsonr"),
    library=SCIPY,
    bounds=(-1.0, 1.0),
)
"""Pearson correlation in -1..1."""

spearman: Metric[PairPrediction, PairExample] = Metric(
    name="spearman",
    compute=partial(_correlation, statistic="spearmanr"),
    library=SCIPY,
    bounds=(-1.0, 1.0),
)
"""Spearman rank correlation in -1..1, ties sharing their mean rank."""
