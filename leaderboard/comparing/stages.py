"""Scores over the checkpoints of one pretraining run: where they rise, are flat or fall. Pure."""

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import stdtr

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing.resampling import Array, Outcomes, resampled_scores
from benchharness.leaderboard.comparing.uncertainty import Known
from benchharness.leaderboard.job import Stage, recipe_words
from benchharness.leaderboard.statistics import (
    Interval,
    holm,
    median_deviation,
    useful_interval,
)
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import title_of

ALPHA = 0.05
"""The chance to tell even one pair of a curve apart where all its checkpoints are equal."""

DRAWS = 1_000
"""Of examples: they give variances, which need fewer than an interval's ends."""

Trend = Literal["rises", "is flat", "falls"]


@dataclass(frozen=True, kw_only=True)
class StagePoint:
    """One checkpoint's score: a value for each seed, in the score's own unit.

    `interval` is the 95 % interval of their median over seeds, None of fewer than three.
    """

    model: str
    stage: Stage
    values: tuple[float, ...]
    median: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A part of a curve, from the point `first` to the point `last`, by their places.

    `change` is the last score less the first, `p_value` that of this difference, by Holm over all
    pairs of the curve.
    """

    trend: Trend
    first: int
    last: int
    change: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class StageCurve:
    """A score over the checkpoints of a pretraining run, by one recipe and precision.

    `task` is empty for the mean of several, which `title` names. `scope` says what was taken for
    drawn at random ("examples and seeds"); it is empty, and there are no stretches, where neither
    is known. `told_apart` are the pairs of places whose difference is beyond noise, the lower
    place first, with the sign of the change.
    """

    run: str
    recipe: str
    precision: str
    title: str
    task: str
    points: tuple[StagePoint, ...]
    scope: str = ""
    stretches: tuple[Stretch, ...] = ()
    told_apart: Mapping[tuple[int, int], int]

    @property
    def summary(self) -> str:
        """One sentence: "rises from step 0 to 500 (+12.0), is flat from there to 2400 (+0.3)"."""
        if not self.stretches:
            return "no test: one seed, and the examples could not be read"
        steps = [point.stage.step for point in self.points]
        return ", ".join(
            f"{part.trend} from {'there' if place else f'step {steps[part.first]:,}'} to step "
            f"{steps[part.last]:,} ({100 * part.change:+.1f})"
            for place, part in enumerate(self.stretches)
        )


# Lines: the entries of a board that are checkpoints of one run, by one recipe.


@dataclass(frozen=True, kw_only=True)
class Line:
    """Entries of one pretraining run, recipe and precision, by their steps, with their stages."""

    run: str
    recipe: str
    precision: str
    entries: tuple[Entry, ...]
    stages: tuple[Stage, ...]


Staged = tuple[Stage, Entry]


def lines_of(board: Board, stage_of: Callable[[Entry], Stage | None]) -> list[Line]:
    """The lines of a board with two checkpoints or more; `stage_of` is None for other entries.

    Of a checkpoint that has two entries (a recipe whose values have changed) the newest stands.
    Raises BenchError where the checkpoints cannot be of one run: two of one step, or two families.
    """
    groups: dict[tuple[str, str, str], dict[int, Staged]] = {}
    for entry in sorted(board.entries, key=_finished):
        if (stage := stage_of(entry)) is not None:
            steps = groups.setdefault((stage.run, _recipe(entry), entry.precision), {})
            _check_alike(steps.values(), (stage, entry))
            steps[stage.step] = (stage, entry)
    return [
        Line(
            run=run,
            recipe=recipe,
            precision=precision,
            entries=tuple(steps[step][1] for step in sorted(steps)),
            stages=tuple(steps[step][0] for step in sorted(steps)),
        )
        for (run, recipe, precision), steps in groups.items()
        if len(steps) > 1
    ]


def _recipe(entry: Entry) -> str:
    """What was set, or the recipe's name; versions of one recipe are one here."""
    return ", ".join(word.shown for word in recipe_words(entry.recipe, entry.runs))


def _finished(entry: Entry) -> str:
    return max(run.finished for run in entry.runs)


def _check_alike(others: Iterable[Staged], one: Staged) -> None:
    """One step is one checkpoint, and all are of one family."""
    mine, entry = one
    for theirs, other in others:
        if mine.family and theirs.family and mine.family != theirs.family:
            raise BenchError(
                f"{mine.run} has checkpoints of unlike families, which no pretraining run has "
                f"({other.model} is {theirs.family} and {entry.model} is {mine.family}): run one "
                "of them under another name (--model NAME='DIR/step-*')."
            )
        if mine.step == theirs.step and entry.runs[0].weights != other.runs[0].weights:
            raise BenchError(
                f"{mine.run} has two checkpoints of step {mine.step:,} ({other.model} and "
                f"{entry.model}, with other weights): run one of them under another name (--model "
                "NAME='DIR/step-*')."
            )


# The noise of a curve's points, and which pairs are beyond it.


@dataclass(frozen=True, kw_only=True, eq=False)
class _Noise:
    """What other examples and seeds would do to the medians of some points.

    `examples` are the points' covariances, None where they are unknown. `seeds` are the variances
    of the medians, one row for each task, and `freedom` the degrees of freedom of each row; there
    are no rows where all points have one seed.
    """

    examples: Array | None
    seeds: Array
    freedom: Array

    @property
    def scope(self) -> str:
        parts = ("examples" * (self.examples is not None), "seeds" * bool(len(self.seeds)))
        return " and ".join(filter(None, parts))

    def p_value(self, one: int, other: int, difference: float) -> float:
        """Of Student's t, two-sided, by Satterthwaite's degrees of freedom."""
        rows = self.seeds[:, one] + self.seeds[:, other]
        variance = float(rows.sum())
        if self.examples is not None:
            own = self.examples[one, one] + self.examples[other, other]
            variance += max(0.0, float(own - 2 * self.examples[one, other]))
        if variance == 0:
            return float(difference == 0)
        squares = float((rows**2 / self.freedom).sum()) if len(rows) else 0.0
        freedom = variance**2 / squares if squares else math.inf
        return 2 * _lower_tail(-abs(difference) / math.sqrt(variance), freedom)


def _lower_tail(t: float, freedom: float) -> float:
    if math.isinf(freedom) or freedom > 1e9:
        return math.erfc(-t / math.sqrt(2)) / 2
    return float(stdtr(freedom, t))


def _noise_of(task: str, cells: Sequence[Cell], known: Sequence[Known | None]) -> _Noise:
    """Of one task. The seeds' spread is pooled over the points, which a few seeds each need."""
    ways = [len(cell.values) - 1 for cell in cells]
    freedom = sum(ways)
    seeds, own = np.zeros((0, len(cells))), np.zeros(0)
    if freedom:
        pooled = sum(n * (cell.spread or 0.0) ** 2 for n, cell in zip(ways, cells, strict=True))
        each = [median_deviation(1.0, len(cell.values)) ** 2 for cell in cells]
        seeds, own = pooled / freedom * np.array([each]), np.array([float(freedom)])
    return _Noise(examples=_covariances(task, known), seeds=seeds, freedom=own)


def _covariances(task: str, known: Sequence[Known | None]) -> Array | None:
    """Of the medians on other examples, the same ones for every checkpoint."""
    systems = [outcomes for outcomes in known if isinstance(outcomes, Outcomes)]
    if len(systems) < len(known):
        return None
    generator = np.random.default_rng(zlib.crc32(task.encode()))
    drawn = [np.median(d, axis=1) for d in resampled_scores(systems, generator, draws=DRAWS)]
    covariances: Array = np.cov(np.stack(drawn))
    return covariances


def _mean_noise(parts: Sequence[_Noise]) -> _Noise:
    """Of the mean of several tasks, whose examples and seeds are drawn apart."""
    count = len(parts)
    examples = [part.examples for part in parts if part.examples is not None]
    return _Noise(
        examples=np.sum(examples, axis=0) / count**2 if len(examples) == count else None,
        seeds=np.concatenate([part.seeds for part in parts]) / count**2,
        freedom=np.concatenate([part.freedom for part in parts]),
    )


def stage_curves(
    board: Board, line: Line, known: Mapping[str, Sequence[Known | None]]
) -> Iterator[StageCurve]:
    """The curves of a line: the mean of the tasks that all its checkpoints have, then each task.

    `known` has for each task what is known of the entries' cells, in the line's order. Every pair
    of checkpoints of a curve is tested: Student's t on the difference of the medians over seeds.
    Its variance is that of the seeds, pooled over the curve's checkpoints, and that of the
    examples, which all checkpoints share. Holm's correction is over all pairs, so that the chance
    to find any stretch in a flat curve is at most 5 %.
    """
    tasks = [task for task in board.tasks if _count_with(line, task) > 1]
    whole = [
        t for t in tasks if t in board.rule.cells and _count_with(line, t) == len(line.entries)
    ]
    noises = {}
    for task in tasks:
        places = [n for n, entry in enumerate(line.entries) if task in entry.cells]
        cells = [line.entries[n].cells[task] for n in places]
        noises[task] = _noise_of(task, cells, [known[task][n] for n in places])
    if len(whole) > 1:
        title = _title_of_mean(board, whole)
        noise = _mean_noise([noises[task] for task in whole])
        points = [_mean_point(*one, tasks=whole) for one in _staged(line)]
        yield _curve(line, title, "", points, noise)
    for task in tasks:
        points = [_point(*one, task=task) for one in _staged(line) if task in one[1].cells]
        yield _curve(line, title_of(task), task, points, noises[task])


def _staged(line: Line) -> list[Staged]:
    return list(zip(line.stages, line.entries, strict=True))


def _count_with(line: Line, task: str) -> int:
    return sum(task in entry.cells for entry in line.entries)


def _title_of_mean(board: Board, tasks: Sequence[str]) -> str:
    if set(tasks) == set(board.rule.cells):
        return board.rule.name
    return f"mean of {', '.join(map(title_of, tasks))}"


def _point(stage: Stage, entry: Entry, *, task: str) -> StagePoint:
    cell = entry.cells[task]
    interval = useful_interval(cell.values)
    return StagePoint(
        model=entry.model, stage=stage, values=cell.values, median=cell.median, interval=interval
    )


def _mean_point(stage: Stage, entry: Entry, *, tasks: Sequence[str]) -> StagePoint:
    """The mean of the tasks' medians, and of the values of each seed that has them all."""
    cells = [entry.cells[task] for task in tasks]
    by_seed = [
        {run.seed: value for run, value in zip(cell.runs, cell.values, strict=True)}
        for cell in cells
    ]
    seeds = sorted(set.intersection(*(set(values) for values in by_seed)))
    values = tuple(sum(own[seed] for own in by_seed) / len(cells) for seed in seeds)
    median = sum(cell.median for cell in cells) / len(cells)
    interval = useful_interval(values)
    if interval is not None:
        reach = (interval.high - interval.low) / 2
        interval = Interval(low=median - reach, high=median + reach)
    return StagePoint(
        model=entry.model,
        stage=stage,
        values=values or (median,),
        median=median,
        interval=interval,
    )


def _curve(
    line: Line, title: str, task: str, points: Sequence[StagePoint], noise: _Noise
) -> StageCurve:
    medians = [point.median for point in points]
    p_values = _p_values(medians, noise) if noise.scope else {}
    signs = {
        pair: 1 if medians[pair[1]] > medians[pair[0]] else -1
        for pair, p in p_values.items()
        if p < ALPHA
    }
    return StageCurve(
        run=line.run,
        recipe=line.recipe,
        precision=line.precision,
        title=title,
        task=task,
        points=tuple(points),
        scope=noise.scope,
        stretches=tuple(_stretches(medians, signs, p_values)) if noise.scope else (),
        told_apart=signs,
    )


def _p_values(medians: Sequence[float], noise: _Noise) -> dict[tuple[int, int], float]:
    pairs = list(combinations(range(len(medians)), 2))
    found = [noise.p_value(i, j, medians[j] - medians[i]) for i, j in pairs]
    return dict(zip(pairs, holm(found), strict=True))


# From pairs that are told apart to stretches.

Signs = Mapping[tuple[int, int], int]


def _stretches(
    medians: Sequence[float], signs: Signs, p_values: Mapping[tuple[int, int], float]
) -> Iterator[Stretch]:
    """The parts of a curve, one after another.

    A rise goes from a low to the highest point after it, from which it is told apart, before one
    that is told apart below that; falls likewise. Of each, the points at either end of which no two
    are told apart are flat, and so is what comes between and after them: its ends are not told
    apart.
    """
    parts = [
        part for turn in _turns(medians, signs) for part in _with_flat_ends(*turn, signs=signs)
    ]
    for trend, first, last in _joined(parts, signs):
        change = medians[last] - medians[first]
        p_value = p_values[first, last]
        yield Stretch(trend=trend, first=first, last=last, change=change, p_value=p_value)


Part = tuple[Trend, int, int]


def _joined(parts: Sequence[Part], signs: Signs) -> list[Part]:
    """The parts with two flat ones in a row as one, where no two of their points are told apart."""
    found: list[Part] = []
    for trend, first, last in parts:
        before = found[-1] if found else None
        if before and before[0] == trend == "is flat":
            places = combinations(range(before[1], last + 1), 2)
            if not any(pair in signs for pair in places):
                found[-1] = (trend, before[1], last)
                continue
        found.append((trend, first, last))
    return found


def _turns(medians: Sequence[float], signs: Signs) -> list[tuple[int, int, int]]:
    """Directions (1, 0, -1) with the places where each begins and ends."""
    found: list[tuple[int, int, int]] = []
    start = low = high = direction = 0
    for place in range(1, len(medians)):
        low = min(low, place, key=lambda n: medians[n])
        high = max(high, place, key=lambda n: medians[n])
        for turned, extreme in ((1, low), (-1, high)):
            if direction != turned and signs.get((extreme, place)) == turned:
                if extreme > start:
                    found.append((direction, start, extreme))
                start, direction = extreme, turned
                low = high = place
                break
    last = len(medians) - 1
    end = {1: high, -1: low, 0: last}[direction]
    found.append((direction, start, end))
    return [*found, (0, end, last)] if end < last else found


def _with_flat_ends(direction: int, first: int, last: int, *, signs: Signs) -> Iterator[Part]:
    trend: Trend = "rises" if direction > 0 else "falls"
    if direction == 0:
        yield "is flat", first, last
        return
    head, tail = first, last
    while head < last and not any((n, head + 1) in signs for n in range(first, head + 1)):
        head += 1
    while tail > first and not any((tail - 1, n) in signs for n in range(tail, last + 1)):
        tail -= 1
    # Both may reach far into a slow rise: the shortest part between that is told apart counts.
    between = [
        (end - start, start, end)
        for start in range(first, head + 1)
        for end in range(max(tail, start + 1), last + 1)
        if signs.get((start, end)) == direction
    ]
    _, head, tail = min(between, default=(0, first, last))
    if head > first:
        yield "is flat", first, head
    yield trend, head, tail
    if tail < last:
        yield "is flat", tail, last
