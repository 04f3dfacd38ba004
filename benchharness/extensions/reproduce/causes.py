"""Find the differences between a stored run and its repetition."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.explanation.differences import explain
from benchharness.extensions.explanation.training import of_run
from benchharness.leaderboard.job import PAPER, value_text
from benchharness.leaderboard.result import Evaluation, Result, predictions_of, truncated_rows
from benchharness.leaderboard.text import counted, grouped
from benchharness.machine import OF_FILES, OF_GPUS
from benchharness.models import find_model
from benchharness.recipes.resolve import resolve_sweep
from benchharness.splits import evaluate_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Prediction
from benchharness.tasks.metrics import accuracy, binary_f1, matthews, occurring_f1
from benchharness.tasks.read import SplitRows
from benchharness.tasks.suites import find_task, split_title
from benchharness.tasks.task import Task

NEAR = 1e-9
"""Largest absolute or relative difference of two scores that count as equal."""

FAR = 1e-3
"""Relative difference of the first training loss in fp32 above which rounding is no explanation.
Other kernels and numbers of threads change this loss by less than 1e-5, and another seed changes
it by more than 1e-2."""

OF_KERNELS = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
)
"""Environment variables that select CPU kernels. The provenance of a run does not have them."""

_SOME = 5  # number of rows that a sentence names


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A difference between a stored run and its repetition.

    Attributes:
        thing: Keyword for the thing that differs: "data", "weights", "start", "package", "machine",
            "recipe", "truncated length", "label order", "metric", "score", "seed", "curve" or
            "prediction".
        sentence: Clause with the old and the new value, without a final period.
        is_sure: True if neither another machine nor another seed explains the difference, so the
            stored run cannot be the result of its job.
    """

    thing: str
    sentence: str
    is_sure: bool = False


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A stored run and its repetition.

    Attributes:
        stored: Stored run.
        found: Repetition of the run's job.
        rows: Examples of each predicted split, keyed by "task:split".
        siblings: Stored runs that differ from this run only in their seed.
        upstream: Clauses about the runs from which this run starts or learns, and whose repetitions
            have different predictions.
    """

    stored: Result
    found: Result
    rows: Mapping[str, SplitRows]
    siblings: Iterable[Result] = ()
    upstream: Sequence[str] = ()

    @property
    def provenances(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Provenance of the stored run, and of the repetition."""
        return self.stored.provenance, self.found.provenance

    def evaluations(self) -> Iterator[tuple[Evaluation, Evaluation]]:
        """Yield the stored and the new evaluation of each split that both have."""
        new = {each.name: each for each in self.found.evaluations}
        yield from ((each, new[each.name]) for each in self.stored.evaluations if each.name in new)


def causes(pair: Pair) -> list[Cause]:
    """Return all differences between a run and its repetition.

    Differences that neither another machine nor another seed explains come first. Otherwise, the
    order is: data, weights, start, recipe, truncated lengths, labels, scores, packages, machine,
    seed, training curve, predictions.
    """
    parts = (
        _data, _weights, _start, _recipe, _lengths, _labels, _scores, _packages, _machine, _seed,
        _curve, _predictions,
    )  # fmt: skip
    found = [cause for part in parts for cause in part(pair)]
    if not found and not _is_same(pair):
        found += _unrecorded(pair)
    return sorted(found, key=lambda cause: not cause.is_sure)


def _at(data: Any, *names: str) -> Any:
    """Return a value in nested dicts by its path of names; None if there is no such path."""
    for name in names:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _is_same(pair: Pair) -> bool:
    return all(one.predictions == other.predictions for one, other in pair.evaluations())


def _data(pair: Pair) -> Iterator[Cause]:
    """Yield splits whose digest differs from the job, or whose number of rows has changed."""
    job, (then, now) = pair.stored.job, pair.provenances
    for each in pair.stored.evaluations:
        wanted = job.fingerprints.get(each.name)
        if each.fingerprint != wanted:
            yield Cause(
                thing="data",
                sentence=f"{_title(each.name)} has the digest {each.fingerprint[:12]} in the "
                f"stored run, and {str(wanted)[:12]} in its job",
                is_sure=True,
            )
    for name in job.fingerprints:
        old, new = (_at(each, "data", name, "rows") for each in (then, now))
        if None not in (old, new) and old != new:
            words = f"{_title(name)} had {old} rows, and has {new}"
            yield Cause(thing="data", sentence=words, is_sure=True)


def _title(name: str) -> str:
    return split_title(*name.rsplit(":", 1))


def _weights(pair: Pair) -> Iterator[Cause]:
    (then, now), costs = pair.provenances, (pair.stored.cost, pair.found.cost)
    old, new = (_at(each, "model", "tokenizer") for each in (then, now))
    if costs[0].parameters != costs[1].parameters:
        words = f"the model had {costs[0].parameters:,} parameters, and has {costs[1].parameters:,}"
        yield Cause(thing="weights", sentence=words, is_sure=True)
    if None not in (old, new) and old != new:
        words = f"the tokenizer had the digest {str(old)[:12]}, and has {str(new)[:12]}"
        yield Cause(thing="weights", sentence=words)


def _start(pair: Pair) -> Iterator[Cause]:
    yield from (Cause(thing="start", sentence=words) for words in pair.upstream)


# A result depends on the recipe through its learning rates, number of steps and number of tokens.


def _recipe(pair: Pair) -> Iterator[Cause]:
    """Yield settings that contradict the steps, learning rates or provenance of the stored run."""
    stored, found = pair.stored, pair.found
    rates = {point.step: point.learning_rate for point in found.curve}
    if stored.cost.steps != found.cost.steps:
        words = (
            f"epochs or batch_size: the training had {stored.cost.steps:,} steps, but with the "
            f"values of the job it has {found.cost.steps:,}"
        )
        yield Cause(thing="recipe", sentence=words, is_sure=True)
        rates = {}  # the rates depend on the number of steps
    for point in stored.curve:
        rate = rates.get(point.step, point.learning_rate)
        if not math.isclose(rate, point.learning_rate, rel_tol=1e-6, abs_tol=1e-15):
            words = (
                f"learning_rate: at step {point.step} it was {value_text(point.learning_rate)}, "
                f"but with the values of the job it is {value_text(rate)}"
            )
            yield Cause(thing="recipe", sentence=words, is_sure=True)
            break
    for name in ("batch_size", "accumulation", "precision"):
        old, new = (_at(each, "recipe", name) for each in pair.provenances)
        if None not in (old, new) and old != new:
            words = f"{name}: it was {value_text(old)}, but the job has {value_text(new)}"
            yield Cause(thing="recipe", sentence=words, is_sure=name == "batch_size")
    yield from _explained(pair)
    if not _is_same(pair):
        yield from _of_that_name(pair)


def _of_that_name(pair: Pair) -> Iterator[Cause]:
    """Yield settings of a job that differ from the packaged recipe that the job names."""
    job, (then, now) = pair.stored.job, pair.provenances
    is_plain = job.kind == "model" and not (
        job.is_zero_shot or job.own_recipe or job.overridden or job.is_sweep or job.teacher
    )
    versions = {_at(each, "code", "version") for each in (then, now)}
    if not is_plain or job.definition or len(job.trained_tasks) > 1 or len(versions) > 1:
        return
    try:
        name = None if job.recipe == PAPER else job.recipe
        points = resolve_sweep(find_model(job.checkpoint, job.trust), job.task, name, {})
    except BenchError:
        return
    known = [{name: each.value for name, each in point.settings.items()} for point in points]
    for name, value in job.values.items():
        values = {each[name] for each in known if name in each}
        if values and value not in values:
            words = (
                f"{name}: the job has {value_text(value)}, but its recipe {job.recipe} has "
                f"{' or '.join(map(value_text, values))}"
            )
            yield Cause(thing="recipe", sentence=words)


def _explained(pair: Pair) -> Iterator[Cause]:
    """Yield the settings that differ between the two runs according to `bench explain`."""
    job = pair.stored.job
    if job.kind != "model" or job.is_zero_shot:
        return
    try:
        found = explain(of_run(pair.stored), of_run(pair.found))
    except BenchError:  # `of_run` cannot describe some runs, e.g. if the task has no metric
        return
    for each in found.differences:
        words = f"{each.name}: it was {value_text(each.ours)}, and is {value_text(each.theirs)}"
        yield Cause(thing="recipe", sentence=words, is_sure=True)


def _lengths(pair: Pair) -> Iterator[Cause]:
    """Yield a difference in the lengths of rows, which depend on max_tokens and the tokenizer."""
    cut = [truncated_rows(dict(each)) for each in pair.provenances]
    for name in sorted({*cut[0], *cut[1]}):
        lost = [each.get(name, (0, 0))[0] for each in cut]
        if lost[0] != lost[1]:
            words = (
                f"{lost[0]} rows of {_title(name)} were truncated, but with the values of the job "
                f"(max_tokens) {lost[1]} are"
            )
            yield Cause(thing="truncated length", sentence=words, is_sure=True)
            return
    old, new = pair.stored.cost.train_tokens, pair.found.cost.train_tokens
    # A different number of steps changes the number of tokens too.
    if old != new and pair.stored.cost.steps == pair.found.cost.steps:
        words = (
            f"the training read {old:,} tokens, but with the values of the job (max_tokens) it "
            f"reads {new:,}"
        )
        yield Cause(thing="truncated length", sentence=words, is_sure=True)


# Labels, scores and predictions.


def _labels(pair: Pair) -> Iterator[Cause]:
    """Yield splits on which the runs agree after labels or probabilities are exchanged."""
    for one, other in pair.evaluations():
        task = find_task(one.task)
        if task.kind != "class" or one.predictions == other.predictions:
            continue
        old = [str(row.get("label")) for row in one.predictions]
        new = [str(row.get("label")) for row in other.predictions]
        if words := _exchanged(old, new) or _reordered(one, other):
            yield Cause(
                thing="label order", sentence=f"in {_title(one.name)}, {words}", is_sure=True
            )


def _exchanged(old: Sequence[str], new: Sequence[str]) -> str:
    """Return a clause about the exchange of labels that makes two lists equal; "" if none does."""
    if len(old) != len(new) or old == new:
        return ""
    pairs = Counter(zip(old, new, strict=True))
    names = {a: b for (a, b), _ in sorted(pairs.items(), key=lambda each: each[1])}
    is_exchange = {*names} == {*names.values()} and any(a != b for a, b in names.items())
    kept = sum(pairs[each] for each in names.items())
    # At most one row in fifty may be an exception, because machines round differently.
    if not is_exchange or kept < 0.98 * len(old):
        return ""
    moved = ", ".join(f"{a} for {b}" for a, b in sorted(names.items()) if a != b)
    return f"the stored labels are the labels of the repetition, exchanged ({moved})"


def _reordered(one: Evaluation, other: Evaluation) -> str:
    """Return a clause if the stored probabilities are the new ones in another order, else ""."""
    old, new = ([row.get("scores") or () for row in each.predictions] for each in (one, other))
    count = len(old[0]) if old else 0
    if not 1 < count <= 4 or any(len(row) != count for row in (*old, *new)):
        return ""
    identity = tuple(range(count))
    for order in permutations(identity):
        near = all(
            math.isclose(a[place], b[number], abs_tol=1e-4)
            for a, b in zip(old, new, strict=True)
            for number, place in enumerate(order)
        )
        if near:
            shown = ", ".join(str(place + 1) for place in order)
            words = f"the stored probabilities are the repetition's in the order {shown}"
            return "" if order == identity else words
    return ""


def _scores(pair: Pair) -> Iterator[Cause]:
    """Yield stored scores that contradict the predictions, and answers without top probability."""
    for one, other in pair.evaluations():
        rows = pair.rows.get(one.name)
        if rows is None:
            continue
        try:
            predictions = predictions_of(one, rows.examples)
            again = evaluate_split(one.name, rows, predictions).scores
        except (BenchError, DataError) as error:
            yield Cause(thing="prediction", sentence=str(error).rstrip("."), is_sure=True)
            continue
        usual = partial(usual_scores, find_task(one.task), predictions, rows.examples)
        is_same = one.predictions == other.predictions
        yield from unfounded(one, again, usual, is_same=is_same) if one.scores else ()
        # A task may choose labels by a threshold, so the same must not be true for the repetition.
        odd = undecided(one, predictions)
        if odd and not undecided(other, predictions_of(other)):
            words = (
                f"the stored answers to {_listed(odd)} of {_title(one.name)} are not the ones with "
                "the highest stored probability"
            )
            yield Cause(thing="prediction", sentence=words, is_sure=True)


def unfounded(
    one: Evaluation,
    again: Mapping[str, float],
    usual: Callable[[], Iterable[tuple[str, float]]],
    *,
    is_same: bool,
) -> Iterator[Cause]:
    """Yield the stored scores that do not follow from the stored predictions.

    Args:
        one: Stored scores and predictions for a split.
        again: Scores that were computed again from the stored predictions, keyed by name.
        usual: Function that computes the scores of the stored predictions by other metrics, to
            find out if a score was computed by another metric.
        is_same: True if the repetition has the same predictions.
    """
    for name, value in one.scores.items():
        if name not in again:
            words = f"the stored run has the score {name}, which these rows do not have"
            yield Cause(thing="metric", sentence=words, is_sure=True)
        elif not math.isclose(value, again[name], rel_tol=NEAR, abs_tol=NEAR):
            whole = {**dict(usual()), **again}
            others = [n for n, v in whole.items() if n != name and math.isclose(v, value)]
            of = "the stored predictions" + (", which the repetition has too," * is_same)
            if others:
                words = f"the stored {name} {value:.4f} is the {others[0]} of {of} whose {name} is"
            else:
                words = f"the stored {name} is {value:.4f}, but the {name} of {of} is"
            thing = "metric" if others else "score"
            yield Cause(thing=thing, sentence=f"{words} {again[name]:.4f}", is_sure=True)


def usual_scores(
    task: Task, predictions: Sequence[Any], examples: Sequence[Any]
) -> Iterator[tuple[str, float]]:
    """Yield names and values of common metrics of class labels, whether the task has them or not.

    The metrics are accuracy, Matthews correlation, macro and micro F1, and the F1 of each label.
    For other kinds of tasks, nothing is yielded.
    """
    if task.kind != "class":
        return
    labels = sorted({str(each.label) for each in (*examples, *predictions)})
    metrics = [accuracy, matthews, *map(occurring_f1, ("macro", "micro"))]
    for metric in metrics:
        yield metric.name, metric.compute(predictions, examples) or 0.0
    for label in labels:
        yield f"F1 of {label}", binary_f1(label).compute(predictions, examples) or 0.0


def undecided(one: Evaluation, predictions: Sequence[Prediction]) -> list[str]:
    """Return the ids of rows whose answer is not the class with the highest probability."""
    kind, found = answer_type(find_task(one.task)), []
    for each in predictions:
        place, scores = kind.place(each), kind.scores(each)
        if place is not None and 0 <= place < len(scores) and scores[place] < max(scores):
            found.append(each.id)
    return found


def _listed(ids: Sequence[str]) -> str:
    some = ", ".join(ids[:_SOME]) + (", ..." if len(ids) > _SOME else "")
    return f"{counted(len(ids), 'row')} ({some})"


# Packages and machines may change the last bits of a result.


def _packages(pair: Pair) -> Iterator[Cause]:
    then, now = pair.provenances
    idle = {*OF_FILES, *(() if _at(now, "machine", "device") != "cpu" else (OF_GPUS,))}
    old, new = ({**(_at(each, "versions") or {})} for each in (then, now))
    for each, values in ((then, old), (now, new)):
        values |= {"benchharness": _at(each, "code", "version")}
        values |= {"the method of benchharness": _at(each, "code", "method")}
        values |= {"the commit of benchharness": _at(each, "code", "commit")}
    changed = {n for n in {**old, **new} if n not in idle and None not in (old.get(n), new.get(n))}
    for name in [n for n in {**old, **new} if n in changed and old[n] != new[n]]:
        words = f"{name} was {str(old[name])[:12]}, and is {str(new[name])[:12]}"
        yield Cause(thing="package", sentence=words)


_OF_MACHINE = {
    "device": "the device",
    "cpu": "the processor",
    "capability": "the widest instruction set of the processor",
    "threads": "the number of threads",
    "processes": "the number of processes",
}


def _machine(pair: Pair) -> Iterator[Cause]:
    for name, title in _OF_MACHINE.items():
        old, new = (_at(each, "machine", name) for each in pair.provenances)
        if None not in (old, new) and old != new:
            yield Cause(thing="machine", sentence=f"{title} was {old}, and is {new}")
    for variable in OF_KERNELS:
        if value := os.environ.get(variable):
            words = f"the environment variable {variable} is {value!r} now"
            yield Cause(thing="machine", sentence=words)


# Training curve and predictions.


def _seed(pair: Pair) -> Iterator[Cause]:
    """Yield a difference if a stored run has exactly the training losses of another seed."""
    if _is_same(pair) or not pair.stored.curve:
        return
    for other in pair.siblings:
        same = [point.loss for point in other.curve] == [point.loss for point in pair.stored.curve]
        if same and other.job.seed != pair.stored.job.seed:
            words = (
                f"the training losses of seed {pair.stored.job.seed} are exactly the losses of "
                f"seed {other.job.seed} (run {other.job.key[:12]})"
            )
            yield Cause(thing="seed", sentence=words, is_sure=True)
            return


def _curve(pair: Pair) -> Iterator[Cause]:
    old, new = ({p.step: p.loss for p in each.curve} for each in (pair.stored, pair.found))
    steps = [step for step in old if step in new and old[step] != new[step]]
    if not steps:
        return
    step, first = steps[0], next(iter(old))
    apart = abs(old[step] - new[step]) / max(abs(new[step]), 1e-12)
    words = (
        f"the training loss at step {step} was {old[step]:.6g}, and is {new[step]:.6g} (a relative "
        f"difference of {apart:.1g})"
    )
    then, now = pair.provenances
    known = (("versions", "torch"), ("machine", "device"))
    alike = all(_at(then, *names) == _at(now, *names) for names in known)
    # In bf16 even the first losses differ visibly on another processor.
    is_far = step == first and apart > FAR and pair.stored.job.precision == "fp32" and alike
    if is_far:
        words += (
            ". Rounding cannot change the first loss by this much: the stored run had another "
            "seed, another order of rows, or other hyperparameters than its job"
        )
    yield Cause(thing="curve", sentence=words, is_sure=is_far)


def _predictions(pair: Pair) -> Iterator[Cause]:
    """Yield predictions that differ although training curve, packages and machine are the same."""
    stored, found = pair.stored.curve, pair.found.curve
    if not stored or [vars(p) for p in stored] != [vars(p) for p in found]:
        return
    if any(_packages(pair)) or any(_machine(pair)):  # other kernels may change predictions only
        return
    for one, other in pair.evaluations():
        ids = [
            str(row.get("id"))
            for row, again in zip(one.predictions, other.predictions, strict=False)
            if row != again
        ]
        if ids:
            words = (
                f"the training curve is the same to the bit, but the stored predictions for "
                f"{_listed(ids)} of {_title(one.name)} are not"
            )
            yield Cause(thing="prediction", sentence=words, is_sure=True)


def _unrecorded(pair: Pair) -> Iterator[Cause]:
    counts = grouped(
        (one.name, None)
        for one, other in pair.evaluations()
        for row, again in zip(one.predictions, other.predictions, strict=False)
        if row != again
    )
    for name, rows in counts.items():
        words = (
            f"{counted(len(rows), 'prediction')} for {_title(name)}: nothing that was recorded "
            "about the run differs"
        )
        yield Cause(thing="prediction", sentence=words)
