"""Write the section of a sheet about robustness: challenge sets, and drops on changed texts."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from benchharness.extensions.robustness.records import Record, Records
from benchharness.extensions.robustness.shown import (
    interval_text,
    percent,
    score_text,
    test_name,
)
from benchharness.leaderboard.text import counted
from benchharness.stored.sheet import Line, Part, Subject, Table
from benchharness.tasks.suites import distinct_title


def part(subject: Subject) -> Part | None:
    """Return the section about robustness; None if there are no records about the system's runs."""
    runs = [run for task in subject.tasks for run in subject.entry.cells[task].runs]
    records = [
        record for record in Records(subject.store).about(runs) if record.task in subject.tasks
    ]
    if not records:
        return None
    sets = [record for record in records if record.kind == "set"]
    drops = [record for record in records if record.drop is not None]
    parts = (
        _said("Not better than the most frequent class on", filter(_is_at_chance, sets)),
        _said("Significantly worse on texts changed by", filter(_is_worse, drops)),
    )
    rows = ", ".join(
        f"{test_name(r)} {counted(r.rows, 'row')}, {counted(len(r.seeds), 'seed')}" for r in records
    )
    return Part(
        text=" ".join(filter(None, parts)) or "These tests found no weakness.",
        basis=f"{rows}. Intervals are over rows and seeds. Nothing was trained for these tests.",
        tables=[table for table in (_sets(sets), _drops(drops)) if table.lines],
        facts={
            "records": [
                {**asdict(record), "is_bad": _is_at_chance(record) or _is_worse(record)}
                for record in records
            ]
        },
    )


def _said(text: str, records: Iterable[Record]) -> str:
    names = [f"{test_name(record)} ({distinct_title(record.task)})" for record in records]
    return f"{text} {', '.join(names)}." if names else ""


def _is_at_chance(record: Record) -> bool:
    """Return whether a set's score is not significantly above the share of its largest class."""
    majority = record.facts.get("majority")
    low = record.shown.value if record.shown.low is None else record.shown.low
    return majority is not None and low <= majority


def _is_worse(record: Record) -> bool:
    """Return whether the whole interval of a record's drop is above 0."""
    return record.drop is not None and record.drop.low is not None and record.drop.low > 0


def _sets(records: Sequence[Record]) -> Table:
    return Table(
        title="Challenge sets",
        columns=("test", "trained on", "own dev", "score", "95 % interval", "most frequent class"),
        lines=tuple(
            _line(
                record,
                interval_text(record.shown),
                "" if (share := record.facts.get("majority")) is None else percent(share),
                is_bad=_is_at_chance(record),
            )
            for record in records
        ),
    )


def _drops(records: Sequence[Record]) -> Table:
    return Table(
        title="Changed texts",
        columns=("change", "task", "unchanged", "score", "drop", "95 % interval of the drop"),
        lines=tuple(
            _line(record, percent(drop.value), interval_text(drop), is_bad=_is_worse(record))
            for record in records
            if (drop := record.drop) is not None
        ),
    )


def _line(record: Record, *last: str, is_bad: bool) -> Line:
    own = (test_name(record), distinct_title(record.task), percent(record.own), score_text(record))
    return Line(cells=(*own, *last), evidence=record.task, is_bad=is_bad)
