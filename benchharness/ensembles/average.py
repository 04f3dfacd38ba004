"""One prediction of several for the same example. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)
from tasks.metrics.answers import normalise
from tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task

__all__ = ["average"]


def average(task: Task, members: Sequence[Sequence[Prediction]]) -> tuple[Prediction, ...]:
    """The predictions of an ensemble, from those of its members for the same examples in one order.

    Probabilities of labels and options, and numbers, are averaged; a prediction without
    probabilities (of somebody's file) is sure of its answer. Words get the tag that most members
    give them. Of an answer's text no probabilities are stored: each member's text counts as much as
    the member prefers it to "no answer", and texts that SQuAD's scorer takes for one count as one.
    Ties go to the label that the task names first, else to the first member.
    """
    return tuple(_one(task, predictions) for predictions in zip(*members, strict=True))


def _one(task: Task, predictions: Sequence[Any]) -> Prediction:
    match task:
        case PairTask(is_regression=True):
            return _number(predictions)
        case PairTask():
            return _label(task.labels, predictions)
        case ChoiceTask():
            return _option(predictions)
        case SpanTask():
            return _answer(predictions)
        case TagTask():
            return _tags(predictions)
    raise AssertionError(f"{task.name} has no head type")


def _number(predictions: Sequence[PairPrediction]) -> PairPrediction:
    return PairPrediction(id=predictions[0].id, label=fmean(float(p.label) for p in predictions))


def _label(labels: Sequence[str], predictions: Sequence[PairPrediction]) -> PairPrediction:
    rows = [p.scores or _sure(labels.index(str(p.label)), len(labels)) for p in predictions]
    scores = _mean(rows)
    winner = scores.index(max(scores))
    return PairPrediction(id=predictions[0].id, label=labels[winner], scores=scores)


def _option(predictions: Sequence[ChoicePrediction]) -> ChoicePrediction:
    count = max(max(len(p.scores), p.option + 1) for p in predictions)
    scores = _mean([p.scores or _sure(p.option, count) for p in predictions])
    return ChoicePrediction(id=predictions[0].id, option=scores.index(max(scores)), scores=scores)


def _sure(place: int, count: int) -> tuple[float, ...]:
    return tuple(float(number == place) for number in range(count))


def _mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(fmean, zip(*rows, strict=True)))


def _answer(predictions: Sequence[SpanPrediction]) -> SpanPrediction:
    texts: dict[str, str] = {}
    weights: defaultdict[str, float] = defaultdict(float)
    for prediction in predictions:
        key = normalise(prediction.text)
        texts.setdefault(key, prediction.text)
        weights[key] += _preference(prediction.no_answer_score)
    return SpanPrediction(
        id=predictions[0].id,
        text=texts[max(weights, key=lambda key: weights[key])],
        no_answer_score=fmean(p.no_answer_score for p in predictions),
    )


def _preference(no_answer_score: float) -> float:
    """The probability of the text against "no answer": the logistic function of minus the score."""
    return (1 - math.tanh(no_answer_score / 2)) / 2


def _tags(predictions: Sequence[TagPrediction]) -> TagPrediction:
    columns = zip(*(p.tags for p in predictions), strict=True)
    # Counter lists equal counts in the order of the members.
    tags = (Counter(column).most_common(1)[0][0] for column in columns)
    return TagPrediction(id=predictions[0].id, tags=tuple(tags))
