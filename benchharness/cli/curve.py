"""`bench curve`: scores against the step of a pretraining run, or against the layer of a model."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from benchharness.cli.options import (
    DATABASE,
    AsJson,
    Database,
    DataFilter,
    Suites,
    Tasks,
    with_plugins,
)
from benchharness.cli.output import print_json, print_table
from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.comparing.layers import LayerCurve, LayerPoint
from benchharness.leaderboard.comparing.stages import StageCurve, StagePoint
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.curves import BoardCurves, BoardLayers, find_curves, find_layers

Run = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A pretraining run with stored checkpoints: the folder that they were in, the NAME of "
        "--model NAME='DIR/step-*', a model of the hub; or the pattern itself, quoted. Or a model "
        "of which several layers were run (--set features=each).",
    ),
]

TEST = "Student's t on medians over seeds, by Holm over all pairs of checkpoints"


@with_plugins
def curve(  # noqa: PLR0913  (one parameter for each option)
    model: Run,
    *,
    suite: Suites = None,
    task: Tasks = None,
    data: DataFilter = None,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Say where the checkpoints of a pretraining run rise, are flat or fall, beyond noise.

    Noise is that of seeds and examples; the test is Student's t, by Holm over all pairs.
    Of a model whose layers were run one by one, show the score of each layer.
    """
    with open_store(db, create=False) as store:
        layers = find_layers(store, model, suite or (), task or (), data)
        found = () if layers else find_curves(store, model, suite or (), task or (), data)
    if layers:
        _show_layers(layers, as_json=as_json)
        return
    if as_json:
        print_json([_to_json(each, curve) for each in found for curve in each.curves])
        return
    for each in found:
        for curves in _by_line(each.curves):
            _show(each, curves)
    typer.echo(
        "±: half of the 95 % interval of the median over seeds. A stretch rises or falls where "
        "checkpoints"
    )
    typer.echo(f"differ beyond noise at 5 %: {TEST}.")


def _show_layers(found: Sequence[BoardLayers], *, as_json: bool) -> None:
    if as_json:
        print_json([_layers_json(each, curve) for each in found for curve in each.curves])
        return
    for each in found:
        for name in dict.fromkeys(curve.name for curve in each.curves):
            curves = [curve for curve in each.curves if curve.name == name]
            typer.echo(visible(f"{each.board.title} on {each.board.data_label}: {name}"))
            columns = ("layer", *(curve.title for curve in curves), "seeds")
            print_table(list(_layer_rows(curves)), columns, "no layer has a score.")
    typer.echo(
        "layer: 0 for the embeddings. ±: half of the 95 % interval of the median over seeds."
    )


def _layer_rows(curves: Sequence[LayerCurve]) -> Iterator[dict[str, Any]]:
    """A row for each layer that has one of the scores."""
    nothing = dict.fromkeys((curve.title for curve in curves), "")
    by_layer: dict[int, dict[str, LayerPoint]] = {}
    for curve in curves:
        for point in curve.points:
            by_layer.setdefault(point.layer, {})[curve.title] = point
    for layer, points in sorted(by_layer.items()):
        yield {
            "layer": str(layer),
            **nothing,
            **{t: _score(p.cell.median, p.interval) for t, p in points.items()},
            "seeds": min(len(point.cell.values) for point in points.values()),
        }


def _layers_json(each: BoardLayers, curve: LayerCurve) -> dict[str, Any]:
    return {
        "suite": each.board.suite,
        "data": list(each.board.data),
        "limit": each.board.limit,
        "model": curve.model,
        "name": curve.name,
        "task": curve.task,
        "points": [
            {
                "layer": point.layer,
                "median": point.cell.median,
                "seeds": list(point.cell.values),
                "interval": None if point.interval is None else asdict(point.interval),
            }
            for point in curve.points
        ],
    }


def _by_line(curves: Sequence[StageCurve]) -> list[list[StageCurve]]:
    """The curves of one recipe and precision together."""
    found: dict[tuple[str, str, str], list[StageCurve]] = {}
    for each in curves:
        found.setdefault((each.run, each.recipe, each.precision), []).append(each)
    return list(found.values())


def _show(each: BoardCurves, curves: Sequence[StageCurve]) -> None:
    first = curves[0]
    typer.echo(
        visible(
            f"{each.board.title} on {each.board.data_label}: {first.run}, {first.recipe}, "
            f"{first.precision}"
        )
    )
    columns = ("step", "tokens", *(_title(curve) for curve in curves), "seeds")
    print_table(list(_rows(curves)), columns, "no checkpoint has a score.")
    for curve in curves:
        scope = f" [noise of {curve.scope}]" if curve.scope else ""
        typer.echo(visible(f"{curve.title} {curve.summary}.{scope}"))


def _title(curve: StageCurve) -> str:
    return curve.title if curve.task else curve.title.partition(" of ")[0]


def _rows(curves: Sequence[StageCurve]) -> Iterator[dict[str, Any]]:
    """A row for each checkpoint that has one of the scores."""
    nothing = dict.fromkeys((_title(curve) for curve in curves), "")
    by_step: dict[int, dict[str, StagePoint]] = {}
    for curve in curves:
        for point in curve.points:
            by_step.setdefault(point.stage.step, {})[_title(curve)] = point
    for step, points in sorted(by_step.items()):
        tokens = next(iter(points.values())).stage.tokens
        yield {
            "step": f"{step:,}",
            "tokens": "" if tokens is None else f"{tokens:,}",
            **nothing,
            **{title: _score(p.median, p.interval) for title, p in points.items()},
            "seeds": min(len(point.values) for point in points.values()),
        }


def _score(median: float, between: Interval | None) -> str:
    if between is None:
        return shown(median)
    return f"{shown(median)} ±{shown((between.high - between.low) / 2)}"


def _to_json(each: BoardCurves, curve: StageCurve) -> dict[str, Any]:
    steps = [point.stage.step for point in curve.points]
    return {
        "suite": each.board.suite,
        "data": list(each.board.data),
        "limit": each.board.limit,
        "run": curve.run,
        "recipe": curve.recipe,
        "precision": curve.precision,
        "score": curve.title,
        "task": curve.task or None,
        "points": [
            {
                "model": point.model,
                "step": point.stage.step,
                "tokens": point.stage.tokens,
                "median": point.median,
                "seeds": list(point.values),
                "interval": None if point.interval is None else asdict(point.interval),
            }
            for point in curve.points
        ],
        "test": TEST,
        "noise": curve.scope or None,
        "told_apart": [
            [steps[one], steps[other], sign] for (one, other), sign in curve.told_apart.items()
        ],
        "stretches": [
            {
                "trend": part.trend,
                "from_step": steps[part.first],
                "to_step": steps[part.last],
                "change": part.change,
                "p_value": part.p_value,
            }
            for part in curve.stretches
        ],
        "summary": curve.summary,
    }
