"""Which answers a file may give, and what an answer that is written otherwise must have meant."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Answers", "Labels", "Number", "Scalar", "Text", "Understood"]

Scalar = str | int | float | bool | None
"""What a cell of a table or a value in JSON may be."""


class Understood(NamedTuple):
    """An answer as the server wants it, and what is wrong with it as it stands ("" for nothing).

    `value` is None where no single answer can have been meant.
    """

    value: str | int | None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """One label of a few. `written` maps a task's own names to what the server wants to read.

    `synonyms` are other writings that can mean one label only ("1" for "true"); numbers for labels
    such as "entailment" are none, because every source numbers them in another order.
    """

    written: Mapping[str, str | int]
    synonyms: Mapping[str, str] = field(default_factory=dict)

    def write(self, name: str | float) -> str | int:
        """What is written for one of the task's names."""
        return self.written[str(name)]

    def understand(self, found: Scalar) -> Understood:
        """Which label a value stands for."""
        if any(_is_same(found, value) for value in self.written.values()):
            return Understood(found if isinstance(found, int) else str(found))
        expected = " or ".join(str(value) for value in dict.fromkeys(self.written.values()))
        value = self._meant().get(_bare(found))
        if value is not None:
            return Understood(value, f"the label is {found!r}, expected {value!r}")
        if _is_number(found) and not self._is_numbered():
            return Understood(
                None,
                f"the label is the number {found}, expected {expected}: which label a number means "
                "differs between sources",
            )
        return Understood(None, f"the label is {found!r}, expected {expected}")

    def _meant(self) -> dict[str, str | int]:
        """Every writing that means one label, without its case and separators."""
        values = {str(value): value for value in self.written.values()}
        names = {_bare(name): value for name, value in self.written.items()}
        others = {_bare(other): values[value] for other, value in self.synonyms.items()}
        decimals = {f"{value}.0": value for text, value in values.items() if text.isdecimal()}
        return names | others | decimals | {_bare(text): value for text, value in values.items()}

    def _is_numbered(self) -> bool:
        return all(str(value).isdecimal() for value in self.written.values())


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number from `low` to `high`, written with three decimals, as jiant does."""

    low: float
    high: float

    def write(self, value: str | float) -> str:
        """The number, clipped to the range."""
        return f"{min(max(float(value), self.low), self.high):.3f}"

    def understand(self, found: Scalar) -> Understood:
        """The number that a value is."""
        expected = f"expected a number from {self.low:g} to {self.high:g}"
        if not _is_number(found) or not math.isfinite(number := float(str(found))):
            return Understood(None, f"the score is {found!r}, {expected}")
        if not self.low <= number <= self.high:
            return Understood(self.write(number), f"the score is {found}, {expected}")
        return Understood(str(found))


@dataclass(frozen=True, kw_only=True)
class Text:
    """Any text but an empty one (ReCoRD's entities)."""

    def write(self, text: str | float) -> str:
        """The text itself."""
        return str(text)

    def understand(self, found: Scalar) -> Understood:
        """The text, where it is one."""
        if isinstance(found, str) and found.strip():
            return Understood(found)
        return Understood(None, f"the label is {found!r}, expected the text of an entity")


Answers = Labels | Number | Text


def _is_same(found: Scalar, value: str | int) -> bool:
    """Equal, and of one type: JSON's true is not 1, and its 1 is not "1"."""
    return type(found) is type(value) and found == value


def _bare(found: Scalar) -> str:
    """A label without its case, quotes and separators: "Not-Entailment " is "not_entailment"."""
    text = str(found).strip().strip("\"'").strip().casefold()
    return "_".join(text.replace("-", " ").replace("_", " ").split())


def _is_number(found: Scalar) -> bool:
    """Also "1e-3" and "nan", but none of the digits and underscores that only Python reads."""
    if isinstance(found, bool) or found is None:
        return False
    text = str(found)
    if not text.isascii() or "_" in text:
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
