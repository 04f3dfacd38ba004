"""Metrics over examples that are scored together: MultiRC's questions, AX-g's minimal pairs."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from tasks.errors import BenchError
from tasks.examples import PairExample, PairPrediction
from tasks.metrics.classification import binary_f1
from tasks.task import Metric

__all__ = ["answer_option_f1", "gender_parity", "question_exact_match", "question_f1"]

PairMetric = Metric[PairPrediction, PairExample]
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
    """MultiRC's F1m: the mean over questions of F1 of the class `positive`, in 0..1.

    A question without that class on either side counts 0. SuperGLUE does not score F1m; the script
    released with MultiRC takes F1 of the mean precision and the mean recall instead.
    """
    f1 = binary_f1(positive).compute

    def compute(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
        groups = _groups(predictions, examples).values()
        return fmean(f1([p for p, _ in group], [e for _, e in group]) or 0.0 for group in groups)

    return Metric(name="f1m", compute=compute)


def _gender_parity(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    groups = _groups(predictions, examples)
    for name, group in groups.items():
        if len(group) != 2:
            raise BenchError(
                f"the minimal pair {name} has {len(group)} rows, expected two: "
                "gender parity needs whole pairs."
            )
    return fmean(first.label == second.label for (first, _), (second, _) in groups.values())


gender_parity: PairMetric = Metric(name="parity", compute=_gender_parity)
"""AX-g's gender parity: the share of minimal pairs that get one prediction.

A constant model gets 1, so show accuracy beside it.
"""
