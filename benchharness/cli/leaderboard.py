"""The command `bench leaderboard`, which prints leaderboards as tables or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import typer

from benchharness.cli.chosen import Chosen, board_facts
from benchharness.cli.options import with_options
from benchharness.cli.output import published_facts
from benchharness.driver.options import option
from benchharness.leaderboard.boards.board import TOP, Board, top_of
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.imported import imported_blocks
from benchharness.leaderboard.boards.published import published_blocks
from benchharness.leaderboard.boards.reproduction import Reproduction, reproductions
from benchharness.leaderboard.boards.terminal import print_boards
from benchharness.leaderboard.text import visible
from benchharness.models import MODELS
from benchharness.stored import (
    Within,
    fact_lines,
    gained,
    gather_boards,
    lacking_plugins,
    left_out,
    recent_suites,
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Options of `bench leaderboard` that show more than the table of scores."""

    details: bool = option(
        False,
        "Show the spread, mean, minimum, maximum and number of seeds per task, and every "
        "comparison with a published score.",
    )
    published: bool = option(
        False,
        "Below leaderboards on complete official data, also show published results of the same "
        "models and of models of similar size, without ranks. With --json, show the results of all "
        "models.",
    )
    all_published: bool = option(
        False,
        "Also show published results of all models. `bench show published --model NAME` shows "
        "the results of one model.",
    )


@with_options(but=["task"])
def leaderboard(
    *,
    chosen: Chosen,
    shown: Shown,
    intervals: bool = option(
        False, "Also show 95 % intervals of scores and ranks. This reads all predictions."
    ),
    top: int | None = option(
        None,
        "Show the best N entries of each kind (such as models and baselines), and the best model "
        "of each column; 0 shows all. Default: 30 in a table, all with --json.",
        metavar="N",
        least=0,
    ),
) -> None:
    """Show the leaderboard: the rank and score of each model, and its median score on each task.

    Medians are over seeds. If the database is large, only the best entries are shown and, without
    --suite, only the suites that ran last.
    """
    as_json, suites = chosen.as_json, chosen.suite
    most = top if top is not None else 0 if as_json else TOP
    with chosen.open() as store:
        recent = None if suites or as_json else recent_suites(store)
        suites = suites or (recent.shown if recent else ())
        whole = gather_boards(store, Within(suites=suites, data=chosen.data), paths=True)
        whole = gained(whole, store)
        boards = [top_of(board, most) for board in whole]
        lacking = lacking_plugins(store, suites) if chosen.suite and not as_json else ()
        facts = [] if as_json else [*fact_lines(store, boards)]
        if intervals:
            from benchharness.stored.predictions import add_uncertainty  # noqa: PLC0415  (numpy)

            boards = [add_uncertainty(board, store) for board in boards]
    if as_json:
        wanted = shown.published or shown.all_published
        listed = [_board_to_json(board, published=wanted) for board in boards]
        typer.echo(json.dumps(listed, indent=2))
        return
    if boards:
        which: Which = "all" if shown.all_published else "like" if shown.published else "none"
        show_boards(boards, details=shown.details, published=which)
    else:
        typer.echo("no stored run matches. `bench show runs` lists the stored runs.")
    for line in (*facts, *left_out(whole, boards), *lacking, *(recent.sentences if recent else ())):
        typer.echo(visible(line))


Which = Literal["none", "like", "all"]
"""Which published results to show: no results ("none"), those of models on the leaderboard and of
models of similar size ("like"), or all results ("all")."""


def show_boards(
    boards: Sequence[Board], *, details: bool = False, published: Which = "none"
) -> None:
    """Print leaderboards on stdout.

    Each is followed by imported results, and by comparisons of its scores with published ones.

    Args:
        boards: Leaderboards to print.
        details: Whether to print details of each task and of comparisons with published scores.
        published: Which published results to print below each leaderboard (see `Which`).
    """
    known = {
        name.lower(): spec.parameters * 1e6
        for spec in MODELS.values()
        if spec.parameters
        for name in (spec.name, *spec.aliases)
    }
    print_boards(boards, details=details, published=published, sizes=known)


def _board_to_json(board: Board, *, published: bool = False) -> dict[str, Any]:
    """Convert a leaderboard to JSON data.

    Scores are on the metric's own scale, mostly 0 to 1. Only published scores are in percent,
    including those in the `reproduction` of an entry.
    """
    imported = [published_facts(row) for block in imported_blocks(board) for row in block.rows]
    blocks = published_blocks(board) if published else ()
    rows = [published_facts(row) for block in blocks for row in block.rows]
    return {
        **board_facts(board),
        "rule": board.rule.name,
        "tasks": list(board.tasks),
        "entries": [_entry_to_json(board, entry) for entry in board.entries],
        **({"imported": imported} if imported else {}),
        **({"published": rows} if published else {}),
    }


_OF_ENTRY = ("rank", "name", "model", "recipe", "precision", "variant", "points")
_OF_COMPARISON = ("difference", "noise", "verdict", "reason")
_OF_PUBLISHED = ("system", "split", "protocol", "source", "place")
"""Attributes that are copied to JSON from a leaderboard entry, from its comparison with a published
score, and from the published result."""


def _entry_to_json(board: Board, entry: Entry) -> dict[str, Any]:
    teacher = entry.runs[0].teacher if entry.runs else None
    student = {
        "teacher": teacher and teacher.model,
        "gained": {task: asdict(gain) for task, gain in entry.gains.items()},
    }
    sure = entry.uncertainty
    intervals = sure and {
        "ranks": sure.ranks,
        "not_told_apart_from": list(sure.tied),
        "intervals": asdict(sure.score),
    }
    return {
        **{name: getattr(entry, name) for name in _OF_ENTRY},
        "kind": entry.shown_kind,
        "started_from": entry.starts,
        **(student if teacher else {}),
        "score": entry.score,
        "flags": list(entry.score_notes),
        "spread": entry.spread,
        "seed_scores": list(entry.seed_scores),
        **(intervals or {}),
        "missing": list(entry.missing),
        "tasks": {task: _cell_to_json(entry, cell) for task, cell in entry.cells.items()},
        "failures": [run.key for run in entry.failures],
        "reproduction": [_reproduction_to_json(found) for found in reproductions(board, entry)],
    }


def _cell_to_json(entry: Entry, cell: Cell) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "median": cell.median,
        "mean": cell.mean,
        "spread": cell.spread,
        "min": min(cell.values),
        "max": max(cell.values),
        "collapsed": cell.collapsed,
        "values": list(cell.values),
        "seeds": [run.seed for run in cell.runs],
        "keys": [run.key for run in cell.runs],
        "flags": list(cell.flags),
    }
    # In a sweep, the gain is the expected decrease of the score if the selected hyperparameter
    # setting is run again with other seeds.
    if cell.gain is not None:
        facts |= {"gain_by_choice": cell.gain, "gain_over": cell.gain_scope}
    if cell.selection:
        facts["selection"] = cell.selection
    if entry.uncertainty is not None:
        facts["intervals"] = asdict(entry.uncertainty.cells[cell.task])
    return facts


def _reproduction_to_json(found: Reproduction) -> dict[str, Any]:
    return {
        "task": found.task,
        "score": " or ".join(found.theirs.scores),
        "ours": found.ours,
        "measured": found.measured,
        "flags": list(found.flags),
        "theirs": found.theirs.value,
        **{name: getattr(found, name) for name in _OF_COMPARISON},
        **{name: getattr(found.row, name) for name in _OF_PUBLISHED},
        "explain": found.command,
    }
