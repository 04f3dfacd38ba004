"""Find the settings in which a run and another training run differ, the most likely causes first.

"The other training run" is the training run with which a stored run is compared: a training run of
another tool, a published result, or another stored run.
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from benchharness.errors import BenchError
from benchharness.extensions.explanation.training import (
    ALL_DECAY,
    PRECISIONS,
    PRETRAINED,
    Said,
    Training,
    Values,
    model_name,
)
from benchharness.leaderboard.job import value_text
from benchharness.recipes.recipe import ADAFACTOR, SETTINGS
from benchharness.tasks.suites import TASKS, distinct_title, find_task


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A setting in which a run and another training run differ.

    Attributes:
        name: The name of the setting.
        ours: The run's value.
        theirs: The other training run's value.
        ours_from: The file or source of the run's value.
        theirs_from: The file or source of the other training run's value.
        points: The largest effect of the setting on a score that benchharness has measured, in
            points (hundredths of a score from 0 to 1); None if it has not been measured, or if this
            difference has no effect (a larger maximum length, although no row was truncated).
        source: The source of this measurement; empty if there is none.
        change: Change that gives a run the other value: a mapping from one option to its value. The
            option is the name of a recipe setting, "precision", "seed" or "limit" (with the value
            "none", which means to leave `--limit` out). The mapping is empty if there is no such
            option.
    """

    name: str
    ours: Any
    theirs: Any
    ours_from: str
    theirs_from: str
    points: float | None
    source: str
    change: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Comparison of a stored run with another training run, of benchharness or of another tool.

    Attributes:
        run: The name of the run.
        other: The name of the other training run.
        metric: The first metric for which both training runs have a score; empty if there is none.
        ours: The run's score for this metric, from 0 to 1; None if `metric` is empty.
        theirs: The other training run's score, from 0 to 1; None if `metric` is empty.
        differences: The differences, the most likely causes first.
        not_said: The names of settings that only the run specifies. "checkpoint" is among them if
            the other training run's files do not name its checkpoint, so that the two may have
            started with different weights.
        unread: The names of settings that only the other training run specifies.
        unknown: The names of the other training run's arguments that benchharness does not know.
        assumed: Default values of the other tool, keyed by setting. They are assumed because no
            file contains them.
        compared: The number of settings that both training runs specify.
        flags: Warnings about the run's score, then warnings about the other training run's score.
        remarks: Sentences about differences other than settings, such as another split, and about
            the reason why scores cannot be compared.
    """

    run: str
    other: str
    metric: str
    ours: float | None
    theirs: float | None
    differences: tuple[Difference, ...]
    not_said: tuple[str, ...]
    unread: tuple[str, ...]
    unknown: tuple[str, ...]
    assumed: Mapping[str, Any]
    compared: int
    flags: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    remarks: tuple[str, ...] = ()

    @property
    def gap(self) -> float | None:
        """The other training run's score minus the run's score; None if one of them is unknown."""
        return None if self.theirs is None or self.ours is None else self.theirs - self.ours


class Effect(NamedTuple):
    """Effect of a setting on scores.

    Attributes:
        points: The largest measured change of a score, in points (hundredths of a score from 0 to
            1); None if the effect has not been measured.
        source: The source of this measurement.
    """

    points: float | None = None
    source: str = ""


@cache
def effects() -> Mapping[str, Effect]:
    """Return the known effects, keyed by setting. Settings with usually large effects are first."""
    file = files("benchharness.extensions.explanation") / "effects.toml"
    known = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: Effect(**facts) for name, facts in known.items()}


def explain(run: Training, other: Training) -> Explanation:
    """Compare the settings and scores of a stored run and of another training run.

    Args:
        run: Settings and scores of the stored run.
        other: Settings and scores of the other training run.

    Raises:
        BenchError: The other training run is on another task, or has another head type or other
            labels.
    """
    _check_task(run, other)
    both = _with_models(run, other)
    pair = _Pair(head=run.head, family=run.family, keeps_words=run.keeps_words, both=both)
    order = list(dict.fromkeys((*effects(), *SETTINGS)))
    values = {name: pair.of(name) for name in order if pair.compares(name)}
    for part in _PARTS:
        units = [_unit(part, values_of) for values_of in pair.both]
        if any(units):
            own, their = (v.get(unit) for v, unit in zip(pair.both, units, strict=True))
            if own and units[1] not in ("", units[0]):
                own = Said(f"{value_text(own.value)} {units[0]}", own.place)
            values[units[1] or units[0]] = own, their
    found = [
        _difference(name, own, their, Effect() if pair.is_idle(name) else effects().get(name), run)
        for name, (own, their) in values.items()
        if own and their and not pair.same(name)
    ]
    found.sort(key=lambda e: (e.name != "model", -(e.points or 0.0), order.index(e.name)))
    if run.data and other.data and run.data != other.data:
        sources = Said(run.data, "the run"), Said(other.data, other.name)
        found.insert(0, _difference("data", *sources, None, run))
    named = {each.name for each in found}
    metric = next((name for name in run.scores if name in other.scores), "")
    return Explanation(
        run=run.name,
        other=other.name,
        metric=metric,
        ours=run.scores.get(metric),
        theirs=other.scores.get(metric),
        differences=tuple(found),
        not_said=tuple(_not_said(run, other, values)),
        unread=tuple(name for name, (own, their) in values.items() if their and not own),
        unknown=other.unknown,
        flags=(run.flags, other.flags),
        remarks=other.remarks if metric else (*other.remarks, *_without_metric(run, other)),
        assumed={
            n: said.value for n, said in other.values.items() if said.assumed and n not in named
        },
        compared=sum(bool(own and their) for own, their in values.values()),
    )


def _without_metric(run: Training, other: Training) -> tuple[str, ...]:
    """Return a sentence with the reason why the scores of two training runs cannot be compared.

    The result is empty if the other training run has no scores, but has remarks, which state the
    reason.
    """
    if not other.scores and other.remarks:
        return ()
    for training in (run, other):
        if not training.scores:
            return (f"no score of {training.name} is known, so only the settings are compared.",)
    own, their = (", ".join(training.scores) for training in (run, other))
    return (f"the scores cannot be compared: {run.name} has {own}, and {other.name} has {their}.",)


def _with_models(run: Training, other: Training) -> tuple[Values, Values]:
    """Return the values of both training runs, without `checkpoint`.

    In both, the name of the checkpoint replaces `model` if the names show that the models differ,
    or if the other training run has no `model`. Otherwise only the sizes in `model` are compared: a
    checkpoint may have several names.
    """
    both = [dict(training.values) for training in (run, other)]
    own, their = (values.pop("checkpoint", None) for values in both)
    if own and their and model_name(their.value) not in run.model_names:
        both[0]["model"], both[1]["model"] = own, their
    elif their and "model" not in both[1]:
        both[0]["model"] = both[1]["model"] = their
    return both[0], both[1]


def _not_said(
    run: Training, other: Training, values: Mapping[str, tuple[Said | None, Said | None]]
) -> Iterator[str]:
    """Yield the names of the settings that only the run specifies.

    A run that starts with the weights of its checkpoint has no other start, so `start_from` is then
    left out. The checkpoint itself is included unless the models are known to differ.
    """
    if "checkpoint" in run.values and "checkpoint" not in other.values:
        yield "checkpoint"
    for name, (own, their) in values.items():
        if own and not their and not (name == "start_from" and own.value == PRETRAINED):
            yield name


def _check_task(run: Training, other: Training) -> None:
    """Raise BenchError if the other training run is on a different task than the run."""
    task = find_task(run.task)
    names = {task.name, task.name.partition("/")[2], task.source.config}
    names |= {task.source.hub, task.source.hub.rpartition("/")[2]}
    ours = f"run {run.name.removeprefix('run ')} was trained on {distinct_title(task.name)}"
    # Many data sets have a configuration named "default", which does not show the task.
    names = {name.lower() for name in names} | {"default"}
    for word in other.task.split():  # names of a data set and its configuration
        theirs = word.lower()
        if not names.isdisjoint({theirs, theirs.replace("-", ""), theirs.rpartition("/")[2]}):
            continue
        title = distinct_title(word) if word in TASKS else word
        raise BenchError(
            f"{other.name} was trained on {title}, but {ours}: choose a run on the same task."
        )
    if other.head and other.head != run.head:
        raise BenchError(
            f"{other.name} has a head of type {other.head!r}, but {ours} with a head of type "
            f"{run.head!r}: choose a run on the same task."
        )
    labels = {*getattr(task, "labels", ()), *getattr(task, "tags", ())}
    if other.labels and labels and {w.lower() for w in other.labels} != {w.lower() for w in labels}:
        raise BenchError(
            f"{other.name} has the labels {', '.join(sorted(other.labels)[:5])}, but {ours} with "
            f"the labels {', '.join(sorted(labels)[:5])}: choose a run on the same task."
        )


# Selection of the settings to compare, and tests whether two values mean the same.

_PARTS = (("steps", "epochs"), ("warmup_steps", "warmup_ratio"))
"""Pairs of settings for the same quantity in two units: a number of steps, and a number of epochs
or a share of all steps.
"""

_PACE = frozenset(name for part in _PARTS for name in part)

_WITHOUT_EFFECT = frozenset(
    {"accumulation", "activation_checkpointing", "deterministic", "decoupled_weight_decay"}
)
"""Settings that do not affect the result, or that are compared under another name."""

_DECAYING = frozenset({"xlnet", "funnel", "mpnet", "t5", "mt5", "umt5", "convbert"})
"""Model families with two-dimensional biases, or with unusual names for norms. In these families, a
selection of the decaying weights by dimension differs from one by name (docs/parity.md, d).
"""

_RELATIVE_TO_THE_END = frozenset({"xlnet"})
"""Model families with relative positions whose tokenizer pads on the left."""

_SEEING_PADDING = frozenset({"convbert", "funnel"})
"""Model families whose states depend on the width of the padding (docs/parity.md, w)."""


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The stored run and the other training run: `both` contains their values, in this order."""

    head: str
    family: str
    keeps_words: bool
    both: tuple[Values, Values]

    def of(self, name: str) -> tuple[Said | None, Said | None]:
        """Return the values of a setting in both training runs; None where it is not specified."""
        own, their = (_value(name, values) for values in self.both)
        return own, their

    def has(self, name: str, *wanted: Any) -> list[bool]:
        """Return, for both training runs, whether the value is in `wanted`.

        If `wanted` is empty, return whether the value is truthy.
        """
        found = [said and said.value for said in self.of(name)]
        return [value in wanted if wanted else bool(value) for value in found]

    def compares(self, name: str) -> bool:
        """Return whether a difference in this setting can change the result."""
        said = any(name in values for values in self.both)
        if not said or name in _PACE | _WITHOUT_EFFECT:
            return False
        return name not in _NEEDS or _NEEDS[name](self)

    def is_idle(self, name: str) -> bool:
        """Return whether a difference is known to have no effect.

        This is so if the maximum length is larger in the other training run, and no row of the run
        was truncated.
        """
        own, their = self.of(name)
        is_longer = own and their and isinstance(their.value, int) and their.value > own.value
        return name == "max_tokens" and self.keeps_words and bool(is_longer)

    def same(self, name: str) -> bool:
        """Return whether the values of a setting mean the same in both training runs.

        Both training runs must specify the setting.
        """
        part = next((part for part in _PARTS if name in part), None)
        if part and len({_unit(part, values) for values in self.both}) > 1:
            # Convert both to steps; rounding may change the number by one.
            counted, parted = sorted(self.both, key=lambda v: _unit(part, v) != part[0])
            steps = self._steps(counted, part, float(parted[part[1]].value))
            return steps is not None and abs(steps - float(counted[part[0]].value)) <= 1
        one, other = (_value(name, values).value for values in self.both)  # type: ignore[union-attr]
        if isinstance(one, int | float) and isinstance(other, int | float):
            return math.isclose(one, other, rel_tol=1e-6)
        words = [{*str(value).lower().split(", ")} for value in (one, other)]
        # Two lists of metrics count as equal if they have a metric in common.
        return not words[0].isdisjoint(words[1]) if name in _METRICS else words[0] == words[1]

    def _steps(self, values: Values, part: tuple[str, str], share: float) -> float | None:
        """Convert a number of epochs or a share of all steps to a number of steps."""
        if part == _PARTS[1]:
            whole = _unit(_PARTS[0], values)
            amount = float(values[whole].value) if whole else 0.0
            total = amount if whole == "steps" else self._steps(values, _PARTS[0], amount)
            return None if total is None else math.ceil(total * share)
        rows, batch = (values.get(n) or self.both[0].get(n) for n in ("train_rows", "batch_size"))
        if rows is None or batch is None:
            return None
        return float(math.ceil(math.ceil(rows.value / batch.value) * share))


def _unit(part: tuple[str, str], values: Values) -> str:
    """Return the name of the setting in the pair `part` that a training specifies, or ""."""
    steps, share = part
    return steps if steps in values and values[steps].value else share if share in values else ""


def _value(name: str, values: Values) -> Said | None:
    """Return the specified value of a setting, or its default if a recipe does not specify it."""
    if name in values or name not in SETTINGS or "learning_rate" not in values:
        return values.get(name)
    facts = SETTINGS[name]
    is_off = not facts.stated and facts.default is not None
    return Said(facts.default, "the default") if is_off else None


_METRICS = ("metric", "selected_by")

_CHOICES = ("best_checkpoint", "early_stopping")
"""Settings that make the result of a training depend on its evaluations."""

_NEEDS: Mapping[str, Callable[[_Pair], bool]] = {
    "decays": lambda pair: (
        any(pair.has("weight_decay"))
        and (pair.family in _DECAYING or any(pair.has("decays", ALL_DECAY)))
    ),
    "padding_side": lambda pair: pair.family not in _RELATIVE_TO_THE_END,
    "padding": lambda pair: pair.head == "span" or pair.family in _SEEING_PADDING,
    "update_scale": lambda pair: all(pair.has("optimizer", ADAFACTOR)),
    "schedule_power": lambda pair: all(pair.has("schedule", "polynomial")),
    **dict.fromkeys(
        ("adam_beta1", "adam_beta2", "adam_epsilon", "bias_correction"),
        lambda pair: not any(pair.has("optimizer", ADAFACTOR)),
    ),
    **dict.fromkeys(
        ("evaluations", "selected_by"),
        lambda pair: all(map(any, zip(*map(pair.has, _CHOICES), strict=True))),
    ),
    # run_qa.py reports the number of windows instead of rows.
    **dict.fromkeys(("train_rows", "dev_rows"), lambda pair: pair.head != "span"),
    # Only runs of benchharness have digests of their rows.
    "train_data": lambda pair: all(pair.has("train_data")),
    "dev_data": lambda pair: all(pair.has("dev_data")),
}
"""Conditions under which a difference in a setting can affect the result, keyed by setting."""


def _difference(
    name: str, own: Said, their: Said, effect: Effect | None, run: Training
) -> Difference:
    known = effect or Effect()
    return Difference(
        name=name,
        ours=own.value,
        theirs=their.value,
        ours_from=own.place,
        theirs_from=their.place,
        points=known.points,
        source=known.source,
        change=_change(name, own.value, their.value, run),
    )


def _change(name: str, ours: Any, value: Any, run: Training) -> dict[str, str]:
    """Return the option that gives a run this value; empty if there is none."""
    if name == "train_rows" and run.limit and value > ours:
        return {"limit": "none"}
    is_option = name == "seed" or (name == "precision" and value in (*PRECISIONS[1:], "fp32"))
    is_setting = name in SETTINGS and SETTINGS[name].rule.read(value) is not None
    return {name: value_text(value)} if is_option or is_setting else {}
