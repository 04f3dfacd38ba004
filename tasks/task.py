"""Benchmark tasks: the source of their rows, the conversion of rows to examples, and the metrics.

There is one class of tasks per type of model head: PairTask, SpanTask, ChoiceTask, and TagTask
(with its subclass RoleTask). Extensions define further ones.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any, ClassVar, Generic, Self, TypeVar

from benchharness.errors import BenchError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Example,
    PairExample,
    PairPrediction,
    Prediction,
    RoleExample,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.sources.source import Row, Source

_ROUNDING = 1e-9
"""Tolerance by which a score may exceed its bounds because of floating-point rounding."""

PredictionT = TypeVar("PredictionT")
ExampleT = TypeVar("ExampleT")


def _nothing(_split: str, _example: Any) -> bool:
    return False


def has_no_label(_split: str, example: Any) -> bool:
    """Return whether an example has no label, e.g. because its annotators disagreed.

    This function can be the value of `Task.leaves_out`. The name of the split has no effect.
    """
    return bool(example.is_hidden)


def cannot_be_learned(split: str, example: Any) -> bool:
    """Return whether an example is in train, but none of its gold answers can be learned.

    This is so if none of them is in the context or among the options.

    This function can be the value of `Task.leaves_out`.
    """
    return split == "train" and bool(example.traits.is_unlearnable)


@dataclass(frozen=True, kw_only=True)
class Metric(Generic[PredictionT, ExampleT]):
    """Metric that computes a named score from predictions and their examples.

    Values are in the metric's own unit: accuracy and F1 in 0..1, correlations in -1..1 (the
    leaderboard multiplies them by 100). Metrics get whole examples instead of references, because
    MultiRC needs the groups of examples, SQuAD several answers, and ReCoRD the texts of options.

    Attributes:
        name: Name of the score, e.g. "accuracy".
        title: Name of the score in text if `name` is ambiguous, e.g. "macro F1"; else empty.
        compute: Function that returns the score for a sequence of predictions and the sequence of
            their examples. It returns None if the metric covers only a slice of the examples and
            the slice is empty; the score is then left out.
        library: Name of a module that `compute` imports when it is called, if the import is slow.
            The module can be imported in the background before that.
        bounds: Minimum and maximum of the score; confidence intervals are clipped to them.
        is_slow: True if the metric takes so long that it is computed only once per split, and not
            for single examples or bootstrap resamples.
        is_mean: True if the score is the mean of one value per example (see `mean_metric`). If all
            values are 0 or 1, the score has an exact confidence interval.
    """

    name: str
    compute: Callable[[Sequence[PredictionT], Sequence[ExampleT]], float | None]
    library: str | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    is_slow: bool = False
    is_mean: bool = False
    title: str = ""

    def of(self, name: str, keeps: Callable[[ExampleT], bool]) -> "Metric[PredictionT, ExampleT]":
        """Return this metric restricted to the examples that `keeps` accepts.

        Args:
            name: Suffix for the name of the new metric: "middle" gives "accuracy_middle".
            keeps: Function that returns whether the metric uses an example. If it accepts no
                example, the value of the new metric is None.
        """

        def compute(
            predictions: Sequence[PredictionT], examples: Sequence[ExampleT]
        ) -> float | None:
            chosen = [(p, e) for p, e in zip(predictions, examples, strict=True) if keeps(e)]
            if not chosen:
                return None
            return self.compute([p for p, _ in chosen], [e for _, e in chosen])

        title = self.title and f"{self.title} {name}"
        return replace(self, name=f"{self.name}_{name}", title=title, compute=compute)


class Printed(float):
    """Score of a metric, together with the numbers that the official script prints for it.

    The printed score may differ from the score times a constant, e.g. because the script rounds.

    Attributes:
        line: The number that the script prints, in the script's unit.
        count: The number of examples that the score covers.
    """

    line: float
    count: int

    def __new__(cls, score: float, line: float, count: int = 0) -> Self:
        """Create the score, a float in the unit of the metric, with the attributes of this class.

        Args:
            score: Value of the float.
            line: Value of the attribute `line`.
            count: Value of the attribute `count`.
        """
        made = super().__new__(cls, score)
        made.line, made.count = line, count
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[float, float, int]]:
        """Return the class and its arguments, with which pickle and copy recreate the score."""
        return type(self), (float(self), self.line, self.count)


@dataclass(frozen=True, kw_only=True)
class Script:
    """Description of an official evaluation script: a metric for each number that it prints.

    The script itself is never run: benchharness computes the numbers from the scores of the task.
    A number is left out if the task has no score for its metric.

    Attributes:
        lines: Metrics of the printed scores, keyed by the name that the script prints with a score.
        counts: Metrics of the printed numbers of examples, keyed by the name that the script prints
            with a number. These metrics return a `Printed`, and its `count` is printed.
        unit: Factor by which a score is multiplied for printing, unless the score is a `Printed`.
        said: Unit of the printed scores, in words for users, e.g. "in percent".
    """

    lines: Mapping[str, Metric[Any, Any]]
    counts: Mapping[str, Metric[Any, Any]] = field(default_factory=dict)
    unit: float = 100.0
    said: str = "in percent"

    def prints(self, scores: Mapping[Metric[Any, Any], float | None]) -> Mapping[str, float]:
        """Return the numbers that the script prints, keyed by the names that it prints.

        Args:
            scores: Scores, keyed by metric. A number is left out if the score of its metric is
                missing or None.
        """
        found = {key: scores.get(metric) for key, metric in self.lines.items()}
        known = {key: score for key, score in found.items() if score is not None}
        lines = {k: s.line if isinstance(s, Printed) else self.unit * s for k, s in known.items()}
        counted = {key: scores.get(metric) for key, metric in self.counts.items()}
        return lines | {key: s.count for key, s in counted.items() if isinstance(s, Printed)}


def mean_metric(
    name: str, points: Callable[[PredictionT, ExampleT], float]
) -> Metric[PredictionT, ExampleT]:
    """Create a metric that averages `points(prediction, example)` over the examples.

    The value of the metric is None if there are no examples.

    Args:
        name: Name of the score, e.g. "accuracy".
        points: Function that returns the score of a single prediction.
    """

    def compute(predictions: Sequence[PredictionT], examples: Sequence[ExampleT]) -> float | None:
        return fmean(map(points, predictions, examples)) if examples else None

    return Metric(name=name, compute=compute, is_mean=True)


def total(values: Iterable[float]) -> float:
    """Return the sum of the values, added from left to right as in the official scripts.

    Since Python 3.12, the built-in `sum` compensates rounding errors, so the last digit may differ.
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
        convert: Function that converts a row to an example.
        metrics: Metrics that count for the task's score.
        details: Metrics that are shown next to the score but never averaged into it.
        trained_on: Name of another task whose model predicts this task (MNLI for AX). Such a task
            has no train split of its own.
        leaves_out: Function `(split, example)` that returns whether the convention of the benchmark
            is to drop the example, such as an SNLI row without a gold label. The number of dropped
            rows is recorded.
        cite: Citation of the task's paper.
        version: Version number, which is raised when a change of benchharness changes scores.
        title: Name of the task in papers; by default the part of `name` after the slash.
        split_titles: Suffixes of the title in papers, keyed by split, for tasks with several dev
            or test splits, e.g. {"dev": "m", "dev_mm": "mm"} for MNLI-m and MNLI-mm.
        definition: Complete definition of the task as plain data if it is a custom task, i.e. one
            detected in a user's own data. A job passes the definition to its worker process.
        benchmark: Name shared by tasks that are versions of the same benchmark. These tasks have
            rows in common, so no encoder is trained on two of them together.
        public_tests: True if the labels of the test splits are public; runs are then scored on the
            test splits too.
        longest: Maximum number of tokens per row, if the task prescribes one; a model with a lower
            limit cannot run the task. 0 means that the recipe sets the maximum length.
        script: Description of the official script whose numbers are printed when a prediction file
            is scored.
        categories: Names of slices of the examples for figures, keyed by the suffix of the scores
            on the slice: {"middle": "middle school"} for the score "accuracy_middle".
        head: Type of the model head, e.g. "pair" or "span".
        example: Class of the examples.
        hub_type: Type of the task on the Hub (huggingface.co/tasks), e.g. "text-classification".
        has_weights: False if the head has no weights, so that the network is the encoder alone.
            Such a network can predict without training, and the trained encoder can be loaded with
            the library sentence-transformers.
        has_outputs: False if the outputs of two models cannot be compared. Knowledge distillation,
            in which a student learns from the outputs of a teacher, is then not possible.
        baseline_has_settings: False if the bag-of-words baseline has no hyperparameters on this
            task, because it only counts or compares words. It then uses all training examples.
        is_measured: True if no model is trained on the task. Instead, a function that an extension
            names in `Extension.runners` measures a property of the model on this machine, such as
            its speed.
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
    categories: Mapping[str, str] = field(default_factory=dict)
    head: ClassVar[str]
    example: ClassVar[type[Example]] = Example
    hub_type: ClassVar[str] = ""
    has_weights: ClassVar[bool] = True
    has_outputs: ClassVar[bool] = True
    baseline_has_settings: ClassVar[bool] = True
    is_measured: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Set an empty title to the part of the name after the slash."""
        object.__setattr__(self, "title", self.title or self.name.partition("/")[2])

    @property
    def kind(self) -> str:
        """Type of the answers, e.g. "class": a key of `ANSWER_TYPES`, or one from an extension."""
        return self.head

    @property
    def every_metric(self) -> tuple[Metric[Any, Any], ...]:
        """The metrics of the task, then the details."""
        return *self.metrics, *self.details

    def usual_limit(self, *, is_gpu: bool) -> int | None:
        """Return the number of examples per split that are used without --limit; None for all.

        Args:
            is_gpu: True if the model runs on a GPU.
        """
        del is_gpu  # only tasks that measure speed override this method and use the argument
        return None

    def problems(self, example: Any) -> Iterator[str]:
        """Check an example, and yield a phrase such as "has no words" for each problem.

        Args:
            example: Example to check; an instance of the class `self.example`.
        """
        del example  # classes that do not override this method accept all examples
        return iter(())

    @property
    def suite(self) -> str:
        """Name of the task's suite: the part of the task's name before the slash."""
        return self.name.partition("/")[0]

    @property
    def has_train(self) -> bool:
        """True if the task has a train split."""
        return "train" in self.source.splits

    @property
    def is_trained(self) -> bool:
        """True if the task has a train split, or if a model trained on another task predicts it."""
        return self.has_train or self.trained_on is not None

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Names of the splits on which a run is scored, because their labels are public.

        These are the dev splits (MNLI has two), and also the test splits if `public_tests` is true.
        """
        kinds = ("dev", "test") if self.public_tests else ("dev",)
        return tuple(s for s in self.source.splits if s.startswith(kinds))

    @property
    def shown_split(self) -> str:
        """Type of the splits whose scores the leaderboard shows.

        It is "test" if the test splits have public labels or there is no dev split, else "dev".
        """
        return "test" if self.public_tests or not self.dev_splits else "dev"

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Names of the test splits; empty if the labels of the test splits are public.

        Usually, only the official server can score these splits.
        """
        splits = () if self.public_tests else self.source.splits
        return tuple(s for s in splits if s.startswith("test"))


@dataclass(frozen=True, kw_only=True)
class PairTask(Task):
    """Task that maps one or two texts to a class, a set of labels, or a number (regression).

    Attributes:
        labels: Names of the classes in the order of the logits; empty for a regression.
        value_range: Minimum and maximum of a regression's labels; None for classes. Predictions are
            clipped to this range only when a submission is written.
        marks: Number of spans that are marked in the texts of every example (2 in WiC and WSC).
        multi_label: True if an example can have any number of labels.
        scale: Normalisation (center, unit) of a regression's labels for training: `center` becomes
            0 and `center + unit` becomes 1.
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
    example: ClassVar[type[Example]] = PairExample
    hub_type: ClassVar[str] = "text-classification"

    @property
    def is_regression(self) -> bool:
        """True if the task's labels are numbers."""
        return self.value_range is not None

    @property
    def kind(self) -> str:
        """Type of the answers: "class", "number" or "labels"."""
        return "number" if self.is_regression else "labels" if self.multi_label else "class"

    def problems(self, example: PairExample) -> Iterator[str]:
        """Check an example, and yield a phrase for each problem.

        The texts, the label and the marked spans are checked. A possible phrase is "has the label
        7.0; expected 0 to 5"; see `Task.problems`.
        """
        return _pair_faults(self, example)


@dataclass(frozen=True, kw_only=True)
class SpanTask(Task):
    """Task that answers a question with a span of its context.

    Attributes:
        no_answer: True if a question may have no answer in its context.
        classes: Groups of class names. In addition to the answer, one class from every group is
            predicted for each question (QuAC's dialog acts).
        facts: True if the sentences that support the answer are predicted too (HotpotQA).
        files: Name of the format of prediction files for this task, e.g. "squad".
    """

    convert: Callable[[Row], SpanExample]
    metrics: tuple[Metric[SpanPrediction, SpanExample], ...]
    details: tuple[Metric[SpanPrediction, SpanExample], ...] = ()
    no_answer: bool = False
    classes: tuple[tuple[str, ...], ...] = ()
    facts: bool = False
    files: str = "squad"
    head: ClassVar[str] = "span"
    example: ClassVar[type[Example]] = SpanExample
    hub_type: ClassVar[str] = "question-answering"

    def problems(self, example: SpanExample) -> Iterator[str]:
        """Check an example, and yield a phrase for each problem.

        The answers, the character offsets and the classes are checked. A possible phrase is "has
        the class 'a'; expected one of b, c"; see `Task.problems`.
        """
        return _span_faults(self, example)


@dataclass(frozen=True, kw_only=True)
class ChoiceTask(Task):
    """Task that chooses one option for a context and a question.

    Attributes:
        option: Noun for an option in messages, e.g. "entity".
        weighs_tokens: True if nothing is chosen: the only option of every example is a text, and
            the likelihood of its tokens is measured (pseudo-perplexity).
    """

    convert: Callable[[Row], ChoiceExample]
    metrics: tuple[Metric[ChoicePrediction, ChoiceExample], ...]
    details: tuple[Metric[ChoicePrediction, ChoiceExample], ...] = ()
    option: str = "option"
    weighs_tokens: bool = False
    head: ClassVar[str] = "choice"
    example: ClassVar[type[Example]] = ChoiceExample
    hub_type: ClassVar[str] = "multiple-choice"

    def problems(self, example: ChoiceExample) -> Iterator[str]:
        """Check an example, and yield a phrase such as "has no options" for each problem.

        The options and the gold indices are checked; see `Task.problems`.
        """
        return _choice_faults(example)


@dataclass(frozen=True, kw_only=True)
class TagTask(Task):
    """Task that assigns one tag to each word.

    Attributes:
        tags: All tags, in the order of the logits.
    """

    convert: Callable[[Row], TagExample]
    metrics: tuple[Metric[TagPrediction, TagExample], ...]
    details: tuple[Metric[TagPrediction, TagExample], ...] = ()
    tags: tuple[str, ...] = ()
    head: ClassVar[str] = "tag"
    example: ClassVar[type[Example]] = TagExample
    hub_type: ClassVar[str] = "token-classification"
    baseline_has_settings: ClassVar[bool] = False

    def problems(self, example: TagExample) -> Iterator[str]:
        """Check an example, and yield a phrase such as "has no words" for each problem.

        The words and the tags are checked; see `Task.problems`.
        """
        return _tag_faults(self, example)


@dataclass(frozen=True, kw_only=True)
class RoleTask(TagTask):
    """Task that tags the arguments of a marked predicate (semantic role labelling)."""

    convert: Callable[[Row], RoleExample]
    example: ClassVar[type[Example]] = RoleExample

    @property
    def kind(self) -> str:
        """Type of the answers: always "role" (tags for the arguments of one predicate)."""
        return "role"


def score(
    task: Task, split: str, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> Mapping[str, float]:
    """Compute all metrics and details of a task on one split.

    Args:
        task: Task with the metrics.
        split: Name of the split, e.g. "dev_mm".
        predictions: One prediction per example, in the order of the examples.
        examples: Examples of the split with their labels.

    Returns:
        Scores keyed by name, each in the unit of its metric. A score's name is the name of the
        metric and the suffix that `ending_of` returns for the split: "accuracy_mm" for MNLI's
        "dev_mm". So the scores of different splits have different names.

    Raises:
        BenchError: If there are no examples, if predictions and examples do not match one to one,
            if a label is hidden, or if a score is not a finite number within the metric's bounds.
    """
    where = f"{task.name} {split}"
    if not examples:
        raise BenchError(f"{where} has no examples, so there is nothing to score.")
    if [p.id for p in predictions] != [e.id for e in examples]:
        raise BenchError(
            f"the {len(predictions)} predictions for {where} do not match its {len(examples)} "
            "examples: expected exactly one prediction per example, in the same order."
        )
    check_labels(task, split, examples)
    ending = ending_of(task, split)
    found = ((m, m.compute(predictions, examples)) for m in task.every_metric)
    return {m.name + ending: _number(m, v, where) for m, v in found if v is not None}


def _number(metric: Metric[Any, Any], value: Any, where: str) -> float:
    """Convert the value of a metric, which may be a NumPy or torch scalar, to a Python number.

    Raises BenchError if the value is not finite or is outside the metric's bounds.
    """
    number = value.item() if hasattr(value, "item") else value
    gives = f"the metric {metric.name} returned {value!r} for {where}: expected"
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise BenchError(f"{gives} a finite number, or None.")
    low, high = metric.bounds
    if not low - _ROUNDING <= number <= high + _ROUNDING:
        raise BenchError(f"{gives} {low:g} to {high:g}, the `bounds` of the metric.")
    return number


def ending_of(task: Task, split: str) -> str:
    """Return the suffix of the names of a split's scores, e.g. "_mm" for "dev_mm".

    If the task has dev splits and its test labels are hidden, the suffix for a test split begins
    with "_test": "_test_mm" for "test_mm". For "dev" the suffix is an empty text.
    """
    is_second_kind = split in task.test_splits and bool(task.dev_splits)
    return ("_test" if is_second_kind else "") + suffix_of(split)


def suffix_of(split: str) -> str:
    """Return the part of a split's name after "train", "dev" or "test", e.g. "_mm" for "dev_mm"."""
    _, underscore, suffix = split.partition("_")
    return underscore + suffix


def score_title(task: Task, score: str) -> str:
    """Return the name of a task's score for text: "macro F1" for the score "f1" of CommitmentBank.

    Other names of scores, which are not ambiguous, are returned unchanged.
    """
    endings = {ending_of(task, split) for split in task.source.splits}
    titled = (metric for metric in task.metrics if metric.title)
    titles = {m.name + ending: m.title + ending for m in titled for ending in endings}
    return titles.get(score, score)


def check_labels(task: Task, split: str, examples: Iterable[Example]) -> None:
    """Check that no example hides its gold answer.

    Raises:
        BenchError: If the gold answer of an example is hidden, so that the split cannot be scored.
    """
    if any(example.is_hidden for example in examples):
        raise BenchError(
            f"the labels of {task.name} {split} are hidden, so only the official server can score "
            "predictions for it."
        )


def find_fault(task: Task, example: Example) -> str:
    """Check that an example is valid for its task, and return the first problem.

    The problem is a phrase such as "has no words". The text is empty if there is no problem.
    """
    # RoleExample is a subclass of TagExample. It does not fit a tagging task without roles, because
    # such a task does not use the predicate.
    is_role = isinstance(example, RoleExample)
    if not isinstance(example, task.example) or is_role != issubclass(task.example, RoleExample):
        return f"is a {type(example).__name__}, which does not fit a {task.head} task"
    return next(task.problems(example), "")


def _pair_faults(task: PairTask, example: PairExample) -> Iterator[str]:
    label = example.label
    texts: tuple[object, object] = (example.text_a, example.text_b)
    if not isinstance(texts[0], str) or not isinstance(texts[1], str | None):
        yield f"has a text that is not a string: its texts are {texts[0]!r} and {texts[1]!r}"
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
        yield f"has {len(example.marks)} marked spans; expected {task.marks}"
    for mark in example.marks:
        marked = example.text_a if mark.text == "a" else example.text_b or ""
        if not 0 <= mark.start < mark.end <= len(marked):
            yield (
                f"marks the characters {mark.start} to {mark.end} of text_{mark.text}, which has "
                f"{len(marked)} characters"
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
            yield (
                f"has its {name} at characters {start} to {end}, but its context has only {size} "
                "characters"
            )


def _choice_faults(example: ChoiceExample) -> Iterator[str]:
    count, gold = len(example.options), example.gold
    if not count:
        yield "has no options"
    if gold is not None and not ((gold or example.answers) and set(gold) <= set(range(count))):
        yield f"has the gold options {gold}; expected one or more indices from 0 to {count - 1}"


def _tag_faults(task: TagTask, example: TagExample) -> Iterator[str]:
    words, tags = len(example.words), example.tags
    if not words:
        yield "has no words"
    if tags is not None and len(tags) != words:
        yield f"has {words} words and {len(tags)} tags"
    if unknown := sorted(set(tags or ()) - set(task.tags)):
        yield f"has the tag {unknown[0]!r}; expected one of {', '.join(task.tags)}"
    if isinstance(example, RoleExample) and not -1 <= example.predicate < words:
        yield f"has the predicate index {example.predicate}; expected -1 to {words - 1}"
