"""Whether a prediction is right: what flips from one set of runs to another."""

from tasks.errors import BenchError
from tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Example,
    PairExample,
    PairPrediction,
    Prediction,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from tasks.metrics.answers import exact_match

__all__ = ["is_right"]

NEAR = 0.5
"""How far a predicted number may be from the gold one: it rounds to the same step of STS-B."""


def is_right(prediction: Prediction, example: Example) -> bool:
    """Whether the label, the answer, the option or every tag is right; a number, whether near.

    Where a passage holds no answer, right is to prefer "no answer" to every answer.
    """
    match prediction, example:
        case PairPrediction(label=str() as label), PairExample():
            return label == example.label
        case PairPrediction(label=guess), PairExample(label=float() | int() as gold):
            return abs(float(guess) - gold) <= NEAR
        case SpanPrediction(), SpanExample():
            return _is_right_answer(prediction, example)
        case ChoicePrediction(), ChoiceExample():
            return prediction.option in (example.gold or ())
        case TagPrediction(), TagExample():
            return prediction.tags == example.tags
    raise BenchError(f"the prediction for {example.id} does not fit the example's kind.")


def _is_right_answer(prediction: SpanPrediction, example: SpanExample) -> bool:
    if not example.answers:
        return prediction.no_answer_score > 0 or not prediction.text
    return any(exact_match(prediction.text, gold) for gold, _ in example.answers)
