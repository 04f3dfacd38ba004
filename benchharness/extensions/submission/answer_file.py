"""Describe the answer files of submissions: their valid answers, and the problems found in them."""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchharness.errors import DataError, one_line
from benchharness.tasks.examples import Prediction
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import content_of
from benchharness.tasks.task import Metric

# The following answer types can also interpret answers that are not in the server's form.

Scalar = str | int | float | bool | None
"""Content of a cell in a table, or a JSON value that is not a list or an object."""


class Understood(NamedTuple):
    """Interpretation of an answer that was read from a file.

    Attributes:
        value: The answer in the form that the benchmark's server expects; None if its meaning is
            not clear.
        problem: Description of what is wrong with the answer in the file; "" if nothing is.
    """

    value: str | int | None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Answer type for tasks whose answer is one of several labels.

    Attributes:
        written: Labels in the form that the benchmark's server expects (text or number), keyed by
            their names in the task.
        synonyms: Labels in the server's form (as text), keyed by other spellings, e.g. "true" keyed
            by "1".
            Numbers for labels such as "entailment" are not included, because they are ambiguous:
            sources number such labels differently.
    """

    written: Mapping[str, str | int]
    synonyms: Mapping[str, str] = field(default_factory=dict)

    def write(self, name: str | float) -> str | int:
        """Return a label in the server's form, given its name in the task."""
        return self.written[str(name)]

    def understand(self, found: Scalar) -> Understood:
        """Interpret a value in a file as a label.

        Other spellings of a label are accepted, but reported as a problem.
        """
        # The types must be equal too: in JSON, true is not 1, and 1 is not "1".
        if any(type(found) is type(value) and found == value for value in self.written.values()):
            return Understood(found if isinstance(found, int) else str(found))
        expected = " or ".join(str(value) for value in dict.fromkeys(self.written.values()))
        value = self._meant().get(_bare(found))
        if value is not None:
            return Understood(value, f"the label is {found!r}, expected {value!r}")
        if _is_number(found) and not self._is_numbered():
            return Understood(
                None,
                f"the label is the number {found}, expected {expected}: a number is ambiguous, "
                "because sources number the labels differently",
            )
        return Understood(None, f"the label is {found!r}, expected {expected}")

    def _meant(self) -> dict[str, str | int]:
        """Return the labels in the server's form, keyed by spellings as `_bare` normalizes them."""
        values = {str(value): value for value in self.written.values()}
        names = {_bare(name): value for name, value in self.written.items()}
        others = {_bare(other): values[value] for other, value in self.synonyms.items()}
        decimals = {f"{value}.0": value for text, value in values.items() if text.isdecimal()}
        # The last mapping has priority, so a label in the server's form never means another label.
        return names | others | decimals | {_bare(text): value for text, value in values.items()}

    def _is_numbered(self) -> bool:
        return all(str(value).isdecimal() for value in self.written.values())


@dataclass(frozen=True, kw_only=True)
class Number:
    """Answer type for tasks whose answer is a number.

    Numbers are written with three decimals, as in jiant, the toolkit of GLUE's authors.

    Attributes:
        low: Smallest valid number; minus infinity if there is none.
        high: Largest valid number; infinity if there is none.
    """

    low: float
    high: float

    def write(self, value: str | float) -> str:
        """Return a number as text, with three decimals and clipped to the range."""
        return f"{min(max(float(value), self.low), self.high):.3f}"

    def understand(self, found: Scalar) -> Understood:
        """Interpret a value in a file as a number.

        A finite number outside of the range is clipped, and described as a problem.
        """
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
    """Answer type for tasks whose answer is any text, such as an entity in ReCoRD.

    Attributes:
        may_be_empty: True if an empty text is a valid answer.
    """

    may_be_empty: bool = False

    def write(self, text: str | float) -> str:
        """Return the text unchanged, which is the server's form."""
        return str(text)

    def understand(self, found: Scalar) -> Understood:
        """Interpret a value in a file as a text."""
        if isinstance(found, str) and (self.may_be_empty or found.strip()):
            return Understood(found)
        return Understood(None, f"the label is {found!r}, expected the text of an entity")


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """Answer type for tasks whose answer is any number of labels.

    The benchmark's server expects a JSON list of names in the task's order. When a file is read, an
    answer may also be several names with a separator between them, a single name, or, for a row
    without labels, an empty text or "(none)".

    Attributes:
        names: Names of all labels in the task's order.
    """

    names: Sequence[str]

    def write(self, name: str | float) -> str:
        """Return a JSON list with a single name."""
        return self.listed([str(name)])

    def listed(self, found: Collection[str]) -> str:
        """Return a JSON list of the names in `found`, in the task's order."""
        return json.dumps([name for name in self.names if name in found])

    def understand(self, found: Scalar) -> Understood:
        """Interpret a value in a file as labels."""
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
        # A name may contain a separator, so the first separator is used that yields only known
        # names.
        parts = ([each.strip() for each in text.split(mark)] for mark in ("|", ";", ",", None))
        return next((found for found in parts if set(found) <= set(self.names)), None)


Answers = Labels | Number | Text | LabelSet
"""Type of the answers in a file."""


def _bare(found: Scalar) -> str:
    """Return a label in lower case, without quotes, and with "_" as the only separator.

    For example, "Not-Entailment " is normalized to "not_entailment".
    """
    text = str(found).strip().strip("\"'").strip().casefold()
    return "_".join(text.replace("-", " ").replace("_", " ").split())


def _is_number(found: Scalar) -> bool:
    """Return whether a value is a number or a text such as "1e-3" or "nan".

    Underscores and non-ASCII digits are refused, because only Python parses them.
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
    """Problem in a submission or prediction file.

    Attributes:
        file: Name of the file.
        line: Number of the line, counted from 1; 0 if the problem concerns the file as a whole.
        sentence: Description of the problem.
        mendable: True if the problem has a clear fix. `repair` can then apply the fix, and a
            prediction file with the problem can still be scored.
    """

    file: str
    line: int
    sentence: str
    mendable: bool

    def __str__(self) -> str:
        return one_line(f"{self.file}{' ' if self.line else ': '}{self.in_file}")

    @property
    def in_file(self) -> str:
        """Description of the problem without the name of its file."""
        return one_line(f"line {self.line}: {self.sentence}" if self.line else self.sentence)


class Faults:
    """Collector of the problems in one file. Repeated problems are only counted."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[tuple[str, bool], tuple[str, int]] = {}
        self._again: Counter[tuple[str, bool]] = Counter()

    def add(self, sentence: str, line: int = 0, *, mendable: bool = False, kind: str = "") -> None:
        """Add a problem.

        Args:
            sentence: Description of the problem.
            line: Number of the line; 0 for the file as a whole.
            mendable: True if the problem has a clear fix (see `Fault`).
            kind: Kind of the problem, by default the sentence. Of several problems of the same
                kind, only the first is kept, and the others are counted.
        """
        fault = (kind or sentence, mendable)
        self._again[fault] += fault in self._found
        self._found.setdefault(fault, (sentence, line))

    def all(self) -> tuple[Fault, ...]:
        """Return the problems in the order in which they were added, each kind of problem once.

        The number of further problems of the same kind is appended to the sentence.
        """
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
    """Description of a file with answers, such as one of the files of GLUE's submission.

    Attributes:
        name: File name that the server expects.
        task: Name of the task whose predictions the file contains.
        rows: Number of rows in the official test set; not used if the expected indices of the rows
            are given, as when a prediction file is scored.
        answers: Type of the answers.
        fill: Answer that every row gets if the task was not run: the name of a label in the task, a
            number, or the index of an option.
        split: Split of the task.
        format: "tsv" is GLUE's table of indices and predictions, "lines" has one answer per line
            (XTREME), "jsonl" has one object with idx and label per line, and "multirc" has one
            object per line and paragraph.
        paragraphs: Number of MultiRC's paragraphs; None for any number.
        questions: Number of MultiRC's questions in all paragraphs; None for any number.
        missing_are_wrong: True if rows may be missing. The answer of a missing row is read as None
            and counts as wrong.
        names: Index of each row, keyed by row id. The file may have these ids instead of indices.
            Empty if it must have indices.
        header: Names of the two columns in a table.
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
    """Result of reading a file with answers.

    Attributes:
        answers: Answers in the form that the server expects, in the order of the rows; None if the
            file has a problem without a clear fix.
        faults: All problems in the file.
    """

    answers: Sequence[Any] | None
    faults: tuple[Fault, ...]


def conclude(answers: Sequence[Any] | None, faults: Faults) -> Reading:
    """Return the result of reading a file.

    Args:
        answers: Answers in the file, or None if they cannot be read. The result does not contain
            them if a problem has no clear fix.
        faults: Problems in the file.
    """
    found = faults.all()
    is_clear = all(fault.mendable for fault in found)
    return Reading(answers=answers if is_clear else None, faults=found)


# Files are decoded as UTF-8 and split into lines. Byte order marks and carriage returns are
# reported.

Line = tuple[int, str]
"""Number of a line, counted from 1, and its text without the line break."""

MARK = "\ufeff"
"""Byte order mark, with which some programs begin a UTF-8 file."""


def decoded(content: bytes, faults: Faults) -> str | None:
    """Decode the bytes of a file as UTF-8, and remove a byte order mark.

    If the bytes are not UTF-8 text, this is added to `faults`, and None is returned.
    """
    if _is_wide(content):
        faults.add("it is not UTF-8 text but UTF-16 or a similar encoding: convert it to UTF-8")
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
    """Guess whether bytes are UTF-16 or UTF-32, from a byte order mark or many zero bytes."""
    # For ASCII letters, one of two bytes is zero in UTF-16, and three of four bytes in UTF-32.
    some = content[:1000]
    return some[:2] in (b"\xff\xfe", b"\xfe\xff") or some.count(0) * 3 > len(some)


def lines_of(content: bytes, faults: Faults, expected: str) -> list[Line]:
    """Return the non-empty lines of a file, and report problems with lines and encoding.

    Args:
        content: Bytes of the file.
        faults: Collector of problems.
        expected: Description of the expected content, such as "10 answers", used if the file is
            empty.

    Returns:
        The number and the text of each line; an empty list if the file is not UTF-8 text.
    """
    text = decoded(content, faults)
    if text is None or not text.strip():
        if text is not None:
            faults.add(f"it is empty, expected {expected}")
        return []
    if "\r" in text:
        faults.add("its lines end in a carriage return", 1, mendable=True)
        # In some old files, lines end with a single carriage return.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = list(enumerate(text.removesuffix("\n").split("\n"), start=1))
    for number, line in lines:
        if not line.strip():
            faults.add("the line is empty", number, mendable=True)
    return [(number, line) for number, line in lines if line.strip()]


# Prediction files are for splits whose labels are known.

SHOWN = 3
"""Maximum number of problems that an error message lists."""

Tags = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PredictionFile:
    """Content of a prediction file.

    Attributes:
        predictions: One prediction per example, in the order of the examples.
        notes: Sentences about problems in the file that were tolerated.
        left_out: Number of rows for which the file has no prediction, not counting the predictions
            that are marked as `missing`.
        sweep_order: Ids of questions in the order in which the file lists no-answer scores. SQuAD's
            script orders equal scores in this way when it searches for the best threshold. None if
            there are no such scores.
        columns: Pairs (predicted tags, gold tags), one per sentence, if the file has CoNLL's
            columns of entity tags. The tags are in the tag scheme of the file. Empty for other
            files.
    """

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()
    left_out: int = 0
    sweep_order: tuple[str, ...] | None = None
    columns: tuple[tuple[Tags, Tags], ...] = ()

    @property
    def missing(self) -> int:
        """Number of rows for which the file has no prediction."""
        return self.left_out + sum(bool(getattr(p, "missing", False)) for p in self.predictions)


FileScores = Mapping[Metric[Any, Any], float | None]
"""Scores that depend on details of a file, keyed by metric. None means that the official script
does not compute the metric."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Functions that read and score the prediction files of one format.

    Attributes:
        read: Function `(path, task, rows, no_answer)` that reads a file.
        own_scores: Function `(file, examples)` that computes the scores which depend on details of
            the file, such as the order of equal no-answer scores or the tag scheme.
        takes_scores: True if no-answer scores can be given in a second file.
    """

    read: Callable[[Path, Any, SplitRows, Any], PredictionFile]
    own_scores: Callable[[PredictionFile, Sequence[Any]], FileScores] = lambda *_: {}
    takes_scores: bool = False


@dataclass(frozen=True, kw_only=True)
class Form:
    """Description of a suite's submission that is not a zip file.

    Attributes:
        split: Prefix of the names of the splits that are submitted, or several prefixes.
        write: Function `(task, predictions, examples, threshold)` that returns the content of each
            file for a task, keyed by the file's name. `threshold` is the no-answer threshold, or
            None for the default. The name is "" if the submission is a single file; "{}" in a name
            is replaced by the language.
        needs_rows: True if `write` needs the examples; otherwise it gets an empty sequence.
        ending: File extension if the submission is a single file.
    """

    split: str | tuple[str, ...]
    write: Callable[[Any, Any, Any, float | None], Mapping[str, bytes]]
    needs_rows: bool = False
    ending: str = ""


def require_clear(path: Path, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Return notes on the problems in a file, if all of them can be tolerated.

    Args:
        path: Path of the file.
        faults: Problems in the file.

    Raises:
        DataError: A problem has no clear fix.
    """
    doubts = [
        fault.in_file if fault.file == path.name else str(fault)
        for fault in faults
        if not fault.mendable
    ]
    if doubts:
        rest = len(doubts) - SHOWN
        more = f" (and {rest} more {'problem' if rest == 1 else 'problems'})" if rest > 0 else ""
        raise DataError(f"{path} cannot be scored: {'; '.join(doubts[:SHOWN])}{more}.")
    return tuple(str(fault) for fault in faults)


def text_of(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, and notes on problems that were tolerated.

    Raises:
        DataError: The file cannot be read, or is not UTF-8 text.
    """
    faults = Faults(path.name)
    text = decoded(content_of(path), faults)
    return text or "", require_clear(path, faults.all())
