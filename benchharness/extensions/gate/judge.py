"""The verdict: which of several tasks are worse than the baseline, beyond noise."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from statistics import fmean
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded on first use

from benchharness.extensions.gate.sample import Change, Sample, find_change
from benchharness.leaderboard.sharing import without_paths
from benchharness.leaderboard.statistics import holm
from benchharness.tasks.errors import DataError
from benchharness.tasks.suites import distinct_title

Array = npt.NDArray[np.float64]

REGRESSION = 3
"""The exit code of a check that found a task to be worse, or its training changed."""

FAILED_JOB = 1
"""The exit code where a job of a task failed."""

NOT_COMPARED = 4
"""The exit code where a task has no baseline that it can be compared with."""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """One example of a split and the share of runs that had it right, before and now."""

    split: str
    example: str
    before: float
    now: float

    @property
    def is_lost(self) -> bool:
        """True where it is wrong now."""
        return self.now < self.before

    def __str__(self) -> str:
        return (
            f"{self.split} {self.example}: right in {self.before:.0%} of the runs before, in "
            f"{self.now:.0%} now"
        )


@dataclass(frozen=True, kw_only=True)
class Unjudged:
    """A task that was not compared, or not with all of its seeds, and a sentence that says why.

    `exit_code` is FAILED_JOB or NOT_COMPARED.
    """

    task: str
    reason: str
    exit_code: int

    def __str__(self) -> str:
        return f"{distinct_title(self.task)}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Collapses:
    """The new runs of all tasks that collapsed, and whether these are more than before.

    `seeds` are those that collapsed, by task, and `again` those that were run in the place of such
    a seed. `runs` counts all new ones; `before` and `runs_before` are the baseline's.
    """

    seeds: Mapping[str, tuple[int, ...]]
    again: Mapping[str, tuple[int, ...]]
    runs: int
    before: int
    runs_before: int
    p_value: float
    is_more: bool

    def __str__(self) -> str:
        now = sum(map(len, self.seeds.values()))
        return (
            f"{now} of {self.runs} new runs, {self.before} of the baseline's {self.runs_before} "
            f"(p {self.p_value:.3f})"
        )

    @property
    def lines(self) -> Iterator[str]:
        """Which seeds collapsed, a sentence for each task."""
        for task, seeds in self.seeds.items():
            again = self.again.get(task, ())
            first = [seed for seed in seeds if seed not in again]
            line = f"{distinct_title(task)}: {_seeds(first)} collapsed"
            if again:
                both = [seed for seed in seeds if seed in again]
                fate = f", and {_seeds(both)} collapsed too" if both else ""
                line += f"; {_seeds(again)} ran in the place of it{fate}"
            yield f"{line}."


def _seeds(numbers: Sequence[int]) -> str:
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


@dataclass(frozen=True, kw_only=True)
class TaskVerdict:
    """One task before and now, in the score's own unit; `drop` is positive where it is worse.

    The samples have the runs that are compared: those that learned something, see `_compared`.

    `p_value` is corrected for all tasks (Holm). `tolerated` is the drop beyond which the task fails
    whatever the others do, `detectable` the true drop that would be found in four of five checks.
    `change` is where training left the baseline's, None where it did not or could not be compared.
    """

    task: str
    before: Sample
    now: Sample
    p_value: float
    tolerated: float
    detectable: float
    is_worse: bool
    flips: tuple[Flip, ...]
    change: Change | None = None

    @property
    def drop(self) -> float:
        """How much lower the mean over seeds is."""
        return self.before.mean - self.now.mean


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a check found.

    `title` names the model and the rows: "tiny on mini data, at most 200 rows a split". `notes` are
    sentences about what differs and does not keep tasks from being compared. A task whose training
    has changed fails unless `may_change`.
    """

    title: str
    alpha: float
    tasks: tuple[TaskVerdict, ...]
    collapses: Collapses
    unjudged: tuple[Unjudged, ...] = ()
    notes: tuple[str, ...] = ()
    may_change: bool = False

    def without_paths(self, known: Iterable[str]) -> Self:
        """The verdict as files and logs have it: jobs' errors may name places of this machine."""
        said = partial(without_paths, known=[*known])
        return replace(
            self,
            title=said(self.title),
            unjudged=tuple(replace(each, reason=said(each.reason)) for each in self.unjudged),
            notes=tuple(map(said, self.notes)),
        )

    @property
    def worse(self) -> tuple[TaskVerdict, ...]:
        """The tasks whose scores fell beyond noise."""
        return tuple(task for task in self.tasks if task.is_worse)

    @property
    def changed(self) -> tuple[TaskVerdict, ...]:
        """The tasks whose training computes something else, where that fails."""
        return () if self.may_change else tuple(task for task in self.tasks if task.change)

    @property
    def failed(self) -> tuple[TaskVerdict, ...]:
        """Those of either kind."""
        return tuple(t for t in self.tasks if t.is_worse or (t.change and not self.may_change))

    @property
    def exit_code(self) -> int:
        """3 for a regression, else 1 for a failed job, else 4 for a task not compared, else 0."""
        if self.failed or self.collapses.is_more:
            return REGRESSION
        codes = {each.exit_code for each in self.unjudged}
        if FAILED_JOB in codes:
            return FAILED_JOB
        return NOT_COMPARED if codes or not self.tasks else 0

    @property
    def sentence(self) -> str:
        """The verdict for a person, as one sentence; another one says that more runs collapse."""
        more = f"More runs collapse than before: {self.collapses}. "
        return f"{more if self.collapses.is_more else ''}{self._of_scores}"

    @property
    def _of_scores(self) -> str:
        count = f"{len(self.tasks)} task{'' if len(self.tasks) == 1 else 's'}"
        if self.worse:
            names = ", ".join(distinct_title(task.task) for task in self.worse)
            return f"Worse than the baseline beyond noise: {names} (of {count})."
        if self.changed:
            names = ", ".join(distinct_title(task.task) for task in self.changed)
            return (
                f"Training computes something else than the baseline's: {names} (of {count}); none "
                "is worse beyond noise."
            )
        if not self.tasks:
            return "No task could be compared with the baseline."
        if len(self.tasks) == 1:
            return (
                f"{distinct_title(self.tasks[0].task)} is not worse than the baseline beyond noise."
            )
        return f"None of {len(self.tasks)} tasks is worse than the baseline beyond noise."


def judge(  # noqa: PLR0913  (what a verdict is made of)
    title: str,
    before: Mapping[str, Sample],
    now: Mapping[str, Sample],
    ids: Mapping[str, Sequence[str]],
    *,
    alpha: float,
    seeds: Collection[int] | None = None,
    unjudged: Sequence[Unjudged] = (),
    notes: Sequence[str] = (),
    may_change: bool = False,
) -> Verdict:
    """The verdict on the tasks of `now`, each of which `before` has by two seeds or more.

    The chance that any task is worse where nothing has changed is at most `alpha`, and that of more
    collapsed runs half of it. `seeds` are those that were asked for (None: all); others of `now`
    ran in the place of one that collapsed. `ids` name the examples of each scored split. Raises
    DataError where `before` is of other examples.
    """
    for task, sample in now.items():
        _require_same_examples(task, before[task], sample, ids)
    found = {task: _compared(before[task], sample) for task, sample in now.items()}
    pairs = {task: pair for task, pair in found.items() if pair is not None}
    # 1 / examples is what one example is worth: no spread is taken for smaller.
    chances = (drop_p_values(b.scores, n.scores, 1 / b.examples) for b, n in pairs.values())
    corrected = holm(list(map(float, chances)))
    # What Holm asks of the smallest p-value: a drop that meets it fails whatever the others do.
    share = alpha / max(1, len(pairs))
    tasks = tuple(
        TaskVerdict(
            task=task,
            before=old,
            now=new,
            p_value=p_value,
            tolerated=tolerated_drop(*_seen(old, new), share),
            detectable=detectable_drop(*_seen(old, new), share),
            is_worse=p_value < alpha,
            flips=find_flips(old, new, ids),
            change=_change(before[task], now[task]),
        )
        for (task, (old, new)), p_value in zip(pairs.items(), corrected, strict=True)
    )
    collapses = count_collapses({task: before[task] for task in now}, now, seeds, alpha)
    lost = [
        Unjudged(task=task, reason="all of its new runs collapsed", exit_code=NOT_COMPARED)
        for task in now
        if task not in pairs
    ]
    blind = map(_blind_note, (task for task in pairs if before[task].learned is None))
    return Verdict(
        title=title,
        alpha=alpha,
        tasks=tasks,
        collapses=collapses,
        unjudged=(*unjudged, *lost),
        notes=(*notes, *blind, *collapses.lines),
        may_change=may_change,
    )


def _blind_note(task: str) -> str:
    return (
        f"{distinct_title(task)}: every run of the baseline collapsed, so this check can find no "
        "drop: write it again from runs that learn."
    )


def _compared(before: Sample, now: Sample) -> tuple[Sample, Sample] | None:
    """The runs that learned; None where no new one did.

    Where fewer than two of the baseline's learned (`--allow-weak`), all runs are compared.
    """
    old, new = before.learned, now.learned
    if old is None or len(old.seeds) < 2:
        return before, now
    return None if new is None else (old, new)


def _require_same_examples(
    task: str, before: Sample, now: Sample, ids: Mapping[str, Sequence[str]]
) -> None:
    """Equal rows have as many outcomes, unless somebody has changed the baseline's file."""
    had = {split: len(runs[0]) for split, runs in before.right.items()}
    has = {split: len(runs[0]) for split, runs in now.right.items()}
    if not had == has == {split: len(ids.get(split, ())) for split in has}:
        raise DataError(
            f"the baseline of {task} has the outcomes of {before.examples} examples, and "
            f"{now.examples} were predicted: it was changed by hand; write it again with "
            "`bench check --write`."
        )


def _seen(before: Sample, now: Sample) -> tuple[Sequence[float], int, float]:
    """What the noise of a drop depends on."""
    return before.scores, len(now.scores), 1 / before.examples


def _change(before: Sample, now: Sample) -> Change | None:
    """Where training left the baseline's; other weights or libraries have other losses anyway."""
    # An unknown maker is "" on both sides, and says nothing.
    alike = before.conditions.weights == now.conditions.weights and before.maker == now.maker
    return find_change(before.first_losses, now.first_losses) if alike and now.maker else None


# How large a drop of a score is noise: Student's t on the spread that the baseline's seeds show.
#
# Both sides are scored on the same examples, so which examples these are moves both alike, and what
# is left of a difference without a cause is the noise of the seeds. All scores and drops are in the
# score's own unit (mostly 0..1).

POWER = 0.8
"""The chance with which a "detectable" drop is found: four fifths, the custom of power analyses
(Cohen, Statistical Power Analysis, 1988, section 2.4)."""


def spread_of_means(
    before: Any, after_count: int, resolution: Any, seeds: int | None = None
) -> Array:
    """The standard error of the difference of both means, from the baseline's seeds alone.

    `before` has the baseline's scores along its last axis, at least two; `seeds` says of how many
    its mean is, where not of these. The spread of a run is
    never taken for smaller than `resolution`, what one example is worth: a few equal scores show no
    more than that. The new runs' own spread is left out, or one collapsed run among them would
    raise the tolerance that it should be caught by.
    """
    # s * sqrt(1/n + 1/m): n seeds of the baseline, m new runs.
    scores = np.asarray(before, dtype=np.float64)
    spread = np.maximum(scores.std(axis=-1, ddof=1), resolution)
    error: Array = spread * np.sqrt(1 / (seeds or scores.shape[-1]) + 1 / after_count)
    return error


def drop_p_values(before: Any, after: Any, resolution: Any) -> Array:
    """The chance of such a drop of the mean, or a larger one, where nothing has changed.

    `before` and `after` have a score for each seed along their last axes; all others are tasks,
    simulated suites and the like. One-sided, with as many degrees of freedom as the baseline has
    seeds, less one.
    """
    old, new = (np.asarray(scores, dtype=np.float64) for scores in (before, after))
    drops = old.mean(axis=-1) - new.mean(axis=-1)
    found: Array = scipy.special.stdtr(
        old.shape[-1] - 1, -drops / spread_of_means(old, new.shape[-1], resolution)
    )
    return found


def tolerated_drop(before: Any, after_count: int, resolution: float, alpha: float) -> float:
    """The largest drop whose p-value is not below `alpha`."""
    critical = float(scipy.special.stdtrit(len(before) - 1, 1 - alpha))
    return critical * float(spread_of_means(before, after_count, resolution))


def detectable_drop(
    before: Any, after_count: int, resolution: float, alpha: float, seeds: int | None = None
) -> float:
    """The true drop that is found with the chance POWER, if the baseline's spread is the true one.

    With a true drop the statistic has a noncentral t distribution. `seeds` are as many as the
    baseline could have, with the same spread.
    """
    freedom = (seeds or len(before)) - 1
    critical = float(scipy.special.stdtrit(freedom, 1 - alpha))
    # The shift of a noncentral t that stays below the critical value with the chance 1 - POWER.
    shift = float(scipy.special.nctdtrinc(freedom, 1 - POWER, critical))
    return shift * float(spread_of_means(before, after_count, resolution, seeds))


# Whether more runs collapse than before, over all tasks: the few runs of one hardly tell.

ACCEPTED = 0.05
"""The share of runs that may collapse without a cause: a baseline without any does not show that
there is none, and large encoders on small tasks collapse with some seeds (Devlin et al., 2019)."""


def count_collapses(
    before: Mapping[str, Sample],
    now: Mapping[str, Sample],
    seeds: Collection[int] | None,
    alpha: float,
) -> Collapses:
    """What collapsed of the new runs; half of `alpha` is the chance to call it more by chance."""
    again = {
        task: tuple(seed for seed in sample.seeds if seeds is not None and seed not in seeds)
        for task, sample in now.items()
    }
    runs, twice = sum(len(s.seeds) for s in now.values()), sum(map(len, again.values()))
    collapsed = sum(len(sample.collapsed) for sample in now.values())
    old = [(len(sample.collapsed), len(sample.seeds)) for sample in before.values()]
    had, runs_before = (sum(column) for column in zip(*old, strict=True)) if old else (0, 0)
    first = sum(seed not in again[task] for task, s in now.items() for seed in s.collapsed)
    p_value = collapse_p_value(first, collapsed, runs - twice, had, runs_before)
    return Collapses(
        seeds={task: sample.collapsed for task, sample in now.items() if sample.collapsed},
        again={task: found for task, found in again.items() if found},
        runs=runs,
        before=had,
        runs_before=runs_before,
        p_value=p_value,
        is_more=p_value < alpha / 2,
    )


def collapse_p_value(first: int, both: int, seeds: int, before: int, runs_before: int) -> float:
    """The chance of `both` collapsed runs or more, where ACCEPTED is the true share of them.

    `seeds` were run, and the `first` of them that collapsed once again. Where the baseline's runs
    collapsed too, the p-value is at least that of Fisher's exact test of the first runs with these.
    """
    one_seed = [1 - ACCEPTED, ACCEPTED * (1 - ACCEPTED), ACCEPTED**2]  # of 0, 1, 2 collapsed runs
    # How many of all collapse: the distribution of a sum is the convolution of its parts'. `known`
    # is Fisher's one-sided test, the hypergeometric chance of `first` or more among the new seeds.
    chances = reduce(np.convolve, [one_seed] * seeds, np.ones(1))
    known = scipy.stats.hypergeom.sf(first - 1, runs_before + seeds, before + first, seeds)
    return float(max(chances[both:].sum(), known if before else 0.0))


# Which examples most runs had right before and most have wrong now, and the other way round.


def find_flips(before: Sample, now: Sample, ids: Mapping[str, Sequence[str]]) -> tuple[Flip, ...]:
    """The flips, the clearest first; `ids` name the examples of each split in its order.

    An example that half of the runs have right is on neither side.
    """
    found = [flip for split in before.right for flip in _flips(split, before, now, ids[split])]
    return tuple(sorted(found, key=lambda flip: (flip.now - flip.before, flip.split, flip.example)))


def _flips(split: str, before: Sample, now: Sample, ids: Sequence[str]) -> Iterator[Flip]:
    shares = zip(_shares(before.right[split]), _shares(now.right[split]), strict=True)
    for name, (old, new) in zip(ids, shares, strict=True):
        # Below 0 only where the shares lie on either side of a half.
        if (old - 0.5) * (new - 0.5) < 0:
            yield Flip(split=split, example=name, before=old, now=new)


def _shares(runs: Sequence[str]) -> list[float]:
    """Of each example, the share of runs that had it right."""
    return [fmean(outcome == "1" for outcome in column) for column in zip(*runs, strict=True)]
