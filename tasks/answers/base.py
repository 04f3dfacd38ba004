"""Base class of the kinds of answers; a kind overrides the methods in which it differs."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from benchharness.errors import DataError
from benchharness.tasks.examples import Example, Prediction

NO_ANSWER = "(no answer)"

CONSTANT = "constant predictions"

Cell = tuple[str, str]
"""Gold and predicted answer, by their names in a confusion matrix."""

Stretch = tuple[int, int]
"""Character span [start, end) of a text."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Judgement of a prediction: whether it is right, how near it comes, and its confusion cells.

    `near` is higher for a nearer prediction. `cells` are (gold, predicted): one for an example, one
    per tagged word of a sentence, or one per mention of a document.
    """

    right: bool
    near: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Confusion matrix: counts of gold answers (`rows`) by predicted ones (`columns`).

    Counts are sums over all examples and seeds.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class TypeLine:
    """Counts of gold, predicted and right things of a class or entity type, as means over seeds."""

    name: str
    gold: float
    predicted: float
    right: float

    @property
    def precision(self) -> float:
        """Share of the predicted things that are right; 0 for 0/0."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold things that are found; 0 for 0/0."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 for 0/0."""
        both = self.predicted + self.gold
        return 2 * self.right / both if both else 0.0


class Passage(NamedTuple):
    """Text of an example on its page: "question", "passage", ...

    Attributes:
        marks: Spans that the example marks.
        holds_answers: True if the spans of answers are marked in this text too.
        folded: True if the text is long and folded at first.
    """

    name: str
    text: str
    marks: tuple[Stretch, ...] = ()
    holds_answers: bool = False
    folded: bool = False


def is_number(found: Any) -> bool:
    """Return whether a value is a number that metrics can square: not NaN, infinite or huge."""
    return isinstance(found, int | float) and abs(found) < 1e150


Things = Callable[[Any], set[Any]]
"""Function that returns an example's or a prediction's things of one class or type."""


class AnswerType:
    """Kind of answers, for a task with answers of that kind.

    Attributes:
        prediction: Class of the predictions.
        noun: Noun for a valid answer in words ("label").
        matrix: Noun for the things that a confusion matrix counts, and the matrix's caption.
        type_noun: Noun for the classes or types with precision and recall.
        is_words: True if an answer is a text of the data, which a file without texts leaves out.
    """

    prediction: ClassVar[type[Prediction]]
    noun: str = "label"
    matrix: ClassVar[tuple[str, str]]
    type_noun: ClassVar[str] = "class"
    is_words: ClassVar[bool] = False

    def __init__(self, task: Any) -> None:
        self.task = task

    # Answers from Python and from files.

    def from_python(self, example: Any, answer: Any) -> Prediction:
        """Convert an answer from Python to a prediction; raise DataError if it is malformed."""
        raise NotImplementedError

    def names(self, examples: Sequence[Any]) -> Sequence[str]:
        """Return the names of the possible answers in a file; empty if answers have no names."""
        return ()

    def from_name(self, example: Any, name: str, names: Sequence[str]) -> Prediction:
        """Convert one of a file's `names` to a prediction."""
        return self.from_python(example, name)

    def refuse(self, example: Example, answer: Any, expected: str) -> DataError:
        """Return the error for an answer that cannot be read."""
        return DataError(f"the prediction of {example.id!r} is {answer!r:.80}; {expected}.")

    def unpublished(self) -> str:
        """Return the part of the task that no transformers class supports; empty if none."""
        return ""

    def fits(self, prediction: Any, example: Any) -> bool:
        """Return whether the prediction is possible for the example; a store may hold anything."""
        return all(map(is_number, self.scores(prediction)))

    # Comparison with the gold answer.

    def golds(self, example: Any) -> tuple[Any, ...]:
        """Return the right answers as predictions; empty if they are hidden."""
        gold = getattr(example, example.gold_field)
        found: Any = self.prediction
        return () if gold is None else (found(id=example.id, **{example.gold_field: gold}),)

    def wrong(self, example: Any, other: Any) -> Any:
        """Return a wrong answer to an example, mostly another example's right answer, `other`."""
        return replace(other, id=example.id)

    def key(self, prediction: Any) -> Hashable:
        """Return a value that is equal for predictions with the same answer."""
        raise NotImplementedError

    def is_right(self, prediction: Any, example: Any) -> bool:
        """Return whether the label, the option, all tags or all clusters are right."""
        return any(self.key(prediction) == self.key(gold) for gold in self.golds(example))

    def place(self, prediction: Any) -> int | None:
        """Return the index of the answer's probability among the scores; None if it has none."""
        return None

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        """Return how near a prediction comes to the gold answer; higher is nearer.

        By default this is the probability of the gold answers; without probabilities, 1 or 0.
        """
        places = [self.place(gold) for gold in self.golds(example)]
        found = [prediction.scores[p] for p in places if p is not None and self.scores(prediction)]
        return float(sum(found)) if found else float(right)

    def near_words(self, near: float, prediction: Any) -> str:
        """Describe for a reader how near a prediction comes."""
        has_scores = self.place(prediction) is not None and self.scores(prediction)
        return f"gold {near:.3f}" if has_scores else ""

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterable[Cell]:
        """Return the cells of a confusion matrix that count the prediction."""
        return ()

    def judge(self, prediction: Any, example: Any) -> Judged:
        """Compare a prediction with an example whose answer is known."""
        right = self.is_right(prediction, example)
        near = self.near(prediction, example, right=right)
        judged = Judged(right=right, near=near, cells=())
        cells = tuple(self.cells(prediction, example, judged))
        return Judged(right=right, near=near, cells=cells)

    # Several predictions.

    def average(self, predictions: Sequence[Any]) -> Prediction:
        """Return an ensemble's prediction for one example from its members' predictions."""
        raise NotImplementedError

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], Prediction]:
        """Return a function that predicts the most frequent answer of a train split."""
        raise NotImplementedError

    def collapsed(self, prediction: Any) -> Hashable:
        """Return a value that is equal for all predictions of a run that has collapsed."""
        return self.key(prediction)

    def flags(self, predictions: Sequence[Any]) -> tuple[str, ...]:
        """Return the flags of a split: "constant predictions" if every example got the same answer.

        Further flags count the missing answers of a file, and the answers in words that are no
        label (no entity, no option); both count as wrong.
        """
        answers = {self.collapsed(p) for p in predictions}
        flags = (CONSTANT,) if len(predictions) > 1 and len(answers) == 1 else ()
        counts = {
            "missing": sum(getattr(p, "missing", False) for p in predictions),
            f"are no {self.noun}": sum(map(self.is_invalid, predictions)),
        }
        said = (f"{n} of {len(predictions)} answers {what}" for what, n in counts.items() if n)
        return (*flags, *said)

    def is_invalid(self, prediction: Any) -> bool:
        """Return whether the prediction is a text that is none of the possible answers."""
        return False

    def rows(self) -> tuple[str, ...]:
        """Return the gold answers of a confusion matrix in order; others that occur follow."""
        return ()

    def columns(self) -> tuple[str, ...]:
        """Return the predicted answers of a confusion matrix in order; others that occur follow."""
        return self.rows()

    def confusion(self, cells: Iterable[Cell]) -> Confusion | None:
        """Count cells as a confusion matrix; None without cells or with fewer than two columns."""
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
        """Yield each class or type to be scored, and a function that finds its things."""
        return iter(())

    def type_lines(
        self, runs: Sequence[Sequence[Any]], examples: Sequence[Any]
    ) -> tuple[TypeLine, ...]:
        """Return a line per class or entity type, averaged over runs; empty without types."""
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

    # Answers as text: for a reader, and as a cell of an exported table.

    def said(self, prediction: Any, example: Any = None, *, texts: bool = True) -> str:
        """Describe an answer for a reader; with `texts=False` without any text of the data.

        Without an example, an answer that refers to the example's texts is described by its
        position.
        """
        raise NotImplementedError

    def gold_said(self, example: Any, *, texts: bool = True) -> str:
        """Describe the right answers for a reader."""
        said = (self.said(gold, example, texts=texts) for gold in self.golds(example))
        return " | ".join(dict.fromkeys(said))

    def belief(self, predictions: Sequence[Any]) -> str:
        """Return the mean probability of an answer that several seeds give; "" if it is unknown."""
        place = self.place(predictions[0])
        if place is None or not self.scores(predictions[0]):
            return ""
        return f"{fmean(p.scores[place] for p in predictions):.3f}"

    def written(self, prediction: Any, *, texts: bool = True) -> str | None:
        """Return an answer as a cell of an exported table; None for a text with `texts=False`."""
        raise NotImplementedError

    def gold_written(self, example: Any, *, texts: bool = True) -> str | None:
        """Return the right answers as a cell of an exported table."""
        return " ".join(str(self.written(gold, texts=texts)) for gold in self.golds(example))

    def spoken(self, prediction: Any, example: Any) -> str:
        """Return an answer as a text that a text-to-text model could have given."""
        return self.written(prediction) or ""

    def gold_value(self, example: Any, *, several: bool) -> Any:
        """Return the right answer as plain data.

        `several` is true if an example of the split has more than one right option.
        """
        return getattr(example, example.gold_field)

    def scores(self, prediction: Any) -> list[float]:
        """Return the probabilities that are stored with a prediction."""
        return list(getattr(prediction, "scores", ()))

    def numbers(self, prediction: Any) -> list[float]:
        """Return the numbers of a prediction that a recomputation may change slightly."""
        return self.scores(prediction)

    def facts(self, prediction: Any, example: Any) -> dict[str, Any]:
        """Return an answer as plain data for users; `score` is the probability of a class."""
        raise NotImplementedError

    def choices(self, example: Any) -> tuple[str, ...]:
        """Return the options or labels from which the answer is chosen."""
        return ()

    # On the page of an example.

    def passages(self, example: Any) -> Iterator[Passage]:
        """Yield the texts of the example."""
        raise NotImplementedError

    def stretches(self, prediction: Any, example: Any) -> Iterator[Stretch]:
        """Yield the character spans of an answer in the passage that holds answers."""
        return iter(())

    def gold_stretches(self, example: Any) -> Iterator[Stretch]:
        """Yield the character spans of the right answers in the passage that holds answers."""
        for gold in self.golds(example):
            yield from self.stretches(gold, example)


def mean_scores(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the column means of rows of probabilities."""
    return tuple(map(fmean, zip(*rows, strict=True)))


def sure_of(place: int, count: int) -> tuple[float, ...]:
    """Return one-hot probabilities for a prediction that has none; all 0 for the place -1."""
    return tuple(float(number == place) for number in range(count))


def words_at(words: Sequence[str], start: int, end: int) -> str:
    """Return the words [start, end), or their position ("words 3 to 4") if they are not given."""
    last = f" to {end}" if end > start + 1 else ""
    return " ".join(words[start:end]) or f"word{'s' if last else ''} {start + 1}{last}"


def labels_known(examples: Sequence[Example]) -> bool:
    """Return whether there are examples and all of them have their gold answers."""
    return bool(examples) and not any(e.is_hidden for e in examples)
