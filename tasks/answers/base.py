"""Base class of the answer types; its subclasses override the methods in which they differ."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from benchharness.errors import DataError
from benchharness.tasks.examples import Example, Prediction

NO_ANSWER = "(no answer)"
"""Description of a missing answer, and of the answer "no answer"."""

CONSTANT = "constant predictions"
"""Warning that all examples of a split got the same answer."""

Cell = tuple[str, str]
"""Row and column of a cell in a confusion matrix: names of the gold and the predicted answer."""

Stretch = tuple[int, int]
"""Character span: the offset of its first character, and of the character after its last one."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Result of comparing a prediction with the gold answer.

    Attributes:
        right: True if the prediction is right.
        near: Closeness of the prediction to the gold answer; a higher value is closer. Values can
            only be compared for the same answer type.
        cells: Cells (gold, predicted) of the confusion matrix to which this prediction adds 1:
            usually one cell, but one per tagged word of a sentence, or one per mention in a
            document; empty if the prediction is not counted.
    """

    right: bool
    near: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Confusion matrix, summed over all examples and seeds.

    Attributes:
        rows: Names of the gold answers.
        columns: Names of the predicted answers.
        counts: One tuple per row, with one number per column.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class TypeLine:
    """Precision and recall of one class or type, with the counts that define them.

    The counted items are entities with this type, arguments with this role, or examples of this
    class.

    Attributes:
        name: Name of the class or type.
        gold: Number of items in the gold answers.
        predicted: Number of items in the predictions, averaged over runs.
        right: Number of predicted items that are gold items too, averaged over runs.
    """

    name: str
    gold: float
    predicted: float
    right: float

    @property
    def precision(self) -> float:
        """Fraction of the predicted items that are right; 0 if no item is predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Fraction of the gold items that are predicted; 0 if there is no gold item."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if there are no items at all."""
        both = self.predicted + self.gold
        return 2 * self.right / both if both else 0.0


class Passage(NamedTuple):
    """Text block on the HTML page of an example, such as its question or its context.

    Attributes:
        name: Heading of the text, e.g. "question".
        text: The text itself.
        marks: Character spans that the data set marks in the text, such as a word of WiC.
        holds_answers: True if answers are spans of this text, so that the page highlights them.
        folded: True if the text is collapsed when the page is opened.
    """

    name: str
    text: str
    marks: tuple[Stretch, ...] = ()
    holds_answers: bool = False
    folded: bool = False


def is_number(found: Any) -> bool:
    """Return whether a value is an int or float below 1e150 in absolute value.

    The limit ensures that the square of the number does not overflow.
    """
    return isinstance(found, int | float) and abs(found) < 1e150


Things = Callable[[Any], set[Any]]
"""Function that returns the items of one class or type in an example or a prediction.

Items are, for example, the entities with the type "PER" in a sentence.
"""


class AnswerType:
    """Operations on the answers to a task; there is a subclass for each type of answers.

    Attributes:
        task: Task whose answers are processed.
        prediction: Class of the predictions.
        noun: Noun for a valid answer in messages, e.g. "label".
        matrix: Two texts about the confusion matrix: a noun for the items that are counted, e.g.
            "words", and the caption of the matrix.
        type_noun: Noun for the classes or types for which precision and recall are shown.
        is_words: True if an answer is a text from the data. Such answers are left out of files that
            must not contain any text of the data set.
    """

    prediction: ClassVar[type[Prediction]]
    noun: str = "label"
    matrix: ClassVar[tuple[str, str]]
    type_noun: ClassVar[str] = "class"
    is_words: ClassVar[bool] = False

    def __init__(self, task: Any) -> None:
        self.task = task

    # The following methods convert answers from Python and from files to predictions.

    def from_python(self, example: Any, answer: Any) -> Prediction:
        """Convert a Python value to a prediction for the example.

        Raises:
            DataError: If the value is not a valid answer.
        """
        raise NotImplementedError

    def names(self, examples: Sequence[Any]) -> Sequence[str]:
        """Return the names of all possible answers to the examples, as used in prediction files.

        The result is empty if answers are not chosen from a fixed list.
        """
        return ()

    def from_name(self, example: Any, name: str, names: Sequence[str]) -> Prediction:
        """Convert an answer that is given by its name to a prediction for the example.

        Args:
            example: Example that is answered.
            name: Name of the answer, which is one of `names`.
            names: Names of all possible answers, in the order of the task's labels or options.
        """
        return self.from_python(example, name)

    def refuse(self, example: Example, answer: Any, expected: str) -> DataError:
        """Create the error for a malformed answer.

        Args:
            example: Example to which the answer belongs.
            answer: The malformed answer.
            expected: End of the error message, e.g. "expected a number".
        """
        return DataError(f"the prediction for {example.id!r} is {answer!r:.80}; {expected}.")

    def unpublished(self) -> str:
        """Describe the part of the model that no class of the library transformers implements.

        Returns an empty text if there is a class for the whole model.
        """
        return ""

    def fits(self, prediction: Any, example: Any) -> bool:
        """Return whether a stored prediction is a valid answer to the example."""
        return all(map(is_number, self.scores(prediction)))

    # The following methods compare a prediction with the gold answer.

    def golds(self, example: Any) -> tuple[Any, ...]:
        """Return the right answers as predictions; empty if they are hidden."""
        gold = getattr(example, example.gold_field)
        found: Any = self.prediction
        return () if gold is None else (found(id=example.id, **{example.gold_field: gold}),)

    def wrong(self, example: Any, other: Any) -> Any:
        """Return a wrong answer to an example, for tests.

        Args:
            example: Example to answer.
            other: Right answer to another example, which differs from the right answer to this one.
        """
        return replace(other, id=example.id)

    def key(self, prediction: Any) -> Hashable:
        """Return a hashable value that is equal for predictions with the same answer."""
        raise NotImplementedError

    def is_right(self, prediction: Any, example: Any) -> bool:
        """Return whether the prediction is completely right, e.g. all tags of a sentence."""
        return any(self.key(prediction) == self.key(gold) for gold in self.golds(example))

    def place(self, prediction: Any) -> int | None:
        """Return the index that belongs to the predicted answer in `prediction.scores`.

        The result is an index even if `prediction.scores` is empty. It is None if the answer is not
        one of the task's labels or options, and always None for types of answers (such as spans and
        tags) that have no score per possible answer.
        """
        return None

    def confidence(self, prediction: Any) -> float | None:
        """Return the probability that the model gives to its own answer; None if it gives none.

        By default, it is the probability of the predicted label or option.
        """
        place, scores = self.place(prediction), self.scores(prediction)
        return scores[place] if place is not None and place < len(scores) else None

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        """Return how close a prediction is to the gold answer; a higher value is closer.

        By default, the result is the sum of the probabilities that the model gives to the gold
        answers. If the prediction has no probabilities, the result is 1 for a right answer and 0
        for a wrong one.

        Args:
            prediction: Prediction for the example.
            example: Example with a known answer.
            right: True if the prediction is right.
        """
        places = [self.place(gold) for gold in self.golds(example)]
        found = [prediction.scores[p] for p in places if p is not None and self.scores(prediction)]
        return float(sum(found)) if found else float(right)

    def near_words(self, near: float, prediction: Any) -> str:
        """Describe for a reader how close a prediction is to the gold answer, e.g. "F1 66.7".

        Args:
            near: Result of the method `near` for the prediction.
            prediction: Prediction for the example.

        Returns:
            The description; an empty text if it is only known whether the prediction is right.
        """
        has_scores = self.place(prediction) is not None and self.scores(prediction)
        return f"probability of gold {near:.3f}" if has_scores else ""

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterable[Cell]:
        """Return the cells of the confusion matrix in which the prediction is counted.

        Args:
            prediction: Prediction for the example.
            example: Example with a known answer.
            judged: Result of comparing the prediction with the gold answer; its `cells` are still
                empty.
        """
        return ()

    def judge(self, prediction: Any, example: Any) -> Judged:
        """Compare a prediction with the gold answer of an example, which must not be hidden."""
        right = self.is_right(prediction, example)
        near = self.near(prediction, example, right=right)
        judged = Judged(right=right, near=near, cells=())
        cells = tuple(self.cells(prediction, example, judged))
        return Judged(right=right, near=near, cells=cells)

    # The following methods process several predictions.

    def average(self, predictions: Sequence[Any]) -> Prediction:
        """Combine the predictions of several models for the same example into one prediction."""
        raise NotImplementedError

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], Prediction]:
        """Return a function that predicts the most frequent answer for any example.

        Args:
            examples: Examples of the train split, in which the answers are counted.
        """
        raise NotImplementedError

    def collapsed(self, prediction: Any) -> Hashable:
        """Return the value by which constant predictions are detected.

        If the value is equal for all predictions of a split, these predictions count as constant.
        By default, it is the answer itself.
        """
        return self.key(prediction)

    def flags(self, predictions: Sequence[Any]) -> tuple[str, ...]:
        """Return warnings about the predictions for a split.

        "constant predictions" means that all examples (two or more) got the same answer. Other
        warnings give the number of examples without an answer in a prediction file, and the number
        of answers from a model or file that are not valid, such as an unknown label.
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
        """Return whether the model or file gave a text that is not one of the possible answers."""
        return False

    def rows(self) -> tuple[str, ...]:
        """Return the names of gold answers that always have a row in the confusion matrix.

        If other gold answers occur, further rows are added at the end.
        """
        return ()

    def columns(self) -> tuple[str, ...]:
        """Return the names of predicted answers that always have a column in the confusion matrix.

        If other predicted answers occur, further columns are added at the end.
        """
        return self.rows()

    def confusion(self, cells: Iterable[Cell]) -> Confusion | None:
        """Build a confusion matrix.

        Args:
            cells: One cell (gold, predicted) per item to count.

        Returns:
            The matrix; None if there are no cells, or if the matrix would have fewer than two
            columns.
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
        """Yield the name of each class or type, and a function that finds its items.

        The function returns the items of an example or a prediction, e.g. the entities.

        Args:
            found: Examples and predictions, from which the types are collected if the task does not
                define them.
        """
        return iter(())

    def type_lines(
        self, runs: Sequence[Sequence[Any]], examples: Sequence[Any]
    ) -> tuple[TypeLine, ...]:
        """Return the precision and recall of each class or type, averaged over runs.

        Args:
            runs: Predictions of each run, in the order of the examples.
            examples: Examples with known answers.

        Returns:
            One TypeLine per class or type; empty if the task's answers have no classes or types.
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

    # The following methods convert answers to texts for readers, to the contents of table cells,
    # and to plain data.

    def said(self, prediction: Any, example: Any = None, *, texts: bool = True) -> str:
        """Describe an answer for a reader.

        Args:
            prediction: Prediction with the answer.
            example: Example that is answered. If it is None, an answer that refers to a text of the
                example is described by its position, e.g. "option 2".
            texts: False if the description must not contain any text from the data.
        """
        raise NotImplementedError

    def gold_said(self, example: Any, *, texts: bool = True) -> str:
        """Describe the right answers for a reader; several answers are separated by " | ".

        Args:
            example: Example with the answers.
            texts: False if the description must not contain any text from the data.
        """
        said = (self.said(gold, example, texts=texts) for gold in self.golds(example))
        return " | ".join(dict.fromkeys(said))

    def belief(self, predictions: Sequence[Any]) -> str:
        """Describe for a reader how certain several models are of their common answer.

        Args:
            predictions: Predictions with the same answer to the same example.

        Returns:
            By default the mean probability of the answer, e.g. "probability 0.912"; an empty text
            if the predictions have no probabilities.
        """
        place = self.place(predictions[0])
        if place is None or not self.scores(predictions[0]):
            return ""
        return f"probability {fmean(p.scores[place] for p in predictions):.3f}"

    def written(self, prediction: Any, *, texts: bool = True) -> str | None:
        """Return an answer as the content of a table cell.

        Args:
            prediction: Prediction with the answer.
            texts: False if the cell must not contain any text from the data.

        Returns:
            The answer as a text. None if the answer is a text from the data and `texts` is false,
            or if a multiple-choice answer is missing.
        """
        raise NotImplementedError

    def gold_written(self, example: Any, *, texts: bool = True) -> str | None:
        """Return the right answers as the content of a table cell.

        Args:
            example: Example with the answers.
            texts: False if the cell must not contain any text from the data.

        Returns:
            One text with all right answers; None if they are texts from the data and `texts` is
            false.
        """
        cells = [self.written(gold, texts=texts) for gold in self.golds(example)]
        known = [str(cell) for cell in cells if cell is not None]
        return " ".join(known) if known or not cells else None

    def spoken(self, prediction: Any, example: Any) -> str:
        """Return the text that a text-to-text model would have to generate for this answer."""
        return self.written(prediction) or ""

    def gold_value(self, example: Any, *, several: bool) -> Any:
        """Return the right answer as plain data.

        Args:
            example: Example with a known answer.
            several: True if any example of the split has more than one right answer. For multiple
                choice, the result is then a sequence of option indices for every example, instead
                of a single index. Other types of answers ignore this argument.
        """
        return getattr(example, example.gold_field)

    def scores(self, prediction: Any) -> list[float]:
        """Return the scores of a prediction, e.g. one probability per class; empty if none."""
        return list(getattr(prediction, "scores", ()))

    def numbers(self, prediction: Any) -> list[float]:
        """Return the numbers in a prediction that may differ slightly if it is computed again."""
        return self.scores(prediction)

    def facts(self, prediction: Any, example: Any) -> dict[str, Any]:
        """Return an answer as plain data for users, keyed by name.

        If the answer is a single class or option, and the prediction has probabilities, the value
        of "score" is the probability of the answer.
        """
        raise NotImplementedError

    def choices(self, example: Any) -> tuple[str, ...]:
        """Return the options or labels from which the answer is chosen; empty if there are none."""
        return ()

    # The following methods return the texts on the HTML page of an example, and the spans that the
    # page highlights in them.

    def passages(self, example: Any) -> Iterator[Passage]:
        """Yield the texts that the HTML page of the example shows."""
        raise NotImplementedError

    def stretches(self, prediction: Any, example: Any) -> Iterator[Stretch]:
        """Yield the character spans (start, end) of a predicted answer in a text of the example.

        The text is the passage for which `Passage.holds_answers` is true (see `passages`).
        """
        return iter(())

    def gold_stretches(self, example: Any) -> Iterator[Stretch]:
        """Yield the character spans of the right answers in the same text as `stretches`."""
        for gold in self.golds(example):
            yield from self.stretches(gold, example)


def mean_scores(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean of each column.

    Args:
        rows: One row of probabilities per model; all rows have the same length.
    """
    return tuple(map(fmean, zip(*rows, strict=True)))


def sure_of(place: int, count: int) -> tuple[float, ...]:
    """Return probabilities for a prediction without scores: 1 for its answer, and 0 for all others.

    Args:
        place: Index of the answer; -1 if the answer is not valid, so that all probabilities are 0.
        count: Number of possible answers.
    """
    return tuple(float(number == place) for number in range(count))


def words_at(words: Sequence[str], start: int, end: int) -> str:
    """Return the words from index `start` up to, but not including, `end`, joined by spaces.

    If `words` is empty, the position of the words is described instead, counted from 1: "words 3
    to 4" for the indices 2 and 3.
    """
    last = f" to {end}" if end > start + 1 else ""
    return " ".join(words[start:end]) or f"word{'s' if last else ''} {start + 1}{last}"


def labels_known(examples: Sequence[Example]) -> bool:
    """Return whether there is at least one example and no example hides its gold answer."""
    return bool(examples) and not any(e.is_hidden for e in examples)
