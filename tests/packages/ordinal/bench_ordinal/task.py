"""Tasks whose answers are one of several ordered levels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from benchharness.tasks.examples import Example, Prediction, Traits
from benchharness.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class OrdinalExample(Example):
    """Text with a level, which is None if it is hidden."""

    text: str
    level: str | None = None
    gold_field: ClassVar[str] = "level"

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        return Traits(
            texts=(self.text,),
            shown=self.text,
            claims=(self.text,),
            stratum=str(self.level),
            labels=(self.level,) if self.level else (),
            is_blank=not self.text.strip(),
        )

    def count_words(self) -> int:
        """Return the number of words in the text."""
        return len(self.text.split())


@dataclass(frozen=True, kw_only=True)
class OrdinalPrediction(Prediction):
    """Predicted level, and the probability of every level."""

    level: str
    scores: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OrdinalTask(Task):
    """Task that maps a text to one of `levels`, which are in ascending order."""

    levels: tuple[str, ...] = ()
    head: ClassVar[str] = "ordinal"
    example: ClassVar[type[Example]] = OrdinalExample
    hub_type: ClassVar[str] = "text-classification"
    has_outputs: ClassVar[bool] = False  # the head has no `soft_loss`, so it cannot be distilled

    def problems(self, example: OrdinalExample) -> Iterator[str]:
        """Check the level of an example; see `Task.problems`."""
        if example.level is not None and example.level not in self.levels:
            yield f"has the level {example.level!r}; expected one of {', '.join(self.levels)}"
