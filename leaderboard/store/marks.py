"""What a user says of rows without changing them: another name, or that boards leave them out.

A mark is for the runs that its conditions fit, also for those that are stored later: a new seed of
a row has the row's name.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.schema import MarkRow, digest
from benchharness.leaderboard.text import storable

MarkKind = Literal["name", "hidden"]

_ROW = ("model", "weights", "kind", "recipe", "overridden", "is_sweep", "precision")
"""What all runs of a row have in common, and of a sweep nothing more."""


class Mark(NamedTuple):
    """`value` is the name; `fields` are what the runs have that it is for, by their names."""

    kind: MarkKind
    fields: tuple[tuple[str, str | bool], ...]
    value: str

    def fits(self, run: RunRow) -> bool:
        """Whether it is for a run, as this was stored."""
        return all(getattr(run, name) == value for name, value in self.fields)


def fields_of(run: RunRow, *, whole_model: bool) -> tuple[tuple[str, str | bool], ...]:
    """What a mark for a run's row, or for all rows of its model, looks for."""
    names: tuple[str, ...] = ("model",) if whole_model else _ROW
    if not whole_model and not run.is_sweep:
        names += ("recipe_digest",)
    return tuple((name, getattr(run, name)) for name in names)


def read_marks(session: Session) -> list[Mark]:
    """Every mark, those of whole models first, so that those of rows come over them."""
    rows = session.scalars(select(MarkRow).order_by(MarkRow.id))
    found = [
        Mark("hidden" if row.kind == "hidden" else "name", _fields(row.runs), row.value)
        for row in rows
    ]
    return sorted(found, key=lambda mark: len(mark.fields))


def _fields(text: str) -> tuple[tuple[str, str | bool], ...]:
    return tuple((str(name), value) for name, value in json.loads(text))


def put_mark(session: Session, mark: Mark) -> None:
    """Write a mark in the place of one for the same runs."""
    take_marks(session, [mark])
    session.add(MarkRow(kind=mark.kind, runs=_text(mark), value=storable(mark.value)))


def take_marks(session: Session, marks: Iterable[Mark]) -> None:
    """Delete marks for the same runs."""
    for mark in marks:
        same = (MarkRow.kind == mark.kind) & (MarkRow.runs == _text(mark))
        session.execute(delete(MarkRow).where(same))


def _text(mark: Mark) -> str:
    return storable(json.dumps(mark.fields))


def marked(runs: Sequence[RunRow], marks: Sequence[Mark]) -> list[RunRow]:
    """The runs with the names that they were given, and whether boards leave them out."""
    return [_marked(run, marks) for run in runs] if marks else list(runs)


def _marked(run: RunRow, marks: Iterable[Mark]) -> RunRow:
    fitting = [mark for mark in marks if mark.fits(run)]
    if not fitting:
        return run
    names = [mark for mark in fitting if mark.kind == "name"]
    return replace(
        run,
        model=names[-1].value if names else run.model,
        is_named=bool(names) and names[-1].fields[1:] != (),
        is_hidden=any(mark.kind == "hidden" for mark in fitting),
    )


def stored_names(names: Collection[str], marks: Iterable[Mark]) -> set[str]:
    """Under which names the runs may be stored that have one of these."""
    given = (dict(mark.fields) for mark in marks if mark.kind == "name" and mark.value in names)
    return {*names, *(str(fields["model"]) for fields in given)}


def marks_digest(marks: Iterable[Mark]) -> str:
    """The same for the same marks."""
    return digest([list(mark) for mark in marks])
