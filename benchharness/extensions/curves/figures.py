"""Plots of scores over the checkpoints of a pretraining run, and over the layers of encoders."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchharness.extensions.curves.curves import StageCurve, layer_curves
from benchharness.extensions.curves.find import curves_of
from benchharness.extensions.plots import chart
from benchharness.extensions.plots.lines import (
    ACROSS,
    Kind,
    Line,
    Scored,
    line_figure,
    line_plot,
    point_over_seeds,
    table_of,
)
from benchharness.extensions.plots.section import Draw, Plot
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.sizes import count_text
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import grouped

_LAYERS = Kind(
    axis=lambda places: chart.linear_axis(
        [0.0, *places], "layer (0 is the embeddings)", ACROSS, smallest=1
    ),
    columns=("model", "layer", "95 % interval"),
    by="layer",
    note="Each point is the median score, over seeds, of a head on one layer of the frozen "
    "encoder. Vertical lines are 95 % intervals of the median, for three seeds or more.",
)


def layer_figures(named: Sequence[chart.NamedEntry], board: Board) -> tuple[chart.Figure, ...]:
    """Plot scores over the layers of frozen encoders whose states are used as features.

    Args:
        named: Entries of the leaderboard with their ids.
        board: Leaderboard with the runs.

    Returns:
        A figure per task, with a line per model or, if its settings or precision differ between
        entries, several lines. Only models with scores for several layers are shown.
    """
    entries = {id(each.entry): each for each in named}
    found: dict[str, list[Line]] = {}
    for curve in layer_curves(board):
        points = []
        for p in curve.points:
            names, said = (curve.name, str(p.layer)), f"{curve.name}, layer {p.layer}"
            point = point_over_seeds(p.layer, names, said, Scored.of(p.cell), p.interval)
            each = entries[id(p.entry)]
            points.append(replace(point, entry=each.id, href=each.href(p.cell)))
        found.setdefault(curve.title, []).append(Line(name=curve.name, points=points))
    return tuple(line_plot(lines, title, _LAYERS) for title, lines in found.items())


def stage_figures(curves: Iterable[StageCurve]) -> tuple[chart.Figure, ...]:
    """Plot scores over the checkpoints of pretraining runs.

    Args:
        curves: Curves of tasks, and of means over tasks.

    Returns:
        A figure per pretraining run and per task (or mean), with a line per recipe and precision.
    """
    groups = grouped(((curve.run, curve.task or curve.title), curve) for curve in curves)
    return tuple(map(_stage_figure, groups.values()))


def _stage_figure(curves: Sequence[StageCurve]) -> chart.Figure:
    in_tokens = all(p.stage.tokens is not None for curve in curves for p in curve.points)
    said, lines, labels = list[str](), [], []
    for curve in curves:
        name = f"{curve.recipe}, {curve.precision}"
        said.append(f"{name}: {curve.summary}.")
        points = []
        for point in curve.points:
            step, tokens = point.stage.step, point.stage.tokens
            facts = (point.model, f"{step:,}", "–" if tokens is None else f"{tokens:,}", name)
            x = float((tokens if in_tokens else step) or 0)
            scored = Scored(point.median, point.values, point.flags)
            points.append(
                point_over_seeds(x, facts, f"{point.model}, {name}", scored, point.interval)
            )
        lines.append(Line(name=name, points=points))
        for part in curve.stretches:
            inside = points[part.first : part.last + 1]
            labels.append((part.trend, [(point.x, point.y) for point in inside]))
    if scopes := sorted({curve.scope for curve in curves if curve.scope}):
        said.append(
            "Vertical lines are 95 % intervals of the median over seeds. A segment rises or falls "
            "if the checkpoints at its ends differ significantly (Student's t test at 5 % over "
            f"{' or '.join(scopes)}, with Holm's correction for all pairs of checkpoints)."
        )
    places = [point.x for line in lines for point in line.points]
    columns = ("checkpoint", "step", "tokens", "recipe", "95 % interval")
    return line_figure(
        lines,
        _stage_axis(places, "tokens of pretraining" if in_tokens else "steps of pretraining"),
        curves[0].title,
        labels=labels,
        title=f"{curves[0].run}, {curves[0].title}",
        description=f"{len(places)} scores of checkpoints. The table below contains all of them.",
        note=" ".join(said),
        table=table_of(lines, columns, ("recipe",)),
    )


_STEPS = tuple(10.0**power * factor for power in range(16) for factor in (1, 2, 5))

_SPREAD = 5.0
"""Smallest ratio between the last and the median step for which the axis is logarithmic."""


def _stage_axis(places: Sequence[float], label: str) -> chart.Axis:
    """Create the axis for steps or tokens; logarithmic if most checkpoints are near the start."""
    above = sorted(place for place in places if place > 0)
    if above and above[-1] >= _SPREAD * above[len(above) // 2]:
        label += " (logarithmic)"
        return chart.log_axis(places, label, ACROSS, steps=_STEPS, text=count_text)
    return replace(chart.linear_axis([0.0, *places], label, ACROSS, smallest=1), text=count_text)


def _draw_stages(store: Store, board: Board, examples: bool) -> Draw:
    curves = curves_of(store, board, lambda entry: entry.stage, examples=examples)
    figures = stage_figures(list(curves))  # drawn for all entries, before `_board` leaves some out
    return lambda _named, _board: figures


STAGES = Plot("Checkpoints of one pretraining run", _draw_stages)
"""Plot of scores over the checkpoints of each pretraining run."""

LAYERS = Plot("Scores by layer", lambda _store, _board, _examples: layer_figures)
"""Plot of scores over the layers of each frozen encoder."""
