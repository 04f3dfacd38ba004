"""Comparison of two systems on a task: difference, significance test, and differing examples.

All functions are pure.
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import quantiles
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded on first use

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.cell import score_bounds
from benchharness.leaderboard.comparing import (
    Array,
    Headline,
    Pairs,
    PredictedSplit,
    headline_pairs,
)
from benchharness.leaderboard.comparing.noise import (
    Estimate,
    chunks,
    difference,
    sample_of,
    times_drawn,
)
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import Interval, holm, unseen_share
from benchharness.leaderboard.text import grouped
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task

# Slices of a task's examples: categories of the benchmark, and properties of the text.

QUESTION_WORDS = ("what", "who", "when", "where", "why", "which", "how")
OTHERS = {"whom": "who", "whose": "who"}
# This matches "not", "cannot" and so on, and the end of "isn't" with either kind of apostrophe.
NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|nowhere|without|cannot)\b|n[’']t\b",
    re.IGNORECASE,
)
WORD = re.compile(r"\w+")


def slices_of(examples: Sequence[Example]) -> dict[str, list[int]]:
    """Return the indices of the examples in each slice, keyed and sorted by the slice's name.

    Some slices are defined by the benchmark, such as AX's categories, RACE's levels, and SQuAD
    2.0's questions with and without an answer. Others are computed from the text: question word,
    negation, and thirds by length (number of words in all texts) and by overlap (share of words in
    the question or second text that are in the first text too). The names of thirds contain their
    limits. Slices that are empty or contain all examples are left out.
    """
    found: dict[str, list[int]] = {}
    for place, example in enumerate(examples):
        for name in (*example.traits.slices, *_by_text(example)):
            found.setdefault(name, []).append(place)
    for name, measure in (("words", _length), ("overlap", _overlap)):
        found |= _thirds(name, measure, examples)
    return {name: places for name, places in sorted(found.items()) if len(places) < len(examples)}


def _by_text(example: Example) -> Iterator[str]:
    traits = example.traits
    if traits.asked:
        words = [word.lower() for word in WORD.findall(traits.asked)]
        # The question word may be anywhere in the question, as in "In which year ...".
        known = (OTHERS.get(word, word) for word in words)
        yield f"question {next((w for w in known if w in QUESTION_WORDS), 'other')}"
    if traits.claims:
        has_negation = any(NEGATION.search(text) for text in traits.claims)
        yield "with negation" if has_negation else "without negation"


def _length(example: Example) -> float:
    return float(sum(len(text.split()) for text in example.traits.texts))


def _overlap(example: Example) -> float | None:
    # The other texts are compared with the first text. A single text has no overlap.
    context, *others = example.traits.texts
    asked, of = ({w.lower() for w in WORD.findall(t)} for t in (" ".join(others), context))
    return round(len(asked & of) / len(asked), 2) if asked else None


def _thirds(
    name: str, measure: Callable[[Example], float | None], examples: Sequence[Example]
) -> dict[str, list[int]]:
    measured = [(value, i) for i, e in enumerate(examples) if (value := measure(e)) is not None]
    if len(measured) < 3:
        return {}
    # The limits are rounded, because the names of the slices contain the rounded limits.
    limits = [round(cut, 2) for cut in quantiles((value for value, _ in measured), n=3)]
    thirds = grouped((bisect_left(limits, value), i) for value, i in measured)
    # Values that equal a limit are in the lower third. If many values are equal, a third is empty,
    # and only the others are counted: "words 1/2: to 9" and "words 2/2: over 9".
    found = {}
    for number, third in enumerate(sorted(thirds), start=1):
        is_last = number == len(thirds) > 1
        limit = f"over {limits[third - 1]:g}" if is_last else f"to {limits[third]:g}"
        found[f"{name} {number}/{len(thirds)}: {limit}"] = thirds[third]
    return found


# Comparison of two systems.

ALPHA = 0.05
"""Family-wise error rate of several tests: if the systems do not really differ, the probability
that at least one difference is called significant.
"""

FEWEST = 20
"""Minimum number of units (examples, or groups that are scored together) for the interval of a
slice. With fewer units, a percentile bootstrap interval is too narrow: for two examples that both
systems answer correctly, its width would be 0."""

MCNEMAR, PERMUTATION, TWO_WAY = "McNemar, exact", "paired permutation", "t, examples and seeds"


@dataclass(frozen=True, kw_only=True)
class Flip:
    """Example that one of two systems answers correctly with more seeds than the other.

    Attributes:
        place: Index of the example among the examples of all splits.
        split: Split of the example.
        id: Id of the example.
        text: Text of the example: its question, if it has one.
        gold: Right answer.
        one: Number of seeds with which the first system is right.
        other: Number of seeds with which the second system is right.
        answers: Most frequent answer of each system. If several are equally frequent, it is the
            answer of the earliest seed.
        answer_counts: Number of seeds with each answer of a system, the most frequent answer first.
    """

    place: int
    split: str
    id: str
    text: str
    gold: str
    one: int
    other: int
    answers: tuple[str, str]
    answer_counts: tuple[Mapping[str, int], Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Difference between two systems' scores on a slice of the examples.

    Attributes:
        name: Name of the slice, e.g. "with negation".
        examples: Number of examples in the slice.
        difference: Score of the first system minus that of the second, averaged over seeds.
        interval: 95 % confidence interval of the difference; None for fewer than 20 units (see
            `FEWEST`). A unit is an example, or a group of examples that are scored together.
    """

    name: str
    examples: int
    difference: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Comparison of two systems' scores on a task, over the seeds that both have.

    Attributes:
        task: Name of the task.
        seeds: Seeds that both systems have.
        scores: Mean of each system's scores over these seeds.
        examples: Number of examples in all compared splits of the task.
        interval: 95 % confidence interval of the difference over examples and, with several seeds,
            over seeds; over seeds alone if the examples could not be read. None if neither is
            possible, or if nothing varies and the score is not an accuracy.
        test: Name of the significance test; empty if there is none.
        p_value: P-value, which covers the same sources of noise as `interval`; None without a test.
        corrected: P-value after Holm's correction; None without a test.
        corrected_for: Number of tests in Holm's correction.
        flips: Examples that one system answers correctly with more seeds than the other; None if
            answers are neither right nor wrong, or if the examples could not be read.
        slices: Comparisons on slices of the examples, if they were requested.
        reason: Reason why there is no test; empty if there is one.
        flags: Warnings about the first system's runs, and about the second system's runs.
        settings: Hyperparameters with which the two systems were trained differently, keyed by
            name. A value is the pair of settings, with None for a system that does not have the
            setting. Empty if a system was not trained.
    """

    task: str
    seeds: tuple[int, ...]
    scores: tuple[float, float]
    examples: int
    interval: Interval | None = None
    test: str = ""
    p_value: float | None = None
    corrected: float | None = None
    corrected_for: int = 0
    flips: tuple[Flip, ...] | None = None
    slices: tuple[Slice, ...] = ()
    reason: str = ""
    flags: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    settings: Mapping[str, tuple[Setting | None, Setting | None]] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        """Score of the first system minus that of the second."""
        return self.scores[0] - self.scores[1]

    @property
    def flipped(self) -> tuple[int, int] | None:
        """Numbers of examples that one system answers correctly with more seeds than the other.

        First the number for the first system, then that for the second. None if `flips` is None.
        """
        if self.flips is None:
            return None
        first = sum(flip.one > flip.other for flip in self.flips)
        return first, len(self.flips) - first

    @property
    def is_shown(self) -> bool:
        """True if the difference is significant.

        The corrected p-value must be below 0.05, and an interval must not contain 0. Both
        conditions are needed, because with one seed the two come from different methods.
        """
        if self.corrected is None:
            return False
        has_zero = self.interval is not None and self.interval.has(0.0)
        return self.corrected < ALPHA and not has_zero


def match_runs(one: Sequence[RunRow], other: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    """Pair the runs of two systems on one task by seed.

    If a system has only one run and is not a single trained model (e.g. a baseline or an ensemble),
    this run is paired with each run of the other system. If both systems have one run, the two runs
    are paired even if their seeds differ.

    Args:
        one: Runs of the first system, one per seed.
        other: Runs of the second system, one per seed.

    Returns:
        Pairs of a run of the first system and a run of the second.

    Raises:
        BenchError: If the runs cannot be paired, because the systems have no seed in common.
    """
    if len(one) == len(other) == 1 or (len(other) == 1 and not other[0].is_single):
        return [(run, other[0]) for run in one]
    if len(one) == 1 and not one[0].is_single:
        return [(one[0], run) for run in other]
    by_seed = {run.seed: run for run in other}
    pairs = [(run, by_seed[run.seed]) for run in one if run.seed in by_seed]
    if not pairs:
        raise BenchError(
            f"{one[0].model} and {other[0].model} have no seed in common on {one[0].task} (the "
            f"seeds are {_seeds(one)} and {_seeds(other)}): run both with the same --seed."
        )
    return pairs


def _seeds(runs: Sequence[RunRow]) -> str:
    return ", ".join(str(run.seed) for run in runs)


def contrast(
    splits: Sequence[PredictedSplit],
    names: Sequence[str],
    seeds: tuple[int, ...],
    scores: tuple[float, float],
    *,
    with_slices: bool = False,
) -> Contrast:
    """Compare two systems on the splits of one task.

    With several seeds, a t test treats both seeds and examples as random samples (see noise.py).
    With one pair of runs, accuracy is tested with McNemar's exact test, and any other score with
    the paired permutation test.

    Args:
        splits: Splits of one task with the predictions of both systems.
        names: Names of the scores whose mean is compared.
        seeds: Seeds that both systems have.
        scores: Mean of each system's scores over these seeds.
        with_slices: Compare the systems on slices of the examples too.

    Returns:
        The comparison, before the correction of its p-value (see `correct`). It has no test if a
        score cannot be computed from single examples.
    """
    task = splits[0].task.name
    headline = headline_pairs(splits, names)
    found = Contrast(
        task=task,
        seeds=seeds,
        scores=scores,
        examples=sum(len(split.examples) for split in splits),
        flips=flips_of(splits),
    )
    if headline is None:
        reason = f"{' and '.join(names)} cannot be computed from single examples"
        return replace(found, reason=reason)
    reach = difference_bounds(splits[0].task, names, scores)
    test, p_value = _test(headline, found)
    return replace(
        found,
        interval=_interval(headline.pairs, reach),
        test=test,
        p_value=p_value,
        slices=_slices(splits, headline, reach) if with_slices else (),
    )


def _test(headline: Headline, found: Contrast) -> tuple[str, float]:
    """Choose and compute the significance test; return its name and p-value."""
    if headline.pairs.one.parts.shape[1] > 1:
        return TWO_WAY, _difference(headline.pairs).p_value
    if headline.is_accuracy and found.flipped is not None:
        return MCNEMAR, mcnemar_exact(*found.flipped)
    return PERMUTATION, permutation_p_value(headline.pairs)


def _interval(pairs: Pairs, reach: Interval, draws: int = 5_000) -> Interval | None:
    """Return the 95 % interval of the difference over examples and, if there are several, seeds.

    If the difference is equal for every choice of these examples, it may still be different for
    others. The interval of a difference of accuracies is then the exact one (see `unseen_share`).
    The interval of other scores is unknown, so the result is None.

    Args:
        pairs: Outcomes of both systems.
        reach: Smallest and largest possible difference.
        draws: Number of bootstrap resamples.
    """
    has_seeds = pairs.one.parts.shape[1] > 1
    found = _difference(pairs).interval() if has_seeds else bootstrap_interval(pairs, draws=draws)
    if found.has_width:
        return found.within(reach)
    if not (pairs.one.is_share and pairs.other.is_share):
        return None
    # If the difference is 0, that of an unseen example changes it by at most 1; if the difference
    # is 1 or -1, by at most 2.
    share, center = unseen_share(len(pairs.one.parts)), (found.low + found.high) / 2
    width = share * (1 + abs(center))
    return Interval(low=center - width, high=center + width).within(reach)


def _difference(pairs: Pairs) -> Estimate:
    return difference(*map(sample_of, pairs))


def correct(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Correct the p-values of the contrasts by Holm's method; return the changed contrasts.

    Contrasts without a p-value are returned unchanged, and are not counted as tests.
    """
    tested = [c.p_value for c in contrasts if c.p_value is not None]
    corrected = iter(holm(tested))
    return [
        c if c.p_value is None else replace(c, corrected=next(corrected), corrected_for=len(tested))
        for c in contrasts
    ]


def difference_bounds(task: Task, names: Sequence[str], scores: Iterable[float]) -> Interval:
    """Return the smallest and the largest possible difference between the scores of two systems.

    Confidence intervals are limited to these bounds. Their coverage does not change, because no
    possible difference is outside of the bounds.

    Args:
        task: Task of the scores.
        names: Names of the scores whose mean is the score of a system.
        scores: Observed scores of the systems. If one of them is outside of the known bounds, the
            returned bounds are infinite.
    """
    bounds = score_bounds(task, names, scores)
    width = bounds.high - bounds.low
    return Interval(low=-width, high=width)


def _slices(
    splits: Sequence[PredictedSplit], headline: Headline, reach: Interval
) -> tuple[Slice, ...]:
    """Compare the systems on each slice with at least two units and with examples from every split.

    A unit (an example, or a group that is scored together) belongs to a slice if its first example
    does.
    """
    examples = [example for split in splits for example in split.examples]
    split_of = [number for number, split in enumerate(splits) for _ in split.examples]
    found = []
    for name, places in slices_of(examples).items():
        chosen = set(places)
        units = [n for n, unit in enumerate(headline.units) if unit[0] in chosen]
        # Leave out slices without examples from one of the splits, because the score on this split
        # would be 0.
        if len(units) > 1 and len({split_of[place] for place in places}) == len(splits):
            pairs = Pairs(*(replace(each, parts=each.parts[units]) for each in headline.pairs))
            drawn = len(units) >= FEWEST
            found.append(
                Slice(
                    name=name,
                    examples=sum(len(headline.units[unit]) for unit in units),
                    difference=pairs.difference,
                    interval=_interval(pairs, reach, draws=1_000) if drawn else None,
                )
            )
    return tuple(found)


def flips_of(splits: Sequence[PredictedSplit]) -> tuple[Flip, ...] | None:
    """Return the examples that one system answers correctly with more seeds than the other.

    The examples with the largest difference come first. Returns None for tasks that predict
    numbers, because a number is not simply right or wrong.
    """
    if splits[0].task.kind == "number":
        return None
    found, start = [], 0
    for split in splits:
        found += list(_of_split(split, start))
        start += len(split.examples)
    return tuple(sorted(found, key=lambda flip: -abs(flip.one - flip.other)))


def _of_split(split: PredictedSplit, start: int) -> Iterator[Flip]:
    kind = answer_type(split.task)
    for place, example in enumerate(split.examples):
        ones, others = [run[place] for run in split.one], [run[place] for run in split.other]
        one, other = (sum(kind.is_right(p, example) for p in side) for side in (ones, others))
        if one != other:
            said = (Counter(kind.said(p, example) for p in side) for side in (ones, others))
            first, second = (dict(counts.most_common()) for counts in said)
            yield Flip(
                place=start + place,
                split=split.split,
                id=example.id,
                text=example.traits.shown,
                gold=kind.gold_said(example),
                one=one,
                other=other,
                answers=(next(iter(first)), next(iter(second))),
                answer_counts=(first, second),
            )


# McNemar's test, which compares the numbers of right answers of two systems to the same examples.


def mcnemar_exact(only_one: int, only_other: int) -> float:
    """Return the two-sided p-value of McNemar's exact test.

    It is a binomial test: if the systems do not differ, an example that only one system gets right
    is equally likely to be right for either system (McNemar, Note on the sampling error of the
    difference between correlated proportions, Psychometrika 1947).

    Args:
        only_one: Number of examples that only the first system gets right.
        only_other: Number of examples that only the second system gets right. If both numbers are
            0, the p-value is 1.
    """
    decided = only_one + only_other
    return float(scipy.stats.binomtest(only_one, decided).pvalue) if decided else 1.0


# The paired bootstrap, which shows how much a difference varies with the choice of examples.

FEW = 16
"""Ratio of two times: the time for drawing how often a group of equal units occurs in a resample,
and the time for drawing a single unit. Groups are drawn if there are fewer of them than units
divided by this ratio.
"""


def bootstrap_interval(pairs: Pairs, *, level: float = 0.95, draws: int = 5_000) -> Interval:
    """Return the bootstrap confidence interval of the mean difference over seeds.

    It covers the choice of examples. Examples, or groups that are scored together, are drawn with
    replacement, each with the outcomes of both systems and all seeds. The interval is the
    percentile interval in Efron and Tibshirani, An Introduction to the Bootstrap, 1993.

    Args:
        pairs: Outcomes of both systems.
        level: Confidence level.
        draws: Number of resamples.
    """
    found = _redrawn(pairs, draws, np.random.default_rng(0))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high))


def _redrawn(pairs: Pairs, draws: int, generator: np.random.Generator) -> Array:
    """Return the mean differences on `draws` resamples of the units (examples).

    If many units are equal, the counts of equal units are drawn from a multinomial distribution,
    which is faster than drawing single units.
    """
    units, seeds, parts = pairs.one.parts.shape
    # Create one row per unit with the parts of both systems and all seeds, which are drawn
    # together.
    both = np.stack([each.parts for each in pairs], axis=1).reshape(units, -1)
    kinds, kind_of, counts = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    means = []
    for few in chunks(draws, len(counts)):
        if len(kinds) < units // FEW:
            times = generator.multinomial(units, counts / units, size=few)
        else:
            times = times_drawn(kind_of.ravel(), len(kinds), few, generator)
        means.append(times.astype(np.float64) @ kinds / units)  # floats are multiplied faster
    scores = pairs.one.score(np.concatenate(means).reshape(draws, 2, seeds, parts))
    differences: Array = (scores[:, 0] - scores[:, 1]).mean(axis=-1)
    return differences


# The paired permutation test, which counts how often a random exchange of outputs between the
# systems gives a difference as large as the observed one.

ALL_UP_TO = 12
"""The permutation test tries all exchanges if two systems differ on at most this number of units
(examples). There are then at most 2**12 = 4,096 exchanges.
"""

CHOICES = np.array(
    [[math.comb(n, k) for k in range(ALL_UP_TO + 1)] for n in range(ALL_UP_TO + 1)], dtype=float
)
"""Binomial coefficients: `CHOICES[n, k]` is the number of ways to choose k of n equal units."""

ALIKE = 1e-12
"""Tolerance for comparing differences, because rounding depends on the order of summation."""


def permutation_p_value(pairs: Pairs, *, draws: int = 10_000) -> float:
    """Return the two-sided p-value of the paired permutation test.

    It tests the mean difference over seeds. If the systems do not differ, their outputs for an
    example (or a group that is scored together) can be exchanged (Noreen, Computer-Intensive
    Methods for Testing Hypotheses, 1989). The outputs of all seeds are exchanged together, because
    they are correlated. If the systems differ on at most 12 examples or groups (`ALL_UP_TO`), all
    exchanges are tried. Otherwise `draws` exchanges are sampled with a fixed random seed, and the
    observed difference is counted as one of them.
    """
    # This limit is slightly below the observed difference, so that equal differences count despite
    # rounding.
    found = abs(pairs.difference) * (1 - ALIKE) - ALIKE
    steps, counts = _distinct(pairs)
    if counts.sum() <= ALL_UP_TO:
        # Each row contains how many units of each group are exchanged. It stands for several
        # permutations, because there are several ways to choose these units.
        everything = np.array(list(np.ndindex(*(counts + 1))), dtype=np.float64)
        weights: Array = CHOICES[counts, everything.astype(np.intp)].prod(axis=1)
        extreme = np.abs(_exchanged_differences(pairs, everything @ steps)) >= found
        return float(weights[extreme].sum() / weights.sum())
    generator, extreme_count = np.random.default_rng(0), 0
    for size in chunks(draws, len(counts)):
        swapped = _exchanged(counts, size, generator).astype(np.float64)
        extreme_count += int(
            (np.abs(_exchanged_differences(pairs, swapped @ steps)) >= found).sum()
        )
    return (extreme_count + 1) / (draws + 1)


def _distinct(pairs: Pairs) -> tuple[Array, npt.NDArray[np.intp]]:
    """Return the distinct differences between the systems' parts, and how many units have each.

    Units without a difference are left out, because exchanging them has no effect. Equal units are
    counted, because the number of exchanged units among k equal ones is binomial: one number can be
    drawn instead of k.
    """
    moved = pairs.one.parts - pairs.other.parts
    moved = moved.reshape(len(moved), -1)
    steps, counts = np.unique(moved[moved.any(axis=1)], axis=0, return_counts=True)
    return steps, counts


def _exchanged(
    counts: npt.NDArray[np.intp], size: int, generator: np.random.Generator
) -> npt.NDArray[np.integer[Any]]:
    """Draw how many units of each group of equal units are exchanged, `[size, groups]`.

    If no two units are equal, random bits are drawn, which is faster.
    """
    if counts.max() == 1:
        return generator.integers(0, 2, size=(size, len(counts)), dtype="int8")
    return generator.binomial(counts, 0.5, size=(size, len(counts)))


def _exchanged_differences(pairs: Pairs, moved: Array) -> Array:
    """Return the mean differences over seeds after exchanges.

    `moved` contains the summed differences of the exchanged units, `[draws, seeds x parts]`.
    """
    units, seeds, parts = pairs.one.parts.shape
    # An exchange subtracts the difference from one system and adds it to the other.
    shift = moved.reshape(-1, seeds, parts) / units
    one, other = (each.parts.mean(axis=0) for each in pairs)
    score = pairs.one.score
    differences: Array = (score(one - shift) - score(other + shift)).mean(axis=-1)
    return differences
