"""Benchmark tasks: where their rows come from, how a row converts, and how predictions are scored.

The class of a task is its head type: PairTask, SpanTask, ChoiceTask, TagTask, CorefTask,
RankingTask or TimedTask.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from benchharness.errors import BenchError
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
"""Tolerance by which a score may exceed its bounds, because sums of floats are inexact."""

PredictionT = TypeVar("PredictionT")
ExampleT = TypeVar("ExampleT")


def _nothing(_split: str, _example: Any) -> bool:
    return False


def has_no_label(_split: str, example: Any) -> bool:
    """Return whether an example has no label, e.g. because annotators disagreed.

    A function for `Task.leaves_out`.
    """
    return bool(example.is_hidden)


def cannot_be_learned(split: str, example: Any) -> bool:
    """Return whether a training row has answers, none of which is in its context or options.

    A function for `Task.leaves_out`.
    """
    return split == "train" and bool(example.traits.is_unlearnable)


@dataclass(frozen=True, kw_only=True)
class Metric(Generic[PredictionT, ExampleT]):
    """Named score, computed by `compute(predictions, examples)` on two parallel sequences.

    Values are in the metric's own unit: accuracy and F1 in 0..1, correlations in -1..1 (boards
    multiply them by 100). Metrics take examples instead of references, because MultiRC needs
    groups, SQuAD several answers and ReCoRD the option texts.

    Attributes:
        name: Name of the score, e.g. "accuracy".
        compute: Function that returns the score, or None if it covers a slice of which there are no
            examples; the score is then left out.
        library: Slow module that `compute` imports on use, so that it can be imported earlier in
            the background.
        bounds: Least and greatest value of the score, and of any interval of it.
        is_slow: True if the metric must not be recomputed for single examples or resamples.
    """

    name: str
    compute: Callable[[Sequence[PredictionT], Sequence[ExampleT]], float | None]
    library: str | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    is_slow: bool = False

    def of(self, name: str, keeps: Callable[[ExampleT], bool]) -> "Metric[PredictionT, ExampleT]":
        """Return this metric for the examples that `keeps` accepts, named "accuracy_NAME".

        Its value is None if no example is accepted.
        """

        def compute(
            predictions: Sequence[PredictionT], examples: Sequence[ExampleT]
        ) -> float | None:
            chosen = [(p, e) for p, e in zip(predictions, examples, strict=True) if keeps(e)]
            if not chosen:
                return None
            return self.compute([p for p, _ in chosen], [e for _, e in chosen])

        return replace(self, name=f"{self.name}_{name}", compute=compute)


class Printed(float):
    """Score that its official script prints as another number, e.g. because the script rounds.

    Attributes:
        line: Number that the script prints.
        count: Number of examples that the score covers.
    """

    line: float
    count: int

    def __new__(cls, score: float, line: float, count: int = 0) -> Self:
        """Create the score, which is an ordinary float for everything except a Script."""
        made = super().__new__(cls, score)
        made.line, made.count = line, count
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[float, float, int]]:
        """Return the class and the arguments from which pickle and copy recreate the score."""
        return type(self), (float(self), self.line, self.count)


@dataclass(frozen=True, kw_only=True)
class Script:
    """Official evaluation script, described by the metric behind each number that it prints.

    The script computes nothing itself: its numbers are the scores of the task, and lines of metrics
    that the task lacks are left out.

    Attributes:
        lines: Metric of each printed line.
        counts: Metric whose number of examples is printed, for each line with such a number.
        unit: Factor by which a score is multiplied, unless the score is Printed.
        said: Name of that unit for the reader.
    """

    lines: Mapping[str, Metric[Any, Any]]
    counts: Mapping[str, Metric[Any, Any]] = field(default_factory=dict)
    unit: float = 100.0
    said: str = "in percent"

    def prints(self, scores: Mapping[Metric[Any, Any], float | None]) -> Mapping[str, float]:
        """Return the numbers that the script prints for a task's scores, by line."""
        found = {key: scores.get(metric) for key, metric in self.lines.items()}
        known = {key: score for key, score in found.items() if score is not None}
        lines = {k: s.line if isinstance(s, Printed) else self.unit * s for k, s in known.items()}
        counted = {key: scores.get(metric) for key, metric in self.counts.items()}
        return lines | {key: s.count for key, s in counted.items() if isinstance(s, Printed)}


def mean_metric(
    name: str, points: Callable[[PredictionT, ExampleT], float]
) -> Metric[PredictionT, ExampleT]:
    """Create a metric that averages `points` over the examples; it is None without examples."""

    def compute(predictions: Sequence[PredictionT], examples: Sequence[ExampleT]) -> float | None:
        return fmean(map(points, predictions, examples)) if examples else None

    return Metric(name=name, compute=compute)


def total(values: Iterable[float]) -> float:
    """Return the sum of the values, added one after the other as the official scripts do.

    The built-in `sum` corrects rounding errors from Python 3.12 on and gives another last digit.
    """
    return reduce(add, values, 0.0)


def harmonic(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall; 0 if both are 0."""
    both = precision + recall
    return 2 * precision * recall / both if both else 0.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """Benchmark task; use one of the subclasses.

    Attributes:
        name: Full name, e.g. "glue/rte".
        source: Files and hub data set of the rows.
        convert: Function that turns a row into an example.
        metrics: Metrics that count for the task's score.
        details: Metrics that are shown next to the score and never averaged into it.
        trained_on: Name of the task whose model predicts this one (AX: MNLI). Such a task has no
            train split of its own.
        leaves_out: Function of a split and an example that returns whether the benchmark's
            convention drops the example (SNLI rows without a gold label). Dropped rows are counted.
        cite: Paper of the task.
        version: Number that is raised when a change of benchharness changes scores.
        title: Name in papers; by default the part of `name` after the slash.
        split_titles: Names in papers of splits of which there are two of a kind ("m" of MNLI-m).
        definition: All that the task consists of, as plain data, if it was found in a user's own
            data. A job carries the definition to its worker.
        benchmark: Name of the benchmark of which several tasks are versions. These tasks share
            rows, so no encoder is trained on two of them together.
        public_tests: True if the test splits have labels; runs are then scored on them too.
        longest: Number of tokens of the rows that an encoder must be able to read; 0 leaves the
            maximum length to recipes.
        script: Official script, whose numbers are printed for a prediction file.
        head: Type of the model head.
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
        """Set the title of a task that has none to the part of its name after the slash."""
        object.__setattr__(self, "title", self.title or self.name.partition("/")[2])

    @property
    def kind(self) -> str:
        """Kind of the task's answers, a key of `tasks.answers.ANSWER_TYPES`."""
        return self.head

    @property
    def suite(self) -> str:
        """Part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def has_train(self) -> bool:
        """True if the task has a train split."""
        return "train" in self.source.splits

    @property
    def is_trained(self) -> bool:
        """True if the task has a train split, or if another task's model predicts it."""
        return self.has_train or self.trained_on is not None

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Splits with public labels on which a run is scored (MNLI has two)."""
        kinds = ("dev", "test") if self.public_tests else ("dev",)
        return tuple(s for s in self.source.splits if s.startswith(kinds))

    @property
    def shown_split(self) -> str:
        """Kind of split on which the task is mainly scored: "dev" or "test"."""
        return "test" if self.public_tests or not self.dev_splits else "dev"

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Test splits that only the official server scores."""
        splits = () if self.public_tests else self.source.splits
        return tuple(s for s in splits if s.startswith("test"))


@dataclass(frozen=True, kw_only=True)
class PairTask(Task):
    """Task that maps one or two texts to a class, a set of labels, or a number (regression).

    Attributes:
        labels: Names of the classes in the order of the logits; empty for a regression.
        value_range: (low, high) of a regression's labels, else None. Predictions are clipped to it
            only in a submission.
        marks: Number of marked spans in every example (WiC and WSC: 2).
        multi_label: True if an example has any number of the labels.
        scale: (center, unit) of a regression: `center` is learned as 0, `center + unit` as 1.
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
        """True if the label is a number."""
        return self.value_range is not None

    @property
    def kind(self) -> str:
        """Kind of the answers: "class", "number" or "labels"."""
        return "number" if self.is_regression else "labels" if self.multi_label else "class"


@dataclass(frozen=True, kw_only=True)
class SpanTask(Task):
    """Task that answers a question with a span of its context, or (`no_answer`) with no answer.

    Attributes:
        no_answer: True if questions may have no answer in their context.
        classes: Groups of class names; each question gets one class of every group in addition to
            its answer (QuAC's dialog acts).
        facts: True if the sentences that support the answer are predicted too (HotpotQA).
        files: Layout of the prediction files that people have for this task.
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
    """Task that chooses one option for a context and a question.

    Attributes:
        option: Noun for an option in messages, e.g. "entity".
        weighs_tokens: True if the only option is a text, whose likelihood is the answer.
    """

    convert: Callable[[Row], ChoiceExample]
    metrics: tuple[Metric[ChoicePrediction, ChoiceExample], ...]
    details: tuple[Metric[ChoicePrediction, ChoiceExample], ...] = ()
    option: str = "option"
    weighs_tokens: bool = False
    head: ClassVar[str] = "choice"


@dataclass(frozen=True, kw_only=True)
class TagTask(Task):
    """Task that gives each word one tag; `tags` are in the order of the logits."""

    convert: Callable[[Row], TagExample]
    metrics: tuple[Metric[TagPrediction, TagExample], ...]
    details: tuple[Metric[TagPrediction, TagExample], ...] = ()
    tags: tuple[str, ...] = ()
    head: ClassVar[str] = "tag"


@dataclass(frozen=True, kw_only=True)
class RoleTask(TagTask):
    """Task that tags the arguments of a marked predicate (semantic role labelling)."""

    convert: Callable[[Row], RoleExample]

    @property
    def kind(self) -> str:
        """Kind of the answers: "role", the tags of one predicate's arguments."""
        return "role"


@dataclass(frozen=True, kw_only=True)
class CorefTask(Task):
    """Task that clusters the mentions of a document; a model may use the document's genre.

    `genres` are the genres that a model can distinguish.
    """

    convert: Callable[[Row], DocumentExample]
    metrics: tuple[Metric[ClusterPrediction, DocumentExample], ...]
    details: tuple[Metric[ClusterPrediction, DocumentExample], ...] = ()
    genres: tuple[str, ...] = ()
    head: ClassVar[str] = "coref"


@dataclass(frozen=True, kw_only=True)
class RankingTask(Task):
    """Task that ranks the documents of a corpus for a query; its test split has public labels."""

    convert: Callable[[Row], QueryExample]
    metrics: tuple[Metric[RankingPrediction, QueryExample], ...]
    details: tuple[Metric[RankingPrediction, QueryExample], ...] = ()
    public_tests: bool = True
    head: ClassVar[str] = "ranking"


@dataclass(frozen=True, kw_only=True)
class TimedTask(Task):
    """Task that measures an encoder's speed and memory on documents; nothing is learned."""

    convert: Callable[[Row], TimedExample]
    metrics: tuple[Metric[TimedPrediction, TimedExample], ...]
    details: tuple[Metric[TimedPrediction, TimedExample], ...] = ()
    head: ClassVar[str] = "timed"


def score(
    task: Task, split: str, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> Mapping[str, float]:
    """Compute all metrics and details of a task on one split.

    Args:
        task: The task.
        split: Name of the split, e.g. "dev_mm".
        predictions: One prediction per example, in the order of the examples.
        examples: Examples of the split with their labels.

    Returns:
        Scores by name, in each metric's own unit. Names for a second dev split end with its suffix
        ("accuracy_mm" for MNLI's "dev_mm"), names for a hidden-label test split next to a dev split
        with "_test", so that no board confuses two splits.

    Raises:
        BenchError: If there are no examples, predictions and examples do not match one to one, a
            label is hidden, or a metric is not a finite number within its bounds.
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
    """Convert a metric's value, which may be of NumPy or torch, to a Python number.

    Raises BenchError if the value is not finite or outside the metric's bounds.
    """
    number = value.item() if hasattr(value, "item") else value
    gives = f"the metric {metric.name} gives {value!r} for {where}: expected"
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise BenchError(f"{gives} a finite number, or None.")
    low, high = metric.bounds
    if not low - _ROUNDING <= number <= high + _ROUNDING:
        raise BenchError(f"{gives} {low:g} to {high:g}, or other `bounds` of the metric.")
    return number


def ending_of(task: Task, split: str) -> str:
    """Return the suffix of a split's score names, e.g. "_test_mm"; empty for the first split."""
    is_second_kind = split in task.test_splits and bool(task.dev_splits)
    return ("_test" if is_second_kind else "") + suffix_of(split)


def suffix_of(split: str) -> str:
    """Return the part of a split's name after its kind: "_mm" for "dev_mm", empty for "dev"."""
    _, underscore, suffix = split.partition("_")
    return underscore + suffix


def check_labels(task: Task, split: str, examples: Iterable[Example]) -> None:
    """Raise BenchError if an example hides its gold answer, so that the split cannot be scored."""
    if any(example.is_hidden for example in examples):
        raise BenchError(
            f"{task.name} {split} hides its labels: only the official server can score it."
        )


def find_fault(task: Task, example: Example) -> str:
    """Return the fault of an example as the predicate of a sentence; empty if there is none."""
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
            faults = iter(())  # a query without a text is valid too
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
        yield (
            f"has {len(example.classes)} classes in addition to its answer; expected "
            f"{len(task.classes)}"
        )
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
