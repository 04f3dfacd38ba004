"""`bench groups`: show on which groups of rows a system is worse."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import typer

from benchharness.cli.chosen import (
    Chosen,
    System,
    measure_splits,
    print_heading,
    splits_as_json,
)
from benchharness.cli.compare import Split
from benchharness.cli.options import with_options
from benchharness.cli.output import print_json, print_table, tell_marks
from benchharness.driver.options import option
from benchharness.extensions.groups.groups import DEFAULTS, Found, Wanted, found_of, ids_of
from benchharness.extensions.groups.measure import ALPHA, POWER, Extreme, Group, Grouping
from benchharness.leaderboard.boards.cell import marked, shown
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.text import counted, visible

Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        metavar="GROUPS",
        help='length, category, answer, the name of a column, or a condition such as "len(text) > '
        '100"; repeatable. Default: length and category.',
    ),
]

COLUMNS = (
    "group", "rows", "score", "95 % interval", "gap to others", "95 % of gap", "p", "power",
    "rows needed",
)  # fmt: skip


@with_options()
def groups(
    system: System,
    *,
    chosen: Chosen,
    split: Split = "dev",
    by: Groups = None,
    points: float = option(
        DEFAULTS.points,
        "Gap for which the power and the number of needed rows are computed.",
        metavar="POINTS",
    ),
) -> None:
    """Show the score of each group of rows, and which groups are significantly worse.

    Scores are computed from stored predictions; nothing is trained. Intervals are over rows and
    seeds, and p-values are corrected for the number of groups (Holm). Exits with 2 if no selected
    task has groups.
    """
    wanted = Wanted(specs=tuple(by or ()), split=split, points=points)
    found = measure_splits(chosen, system, partial(found_of, wanted=wanted))
    if chosen.as_json:
        print_json(splits_as_json(found, split, to_json))
        return
    for rows, some in found:
        print_heading(rows.board, rows.entries[0].name, split)
        for each in some:
            _show(each)
    tell_marks((each.title, each.flags) for _, some in found for each in some)
    for line in legend(points):
        typer.echo(line)


def _show(found: Found) -> None:
    if found.reason or not found.groupings:
        reason = found.reason or "its rows have no different lengths and no categories"
        typer.echo(visible(f"{found.title}: no groups, because {reason}"))
        return
    said = f"{counted(found.rows, 'row')}, {counted(found.seeds, 'seed')}"
    typer.echo(visible(f"{found.title}: {' and '.join(found.metrics)}, {said}"))
    for grouping in found.groupings:
        lines = [
            dict(zip(COLUMNS, cells_of(each, found.flags), strict=True)) for each in grouping.groups
        ]
        print_table(lines, COLUMNS, "")
        for sentence in sentences(grouping):
            typer.echo(visible(sentence))


def cells_of(group: Group, flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the cells of a group's row, in the order of `COLUMNS`."""
    return (
        group.name,
        f"{group.rows:,}",
        marked(shown(group.score), flags),
        ends(group.interval),
        f"{shown(group.gap)}{'*' if group.differs else ''}",
        ends(group.gap_interval),
        f"{group.p_value:.3f}",
        f"{group.power:.0%}",
        "more seeds" if group.needed is None else f"{group.needed:,}",
    )


def ends(interval: Interval) -> str:
    """Return an interval of a score as text, such as "81.2 to 86.0"."""
    return f"{shown(interval.low)} to {shown(interval.high)}"


def sentences(grouping: Grouping) -> Iterator[str]:
    """Yield a sentence about the worst group and the largest gap between two groups."""
    worst, gap = grouping.worst, grouping.gap
    yield (
        f"worst: {worst.names[0]}, {shown(worst.value)} ({ends(worst.interval)}). Largest gap: "
        f"{shown(gap.value)} ({ends(gap.interval)}), between {gap.names[0]} and {gap.names[1]}."
    )


def legend(points: float) -> Iterator[str]:
    """Yield sentences that explain the columns."""
    yield (
        "gap to others: score of the group minus the score of the other rows; * marks p below "
        f"{ALPHA:g}, corrected for all groups of the split (Holm)."
    )
    yield (
        f"power: the probability that the test finds a gap of {points:g} points. rows needed: the "
        f"size of the group with which this probability is {POWER:.0%}."
    )


def to_json(found: Found) -> dict[str, Any]:
    """Return the groups of a split as JSON data; only the flags and the reason without scores."""
    facts: dict[str, Any] = {"flags": list(found.flags), "reason": found.reason}
    if found.reason:
        return facts
    return facts | {
        "rows": found.rows,
        "seeds": found.seeds,
        "metrics": list(found.metrics),
        "runs": list(found.keys),
        "groupings": {
            each.spec: {
                "points": each.points * 100,
                "groups": [_group(each, found) for each in each.groups],
                "worst": _picked(each.worst),
                "gap": _picked(each.gap),
            }
            for each in found.groupings
        },
    }


def _group(group: Group, found: Found) -> Mapping[str, Any]:
    return {
        "group": group.name,
        "rows": group.rows,
        "score": group.score,
        "low": group.interval.low,
        "high": group.interval.high,
        "gap": group.gap,
        "gap_low": group.gap_interval.low,
        "gap_high": group.gap_interval.high,
        "p_value": group.p_value,
        "power": group.power,
        "rows_needed": group.needed,
        "ids": list(ids_of(found, group.places)),
    }


def _picked(picked: Extreme) -> Mapping[str, Any]:
    ends = {"low": picked.interval.low, "high": picked.interval.high}
    return {"groups": list(picked.names), "value": picked.value, **ends}
