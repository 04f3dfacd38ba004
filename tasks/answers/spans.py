"""Answers that are a text, usually a span of the context, or "no answer"."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from json import dumps
from statistics import fmean
from typing import Any

from benchharness.tasks.answers.base import (
    NO_ANSWER,
    AnswerType,
    Cell,
    Judged,
    Passage,
    Stretch,
    is_number,
)
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.metrics.squad import MLQA_METRICS, SQUAD_V1, SQUAD_V2, normalise


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, at white space after ".", "?" or "!".

    The result has at least one sentence.
    """
    parts = re.split(r"(?<=[.!?])\s+", text.strip())
    return [part for part in parts if part] or [text]


@lru_cache(maxsize=2**13)  # scoring is slow, and several seeds often give the same answer
def _points(answer: str | None, is_v2: bool, example: SpanExample) -> tuple[float, float]:
    """Return exact match and F1 of one answer, as in the official script.

    An `answer` of None means "no answer".
    """
    prediction = SpanPrediction(
        id=example.id, text=answer or "", no_answer_score=float(answer is None)
    )
    exact, f1 = MLQA_METRICS if example.language else SQUAD_V2 if is_v2 else SQUAD_V1
    return exact.compute([prediction], [example]) or 0, f1.compute([prediction], [example]) or 0


class Spans(AnswerType):
    """Answer type for questions about a context: an answer is a text.

    If the task has unanswerable questions, an answer can also be "no answer".
    """

    prediction = SpanPrediction
    matrix = ("answers", "Answers that equal a gold answer, overlap with one, or are elsewhere")
    is_words = True

    def unpublished(self) -> str:
        beside = self.task.classes or self.task.facts
        return f"a span head with the auxiliary outputs of {self.task.title}" if beside else ""

    def from_python(self, example: SpanExample, answer: Any) -> SpanPrediction:
        if not isinstance(answer, str):
            raise self.refuse(example, answer, 'expected a text, or "" for no answer')
        return SpanPrediction(id=example.id, text=answer, no_answer_score=0.0 if answer else 1.0)

    def fits(self, prediction: SpanPrediction, example: SpanExample) -> bool:
        words = (prediction.text, *prediction.classes)
        numbers = (prediction.threshold, *prediction.facts)
        is_text = all(isinstance(each, str) for each in words)
        return is_text and all(map(is_number, numbers)) and super().fits(prediction, example)

    def golds(self, example: SpanExample) -> tuple[SpanPrediction, ...]:
        if example.answers is None:
            return ()
        texts = example.answer_texts or ("",)
        return tuple(
            SpanPrediction(
                id=example.id,
                text=text,
                no_answer_score=float(not example.answers),
                classes=example.classes,
                facts=example.facts,
            )
            for text in texts
        )

    def wrong(self, example: SpanExample, other: SpanPrediction) -> SpanPrediction:
        return SpanPrediction(id=example.id, text=f"no {other.text}")

    def key(self, prediction: SpanPrediction) -> str:
        """Return the text of the answer, or "" if the prediction is "no answer"."""
        return "" if self.task.no_answer and prediction.abstains else prediction.text

    def collapsed(self, prediction: SpanPrediction) -> Hashable:
        return prediction.text

    def _scored(self, prediction: SpanPrediction, example: SpanExample) -> tuple[float, float]:
        if prediction.missing and not self.task.no_answer:
            return 0.0, 0.0
        abstains = self.task.no_answer and prediction.abstains
        return _points(None if abstains else prediction.text, self.task.no_answer, example)

    def is_right(self, prediction: SpanPrediction, example: SpanExample) -> bool:
        """Return whether the prediction is an exact match according to the official script.

        In SQuAD 2.0, "no answer" is right only for a question without an answer.
        """
        return self._scored(prediction, example)[0] == 1

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        return self._scored(prediction, example)[1]

    def near_words(self, near: float, prediction: Any) -> str:
        return f"F1 {100 * near:.1f}"

    def confidence(self, prediction: SpanPrediction) -> float | None:
        """Return the probability of the decision between the text and "no answer".

        It does not cover which text is the answer. None if every question has an answer.
        """
        margin = prediction.no_answer_score - prediction.threshold
        return (1 + math.tanh(abs(margin) / 2)) / 2 if self.task.no_answer else None

    def cells(self, prediction: Any, example: Any, judged: Judged) -> list[Cell]:
        place = "exact" if judged.right else "overlaps" if judged.near > 0 else "elsewhere"
        gold = "answer" if example.answers else "no answer"
        return [(gold, place if self.key(prediction) else "no answer")]

    def rows(self) -> tuple[str, ...]:
        return ("answer", "no answer") if self.task.no_answer else ("answer",)

    def columns(self) -> tuple[str, ...]:
        return "exact", "overlaps", "elsewhere", "no answer"

    def average(self, predictions: Sequence[SpanPrediction]) -> SpanPrediction:
        """Predict the text with the largest total weight over several models' predictions.

        The weight of a text is the probability with which its model prefers the text to "no
        answer". The weights of texts that are equal after SQuAD's normalisation are added.
        Predictions that are missing in a prediction file are ignored, unless all are missing.
        """
        texts: dict[str, str] = {}
        weights: defaultdict[str, float] = defaultdict(float)
        given = [p for p in predictions if not p.missing] or predictions
        margins = [p.no_answer_score - p.threshold for p in given]
        for prediction, margin in zip(given, margins, strict=True):
            key = normalise(prediction.text)
            texts.setdefault(key, prediction.text)
            # The probability that the model prefers the text to "no answer" is the logistic
            # function of -margin.
            weights[key] += (1 - math.tanh(margin / 2)) / 2
        return SpanPrediction(
            id=predictions[0].id,
            text=texts[max(weights, key=lambda key: weights[key])],
            no_answer_score=fmean(margins),
            missing=given[0].missing,
        )

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], SpanPrediction]:
        """Return a function that predicts the first sentence of the context as the answer.

        There is no most frequent answer, because different questions have different answers. If
        the task has unanswerable questions, the function predicts "no answer" instead.
        """
        score = 1.0 if self.task.no_answer else -1.0  # a score above 0 means "no answer"
        return lambda asked: SpanPrediction(
            id=asked.id, text=split_sentences(asked.context)[0], no_answer_score=score
        )

    def said(self, prediction: Any, example: Any = None, *, texts: bool = True) -> str:
        answer = self.key(prediction)
        return (answer if texts else "an answer") if answer else NO_ANSWER

    def belief(self, predictions: Sequence[SpanPrediction]) -> str:
        if not self.task.no_answer:
            return ""
        return f"no-answer score {fmean(p.no_answer_score for p in predictions):+.1f}"

    def written(self, prediction: SpanPrediction, *, texts: bool = True) -> str | None:
        return self.key(prediction) if texts else None

    def gold_written(self, example: SpanExample, *, texts: bool = True) -> str | None:
        return dumps(list(example.answer_texts), ensure_ascii=False) if texts else None

    def gold_value(self, example: SpanExample, *, several: bool) -> tuple[str, ...]:
        return example.answer_texts

    def scores(self, prediction: SpanPrediction) -> list[float]:
        return [prediction.no_answer_score]

    def facts(self, prediction: SpanPrediction, example: Any) -> dict[str, Any]:
        """Return the answer as plain data: its text, its position and its no-answer score.

        "start" is the offset of the answer's first character in the context, and "end" is the
        offset of the character after the answer. Both are None for "no answer", and if the position
        is unknown. "classes" and "facts" are added if the prediction has them.
        """
        text = "" if prediction.abstains else prediction.text
        start = prediction.start if text and prediction.start >= 0 else None
        found: dict[str, Any] = {
            "text": text,
            "start": start,
            "end": None if start is None else start + len(text),
            "no_answer_score": prediction.no_answer_score,
        }
        beside = {"classes": prediction.classes, "facts": prediction.facts}
        return found | {name: list(value) for name, value in beside.items() if value}

    def passages(self, example: SpanExample) -> Iterator[Passage]:
        yield Passage("question", example.question)
        yield Passage("passage", example.context, holds_answers=True)

    def gold_stretches(self, example: SpanExample) -> Iterator[Stretch]:
        places = ((start, start + len(text)) for text, start in example.answers or ())
        yield from dict.fromkeys(place for place in places if place[0] >= 0)

    def stretches(self, prediction: Any, example: SpanExample) -> Iterator[Stretch]:
        """Yield the character span of the answer in the context.

        If the answer occurs several times, only the first occurrence that overlaps with a gold
        answer is yielded, or the first occurrence of all if none overlaps. Nothing is yielded if
        the answer does not occur in the context.
        """
        answer = self.key(prediction)
        if not answer:
            return
        found = [match.start() for match in re.finditer(re.escape(answer), example.context)]
        golds = list(self.gold_stretches(example))
        for start in found:
            if any(start < b and a < start + len(answer) for a, b in golds):
                found = [start]
                break
        yield from ((start, start + len(answer)) for start in found[:1])
