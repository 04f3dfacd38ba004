"""Score kept models on challenge sets and on perturbed dev rows. This module imports torch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.predict import predict
from benchharness.extensions.robustness.perturb import PERTURBATIONS, perturbed
from benchharness.extensions.robustness.records import Measured, Record
from benchharness.extensions.robustness.rows import DevRows, SetRows
from benchharness.leaderboard.boards.cell import notes_of, score_bounds
from benchharness.leaderboard.boards.entry import LEVEL
from benchharness.leaderboard.comparing import PredictedSplit, headline_outcomes
from benchharness.leaderboard.comparing.contrast import contrast
from benchharness.leaderboard.comparing.noise import noise_of, sample_of
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import Interval
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.task import PairTask, Task, score

Runs = tuple[tuple[Prediction, ...], ...]
"""Predictions of each run: one tuple per run, with one prediction per example."""


@dataclass(frozen=True, kw_only=True)
class System:
    """Runs of a leaderboard entry on one task, whose models were kept.

    Attributes:
        task: Task of the runs.
        names: Names of the metrics; the task's score on the leaderboard is their mean.
        runs: Stored runs, one per seed.
        values: Score of each run on the leaderboard.
        folders: Folder of each run's kept model.
        trust: True if code that comes with the checkpoint may run.
    """

    task: Task
    names: tuple[str, ...]
    runs: tuple[RunRow, ...]
    values: tuple[float, ...]
    folders: tuple[Path, ...]
    trust: bool = False


def measure(
    system: System, sets: Sequence[SetRows], dev: DevRows | None, limit: int | None
) -> list[Record]:
    """Predict all rows with each kept model, and score the predictions.

    Args:
        system: Runs with kept models.
        sets: Rows of the challenge sets.
        dev: Dev rows, with the perturbations to apply; None to apply none.
        limit: Maximum number of rows per split, which was already applied to `sets` and `dev`; None
            for no limit.

    Returns:
        One record per challenge set and per perturbation.

    Raises:
        BenchError: The classes of a set cannot be mapped to the classes of the task, or a model
            cannot be loaded or used.
    """
    inputs = {each.challenge.name: _hidden(each.rows.examples) for each in sets}
    changes: dict[str, dict[str, tuple[Example, ...]]] = {}
    if dev is not None:
        changes[""] = dict(dev.splits)
        for name in dev.perturbations:
            changes[name] = {
                split: tuple(perturbed(each, name, dev.seed) for each in examples)
                for split, examples in dev.splits.items()
            }
    predicted, after = _predict(system, inputs, changes)
    common = Record(
        kind="set",
        name="",
        title="",
        task=system.task.name,
        split="",
        rows=0,
        limit=limit,
        runs=tuple(run.key for run in system.runs),
        finished=tuple(run.finished for run in system.runs),
        seeds=tuple(run.seed for run in system.runs),
        flags=notes_of(system.task.name, system.runs),
        own=fmean(system.values),
        scores={},
    )
    records = [_set_record(common, system, each, predicted[each.challenge.name]) for each in sets]
    for name in dev.perturbations if dev else ():
        record = _drop_record(replace(common, name=name), system, changes, after)
        facts = {**record.facts, "seed": dev.seed if dev else 0}
        records.append(replace(record, facts=facts))
    return records


def _hidden(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Return examples without their labels, because the model may not know these classes."""
    without: dict[str, Any] = {examples[0].gold_field: None}
    return tuple(replace(each, **without) for each in examples)


def _predict(
    system: System,
    sets: Mapping[str, Sequence[Example]],
    changes: Mapping[str, Mapping[str, Sequence[Example]]],
) -> tuple[dict[str, Runs], dict[str, dict[str, Runs]]]:
    """Return the predictions of all runs; only one model is loaded at a time.

    Returns:
        Predictions for challenge sets, keyed by set, and for dev rows, keyed by perturbation (""
        for unchanged rows) and split.
    """
    found: dict[str, Runs] = dict.fromkeys(sets, ())
    after: dict[str, dict[str, Runs]] = {n: dict.fromkeys(each, ()) for n, each in changes.items()}
    for folder in system.folders:
        model = load_trained(folder, system.task.name, trust=system.trust)
        for name, examples in sets.items():
            found[name] += (predict(model, examples).predictions,)
        for name, splits in changes.items():
            for split, examples in splits.items():
                after[name][split] += (predict(model, examples).predictions,)
    return found, after


# Challenge sets.


def scored_set(rows: SetRows, counts_as: Mapping[str, str], runs: Runs) -> PredictedSplit:
    """Return the examples and predictions of a challenge set with merged classes, to be scored.

    Args:
        rows: Rows of the set.
        counts_as: Merged class of each label of the set and the model (see `ChallengeSet.merged`);
            empty to merge no classes.
        runs: Predictions of each run, with the classes of the model.
    """
    challenge, examples = rows.challenge, rows.rows.examples
    task = challenge.task
    if counts_as and isinstance(task, PairTask):
        task = replace(task, labels=tuple(dict.fromkeys(counts_as[name] for name in task.labels)))
        examples = tuple(_merged(each, counts_as, "") for each in examples)
        other = challenge.other
        runs = tuple(tuple(_merged(each, counts_as, other, scores=()) for each in r) for r in runs)
    return PredictedSplit(task=task, split=challenge.split, examples=examples, one=runs)


def _merged(each: Any, counts_as: Mapping[str, str], other: str, **changes: object) -> Any:
    """Return an example or a prediction with its merged class, and with changes of other fields.

    A label that `counts_as` lacks becomes `other`, or stays unchanged if `other` is "".
    """
    return replace(each, label=counts_as.get(each.label, other or each.label), **changes)


def _set_record(common: Record, system: System, rows: SetRows, runs: Runs) -> Record:
    challenge = rows.challenge
    counts_as = challenge.merged(system.task)
    split = scored_set(rows, counts_as, runs)
    scores = [score(split.task, split.split, run, split.examples) for run in split.one]
    labels = Counter(each.traits.stratum for each in split.examples)
    return replace(
        common,
        name=challenge.name,
        title=challenge.title,
        split=split.split,
        rows=len(split.examples),
        scores={name: _of_set(split, name, [each[name] for each in scores]) for name in scores[0]},
        facts={
            "data": rows.data,
            "fingerprint": rows.rows.fingerprint,
            "counts_as": dict(counts_as),
            "majority": max(labels.values()) / labels.total() if len(labels) > 1 else None,
            "slices": accuracy_by_category(split),
        },
    )


def _of_set(split: PredictedSplit, name: str, values: Sequence[float]) -> Measured:
    """Return a score with its 95 % interval over rows and seeds, computed as on leaderboards."""
    outcomes = headline_outcomes([split], [name])
    if outcomes is None:
        return _measured(values, None)
    found = noise_of(sample_of(outcomes)).estimate(fmean(values)).interval(LEVEL)
    bounds = score_bounds(split.task, [name], values)
    return _measured(values, found.within(bounds) if found.has_width else None)


def _measured(values: Sequence[float], ends: Interval | None) -> Measured:
    low, high = (ends.low, ends.high) if ends else (None, None)
    return Measured(value=fmean(values), low=low, high=high, seeds=tuple(values))


def accuracy_by_category(split: PredictedSplit) -> dict[str, float]:
    """Return the mean accuracy over seeds on each category of examples, keyed by category.

    The result is empty if the task is not a classification of texts or pairs of texts.
    """
    right: dict[str, list[bool]] = {}
    for run in split.one if isinstance(split.task, PairTask) else ():
        for guess, gold in zip(run, split.examples, strict=True):
            for name in getattr(gold, "categories", ()):
                is_right = getattr(guess, "label", None) == getattr(gold, "label", None)
                right.setdefault(name, []).append(is_right)
    return {name: fmean(found) for name, found in right.items()}


# Perturbations.


def _drop_record(
    common: Record,
    system: System,
    changes: Mapping[str, Mapping[str, Sequence[Example]]],
    after: Mapping[str, Mapping[str, Runs]],
) -> Record:
    """Return the record of the perturbation `common.name`, without the seed of the perturbation.

    Args:
        common: Record with the name of the perturbation, and with the facts about the runs.
        system: Runs with kept models.
        changes: Examples, keyed by perturbation and split; unchanged examples have the key "".
        after: Predictions of each run for the examples, keyed in the same way.
    """
    name = common.name
    splits = [
        PredictedSplit(
            task=system.task,
            split=split,
            examples=tuple(examples),
            one=after[""][split],
            other=after[name][split],
        )
        for split, examples in changes[""].items()
    ]
    known = [n for s in splits for n in score(s.task, s.split, s.one[0], s.examples)]
    names = tuple(n for n in system.names if n in known) or (known[0],)
    clean, changed = ([_value(splits, names, side, n) for n in range(len(system.runs))]
                      for side in ("one", "other"))  # fmt: skip
    found = contrast(splits, names, common.seeds, (fmean(clean), fmean(changed)))
    pairs = [zip(changes[""][split], changes[name][split], strict=True) for split in changes[""]]
    return replace(
        common,
        kind="perturbation",
        title=PERTURBATIONS[name].description,
        split="+".join(changes[""]),
        rows=found.examples,
        own=fmean(clean),
        scores={" and ".join(names): _measured(changed, None)},
        drop=_measured([a - b for a, b in zip(clean, changed, strict=True)], found.interval),
        facts={"changed": sum(one != other for each in pairs for one, other in each)},
    )


def _value(splits: Sequence[PredictedSplit], names: Sequence[str], side: str, run: int) -> float:
    """Return the mean of the named scores for one run.

    Args:
        splits: Predictions for unchanged rows (`one`) and perturbed rows (`other`).
        names: Names of the scores.
        side: "one" or "other".
        run: Index of the run.
    """
    scores: dict[str, float] = {}
    for each in splits:
        scores |= score(each.task, each.split, getattr(each, side)[run], each.examples)
    return fmean(scores[name] for name in names)
