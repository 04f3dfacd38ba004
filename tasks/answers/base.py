"""Base class of the answer types; its subclasses override the methods in which they differ."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from benchharness.errors import DataError
from benchharness.tasks.examples import Example, Prediction

NO_ANSWER = "(no answer)"

CONSTANT = "constant predictions"

Cell = tuple[str, str]
"""Row and column of a confusion matrix: the names of the gold and of the predicted answer."""

Stretch = tuple[int, int]
"""Character span [start, end) of a text."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Result of comparing a prediction with the gold answer.

    Attributes:
        right: True if the prediction is right.
        near: Closeness to the gold answer; a closer prediction has a higher value.
        cells: Cells (gold, predicted) of the confusion matrix that count this prediction: one per
            example, per tagged word of a sentence, or per mention in a document.
    """

    right: bool
    near: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Confusion matrix, summed over all examples and seeds.

    `rows` are the names of the gold answers and `columns` those of the predicted answers.
    `counts` has one tuple per row, with one number per column.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class TypeLine:
    """Counts for one class or entity type: gold, predicted and right items, as means over seeds."""

    name: str
    gold: float
    predicted: float
    right: float

    @property
    def precision(self) -> float:
        """Share of the predicted items that are right; 0 for 0/0."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold items that are found; 0 for 0/0."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 for 0/0."""
        both = self.predicted + self.gold
        return 2 * self.right / both if both else 0.0


class Passage(NamedTuple):
    """Text that the page of an example shows, such as its question or its passage.

    Attributes:
        name: Heading of the text, e.g. "question".
        text: The text itself.
        marks: Character spans that the data set marks in the text, such as a word of WiC.
        holds_answers: True if the page highlights the spans of answers in this text.
        folded: True if the page shows the text collapsed at first.
    """

    name: str
    text: str
    marks: tuple[Stretch, ...] = ()
    holds_answers: bool = False
    folded: bool = False


def is_number(found: Any) -> bool:
    """Return whether a value is a finite number whose square is finite too."""
    return isinstance(found, int | float) and abs(found) < 1e150


Things = Callable[[Any], set[Any]]
"""Function from an example or a prediction to the set of its items with one class or type."""


class AnswerType:
    """Operations on the answers to a task; each answer type is a subclass.

    Attributes:
        prediction: Class of the predictions.
        noun: Noun for a valid answer in messages, e.g. "label".
        matrix: Noun for the items that a confusion matrix counts, and the caption of the matrix.
        type_noun: Noun for the classes or types that have precision and recall.
        is_words: True if an answer is a text from the data, which must be left out of files that
            may not contain any text.
    """

    prediction: ClassVar[type[Prediction]]
    noun: str = "label"
    matrix: ClassVar[tuple[str, str]]
    type_noun: ClassVar[str] = "class"
    is_words: ClassVar[bool] = False

    def __init__(self, task: Any) -> None:
        self.task = task

    # Conversion of answers from Python and from files.

    def from_python(self, example: Any, answer: Any) -> Prediction:
        """Convert a Python value to a prediction; raise DataError if it is not a valid answer."""
        raise NotImplementedError

    def names(self, examples: Sequence[Any]) -> Sequence[str]:
        """Return the names that files use for the possible answers; empty if there are no names."""
        return ()

    def from_name(self, example: Any, name: str, names: Sequence[str]) -> Prediction:
        """Convert `name`, which is one of the `names` in a file, to a prediction."""
        return self.from_python(example, name)

    def refuse(self, example: Example, answer: Any, expected: str) -> DataError:
        """Return the error for an answer that is malformed."""
        return DataError(f"the prediction for {example.id!r} is {answer!r:.80}; {expected}.")

    def unpublished(self) -> str:
        """Return the part of the task that no transformers class supports, or an empty text."""
        return ""

    def fits(self, prediction: Any, example: Any) -> bool:
        """Return whether a stored prediction is valid for the example."""
        return all(map(is_number, self.scores(prediction)))

    # Comparison with the gold answer.

    def golds(self, example: Any) -> tuple[Any, ...]:
        """Return the right answers as predictions; empty if they are hidden."""
        gold = getattr(example, example.gold_field)
        found: Any = self.prediction
        return () if gold is None else (found(id=example.id, **{example.gold_field: gold}),)

    def wrong(self, example: Any, other: Any) -> Any:
        """Return a wrong answer to an example.

        By default this is `other`, the right answer to another example.
        """
        return replace(other, id=example.id)

    def key(self, prediction: Any) -> Hashable:
        """Return a hashable value that is equal for predictions with the same answer."""
        raise NotImplementedError

    def is_right(self, prediction: Any, example: Any) -> bool:
        """Return whether the prediction is completely right, e.g. all tags of a sentence."""
        return any(self.key(prediction) == self.key(gold) for gold in self.golds(example))

    def place(self, prediction: Any) -> int | None:
        """Return the index of the answer in the prediction's `scores`; None if it has no score."""
        return None

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        """Return how close a prediction is to the gold answer; a higher value is closer.

        By default this is the sum of the gold answers' probabilities. If the prediction has no
        probabilities, this is 1 for a right answer and 0 for a wrong one.
        """
        places = [self.place(gold) for gold in self.golds(example)]
        found = [prediction.scores[p] for p in places if p is not None and self.scores(prediction)]
        return float(sum(found)) if found else float(right)

    def near_words(self, near: float, prediction: Any) -> str:
        """Describe for a reader how close a prediction is to the gold answer."""
        has_scores = self.place(prediction) is not None and self.scores(prediction)
        return f"gold {near:.3f}" if has_scores else ""

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterable[Cell]:
        """Return the cells of the confusion matrix that count the prediction."""
        return ()

    def judge(self, prediction: Any, example: Any) -> Judged:
        """Compare a prediction with an example whose answer is known."""
        right = self.is_right(prediction, example)
        near = self.near(prediction, example, right=right)
        judged = Judged(right=right, near=near, cells=())
        cells = tuple(self.cells(prediction, example, judged))
        return Judged(right=right, near=near, cells=cells)

    # Operations on several predictions.

    def average(self, predictions: Sequence[Any]) -> Prediction:
        """Combine the predictions of an ensemble's members for one example into one prediction."""
        raise NotImplementedError

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], Prediction]:
        """Return a function that predicts the most frequent answer of a train split."""
        raise NotImplementedError

    def collapsed(self, prediction: Any) -> Hashable:
        """Return a value that is the same for all predictions of a collapsed run."""
        return self.key(prediction)

    def flags(self, predictions: Sequence[Any]) -> tuple[str, ...]:
        """Return warnings about the predictions for a split.

        "constant predictions" means that every example got the same answer. Other warnings state
        how many answers a file lacks, and how many texts are not a valid answer. Both are scored
        as wrong.
        """
        answers = {self.collapsed(p) for p in predictions}
        flags = (CONSTANT,) if len(predictions) > 1 and len(answers) == 1 else ()
        counts = {
            "are missing": sum(getattr(p, "missing", False) for p in predictions),
            f"are not a valid {self.noun}": sum(map(self.is_invalid, predictions)),
        }
        said = (f"{n} of {len(predictions)} answers {what}" for what, n in counts.items() if n)
        return (*flags, *said)

    def is_invalid(self, prediction: Any) -> bool:
        """Return whether the prediction is a text that is not one of the possible answers."""
        return False

    def rows(self) -> tuple[str, ...]:
        """Return the known gold answers in the order of the confusion matrix's rows.

        The matrix appends a row for any other gold answer that occurs.
        """
        return ()

    def columns(self) -> tuple[str, ...]:
        """Return the known predicted answers in the order of the confusion matrix's columns.

        The matrix appends a column for any other predicted answer that occurs.
        """
        return self.rows()

    def confusion(self, cells: Iterable[Cell]) -> Confusion | None:
        """Count cells into a confusion matrix.

        Returns None if there are no cells, or fewer than two columns.
        """
        counted: dict[Cell, int] = {}
        for cell in cells:
            counted[cell] = counted.get(cell, 0) + 1
        known = self.rows(), self.columns()
        rows, columns = (
            (*names, *sorted({cell[side] for cell in counted} - set(names)))
            for side, names in enumerate(known)
        )
        if not counted or len(columns) < 2:
            return None
        counts = tuple(tuple(counted.get((row, column), 0) for column in columns) for row in rows)
        return Confusion(rows=rows, columns=columns, counts=counts)

    def types(self, found: Iterable[Any]) -> Iterator[tuple[str, Things]]:
        """Yield the name of each class or type, and a function that returns its items."""
        return iter(())

    def type_lines(
        self, runs: Sequence[Sequence[Any]], examples: Sequence[Any]
    ) -> tuple[TypeLine, ...]:
        """Return the counts for each class or entity type, averaged over runs.

        The result is empty if the answers have no types.
        """
        lines = []
        for name, things in self.types([*examples, *(p for run in runs for p in run)]):
            gold = [things(example) for example in examples]
            guessed = [[things(prediction) for prediction in run] for run in runs]
            right = [sum(len(a & b) for a, b in zip(run, gold, strict=True)) for run in guessed]
            lines.append(
                TypeLine(
                    name=name,
                    gold=sum(map(len, gold)),
                    predicted=fmean(sum(map(len, run)) for run in guessed),
                    right=fmean(right),
                )
            )
        return tuple(lines)

    # Answers as text: for a reader, and for a cell of an exported table.

    def said(self, prediction: Any, example: Any = None, *, texts: bool = True) -> str:
        """Describe an answer for a reader.

        Args:
            prediction: Prediction with the answer.
            example: Example that is answered. If it is None, an answer that refers to a text of the
                example is described by its position.
            texts: False if the description must not contain any text from the data.
        """
        raise NotImplementedError

    def gold_said(self, example: Any, *, texts: bool = True) -> str:
        """Describe the right answers for a reader."""
        said = (self.said(gold, example, texts=texts) for gold in self.golds(example))
        return " | ".join(dict.fromkeys(said))

    def belief(self, predictions: Sequence[Any]) -> str:
        """Return the mean probability of the answer on which all predictions agree.

        Returns an empty text if the predictions have no probabilities.
        """
        place = self.place(predictions[0])
        if place is None or not self.scores(predictions[0]):
            return ""
        return f"{fmean(p.scores[place] for p in predictions):.3f}"

    def written(self, prediction: Any, *, texts: bool = True) -> str | None:
        """Return an answer as the content of a table cell.

        Returns None if the answer is a text from the data and `texts` is false.
        """
        raise NotImplementedError

    def gold_written(self, example: Any, *, texts: bool = True) -> str | None:
        """Return the right answers as the content of a table cell."""
        return " ".join(str(self.written(gold, texts=texts)) for gold in self.golds(example))

    def spoken(self, prediction: Any, example: Any) -> str:
        """Return an answer as the text that a text-to-text model would generate for it."""
        return self.written(prediction) or ""

    def gold_value(self, example: Any, *, several: bool) -> Any:
        """Return the right answer as plain data.

        Args:
            example: Example with a known answer.
            several: True if any example of the split has more than one right option. Options are
                then returned as a sequence for every example.
        """
        return getattr(example, example.gold_field)

    def scores(self, prediction: Any) -> list[float]:
        """Return the scores stored with a prediction, e.g. the probability of each class."""
        return list(getattr(prediction, "scores", ()))

    def numbers(self, prediction: Any) -> list[float]:
        """Return the numbers in a prediction, which may be rounded differently if recomputed."""
        return self.scores(prediction)

    def facts(self, prediction: Any, example: Any) -> dict[str, Any]:
        """Return an answer as plain data for users.

        If the prediction has probabilities, `score` is the probability of the answer.
        """
        raise NotImplementedError

    def choices(self, example: Any) -> tuple[str, ...]:
        """Return the options or labels from which the answer is chosen; empty if there are none."""
        return ()

    # Texts and highlighted spans on the page of an example.

    def passages(self, example: Any) -> Iterator[Passage]:
        """Yield the texts that the page of the example shows."""
        raise NotImplementedError

    def stretches(self, prediction: Any, example: Any) -> Iterator[Stretch]:
        """Yield the character spans of an answer in the passage that contains the answers."""
        return iter(())

    def gold_stretches(self, example: Any) -> Iterator[Stretch]:
        """Yield the character spans of the right answers in the passage that contains them."""
        for gold in self.golds(example):
            yield from self.stretches(gold, example)


def mean_scores(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean of each column in rows of probabilities."""
    return tuple(map(fmean, zip(*rows, strict=True)))


def sure_of(place: int, count: int) -> tuple[float, ...]:
    """Return `count` one-hot probabilities: 1 at index `place`, or only zeros if `place` is -1."""
    return tuple(float(number == place) for number in range(count))


def words_at(words: Sequence[str], start: int, end: int) -> str:
    """Return the words [start, end), or their position ("words 3 to 4") if `words` is empty."""
    last = f" to {end}" if end > start + 1 else ""
    return " ".join(words[start:end]) or f"word{'s' if last else ''} {start + 1}{last}"


def labels_known(examples: Sequence[Example]) -> bool:
    """Return whether there is at least one example and no example hides its gold answer."""
    return bool(examples) and not any(e.is_hidden for e in examples)
