"""The majority floor: the most frequent answer of the train split, for every row."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchharness.floors.floor import Predictor
from benchharness.floors.sentences import split_sentences
from tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    PairPrediction,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task

__all__ = ["learn_majority"]


def learn_majority(
    task: Task,
    examples: Sequence[Any],
    values: Mapping[str, Any],  # noqa: ARG001  (as every floor)
) -> Predictor:
    """The most frequent label, place of the right option or tag; the mean of a number.

    Stretches of text have no majority: the first sentence stands for them, and "no answer" where
    the task has that.
    """
    match task:
        case PairTask(is_regression=True):
            return _mean(examples)
        case PairTask():
            return _label(task, examples)
        case ChoiceTask():
            return _place(examples)
        case SpanTask():
            return _first_sentence(task)
        case TagTask():
            return _tag(examples)
    raise AssertionError(f"{task.name} has no head type")


def _mean(examples: Sequence[PairExample]) -> Predictor:
    mean = fmean(float(e.label) for e in examples if e.label is not None)
    return lambda asked: tuple(PairPrediction(id=e.id, label=mean) for e in asked)


def _label(task: PairTask, examples: Sequence[PairExample]) -> Predictor:
    counts = Counter(str(example.label) for example in examples)
    scores = tuple(counts[label] / len(examples) for label in task.labels)
    label = task.labels[scores.index(max(scores))]
    return lambda asked: tuple(PairPrediction(id=e.id, label=label, scores=scores) for e in asked)


def _place(examples: Sequence[ChoiceExample]) -> Predictor:
    counts = Counter(example.gold[0] for example in examples if example.gold)
    return lambda asked: tuple(_choice(example, counts) for example in asked)


def _choice(example: ChoiceExample, counts: Mapping[int, int]) -> ChoicePrediction:
    """Of the places that the example has; one more each, so that none is impossible."""
    weights = [counts.get(place, 0) + 1 for place in range(len(example.options))]
    scores = tuple(weight / sum(weights) for weight in weights)
    return ChoicePrediction(id=example.id, option=scores.index(max(scores)), scores=scores)


def _first_sentence(task: SpanTask) -> Predictor:
    # Above the threshold of 0 the answer is "".
    score = 1.0 if task.no_answer else -1.0

    def predict(asked: Sequence[SpanExample]) -> tuple[SpanPrediction, ...]:
        return tuple(
            SpanPrediction(id=e.id, text=split_sentences(e.context)[0], no_answer_score=score)
            for e in asked
        )

    return predict


def _tag(examples: Sequence[TagExample]) -> Predictor:
    (tag, _), *_ = Counter(tag for e in examples for tag in e.tags or ()).most_common(1)
    return lambda asked: tuple(TagPrediction(id=e.id, tags=(tag,) * len(e.words)) for e in asked)
