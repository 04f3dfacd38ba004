"""The command `bench curve`: scores over the checkpoints of a pretraining run, or over layers."""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import asdict
from typing import Annotated, Any

import typer

from benchharness.cli.chosen import Chosen, board_facts, print_heading
from benchharness.cli.options import argument, with_options
from benchharness.cli.output import print_json, print_table, tell_marks
from benchharness.extensions.curves.curves import (
    LayerCurve,
    LayerPoint,
    StageCurve,
    StagePoint,
)
from benchharness.extensions.curves.find import find_curves, find_layers
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import marked, shown
from benchharness.leaderboard.text import visible

Run = Annotated[
    str,
    argument(
        "MODEL",
        "Pretraining run whose checkpoints have stored scores: the folder of the checkpoints, the "
        "NAME in --model NAME='DIR/step-*', a model on the hub, or the quoted pattern itself. Or a "
        "model whose layers were evaluated one by one (--set features=each).",
    ),
]

TEST = "Student's t on medians over seeds, by Holm over all pairs of checkpoints"


@with_options()
def curve(model: Run, *, chosen: Chosen) -> None:
    """Test where scores rise, are flat or fall over the checkpoints of a pretraining run.

    All pairs of checkpoints are compared by Student's t-test with Holm's correction. The noise that
    the test assumes covers seeds and examples. For a model whose layers were evaluated one by one,
    the score of each layer is shown instead.
    """
    with chosen.open() as store:
        wanted = (chosen.suite, chosen.task, chosen.data)
        layers = find_layers(store, model, *wanted)
        found = [] if layers else find_curves(store, model, *wanted)
    if chosen.as_json:
        print_json([_layers_json(*each) for each in layers] or [_to_json(*each) for each in found])
    elif layers:
        _show_layers(layers)
    else:
        _show_stages(found)


def _show_layers(found: Iterable[tuple[Board, LayerCurve]]) -> None:
    groups: dict[tuple[int, str], list[tuple[Board, LayerCurve]]] = {}
    for board, curve in found:
        groups.setdefault((id(board), curve.name), []).append((board, curve))
    for group in groups.values():
        board, first = group[0]
        print_heading(board, first.name)
        rows: dict[int, dict[str, Any]] = {}
        for _, curve in group:
            for point in curve.points:
                row = rows.setdefault(point.layer, {"layer": str(point.layer)})
                score = _score(point.cell.median, point)
                _add(row, curve.title, score, point.cell.values)
        _print_rows(rows, ("layer", *(curve.title for _, curve in group), "seeds"))
        tell_marks(
            (f"{curve.title} layer {point.layer}", point.flags)
            for _, curve in group
            for point in curve.points
        )
    typer.echo(
        "layer: 0 stands for the embeddings. ±: half the width of the 95 % interval of the median "
        "over seeds."
    )


def _show_stages(found: Iterable[tuple[Board, StageCurve]]) -> None:
    groups: dict[tuple[int, str, str, str], list[tuple[Board, StageCurve]]] = {}
    for board, curve in found:
        name = (id(board), curve.run, curve.recipe, curve.precision)
        groups.setdefault(name, []).append((board, curve))
    for group in groups.values():
        board, first = group[0]
        print_heading(board, f"{first.run}, {first.recipe}, {first.precision}")
        rows: dict[int, dict[str, Any]] = {}
        for _, curve in group:
            for point in curve.points:
                step, tokens = point.stage.step, point.stage.tokens
                facts = {"step": f"{step:,}", "tokens": "" if tokens is None else f"{tokens:,}"}
                row = rows.setdefault(step, facts)
                _add(row, _title(curve), _score(point.median, point), point.values)
        _print_rows(rows, ("step", "tokens", *(_title(curve) for _, curve in group), "seeds"))
        tell_marks(
            (f"{_title(curve)} step {point.stage.step:,}", point.flags)
            for _, curve in group
            for point in curve.points
        )
        for _, curve in group:
            scope = f" [noise over {curve.scope}]" if curve.scope else ""
            typer.echo(visible(f"{curve.title} {curve.summary}.{scope}"))
    typer.echo(
        "±: half the width of the 95 % interval of the median over seeds. A segment rises or "
        "falls if the"
    )
    typer.echo(
        "checkpoints at its ends differ significantly at 5 %: Student's t-test on medians over "
        "seeds, with Holm's correction for all pairs of checkpoints."
    )


def _title(curve: StageCurve) -> str:
    return curve.title if curve.task else curve.title.partition(" of ")[0]


def _add(row: dict[str, Any], title: str, score: str, values: Sized) -> None:
    """Add a score to a row of the table.

    The row's number of seeds becomes the smallest number of seeds of any of its scores.
    """
    row[title] = score
    row["seeds"] = min(row.get("seeds", len(values)), len(values))


def _print_rows(rows: Mapping[int, Mapping[str, Any]], columns: tuple[str, ...]) -> None:
    """Print a table row for each layer or checkpoint, in ascending order."""
    nothing = dict.fromkeys(columns, "")
    print_table([{**nothing, **rows[place]} for place in sorted(rows)], columns, "")


def _score(median: float, point: StagePoint | LayerPoint) -> str:
    score, between = marked(shown(median), point.flags), point.interval
    return score if between is None else f"{score} ±{shown((between.high - between.low) / 2)}"


def _layers_json(board: Board, curve: LayerCurve) -> dict[str, Any]:
    return {
        **board_facts(board),
        "model": curve.model,
        "name": curve.name,
        "task": curve.task,
        "points": [
            {
                "layer": point.layer,
                "median": point.cell.median,
                "seeds": list(point.cell.values),
                "flags": list(point.flags),
                "interval": None if point.interval is None else asdict(point.interval),
            }
            for point in curve.points
        ],
    }


def _to_json(board: Board, curve: StageCurve) -> dict[str, Any]:
    steps = [point.stage.step for point in curve.points]
    return {
        **board_facts(board),
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
                "flags": list(point.flags),
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
