"""What a benchmark task is: where its rows are, what a row means, and how it is scored.

The class of a Task is its head type: PairTask, SpanTask, ChoiceTask, TagTask, CorefTask,
RankingTask, TimedTask.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    ClusterPrediction,
    DocumentExample,
    Example,
    PairExample,
    PairPrediction,
    Prediction,
    QueryExample,
    RankingPrediction,
    RoleExample,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
    TimedExample,
    TimedPrediction,
)
from benchharness.tasks.sources.source import Row, Source

_ROUNDING = 1e-9
"""How far sums of floats may lead a score beyond its bounds."""

PredictionT = TypeVar("PredictionT")
ExampleT = TypeVar("ExampleT")


def _nothing(_split: str, _example: Any) -> bool:
    return False


def has_no_label(_split: str, example: Any) -> bool:
    """Of `leaves_out`: an example whose label is none, such as one that nobody agreed on."""
    return bool(example.is_hidden)


def cannot_be_learned(split: str, example: Any) -> bool:
    """Of `leaves_out`: a training example whose answers are nowhere in its context."""
    return split == "train" and bool(example.traits.is_unlearnable)


@dataclass(frozen=True, kw_only=True)
class Metric(Generic[PredictionT, ExampleT]):
    """A named score. `compute(predictions, examples)` takes both in the same order.

    Values are in the metric's own unit: accuracy and F1 in 0..1, correlations in -1..1 (boards
    show them times 100). Metrics take examples, not references, because MultiRC needs groups, SQuAD
    several answers and ReCoRD the option texts. None says that the score is of a slice that these
    examples lack; it is then left out. A score is never outside its `bounds`, nor is an interval of
    it. `library` is the module that `compute` imports on use where
    that takes long, so that it can be imported while nothing else is to be done. `is_slow` says
    that it is not to be computed again for each example or resample.
    """

    name: str
    compute: Callable[[Sequence[PredictionT], Sequence[ExampleT]], float | None]
    library: str | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    is_slow: bool = False

    def of(self, name: str, keeps: Callable[[ExampleT], bool]) -> "Metric[PredictionT, ExampleT]":
        """The metric over some examples alone, "accuracy_NAME"; None where there is none."""

        def compute(
            predictions: Sequence[PredictionT], examples: Sequence[ExampleT]
        ) -> float | None:
            chosen = [(p, e) for p, e in zip(predictions, examples, strict=True) if keeps(e)]
            if not chosen:
                return None
            return self.compute([p for p, _ in chosen], [e for _, e in chosen])

        return replace(self, name=f"{self.name}_{name}", compute=compute)


class Printed(float):
    """A score that its official script writes as another number, which is rounded elsewhere.

    `line` is that number, and `count` of how many examples the score is.
    """

    line: float
    count: int

    def __new__(cls, score: float, line: float, count: int = 0) -> Self:
        """Make the score, which is an ordinary float to all but a Script."""
        made = super().__new__(cls, score)
        made.line, made.count = line, count
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[float, float, int]]:
        """Give the class and the values that a copy is made of."""
        return type(self), (float(self), self.line, self.count)


@dataclass(frozen=True, kw_only=True)
class Script:
    """An official script: the metric behind each number that it prints.

    It counts nothing itself, so that its numbers are the task's scores: a line whose metric is none
    of the task's is left out. `counts` are lines of how many examples a metric is of. A score is
    printed times `unit`, which `said` names, unless it is Printed.
    """

    lines: Mapping[str, Metric[Any, Any]]
    counts: Mapping[str, Metric[Any, Any]] = field(default_factory=dict)
    unit: float = 100.0
    said: str = "in percent"

    def prints(self, scores: Mapping[Metric[Any, Any], float | None]) -> Mapping[str, float]:
        """Return what the script prints of a task's scores; lines without one are left out."""
        found = {key: scores.get(metric) for key, metric in self.lines.items()}
        known = {key: score for key, score in found.items() if score is not None}
        lines = {k: s.line if isinstance(s, Printed) else self.unit * s for k, s in known.items()}
        counted = {key: scores.get(metric) for key, metric in self.counts.items()}
        return lines | {key: s.count for key, s in counted.items() if isinstance(s, Printed)}


def mean_metric(
    name: str, points: Callable[[PredictionT, ExampleT], float]
) -> Metric[PredictionT, ExampleT]:
    """The mean of each example's points; None where there is no example."""

    def compute(predictions: Sequence[PredictionT], examples: Sequence[ExampleT]) -> float | None:
        return fmean(map(points, predictions, examples)) if examples else None

    return Metric(name=name, compute=compute)


def total(values: Iterable[float]) -> float:
    """The sum of some values, added one after the other as the official scripts have it.

    Python's own `sum` rounds once from 3.12 on, and gives another last digit.
    """
    return reduce(add, values, 0.0)


def harmonic(precision: float, recall: float) -> float:
    """The harmonic mean of both; 0 where both are."""
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """A benchmark task; use one of the subclasses.

    `metrics` count for the task's score; `details` are shown beside it and never averaged in.
    `trained_on` names the task whose model predicts this one (AX by MNLI); such a task has no
    train split of its own. `leaves_out` says which examples of a split the benchmark's convention
    leaves out (SNLI's without a gold label); they are counted wherever the rows are. `version` goes
    up when a change of ours changes scores. `title` is what papers call the task, the part of its
    name after the slash where it is not given; `split_titles` what they call its splits where there
    are two of a kind ("m" of MNLI-m). `benchmark` names what several tasks are versions of: they
    share rows, so that no encoder is trained on two of them together. `script` is the benchmark's
    own, whose numbers are printed of a prediction file. With `public_tests` its test
    splits have their labels, and a run is scored on them too. An encoder has to read
    the `longest` rows, in tokens; 0 leaves that to recipes. `definition` is all that the task is
    made of, as plain data, where it was found in somebody's own data: a job carries it to whoever
    works on it.
    """

    name: str
    source: Source
    convert: Callable[[Row], Example]
    metrics: tuple[Metric[Any, Any], ...]
    details: tuple[Metric[Any, Any], ...] = ()
    trained_on: str | None = None
    leaves_out: Callable[[str, Any], bool] = _nothing
    cite: str = ""
    version: int = 1
    title: str = ""
    split_titles: Mapping[str, str] = field(default_factory=dict)
    definition: Mapping[str, Any] | None = None
    benchmark: str = ""
    public_tests: bool = False
    longest: int = 0
    script: Script | None = None
    head: ClassVar[str]

    def __post_init__(self) -> None:
        """Gives a task without a title its name as one."""
        object.__setattr__(self, "title", self.title or self.name.partition("/")[2])

    @property
    def kind(self) -> str:
        """The kind of its answers (tasks/answers)."""
        return self.head

    @property
    def suite(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def has_train(self) -> bool:
        """Whether it has rows to train on."""
        return "train" in self.source.splits

    @property
    def is_trained(self) -> bool:
        """Whether it has rows to train on, or those of the task whose model predicts it."""
        return self.has_train or self.trained_on is not None

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """The splits with public labels that a run is scored on (MNLI has two)."""
        kinds = ("dev", "test") if self.public_tests else ("dev",)
        return tuple(s for s in self.source.splits if s.startswith(kinds))

    @property
    def shown_split(self) -> str:
        """Which kind of split its scores are mostly of: "dev" or "test"."""
        return "test" if self.public_tests or not self.dev_splits else "dev"

    @property
    def test_splits(self) -> tuple[str, ...]:
        """The splits that the official server scores."""
        splits = () if self.public_tests else self.source.splits
        return tuple(s for s in splits if s.startswith("test"))


@dataclass(frozen=True, kw_only=True)
class PairTask(Task):
    """One or two texts to a class (`labels`, in the order of the logits) or to a number.

    A regression has no labels and a `value_range` (low, high) that predictions are clipped to only
    in a submission. `marks` is how many marked stretches every example has (WiC and WSC: 2).
    With `multi_label` an example has any number of the labels. `scale` are the number that a
    regression learns as 0, and how far from it is the one that it learns as 1.
    """

    convert: Callable[[Row], PairExample]
    metrics: tuple[Metric[PairPrediction, PairExample], ...]
    details: tuple[Metric[PairPrediction, PairExample], ...] = ()
    labels: tuple[str, ...] = ()
    value_range: tuple[float, float] | None = None
    marks: int = 0
    multi_label: bool = False
    scale: tuple[float, float] = (0.0, 1.0)
    head: ClassVar[str] = "pair"

    @property
    def is_regression(self) -> bool:
        """True where the label is a number."""
        return self.value_range is not None

    @property
    def kind(self) -> str:
        """A class, a number or a set of labels."""
        return "number" if self.is_regression else "labels" if self.multi_label else "class"


@dataclass(frozen=True, kw_only=True)
class SpanTask(Task):
    """A question on a context to a stretch of the context, or (`no_answer`) to nothing.

    `classes` are the names, group by group, of which one each is also said of a question (QuAC's
    dialog acts); with `facts` also which sentences support the answer (HotpotQA). `files` is the
    layout of the files that people's predictions of the task are in.
    """

    convert: Callable[[Row], SpanExample]
    metrics: tuple[Metric[SpanPrediction, SpanExample], ...]
    details: tuple[Metric[SpanPrediction, SpanExample], ...] = ()
    no_answer: bool = False
    classes: tuple[tuple[str, ...], ...] = ()
    facts: bool = False
    files: Literal["squad", "quac", "coqa", "hotpotqa"] = "squad"
    head: ClassVar[str] = "span"


@dataclass(frozen=True, kw_only=True)
class ChoiceTask(Task):
    """A context, a question and options to one option, which is called an `option` or otherwise.

    One that `weighs_tokens` has a text as its only option, and the answer is its likelihood.
    """

    convert: Callable[[Row], ChoiceExample]
    metrics: tuple[Metric[ChoicePrediction, ChoiceExample], ...]
    details: tuple[Metric[ChoicePrediction, ChoiceExample], ...] = ()
    option: str = "option"
    weighs_tokens: bool = False
    head: ClassVar[str] = "choice"


@dataclass(frozen=True, kw_only=True)
class TagTask(Task):
    """Words to one tag each; `tags` in the order of the logits."""

    convert: Callable[[Row], TagExample]
    metrics: tuple[Metric[TagPrediction, TagExample], ...]
    details: tuple[Metric[TagPrediction, TagExample], ...] = ()
    tags: tuple[str, ...] = ()
    head: ClassVar[str] = "tag"


@dataclass(frozen=True, kw_only=True)
class RoleTask(TagTask):
    """Words and a marked predicate to the tags of its arguments (semantic role labelling)."""

    convert: Callable[[Row], RoleExample]

    @property
    def kind(self) -> str:
        """Tags of one predicate's arguments."""
        return "role"


@dataclass(frozen=True, kw_only=True)
class CorefTask(Task):
    """A document to the clusters of its mentions; a model may know of some `genres`."""

    convert: Callable[[Row], DocumentExample]
    metrics: tuple[Metric[ClusterPrediction, DocumentExample], ...]
    details: tuple[Metric[ClusterPrediction, DocumentExample], ...] = ()
    genres: tuple[str, ...] = ()
    head: ClassVar[str] = "coref"


@dataclass(frozen=True, kw_only=True)
class RankingTask(Task):
    """A query to a ranking of a corpus's documents; its test split has its labels."""

    convert: Callable[[Row], QueryExample]
    metrics: tuple[Metric[RankingPrediction, QueryExample], ...]
    details: tuple[Metric[RankingPrediction, QueryExample], ...] = ()
    public_tests: bool = True
    head: ClassVar[str] = "ranking"


@dataclass(frozen=True, kw_only=True)
class TimedTask(Task):
    """Documents on which an encoder's speed and memory are measured; nothing is learned."""

    convert: Callable[[Row], TimedExample]
    metrics: tuple[Metric[TimedPrediction, TimedExample], ...]
    details: tuple[Metric[TimedPrediction, TimedExample], ...] = ()
    head: ClassVar[str] = "timed"


def score(
    task: Task, split: str, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> Mapping[str, float]:
    """Every metric and detail of a task on one split, by name, in the metric's own unit.

    The names of a second dev split carry its suffix (MNLI's "dev_mm" gives "accuracy_mm"), those
    of a test split beside a dev split "_test", so that no board takes one split for another.
    Raises BenchError where predictions and examples do not match one to one, where there is
    nothing to score, where a label is hidden, or where a metric gives no finite number within its
    bounds.
    """
    where = f"{task.name} {split}"
    if not examples:
        raise BenchError(f"{where} has no examples, so there is nothing to score.")
    if [p.id for p in predictions] != [e.id for e in examples]:
        raise BenchError(
            f"the {len(predictions)} predictions for {where} are not for its {len(examples)} "
            "examples in their order: every example needs exactly one prediction."
        )
    check_labels(task, split, examples)
    ending = ending_of(task, split)
    found = ((m, m.compute(predictions, examples)) for m in task.metrics + task.details)
    return {m.name + ending: _number(m, v, where) for m, v in found if v is not None}


def _number(metric: Metric[Any, Any], value: Any, where: str) -> float:
    """A metric's value as Python's number, whichever library's it is."""
    number = value.item() if hasattr(value, "item") else value
    gives = f"the metric {metric.name} gives {value!r} for {where}: expected"
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise BenchError(f"{gives} a finite number, or None.")
    low, high = metric.bounds
    if not low - _ROUNDING <= number <= high + _ROUNDING:
        raise BenchError(f"{gives} {low:g} to {high:g}, or other `bounds` of the metric.")
    return number


def ending_of(task: Task, split: str) -> str:
    """What the names of a split's scores end with, nothing for the task's first split."""
    is_second_kind = split in task.test_splits and bool(task.dev_splits)
    return ("_test" if is_second_kind else "") + suffix_of(split)


def suffix_of(split: str) -> str:
    """What tells a split from the first of its kind: "_mm" of "dev_mm" and "test_mm"."""
    _, underscore, suffix = split.partition("_")
    return underscore + suffix


def check_labels(task: Task, split: str, examples: Iterable[Example]) -> None:
    """Raises BenchError where the benchmark hides gold answers, so that nothing can be scored."""
    if any(example.is_hidden for example in examples):
        raise BenchError(
            f"{task.name} {split} hides its labels: only the official server can score it."
        )


def find_fault(task: Task, example: Example) -> str:
    """What is wrong with an example, to be said after its place; empty where nothing is."""
    match task, example:
        case PairTask(), PairExample():
            faults = _pair_faults(task, example)
        case SpanTask(), SpanExample():
            faults = _span_faults(task, example)
        case ChoiceTask(), ChoiceExample():
            faults = _choice_faults(example)
        case TagTask(), TagExample() if (task.kind == "role") == isinstance(example, RoleExample):
            faults = _tag_faults(task, example)
        case CorefTask(), DocumentExample():
            faults = _cluster_faults(example)
        case RankingTask(), QueryExample():
            faults = iter(())  # a query without a text is ranked too
        case TimedTask(), TimedExample():
            faults = iter(())
        case _:
            return f"is a {type(example).__name__}, which no {task.head} task has"
    return next(faults, "")


def _pair_faults(task: PairTask, example: PairExample) -> Iterator[str]:
    label = example.label
    texts: tuple[object, object] = (example.text_a, example.text_b)
    if not isinstance(texts[0], str) or not isinstance(texts[1], str | None):
        yield f"has no text: found {texts[0]!r} and {texts[1]!r}"
    if label is not None and task.value_range is not None:
        low, high = task.value_range
        if not (isinstance(label, float) and math.isfinite(label) and low <= label <= high):
            yield f"has the label {label!r}; expected {low:g} to {high:g}"
    elif label is not None:
        several = label if task.multi_label and isinstance(label, tuple) else (label,)
        odd = [each for each in several if each not in task.labels]
        if odd or (task.multi_label and not isinstance(label, tuple)):
            expected = f"{'any' if task.multi_label else 'one'} of {', '.join(task.labels)}"
            yield f"has the label {(odd or several)[0]!r}; expected {expected}"
    yield from _mark_faults(task, example)


def _mark_faults(task: PairTask, example: PairExample) -> Iterator[str]:
    if len(example.marks) != task.marks:
        yield f"has {len(example.marks)} marks; expected {task.marks}"
    for mark in example.marks:
        marked = example.text_a if mark.text == "a" else example.text_b or ""
        if not 0 <= mark.start < mark.end <= len(marked):
            yield (
                f"marks the characters {mark.start} to {mark.end} of text {mark.text}, which has "
                f"{len(marked)}"
            )


def _span_faults(task: SpanTask, example: SpanExample) -> Iterator[str]:
    if example.answers == () and not task.no_answer:
        yield f"has no answer, but every question of {task.name} has one"
    for text, start in example.answers or ():
        if start >= 0 and not example.context.startswith(text, start):
            yield f"has the answer {text!r}, which is not at character {start} of its context"
    yield from _place_faults(example)
    if len(example.classes) != len(task.classes):
        yield f"has {len(example.classes)} classes beside its answer; expected {len(task.classes)}"
    for found, names in zip(example.classes, task.classes, strict=False):
        if found not in names:
            yield f"has the class {found!r}; expected one of {', '.join(names)}"


def _place_faults(example: SpanExample) -> Iterator[str]:
    size = len(example.context)
    for name, (start, end) in (
        *(("answer", span) for span in (example.span,) if span is not None),
        *(("evidence", place) for place in example.evidence),
        *(("sentence", place) for place in example.sentences),
    ):
        if not 0 <= start <= end <= size:
            yield f"has its {name} at characters {start} to {end} of a context of {size}"


def _choice_faults(example: ChoiceExample) -> Iterator[str]:
    count, gold = len(example.options), example.gold
    if not count:
        yield "has no options"
    if gold is not None and not ((gold or example.answers) and set(gold) <= set(range(count))):
        yield f"has the right options {gold}; expected some of 0 to {count - 1}"


def _tag_faults(task: TagTask, example: TagExample) -> Iterator[str]:
    words, tags = len(example.words), example.tags
    if not words:
        yield "has no words"
    if tags is not None and len(tags) != words:
        yield f"has {words} words and {len(tags)} tags"
    if unknown := sorted(set(tags or ()) - set(task.tags)):
        yield f"has the tag {unknown[0]!r}; expected one of {', '.join(task.tags)}"
    if isinstance(example, RoleExample) and not -1 <= example.predicate < words:
        yield f"has the predicate {example.predicate}, expected one of its {words} words"


def _cluster_faults(example: DocumentExample) -> Iterator[str]:
    words = len(example.words)
    if not words:
        yield "has no words"
    if len(example.speakers) != len(example.sentences):
        yield f"has {len(example.sentences)} sentences and {len(example.speakers)} speakers"
    mentions = [mention for cluster in example.clusters or () for mention in cluster]
    for start, end in mentions:
        if not 0 <= start < end <= words:
            yield f"has a mention of the words {start} to {end}, and there are {words}"
    if len(set(mentions)) < len(mentions):
        yield "has a mention twice: expected each in one cluster"
