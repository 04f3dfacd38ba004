"""What a reader must know of a score besides its value."""

from collections.abc import Sequence

from tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)

__all__ = ["prediction_flags"]

CONSTANT = "constant predictions"


def prediction_flags(predictions: Sequence[Prediction]) -> tuple[str, ...]:
    """Says "constant predictions" where every example got one answer: the run collapsed."""
    answers = {_answer(p) for p in predictions}
    return (CONSTANT,) if len(predictions) > 1 and len(answers) == 1 else ()


def _answer(prediction: Prediction) -> object:
    """What was answered; for tags the set of tags, because sentences differ in length.

    Numbers are compared as GLUE's submission writes them, with three decimals: a collapsed
    regression still differs in its last bits.
    """
    match prediction:
        case PairPrediction(label=float() as number):
            return f"{number:.3f}"
        case PairPrediction():
            return prediction.label
        case SpanPrediction():
            return prediction.text
        case ChoicePrediction():
            return prediction.option
        case TagPrediction():
            return frozenset(prediction.tags)
