"""Two systems on one task: how far apart, whether by chance, and on which examples. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import quantiles

from benchharness.leaderboard.boards.cell import score_bounds
from benchharness.leaderboard.comparing.breakdown import Headline, PredictedSplit, headline_pairs
from benchharness.leaderboard.comparing.noise import Estimate, difference, sample_of
from benchharness.leaderboard.comparing.resampling import (
    Outcomes,
    Pairs,
    bootstrap_interval,
    permutation_p_value,
)
from benchharness.leaderboard.statistics import Interval, holm, mcnemar_exact
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task

# Slices of a task's examples: the benchmark's own categories, and what a text looks like.

QUESTION_WORDS = ("what", "who", "when", "where", "why", "which", "how")
OTHERS = {"whom": "who", "whose": "who"}
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
        known = (OTHERS.get(word, word) for word in words)
        yield f"question {next((w for w in known if w in QUESTION_WORDS), 'other')}"
    if traits.claims:
        has_negation = any(NEGATION.search(text) for text in traits.claims)
        yield "with negation" if has_negation else "without negation"


def _length(example: Example) -> float:
    return float(sum(len(text.split()) for text in example.traits.texts))


def _overlap(example: Example) -> float | None:
    context, *others = example.traits.texts
    asked, of = ({w.lower() for w in WORD.findall(t)} for t in (" ".join(others), context))
    return round(len(asked & of) / len(asked), 2) if asked else None


def _thirds(
    name: str, measure: Callable[[Example], float | None], examples: Sequence[Example]
) -> dict[str, list[int]]:
    measured = [(value, i) for i, e in enumerate(examples) if (value := measure(e)) is not None]
    if len(measured) < 3:
        return {}
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
    is one seed, over examples alone. `corrected` is the p-value by Holm over the tasks. `flips` are
    None where no answer is right or wrong, or nothing could be read; `reason` says why there is no
    test.
    """

    task: str
    seeds: tuple[int, ...]
    scores: tuple[float, float]
    examples: int
    interval: Interval | None = None
    test: str = ""
    p_value: float | None = None
    corrected: float | None = None
    flips: tuple[Flip, ...] | None = None
    slices: tuple[Slice, ...] = ()
    reason: str = ""

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
    if headline.pairs.one.shape[1] > 1:
        return TWO_WAY, _difference(headline.pairs).p_value
    if headline.is_accuracy and found.flipped is not None:
        return MCNEMAR, mcnemar_exact(*found.flipped)
    return PERMUTATION, permutation_p_value(headline.pairs)


def _interval(pairs: Pairs, draws: int = 5_000) -> Interval:
    """Over units and seeds; over units alone where there is one seed."""
    if pairs.one.shape[1] > 1:
        return _difference(pairs).interval()
    return bootstrap_interval(pairs, draws=draws)


def _difference(pairs: Pairs) -> Estimate:
    one, other = (Outcomes(parts=side, score=pairs.score) for side in (pairs.one, pairs.other))
    return difference(sample_of(one), sample_of(other))


def correct(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """The contrasts with their p-values corrected for all of them that have one."""
    tested = [c.p_value for c in contrasts if c.p_value is not None]
    corrected = iter(holm(tested))
    return [c if c.p_value is None else replace(c, corrected=next(corrected)) for c in contrasts]


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
        if len(units) > 1 and len({split_of[place] for place in places}) == len(splits):
            whole = headline.pairs
            pairs = Pairs(one=whole.one[units], other=whole.other[units], score=whole.score)
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
