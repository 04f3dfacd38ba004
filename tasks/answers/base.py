"""What every kind of answer offers; a new kind overrides what it must."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import Example, Prediction

NO_ANSWER = "(no answer)"

CONSTANT = "constant predictions"

Cell = tuple[str, str]
"""A gold answer and a predicted one, by the names of a confusion matrix."""

Stretch = tuple[int, int]
"""Characters [start, end) of a text."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Whether a prediction is right, how near it comes, and where a confusion matrix counts it.

    `near` is higher for what is nearer. `cells` are (gold, predicted), one for an example, one for
    each tagged word of a sentence and one for each mention of a document.
    """

    right: bool
    near: float
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Gold answers (`rows`) by predicted ones (`columns`), counted over all examples and seeds."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class TypeLine:
    """A class, or a type of entity: how many are gold, predicted and right, as means over seeds."""

    name: str
    gold: float
    predicted: float
    right: float

    @property
    def precision(self) -> float:
        """The share of the predicted that is right; 0 for 0/0."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold that is found; 0 for 0/0."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 for 0/0."""
        both = self.predicted + self.gold
        return 2 * self.right / both if both else 0.0


class Passage(NamedTuple):
    """A text of an example on its page: "question", "passage", ...

    `marks` are stretches that the example marks; in the one that `holds_answers` answers are
    marked too. A long one can be folded.
    """

    name: str
    text: str
    marks: tuple[Stretch, ...] = ()
    holds_answers: bool = False
    folded: bool = False


def is_number(found: Any) -> bool:
    """Whether it is a number whose square is one too, as metrics need it: neither NaN nor huge."""
    return isinstance(found, int | float) and abs(found) < 1e150


Things = Callable[[Any], set[Any]]
"""What an example or a prediction has of a class or a type."""


class AnswerType:
    """One kind of answer, for a task of it.

    `noun` is what an answer in words should have been ("label"); `matrix` says what a confusion
    matrix counts, and of what; `type_noun` is what precision and recall are given for. An answer
    `is_words` where it is a text of the data, which a file without texts leaves out.
    """

    prediction: ClassVar[type[Prediction]]
    noun: str = "label"
    matrix: ClassVar[tuple[str, str]]
    type_noun: ClassVar[str] = "class"
    is_words: ClassVar[bool] = False

    def __init__(self, task: Any) -> None:
        self.task = task

    # Answers given in Python.

    def from_python(self, example: Any, answer: Any) -> Prediction:
        """The prediction that an answer means; DataError where it is none of this kind."""
        raise NotImplementedError

    def names(self, examples: Sequence[Any]) -> Sequence[str]:
        """What a file calls the answers; nothing where they are no names."""
        return ()

    def from_name(self, example: Any, name: str, names: Sequence[str]) -> Prediction:
        """The prediction that one of a file's names means."""
        return self.from_python(example, name)

    def refuse(self, example: Example, answer: Any, expected: str) -> DataError:
        """The error for an answer that cannot be read."""
        return DataError(f"the prediction of {example.id!r} is {answer!r:.80}; {expected}.")

    def unpublished(self) -> str:
        """What of it no class of transformers has a place for; empty where one has for all."""
        return ""

    def fits(self, prediction: Any, example: Any) -> bool:
        """Whether an example of the task can have such an answer; a store may hold any."""
        return all(map(is_number, self.scores(prediction)))

    # What is right.

    def golds(self, example: Any) -> tuple[Any, ...]:
        """The right answers as predictions; none where they are hidden."""
        gold = getattr(example, example.gold_field)
        found: Any = self.prediction
        return () if gold is None else (found(id=example.id, **{example.gold_field: gold}),)

    def wrong(self, example: Any, other: Any) -> Any:
        """A wrong answer to an example: mostly another one's right answer."""
        return replace(other, id=example.id)

    def key(self, prediction: Any) -> Hashable:
        """Equal for predictions that give one answer."""
        raise NotImplementedError

    def is_right(self, prediction: Any, example: Any) -> bool:
        """Whether the label, the option, all tags or all clusters are right."""
        return any(self.key(prediction) == self.key(gold) for gold in self.golds(example))

    def place(self, prediction: Any) -> int | None:
        """Where the answer's probability stands among the scores; None where it has none."""
        return None

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        """Higher for what is nearer: the gold answer's probability, 1 or 0 where there is none."""
        places = [self.place(gold) for gold in self.golds(example)]
        found = [prediction.scores[p] for p in places if p is not None and self.scores(prediction)]
        return float(sum(found)) if found else float(right)

    def near_words(self, near: float, prediction: Any) -> str:
        """How near that is, for a reader."""
        has_scores = self.place(prediction) is not None and self.scores(prediction)
        return f"gold {near:.3f}" if has_scores else ""

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterable[Cell]:
        """Where a confusion matrix counts the prediction."""
        return ()

    def judge(self, prediction: Any, example: Any) -> Judged:
        """Holds a prediction against an example whose answer is known."""
        right = self.is_right(prediction, example)
        near = self.near(prediction, example, right=right)
        judged = Judged(right=right, near=near, cells=())
        cells = tuple(self.cells(prediction, example, judged))
        return Judged(right=right, near=near, cells=cells)

    # Many predictions.

    def average(self, predictions: Sequence[Any]) -> Prediction:
        """An ensemble's prediction, from its members' for one example."""
        raise NotImplementedError

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], Prediction]:
        """What the most frequent answer of a train split predicts for an example."""
        raise NotImplementedError

    def collapsed(self, prediction: Any) -> Hashable:
        """Equal for all predictions of a run that has collapsed."""
        return self.key(prediction)

    def flags(self, predictions: Sequence[Any]) -> tuple[str, ...]:
        """Says "constant predictions" where every example got one answer: the run collapsed.

        Of a file also how many answers are missing, and of a model that answers in words how many
        of its answers are no label (no entity, no option): both count as wrong.
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
        """Whether it is words that are none of the answers there are."""
        return False

    def rows(self) -> tuple[str, ...]:
        """A confusion matrix's gold answers, in their order; others that occur stand behind."""
        return ()

    def columns(self) -> tuple[str, ...]:
        """Its predicted answers."""
        return self.rows()

    def confusion(self, cells: Iterable[Cell]) -> Confusion | None:
        """The confusion matrix of judgements; None where answers are no classes (ReCoRD)."""
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
        """What precision and recall are given for, of examples and predictions."""
        return iter(())

    def type_lines(
        self, runs: Sequence[Sequence[Any]], examples: Sequence[Any]
    ) -> tuple[TypeLine, ...]:
        """A line a class or a type of entity; none where a task has neither."""
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

    # As text: for a reader, and as a cell of an exported table.

    def said(self, prediction: Any, example: Any = None, *, texts: bool = True) -> str:
        """An answer for a reader; without texts, or an example, nothing that is words of it."""
        raise NotImplementedError

    def gold_said(self, example: Any, *, texts: bool = True) -> str:
        """The right answers for a reader."""
        said = (self.said(gold, example, texts=texts) for gold in self.golds(example))
        return " | ".join(dict.fromkeys(said))

    def belief(self, predictions: Sequence[Any]) -> str:
        """The probability of an answer that several seeds give, as a mean; "" where unknown."""
        place = self.place(predictions[0])
        if place is None or not self.scores(predictions[0]):
            return ""
        return f"{fmean(p.scores[place] for p in predictions):.3f}"

    def written(self, prediction: Any, *, texts: bool = True) -> str | None:
        """An answer as a cell of an exported table."""
        raise NotImplementedError

    def gold_written(self, example: Any, *, texts: bool = True) -> str | None:
        """The right answers as a cell."""
        return " ".join(str(self.written(gold, texts=texts)) for gold in self.golds(example))

    def spoken(self, prediction: Any, example: Any) -> str:
        """An answer as a text that a model could have given."""
        return self.written(prediction) or ""

    def gold_value(self, example: Any, *, several: bool) -> Any:
        """The right answer as plain data; `several` where an example of the split has more."""
        return getattr(example, example.gold_field)

    def scores(self, prediction: Any) -> list[float]:
        """The probabilities that were stored with it."""
        return list(getattr(prediction, "scores", ()))

    def numbers(self, prediction: Any) -> list[float]:
        """What another computation of the same answer may have a little otherwise."""
        return self.scores(prediction)

    def facts(self, prediction: Any, example: Any) -> dict[str, Any]:
        """An answer as plain data for whoever has asked; a class has its probability as `score`."""
        raise NotImplementedError

    def choices(self, example: Any) -> tuple[str, ...]:
        """What there was to choose from."""
        return ()

    # On the page of an example.

    def passages(self, example: Any) -> Iterator[Passage]:
        """The example's texts."""
        raise NotImplementedError

    def stretches(self, prediction: Any, example: Any) -> Iterator[Stretch]:
        """Which characters an answer is, of the passage that holds answers."""
        return iter(())

    def gold_stretches(self, example: Any) -> Iterator[Stretch]:
        """Which characters the right answers are."""
        for gold in self.golds(example):
            yield from self.stretches(gold, example)


def mean_scores(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The means of rows of probabilities."""
    return tuple(map(fmean, zip(*rows, strict=True)))


def sure_of(place: int, count: int) -> tuple[float, ...]:
    """The probabilities of a prediction without any, as of somebody's file."""
    return tuple(float(number == place) for number in range(count))


def words_at(words: Sequence[str], start: int, end: int) -> str:
    """Words, or where they stand."""
    last = f" to {end}" if end > start + 1 else ""
    return " ".join(words[start:end]) or f"word{'s' if last else ''} {start + 1}{last}"


def labels_known(examples: Sequence[Example]) -> bool:
    """Whether there are examples, and every one of them has its gold answer."""
    return bool(examples) and not any(e.is_hidden for e in examples)
