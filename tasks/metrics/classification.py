"""Metrics of class names: accuracy, F1 of one class or all, Matthews correlation, and slices.

scikit-learn is imported on use, because it costs a second.
"""

from collections.abc import Sequence
from dataclasses import replace

from tasks.examples import PairExample, PairPrediction
from tasks.task import Metric

__all__ = ["accuracy", "binary_f1", "by_category", "macro_f1", "matthews"]

PairMetric = Metric[PairPrediction, PairExample]

SCIKIT_LEARN = "sklearn.metrics"


def _accuracy(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    right = sum(p.label == e.label for p, e in zip(predictions, examples, strict=True))
    return right / len(examples)


accuracy: PairMetric = Metric(name="accuracy", compute=_accuracy)
"""The share of examples whose class is right, in 0..1."""


def _matthews(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    from sklearn.metrics import matthews_corrcoef

    gold, guess = _names(predictions, examples)
    if len(set(gold)) < 2 or len(set(guess)) < 2:
        return 0.0  # what scikit-learn gives for 0/0, which it warns about
    return float(matthews_corrcoef(gold, guess))


matthews: PairMetric = Metric(name="mcc", compute=_matthews, library=SCIKIT_LEARN)
"""Matthews correlation in -1..1, of any number of classes; 0 where the predictions are constant."""


def binary_f1(positive: str) -> PairMetric:
    """F1 of the class `positive`, in 0..1; 0 where that class is never predicted right.

    Counted here: MultiRC asks for it of a thousand questions, and scikit-learn takes 1 ms for each.
    """

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        gold, guess = _names(predictions, examples)
        right = sum(a == b == positive for a, b in zip(gold, guess, strict=True))
        return 2 * right / (gold.count(positive) + guess.count(positive)) if right else 0.0

    return Metric(name="f1", compute=compute)


def macro_f1(labels: Sequence[str]) -> PairMetric:
    """The unweighted mean of every class's F1, in 0..1 (CB); a class that is never right counts 0.

    The classes are the task's, not those that happen to be in a subset.
    """

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        from sklearn.metrics import f1_score

        gold, guess = _names(predictions, examples)
        return float(f1_score(gold, guess, labels=labels, average="macro", zero_division=0.0))

    return Metric(name="f1", compute=compute, library=SCIKIT_LEARN)


def by_category(metric: PairMetric, category: str) -> PairMetric:
    """The metric over the examples of one category alone, e.g. "mcc_logic".

    None where no example is of the category (a small subset).
    """

    def compute(
        predictions: Sequence[PairPrediction], examples: Sequence[PairExample]
    ) -> float | None:
        pairs = zip(predictions, examples, strict=True)
        chosen = [(p, e) for p, e in pairs if category in e.categories]
        if not chosen:
            return None
        return metric.compute([p for p, _ in chosen], [e for _, e in chosen])

    return replace(metric, name=f"{metric.name}_{category}", compute=compute)


def _names(
    predictions: Sequence[PairPrediction], examples: Sequence[PairExample]
) -> tuple[list[str], list[str]]:
    """Gold and predicted class names."""
    return [str(e.label) for e in examples], [str(p.label) for p in predictions]
