"""One file of a submission: which predictions it holds and how they are written."""

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchharness.tasks.errors import DataError, one_line
from benchharness.tasks.examples import Prediction
from benchharness.tasks.sources.formats import content_of

# Which answers a file may give, and what an answer that is written otherwise must have meant.

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
        # Equal, and of one type: JSON's true is not 1, and its 1 is not "1".
        if any(type(found) is type(value) and found == value for value in self.written.values()):
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
        # The last ones win: what the server reads is never taken for another writing of a label.
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
        has_range = math.isfinite(self.low) and math.isfinite(self.high)
        expected = f"a number from {self.low:g} to {self.high:g}" if has_range else "a number"
        if not _is_number(found) or math.isnan(number := float(str(found))):
            return Understood(None, f"the score is {found!r}, expected {expected}")
        if math.isinf(number):
            return Understood(
                None, f"the score is {found!r:.40}, which is out of range, expected {expected}"
            )
        if not self.low <= number <= self.high:
            return Understood(self.write(number), f"the score is {found}, expected {expected}")
        return Understood(str(found))


@dataclass(frozen=True, kw_only=True)
class Text:
    """Any text (ReCoRD's entities); an empty one only where that is an answer like any other."""

    may_be_empty: bool = False

    def write(self, text: str | float) -> str:
        """The text itself."""
        return str(text)

    def understand(self, found: Scalar) -> Understood:
        """The text, where it is one."""
        if isinstance(found, str) and (self.may_be_empty or found.strip()):
            return Understood(found)
        return Understood(None, f"the label is {found!r}, expected the text of an entity")


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """Any number of a few labels, as JSON's list of their names in the task's own order.

    A file may have that list, the names with a mark between, one name, or nothing for none.
    """

    names: Sequence[str]

    def write(self, name: str | float) -> str:
        """The list of a name alone."""
        return self.listed([str(name)])

    def listed(self, found: Collection[str]) -> str:
        """The list of some of the names."""
        return json.dumps([name for name in self.names if name in found])

    def understand(self, found: Scalar) -> Understood:
        """The labels that a value names."""
        labels = self._labels(str(found).strip())
        if isinstance(found, str) and labels is not None and set(labels) <= set(self.names):
            return Understood(self.listed(labels))
        expected = ", ".join(self.names)
        return Understood(None, f"the labels are {found!r:.60}, expected a list of {expected}")

    def _labels(self, text: str) -> list[str] | None:
        if text.startswith("["):
            try:
                found = json.loads(text)
            except (ValueError, RecursionError):
                return None
            is_names = isinstance(found, list) and all(isinstance(each, str) for each in found)
            return found if is_names else None
        if text in ("", "(none)"):
            return []
        if text in self.names:
            return [text]
        # By the first mark that leaves nothing but names: a name may have one in it.
        parts = ([each.strip() for each in text.split(mark)] for mark in ("|", ";", ",", None))
        return next((found for found in parts if set(found) <= set(self.names)), None)


Answers = Labels | Number | Text | LabelSet


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


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: the file, its line from 1 (0: the file as a whole), and what is wrong there.

    A `mendable` one has a single right answer, which `repair` writes.
    """

    file: str
    line: int
    sentence: str
    mendable: bool

    def __str__(self) -> str:
        return one_line(f"{self.file}{' ' if self.line else ': '}{self.in_file}")

    @property
    def in_file(self) -> str:
        """The same where the file has been named."""
        return one_line(f"line {self.line}: {self.sentence}" if self.line else self.sentence)


class Faults:
    """The faults of one file, gathered while it is read; one that comes again is counted."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[tuple[str, bool], tuple[str, int]] = {}
        self._again: Counter[tuple[str, bool]] = Counter()

    def add(self, sentence: str, line: int = 0, *, mendable: bool = False, kind: str = "") -> None:
        """Take a fault of a line; those of one kind become one fault, as the first of them says it.

        Without a `kind` equal sentences are of one kind.
        """
        fault = (kind or sentence, mendable)
        self._again[fault] += fault in self._found
        self._found.setdefault(fault, (sentence, line))

    def all(self) -> tuple[Fault, ...]:
        """Every fault once, in the order in which they were found, and how often it comes again."""
        again = {fault: f" (and {times} more)" for fault, times in self._again.items() if times}
        return tuple(
            Fault(
                file=self._file, line=line, sentence=text + again.get(fault, ""), mendable=fault[1]
            )
            for fault, (text, line) in self._found.items()
        )


HEADER = ("index", "prediction")


@dataclass(frozen=True, kw_only=True)
class AnswerFile:
    """A file by the name that the server looks for.

    `rows` is how many answers it must hold, `fill` the answer, by the task's own name, that stands
    on every row of a task that was not run. "tsv" is GLUE's table of index and prediction, "lines"
    an answer a line (XTREME), "jsonl" an object a line with idx and label, "multirc" an object a
    line for each paragraph, of which there are `paragraphs` with `questions` in all (None: however
    many). With `missing_are_wrong` rows may be left out: their answer is None. `names` are words
    for the rows' numbers, `header` a table's columns.
    """

    name: str
    task: str
    rows: int
    answers: Answers
    fill: str | float
    split: str = "test"
    format: Literal["tsv", "lines", "jsonl", "multirc"] = "tsv"
    paragraphs: int | None = None
    questions: int | None = None
    missing_are_wrong: bool = False
    names: Mapping[str, int] = field(default_factory=dict)
    header: tuple[str, str] = HEADER


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was found in a file: its answers as the server wants them, and every fault.

    `answers` is None where a fault leaves more than one answer possible.
    """

    answers: Sequence[Any] | None
    faults: tuple[Fault, ...]


def conclude(answers: Sequence[Any] | None, faults: Faults) -> Reading:
    """The reading of a file, whose answers count only where every fault can be mended."""
    found = faults.all()
    is_clear = all(fault.mendable for fault in found)
    return Reading(answers=answers if is_clear else None, faults=found)


# The bytes of a file as lines: UTF-8 without a mark, lines that end in a line feed.

Line = tuple[int, str]
"""A line's number from 1, and its text without its end."""

MARK = "\ufeff"


def decoded(content: bytes, faults: Faults) -> str | None:
    """The text, without a byte order mark; None, and one fault, where it is not UTF-8."""
    if _is_wide(content):
        faults.add("it is not UTF-8 text but UTF-16, or another with several bytes a character")
        return None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        faults.add("it is not UTF-8 text", line)
        return None
    if text.startswith(MARK):
        faults.add("it begins with a byte order mark", 1, mendable=True)
    return text.removeprefix(MARK)


def _is_wide(content: bytes) -> bool:
    """Whether it is text of two or four bytes a character: by its mark, or mostly zeros beside."""
    # Of UTF-16 every other byte of ASCII letters is zero, of UTF-32 three of four.
    some = content[:1000]
    return some[:2] in (b"\xff\xfe", b"\xfe\xff") or some.count(0) * 3 > len(some)


def lines_of(content: bytes, faults: Faults, expected: str) -> list[Line]:
    """The lines that are not empty; a fault where there is none of what is `expected`."""
    text = decoded(content, faults)
    if text is None or not text.strip():
        if text is not None:
            faults.add(f"it is empty, expected {expected}")
        return []
    if "\r" in text:
        faults.add("its lines end in a carriage return", 1, mendable=True)
        # A single carriage return ends a line too, as in some old files.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = list(enumerate(text.removesuffix("\n").split("\n"), start=1))
    for number, line in lines:
        if not line.strip():
            faults.add("the line is empty", number, mendable=True)
    return [(number, line) for number, line in lines if line.strip()]


# A file of predictions for a split whose labels are known.

SHOWN = 3
"""Faults that an error names."""

Tags = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PredictionFile:
    """One prediction for each example, in order, and what had to be read leniently to get them.

    `left_out` counts missing rows whose predictions do not say so. `sweep_order` are the question
    ids in the order of the no-answer scores, which decides between equal ones where SQuAD's script
    looks for the best threshold. `columns` are CoNLL's last two, gold and predicted tags, by
    sentence.
    """

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()
    left_out: int = 0
    sweep_order: tuple[str, ...] | None = None
    columns: tuple[tuple[Tags, Tags], ...] = ()

    @property
    def missing(self) -> int:
        """How many rows the file leaves out."""
        return self.left_out + sum(bool(getattr(p, "missing", False)) for p in self.predictions)


def require_clear(path: Path, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Notes of the faults that leave no doubt; DataError where one does."""
    doubts = [
        fault.in_file if fault.file == path.name else str(fault)
        for fault in faults
        if not fault.mendable
    ]
    if doubts:
        rest = len(doubts) - SHOWN
        more = f" (and {rest} more {'fault' if rest == 1 else 'faults'})" if rest > 0 else ""
        raise DataError(f"{path} cannot be scored: {'; '.join(doubts[:SHOWN])}{more}.")
    return tuple(str(fault) for fault in faults)


def text_of(path: Path) -> tuple[str, tuple[str, ...]]:
    """A file's text, with notes; DataError where it is none."""
    faults = Faults(path.name)
    text = decoded(content_of(path), faults)
    return text or "", require_clear(path, faults.all())
