"""Section of a sheet: the scores of groups of rows."""

from benchharness.extensions.groups.command import (
    COLUMNS,
    cells_of,
    legend,
    sentences,
    to_json,
)
from benchharness.extensions.groups.groups import DEFAULTS, Found, cell_groups, ids_of
from benchharness.extensions.groups.measure import Group, Grouping
from benchharness.leaderboard.text import counted
from benchharness.stored.sheet import Evidence, Line, Part, Subject, Table


def part(subject: Subject) -> Part:
    """Return the section about groups by length and by category, for each task."""
    found = [
        each
        for task in subject.tasks
        for each in cell_groups(subject.stored, subject.entry.cells[task], DEFAULTS)
    ]
    known = [(each, grouping) for each in found for grouping in each.groupings]
    missing = [f"{each.title}: {each.reason}" for each in found if each.reason]
    missing += [
        f"{each.title}: its rows have no different lengths and no categories"
        for each in found
        if not each.reason and not each.groupings
    ]
    differ = [
        (f"{group.name} of {each.title}", group.gap < 0)
        for each, grouping in known
        for group in grouping.groups
        if group.differs
    ]
    said = " ".join(
        f"Significantly {word} than the other rows: {', '.join(names)}."
        for word, is_worse in (("worse", True), ("better", False))
        if (names := [name for name, sign in differ if sign is is_worse])
    )
    said = said or "No group differs significantly from the other rows."
    extremes = [f"{each.title}, {s}" for each, grouping in known for s in sentences(grouping)]
    rows = ", ".join(
        f"{each.title} {counted(each.rows, 'row')}, {counted(each.seeds, 'seed')}"
        for each in found
        if each.groupings
    )
    basis = (*extremes, f"{rows}. Intervals are over rows and seeds.", *legend(DEFAULTS.points))
    return Part(
        text=said if known else "",
        basis=" ".join(basis) if known else "",
        missing=(
            *missing,
            "groups by a column were not compared: `bench groups SYSTEM --groups COLUMN` does it",
        ),
        tables=[_table(each, grouping) for each, grouping in known],
        evidence={
            _name(each, grouping, group): _evidence(each, grouping, group)
            for each, grouping in known
            for group in grouping.groups
        },
        facts={f"{each.task}:{each.split}": to_json(each) for each in found},
    )


def _name(found: Found, grouping: Grouping, group: Group) -> str:
    return f"{found.task}:{found.split} {grouping.spec} {group.name}"


def _evidence(found: Found, grouping: Grouping, group: Group) -> Evidence:
    return Evidence(
        title=f"{found.title}, {grouping.spec}: {group.name}",
        task=found.task,
        ids=ids_of(found, group.places),
        wrong=ids_of(found, [place for place in group.places if found.wrong[place]]),
        runs=found.keys,
    )


def _table(found: Found, grouping: Grouping) -> Table:
    return Table(
        title=f"{found.title} by {grouping.spec}",
        columns=COLUMNS,
        lines=tuple(
            Line(
                cells=cells_of(group, found.flags),
                evidence=_name(found, grouping, group),
                is_bad=group.differs and group.gap < 0,
            )
            for group in grouping.groups
        ),
    )
