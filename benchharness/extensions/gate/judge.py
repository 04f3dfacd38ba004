"""Verdict of the regression check: which tasks score significantly below the baseline."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from statistics import fmean
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded on first use

from benchharness.errors import DataError
from benchharness.extensions.gate.guards import Guard, GuardVerdict
from benchharness.extensions.gate.sample import Change, Sample, find_change
from benchharness.leaderboard.sharing import without_paths
from benchharness.leaderboard.statistics import holm
from benchharness.tasks.suites import distinct_title

Array = npt.NDArray[np.float64]

REGRESSION = 3
"""Exit code of a check if a task is worse, if training has changed, or if significantly more runs
collapse (learn nothing) than in the baseline."""

FAILED_JOB = 1
"""Exit code if a job of a task failed."""

NOT_COMPARED = 4
"""Exit code if a task could not be compared: the baseline lacks it or has other conditions (such as
other rows), or all new runs collapsed."""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """Example that most runs predicted correctly before and wrongly now, or the reverse.

    Attributes:
        split: Split of the example, as "task:split".
        example: Id of the example.
        before: Fraction of the baseline's runs with a correct prediction.
        now: Fraction of the new runs with a correct prediction.
    """

    split: str
    example: str
    before: float
    now: float

    @property
    def is_lost(self) -> bool:
        """True if a smaller fraction of the runs predicts the example correctly now."""
        return self.now < self.before

    def __str__(self) -> str:
        return (
            f"{self.split} {self.example}: correct in {self.before:.0%} of the runs before, in "
            f"{self.now:.0%} now"
        )


@dataclass(frozen=True, kw_only=True)
class Unjudged:
    """Task that was not compared, or not with all of its seeds, and the reason.

    Attributes:
        task: Name of the task.
        reason: Reason why it was not compared, or not completely, as a clause.
        exit_code: Exit code of the check for this reason: FAILED_JOB or NOT_COMPARED.
    """

    task: str
    reason: str
    exit_code: int

    def __str__(self) -> str:
        return f"{distinct_title(self.task)}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Collapses:
    """Collapsed runs (runs that learned nothing) of a check and of its baseline.

    Attributes:
        seeds: Seeds of the new runs that collapsed, keyed by task.
        again: Seeds that were run in addition, to replace collapsed ones, keyed by task.
        runs: Number of all new runs of the compared tasks.
        before: Number of the baseline's runs of these tasks that collapsed.
        runs_before: Number of all runs of these tasks in the baseline.
        p_value: Probability of at least this many collapsed runs if nothing has changed.
        is_more: True if significantly more runs collapsed than in the baseline.
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
            f"{now} of {self.runs} new runs, and {self.before} of the baseline's "
            f"{self.runs_before} runs (p {self.p_value:.3f})"
        )

    @property
    def lines(self) -> Iterator[str]:
        """One sentence for each task with collapsed seeds."""
        for task, seeds in self.seeds.items():
            again = self.again.get(task, ())
            first = [seed for seed in seeds if seed not in again]
            line = f"{distinct_title(task)}: {_seeds(first)} collapsed"
            if again:
                both = [seed for seed in seeds if seed in again]
                fate = f", and {_seeds(both)} collapsed too" if both else ""
                line += f"; {_seeds(again)} ran instead{fate}"
            yield f"{line}."


def _seeds(numbers: Sequence[int]) -> str:
    return f"seed{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


@dataclass(frozen=True, kw_only=True)
class TaskVerdict:
    """Comparison of one task with its baseline. Drops are in the unit of the score.

    Attributes:
        task: Name of the task.
        before: Runs of the baseline that are compared. Collapsed runs are left out if at least two
            others remain.
        now: New runs that are compared. Collapsed runs are left out if they are left out of
            `before` too.
        p_value: Probability of a drop at least as large as the observed one if nothing has changed,
            corrected for the number of tasks and guards (Holm).
        tolerated: Drop above which the task fails, whatever the results of other tasks are.
        detectable: Drop of the expected score (without noise) that four of five checks detect.
        is_worse: True if the score is significantly worse than the baseline's.
        flips: Examples that most runs predicted correctly before and wrongly now, or the reverse.
        change: First difference between the training losses now and in the baseline; None if there
            is none, or if the losses cannot be compared.
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
        """Mean score of the baseline's runs minus that of the new runs; positive for a decrease."""
        return self.before.mean - self.now.mean


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of a regression check.

    Attributes:
        title: Model and data, such as "tiny on mini data, at most 200 rows per split".
        alpha: Significance level.
        tasks: Tasks that were compared.
        collapses: Collapsed runs (runs that learned nothing) of all tasks.
        unjudged: Tasks that were not compared, or not with all of their seeds.
        notes: Sentences for the user, such as differences that still allow a comparison.
        may_change: False if a task fails when its training losses have changed, True if it does
            not.
        guards: Guards of the tasks.
    """

    title: str
    alpha: float
    tasks: tuple[TaskVerdict, ...]
    collapses: Collapses
    unjudged: tuple[Unjudged, ...] = ()
    notes: tuple[str, ...] = ()
    may_change: bool = False
    guards: tuple[GuardVerdict, ...] = ()

    def without_paths(self, known: Iterable[str]) -> Self:
        """Return a copy of the verdict for files and logs, with shortened paths of this machine.

        Paths are shortened in the title, the reasons and the notes.

        Args:
            known: Paths that may occur in these texts. They are found even if they contain spaces.
        """
        said = partial(without_paths, known=[*known])
        return replace(
            self,
            title=said(self.title),
            unjudged=tuple(replace(each, reason=said(each.reason)) for each in self.unjudged),
            notes=tuple(map(said, self.notes)),
        )

    @property
    def worse(self) -> tuple[TaskVerdict, ...]:
        """Tasks whose scores fell significantly."""
        return tuple(task for task in self.tasks if task.is_worse)

    @property
    def changed(self) -> tuple[TaskVerdict, ...]:
        """Tasks whose training losses have changed; empty if changes are allowed."""
        return () if self.may_change else tuple(task for task in self.tasks if task.change)

    @property
    def failed(self) -> tuple[TaskVerdict, ...]:
        """Tasks whose scores are worse, or whose losses changed although `may_change` is False."""
        return tuple(t for t in self.tasks if t.is_worse or (t.change and not self.may_change))

    @property
    def broken(self) -> tuple[GuardVerdict, ...]:
        """Guards that fail."""
        return tuple(guard for guard in self.guards if guard.is_worse)

    @property
    def exit_code(self) -> int:
        """Exit code: 3 for a regression, else 1 (failed job), 4 (task not compared) or 0."""
        if self.failed or self.broken or self.collapses.is_more:
            return REGRESSION
        codes = {each.exit_code for each in self.unjudged}
        if FAILED_JOB in codes:
            return FAILED_JOB
        return NOT_COMPARED if codes or not self.tasks else 0

    @property
    def sentence(self) -> str:
        """Summary of the verdict, with the tasks that are worse or, if none is, have changed."""
        more = f"More runs collapse than before: {self.collapses}. "
        names = ", ".join(guard.title for guard in self.broken)
        broken = f"Guards fail: {names} (of {len(self.guards)}). " if names else ""
        return f"{more if self.collapses.is_more else ''}{broken}{self._of_scores}"

    @property
    def _of_scores(self) -> str:
        count = f"{len(self.tasks)} task{'' if len(self.tasks) == 1 else 's'}"
        if self.worse:
            names = ", ".join(distinct_title(task.task) for task in self.worse)
            return f"Scores are significantly worse than the baseline: {names} (of {count})."
        if self.changed:
            names = ", ".join(distinct_title(task.task) for task in self.changed)
            return (
                f"Training has changed since the baseline: {names} (of {count}). No score is "
                "significantly worse."
            )
        if not self.tasks:
            return "No task could be compared with the baseline."
        if len(self.tasks) == 1:
            return (
                f"{distinct_title(self.tasks[0].task)} is not significantly worse than the "
                "baseline."
            )
        return f"None of {len(self.tasks)} tasks is significantly worse than the baseline."


def judge(  # noqa: PLR0913  (the parts of a verdict)
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
    """Compare the new runs with the baseline's, and return the verdict on each task.

    If nothing has changed, the probability that any task is reported as worse is at most `alpha`,
    and the probability that an increase of collapsed runs is reported is at most half of `alpha`.

    Args:
        title: Title of the verdict.
        before: Runs of the baseline, keyed by task. A task that is in `now` needs at least two.
        now: New runs, keyed by task.
        ids: Ids of the examples of each scored split, in order, keyed by "task:split".
        alpha: Significance level.
        seeds: Seeds that were requested. Any other seed in `now` counts as a replacement of a
            collapsed one. None if no seed is a replacement.
        unjudged: Tasks that were not compared, with reasons.
        notes: Sentences to include in the verdict.
        may_change: True if a task does not fail when its training losses have changed.

    Raises:
        DataError: The number of examples in the baseline differs from that of the new runs.
    """
    for task, sample in now.items():
        _require_same_examples(task, before[task], sample, ids)
    found = {task: _compared(before[task], sample) for task, sample in now.items()}
    pairs = {task: pair for task, pair in found.items() if pair is not None}
    # One example changes the score by 1 / examples. A smaller standard deviation is not assumed.
    chances = [float(drop_p_values(b.scores, n.scores, 1 / b.examples)) for b, n in pairs.values()]
    guards = _guards_of(pairs)
    tested = [guarded for guarded in guards if Guard.parse(guarded[1]).minimum is None]
    chances += [_guard_p_value(guard, pairs[task]) for task, guard in tested]
    corrected = holm(chances)
    # Holm's threshold for the smallest p-value: a drop with a p-value below it fails the task
    # regardless of other tasks.
    share = alpha / max(1, len(chances))
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
        for (task, (old, new)), p_value in zip(pairs.items(), corrected[: len(pairs)], strict=True)
    )
    of_guards = dict(zip(tested, corrected[len(pairs) :], strict=True))
    judged = (
        _judge_guard(guarded, pairs[guarded[0]], of_guards.get(guarded), alpha, share)
        for guarded in guards
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
        guards=tuple(judged),
    )


_Pair = tuple[Sample, Sample]
"""Old and new runs of a task."""


def _guards_of(pairs: Mapping[str, _Pair]) -> list[tuple[str, str]]:
    """Return pairs (task, guard) for the guards that both the old and the new runs have."""
    return [
        (task, guard)
        for task, (old, new) in pairs.items()
        for guard in old.guards
        if guard in new.guards
    ]


def _guard_p_value(guard: str, pair: _Pair) -> float:
    old, new = pair
    return float(drop_p_values(old.guards[guard], new.guards[guard], 1 / old.examples))


def _judge_guard(
    guarded: tuple[str, str], pair: _Pair, p_value: float | None, alpha: float, share: float
) -> GuardVerdict:
    """Return the verdict on a guard; without a p-value, its mean is compared with its minimum."""
    (task, guard), (old, new) = guarded, pair
    before, now, minimum = old.guards[guard], new.guards[guard], Guard.parse(guard).minimum
    tolerated = None
    if p_value is not None:
        tolerated = tolerated_drop(before, len(now), 1 / old.examples, share)
    return GuardVerdict(
        task=task,
        guard=guard,
        before=before,
        now=now,
        minimum=minimum,
        p_value=p_value,
        tolerated=tolerated,
        is_worse=p_value < alpha if p_value is not None else fmean(now) < (minimum or 0),
    )


def _blind_note(task: str) -> str:
    return (
        f"{distinct_title(task)}: every run of the baseline collapsed, so this check cannot "
        "detect a drop. Write a new baseline from runs that did not collapse."
    )


def _compared(before: Sample, now: Sample) -> tuple[Sample, Sample] | None:
    """Return the old and the new runs without collapsed ones; None if every new run collapsed.

    If fewer than two runs of the baseline are left (`--allow-weak`), return all runs.
    """
    old, new = before.learned, now.learned
    if old is None or len(old.seeds) < 2:
        return before, now
    return None if new is None else (old, new)


def _require_same_examples(
    task: str, before: Sample, now: Sample, ids: Mapping[str, Sequence[str]]
) -> None:
    """Raise DataError unless both samples have an outcome for each example.

    Equal rows were checked before, so different numbers mean that the baseline's file was edited.
    """
    had = {split: len(runs[0]) for split, runs in before.right.items()}
    has = {split: len(runs[0]) for split, runs in now.right.items()}
    if not had == has == {split: len(ids.get(split, ())) for split in has}:
        raise DataError(
            f"the baseline of {task} has outcomes for {before.examples} examples, but "
            f"{now.examples} examples were predicted: the file was edited by hand. Write it again "
            "with `bench check --write`."
        )


def _seen(before: Sample, now: Sample) -> tuple[Sequence[float], int, float]:
    """Return the baseline's scores, the number of new runs, and the effect of one example."""
    return before.scores, len(now.scores), 1 / before.examples


def _change(before: Sample, now: Sample) -> Change | None:
    """Return the first changed loss; None if other weights, devices or libraries may explain it."""
    # `maker` names the device and the libraries. If it is unknown ("") on both sides, they may
    # still differ, so no losses are compared.
    alike = before.conditions.weights == now.conditions.weights and before.maker == now.maker
    return find_change(before.first_losses, now.first_losses) if alike and now.maker else None


# Significance of a drop: Student's t-test with the spread over the baseline's seeds.
#
# Old and new runs are scored on the same examples, so the choice of examples affects both alike. If
# nothing has changed, their scores differ only because their seeds differ. All scores and drops are
# in the unit of the score (mostly 0..1).

POWER = 0.8
"""Probability with which a check detects a drop that is called detectable. 0.8 is the convention in
power analysis (Cohen, Statistical Power Analysis, 1988, section 2.4).
"""


def spread_of_means(
    before: Any, after_count: int, resolution: Any, seeds: int | None = None
) -> Array:
    """Return the standard error of the difference between the baseline's mean and the new mean.

    It is estimated from the scores of the baseline alone. The new scores are not used, because one
    collapsed run among them would increase the standard error so much that the drop which this run
    causes would be tolerated.

    Args:
        before: Scores of the baseline, with at least two seeds along the last axis.
        after_count: Number of new runs.
        resolution: Effect of one example on the score. The standard deviation is assumed to be at
            least this large, because a few equal scores do not prove a smaller one.
        seeds: Number of seeds that the baseline is assumed to have; None for the length of the last
            axis.
    """
    # This is spread * sqrt(1/n + 1/m), for n seeds of the baseline and m new runs.
    scores = np.asarray(before, dtype=np.float64)
    spread = np.maximum(scores.std(axis=-1, ddof=1), resolution)
    error: Array = spread * np.sqrt(1 / (seeds or scores.shape[-1]) + 1 / after_count)
    return error


def drop_p_values(before: Any, after: Any, resolution: Any) -> Array:
    """Return the p-values of a one-sided t-test of whether the mean score has dropped.

    A p-value is the probability that the mean drops this much or more although nothing has changed.
    The degrees of freedom are the number of seeds in the baseline minus one.

    Args:
        before: Scores of the baseline, with seeds along the last axis. Other axes are several
            independent tests.
        after: New scores, with seeds along the last axis.
        resolution: Effect of one example on the score; see `spread_of_means`.
    """
    old, new = (np.asarray(scores, dtype=np.float64) for scores in (before, after))
    drops = old.mean(axis=-1) - new.mean(axis=-1)
    found: Array = scipy.special.stdtr(
        old.shape[-1] - 1, -drops / spread_of_means(old, new.shape[-1], resolution)
    )
    return found


def tolerated_drop(before: Any, after_count: int, resolution: float, alpha: float) -> float:
    """Return the largest drop whose p-value is not below `alpha`.

    Args:
        before: Scores of the baseline, one per seed.
        after_count: Number of new runs.
        resolution: Effect of one example on the score; see `spread_of_means`.
        alpha: Significance level.
    """
    critical = float(scipy.special.stdtrit(len(before) - 1, 1 - alpha))
    return critical * float(spread_of_means(before, after_count, resolution))


def detectable_drop(
    before: Any, after_count: int, resolution: float, alpha: float, seeds: int | None = None
) -> float:
    """Return the size of the drop that a check detects with probability POWER.

    It is a drop of the expected score. If there is such a drop, the test statistic has a noncentral
    t distribution.

    Args:
        before: Scores of the baseline, one per seed.
        after_count: Number of new runs.
        resolution: Effect of one example on the score; see `spread_of_means`.
        alpha: Significance level.
        seeds: Number of seeds that the baseline is assumed to have, with the same standard
            deviation; None for the number that it has.
    """
    freedom = (seeds or len(before)) - 1
    critical = float(scipy.special.stdtrit(freedom, 1 - alpha))
    # Noncentrality of the t distribution that is below the critical value with probability 1 -
    # POWER.
    shift = float(scipy.special.nctdtrinc(freedom, 1 - POWER, critical))
    return shift * float(spread_of_means(before, after_count, resolution, seeds))


# Test whether more runs collapse than before. All tasks are tested together, because one task has
# few runs.

ACCEPTED = 0.05
"""Fraction of runs that may collapse (learn nothing) although nothing is wrong. A baseline without
collapsed runs does not prove that the fraction is 0: large encoders collapse with some seeds on
small tasks (Devlin et al., 2019).
"""


def count_collapses(
    before: Mapping[str, Sample],
    now: Mapping[str, Sample],
    seeds: Collection[int] | None,
    alpha: float,
) -> Collapses:
    """Count the new runs that collapsed (learned nothing), and compare them with the baseline's.

    If nothing has changed, the probability that an increase of collapsed runs is reported is at
    most half of `alpha`.

    Args:
        before: Runs of the baseline, keyed by task.
        now: New runs, keyed by task.
        seeds: Seeds that were requested. Any other seed in `now` counts as a replacement of a
            collapsed one. None if no seed is a replacement.
        alpha: Significance level of the check.
    """
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
    """Return the p-value for the number of new runs that collapsed.

    The new runs have two rounds: each run that collapses in the first round is repeated once, with
    another seed. The p-value is the probability of at least `both` collapsed runs if a run
    collapses with the probability ACCEPTED. If runs of the baseline collapsed too, the p-value is
    at least that of Fisher's exact test of the first round against the baseline.

    Args:
        first: Number of runs that collapsed in the first round.
        both: Number of runs that collapsed in both rounds together.
        seeds: Number of runs in the first round.
        before: Number of runs of the baseline that collapsed.
        runs_before: Number of runs in the baseline.
    """
    one_seed = [1 - ACCEPTED, ACCEPTED * (1 - ACCEPTED), ACCEPTED**2]
    # These are the probabilities that a seed of the first round leads to 0, 1 or 2 collapsed runs.
    # The number of collapsed runs is distributed as the convolution of the distributions of each
    # seed. `known` is the p-value of Fisher's one-sided test: the hypergeometric probability of
    # `first` or more collapsed runs among the new seeds.
    chances = reduce(np.convolve, [one_seed] * seeds, np.ones(1))
    known = scipy.stats.hypergeom.sf(first - 1, runs_before + seeds, before + first, seeds)
    return float(max(chances[both:].sum(), known if before else 0.0))


# Examples that most runs predicted correctly before and wrongly now, or the reverse.


def find_flips(before: Sample, now: Sample, ids: Mapping[str, Sequence[str]]) -> tuple[Flip, ...]:
    """Return the examples on which most runs were right before and are wrong now, or the reverse.

    The largest loss is first, and the largest gain last. An example that exactly half of the runs
    predict correctly, before or now, is left out.

    Args:
        before: Runs of the baseline.
        now: New runs.
        ids: Ids of the examples of each split, in order, keyed by "task:split".
    """
    found = [flip for split in before.right for flip in _flips(split, before, now, ids[split])]
    return tuple(sorted(found, key=lambda flip: (flip.now - flip.before, flip.split, flip.example)))


def _flips(split: str, before: Sample, now: Sample, ids: Sequence[str]) -> Iterator[Flip]:
    shares = zip(_shares(before.right[split]), _shares(now.right[split]), strict=True)
    for name, (old, new) in zip(ids, shares, strict=True):
        # The product is negative only if one share is below one half and the other above.
        if (old - 0.5) * (new - 0.5) < 0:
            yield Flip(split=split, example=name, before=old, now=new)


def _shares(runs: Sequence[str]) -> list[float]:
    """Return, for each example, the share of runs that predicted it correctly."""
    return [fmean(outcome == "1" for outcome in column) for column in zip(*runs, strict=True)]
