"""Answers for one or two texts: a class, a set of labels, or a number."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from math import prod
from statistics import fmean
from typing import Any

from benchharness.tasks.answers.base import (
    AnswerType,
    Cell,
    Judged,
    Passage,
    Things,
    is_number,
    mean_scores,
    sure_of,
)
from benchharness.tasks.examples import (
    PairExample,
    PairPrediction,
)


def label_set(found: Any) -> tuple[str, ...]:
    """Return the labels of an example or a prediction as a tuple, even if there is only one."""
    return found.label if isinstance(found.label, tuple) else (found.label,)


def _among(label: str) -> Things:
    return lambda found: {label} & set(label_set(found))


class _Labels(AnswerType):
    """Base class of the answer types whose answers are a class, a set of labels or a number."""

    prediction = PairPrediction
    matrix = ("examples", "Classes")

    def unpublished(self) -> str:
        task = self.task
        return f"a classifier that reads the marked words of {task.title}" if task.marks else ""

    def key(self, prediction: PairPrediction) -> Hashable:
        return prediction.label

    def fits(self, prediction: PairPrediction, example: Any) -> bool:
        is_set, labels = isinstance(prediction.label, tuple), self.task.labels
        known = is_set == self.task.multi_label and all(
            each in labels for each in label_set(prediction)
        )
        if prediction.text is not None:  # the output of a model or file is not a valid label
            known = isinstance(prediction.text, str) and prediction.label == ""
        count = len(self.scores(prediction))
        return known and count in (0, len(labels)) and super().fits(prediction, example)

    def is_invalid(self, prediction: PairPrediction) -> bool:
        return prediction.text is not None

    def said(self, prediction: PairPrediction, example: Any = None, *, texts: bool = True) -> str:
        return ", ".join(map(str, label_set(prediction))) or "(none)"

    def written(self, prediction: PairPrediction, *, texts: bool = True) -> str:
        return _Labels.said(self, prediction)

    def facts(self, prediction: PairPrediction, example: Any) -> dict[str, Any]:
        label = prediction.label
        found: dict[str, Any] = {"label": list(label) if isinstance(label, tuple) else label}
        if prediction.text is not None:
            found["text"] = prediction.text
        if isinstance(label, str) and prediction.scores:
            found["score"] = max(prediction.scores)
        return found

    def choices(self, example: Any) -> tuple[str, ...]:
        return tuple(self.task.labels)

    def types(self, found: Iterable[Any]) -> Iterator[tuple[str, Things]]:
        for label in self.task.labels:
            yield label, _among(label)

    def passages(self, example: PairExample) -> Iterator[Passage]:
        for name, text in (("a", example.text_a), ("b", example.text_b)):
            if text is not None:
                marks = tuple((m.start, m.end) for m in example.marks if m.text == name)
                yield Passage(f"text {name}" if example.text_b else "text", text, marks)


class Classes(_Labels):
    """Answer type for classification: an answer is exactly one of the task's labels."""

    def from_python(self, example: PairExample, answer: Any) -> PairPrediction:
        if answer not in self.task.labels:
            names = ", ".join(self.task.labels)
            raise self.refuse(example, answer, f"expected one of {names}")
        return PairPrediction(id=example.id, label=answer)

    def names(self, examples: Sequence[Any]) -> Sequence[str]:
        return tuple(self.task.labels)

    def place(self, prediction: PairPrediction) -> int | None:
        known = prediction.label in self.task.labels
        return self.task.labels.index(prediction.label) if known else None

    def cells(self, prediction: PairPrediction, example: PairExample, judged: Judged) -> list[Cell]:
        return [(str(example.label), str(prediction.label))]

    def rows(self) -> tuple[str, ...]:
        return tuple(self.task.labels)

    def average(self, predictions: Sequence[PairPrediction]) -> PairPrediction:
        """Predict the label with the highest mean probability over several models' predictions.

        Predictions that are not a valid label are ignored; if none is valid, the first prediction
        is returned.
        """
        labels, known = self.task.labels, [p for p in predictions if p.text is None]
        if not known:
            return predictions[0]
        rows = [p.scores or sure_of(labels.index(p.label), len(labels)) for p in known]
        scores = mean_scores(rows)
        winner = scores.index(max(scores))
        return PairPrediction(id=predictions[0].id, label=labels[winner], scores=scores)

    def majority(self, examples: Sequence[PairExample]) -> Callable[[Any], PairPrediction]:
        counts = Counter(str(example.label) for example in examples)
        scores = tuple(counts[label] / len(examples) for label in self.task.labels)
        label = self.task.labels[scores.index(max(scores))]
        return lambda asked: PairPrediction(id=asked.id, label=label, scores=scores)


class LabelSets(_Labels):
    """Answer type for multi-label classification: an answer is any number of labels."""

    def names(self, examples: Sequence[Any]) -> Sequence[str]:
        return tuple(self.task.labels)

    def from_python(self, example: PairExample, answer: Any) -> PairPrediction:
        labels = self.task.labels
        given = [] if isinstance(answer, str) else list(answer)
        if isinstance(answer, str) or not set(given) <= set(labels):
            raise self.refuse(example, answer, f"expected a list of labels: {', '.join(labels)}")
        return PairPrediction(id=example.id, label=tuple(name for name in labels if name in given))

    def confidence(self, prediction: PairPrediction) -> float | None:
        """Return the probability of the whole set of labels, as if labels were independent."""
        labels, scores = label_set(prediction), prediction.scores
        pairs = zip(self.task.labels, scores, strict=bool(scores))
        chances = [score if name in labels else 1 - score for name, score in pairs]
        return prod(chances) if chances else None

    def average(self, predictions: Sequence[PairPrediction]) -> PairPrediction:
        """Predict the labels whose mean probability over several models is above 0.5."""
        labels = self.task.labels
        rows = [p.scores or tuple(float(n in label_set(p)) for n in labels) for p in predictions]
        scores = mean_scores(rows)
        named = tuple(n for n, score in zip(labels, scores, strict=True) if score > 0.5)
        return PairPrediction(id=predictions[0].id, label=named, scores=scores)

    def majority(self, examples: Sequence[PairExample]) -> Callable[[Any], PairPrediction]:
        """Return a function that always predicts the same frequent labels.

        These are the labels that at least half of the examples have. If no label is that frequent,
        the function predicts the most frequent label, or all labels that are equally frequent.
        """
        counts = Counter(label for example in examples for label in label_set(example))
        scores = tuple(counts[label] / len(examples) for label in self.task.labels)
        least = min(0.5, max(scores))
        named = tuple(n for n, s in zip(self.task.labels, scores, strict=True) if s >= least)
        return lambda asked: PairPrediction(id=asked.id, label=named, scores=scores)


MOST_STEPS = 20
"""Largest difference between the maximum and the minimum of a regression for which a confusion
matrix is shown. The matrix has one row per integer."""


class Numbers(_Labels):
    """Answer type for regression: an answer is a number."""

    matrix = ("numbers", "Numbers, rounded to the nearest integer")

    tolerance = 0.5
    """Largest absolute error with which a predicted number counts as right."""

    def from_python(self, example: PairExample, answer: Any) -> PairPrediction:
        try:
            return PairPrediction(id=example.id, label=float(answer))
        except (TypeError, ValueError):
            raise self.refuse(example, answer, "expected a number") from None

    def fits(self, prediction: PairPrediction, example: Any) -> bool:
        fits = isinstance(prediction.text, str | None) and is_number(prediction.label)
        return fits and AnswerType.fits(self, prediction, example)

    def key(self, prediction: PairPrediction) -> Hashable:
        return self.said(prediction)

    def collapsed(self, prediction: PairPrediction) -> Hashable:
        # Numbers are rounded as in GLUE's submission files, because the predictions of a collapsed
        # regression still differ in their last bits.
        return f"{prediction.label:.3f}"

    def is_right(self, prediction: PairPrediction, example: PairExample) -> bool:
        return -self.near(prediction, example, right=False) <= self.tolerance

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        return -abs(float(prediction.label) - float(example.label))

    def near_words(self, near: float, prediction: Any) -> str:
        return f"off by {-near:.2f}"

    def said(self, prediction: PairPrediction, example: Any = None, *, texts: bool = True) -> str:
        return f"{prediction.label:.2f}"

    def numbers(self, prediction: Any) -> list[float]:
        return [float(prediction.label)]

    def choices(self, example: Any) -> tuple[str, ...]:
        return ()

    def average(self, predictions: Sequence[Any]) -> PairPrediction:
        mean = fmean(float(prediction.label) for prediction in predictions)
        return PairPrediction(id=predictions[0].id, label=mean)

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], PairPrediction]:
        mean = fmean(example.label for example in examples)
        return lambda asked: PairPrediction(id=asked.id, label=mean)

    def rows(self) -> tuple[str, ...]:
        low, high = map(round, self.task.value_range)
        return tuple(map(str, range(low, high + 1))) if high - low <= MOST_STEPS else ()

    def cells(self, prediction: Any, example: Any, judged: Judged) -> list[Cell]:
        low, high = self.task.value_range
        numbers = (example.label, float(prediction.label))
        # A prediction outside the range is counted at the nearest end of the range.
        gold, guess = (str(round(min(max(number, low), high))) for number in numbers)
        return [(gold, guess)] if self.rows() else []
