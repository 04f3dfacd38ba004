"""Examples and answers as a reader sees them, and what summaries of many answers count. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchharness.tasks.examples import (
    ChoiceExample,
    Clusters,
    DocumentExample,
    Example,
    Mention,
    PairExample,
    Prediction,
    RoleExample,
    SpanExample,
    TagExample,
)
from benchharness.tasks.metrics.entities import arguments, b_cubed, entities
from benchharness.tasks.metrics.right import is_right, may_abstain
from benchharness.tasks.metrics.squad import SQUAD_V1, SQUAD_V2
from benchharness.tasks.task import (
    ChoiceTask,
    CorefTask,
    PairTask,
    RoleTask,
    SpanTask,
    TagTask,
    Task,
)

NO_ANSWER = "(no answer)"
NO_CLUSTER = "(no cluster)"
OUTSIDE = "O"


def span_answer(task: Task, prediction: Any) -> str:
    """The answer that counts: "" where the model prefers none."""
    return "" if may_abstain(task) and prediction.abstains else str(prediction.text)


def answer_of(task: Task, prediction: Prediction, example: Example) -> str:
    """A prediction as a reader sees it."""
    found: Any = prediction
    match example:
        case ChoiceExample() if found.option < 0:
            return found.text or NO_ANSWER
        case ChoiceExample():
            return example.options[int(found.option)]
        case TagExample():
            return _tagged(example.words, found.tags)
        case SpanExample():
            return span_answer(task, found) or NO_ANSWER
        case PairExample():
            return label_text(found.label)
        case DocumentExample():
            return clustered(example.words, found.clusters)
    raise AssertionError(f"{task.name} has no head type")


def label_text(label: object) -> str:
    """A class, a number, or several labels as a reader sees them."""
    if isinstance(label, tuple):
        return ", ".join(label) or NO_LABEL
    return str(label)


NO_LABEL = "(none)"


def gold_of(example: Example) -> str:
    """The right answer as a reader sees it."""
    match example:
        case PairExample():
            return label_text(example.label)
        case ChoiceExample():
            return " | ".join(example.options[place] for place in example.gold or ())
        case TagExample():
            return _tagged(example.words, example.tags or ())
        case SpanExample():
            return " | ".join(dict.fromkeys(t for t, _ in example.answers or ())) or NO_ANSWER
        case DocumentExample():
            return clustered(example.words, example.clusters or ())


def text_of(example: Example) -> str:
    """What the question was; of a context on its own, nothing."""
    match example:
        case PairExample():
            return (
                example.text_a if example.text_b is None else f"{example.text_a} / {example.text_b}"
            )
        case ChoiceExample():
            return example.question or example.context
        case RoleExample():
            return f"{' '.join(example.words)} ({example.words[example.predicate]})"
        case TagExample():
            return " ".join(example.words)
        case SpanExample():
            return example.question
        case DocumentExample():
            return " ".join(example.words)


def clustered(words: Sequence[str], clusters: Clusters) -> str:
    """Each cluster's mentions in its order: "Anna = she = her | the cart = it"."""
    named = [" = ".join(" ".join(words[a:b]) for a, b in cluster) for cluster in clusters]
    return " | ".join(named) or NO_CLUSTER


def _tagged(words: Sequence[str], tags: Sequence[str]) -> str:
    named = [f"{word}/{tag}" for word, tag in zip(words, tags, strict=True) if tag != "O"]
    return " ".join(named) or "(no entity)"


# One prediction held against its example.


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Whether a prediction is right, how near it comes, and where a confusion matrix counts it.

    `near` is higher for what is nearer: the gold answer's probability (1 or 0 where the prediction
    has none), the answer's F1, the clusters' F1 by B3, less the distance of a number or the number
    of wrong tags. `cells` are (gold, predicted), one for an example, one for each tagged word of a
    sentence and one for each mention of a document.
    """

    right: bool
    near: float
    cells: tuple[tuple[str, str], ...]


def judge(task: Task, prediction: Prediction, example: Example) -> Judged:
    """Holds a prediction against an example whose label is known."""
    right = is_right(task, prediction, example)
    near = _near(task, prediction, example, right=right)
    cells = tuple(_cells(task, prediction, example, right, near))
    return Judged(right=right, near=near, cells=cells)


def gold_probability(task: Task, prediction: Any, example: Example) -> float | None:
    """The probability of the gold label, or of all gold options; None where none was stored."""
    scores = getattr(prediction, "scores", ())
    match example:
        case PairExample(label=str() as label) if scores and isinstance(task, PairTask):
            return float(scores[task.labels.index(label)])
        case ChoiceExample() if scores:
            return float(sum(scores[place] for place in example.gold or ()))
    return None


def _near(task: Task, prediction: Any, example: Example, *, right: bool) -> float:
    match example:
        case PairExample(label=float() | int() as gold):
            return -abs(float(prediction.label) - gold)
        case TagExample():
            return -float(sum(a != b for a, b in _pairs_of_tags(prediction, example)))
        case SpanExample():
            return span_f1(task, prediction, example)
        case DocumentExample():
            return b_cubed(example.clusters or (), prediction.clusters).f1
    known = gold_probability(task, prediction, example)
    return float(right) if known is None else known


def span_f1(task: Task, prediction: Any, example: SpanExample) -> float:
    """The F1 of one answer, as the official script counts it."""
    _, f1 = SQUAD_V2 if may_abstain(task) else SQUAD_V1
    return f1.compute([prediction], [example]) or 0.0


def _pairs_of_tags(prediction: Any, example: TagExample) -> Iterator[tuple[str, str]]:
    return zip(prediction.tags, example.tags or (), strict=True)


def _cells(
    task: Task, prediction: Any, example: Example, right: bool, near: float
) -> Iterator[tuple[str, str]]:
    match example:
        case PairExample(label=str() as label):
            yield label, str(prediction.label)
        case PairExample(label=float() | int() as gold) if _steps(task):
            assert isinstance(task, PairTask)
            yield _step(task, gold), _step(task, float(prediction.label))
        case ChoiceExample(gold=(int() as gold,)) if gold < len(LETTERS):
            option = prediction.option
            yield LETTERS[gold], LETTERS[option] if 0 <= option < len(LETTERS) else NO_ANSWER
        case SpanExample():
            answered = bool(span_answer(task, prediction))
            place = "exact" if right else "overlaps" if near > 0 else "elsewhere"
            yield "answer" if example.answers else "no answer", place if answered else "no answer"
        case TagExample():
            kinds = [
                (_kind(gold), _kind(guess)) for guess, gold in _pairs_of_tags(prediction, example)
            ]
            yield from (pair for pair in kinds if pair != (OUTSIDE, OUTSIDE))
        case DocumentExample():
            mentions, guessed = _mentions(example.clusters or ()), _mentions(prediction.clusters)
            for mention in sorted(mentions | guessed):
                yield MENTION[mention in mentions], MENTION[mention in guessed]


def _mentions(clusters: Clusters) -> set[Mention]:
    return {mention for cluster in clusters for mention in cluster}


MENTION = {True: "a mention", False: "no mention"}
"""Of a document's spans those that are a mention on either side are counted."""

LETTERS = "ABCDEFGH"
"""What options are called, as in RACE."""


def _kind(tag: str) -> str:
    return tag.partition("-")[2] or OUTSIDE


MOST_STEPS = 20


def _steps(task: Task) -> tuple[str, ...]:
    """The whole numbers within a regression's range; none where there are too many to count by."""
    if not isinstance(task, PairTask) or task.value_range is None:
        return ()
    low, high = map(round, task.value_range)
    return tuple(map(str, range(low, high + 1))) if high - low <= MOST_STEPS else ()


def _step(task: PairTask, number: float) -> str:
    """The nearest whole number within the task's range."""
    low, high = task.value_range or (number, number)
    return str(round(min(max(number, low), high)))


# Many predictions of one system.


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Gold answers (`rows`) by predicted ones (`columns`), counted over all examples and seeds."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def confusion_of(task: Task, cells: Iterable[tuple[str, str]]) -> Confusion | None:
    """The confusion matrix of what judgements say; None where answers are no classes (ReCoRD)."""
    counted: dict[tuple[str, str], int] = {}
    for cell in cells:
        counted[cell] = counted.get(cell, 0) + 1
    rows = _in_order(task, {row for row, _ in counted}, _rows_of(task))
    columns = _in_order(task, {column for _, column in counted}, _columns_of(task))
    if not counted or len(columns) < 2:
        return None
    counts = tuple(tuple(counted.get((row, column), 0) for column in columns) for row in rows)
    return Confusion(rows=rows, columns=columns, counts=counts)


def _rows_of(task: Task) -> tuple[str, ...]:
    match task:
        case PairTask(is_regression=True):
            return _steps(task)
        case PairTask(multi_label=False):
            return task.labels
        case SpanTask():
            return ("answer", "no answer") if task.no_answer else ("answer",)
        case CorefTask():
            return tuple(MENTION.values())
        case TagTask():
            return tuple(dict.fromkeys([*(_kind(t) for t in task.tags if t != OUTSIDE), OUTSIDE]))
    return ()


def _columns_of(task: Task) -> tuple[str, ...]:
    return (
        ("exact", "overlaps", "elsewhere", "no answer")
        if isinstance(task, SpanTask)
        else _rows_of(task)
    )


def _in_order(task: Task, found: set[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """The known labels, then the others; of a choice and of roles those that occur."""
    kept = () if isinstance(task, ChoiceTask | RoleTask) else known
    return (*kept, *sorted(found - set(kept)))


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


def type_lines(
    task: Task, runs: Sequence[Sequence[Any]], examples: Sequence[Any]
) -> tuple[TypeLine, ...]:
    """A line a class or a type of entity; none where a task has neither."""
    match task:
        case PairTask(is_regression=False):
            named = [(label, _labels(label)) for label in task.labels]
        case RoleTask():
            named = [(role, _arguments(role)) for role in _roles(runs, examples)]
        case TagTask():
            kinds = [name for name in _rows_of(task) if name != OUTSIDE]
            named = [(kind, _entities(kind)) for kind in kinds]
        case _:
            return ()
    return tuple(_type_line(name, things, runs, examples) for name, things in named)


Things = Callable[[Any], set[Any]]
"""What an example or a prediction has of a class or a type."""


def _labels(label: str) -> Things:
    def has(found: Any) -> set[Any]:
        labels = found.label if isinstance(found.label, tuple) else (found.label,)
        return {label} if label in labels else set()

    return has


def _roles(runs: Sequence[Sequence[Any]], examples: Sequence[Any]) -> list[str]:
    """The roles that occur: of all that there are most do not."""
    found = [*examples, *(prediction for run in runs for prediction in run)]
    return sorted({a.role for each in found for a in arguments(each.tags or ())})


def _arguments(role: str) -> Things:
    return lambda found: {a for a in arguments(found.tags or ()) if a.role == role}


def _entities(kind: str) -> Things:
    return lambda found: {e for e in entities(found.tags or ()) if e.kind == kind}


def _type_line(
    name: str, things: Things, runs: Sequence[Sequence[Any]], examples: Sequence[Any]
) -> TypeLine:
    gold = [things(example) for example in examples]
    guessed = [[things(prediction) for prediction in run] for run in runs]
    right = [sum(len(a & b) for a, b in zip(run, gold, strict=True)) for run in guessed]
    return TypeLine(
        name=name,
        gold=sum(map(len, gold)),
        predicted=fmean(sum(map(len, run)) for run in guessed),
        right=fmean(right),
    )


def labels_known(examples: Sequence[Example]) -> bool:
    """Whether there are examples, and every one of them has its gold answer."""
    return bool(examples) and not any(e.is_hidden for e in examples)
