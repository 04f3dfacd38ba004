"""Metrics of one answer an example: of classes, groups of examples, numbers, and options.

scikit-learn and scipy are imported on use, because each costs a second.
"""

import math
import warnings
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import eq
from statistics import fmean
from typing import Any

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    PairPrediction,
    QueryExample,
    RankingPrediction,
)
from benchharness.tasks.metrics.squad import exact_match, token_f1
from benchharness.tasks.task import Metric, harmonic, mean_metric, total

PairMetric = Metric[PairPrediction, PairExample]
Predictions = Sequence[PairPrediction]
Examples = Sequence[PairExample]

SCIKIT_LEARN = "sklearn.metrics"


accuracy: PairMetric = mean_metric("accuracy", lambda p, e: float(p.label == e.label))
"""The share of examples whose class is right, in 0..1."""


def _matthews(predictions: Predictions, examples: Examples) -> float:
    gold, guess = _names(predictions, examples)
    rows, right = len(gold), sum(map(eq, gold, guess))
    golds, guesses = Counter(gold), Counter(guess)
    # As scikit-learn counts, whose import takes longer than a small encoder's run.
    shared = right * rows - sum(golds[name] * count for name, count in guesses.items())
    own = [float(rows**2 - sum(n**2 for n in counts.values())) for counts in (golds, guesses)]
    return shared / math.sqrt(own[0] * own[1]) if all(own) else 0.0


matthews: PairMetric = Metric(name="mcc", compute=_matthews, bounds=(-1.0, 1.0))
"""Matthews correlation in -1..1, of any number of classes; 0 where the predictions are constant."""


def binary_f1(positive: str) -> PairMetric:
    """F1 of the class `positive`, in 0..1; 0 where that class is never predicted right.

    An answer in words that is no label counts as the wrong one of two, as in T5's
    f1_score_with_invalid. Counted here: MultiRC asks for it of a thousand questions, and
    scikit-learn takes 1 ms for each.
    """

    def compute(predictions: Predictions, examples: Examples) -> float:
        gold, guess = _names(predictions, examples)
        # F1 = 2 TP / (2 TP + FP + FN), which is 2 right / (gold ones + predicted ones). What is no
        # label counts as a predicted `positive` where that is wrong, else as a miss.
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
    return _f1("f1", "macro", str, labels)


def label_f1(labels: Sequence[str], average: str, *, none_is_one: bool = False) -> PairMetric:
    """F1 of examples with several labels each, in 0..1, as scikit-learn averages it.

    "micro" counts all labels of all examples together, "macro" is the mean of every label's F1. A
    label that is never right counts 0. With `none_is_one` to have none is one more label, as in
    coastalcph/lex-glue experiments/ecthr.py.
    """

    def read(found: Sequence[str]) -> list[int]:
        own = [int(each in found) for each in labels]
        return [*own, int(not any(own))] if none_is_one else own

    return _f1(f"{average}_f1", average, read)


def occurring_f1(average: str) -> PairMetric:
    """F1 of classes, in 0..1, of those that an example or a prediction has.

    As scikit-learn has it where no labels are named (coastalcph/lex-glue experiments/scotus.py).
    """
    return _f1(f"{average}_f1", average, str)


def _f1(
    name: str, average: str, read: Callable[[Any], object], labels: Sequence[str] | None = None
) -> PairMetric:
    """scikit-learn's F1 of what is `read` of a label."""

    def compute(predictions: Predictions, examples: Examples) -> float:
        gold, guess = ([read(each.label) for each in some] for some in (examples, predictions))
        f1_score = _scikit_learn().f1_score
        return float(f1_score(gold, guess, labels=labels, average=average, zero_division=0.0))

    return Metric(name=name, compute=compute, library=SCIKIT_LEARN)


def _scikit_learn() -> Any:
    from sklearn import metrics  # noqa: PLC0415  (two seconds)

    return metrics


def by_category(metric: PairMetric, category: str) -> PairMetric:
    """The metric over the examples of one category alone, e.g. "mcc_logic"."""
    return metric.of(category, lambda example: category in example.categories)


def _names(predictions: Predictions, examples: Examples) -> tuple[list[str], list[str]]:
    """Gold and predicted class names."""
    return [str(e.label) for e in examples], [str(p.label) for p in predictions]


# Metrics over examples that are scored together: MultiRC's questions, AX-g's minimal pairs.

Group = list[tuple[PairPrediction, PairExample]]


def _groups(predictions: Predictions, examples: Examples) -> dict[str, Group]:
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


def _question_exact_match(predictions: Predictions, examples: Examples) -> float:
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

    def compute(predictions: Predictions, examples: Examples) -> float:
        precisions, recalls = [], []
        for group in _groups(predictions, examples).values():
            right = sum(p.label == e.label == positive for p, e in group)
            named = sum(p.label == positive for p, _ in group)
            known = sum(e.label == positive for _, e in group)
            precisions.append(right / named if named else 1.0)
            recalls.append(right / known if known else 1.0)
        # F1 of the two means, which is another number than the mean of the questions' F1.
        return harmonic(*(total(part) / len(part) for part in (precisions, recalls)))

    return Metric(name="f1m", compute=compute)


def _gender_parity(predictions: Predictions, examples: Examples) -> float:
    groups = _groups(predictions, examples)
    for name, group in groups.items():
        if len(group) != 2:
            raise BenchError(
                f"the minimal pair {name} has {len(group)} rows, expected two: "
                "gender parity needs whole pairs."
            )
    # Two answers in words that are no label have one label, "", and are no parity all the same.
    return fmean(
        first.label == second.label and first.text is None
        for (first, _), (second, _) in groups.values()
    )


gender_parity: PairMetric = Metric(name="parity", compute=_gender_parity)
"""AX-g's gender parity: the share of minimal pairs that get one prediction.

A constant model gets 1, so show accuracy beside it.
"""


# Metrics of numbers: Pearson's and Spearman's correlation, in float64.


def _correlation(name: str) -> PairMetric:
    """A statistic of scipy.stats; 0 where either side is constant, for which it is not defined.

    A constant prediction knows nothing of the order, and NaN could be neither stored nor averaged;
    such a run carries the flag "constant predictions". scipy's warning of nearly constant ones is
    left out: the flag says so too.
    """

    def compute(predictions: Predictions, examples: Examples) -> float:
        from scipy import stats  # noqa: PLC0415  (half a second)

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
            f"example {name} has {label!r} where a correlation needs a finite number: "
            "the labels are hidden, or the model that predicted them has diverged."
        )
    return float(label)


pearson = _correlation("pearson")
"""Pearson correlation in -1..1."""

spearman = _correlation("spearman")
"""Spearman rank correlation in -1..1, ties sharing their mean rank."""


# Metrics of chosen options: accuracy, of all and of one slice, and ReCoRD's EM and F1.

ChoiceMetric = Metric[ChoicePrediction, ChoiceExample]


def _right(example: ChoiceExample) -> tuple[int, ...]:
    if example.gold is None:
        raise BenchError(f"example {example.id} hides its right option, so it cannot be scored.")
    return example.gold


choice_accuracy: ChoiceMetric = mean_metric("accuracy", lambda p, e: float(p.option in _right(e)))
"""The share of examples whose chosen option is a right one, in 0..1; RACE's is over all pooled."""


def of_group(metric: ChoiceMetric, group: str) -> ChoiceMetric:
    """The metric over the examples of one group alone, e.g. RACE's "accuracy_middle"."""
    return metric.of(group, lambda example: example.group == group)


def _text_metric(name: str, measure: Callable[[str, str], float]) -> ChoiceMetric:
    """The mean of the answer's text against the most alike text of a right option.

    The text is that of the chosen option, or the file's own words; a missing answer counts 0.
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
"""ReCoRD's EM: the answer's text equals a right one after SQuAD's normalisation."""

option_f1 = _text_metric("f1", token_f1)
"""ReCoRD's F1: the words that the answer shares with the most alike right one, in 0..1."""


# Rankings as trec_eval counts them, a value for each query; the score is their mean.
#
# Documents go by their score in fp32, equal scores by their id, the higher one first. A grade is
# the gain as it is, one below 0 is none, a document without a judgement is not relevant, and a
# query without a relevant document counts 0.

DEPTH = 10
"""Of nDCG and MRR: how many documents count."""


def ranked(prediction: RankingPrediction) -> list[str]:
    """The ids of the documents, the best first."""
    scores = array("f", prediction.scores)
    pairs = zip(scores, prediction.documents, strict=True)
    return [document for _, document in sorted(pairs, reverse=True)]


def _relevant(example: QueryExample) -> dict[str, int]:
    return {document: grade for document, grade in example.relevant or () if grade > 0}


def _discounted(gains: list[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:DEPTH]))


def ndcg(prediction: RankingPrediction, example: QueryExample) -> float:
    """The discounted gain of the first ten, as a share of the best there could be."""
    relevant = _relevant(example)
    best = _discounted(sorted(relevant.values(), reverse=True))
    gains = [relevant.get(document, 0) for document in ranked(prediction)]
    return _discounted(gains) / best if best else 0.0


def recall(prediction: RankingPrediction, example: QueryExample) -> float:
    """The share of the relevant documents that are among the first hundred."""
    relevant = _relevant(example)
    return len(relevant.keys() & ranked(prediction)[:100]) / len(relevant) if relevant else 0.0


def reciprocal_rank(prediction: RankingPrediction, example: QueryExample) -> float:
    """1 over the place of the first relevant document, 0 where none is among the first ten."""
    relevant = _relevant(example)
    first = enumerate(ranked(prediction)[:DEPTH], start=1)
    return next((1 / place for place, document in first if document in relevant), 0.0)


ndcg_10 = mean_metric("ndcg_10", ndcg)
recall_100 = mean_metric("recall_100", recall)
mrr_10 = mean_metric("mrr_10", reciprocal_rank)
