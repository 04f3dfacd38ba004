"""Metrics for classes, groups of examples, numbers and options.

scikit-learn and scipy are imported on use, because each import takes a second or more.
"""

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import eq
from statistics import fmean
from typing import Any

from benchharness.errors import BenchError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    PairPrediction,
)
from benchharness.tasks.metrics.squad import exact_match, token_f1
from benchharness.tasks.task import Metric, harmonic, mean_metric, total

PairMetric = Metric[PairPrediction, PairExample]
Predictions = Sequence[PairPrediction]
Examples = Sequence[PairExample]

SCIKIT_LEARN = "sklearn.metrics"


accuracy: PairMetric = mean_metric("accuracy", lambda p, e: float(p.label == e.label))
"""Fraction of the examples whose predicted class (or set of labels) equals the gold one."""


def _matthews(predictions: Predictions, examples: Examples) -> float:
    gold, guess = _names(predictions, examples)
    rows, right = len(gold), sum(map(eq, gold, guess))
    golds, guesses = Counter(gold), Counter(guess)
    # This is scikit-learn's formula. scikit-learn is not imported, because the import takes longer
    # than running a small model.
    shared = right * rows - sum(golds[name] * count for name, count in guesses.items())
    own = [float(rows**2 - sum(n**2 for n in counts.values())) for counts in (golds, guesses)]
    return shared / math.sqrt(own[0] * own[1]) if all(own) else 0.0


matthews: PairMetric = Metric(name="mcc", compute=_matthews, bounds=(-1.0, 1.0))
"""Matthews correlation in -1..1 for any number of classes.

It is 0 if the gold labels or the predictions are constant.
"""


def binary_f1(positive: str) -> PairMetric:
    """Create the F1 metric of the class `positive` in a task with two classes, in 0..1.

    The F1 is 0 if the class is never predicted correctly. An output that is not a valid label
    counts as the wrong one of the two classes, as in T5's f1_score_with_invalid.
    """

    def compute(predictions: Predictions, examples: Examples) -> float:
        gold, guess = _names(predictions, examples)
        # F1 = 2 TP / (2 TP + FP + FN) = 2 TP / (gold positives + predicted positives). An output
        # that is not a label counts as a false positive or a false negative. scikit-learn is not
        # used, because it takes 1 ms per call.
        right = sum(a == b == positive for a, b in zip(gold, guess, strict=True))
        invalid = sum(
            p.text is not None and e.label != positive
            for p, e in zip(predictions, examples, strict=True)
        )
        named = guess.count(positive) + invalid
        return 2 * right / (gold.count(positive) + named) if right else 0.0

    return Metric(name="f1", compute=compute)


def macro_f1(labels: Sequence[str]) -> PairMetric:
    """Create the macro F1 metric, the unweighted mean of the F1 of all classes, in 0..1.

    The mean is over all `labels`, even if some of them do not occur in the examples. A class that
    is never predicted correctly has an F1 of 0.

    Args:
        labels: Names of all classes.
    """
    return replace(_f1("f1", "macro", str, labels), title="macro F1")


def label_f1(labels: Sequence[str], average: str, *, none_is_one: bool = False) -> PairMetric:
    """Create the F1 metric, in 0..1, for examples with any number of labels.

    Args:
        labels: All labels of the task.
        average: "micro" to pool the labels of all examples, or "macro" for the mean of the F1 of
            all labels. A label that is never predicted correctly has an F1 of 0.
        none_is_one: True to treat "no label" as an additional label, which examples without labels
            have, as in experiments/ecthr.py of coastalcph/lex-glue.
    """

    def read(found: Sequence[str]) -> list[int]:
        own = [int(each in found) for each in labels]
        return [*own, int(not any(own))] if none_is_one else own

    return _f1(f"{average}_f1", average, read)


def occurring_f1(average: str) -> PairMetric:
    """Create the F1 metric, in 0..1, over the classes that occur in the examples or predictions.

    A class that does not occur is ignored, as by default in scikit-learn, and as in LexGLUE
    (experiments/scotus.py of coastalcph/lex-glue).

    Args:
        average: "micro" to pool all classes, or "macro" for the mean of the F1 of the classes.
    """
    return _f1(f"{average}_f1", average, str)


def _f1(
    name: str, average: str, read: Callable[[Any], object], labels: Sequence[str] | None = None
) -> PairMetric:
    """Create a metric that computes scikit-learn's F1 of the labels as converted by `read`."""

    def compute(predictions: Predictions, examples: Examples) -> float:
        gold, guess = ([read(each.label) for each in some] for some in (examples, predictions))
        f1_score = _scikit_learn().f1_score
        return float(f1_score(gold, guess, labels=labels, average=average, zero_division=0.0))

    return Metric(name=name, compute=compute, library=SCIKIT_LEARN)


def _scikit_learn() -> Any:
    from sklearn import metrics  # noqa: PLC0415  (the import takes two seconds)

    return metrics


def by_category(metric: PairMetric, category: str) -> PairMetric:
    """Return the metric restricted to the examples that have a category (see `PairExample`).

    The category is appended to the name of the metric: "mcc" and "logic" give "mcc_logic".
    """
    return metric.of(category, lambda example: category in example.categories)


def _names(predictions: Predictions, examples: Examples) -> tuple[list[str], list[str]]:
    """Return the gold class names and the predicted class names."""
    return [str(e.label) for e in examples], [str(p.label) for p in predictions]


# The following metrics score groups of examples: all answer options of a question (MultiRC), or the
# two examples of a minimal pair (AX-g).

Group = list[tuple[PairPrediction, PairExample]]


def _groups(predictions: Predictions, examples: Examples) -> dict[str, Group]:
    """Return the (prediction, example) pairs of each group, keyed by the group's name.

    Raises BenchError if an example has no group.
    """
    groups: dict[str, Group] = defaultdict(list)
    for prediction, example in zip(predictions, examples, strict=True):
        if example.group is None:
            raise BenchError(
                f"example {example.id} has no group, but this metric scores groups of examples."
            )
        groups[example.group].append((prediction, example))
    return groups


def answer_option_f1(positive: str) -> PairMetric:
    """Create MultiRC's F1a, in 0..1: the F1 of the class `positive` over all answer options.

    Answer options are examples in MultiRC, so F1a is `binary_f1` under another name.
    """
    return Metric(name="f1a", compute=binary_f1(positive).compute)


def _question_exact_match(predictions: Predictions, examples: Examples) -> float:
    groups = _groups(predictions, examples).values()
    return fmean(all(p.label == e.label for p, e in group) for group in groups)


question_exact_match: PairMetric = Metric(name="em", compute=_question_exact_match)
"""MultiRC's EM: fraction of the questions for which every answer option is classified correctly."""


def question_f1(positive: str) -> PairMetric:
    """Create MultiRC's F1m, in 0..1, as in the authors' script (CogComp, multirc-eval-v1.py).

    F1m is the harmonic mean of two means over questions: the mean precision and the mean recall of
    the class `positive`. If the precision or recall of a question is undefined (0/0), it counts as
    1. If both means are 0, the metric is 0, whereas the script divides by zero.

    SuperGLUE does not use this metric. The F1m in the hub's metric `super_glue` is defined
    differently: it is the mean over questions of the macro F1 of both classes.
    """

    def compute(predictions: Predictions, examples: Examples) -> float:
        precisions, recalls = [], []
        for group in _groups(predictions, examples).values():
            right = sum(p.label == e.label == positive for p, e in group)
            named = sum(p.label == positive for p, _ in group)
            known = sum(e.label == positive for _, e in group)
            precisions.append(right / named if named else 1.0)
            recalls.append(right / known if known else 1.0)
        # This is the F1 of the two means, which differs from the mean of the questions' F1.
        return harmonic(*(total(part) / len(part) for part in (precisions, recalls)))

    return Metric(name="f1m", compute=compute)


def _gender_parity(predictions: Predictions, examples: Examples) -> float:
    groups = _groups(predictions, examples)
    for name, group in groups.items():
        if len(group) != 2:
            raise BenchError(
                f"the minimal pair {name} has {len(group)} rows, expected two: "
                "gender parity compares the two rows of a pair."
            )
    # Two invalid outputs have the same label "", which must not count as parity.
    return fmean(
        first.label == second.label and first.text is None
        for (first, _), (second, _) in groups.values()
    )


gender_parity: PairMetric = Metric(name="parity", compute=_gender_parity)
"""AX-g's gender parity: fraction of the minimal pairs with equal predictions for both rows.

Two outputs that are not valid labels do not count as equal. A model with constant predictions has a
parity of 1, so the accuracy should be shown too.
"""


# The metrics of regression tasks are the Pearson and Spearman correlations, computed in float64.


def _correlation(name: str) -> PairMetric:
    """Create a metric from `pearsonr` or `spearmanr` in scipy.stats.

    The correlation is undefined if the predictions or the gold numbers are constant; it is then 0,
    because NaN cannot be stored or averaged. Runs with constant predictions get a warning of their
    own, so scipy's warning about nearly constant input is suppressed.
    """

    def compute(predictions: Predictions, examples: Examples) -> float:
        from scipy import stats  # noqa: PLC0415  (the import takes half a second)

        guess = [_finite(p.id, p.label) for p in predictions]
        gold = [_finite(e.id, e.label) for e in examples]
        if len(set(guess)) < 2 or len(set(gold)) < 2:
            return 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.NearConstantInputWarning)
            return float(getattr(stats, f"{name}r")(guess, gold).statistic)

    return Metric(name=name, compute=compute, library="scipy.stats", bounds=(-1.0, 1.0))


def _finite(name: str, label: object) -> float:
    if not isinstance(label, int | float) or not math.isfinite(label):
        raise BenchError(
            f"example {name} has the label {label!r}, but a correlation needs a finite number: "
            "the label is hidden, or it was predicted by a model whose training has diverged."
        )
    return float(label)


pearson = _correlation("pearson")
"""Pearson correlation in -1..1."""

spearman = _correlation("spearman")
"""Spearman rank correlation in -1..1; tied values get their mean rank."""


# The metrics of multiple-choice tasks are the accuracy over all examples or one slice, and ReCoRD's
# EM and F1.

ChoiceMetric = Metric[ChoicePrediction, ChoiceExample]


def _right(example: ChoiceExample) -> tuple[int, ...]:
    if example.gold is None:
        raise BenchError(
            f"the right option of example {example.id} is hidden: this example cannot be scored."
        )
    return example.gold


choice_accuracy: ChoiceMetric = mean_metric("accuracy", lambda p, e: float(p.option in _right(e)))
"""Fraction of the examples for which the chosen option is right."""


def of_group(metric: ChoiceMetric, group: str) -> ChoiceMetric:
    """Return the metric restricted to the examples of one group (`ChoiceExample.group`).

    The group is appended to the name of the metric: "accuracy" and "middle" give "accuracy_middle".
    """
    return metric.of(group, lambda example: example.group == group)


def _text_metric(name: str, measure: Callable[[str, str], float]) -> ChoiceMetric:
    """Create a metric that compares the text of an answer with the most similar right answer.

    The text of an answer is its chosen option, or the text in a prediction file. A missing answer
    scores 0.
    """

    def points(prediction: ChoicePrediction, example: ChoiceExample) -> float:
        golds, text = [example.options[place] for place in _right(example)], prediction.text
        if prediction.option >= 0:
            text = example.options[prediction.option]
        if text is None:
            return 0.0
        return max(measure(text, gold) for gold in (*golds, *example.answers))

    return mean_metric(name, points)


option_exact_match = _text_metric("em", exact_match)
"""ReCoRD's EM: fraction of the examples whose predicted answer equals a right answer.

Both texts are normalised as in SQuAD before they are compared.
"""

option_f1 = _text_metric("f1", token_f1)
"""ReCoRD's F1: token F1 of an answer and the most similar right answer, averaged over examples."""
