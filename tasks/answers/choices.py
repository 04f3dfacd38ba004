"""Answers that select one of an example's options."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchharness.tasks.answers.base import (
    NO_ANSWER,
    AnswerType,
    Cell,
    Judged,
    Passage,
    mean_scores,
    sure_of,
)
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction

LETTERS = "ABCDEFGH"
"""Names of the first eight options in a confusion matrix, as in RACE."""

FOLDED = 400
"""Length in characters above which the context is collapsed on the HTML page of an example."""


class Choices(AnswerType):
    """Answer type for multiple choice: an answer is the index of an option.

    The index is -1 if a file has no answer, or if the answer from a file or a text-to-text model is
    not one of the options.
    """

    prediction = ChoicePrediction
    matrix = ("questions", "Options by position")
    is_words = True

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.noun = task.option

    def from_python(self, example: ChoiceExample, answer: Any) -> ChoicePrediction:
        count = len(example.options)
        try:
            number = float(answer)
        except (TypeError, ValueError):
            raise self.refuse(example, answer, "expected the index of an option") from None
        if not 0 <= number < count or number % 1:
            raise self.refuse(example, answer, f"expected an index from 0 to {count - 1}")
        return ChoicePrediction(id=example.id, option=int(answer))

    def names(self, examples: Sequence[ChoiceExample]) -> Sequence[str]:
        return tuple(map(str, range(max(len(example.options) for example in examples))))

    def from_name(self, example: Any, name: str, names: Sequence[str]) -> ChoicePrediction:
        return ChoicePrediction(id=example.id, option=names.index(name))

    def golds(self, example: ChoiceExample) -> tuple[ChoicePrediction, ...]:
        options = [ChoicePrediction(id=example.id, option=each) for each in example.gold or ()]
        said = (ChoicePrediction(id=example.id, option=-1, text=each) for each in example.answers)
        return (*options, *said)

    def fits(self, prediction: ChoicePrediction, example: ChoiceExample) -> bool:
        option, count = prediction.option, len(example.options)
        is_one = isinstance(option, int) and -1 <= option < count
        scores = len(self.scores(prediction))
        is_one &= isinstance(prediction.text, str | None) and (not scores or option < scores)
        return is_one and super().fits(prediction, example)

    def wrong(self, example: ChoiceExample, other: ChoicePrediction) -> ChoicePrediction:
        option = self.golds(example)[0].option
        return ChoicePrediction(id=example.id, option=(option + 1) % len(example.options))

    def key(self, prediction: ChoicePrediction) -> Hashable:
        return prediction.option, prediction.text

    def place(self, prediction: ChoicePrediction) -> int | None:
        return prediction.option if prediction.option >= 0 else None

    def confidence(self, prediction: ChoicePrediction) -> float | None:
        # The score of a pseudo-perplexity is the likelihood of a text, not of an option.
        return None if prediction.tokens else super().confidence(prediction)

    def is_invalid(self, prediction: ChoicePrediction) -> bool:
        return prediction.text is not None

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterator[Cell]:
        named = dict(enumerate(LETTERS))
        if len(example.gold) == 1 and example.gold[0] in named:
            yield named[example.gold[0]], named.get(prediction.option, NO_ANSWER)

    def average(self, predictions: Sequence[ChoicePrediction]) -> ChoicePrediction:
        count = max(max(len(p.scores), p.option + 1) for p in predictions)
        scores = mean_scores([p.scores or sure_of(p.option, count) for p in predictions])
        if not any(scores):  # none of the predictions has scores or a valid option
            return predictions[0]
        winner = scores.index(max(scores))
        return replace(predictions[0], option=winner, scores=scores, text=None)

    def majority(self, examples: Sequence[ChoiceExample]) -> Callable[[Any], ChoicePrediction]:
        """Return a function that predicts the option whose index is most often right in `examples`.

        The scores of the predictions are the relative frequencies of the indices, with add-one
        smoothing.
        """
        counts = Counter(example.gold[0] for example in examples if example.gold)

        def predict(asked: ChoiceExample) -> ChoicePrediction:
            weights = [counts.get(place, 0) + 1 for place in range(len(asked.options))]
            scores = tuple(weight / sum(weights) for weight in weights)
            return ChoicePrediction(id=asked.id, option=scores.index(max(scores)), scores=scores)

        return predict

    def said(self, prediction: ChoicePrediction, example: Any = None, *, texts: bool = True) -> str:
        if prediction.option < 0:
            return (prediction.text if texts else "a text") or NO_ANSWER
        if texts and example is not None:
            return str(example.options[prediction.option])
        return f"option {prediction.option + 1}"

    def written(self, prediction: ChoicePrediction, *, texts: bool = True) -> str | None:
        if prediction.option >= 0:
            return str(prediction.option)
        return prediction.text if texts else None

    def facts(self, prediction: ChoicePrediction, example: Any) -> dict[str, Any]:
        text = example.options[prediction.option] if prediction.option >= 0 else prediction.text
        found: dict[str, Any] = {"option": prediction.option, "text": text}
        if prediction.scores:
            found |= {"score": max(prediction.scores), "scores": list(prediction.scores)}
        return found

    def spoken(self, prediction: ChoicePrediction, example: Any) -> str:
        if prediction.option >= 0:
            return str(example.options[prediction.option])
        return self.written(prediction) or ""

    def gold_value(self, example: Any, *, several: bool) -> Any:
        return example.gold if several else next(iter(example.gold), None)

    def choices(self, example: Any) -> tuple[str, ...]:
        return tuple(example.options)

    def passages(self, example: ChoiceExample) -> Iterator[Passage]:
        if example.context:
            yield Passage("passage", example.context, folded=len(example.context) > FOLDED)
        if example.question:
            yield Passage("question", example.question)
