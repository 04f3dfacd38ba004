"""Guards of the regression check: measures other than the score that must not get worse.

`bench check --write --guard GUARD` computes a guard for each run and stores it in the baseline;
`bench check` computes it for the new runs. GUARD is `NAME`, `NAME=ARGUMENT`, or one of these with a
minimum, such as `recall=refund>=0.8`. A guard without a minimum is tested in the same way as a
score, with the standard deviation over the baseline's seeds. All guards are better if higher.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchharness.discovery import member, places
from benchharness.errors import BenchError
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.tasks.examples import Example
from benchharness.tasks.suites import distinct_title, find_task

COLUMNS = ("guard", "baseline", "now", "drop", "tolerated", "p", "verdict")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Guard, as selected with `--guard`.

    Attributes:
        name: Name of the guard in the table `guards` of an extension.
        argument: Text after "="; may be empty.
        minimum: Smallest accepted value; None to compare the value with the baseline.
    """

    name: str
    argument: str
    minimum: float | None

    @classmethod
    def parse(cls, text: str) -> "Guard":
        """Create a guard from the value of `--guard`.

        Raises:
            BenchError: No extension has this guard, or the minimum is not a number.
        """
        said, has_minimum, least = text.partition(">=")
        name, _, argument = (part.strip() for part in said.partition("="))
        if name not in (known := places("guards")):
            raise BenchError(
                f"--guard {text!r} is unknown: expected {', '.join(sorted(known))}, with a value "
                "as in coverage=0.95, or with a minimum as in 'recall=LABEL>=0.8'."
            )
        try:
            minimum = float(least) if has_minimum else None
        except ValueError:
            raise BenchError(
                f"--guard {text!r} has the minimum {least.strip()!r}, which is not a number: use "
                "'>=0.8' for 0.8."
            ) from None
        return cls(name=name, argument=argument, minimum=minimum)

    def value(self, predicted: PredictedSplit, job: Job) -> float:
        """Compute the value of the guard for a run; higher values are better.

        Args:
            predicted: Examples of a split, and the predictions of the run.
            job: Job of the run.

        Raises:
            BenchError: The guard cannot be computed for this task.
        """
        compute = member(f"the guard {self.name!r}", places("guards")[self.name])
        return float(compute(predicted, job, self.argument))


def values_of(
    guards: Sequence[str], results: Sequence[Result], examples: Mapping[str, Sequence[Example]]
) -> dict[str, tuple[float, ...]]:
    """Compute guards for the runs of a task; return a value per run, keyed by guard.

    If a task is scored on several splits, a value is the mean over them.

    Args:
        guards: Guards, as in `--guard`.
        results: Result of each run.
        examples: Examples of the scored splits, keyed by "task:split".

    Raises:
        BenchError: A guard is unknown, or cannot be computed for this task.
    """
    found = {}
    for text in guards:
        guard = Guard.parse(text)
        found[text] = tuple(
            fmean(
                guard.value(_predicted(result, name, rows), result.job)
                for name, rows in examples.items()
            )
            for result in results
        )
    return found


def below_minimum(guards: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield a clause for each guard whose mean is below its own minimum.

    Args:
        guards: Value of each run of a baseline, keyed by guard.
    """
    for text, values in guards.items():
        minimum = Guard.parse(text).minimum
        if minimum is not None and fmean(values) < minimum:
            yield f"the guard {text} has the mean {fmean(values):.3f}, below its minimum"


def _predicted(result: Result, name: str, rows: Sequence[Example]) -> PredictedSplit:
    task, split = name.rsplit(":", 1)
    predictions = predictions_of(result.evaluation(name), rows)
    return PredictedSplit(
        task=find_task(task), split=split, examples=tuple(rows), one=(predictions,)
    )


def recall(predicted: PredictedSplit, _job: Job, argument: str) -> float:
    """Return the share of the rows of a class that a run predicts as this class.

    Args:
        predicted: Examples of the split, and the predictions of the run.
        argument: Name of the class.

    Raises:
        BenchError: The task does not have the class, or no row of the split has it.
    """
    labels: Sequence[str] = getattr(predicted.task, "labels", ())
    where = distinct_title(predicted.task.name)
    if argument not in labels:
        known = f"its classes are {', '.join(labels)}" if labels else "it has no classes"
        raise BenchError(f"--guard recall={argument} does not fit {where}: {known}.")
    pairs: Iterator[tuple[Any, Any]] = zip(predicted.examples, predicted.one[0], strict=True)
    found = [argument in _set(p.label) for e, p in pairs if argument in _set(e.label)]
    if not found:
        raise BenchError(
            f"--guard recall={argument} cannot be computed on {where} {predicted.split}, because "
            "no row has this class: use another class."
        )
    return fmean(found)


def _set(label: str | Sequence[str]) -> tuple[str, ...]:
    return (label,) if isinstance(label, str) else tuple(label)


@dataclass(frozen=True, kw_only=True)
class GuardVerdict:
    """Comparison of one guard of a task with its baseline or its minimum.

    Attributes:
        task: Name of the task.
        guard: Guard, as in `--guard`.
        before: Value of each run of the baseline.
        now: Value of each new run.
        minimum: Smallest accepted mean; None if the guard is compared with the baseline.
        p_value: Probability of a drop at least as large as the observed one if nothing has changed,
            corrected for the number of tasks and guards (Holm); None if the guard has a minimum.
        tolerated: Largest drop with which the guard passes; None if the guard has a minimum.
        is_worse: True if the guard fails.
    """

    task: str
    guard: str
    before: tuple[float, ...]
    now: tuple[float, ...]
    minimum: float | None
    p_value: float | None
    tolerated: float | None
    is_worse: bool

    @property
    def title(self) -> str:
        """Guard and task, such as "coverage=0.95 of RTE"."""
        return f"{self.guard} of {distinct_title(self.task)}"

    @property
    def drop(self) -> float:
        """Mean of the baseline's runs minus the mean of the new runs; positive for a decrease."""
        return fmean(self.before) - fmean(self.now)

    @property
    def sentence(self) -> str:
        """Description of the comparison: both means, and the limit."""
        limit = (
            f"{100 * (self.tolerated or 0):.2f} points are tolerated (p {self.p_value:.3f})"
            if self.minimum is None
            else f"the minimum is {100 * self.minimum:.2f}"
        )
        return (
            f"{self.title}: {100 * fmean(self.now):.2f}, after {100 * fmean(self.before):.2f} in "
            f"the baseline; {limit}"
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the guard's row in a table, in the order of COLUMNS."""
        return (
            self.title,
            f"{100 * fmean(self.before):.2f}",
            f"{100 * fmean(self.now):.2f}",
            f"{100 * self.drop:+.2f}",
            "" if self.tolerated is None else f"{100 * self.tolerated:.2f}",
            "" if self.p_value is None else f"{self.p_value:.3f}",
            "worse" if self.is_worse else "ok",
        )

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the drop as JSON data."""
        return {**vars(self), "drop": self.drop}
