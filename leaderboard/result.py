"""Outcome of a job: a Result with scores and predictions, or a Failure with its reason."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from benchharness.errors import BenchError, DataError, JobError
from benchharness.leaderboard.job import (
    SINGLE,
    Described,
    Job,
    Kind,
    Setting,
    Stage,
    Teacher,
)
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import CONSTANT
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.suites import TASKS, find_task, split_title
from benchharness.tasks.task import ending_of, suffix_of


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Predictions of the fine-tuned model for one split, and their scores.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        fingerprint: Digest of the split's examples; empty for an imported score.
        scores: Scores, keyed by name, on the scale of the metric; empty if the labels are hidden.
        predictions: One dict per example, in the order of the split, with the fields of the task's
            prediction class; empty for an imported score.
        flags: Warnings about the scores, e.g. "constant predictions".
    """

    task: str
    split: str
    fingerprint: str
    scores: Mapping[str, float]
    predictions: tuple[Mapping[str, Any], ...]
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the split with its task, "task:split", as in the keys of `Job.fingerprints`."""
        return f"{self.task}:{self.split}"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Evaluation":
        """Create an evaluation from an element of "evaluations" in the output of `Result.to_json`.

        The key "metrics", which a store adds to this element, is ignored.
        """
        known = {name: value for name, value in data.items() if name != "metrics"}
        plain = {"predictions": tuple(data["predictions"]), "flags": tuple(data["flags"])}
        return cls(**{**known, **plain})


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Point on the learning curve of a run.

    Attributes:
        step: Number of optimizer steps before the point.
        epoch: Number of epochs before the point; may be a fraction.
        loss: Mean training loss since the previous point.
        learning_rate: Learning rate at the step.
        scores: Scores, keyed by name, on the job's first dev split or on a held-out part of the
            train split; empty if the model was not evaluated at this step.
    """

    step: int
    epoch: float
    loss: float
    learning_rate: float
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Time and memory that a job needed, and the amount of its training.

    Attributes:
        seconds: Wall-clock time of the complete job.
        train_seconds: Time for training.
        predict_seconds: Time for predictions, including evaluations during training.
        steps: Number of optimizer steps; 0 without training.
        train_examples_per_second: Training examples per second of `train_seconds`.
        train_tokens: Number of training tokens without padding, counted again in every epoch.
        parameters: Number of parameters of the model; 0 if there is no encoder.
        peak_memory_bytes: Peak memory on the GPU or, without one, of the process; 0 if it was not
            measured.
    """

    seconds: float
    train_seconds: float
    predict_seconds: float
    steps: int
    train_examples_per_second: float
    train_tokens: int
    parameters: int
    peak_memory_bytes: int

    @classmethod
    def without_network(
        cls, seconds: float, train_seconds: float = 0.0, predict_seconds: float = 0.0
    ) -> "Cost":
        """Create the cost of a run that did not train an encoder, such as a baseline.

        The arguments have the same meaning as the fields; all other fields are 0.
        """
        return cls(
            seconds=seconds,
            train_seconds=train_seconds,
            predict_seconds=predict_seconds,
            steps=0,
            train_examples_per_second=0.0,
            train_tokens=0,
            parameters=0,
            peak_memory_bytes=0,
        )


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a finished job.

    Attributes:
        job: Description of the job.
        evaluations: Predictions and scores, one evaluation per predicted split.
        curve: Points of the learning curve, sorted by step.
        cost: Time, memory and amount of training.
        provenance: JSON data that describe the code, data, weights, library versions and machine.
        finished: Time at which the job ended, in UTC as ISO 8601. For an imported score, its date
            as in the imported file; may be empty.
    """

    job: Job
    evaluations: tuple[Evaluation, ...]
    curve: tuple[CurvePoint, ...]
    cost: Cost
    provenance: Mapping[str, Any]
    finished: str

    def evaluation(self, name: str) -> Evaluation:
        """Return the evaluation of a split; `name` is "task:split", e.g. "glue/rte:dev".

        Raises BenchError if the run has no predictions for this split.
        """
        for evaluation in self.evaluations:
            if evaluation.name == name:
                return evaluation
        raise BenchError(
            f"run {self.job.key[:12]} of {self.job.model} has no predictions for "
            f"{name.replace(':', ' ')}: leave the task out with --task, or run it again."
        )

    @property
    def flags(self) -> dict[str, tuple[str, ...]]:
        """Warnings about the run's scores, keyed by task; tasks without warnings are left out."""
        said = ((each.task, each.flags) for each in self.evaluations)
        return flags_by_task(said, [point.loss for point in self.curve])

    def has_collapsed(self, task: str) -> bool:
        """Return whether the model has learned nothing on a task.

        It has learned nothing if the training loss did not fall, or if all predictions are equal.
        Always False for runs that are not of a single trained model, such as baselines.
        """
        return has_collapsed(self.job.kind, self.flags.get(task, ()))

    def to_json(self) -> dict[str, Any]:
        """Return JSON data from which `from_json` creates an equal result.

        Large parts, such as the predictions, are not copied.
        """
        return {
            "job": self.job.to_json(),
            "evaluations": [dict(vars(evaluation)) for evaluation in self.evaluations],
            "curve": [dict(vars(point)) for point in self.curve],
            "cost": dict(vars(self.cost)),
            "provenance": self.provenance,
            "finished": self.finished,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Result":
        """Create a result from the output of `to_json`."""
        return cls(
            job=Job.from_json(data["job"]),
            evaluations=tuple(Evaluation.from_json(row) for row in data["evaluations"]),
            curve=tuple(CurvePoint(**point) for point in data["curve"]),
            cost=Cost(**data["cost"]),
            provenance=data["provenance"],
            finished=data["finished"],
        )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Failure of a job, with the reason.

    Attributes:
        job: Job that did not finish.
        kind: "failed" (an error occurred), "diverged" (a loss, gradient or prediction was not
            finite), "killed" (a signal ended the process), "memory" (too little memory), "timeout"
            (no progress for too long) or "interrupted" (stopped by the user or the system).
        error: Error message; one sentence.
        details: Traceback, or the last lines of a log.
        exit_code: Exit code of the process for this error (see benchharness.errors).
        finished: Time of the failure in UTC, as ISO 8601.
    """

    job: Job
    kind: str
    error: str
    details: str
    exit_code: int
    finished: str

    @classmethod
    def of(cls, job: Job, kind: str, error: str, details: str = "") -> "Failure":
        """Create the failure of a job that ended now, with the exit code for failed jobs.

        Args:
            job: Job that did not finish.
            kind: Kind of failure (see the class).
            error: Error message; one sentence.
            details: Traceback, or the last lines of a log.
        """
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(
            job=job,
            kind=kind,
            error=error,
            details=details,
            exit_code=JobError.exit_code,
            finished=finished,
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON data from which `from_json` creates an equal failure."""
        return vars(self) | {"job": self.job.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Failure":
        """Create a failure from the output of `to_json`."""
        return cls(**{**data, "job": Job.from_json(data["job"])})


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of a run's final weights by evaluations during training.

    Attributes:
        evaluations: Number of evaluations, on the dev split or on a held-out part of train.
        step: Training step of the final weights.
        is_best: True if the final weights had the best score of all evaluations, False if they are
            the weights at which early stopping ended the training.
        held_out: Share of train that was held out for the evaluations; 0 if they used dev.
    """

    evaluations: int
    step: int
    is_best: bool
    held_out: float = 0.0

    @classmethod
    def from_json(cls, data: Any) -> "Selection | None":
        """Create a selection from the output of `asdict`; return None for any other data."""
        match data:
            case {
                "evaluations": int(evaluations),
                "step": int(step),
                "is_best": bool(is_best),
                "held_out": int() | float() as share,
            }:
                return cls(evaluations=evaluations, step=step, is_best=is_best, held_out=share)
        return None


def selection_labels(selections: Iterable[Selection]) -> tuple[str, ...]:
    """Describe how the final weights of runs were selected.

    Returns one text per combination of criterion ("best of" or "stopped after") and evaluation data
    (dev, or a share of train), e.g. "best of 3 to 10 evaluations on dev".
    """
    counts: dict[str, list[int]] = {}
    for each in selections:
        rows = f"{each.held_out * 100:g} % of train" if each.held_out else "dev"
        words = f"{'best of' if each.is_best else 'stopped after'} {{}} evaluations on {rows}"
        counts.setdefault(words, []).append(each.evaluations)
    return tuple(words.format(_range(numbers)) for words, numbers in counts.items())


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


class Measure(NamedTuple):
    """Split and metric that define a score.

    For the score of a suite, e.g. an average over its tasks, `split` is "dev" or "test", and
    `metric` is the name of the rule by which the suite's score is computed.
    """

    split: str
    metric: str


def truncated_rows(provenance: object) -> dict[str, tuple[int, int]]:
    """Return how many rows of each split were truncated to the model's maximum length.

    Args:
        provenance: Provenance of a result (`Result.provenance`); other objects are accepted too.

    Returns:
        (number of truncated rows, number of all rows), keyed by "task:split", for the splits with
        truncated rows. Empty if truncated rows were not counted.
    """
    splits = provenance.get("data") if isinstance(provenance, dict) else None
    found = splits.items() if isinstance(splits, dict) else ()
    return {
        str(name): (lost, rows)
        for name, said in found
        if isinstance(said, dict)
        for lost, rows in [(said.get("truncated"), said.get("rows"))]
        if isinstance(lost, int) and lost and isinstance(rows, int)
    }


def truncated_words(rows: Iterable["RunRow"]) -> Iterator[str]:
    """Yield sentences about truncated rows: which splits, how many rows, and which models.

    Example: "truncated rows (longer than max_tokens): RTE dev 33 of 277 (minilm)." Models that have
    the same number of truncated rows on a split are named together. A sentence contains the splits
    with the same models, but lists at most 20 of them.
    """
    by_split: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, (lost, count) in row.truncated.items():
            words = f"{split_title(*name.rsplit(':', 1))} {lost:,} of {count:,}"
            by_split.setdefault(words, {})[row.model] = None
    by_models: dict[str, list[str]] = {}
    for words, models in by_split.items():
        by_models.setdefault(", ".join(models), []).append(words)
    for names, found in by_models.items():
        more = f" and {len(found) - MOST_SPLITS} more" * (len(found) > MOST_SPLITS)
        yield (
            f"truncated rows (longer than max_tokens): {', '.join(found[:MOST_SPLITS])}{more} "
            f"({names})."
        )


MOST_SPLITS = 20
"""Maximum number of splits that one sentence about truncated rows or unknown tokens lists."""

MANY = 0.02
"""Smallest share of unknown tokens, or of words without a token, that is reported. For English
text, BERT has a few unknown tokens per thousand.
"""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Record of how a run's texts were tokenized.

    Attributes:
        source: Description of the tokenizer: the nonempty fields of TokenizerSource (see
            encoder/tokenizer.py).
        unknown: (number of unknown tokens, number of all tokens), keyed by "task:split".
        lost: (number of words without a token, number of all words), keyed by "task:split". The
            model does not see a word that has no token.
    """

    source: Mapping[str, Any]
    unknown: Mapping[str, tuple[int, int]]
    lost: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, provenance: object) -> "Reading | None":
        """Return the tokenization recorded in a run's provenance; None if there is no record."""
        said = provenance if isinstance(provenance, dict) else {}
        model, data = said.get("model"), said.get("data")
        source = model.get("tokenizer_source") if isinstance(model, dict) else None
        if not isinstance(source, dict) or not isinstance(data, dict):
            return None
        return cls(
            source=source,
            unknown=_shares(data, "unknown", "tokens"),
            lost=_shares(data, "lost", "words"),
        )

    @classmethod
    def from_json(cls, data: Any) -> "Reading | None":
        """Create a record from the output of `asdict`; return None for empty data."""
        if not data:
            return None
        shares = {n: {k: tuple(v) for k, v in data[n].items()} for n in ("unknown", "lost")}
        return cls(source=data["source"], **shares)

    @property
    def told(self) -> "Reading | None":
        """Record with only the facts that are reported to users; None if there are no such facts.

        Users get unexpected facts about the tokenizer (see `words`), and the splits in which at
        least 2 % (`MANY`) of the tokens are unknown or of the words have no token.
        """
        unknown, lost = (
            {name: (count, of) for name, (count, of) in part.items() if count >= MANY * of}
            for part in (self.unknown, self.lost)
        )
        source = self.source if self.words else {}
        if not (source or unknown or lost):
            return None
        return Reading(source=source, unknown=unknown, lost=lost)

    @property
    def words(self) -> str:
        """Description of unexpected facts about the tokenizer; empty if there are none.

        These are differences from transformers' tokenizer class and, if the tokenizer's files do
        not specify how capitals are treated, how they are treated.
        """
        said = []
        if self.source.get("texts"):
            parts = ", ".join(map(str, self.source.get("unlike", ())))
            said.append(
                f"tokenized as tokenizer.json specifies; transformers' {self.source['instead_of']} "
                f"differs in {parts} and in the tokens of {self.source['texts']} of "
                f"{self.source['of']} test texts"
            )
        if case := self.source.get("case"):
            said.append(f"capitals are {case}")
        return "; ".join(said)


def _shares(data: Mapping[str, Any], part: str, whole: str) -> dict[str, tuple[int, int]]:
    """Return (`data[split][part]`, `data[split][whole]`) for each split where the part is not 0."""
    return {
        str(name): (found, of)
        for name, said in data.items()
        if isinstance(said, dict)
        for found, of in [(said.get(part), said.get(whole))]
        if isinstance(found, int) and found and isinstance(of, int)
    }


_ADVICE = {
    "unknown tokens": "the tokenizer does not know these words. Check that it is the checkpoint's "
    "own, and that do_lower_case fits its vocabulary",
    "words without a token": "the tokenizer creates no token for them, so no model can see them",
}


def reading_words(rows: Iterable["RunRow"]) -> Iterator[str]:
    """Yield sentences about models whose texts were tokenized in an unexpected way.

    The sentences are about differences from transformers' tokenizer, unknown tokens, and words
    without a token. A sentence about tokens or words lists at most 20 splits.
    """
    told = [(row.model, row.reading) for row in rows if row.reading is not None]
    by_words: dict[str, dict[str, None]] = {}
    for model, reading in told:
        by_words.setdefault(reading.words, {})[model] = None
    for words, models in by_words.items():
        if words:
            yield f"{', '.join(models)}: {words}."
    for title, advice in _ADVICE.items():
        found: dict[str, dict[str, None]] = {}
        for model, reading in told:
            part = reading.unknown if title == "unknown tokens" else reading.lost
            for name, (count, of) in part.items():
                title_of = split_title(*name.rsplit(":", 1))
                share = f"{title_of} {_share(count, of)}"
                found.setdefault(model, {})[share] = None
        for model, shares in found.items():
            more = f" and {len(shares) - MOST_SPLITS} more" * (len(shares) > MOST_SPLITS)
            shown = ", ".join(list(shares)[:MOST_SPLITS])
            yield f"{title} of {model}: {shown}{more}; {advice}."


def unread_words(tokens: int, unknown: int, lost: int, words: int) -> Iterator[str]:
    """Yield a sentence if many tokens are unknown, and another if many words have no token.

    Many are 2 % or more (`MANY`).

    Args:
        tokens: Number of all tokens.
        unknown: Number of unknown tokens.
        lost: Number of words without a token.
        words: Number of all words.
    """
    shares = ((unknown, tokens), (lost, words))
    for (title, advice), (count, of) in zip(_ADVICE.items(), shares, strict=True):
        if count and count >= MANY * of:
            yield f"{title}: {_share(count, of)}; {advice}."


def _share(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({100 * count / of:.0f} %)"


@dataclass(frozen=True, kw_only=True)
class RunRow(Described):
    """Stored run for lists and leaderboards, without its predictions and learning curve.

    Attributes that are not explained here have the same meaning as in Job.

    Attributes:
        key: Key of the job.
        model: Name of the model; if the user has renamed the model or the entry, the new name.
        recipe_digest: Digest of the values of the settings.
        limit: Maximum number of rows used per split; None if all rows were used.
        status: "finished", or `Failure.kind`.
        scores: Scores of all scored splits, keyed by task and then by score name. A run may have
            scores for several tasks, e.g. MNLI and AX.
        flags: Warnings, keyed by task.
        seconds: Duration in seconds; 0 for a failure.
        parameters: Number of parameters of the model.
        finished: Time at which the run ended (see `Result.finished`).
        error: Error message of a failure; empty for a finished run.
        measures: Split and metric of each score, keyed by task and then by score name.
        largest_split: Number of rows in the run's largest split; 0 if unknown.
        start_task: Task of the run from whose fine-tuned encoder this run started, or "another run"
            if that run is not known. Empty if this run started from a pretrained checkpoint, and
            before `grouping.with_starts` has set the field.
        start_variant: Digest (4 hex digits) of everything except the seed in the training of the
            run from which this run started (see `grouping.variant_of`); empty if there is no such
            run, or if it is not known.
        selection: How evaluations during training selected the final weights; None if they did not.
        settings: Settings, if the name of the recipe does not determine their values; else empty.
        is_hidden: True if leaderboards leave the run out.
        is_named: True if the user renamed this leaderboard entry only, not the whole model.
        truncated: Numbers of truncated rows, as returned by `truncated_rows`.
        reading: How the texts were tokenized; None if nothing unexpected happened.
    """

    key: str
    model: str
    weights: str
    recipe: str
    recipe_digest: str
    task: str
    data: str
    limit: int | None
    seed: int
    precision: str
    status: str
    scores: Mapping[str, Mapping[str, float]]
    flags: Mapping[str, tuple[str, ...]]
    fingerprints: Mapping[str, str]
    seconds: float
    parameters: int
    finished: str
    error: str
    measures: Mapping[str, Mapping[str, Measure]] = field(default_factory=dict)
    kind: Kind = "model"
    overridden: bool = False
    is_sweep: bool = False
    source: str = ""
    start_from: str | None = None
    largest_split: int = 0
    start_task: str = ""
    start_variant: str = ""
    selection: Selection | None = None
    stage: Stage | None = None
    teacher: Teacher | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    is_hidden: bool = False
    is_named: bool = False
    truncated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reading: Reading | None = None

    @property
    def is_single(self) -> bool:
        """True if the predictions come from one model, trained here or elsewhere."""
        return self.kind in SINGLE

    def has_collapsed(self, task: str) -> bool:
        """Return whether the model has learned nothing on a task.

        It has learned nothing if the training loss did not fall, or if all predictions are equal.
        Always False for runs that are not of a single trained model, such as baselines.
        """
        return has_collapsed(self.kind, self.flags.get(task, ()))

    @property
    def suite(self) -> str:
        """Name of the suite to which the task belongs."""
        return self.task.partition("/")[0]

    @cached_property
    def suites(self) -> tuple[str, ...]:
        """Suites of the tasks on which the model was trained; usually one."""
        return tuple(dict.fromkeys(task.partition("/")[0] for task in self.trained_tasks))

    def score_of(self, task: str, measure: Measure) -> float | None:
        """Return the score for this task, split and metric; None if the run has no such score."""
        names = self.measures.get(task, {}).items()
        return next((self.scores[task][name] for name, known in names if known == measure), None)


# Conversion between stored predictions and the objects that metrics and submissions use.


def predictions_of(
    evaluation: Evaluation, examples: Sequence[Example] | None = None
) -> tuple[Prediction, ...]:
    """Convert the stored predictions of a split to prediction objects, in the order of the split.

    Args:
        evaluation: Evaluation with the predictions.
        examples: Examples of the split, to check that the predictions fit them; None to skip this
            check.

    Raises:
        DataError: If the predictions do not fit the task or the examples. This is possible for a
            run from another machine.
    """
    kind = answer_type(find_task(evaluation.task))
    try:
        found = tuple(kind.prediction(**_with_tuples(row)) for row in evaluation.predictions)
        fits = examples is None or (
            [each.id for each in found] == [each.id for each in examples]
            and all(map(kind.fits, found, examples))
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"the stored predictions for {evaluation.name} do not fit this task ({error}): "
            "leave the run out (`bench db hide`)."
        ) from error
    if examples is not None and not fits:
        raise DataError(
            f"the {len(found)} predictions for {evaluation.name} do not match the {len(examples)} "
            "rows that were read now: use the same data as for the run."
        )
    return found


_SELDOM: Mapping[str, Any] = {
    "threshold": 0.0,
    "missing": False,
    "text": None,
    "tokens": 0,
    "classes": (),
    "facts": (),
}
"""Default values of rarely used fields. A field with its default value is not stored."""


def to_row(prediction: Prediction) -> dict[str, Any]:
    """Convert a prediction to the dict that is stored, with lists instead of tuples as in JSON.

    The field "start" (offset of an extracted answer) is left out, and so are rarely used fields
    that have their default value. `predictions_of` converts the dicts of a split back.
    """
    return {
        name: with_lists(value)
        for name, value in vars(prediction).items()
        if name != "start" and (name not in _SELDOM or value != _SELDOM[name])
    }


def with_lists(value: Any) -> Any:
    """Convert a tuple, and the tuples nested in it, to lists; return other values unchanged."""
    return [with_lists(each) for each in value] if isinstance(value, tuple) else value


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in row.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


# Names of scores. They are composed of a metric and a split, and are never parsed.

SUITE_ENDINGS = {"dev": "", "test": "_test"}
"""Suffix of the name of a suite's score, keyed by the split of the suite ("dev" or "test")."""


def score_name(task: str, measure: Measure) -> str:
    """Return the name of a score of a task or a suite.

    For example, the name is "accuracy_test_mm" for accuracy on MNLI's mismatched test split.

    Args:
        task: Name of the task or suite.
        measure: Split and metric of the score.
    """
    known = TASKS.get(task)
    ending = ending_of(known, measure.split) if known else SUITE_ENDINGS[measure.split]
    return measure.metric + ending


def rule_name(measure: Measure) -> str:
    """Return the name of a score as suite rules and papers use it, without "dev" and "test".

    For example, the name is "accuracy_mm" for the accuracy on both the dev and the test split of
    mismatched MNLI.
    """
    return measure.metric + suffix_of(measure.split)


def measures_of(task: str) -> Mapping[str, Measure]:
    """Return the split and metric of every possible score of a task, keyed by score name.

    The result is empty for an unknown task.
    """
    found = TASKS.get(task)
    if found is None:
        return {}
    return {
        score_name(task, measure): measure
        for split in found.dev_splits + found.test_splits
        for metric in found.metrics + found.details
        for measure in [Measure(split, metric.name)]
    }


# Collapsed runs: the training loss did not decrease, or all examples got the same answer.
#
# Large encoders on small data sets collapse with some seeds and not with others (Mosbach et al., On
# the Stability of Fine-tuning BERT, ICLR 2021). Such a run counts as a result but is marked.

NEVER_FELL = "the training loss never fell"

COLLAPSED = frozenset({CONSTANT, NEVER_FELL})
"""Flags (warnings about a run) that mean that the run has learned nothing."""


def has_collapsed(kind: str, flags: Iterable[str]) -> bool:
    """Return whether a run's flags (warnings) show that the model has learned nothing.

    Args:
        kind: Origin of the run. For runs that are not of a single model, such as baselines and
            ensembles, the result is always False.
        flags: Flags of the run on one task.
    """
    return kind in SINGLE and not COLLAPSED.isdisjoint(flags)


MARK = "!"
"""Character after a score with warnings, and before each sentence that explains a warning."""

_FEWEST_POINTS = 4
"""Minimum number of points on a learning curve whose first and last quarter can be compared."""

_LEAST_FALL = 0.02
"""Minimum relative decrease of the loss in a run that learns. The loss of a classifier that only
learns the label frequencies decreases by about one per cent from its random initialization.
"""


def curve_flags(losses: Sequence[float]) -> tuple[str, ...]:
    """Return a warning in a tuple if the training loss never fell, else an empty tuple.

    The loss counts as never having fallen if the mean of the last quarter of the losses is less
    than 2 % below the mean of the first quarter. Fewer than four losses never get the warning.

    Args:
        losses: Training losses in the order of the steps.
    """
    if len(losses) < _FEWEST_POINTS:
        return ()
    quarter = len(losses) // 4
    first, last = fmean(losses[:quarter]), fmean(losses[-quarter:])
    return (NEVER_FELL,) if last >= first * (1 - _LEAST_FALL) else ()


def flags_by_task(
    said: Iterable[tuple[str, Iterable[str]]], losses: Sequence[float]
) -> dict[str, tuple[str, ...]]:
    """Return the flags (warnings) of a run, keyed by task, without duplicates.

    Tasks without flags are left out.

    Args:
        said: Pairs of a task and the flags of one of its splits.
        losses: Training losses of the run in the order of the steps. If they did not fall, every
            task gets a flag.
    """
    found: dict[str, dict[str, None]] = {}
    for task, flags in said:
        found.setdefault(task, {}).update(dict.fromkeys(flags))
    ours = curve_flags(losses)
    return {task: (*flags, *ours) for task, flags in found.items() if flags or ours}
