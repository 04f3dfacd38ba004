"""Curves of scores over the checkpoints of a pretraining run, or over the layers of an encoder.

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
"""Family-wise error rate: probability that at least one pair of checkpoints is called significantly
different if all checkpoints are equally good.
"""

DRAWS = 1_000
"""Number of resamples of the examples from which the covariances of scores are computed."""

Trend = Literal["rises", "is flat", "falls"]


@dataclass(frozen=True, kw_only=True)
class StagePoint:
    """Score of one checkpoint, as a point on a curve over checkpoints.

    Attributes:
        model: Name of the checkpoint.
        stage: Position of the checkpoint in its pretraining run.
        values: Scores of the seeds. For the mean of several tasks, these are the means of the seeds
            that all tasks have; if there is no such seed, the only value is `median`.
        median: Median over seeds. For several tasks, this is the mean of the medians of the tasks.
        interval: 95 % confidence interval of the median; None for fewer than three seeds.
        flags: Warnings about the score.
    """

    model: str
    stage: Stage
    values: tuple[float, ...]
    median: float
    interval: Interval | None
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Section of a curve that rises, falls or is flat.

    Attributes:
        trend: "rises", "falls" or "is flat".
        first: Index of the section's first point on the curve.
        last: Index of the section's last point.
        change: Score at the last point minus score at the first.
        p_value: P-value of `change`, after Holm's correction for all pairs of points on the curve.
    """

    trend: Trend
    first: int
    last: int
    change: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class StageCurve:
    """Scores of the checkpoints of a pretraining run, with one recipe and precision.

    Attributes:
        run: Name of the pretraining run.
        recipe: Label of the recipe.
        precision: Number format of the training, such as "fp32".
        title: Title of the task or, for the mean of several tasks, a description of the mean.
        task: Name of the task; empty for the mean of several tasks.
        points: Scores, sorted by pretraining step.
        scope: Sources of noise that the tests cover, e.g. "examples and seeds"; empty if none is
            known.
        stretches: Sections of the curve that rise, fall or are flat; empty if `scope` is empty.
        told_apart: Pairs of points that differ significantly. A key is the pair of their indices,
            the lower index first. The value is 1 if the later point is higher, and -1 if it is
            lower.
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
        """Description of the curve's rising, falling and flat sections.

        Example: "rises from step 0 to step 500 (+12.0), is flat from there to step 900 (+0.3)". If
        no test was possible, the text states the reason instead.
        """
        if not self.stretches:
            return "not tested, because there is one seed and the examples could not be read"
        steps = [point.stage.step for point in self.points]
        return ", ".join(
            f"{part.trend} from {'there' if place else f'step {steps[part.first]:,}'} to step "
            f"{steps[part.last]:,} ({100 * part.change:+.1f})"
            for place, part in enumerate(self.stretches)
        )


# Grouping of leaderboard entries that are checkpoints of one pretraining run, with one recipe.


@dataclass(frozen=True, kw_only=True)
class Line:
    """Leaderboard entries for checkpoints of one pretraining run, with one recipe and precision.

    Attributes:
        run: Name of the pretraining run.
        recipe: Label of the recipe.
        precision: Number format of the training, such as "fp32".
        entries: Entries, sorted by the pretraining step of their checkpoints.
        stages: Positions of the checkpoints in the pretraining run, in the same order.
    """

    run: str
    recipe: str
    precision: str
    entries: tuple[Entry, ...]
    stages: tuple[Stage, ...]


Staged = tuple[Stage, Entry]


def lines_of(board: Board, stage_of: Callable[[Entry], Stage | None]) -> list[Line]:
    """Group the entries of a leaderboard by pretraining run, recipe and precision.

    Groups with a single checkpoint are left out. If a checkpoint has two entries, because the
    values of the recipe have changed, the newest entry is used.

    Args:
        board: Leaderboard whose entries are grouped.
        stage_of: Function that returns an entry's position in a pretraining run, or None if the
            entry is not a checkpoint of one.

    Raises:
        BenchError: If checkpoints cannot be from the same pretraining run, because two have the
            same step but different weights, or because their model families differ.
    """
    # Sort the entries oldest first, so that the newest entry for a step replaces older entries.
    groups: dict[tuple[str, str, str], dict[int, Staged]] = {}
    for entry in sorted(board.entries, key=lambda e: max((r.finished for r in e.runs), default="")):
        if (stage := stage_of(entry)) is not None:
            # Recipes are compared by name, so that a recipe whose values have changed still counts
            # as the same recipe.
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
    """Raise BenchError if the checkpoint `one` cannot be from the same pretraining run as others.

    It cannot if it has the same step but different weights, or if its model family differs.
    """
    mine, entry = one
    for theirs, other in others:
        if mine.family and theirs.family and mine.family != theirs.family:
            raise BenchError(
                f"{mine.run} has checkpoints of two model families, {other.model} "
                f"({theirs.family}) and {entry.model} ({mine.family}), but all checkpoints of a "
                "pretraining run must have the same family: run one of them under another name "
                "(--model NAME='DIR/step-*')."
            )
        if mine.step == theirs.step and entry.runs[0].weights != other.runs[0].weights:
            raise BenchError(
                f"{mine.run} has two checkpoints of step {mine.step:,} with different weights "
                f"({other.model} and {entry.model}): run one of them under another name (--model "
                "NAME='DIR/step-*')."
            )


# Noise of the points on a curve, and the pairs of points that differ significantly.


@dataclass(frozen=True, kw_only=True, eq=False)
class _Noise:
    """Variance of the points on a task's curve, due to examples and due to seeds.

    `examples` is the covariance matrix of the points over resampled examples; None if it is
    unknown. `seeds` are the variances of the points' medians over seeds; they are 0 if all points
    have one seed. `freedom` is the number of degrees of freedom of `seeds`.
    """

    examples: Array | None
    seeds: Array
    freedom: int

    def difference(self, one: int, other: int, value: float) -> Estimate:
        """Return the observed difference `value` of two points as an estimate with its variance."""
        # var(a - b) = var(a) + var(b) - 2 cov(a, b), which may be below 0 because of rounding.
        seeds, own = float(self.seeds[one] + self.seeds[other]), 0.0
        if self.examples is not None:
            apart = self.examples[one, one] + self.examples[other, other]
            own = max(0.0, float(apart - 2 * self.examples[one, other]))
        squares = seeds**2 / self.freedom if self.freedom else 0.0
        return Estimate(value=value, variance=seeds + own, squares=squares)


def _noise_of(task: str, cells: Sequence[Cell], known: Sequence[Known | None]) -> _Noise:
    """Compute the noise of the points on a task's curve.

    The variance over seeds is pooled over the points, so that each point needs only few seeds.
    All points use the same resamples of the examples.
    """
    # The pooled variance is s^2 = sum((n - 1) * s_i^2) / sum(n - 1). From it, compute the variance
    # of each point's median, which depends on the point's number of seeds.
    ways = [len(cell.values) - 1 for cell in cells]
    freedom, seeds, examples = sum(ways), np.zeros(len(cells)), None
    if freedom:
        pooled = sum(n * (cell.spread or 0.0) ** 2 for n, cell in zip(ways, cells, strict=True))
        each = [median_deviation(1.0, len(cell.values)) ** 2 for cell in cells]
        seeds = pooled / freedom * np.array(each)
    systems = [outcomes for outcomes in known if isinstance(outcomes, Outcomes)]
    if len(systems) == len(known):
        generator = np.random.default_rng(zlib.crc32(task.encode()))
        # Compute the median over seeds of each point on each resample, `[points, draws]`.
        drawn = [np.median(d, axis=1) for d in resampled_scores(systems, generator, draws=DRAWS)]
        examples = np.cov(np.stack(drawn))
    return _Noise(examples=examples, seeds=seeds, freedom=freedom)


def stage_curves(
    board: Board, line: Line, known: Mapping[str, Sequence[Known | None]]
) -> Iterator[StageCurve]:
    """Yield the curves of a pretraining run: first the mean of several tasks, then each task.

    The mean is over the tasks that count in the suite's score and on which all checkpoints have
    results; its curve is left out if there are fewer than two such tasks. A task has a curve if at
    least two checkpoints have results.

    Every pair of checkpoints on a curve is tested with Student's t test on the difference of their
    medians over seeds. The variance of this difference is the sum of the variance due to seeds,
    pooled over the checkpoints of the curve, and the variance due to the choice of examples. All
    checkpoints are scored on the same examples. Holm's correction is applied to all pairs, so that
    a curve which is really flat is found to rise or fall with a probability of at most 5 %.

    Args:
        board: Leaderboard that contains the entries.
        line: Checkpoints of one pretraining run.
        known: For each task, the outcomes of every checkpoint in the order of `line.entries`.
            Instead of outcomes, there is a reason (str) if the examples were not read, and None for
            an entry without a result.
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
        # If the variance due to examples is unknown for one task, leave it out for all tasks.
        # Otherwise the variance of the mean would be too small.
        if any(part.examples is None for part in parts):
            parts = [replace(part, examples=None) for part in parts]
        yield _curve(line, title, "", [_point(*one, whole) for one in staged], parts)
    for task in tasks:
        points = [_point(*one, [task]) for one in staged if task in one[1].cells]
        yield _curve(line, title_of(task), task, points, [noises[task]])


def _point(stage: Stage, entry: Entry, tasks: Sequence[str]) -> StagePoint:
    """Create a checkpoint's point for one task, or for the mean of several tasks.

    For several tasks, `median` is the mean of the tasks' medians, and `values` are the means over
    tasks for each seed that all tasks have.
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
        # Center the interval on the mean of the medians, which may differ from the median of the
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
    """Create a curve from its points; `noises` contains the noise on each of the curve's tasks."""
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


# Computation of the rising, falling and flat sections from the pairs that differ significantly.

Signs = Mapping[tuple[int, int], int]


def _stretches(
    medians: Sequence[float], signs: Signs, p_values: Mapping[tuple[int, int], float]
) -> Iterator[Stretch]:
    """Split a curve into rising, falling and flat sections and yield them in order.

    A rise goes from a low point to the highest point before the next significant fall, and its two
    ends differ significantly. Falls are defined in the same way. All other points are in flat
    sections. At the beginning or end of a rise or fall, points that do not differ significantly
    from each other are split off as a flat section. The ends of a flat section do not differ
    significantly.
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
    """Join adjacent flat sections if none of their points differ significantly."""
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
    """Split a curve at its turning points; return sections as (direction, first, last).

    The direction is 1 for a rise, -1 for a fall, and 0 for a flat section.
    """
    found: list[tuple[int, int, int]] = []
    # `low` and `high` are the indices of the lowest and highest point since the last turning point.
    # If a later point differs significantly from one of the two, that one is the next turning
    # point.
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
    # A rise ends at its highest point and a fall at its lowest; the points after that are flat.
    end = {1: high, -1: low, 0: last}[direction]
    found.append((direction, start, end))
    return [*found, (0, end, last)] if end < last else found


def _with_flat_ends(direction: int, first: int, last: int, *, signs: Signs) -> Iterator[Part]:
    trend: Trend = "rises" if direction > 0 else "falls"
    if direction == 0:
        yield "is flat", first, last
        return
    # Find the longest beginning, and the longest end, in which no two points differ significantly.
    head, tail = first, last
    while head < last and not any((n, head + 1) in signs for n in range(first, head + 1)):
        head += 1
    while tail > first and not any((tail - 1, n) in signs for n in range(tail, last + 1)):
        tail -= 1
    # Both may extend far into a slow rise, so take the shortest significant section between them.
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


# Layers of a frozen encoder: scores of heads whose features are the states of one layer.

EMBEDDINGS, LAYER = "embeddings", "layer-"
"""Value of the setting "features" for the embeddings, and beginning of its value for a layer, e.g.
"layer-7".
"""


@dataclass(frozen=True, kw_only=True)
class LayerPoint:
    """Scores on a task with one layer of a frozen encoder, as a point on a curve over layers.

    Attributes:
        layer: Number of the layer; 0 for the embeddings.
        entry: Leaderboard entry of the runs that use this layer.
        cell: Scores of the entry on the task.
    """

    layer: int
    entry: Entry
    cell: Cell

    @property
    def interval(self) -> Interval | None:
        """95 % confidence interval of the median over seeds; None for fewer than three seeds."""
        return useful_interval(self.cell.values)

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings about the scores, e.g. "1 of 5 seeds collapsed (constant predictions)"."""
        return self.cell.notes


@dataclass(frozen=True, kw_only=True)
class LayerCurve:
    """Scores on one task with each layer of one frozen encoder.

    Attributes:
        model: Name of the model.
        name: Name of the model with its changed settings (except the one that selects the layer)
            and its precision.
        task: Name of the task.
        title: Title of the task.
        points: Scores, sorted by layer.
    """

    model: str
    name: str
    task: str
    title: str
    points: tuple[LayerPoint, ...]


def layer_curves(board: Board) -> tuple[LayerCurve, ...]:
    """Return a curve per task and model, for models with scores for two or more layers.

    Entries of a model that differ in precision, or in settings other than the layer, are on
    separate curves. If several entries remain for the same layer, the first one is used.
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
    """Return the number of the layer that all runs of a cell use; None if it is not one layer."""
    found = (run.settings.get(FEATURES_SETTING) for run in cell.runs)
    read = {None if setting is None else setting.value for setting in found}
    # "embeddings" and "layer-7" are single layers; "last" and mixes of several layers are not.
    word = str(read.pop()) if len(read) == 1 else ""
    if word == EMBEDDINGS:
        return 0
    number = word.removeprefix(LAYER)
    return int(number) if number != word and number.isdecimal() else None
