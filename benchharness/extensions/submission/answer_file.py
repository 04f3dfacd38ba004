"""Answer files of submissions: the answers that they may have, and the faults found in them."""

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchharness.errors import DataError, one_line
from benchharness.tasks.examples import Prediction
from benchharness.tasks.sources.formats import content_of

# The answers that a file may have, and the meaning of an answer that is written differently.

Scalar = str | int | float | bool | None
"""Value of a cell in a table, or of a single value in JSON."""


class Understood(NamedTuple):
    """An answer as the server expects it, and the problem with how it was written ("" for none).

    `value` is None if the answer has no single meaning.
    """

    value: str | int | None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """One of a few labels.

    Attributes:
        written: The server's text or number for each of the task's own names.
        synonyms: The server's text for each other spelling that can mean one label only ("1" for
            "true"). Numbers for labels such as "entailment" are not among them, because every
            source numbers these in another order.
    """

    written: Mapping[str, str | int]
    synonyms: Mapping[str, str] = field(default_factory=dict)

    def write(self, name: str | float) -> str | int:
        """Return the server's text or number for one of the task's names."""
        return self.written[str(name)]

    def understand(self, found: Scalar) -> Understood:
        """Return the label that a value stands for."""
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
        """Return the label that each spelling means; spellings are without case and separators."""
        values = {str(value): value for value in self.written.values()}
        names = {_bare(name): value for name, value in self.written.items()}
        others = {_bare(other): values[value] for other, value in self.synonyms.items()}
        decimals = {f"{value}.0": value for text, value in values.items() if text.isdecimal()}
        # The last ones win: what the server reads is never taken for a spelling of another label.
        return names | others | decimals | {_bare(text): value for text, value in values.items()}

    def _is_numbered(self) -> bool:
        return all(str(value).isdecimal() for value in self.written.values())


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number from `low` to `high`, written with three decimals, as jiant does."""

    low: float
    high: float

    def write(self, value: str | float) -> str:
        """Return the number as text, clipped to the range."""
        return f"{min(max(float(value), self.low), self.high):.3f}"

    def understand(self, found: Scalar) -> Understood:
        """Return the number that a value is."""
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
    """Any text, such as an entity of ReCoRD; with `may_be_empty` "" is an answer too."""

    may_be_empty: bool = False

    def write(self, text: str | float) -> str:
        """Return the text itself."""
        return str(text)

    def understand(self, found: Scalar) -> Understood:
        """Return the text if the value is one."""
        if isinstance(found, str) and (self.may_be_empty or found.strip()):
            return Understood(found)
        return Understood(None, f"the label is {found!r}, expected the text of an entity")


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """Any number of a few labels, written as a JSON list of names in the task's own order.

    A file may have this list, names with a separator between, one name, or nothing for no label.
    """

    names: Sequence[str]

    def write(self, name: str | float) -> str:
        """Return the list of a single name."""
        return self.listed([str(name)])

    def listed(self, found: Collection[str]) -> str:
        """Return the list of some of the names."""
        return json.dumps([name for name in self.names if name in found])

    def understand(self, found: Scalar) -> Understood:
        """Return the labels that a value names."""
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
        # Split at the first separator that leaves only names, because a name may contain another
        # one.
        parts = ([each.strip() for each in text.split(mark)] for mark in ("|", ";", ",", None))
        return next((found for found in parts if set(found) <= set(self.names)), None)


Answers = Labels | Number | Text | LabelSet


def _bare(found: Scalar) -> str:
    """Return a label without case, quotes, separators: "not_entailment" for "Not-Entailment "."""
    text = str(found).strip().strip("\"'").strip().casefold()
    return "_".join(text.replace("-", " ").replace("_", " ").split())


def _is_number(found: Scalar) -> bool:
    """Return whether a value is a number, such as 1, "1e-3" or "nan".

    Digits beyond ASCII, and underscores, are refused: only Python reads them.
    """
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
    """A fault: the file, its line from 1 (0: the file as a whole), and what is wrong there.

    A `mendable` fault has a single right answer, which `repair` writes.
    """

    file: str
    line: int
    sentence: str
    mendable: bool

    def __str__(self) -> str:
        return one_line(f"{self.file}{' ' if self.line else ': '}{self.in_file}")

    @property
    def in_file(self) -> str:
        """The fault without the name of its file."""
        return one_line(f"line {self.line}: {self.sentence}" if self.line else self.sentence)


class Faults:
    """Faults of one file, collected while it is read; repetitions are counted."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[tuple[str, bool], tuple[str, int]] = {}
        self._again: Counter[tuple[str, bool]] = Counter()

    def add(self, sentence: str, line: int = 0, *, mendable: bool = False, kind: str = "") -> None:
        """Add a fault of a line; faults of one kind become one, with the sentence of the first.

        Without a `kind` equal sentences are of one kind.
        """
        fault = (kind or sentence, mendable)
        self._again[fault] += fault in self._found
        self._found.setdefault(fault, (sentence, line))

    def all(self) -> tuple[Fault, ...]:
        """Return every fault once, in the order found, with the number of its repetitions."""
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
    """A file of answers.

    Attributes:
        name: The file name that the server looks for.
        task: The task whose predictions the file holds.
        rows: The number of answers that the file must hold.
        answers: The answers that the file may have.
        fill: The answer, by the task's own name, to every row of a task that was not run.
        split: The split of the task.
        format: "tsv" is GLUE's table of index and prediction, "lines" an answer per line (XTREME),
            "jsonl" an object per line with idx and label, and "multirc" an object per line and
            paragraph.
        paragraphs: The number of MultiRC's paragraphs; None for any number.
        questions: The number of MultiRC's questions in all paragraphs; None for any number.
        missing_are_wrong: Whether rows may be left out; their answers are then None.
        names: The index of a row for each text that a file may have instead.
        header: The names of a table's columns.
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
    """Answers in a file as the server expects them, and every fault.

    `answers` is None if a fault leaves more than one answer possible.
    """

    answers: Sequence[Any] | None
    faults: tuple[Fault, ...]


def conclude(answers: Sequence[Any] | None, faults: Faults) -> Reading:
    """Return the reading of a file, without its answers unless every fault can be mended."""
    found = faults.all()
    is_clear = all(fault.mendable for fault in found)
    return Reading(answers=answers if is_clear else None, faults=found)


# The bytes of a file as lines: UTF-8 without a mark, lines that end in a line feed.

Line = tuple[int, str]
"""Number of a line, from 1, and its text without the line break."""

MARK = "\ufeff"


def decoded(content: bytes, faults: Faults) -> str | None:
    """Decode a text without a byte order mark; return None and add a fault if it is not UTF-8."""
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
    """Return whether bytes are text in UTF-16 or UTF-32, by a mark or by many zero bytes."""
    # For ASCII letters every other byte of UTF-16 is zero, and three of four bytes of UTF-32.
    some = content[:1000]
    return some[:2] in (b"\xff\xfe", b"\xfe\xff") or some.count(0) * 3 > len(some)


def lines_of(content: bytes, faults: Faults, expected: str) -> list[Line]:
    """Return the lines that are not empty; add a fault if there are none.

    `expected` names the expected content in the fault.
    """
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
"""Maximum number of faults that an error names."""

Tags = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PredictionFile:
    """A prediction for each example, in order, and notes on what was read leniently.

    Attributes:
        predictions: The predictions.
        notes: Sentences on mendable faults of the file.
        left_out: The number of missing rows whose predictions are not marked as `missing`.
        sweep_order: The ids of questions in the order in which the file lists no-answer scores.
            This order decides between equal scores when SQuAD's script looks for the best
            threshold.
        columns: The predicted and the gold tags of each sentence in CoNLL's columns.
    """

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()
    left_out: int = 0
    sweep_order: tuple[str, ...] | None = None
    columns: tuple[tuple[Tags, Tags], ...] = ()

    @property
    def missing(self) -> int:
        """Number of rows that the file leaves out."""
        return self.left_out + sum(bool(getattr(p, "missing", False)) for p in self.predictions)


def require_clear(path: Path, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return the mendable faults as notes; raise DataError if there are others."""
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
    """Return a file's text, and notes; raise DataError if it is not text."""
    faults = Faults(path.name)
    text = decoded(content_of(path), faults)
    return text or "", require_clear(path, faults.all())
