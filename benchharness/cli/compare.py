"""`bench compare`: two systems, task by task and example by example."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from benchharness.cli.options import (
    DATABASE,
    AsJson,
    Database,
    DataFilter,
    Suites,
    Tasks,
    completed_by,
    with_plugins,
)
from benchharness.cli.output import print_json, print_table
from benchharness.leaderboard.boards.board import select_entry_or_run
from benchharness.leaderboard.boards.naming import full_label, heads
from benchharness.leaderboard.comparing.contrast import Contrast
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.boards import Rows, find_rows
from benchharness.stored.contrasts import contrasts_of
from benchharness.tasks.suites import title_of

System = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        autocompletion=completed_by("stored_systems"),
        help="A model, ensemble or baseline with stored runs; MODEL:RECIPE where it has several "
        "rows on a board; or the beginning of a run's key.",
    ),
]
Split = Annotated[
    Literal["dev", "test"],
    typer.Option(
        "--split",
        metavar="dev|test",
        help="Which splits: dev, or test where its labels are public.",
    ),
]
ByCategory = Annotated[
    bool,
    typer.Option("--by-category", help="Show the difference on slices of each task's examples."),
]
Examples = Annotated[
    int,
    typer.Option(
        "--examples", metavar="N", min=0, help="Show N examples of each task that flipped."
    ),
]

COLUMNS = ("difference", "95 % interval", "p-value", "corrected")
SLICE_COLUMNS = ("slice", "examples", "difference", "95 % interval")
LONGEST = 300
"""Characters of an example's text that are shown."""


@with_plugins
def compare(  # noqa: PLR0913  (one parameter for each option)
    one: System,
    other: System,
    *,
    suite: Suites = None,
    task: Tasks = None,
    data: DataFilter = None,
    split: Split = "dev",
    by_category: ByCategory = False,
    examples: Examples = 0,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Say on which tasks two systems differ, by their predictions for the same examples.

    Over the seeds that both have: a t-test over examples and seeds, or of one seed McNemar's or a
    paired permutation test, corrected for the number of tasks.
    """
    with open_store(db, create=False) as store:
        found = find_rows(
            store, (one, other), suite or (), task or (), data, select=select_entry_or_run
        )
        compared = [
            (rows, contrasts_of(store, rows, split, with_slices=by_category)) for rows in found
        ]
    if as_json:
        print_json([_to_json(rows, split, each, examples) for rows, each in compared])
        return
    for rows, contrasts in compared:
        _show(rows, split, contrasts)
        for each in contrasts:
            _show_slices(each)
            _show_flips(each, examples, heads(rows.entries))
    for line in _legend([each for _, contrasts in compared for each in contrasts]):
        typer.echo(line)


def _show(rows: Rows, split: str, contrasts: Sequence[Contrast]) -> None:
    names = " and ".join(entry.name for entry in rows.entries)
    typer.echo(visible(f"{rows.board.title} {split} on {rows.board.data_label}: {names}"))
    one, other = map(visible, heads(rows.entries))
    columns = ("task", one, other, *COLUMNS, f"only {one}", f"only {other}", "of", "seeds")
    lines = [dict(zip(columns, _cells(each), strict=True)) for each in contrasts]
    print_table(lines, columns, "no task has results of both.", in_parts=True)
    for each in contrasts:
        if each.reason:
            typer.echo(visible(f"{_short(each)}: no test, {each.reason}"))


def _legend(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """What the table does not say of itself."""
    yield "only: examples that this system alone gets right, or with more seeds."
    yield "corrected: the p-value, corrected by Holm for the tasks of the board."
    yield "*: corrected is below 0.05; test and interval are over examples and seeds."
    if any(len(found.seeds) > 1 for found in contrasts):
        yield "scores and tests are of the means over seeds; boards show medians."
    if any(len(found.seeds) == 1 for found in contrasts):
        yield "with one seed the interval is over examples alone: other seeds may say otherwise."


def _cells(found: Contrast) -> tuple[str, ...]:
    flipped = found.flipped
    return (
        _short(found),
        *(f"{score * 100:.2f}" for score in found.scores),
        f"{found.difference * 100:+.2f}{'*' if found.is_shown else ''}",
        _interval(found.interval),
        _chance(found.p_value),
        _chance(found.corrected),
        *("" if flipped is None else str(count) for count in flipped or (None, None)),
        str(found.examples) if found.examples else "",
        str(len(found.seeds)),
    )


def _short(found: Contrast) -> str:
    return title_of(found.task)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"{interval.low * 100:+.2f} to {interval.high * 100:+.2f}"


def _chance(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return f"{p_value:.4f}" if p_value >= 0.00005 else "<0.0001"


def _show_slices(found: Contrast) -> None:
    if not found.slices:
        return
    typer.echo(
        f"{_short(found)} by category (no tests: with so many slices, some stand out by chance)"
    )
    rows = [
        {
            "slice": piece.name,
            "examples": piece.examples,
            "difference": f"{piece.difference * 100:+.2f}",
            "95 % interval": _interval(piece.interval),
        }
        for piece in found.slices
    ]
    print_table(rows, SLICE_COLUMNS, "")


def _show_flips(found: Contrast, count: int, names: Sequence[str]) -> None:
    for flip in (found.flips or ())[:count]:
        typer.echo(visible(f"{_short(found)} {flip.split} {flip.id}: {_shortened(flip.text)}"))
        typer.echo(visible(f"  gold: {_shortened(flip.gold)}"))
        for name, right, answer in zip(names, (flip.one, flip.other), flip.answers, strict=True):
            seeds = f"right with {right} of {len(found.seeds)} seeds"
            typer.echo(visible(f"  {name}: {_shortened(answer)}  ({seeds})"))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def _to_json(
    rows: Rows, split: str, contrasts: Sequence[Contrast], examples: int
) -> dict[str, Any]:
    return {
        "suite": rows.board.suite,
        "data": list(rows.board.data),
        "limit": rows.board.limit,
        "split": split,
        "systems": [full_label(entry) for entry in rows.entries],
        "tasks": {found.task: _facts(found, examples) for found in contrasts},
    }


def _facts(found: Contrast, examples: int) -> dict[str, Any]:
    return {
        "seeds": list(found.seeds),
        "scores": list(found.scores),
        "difference": found.difference,
        "interval": None if found.interval is None else asdict(found.interval),
        "test": found.test,
        "p_value": found.p_value,
        "corrected": found.corrected,
        "is_shown": found.is_shown,
        "flipped": found.flipped,
        "examples": found.examples,
        "slices": [asdict(piece) for piece in found.slices],
        "flips": [asdict(flip) for flip in (found.flips or ())[:examples]],
        "reason": found.reason,
    }
