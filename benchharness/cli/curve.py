"""`bench curve`: the checkpoints of one pretraining run, score against step."""

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
from benchharness.leaderboard.comparing.stages import StageCurve, StagePoint
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.curves import BoardCurves, find_curves

Run = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A pretraining run with stored checkpoints: the folder that they were in, the NAME of "
        "--model NAME='DIR/step-*', a model of the hub; or the pattern itself, quoted.",
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
    """
    with open_store(db, create=False) as store:
        found = find_curves(store, model, suite or (), task or (), data)
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
            **{title: _score(point) for title, point in points.items()},
            "seeds": min(len(point.values) for point in points.values()),
        }


def _score(point: StagePoint) -> str:
    if point.interval is None:
        return shown(point.median)
    return f"{shown(point.median)} ±{shown((point.interval.high - point.interval.low) / 2)}"


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
