"""Comparison of two systems on a task: the size of their difference, its tests, and examples.

All functions are pure.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import Interval, holm
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task

# Slices of a task's examples: the benchmark's own categories, and properties of the text.

QUESTION_WORDS = ("what", "who", "when", "where", "why", "which", "how")
OTHERS = {"whom": "who", "whose": "who"}
# "not", "cannot", and the end of "isn't", with a straight or a curly apostrophe.
NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|nowhere|without|cannot)\b|n[’']t\b",
    re.IGNORECASE,
)
WORD = re.compile(r"\w+")


def slices_of(examples: Sequence[Example]) -> dict[str, list[int]]:
    """Return the indexes of the examples of each slice, keyed and sorted by the slice's name.

    Slices of the benchmark: AX's categories, RACE's levels, whether SQuAD 2.0 has an answer. Slices
    by text: question word, negation, and thirds by length (words of all texts) and by overlap
    (share of words of the question or second text that are in the first text). The names of thirds
    contain their limits. A slice that is empty or contains every example is left out.
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
        # The word may be anywhere: "In which year ..." is a "which" question.
        known = (OTHERS.get(word, word) for word in words)
        yield f"question {next((w for w in known if w in QUESTION_WORDS), 'other')}"
    if traits.claims:
        has_negation = any(NEGATION.search(text) for text in traits.claims)
        yield "with negation" if has_negation else "without negation"


def _length(example: Example) -> float:
    return float(sum(len(text.split()) for text in example.traits.texts))


def _overlap(example: Example) -> float | None:
    # The others are compared with the first text; a single text has no overlap.
    context, *others = example.traits.texts
    asked, of = ({w.lower() for w in WORD.findall(t)} for t in (" ".join(others), context))
    return round(len(asked & of) / len(asked), 2) if asked else None


def _thirds(
    name: str, measure: Callable[[Example], float | None], examples: Sequence[Example]
) -> dict[str, list[int]]:
    measured = [(value, i) for i, e in enumerate(examples) if (value := measure(e)) is not None]
    if len(measured) < 3:
        return {}
    # Equal values all go to the lower third, so another third may be empty. The limits are rounded
    # as in the names.
    low, high = (round(cut, 2) for cut in quantiles((value for value, _ in measured), n=3))
    thirds = (
        (f"{name} 1/3: to {low:g}", [i for value, i in measured if value <= low]),
        (f"{name} 2/3: to {high:g}", [i for value, i in measured if low < value <= high]),
        (f"{name} 3/3: over {high:g}", [i for value, i in measured if value > high]),
    )
    return {name: places for name, places in thirds if places}


# The comparison of two systems.

ALPHA = 0.05
"""Chance that at least one task of a board is called different if none is (family-wise error)."""

FEWEST = 20
"""Smallest number of units for an interval of a slice. The percentile bootstrap of fewer units is
too narrow: two examples that both systems answer correctly would have an interval of no width."""

MCNEMAR, PERMUTATION, TWO_WAY = "McNemar, exact", "paired permutation", "t, examples and seeds"


@dataclass(frozen=True, kw_only=True)
class Flip:
    """Example that one system answers correctly with more of the seeds than the other.

    `place` is its index among the examples of all splits. `one` and `other` are the numbers of
    seeds with which each system is right, and `answers` are the two systems' answers with the first
    seed.
    """

    place: int
    split: str
    id: str
    text: str
    gold: str
    one: int
    other: int
    answers: tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Slice of the examples: its size and the systems' difference on it with a 95 % interval.

    The interval is None if the slice has too few units (see FEWEST).
    """

    name: str
    examples: int
    difference: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Comparison of two systems' headline scores on a task, over the seeds that both have.

    `scores` are the means over seeds and `difference` is the first minus the second, in the unit of
    the score. `interval` and `p_value` are over examples and seeds, both of the same `test`; for
    one seed, they are over examples alone. `corrected` is the p-value after Holm's correction for
    `corrected_for` tasks: the tasks that were compared together and have a test. `flips` are None
    if answers are neither right nor wrong, or if the examples could not be read. `reason` explains
    why there is no test. `flags` are the warnings about the first system's runs, and about the
    second's.
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

    @property
    def difference(self) -> float:
        """First system's score minus the second's."""
        return self.scores[0] - self.scores[1]

    @property
    def flipped(self) -> tuple[int, int] | None:
        """Numbers of examples on which the first, and the second, system is right more often."""
        if self.flips is None:
            return None
        first = sum(flip.one > flip.other for flip in self.flips)
        return first, len(self.flips) - first

    @property
    def is_shown(self) -> bool:
        """True if the difference is significant: corrected p-value below 0.05, interval without 0.

        Both are checked because for one seed they come from two computations, which must agree.
        """
        if self.corrected is None or self.interval is None:
            return False
        return self.corrected < ALPHA and not self.interval.has(0.0)


def match_runs(one: Sequence[RunRow], other: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    """Pair the runs of two systems on one task by seed.

    A run without seeds (a baseline or an ensemble) is paired with every run of the other system.
    Two single runs are a pair even if their seeds differ.

    Raises:
        BenchError: The systems have no seed in common.
    """
    if len(one) == len(other) == 1 or (len(other) == 1 and not other[0].is_single):
        return [(run, other[0]) for run in one]
    if len(one) == 1 and not one[0].is_single:
        return [(one[0], run) for run in other]
    by_seed = {run.seed: run for run in other}
    pairs = [(run, by_seed[run.seed]) for run in one if run.seed in by_seed]
    if not pairs:
        raise BenchError(
            f"{one[0].task}: {one[0].model} has the seeds {_seeds(one)} and {other[0].model} the "
            f"seeds {_seeds(other)}, none in common: run both with the same --seed."
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
    """Return the comparison of two systems on the splits of one task.

    Several seeds are tested as drawn at random like the examples (see noise.py). For one pair of
    runs, accuracy is tested with McNemar's exact test, any other score with the paired permutation
    test.

    Args:
        splits: Splits of one task with the predictions of both systems.
        names: Names of the scores whose mean is compared.
        seeds: Seeds that both systems have.
        scores: Both systems' mean scores over these seeds.
        with_slices: Compare the systems on slices of the examples too.
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
        reason = f"{' and '.join(names)} cannot be split by example"
        return replace(found, reason=reason)
    reach = difference_bounds(splits[0].task, names, scores)
    test, p_value = _test(headline, found)
    return replace(
        found,
        interval=_interval(headline.pairs).within(reach),
        test=test,
        p_value=p_value,
        slices=_slices(splits, headline, reach) if with_slices else (),
    )


def _test(headline: Headline, found: Contrast) -> tuple[str, float]:
    """Return the name of the test that fits, and its p-value."""
    if headline.pairs.one.parts.shape[1] > 1:
        return TWO_WAY, _difference(headline.pairs).p_value
    if headline.is_accuracy and found.flipped is not None:
        return MCNEMAR, mcnemar_exact(*found.flipped)
    return PERMUTATION, permutation_p_value(headline.pairs)


def _interval(pairs: Pairs, draws: int = 5_000) -> Interval:
    """Return the interval over units and seeds, or over units alone for one seed."""
    if pairs.one.parts.shape[1] > 1:
        return _difference(pairs).interval()
    return bootstrap_interval(pairs, draws=draws)


def _difference(pairs: Pairs) -> Estimate:
    return difference(*map(sample_of, pairs))


def correct(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts, with their p-values corrected for all contrasts that have one."""
    tested = [c.p_value for c in contrasts if c.p_value is not None]
    corrected = iter(holm(tested))
    return [
        c if c.p_value is None else replace(c, corrected=next(corrected), corrected_for=len(tested))
        for c in contrasts
    ]


def difference_bounds(task: Task, names: Sequence[str], scores: Iterable[float]) -> Interval:
    """Return the smallest and the largest difference between two means of these scores.

    Intervals are cut off at these bounds: no possible value lies beyond them, so the coverage of
    the interval stays the same.
    """
    bounds = score_bounds(task, names, scores)
    width = bounds.high - bounds.low
    return Interval(low=-width, high=width)


def _slices(
    splits: Sequence[PredictedSplit], headline: Headline, reach: Interval
) -> tuple[Slice, ...]:
    """Return slices with at least two units and with examples of every split.

    A unit belongs to the slices of its first example.
    """
    examples = [example for split in splits for example in split.examples]
    split_of = [number for number, split in enumerate(splits) for _ in split.examples]
    found = []
    for name, places in slices_of(examples).items():
        chosen = set(places)
        units = [n for n, unit in enumerate(headline.units) if unit[0] in chosen]
        # A split without examples would count as a score of 0.
        if len(units) > 1 and len({split_of[place] for place in places}) == len(splits):
            pairs = Pairs(*(replace(each, parts=each.parts[units]) for each in headline.pairs))
            drawn = len(units) >= FEWEST
            found.append(
                Slice(
                    name=name,
                    examples=sum(len(headline.units[unit]) for unit in units),
                    difference=pairs.difference,
                    interval=_interval(pairs, draws=1_000).within(reach) if drawn else None,
                )
            )
    return tuple(found)


def flips_of(splits: Sequence[PredictedSplit]) -> tuple[Flip, ...] | None:
    """Return the flipped examples, largest difference first; None for tasks that predict numbers.

    A predicted number is never simply right or wrong.
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
            yield Flip(
                place=start + place,
                split=split.split,
                id=example.id,
                text=example.traits.shown,
                gold=kind.gold_said(example),
                one=one,
                other=other,
                answers=(kind.said(ones[0], example), kind.said(others[0], example)),
            )


# McNemar's test: do two systems differ in how many of the same examples they get right?


def mcnemar_exact(only_one: int, only_other: int) -> float:
    """Return the two-sided p-value from the numbers of examples that only one system gets right.

    If the systems do not differ, either is equally likely to get such an example right: a binomial
    test at one half (McNemar, Note on the sampling error of the difference between correlated
    proportions, Psychometrika 1947). The p-value is 1 if there are no such examples.
    """
    decided = only_one + only_other
    return float(scipy.stats.binomtest(only_one, decided).pvalue) if decided else 1.0


# The paired bootstrap: how much a difference varies with the examples.

FEW = 16
"""Time to draw one kind of units from a multinomial distribution, in times of drawing one unit."""


def bootstrap_interval(pairs: Pairs, *, level: float = 0.95, draws: int = 5_000) -> Interval:
    """Return the confidence interval of the mean difference for these runs on other units.

    Units are drawn with replacement, each with both systems and all seeds (percentile interval of
    Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
    """
    found = _redrawn(pairs, draws, np.random.default_rng(0))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high))


def _redrawn(pairs: Pairs, draws: int, generator: np.random.Generator) -> Array:
    """Return the differences on `draws` resamples of the units.

    If many units are equal, their counts are drawn together from a multinomial distribution.
    """
    units, seeds, parts = pairs.one.parts.shape
    # One row per unit with the parts of both systems and all seeds, which is drawn as a whole.
    both = np.stack([each.parts for each in pairs], axis=1).reshape(units, -1)
    kinds, kind_of, counts = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    means = []
    for few in chunks(draws, len(counts)):
        if len(kinds) < units // FEW:
            times = generator.multinomial(units, counts / units, size=few)
        else:
            times = times_drawn(kind_of.ravel(), len(kinds), few, generator)
        means.append(times.astype(np.float64) @ kinds / units)  # floats multiply faster
    scores = pairs.one.score(np.concatenate(means).reshape(draws, 2, seeds, parts))
    differences: Array = (scores[:, 0] - scores[:, 1]).mean(axis=-1)
    return differences


# The paired permutation test: how often a difference arises if the systems' names are random.

ALL_UP_TO = 12
"""Number of differing units up to which all permutations (4,096 at most) are tried, not sampled."""

CHOICES = np.array(
    [[math.comb(n, k) for k in range(ALL_UP_TO + 1)] for n in range(ALL_UP_TO + 1)], dtype=float
)
"""Binomial coefficients n over k: the number of ways to exchange k of n equal units."""

ALIKE = 1e-12
"""Differences up to this tolerance are equal; the order in which floats are added causes them."""


def permutation_p_value(pairs: Pairs, *, draws: int = 10_000) -> float:
    """Return the two-sided p-value of the mean difference over seeds.

    If the systems do not differ, their outputs for a unit could be exchanged, for all seeds at once
    because seeds of one example are alike (Noreen, Computer-Intensive Methods for Testing
    Hypotheses, 1989). For few units all exchanges are tried. For more, `draws` exchanges are drawn
    with a fixed seed, and the observed one is counted with them.
    """
    # Slightly below the observed difference: exchanges that are equal to it but for rounding count
    # too.
    found = abs(pairs.difference) * (1 - ALIKE) - ALIKE
    steps, counts = _distinct(pairs)
    if counts.sum() <= ALL_UP_TO:
        # Of n equal units 0 to n may be exchanged; each row stands for as many permutations as
        # there are ways to choose them.
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
    """Return the distinct changes that exchanges of units cause, and the number of each.

    Units whose exchange changes nothing are left out. The number of exchanged units among k equal
    ones is binomial, so one number is drawn instead of k.
    """
    moved = pairs.one.parts - pairs.other.parts
    moved = moved.reshape(len(moved), -1)
    steps, counts = np.unique(moved[moved.any(axis=1)], axis=0, return_counts=True)
    return steps, counts


def _exchanged(
    counts: npt.NDArray[np.intp], size: int, generator: np.random.Generator
) -> npt.NDArray[np.integer[Any]]:
    """Return how many units of each kind are exchanged, `[size, kinds]`.

    If all units differ, random bits are drawn, which is faster.
    """
    if counts.max() == 1:
        return generator.integers(0, 2, size=(size, len(counts)), dtype="int8")
    return generator.binomial(counts, 0.5, size=(size, len(counts)))


def _exchanged_differences(pairs: Pairs, moved: Array) -> Array:
    """Return the mean differences over seeds after exchanges with sums `[draws, seeds x parts]`."""
    units, seeds, parts = pairs.one.parts.shape
    # An exchange takes from one system what it adds to the other.
    shift = moved.reshape(-1, seeds, parts) / units
    one, other = (each.parts.mean(axis=0) for each in pairs)
    score = pairs.one.score
    differences: Array = (score(one - shift) - score(other + shift)).mean(axis=-1)
    return differences
