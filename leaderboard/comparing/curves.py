"""Scores over the checkpoints of a pretraining run, and over the layers of an encoder.

All functions are pure.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing import Array, Known, Outcomes
from benchharness.leaderboard.comparing.noise import Estimate, average, resampled_scores
from benchharness.leaderboard.job import FEATURES_SETTING, Stage, recipe_words
from benchharness.leaderboard.statistics import (
    Interval,
    holm,
    median_deviation,
    useful_interval,
)
from benchharness.tasks.suites import distinct_title, title_of

ALPHA = 0.05
"""Chance that at least one pair of checkpoints is called different if all are equal."""

DRAWS = 1_000
"""Resamples of the examples; they give variances, which need fewer than the ends of intervals."""

Trend = Literal["rises", "is flat", "falls"]


@dataclass(frozen=True, kw_only=True)
class StagePoint:
    """Score of one checkpoint: one value per seed, in the unit of the score.

    `interval` is the 95 % interval of the median over seeds, None for fewer than three seeds.
    `flags` are warnings about the score.
    """

    model: str
    stage: Stage
    values: tuple[float, ...]
    median: float
    interval: Interval | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Part of a curve between two points, whose indexes are `first` and `last`.

    `change` is the last score minus the first. `p_value` is the p-value of this difference after
    Holm's correction for all pairs of the curve's points.
    """

    trend: Trend
    first: int
    last: int
    change: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class StageCurve:
    """Score over the checkpoints of a pretraining run, with one recipe and precision.

    `task` is empty for the mean of several tasks, which `title` names. `scope` lists the sources of
    noise that were taken into account ("examples and seeds"). If it is empty, no noise is known and
    there are no stretches. `told_apart` maps the pairs of points that differ significantly, the
    lower index first, to the sign of the change.
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
        """Text: "rises from step 0 to step 500 (+12.0), is flat from there to step 900 (+0.3)"."""
        if not self.stretches:
            return "no test: one seed, and the examples could not be read"
        steps = [point.stage.step for point in self.points]
        return ", ".join(
            f"{part.trend} from {'there' if place else f'step {steps[part.first]:,}'} to step "
            f"{steps[part.last]:,} ({100 * part.change:+.1f})"
            for place, part in enumerate(self.stretches)
        )


# Lines: the entries of a board that are checkpoints of one pretraining run with one recipe.


@dataclass(frozen=True, kw_only=True)
class Line:
    """Entries of one pretraining run, recipe and precision, sorted by step, with their stages."""

    run: str
    recipe: str
    precision: str
    entries: tuple[Entry, ...]
    stages: tuple[Stage, ...]


Staged = tuple[Stage, Entry]


def lines_of(board: Board, stage_of: Callable[[Entry], Stage | None]) -> list[Line]:
    """Return the lines of a board that have two checkpoints or more.

    If a checkpoint has two entries (because the values of a recipe have changed), the newest is
    used.

    Args:
        board: Board whose entries are grouped.
        stage_of: Function that returns the stage of an entry, None if it is not such a checkpoint.

    Raises:
        BenchError: The checkpoints cannot be of one pretraining run, because two have the same step
            but different weights, or their model families differ.
    """
    # Oldest first, so that the newest entry of a step replaces the entries before it.
    groups: dict[tuple[str, str, str], dict[int, Staged]] = {}
    for entry in sorted(board.entries, key=lambda e: max((r.finished for r in e.runs), default="")):
        if (stage := stage_of(entry)) is not None:
            # Versions of a recipe count as the same recipe.
            recipe = ", ".join(word.shown for word in recipe_words(entry.recipe, entry.runs))
            steps = groups.setdefault((stage.run, recipe, entry.precision), {})
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


def _check_alike(others: Iterable[Staged], one: Staged) -> None:
    """Raise BenchError if two checkpoints of one step differ in weights, or any in family."""
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


# The noise of a curve's points, and the pairs of points that differ significantly.


@dataclass(frozen=True, kw_only=True, eq=False)
class _Noise:
    """Variance of the medians of a task's points, due to examples and to seeds.

    `examples` is the covariance matrix of the points, None if it is unknown. `seeds` are the
    variances of the medians, 0 if all points have one seed, and `freedom` are their degrees of
    freedom.
    """

    examples: Array | None
    seeds: Array
    freedom: int

    def difference(self, one: int, other: int, value: float) -> Estimate:
        """Return the difference of two points, which is `value`, with its variance."""
        # var(a - b) = var(a) + var(b) - 2 cov(a, b), which may be below 0 by rounding.
        seeds, own = float(self.seeds[one] + self.seeds[other]), 0.0
        if self.examples is not None:
            apart = self.examples[one, one] + self.examples[other, other]
            own = max(0.0, float(apart - 2 * self.examples[one, other]))
        squares = seeds**2 / self.freedom if self.freedom else 0.0
        return Estimate(value=value, variance=seeds + own, squares=squares)


def _noise_of(task: str, cells: Sequence[Cell], known: Sequence[Known | None]) -> _Noise:
    """Return the noise of a task's points.

    The variance between seeds is pooled over the points, so each point needs few seeds. Examples
    are resampled for all points together.
    """
    # s^2 = sum((n - 1) * s_i^2) / sum(n - 1); from it follows the variance of a median over each
    # point's number of seeds.
    ways = [len(cell.values) - 1 for cell in cells]
    freedom, seeds, examples = sum(ways), np.zeros(len(cells)), None
    if freedom:
        pooled = sum(n * (cell.spread or 0.0) ** 2 for n, cell in zip(ways, cells, strict=True))
        each = [median_deviation(1.0, len(cell.values)) ** 2 for cell in cells]
        seeds = pooled / freedom * np.array(each)
    systems = [outcomes for outcomes in known if isinstance(outcomes, Outcomes)]
    if len(systems) == len(known):
        generator = np.random.default_rng(zlib.crc32(task.encode()))
        # Median over seeds of each point, on the same resamples of the examples: `[points, draws]`.
        drawn = [np.median(d, axis=1) for d in resampled_scores(systems, generator, draws=DRAWS)]
        examples = np.cov(np.stack(drawn))
    return _Noise(examples=examples, seeds=seeds, freedom=freedom)


def stage_curves(
    board: Board, line: Line, known: Mapping[str, Sequence[Known | None]]
) -> Iterator[StageCurve]:
    """Yield a line's curves: the mean of the tasks that all its checkpoints have, then each task.

    Every pair of checkpoints of a curve is tested with Student's t on the difference of the medians
    over seeds. Its variance is the sum of the seeds' variance, pooled over the curve's checkpoints,
    and the examples' variance; all checkpoints share the examples. Holm's correction is over all
    pairs, so the chance to find any stretch in a flat curve is at most 5 %.

    Args:
        board: Board of the line.
        line: Checkpoints of one pretraining run.
        known: Outcomes of the entries' cells in the line's order, keyed by task.
    """
    counts = {task: sum(task in entry.cells for entry in line.entries) for task in board.tasks}
    tasks = [task for task in board.tasks if counts[task] > 1]
    whole = [t for t in tasks if t in board.rule.cells and counts[t] == len(line.entries)]
    noises = {}
    for task in tasks:
        places = [n for n, entry in enumerate(line.entries) if task in entry.cells]
        cells = [line.entries[n].cells[task] for n in places]
        noises[task] = _noise_of(task, cells, [known[task][n] for n in places])
    staged = list(zip(line.stages, line.entries, strict=True))
    if len(whole) > 1:
        is_rule = set(whole) == set(board.rule.cells)
        title = board.rule.name if is_rule else f"mean of {', '.join(map(title_of, whole))}"
        parts = [noises[task] for task in whole]
        # The examples' variance of a mean needs the variance of each task: it would be too small
        # otherwise.
        if any(part.examples is None for part in parts):
            parts = [replace(part, examples=None) for part in parts]
        yield _curve(line, title, "", [_point(*one, whole) for one in staged], parts)
    for task in tasks:
        points = [_point(*one, [task]) for one in staged if task in one[1].cells]
        yield _curve(line, title_of(task), task, points, [noises[task]])


def _point(stage: Stage, entry: Entry, tasks: Sequence[str]) -> StagePoint:
    """Return the point of one task, or of the mean of several tasks over the seeds that they share.

    The median of several tasks is the mean of their medians.
    """
    cells = [entry.cells[task] for task in tasks]
    values, median = cells[0].values, sum(cell.median for cell in cells) / len(cells)
    if len(cells) > 1:
        by_seed = [
            {run.seed: value for run, value in zip(cell.runs, cell.values, strict=True)}
            for cell in cells
        ]
        seeds = sorted(set.intersection(*(set(values) for values in by_seed)))
        values = tuple(sum(own[seed] for own in by_seed) / len(cells) for seed in seeds)
    interval = useful_interval(values)
    if interval is not None and len(cells) > 1:
        # Centre the interval on the mean of the medians, which may differ from the median of the
        # means.
        reach = (interval.high - interval.low) / 2
        interval = Interval(low=median - reach, high=median + reach)
    return StagePoint(
        model=entry.model,
        stage=stage,
        values=values or (median,),
        median=median,
        interval=interval,
        flags=cells[0].notes if len(cells) == 1 else entry.notes(tasks),
    )


def _curve(
    line: Line, title: str, task: str, points: Sequence[StagePoint], noises: Sequence[_Noise]
) -> StageCurve:
    """Return the curve of these points; `noises` has one item per task, all independent."""
    medians = [point.median for point in points]
    is_known = {
        "examples": all(noise.examples is not None for noise in noises),
        "seeds": any(noise.freedom for noise in noises),
    }
    pairs = list(combinations(range(len(medians)), 2)) if any(is_known.values()) else []
    found = [
        average([noise.difference(i, j, medians[j] - medians[i]) for noise in noises]).p_value
        for i, j in pairs
    ]
    p_values = dict(zip(pairs, holm(found), strict=True))
    signs = {
        (i, j): 1 if medians[j] > medians[i] else -1 for (i, j), p in p_values.items() if p < ALPHA
    }
    return StageCurve(
        run=line.run,
        recipe=line.recipe,
        precision=line.precision,
        title=title,
        task=task,
        points=tuple(points),
        scope=" and ".join(name for name, known in is_known.items() if known),
        stretches=tuple(_stretches(medians, signs, p_values)) if pairs else (),
        told_apart=signs,
    )


# From pairs that differ significantly to stretches.

Signs = Mapping[tuple[int, int], int]


def _stretches(
    medians: Sequence[float], signs: Signs, p_values: Mapping[tuple[int, int], float]
) -> Iterator[Stretch]:
    """Yield the parts of a curve, one after another.

    A rise goes from a low point to the highest point after it that precedes a significant fall; the
    two ends differ significantly. Falls are found in the same way. At either end of a rise or fall,
    points that do not differ significantly from each other form a flat part. So do the points
    between and after the rises and falls: the ends of a flat part do not differ significantly.
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
    """Return the parts, adjacent flat parts joined if none of their points differ significantly."""
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
    """Return the parts as (direction, first, last), where the direction is 1, 0 or -1."""
    found: list[tuple[int, int, int]] = []
    # `low` and `high` are the indexes of the lowest and the highest point since the last turn. A
    # turn is detected at the first point that differs significantly from one of them, and is
    # located at that one.
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
    # A rise ends at its highest point and a fall at its lowest; the points after it are flat.
    end = {1: high, -1: low, 0: last}[direction]
    found.append((direction, start, end))
    return [*found, (0, end, last)] if end < last else found


def _with_flat_ends(direction: int, first: int, last: int, *, signs: Signs) -> Iterator[Part]:
    trend: Trend = "rises" if direction > 0 else "falls"
    if direction == 0:
        yield "is flat", first, last
        return
    # The longest beginning and the longest end within which no two points differ significantly.
    head, tail = first, last
    while head < last and not any((n, head + 1) in signs for n in range(first, head + 1)):
        head += 1
    while tail > first and not any((tail - 1, n) in signs for n in range(tail, last + 1)):
        tail -= 1
    # Both may reach far into a slow rise, so the shortest significant part between them is taken.
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


# Layers of a frozen encoder: the score of a head that reads one layer.

EMBEDDINGS, LAYER = "embeddings", "layer-"
"""Names of single layers in the features setting; the embeddings are layer 0."""


@dataclass(frozen=True, kw_only=True)
class LayerPoint:
    """Score of one layer, 0 for the embeddings; `entry` has the runs and `cell` their values."""

    layer: int
    entry: Entry
    cell: Cell

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the median over seeds, None for fewer than three seeds."""
        return useful_interval(self.cell.values)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings about the score."""
        return self.cell.notes


@dataclass(frozen=True, kw_only=True)
class LayerCurve:
    """Scores of the layers of one model on one task, in order of layers.

    `name` is the model with its other settings.
    """

    model: str
    name: str
    task: str
    title: str
    points: tuple[LayerPoint, ...]


def layer_curves(board: Board) -> tuple[LayerCurve, ...]:
    """Return a curve for each task and each model that has two or more of its layers on the board.

    Runs with other settings form curves of their own. If a layer has two entries, the first is
    used.
    """
    return tuple(curve for task in board.tasks for curve in _of_task(board.entries, task))


def _of_task(entries: Sequence[Entry], task: str) -> Iterator[LayerCurve]:
    found: dict[str, dict[int, LayerPoint]] = {}
    for entry in entries:
        cell = entry.cells.get(task)
        layer = None if cell is None else _layer_of(cell)
        if cell is not None and layer is not None:
            point = LayerPoint(layer=layer, entry=entry, cell=cell)
            found.setdefault(entry.name_but_for(FEATURES_SETTING), {}).setdefault(layer, point)
    for name, points in found.items():
        if len(points) > 1:
            ordered = tuple(points[layer] for layer in sorted(points))
            model, title = ordered[0].entry.model, distinct_title(task)
            yield LayerCurve(model=model, name=name, task=task, title=title, points=ordered)


def _layer_of(cell: Cell) -> int | None:
    """Return the number of the single layer that all runs of a cell read, None if there is none."""
    found = (run.settings.get(FEATURES_SETTING) for run in cell.runs)
    read = {None if setting is None else setting.value for setting in found}
    # "embeddings" and "layer-7" are single layers; "last" and mixes of several layers are not.
    word = str(read.pop()) if len(read) == 1 else ""
    if word == EMBEDDINGS:
        return 0
    number = word.removeprefix(LAYER)
    return int(number) if number != word and number.isdecimal() else None
