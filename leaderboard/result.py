"""What a job leaves behind: a Result with scores and predictions, or a Failure with its reason."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

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
from benchharness.tasks.errors import BenchError, DataError, JobError
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.suites import TASKS, find_task, split_title
from benchharness.tasks.task import ending_of, suffix_of


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One split predicted by the fine-tuned model.

    `scores` are by metric name in the metric's own unit, empty where the labels are hidden.
    `predictions` are plain rows, one per example in the split's order (the fields of the
    prediction class of the task's head). `flags` say what a reader must know of this score, e.g.
    "constant predictions".
    """

    task: str
    split: str
    fingerprint: str
    scores: Mapping[str, float]
    predictions: tuple[Mapping[str, Any], ...]
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The split as a job's fingerprints name it: "task:split"."""
        return f"{self.task}:{self.split}"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Evaluation":
        """The evaluation that its plain data describe."""
        known = {name: value for name, value in data.items() if name != "metrics"}  # the store's
        plain = {"predictions": tuple(data["predictions"]), "flags": tuple(data["flags"])}
        return cls(**{**known, **plain})


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One point of the learning curve; `loss` is the mean training loss since the point before.

    `scores` are those of the job's first dev split, or of the part of train that it holds out in
    its place, where that was scored at this step.
    """

    step: int
    epoch: float
    loss: float
    learning_rate: float
    scores: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the job took: seconds of a monotonic clock, real tokens without padding."""

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
        """What took time and no encoder: a baseline, an ensemble, somebody's prediction file."""
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
    """A finished job. `provenance` says which code, data, weights, versions and machine made it."""

    job: Job
    evaluations: tuple[Evaluation, ...]
    curve: tuple[CurvePoint, ...]
    cost: Cost
    provenance: Mapping[str, Any]
    finished: str

    def evaluation(self, name: str) -> Evaluation:
        """What the run has predicted of "task:split"; BenchError where that is nothing."""
        for evaluation in self.evaluations:
            if evaluation.name == name:
                return evaluation
        raise BenchError(
            f"run {self.job.key[:12]} of {self.job.model} has not predicted "
            f"{name.replace(':', ' ')}: leave the task out with --task, or run it again."
        )

    @property
    def flags(self) -> dict[str, tuple[str, ...]]:
        """By task, what a reader must know of the run's scores; a task without any is left out."""
        said = ((each.task, each.flags) for each in self.evaluations)
        return flags_by_task(said, [point.loss for point in self.curve])

    def has_collapsed(self, task: str) -> bool:
        """Whether a trained model has learned nothing of a task; a baseline has nothing to."""
        return has_collapsed(self.job.kind, self.flags.get(task, ()))

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal result; it shares its bulk."""
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
        """The result that `to_json` described."""
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
    """A job that did not finish: `error` is one sentence, `details` a traceback or a log's end.

    `kind` is "failed", "diverged", "killed", "memory", "timeout" or "interrupted"; `exit_code` is
    that of the error (see tasks.errors).
    """

    job: Job
    kind: str
    error: str
    details: str
    exit_code: int
    finished: str

    @classmethod
    def of(cls, job: Job, kind: str, error: str, details: str = "") -> "Failure":
        """The failure of a job that ends now, with the exit code of a JobError."""
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
        """Plain data that `from_json` turns back into an equal failure."""
        return vars(self) | {"job": self.job.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Failure":
        """The failure that `to_json` described."""
        return cls(**{**data, "job": Job.from_json(data["job"])})


@dataclass(frozen=True, kw_only=True)
class Selection:
    """How a run's evaluations decided which weights it ended with.

    `evaluations` were made in all, on dev, or on the share `held_out` of train where that is above
    0. The run ended with the weights after `step`: those of the best of them where `is_best`, else
    those at which its patience ran out.
    """

    evaluations: int
    step: int
    is_best: bool
    held_out: float = 0.0

    @classmethod
    def from_json(cls, data: Any) -> "Selection | None":
        """What `asdict` gave; None for anything else."""
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
    """What a reader must know of scores by such weights: "best of 3 to 10 evaluations on dev"."""
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
    """What a score is of: a metric on a split, for a suite its rule on "dev" or "test"."""

    split: str
    metric: str


def truncated_rows(provenance: object) -> dict[str, tuple[int, int]]:
    """Where rows have lost words, by "task:split": how many, and how many rows there were.

    Nothing of a run that did not count them.
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
    """A sentence for models whose rows have lost words: "RTE dev 33 of 277 (minilm)"."""
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
            f"rows that are longer than max_tokens and lose words: {', '.join(found[:MOST_SPLITS])}"
            f"{more} ({names})."
        )


MOST_SPLITS = 20
"""So many are named in a sentence."""

MANY = 0.02
"""The share of unknown tokens, or of words without one, from which on people are told of them. BERT
has some per mille in English."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a run's tokenizer has read its texts.

    `source` is the worker's TokenizerSource. By "task:split": `unknown` tokens and all tokens, and
    `lost` words, of which the tokenizer makes nothing, and all words.
    """

    source: Mapping[str, Any]
    unknown: Mapping[str, tuple[int, int]]
    lost: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, provenance: object) -> "Reading | None":
        """What a provenance says of it; None of a run that said nothing."""
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
        """What `asdict` gave; None for nothing."""
        if not data:
            return None
        shares = {n: {k: tuple(v) for k, v in data[n].items()} for n in ("unknown", "lost")}
        return cls(source=data["source"], **shares)

    @property
    def told(self) -> "Reading | None":
        """What people are told of it after a run; None where all is as they expect."""
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
        """Which file decided against transformers' class, or on capitals; empty where none did."""
        said = []
        if self.source.get("texts"):
            parts = ", ".join(map(str, self.source.get("unlike", ())))
            said.append(
                f"read as tokenizer.json says, where transformers' {self.source['instead_of']} "
                f"differs ({parts}: {self.source['texts']} of {self.source['of']} fixed texts)"
            )
        if case := self.source.get("case"):
            said.append(f"capitals are {case}")
        return "; ".join(said)


def _shares(data: Mapping[str, Any], part: str, whole: str) -> dict[str, tuple[int, int]]:
    """How many of how many, of the splits that have any."""
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
    "words without a token": "the tokenizer makes nothing of them, so no model can read them",
}


def reading_words(rows: Iterable["RunRow"]) -> Iterator[str]:
    """Sentences on models whose tokenizer reads otherwise than people expect."""
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
    """Sentences on texts of which a tokenizer does not know much, by their counts."""
    shares = ((unknown, tokens), (lost, words))
    for (title, advice), (count, of) in zip(_ADVICE.items(), shares, strict=True):
        if count and count >= MANY * of:
            yield f"{title}: {_share(count, of)}; {advice}."


def _share(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({100 * count / of:.0f} %)"


@dataclass(frozen=True, kw_only=True)
class RunRow(Described):
    """One stored run without its predictions and curves: what lists and boards are made of.

    `status` is "finished" or the kind of its Failure; `scores` are by task, then by name as people
    see it, of every scored split (MNLI's run also holds AX), and `measures` say in the same way
    what each is of; `flags` are by task; `fingerprints` as in Job; `error` is the failure's
    sentence, empty for a finished run. `limit` is None where it took no row away; `largest_split`
    is the number of rows of the run's largest split, 0 where unknown. `selection` is None where the
    weights are those of the last step, as planned. `kind`, `recipe`,
    `overridden`, `is_sweep`, `source`, `stage`, `teacher` and `start_from` are as in Job;
    `start_task` and `start_variant` are what a board tells of that run (see grouping.py).
    `settings` are as in Job where the recipe's name does not say its values, else empty. `model` is
    what the user has renamed it to, if so; `is_named` says that this is the name of its row alone,
    `is_hidden` that boards leave it out. `truncated` is as `truncated_rows` has it, `reading` is
    how the tokenizer has read the texts, where that is not as people expect.
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
        """True for the predictions of one model, trained here or elsewhere."""
        return self.kind in SINGLE

    def has_collapsed(self, task: str) -> bool:
        """Whether a trained model has learned nothing of a task; a baseline has nothing to."""
        return has_collapsed(self.kind, self.flags.get(task, ()))

    @property
    def suite(self) -> str:
        """The suite that the task belongs to."""
        return self.task.partition("/")[0]

    @cached_property
    def suites(self) -> tuple[str, ...]:
        """The suites of the tasks that it was trained on: mostly one."""
        return tuple(dict.fromkeys(task.partition("/")[0] for task in self.trained_tasks))

    def score_of(self, task: str, measure: Measure) -> float | None:
        """The score of a task by what it is of; None where the run has none."""
        names = self.measures.get(task, {}).items()
        return next((self.scores[task][name] for name, known in names if known == measure), None)


# Stored predictions as the objects that metrics and submissions take.


def predictions_of(
    evaluation: Evaluation, examples: Sequence[Example] | None = None
) -> tuple[Prediction, ...]:
    """The predictions of one split, in its order; what `to_row` made rows of.

    Raises DataError where they are none of the task's, or not for these `examples`: a run from
    elsewhere may hold anything.
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
            f"what is stored as predictions of {evaluation.name} is none of that task ({error}): "
            "leave the run out (`bench db hide`)."
        ) from error
    if examples is not None and not fits:
        raise DataError(
            f"the {len(found)} predictions of {evaluation.name} are not for the {len(examples)} "
            "rows that are there now: expected the data that the runs were made with."
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
"""Fields that only files of predictions or few tasks use, with the values at which a row leaves
them out."""


def to_row(prediction: Prediction) -> dict[str, Any]:
    """The fields that are stored, as JSON gives them back: with lists, not tuples."""
    return {
        name: with_lists(value)
        for name, value in vars(prediction).items()
        if name != "start" and (name not in _SELDOM or value != _SELDOM[name])
    }


def with_lists(value: Any) -> Any:
    """A value with lists in the place of its tuples."""
    return [with_lists(each) for each in value] if isinstance(value, tuple) else value


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuples(value) for name, value in row.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


# The names of scores, which are made of a split and a metric and never taken apart.

SUITE_ENDINGS = {"dev": "", "test": "_test"}
"""The splits that a suite's score may be of, and what its name ends with."""


def score_name(task: str, measure: Measure) -> str:
    """What people see of a score of a task, or of a suite: "accuracy_test_mm" of MNLI."""
    known = TASKS.get(task)
    ending = ending_of(known, measure.split) if known else SUITE_ENDINGS[measure.split]
    return measure.metric + ending


def rule_name(measure: Measure) -> str:
    """What a score rule or a paper calls it, of dev as of test: "accuracy_mm" of "dev_mm"."""
    return measure.metric + suffix_of(measure.split)


def measures_of(task: str) -> Mapping[str, Measure]:
    """What each score that a task may have is of, by its name; nothing for an unknown task."""
    found = TASKS.get(task)
    if found is None:
        return {}
    return {
        score_name(task, measure): measure
        for split in found.dev_splits + found.test_splits
        for metric in found.metrics + found.details
        for measure in [Measure(split, metric.name)]
    }


# Which runs have collapsed: fine-tuning that ended where it began, or with one answer for all.
#
# Small data sets and large encoders collapse with some seeds and not with others (Mosbach et al.,
# On the Stability of Fine-tuning BERT, ICLR 2021): such a run counts, and a reader must see it.

NEVER_FELL = "the training loss never fell"

COLLAPSED = frozenset({CONSTANT, NEVER_FELL})
"""The flags of a run that has learned nothing."""


def has_collapsed(kind: str, flags: Iterable[str]) -> bool:
    """Say if by these flags a run that was to learn has learned nothing."""
    return kind in SINGLE and not COLLAPSED.isdisjoint(flags)


MARK = "!"
"""Stands behind a number with flags, and before the sentences that say them."""

_FEWEST_POINTS = 4
"""A curve with fewer points has no first and last quarter to compare."""

_LEAST_FALL = 0.02
"""The share by which the loss of a run that learns falls at the very least: a classifier that only
finds the labels' shares moves by about one per cent, from its random start to their entropy."""


def curve_flags(losses: Sequence[float]) -> tuple[str, ...]:
    """Says "the training loss never fell" where a curve ends as high as it begins.

    `losses` are the means of a learning curve's stretches, in their order; its first quarter is
    compared with the last, and too few points say nothing.
    """
    if len(losses) < _FEWEST_POINTS:
        return ()
    quarter = len(losses) // 4
    first, last = fmean(losses[:quarter]), fmean(losses[-quarter:])
    return (NEVER_FELL,) if last >= first * (1 - _LEAST_FALL) else ()


def flags_by_task(
    said: Iterable[tuple[str, Iterable[str]]], losses: Sequence[float]
) -> dict[str, tuple[str, ...]]:
    """The flags of a run by task, each once; `said` has those of its splits, with their tasks.

    The training loss is that of the run, and so its flag is of each of its tasks.
    """
    found: dict[str, dict[str, None]] = {}
    for task, flags in said:
        found.setdefault(task, {}).update(dict.fromkeys(flags))
    ours = curve_flags(losses)
    return {task: (*flags, *ours) for task, flags in found.items() if flags or ours}
