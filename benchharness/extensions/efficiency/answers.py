"""Answer type of the efficiency tasks, whose answers are measurements of an encoder."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from benchharness.errors import BenchError
from benchharness.extensions.efficiency.task import TimedExample, TimedPrediction
from benchharness.tasks.answers.base import AnswerType, Passage


class Timings(AnswerType):
    """Answer type for measurements of speed and memory.

    There are no gold answers, and every measurement counts as right.
    """

    prediction = TimedPrediction
    noun = "measurement"
    matrix = ("documents", "Measured")

    def from_python(self, example: Any, answer: Any) -> TimedPrediction:
        expected = "only `bench run --suite efficiency` can measure speed and memory"
        raise self.refuse(example, answer, expected)

    def golds(self, example: Any) -> tuple[Any, ...]:
        return ()

    def key(self, prediction: TimedPrediction) -> Hashable:
        return prediction.tokens

    def is_right(self, prediction: Any, example: Any) -> bool:
        return True

    def average(self, predictions: Sequence[Any]) -> TimedPrediction:
        raise BenchError(
            "measurements of several models cannot form an ensemble: remove this task."
        )

    def flags(self, predictions: Sequence[Any]) -> tuple[str, ...]:
        """Return no warnings: the timing job itself reports if its times vary too much."""
        return ()

    def said(self, prediction: TimedPrediction, example: Any = None, *, texts: bool = True) -> str:
        return f"{prediction.tokens} tokens, {1000 * prediction.alone[0]:.3g} ms alone"

    def written(self, prediction: TimedPrediction, *, texts: bool = True) -> str:
        return str(prediction.alone[0])

    def facts(self, prediction: TimedPrediction, example: Any) -> dict[str, Any]:
        return {name: value for name, value in vars(prediction).items() if name != "id"}

    def passages(self, example: TimedExample) -> Iterator[Passage]:
        if example.text_a:
            yield Passage("text", example.text_a)
