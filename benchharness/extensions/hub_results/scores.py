"""Convert the entries in a repository of the Hub to scores on tasks of benchharness.

Neither format has a field for the unit of a value, and eval-results has none for the metric. Files
that `bench export --push` writes are known by their path: their values are in percent, and a value
is the mean of all metrics of its task. In other files, a value within the bounds of its metric is a
fraction, and a value within a hundred times these bounds is a percentage.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from benchharness.errors import DataError
from benchharness.extensions.exports.cards import METRICS, RESULTS_FILE
from benchharness.extensions.hub_results.benchmarks import KnownTasks, known_tasks
from benchharness.extensions.hub_results.layout import FileEntry, Form, entries_in
from benchharness.extensions.hub_results.repository import Repository
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import TASKS, full_title
from benchharness.tasks.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class HubScore:
    """Score on a task of benchharness, from an entry in a repository.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        metric: Name of the metric; several names joined by "and" if the score is their mean, or by
            "or" if the entry does not specify which of them it is.
        value: The score on the scale of the metric, mostly from 0 to 1.
        form: Format of the entry.
        path: Path of the file in the repository.
        fields: Fields of the entry that are set, from which the entry can be exported again: those
            of huggingface_hub's EvalResultEntry or EvalResult.
        title: Name of the model in a model-index; empty for eval-results.
        date: Date of the score; empty if the entry has none.
        flag: What the entry does not specify, and what is assumed instead; may be empty.
    """

    task: str
    split: str
    metric: str
    value: float
    form: Form
    path: str
    fields: Mapping[str, Any]
    title: str
    date: str
    flag: str


class HubScores(NamedTuple):
    """Scores in a repository, and the numbers of entries on other data sets, keyed by data set."""

    scores: tuple[HubScore, ...]
    others: Mapping[str, int]


def read_scores(repository: Repository) -> HubScores:
    """Return the scores in the files of a repository.

    Entries on tasks, splits or metrics that benchharness does not have are only counted.

    Raises:
        DataError: A file has another layout than its format, or the value of an entry on a known
            task is not a number or out of range. There may also be no entry on a known task.
    """
    known, scores, others = known_tasks(), list[HubScore](), Counter[str]()
    for each in entries_in(repository):
        subject = _of_card(known, each) if each.form == "model-index" else _of_results(known, each)
        if subject is None:
            name = each.entry.dataset_type if each.form == "model-index" else each.entry.dataset_id
            others[visible(name)[:80]] += 1
        else:
            scores.append(_score(repository, each, subject))
    if not scores:
        there = f", only on {', '.join(list(others)[:10])}" if others else ""
        raise DataError(f"{repository.name} has no scores on tasks of benchharness{there}.")
    return HubScores(tuple(scores), others)


class _Subject(NamedTuple):
    """Task, split and metric of an entry, the bounds of its score, and what it does not specify.

    `is_percent` is true if the value is known to be in percent, and `has_unit` is false if the
    format never specifies whether a value is in percent.
    """

    task: str
    split: str
    metric: str
    low: float
    high: float
    is_percent: bool = False
    has_unit: bool = True
    flag: str = ""


def _of_results(known: KnownTasks, each: FileEntry) -> _Subject | None:
    """Return the subject of an entry of eval-results; None if it is not a task of benchharness."""
    found = known.of_id.get((known.dataset(each.entry.dataset_id), each.entry.task_id))
    if found is None:
        return None
    is_own = each.path == RESULTS_FILE
    metrics = _metrics(TASKS[found.task])
    bounds = [metrics[name].bounds for name in found.metrics]
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    return _Subject(
        task=found.task,
        split=found.split,
        metric=(" and " if is_own else " or ").join(found.metrics),
        low=fmean(lows) if is_own else min(lows),
        high=fmean(highs) if is_own else max(highs),
        is_percent=is_own,
        has_unit=False,
    )


_OURS = {theirs: ours for ours, theirs in METRICS.items()}
"""Names of metrics in benchharness, keyed by their names on the Hub."""


def _of_card(known: KnownTasks, each: FileEntry) -> _Subject | None:
    """Return the subject of an entry of a model-index; None if it is not a task of benchharness."""
    entry, dataset = each.entry, known.dataset(each.entry.dataset_type)
    # In cards that the Trainer wrote in 2021 and 2022, the config is the text `args`.
    config = entry.dataset_config or (isinstance(entry.dataset_args, str) and entry.dataset_args)
    if not config and len(only := [name for of, name in known.splits if of == dataset]) == 1:
        config = only[0]
    splits = known.splits.get((dataset, config or ""), {})
    task, split = splits.get(entry.dataset_split or next(iter(splits), ""), ("", ""))
    metrics = _metrics(TASKS[task]) if task else {}
    name = str(entry.metric_type)
    name = name if name in metrics else _OURS.get(name, "")
    if name not in metrics:
        return None
    flags = [] if entry.dataset_split else [f"the card names no split; assumed: {split}"]
    if given := entry.metric_args or entry.metric_config:
        flags.append(f"the card computed {name} with other arguments: {str(given)[:80]}")
    return _Subject(task, split, name, *metrics[name].bounds, flag="; ".join(flags))


def _metrics(task: Task) -> Mapping[str, Metric[Any, Any]]:
    return {metric.name: metric for metric in task.every_metric}


_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.+Z-]{1,30})?")


def _score(repository: Repository, each: FileEntry, subject: _Subject) -> HubScore:
    is_card = each.form == "model-index"
    value = each.entry.metric_value if is_card else each.entry.value
    date = "" if is_card else each.entry.date or ""
    try:
        score, guess = _scaled(value, subject)
    except ValueError as error:
        raise DataError(
            f"entry {each.number} in {each.path} of {repository.name} is out of range: the "
            f"{subject.metric} on {full_title(subject.task)} is {repr(value)[:40]}, expected "
            f"{error}. Ask its author for a correction."
        ) from error
    return HubScore(
        task=subject.task,
        split=subject.split,
        metric=subject.metric,
        value=score,
        form=each.form,
        path=each.path,
        fields={name: value for name, value in vars(each.entry).items() if value is not None},
        title=each.title,
        date=date if _DATE.fullmatch(date) else "",
        flag=subject.flag or guess,
    )


_LARGEST = 1e300  # a larger integer of YAML may be too large for a float


def _scaled(value: object, subject: _Subject) -> tuple[float, str]:
    """Return a value on the scale of its metric, and a sentence if its unit was guessed.

    Args:
        value: The value of the entry, which may be anything.
        subject: Bounds of the metric, and whether the unit of the value is known.

    Raises:
        ValueError: The value is not a number or out of range; the message is what was expected.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
        raise ValueError("a number")
    low, high = subject.low, subject.high
    percent = f"{100 * low:g} to {100 * high:g}"
    if subject.is_percent:
        if 100 * low <= value <= 100 * high:
            return value / 100, ""
        raise ValueError(percent)
    if low <= value <= high:
        guess = "" if subject.has_unit else f"the file names no unit for {value!r}; assumed: 0 to 1"
        return float(value), guess
    if 100 * low <= value <= 100 * high:
        return value / 100, ""
    raise ValueError(f"{low:g} to {high:g}, or {percent} in percent")
