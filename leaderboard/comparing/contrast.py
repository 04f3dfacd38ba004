"""Two systems on one task: how far apart, whether by chance, and on which examples. Pure."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded on first use

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
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task

# Slices of a task's examples: the benchmark's own categories, and what a text looks like.

QUESTION_WORDS = ("what", "who", "when", "where", "why", "which", "how")
OTHERS = {"whom": "who", "whose": "who"}
# "not", "cannot", and the end of "isn't", with a straight or a curly apostrophe.
NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|neither|nor|nowhere|without|cannot)\b|n[’']t\b",
    re.IGNORECASE,
)
WORD = re.compile(r"\w+")


def slices_of(examples: Sequence[Example]) -> dict[str, list[int]]:
    """The places of the examples of each slice, by the slice's name; empty ones are left out.

    Its own: AX's categories, RACE's levels, whether SQuAD 2.0 has an answer. By the text: the
    question's word, negation, and thirds by length (words of all texts) and by overlap (the share
    of the words of the question or second text that stand in the other). The names of thirds say
    where they end.
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
        # Wherever it stands: "In which year ..." is a "which" question.
        known = (OTHERS.get(word, word) for word in words)
        yield f"question {next((w for w in known if w in QUESTION_WORDS), 'other')}"
    if traits.claims:
        has_negation = any(NEGATION.search(text) for text in traits.claims)
        yield "with negation" if has_negation else "without negation"


def _length(example: Example) -> float:
    return float(sum(len(text.split()) for text in example.traits.texts))


def _overlap(example: Example) -> float | None:
    # The first text is what the others are about; one alone has no overlap.
    context, *others = example.traits.texts
    asked, of = ({w.lower() for w in WORD.findall(t)} for t in (" ".join(others), context))
    return round(len(asked & of) / len(asked), 2) if asked else None


def _thirds(
    name: str, measure: Callable[[Example], float | None], examples: Sequence[Example]
) -> dict[str, list[int]]:
    measured = [(value, i) for i, e in enumerate(examples) if (value := measure(e)) is not None]
    if len(measured) < 3:
        return {}
    # Equal values all go to the lower third, so that another may be left empty. The cuts are
    # rounded as the names show them.
    low, high = (round(cut, 2) for cut in quantiles((value for value, _ in measured), n=3))
    thirds = (
        (f"{name} 1/3: to {low:g}", [i for value, i in measured if value <= low]),
        (f"{name} 2/3: to {high:g}", [i for value, i in measured if low < value <= high]),
        (f"{name} 3/3: over {high:g}", [i for value, i in measured if value > high]),
    )
    return {name: places for name, places in thirds if places}


# The contrast of two systems.

ALPHA = 0.05
"""The chance to call even one task of a board different where none is."""

FEWEST = 20
"""Units that an interval of a slice is drawn from. The percentile bootstrap of fewer is too narrow:
two examples that both systems have right would have an interval of no width."""

MCNEMAR, PERMUTATION, TWO_WAY = "McNemar, exact", "paired permutation", "t, examples and seeds"


@dataclass(frozen=True, kw_only=True)
class Flip:
    """An example that one system has right with more of the seeds than the other.

    `place` is its number among the examples of all splits, `one` and `other` say with how many of
    the seeds each is right, and `answers` what each has answered with the first seed.
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
    """A slice of the examples: its size and the difference there, with its 95 % interval.

    The interval is None where the slice has too few units (see FEWEST).
    """

    name: str
    examples: int
    difference: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """The headline score of two systems on a task, over the seeds that both have.

    `scores` are the means over seeds and `difference` the first's less the second's, in the score's
    unit. `interval` and `p_value` are over examples and seeds, and of one test, `test`; where there
    is one seed, over examples alone. `corrected` is the p-value by Holm over so many tasks as
    `corrected_for` says: those that were compared and tested together. `flips` are None where no
    answer is right or wrong, or nothing could be read; `reason` says why there is no test. `flags`
    are what must be known of the first's runs, and of the second's.
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
        """The first's score less the second's."""
        return self.scores[0] - self.scores[1]

    @property
    def flipped(self) -> tuple[int, int] | None:
        """How many examples only the first has right (with more seeds), and only the second."""
        if self.flips is None:
            return None
        first = sum(flip.one > flip.other for flip in self.flips)
        return first, len(self.flips) - first

    @property
    def is_shown(self) -> bool:
        """Whether chance does not explain it: corrected below 0.05, and so the interval without 0.

        Those of one seed come from two computations, which must agree.
        """
        if self.corrected is None or self.interval is None:
            return False
        return self.corrected < ALPHA and not self.interval.has(0.0)


def match_runs(one: Sequence[RunRow], other: Sequence[RunRow]) -> list[tuple[RunRow, RunRow]]:
    """The runs of two systems on one task, paired by their seeds.

    What was made once and knows no seeds, a baseline or an ensemble, stands against every run of
    the other; two single runs are a pair whatever their seeds. Raises BenchError where no seed is
    shared.
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
    """The contrast of two systems on the splits of one task; `names` are those of its scores.

    Several seeds are tested as drawn like the examples (noise.py). Of one pair of runs accuracy is
    tested by McNemar's exact test, anything else by the paired permutation test.
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
        reason = f"{' and '.join(names)} cannot be taken apart by examples"
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
    """The name of the test that fits, and its p-value."""
    if headline.pairs.one.parts.shape[1] > 1:
        return TWO_WAY, _difference(headline.pairs).p_value
    if headline.is_accuracy and found.flipped is not None:
        return MCNEMAR, mcnemar_exact(*found.flipped)
    return PERMUTATION, permutation_p_value(headline.pairs)


def _interval(pairs: Pairs, draws: int = 5_000) -> Interval:
    """Over units and seeds; over units alone where there is one seed."""
    if pairs.one.parts.shape[1] > 1:
        return _difference(pairs).interval()
    return bootstrap_interval(pairs, draws=draws)


def _difference(pairs: Pairs) -> Estimate:
    return difference(*map(sample_of, pairs))


def correct(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """The contrasts with their p-values corrected for all of them that have one."""
    tested = [c.p_value for c in contrasts if c.p_value is not None]
    corrected = iter(holm(tested))
    return [
        c if c.p_value is None else replace(c, corrected=next(corrected), corrected_for=len(tested))
        for c in contrasts
    ]


def difference_bounds(task: Task, names: Sequence[str], scores: Iterable[float]) -> Interval:
    """The lowest and the highest difference of two scores, each the mean of those of these names.

    An interval ends there: what is cut off holds no value that there can be, so the interval has
    the true one as often as before.
    """
    bounds = score_bounds(task, names, scores)
    width = bounds.high - bounds.low
    return Interval(low=-width, high=width)


def _slices(
    splits: Sequence[PredictedSplit], headline: Headline, reach: Interval
) -> tuple[Slice, ...]:
    """The slices with two units or more and some of every split; a unit is where its first is."""
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
    """The examples that flipped, the clearest first; None for numbers, which are never right."""
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
    """The two-sided p-value from the examples that only one of two systems has right.

    Without a difference each of them is as likely the one's as the other's: a binomial test at one
    half (McNemar, Note on the sampling error of the difference between correlated proportions,
    Psychometrika 1947). 1 where the systems are right on the same examples.
    """
    decided = only_one + only_other
    return float(scipy.stats.binomtest(only_one, decided).pvalue) if decided else 1.0


# The paired bootstrap: how far a difference moves with other examples.

FEW = 16
"""A kind takes about so much longer to be drawn by the multinomial distribution than a unit."""


def bootstrap_interval(pairs: Pairs, *, level: float = 0.95, draws: int = 5_000) -> Interval:
    """The interval of the mean difference for these runs and other units.

    Units are drawn with replacement, each with both systems and all seeds (Efron and Tibshirani,
    An Introduction to the Bootstrap, 1993, percentile interval).
    """
    found = _redrawn(pairs, draws, np.random.default_rng(0))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high))


def _redrawn(pairs: Pairs, draws: int, generator: np.random.Generator) -> Array:
    """The difference on `draws` sets of as many units.

    Where many units are equal, they are drawn together: how often each kind comes is multinomial.
    """
    units, seeds, parts = pairs.one.parts.shape
    # A unit's parts of both systems and all seeds in one row, which is drawn as a whole.
    both = np.stack([each.parts for each in pairs], axis=1).reshape(units, -1)
    kinds, kind_of, counts = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    means = []
    for few in chunks(draws, len(counts)):
        if len(kinds) < units // FEW:
            times = generator.multinomial(units, counts / units, size=few)
        else:
            times = times_drawn(kind_of.ravel(), len(kinds), few, generator)
        means.append(times.astype(np.float64) @ kinds / units)  # floats multiply much faster
    scores = pairs.one.score(np.concatenate(means).reshape(draws, 2, seeds, parts))
    differences: Array = (scores[:, 0] - scores[:, 1]).mean(axis=-1)
    return differences


# The paired permutation test: how often a difference comes about when the names are random.

ALL_UP_TO = 12
"""So many units that differ have 4,096 permutations: fewer than are drawn, so all are tried."""

CHOICES = np.array(
    [[math.comb(n, k) for k in range(ALL_UP_TO + 1)] for n in range(ALL_UP_TO + 1)], dtype=float
)
"""n choose k: in how many ways k of n equal units can be exchanged."""

ALIKE = 1e-12
"""Differences that are equal but for the order in which floats were added."""


def permutation_p_value(pairs: Pairs, *, draws: int = 10_000) -> float:
    """The two-sided p-value of the mean difference over seeds.

    Without a difference the two outputs for a unit could as well have been exchanged, all seeds of
    it at once, because seeds of one example are alike (Noreen, Computer-Intensive Methods for
    Testing Hypotheses, 1989). Of few units all exchanges are tried, of more `draws` are drawn,
    always the same, and the one that was seen is counted with them.
    """
    # A hair below what was seen: an exchange that gives the same but for rounding counts too.
    found = abs(pairs.difference) * (1 - ALIKE) - ALIKE
    steps, counts = _distinct(pairs)
    if counts.sum() <= ALL_UP_TO:
        # Of a kind with n equal units 0 to n may be exchanged; each row stands for as many
        # permutations as there are ways to choose them.
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
    """What an exchange of a unit moves, without those that move nothing; equal ones are counted.

    How many of k equal units are exchanged is binomial, so one number is drawn and not k.
    """
    moved = pairs.one.parts - pairs.other.parts
    moved = moved.reshape(len(moved), -1)
    steps, counts = np.unique(moved[moved.any(axis=1)], axis=0, return_counts=True)
    return steps, counts


def _exchanged(
    counts: npt.NDArray[np.intp], size: int, generator: np.random.Generator
) -> npt.NDArray[np.integer[Any]]:
    """How many of each kind change sides, [size, kinds]; of single units a bit is quicker drawn."""
    if counts.max() == 1:
        return generator.integers(0, 2, size=(size, len(counts)), dtype="int8")
    return generator.binomial(counts, 0.5, size=(size, len(counts)))


def _exchanged_differences(pairs: Pairs, moved: Array) -> Array:
    """The mean difference over seeds, after sums [draws, seeds x parts] have changed sides."""
    units, seeds, parts = pairs.one.parts.shape
    # What one system loses by an exchange the other gains.
    shift = moved.reshape(-1, seeds, parts) / units
    one, other = (each.parts.mean(axis=0) for each in pairs)
    score = pairs.one.score
    differences: Array = (score(one - shift) - score(other + shift)).mean(axis=-1)
    return differences
