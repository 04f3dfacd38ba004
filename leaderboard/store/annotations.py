"""What a user says of rows without changing them: another name, or that boards leave them out.

An annotation is for the runs that its conditions fit, also for those that are stored later: a new
seed of a row has the row's name.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store import ANNOTATIONS
from benchharness.leaderboard.text import digest, storable

AnnotationKind = Literal["name", "hidden"]

_ROW = ("model", "weights", "kind", "recipe", "overridden", "is_sweep", "precision")
"""What all runs of a row have in common, and of a sweep nothing more."""


class Annotation(NamedTuple):
    """`value` is the name; `fields` are what the runs have that it is for, by their names."""

    kind: AnnotationKind
    fields: tuple[tuple[str, str | bool], ...]
    value: str

    def fits(self, run: RunRow) -> bool:
        """Whether it is for a run, as this was stored."""
        return all(getattr(run, name) == value for name, value in self.fields)


def fields_of(run: RunRow, *, whole_model: bool) -> tuple[tuple[str, str | bool], ...]:
    """What an annotation for a run's row, or for all rows of its model, looks for."""
    names: tuple[str, ...] = ("model",) if whole_model else _ROW
    if not whole_model and not run.is_sweep:
        names += ("recipe_digest",)
    return tuple((name, getattr(run, name)) for name in names)


def read_annotations(db: Connection) -> list[Annotation]:
    """Every annotation, those of whole models first, so that those of rows come over them."""
    rows = db.execute(select(ANNOTATIONS).order_by(ANNOTATIONS.c.id))
    found = [
        Annotation("hidden" if row.kind == "hidden" else "name", _fields(row.runs), row.value)
        for row in rows
    ]
    return sorted(found, key=lambda annotation: len(annotation.fields))


def _fields(text: str) -> tuple[tuple[str, str | bool], ...]:
    return tuple((str(name), value) for name, value in json.loads(text))


def put_annotation(db: Connection, annotation: Annotation) -> None:
    """Write an annotation in the place of one for the same runs."""
    take_annotations(db, [annotation])
    row = {"kind": annotation.kind, "runs": _text(annotation), "value": storable(annotation.value)}
    db.execute(insert(ANNOTATIONS), row)


def take_annotations(db: Connection, annotations: Iterable[Annotation]) -> None:
    """Delete annotations for the same runs."""
    for annotation in annotations:
        of_runs = ANNOTATIONS.c.runs == _text(annotation)
        same = delete(ANNOTATIONS).where(ANNOTATIONS.c.kind == annotation.kind, of_runs)
        db.execute(same)


def _text(annotation: Annotation) -> str:
    return storable(json.dumps(annotation.fields))


def annotated(runs: Sequence[RunRow], annotations: Sequence[Annotation]) -> list[RunRow]:
    """The runs with the names that they were given, and whether boards leave them out."""
    return [_annotated(run, annotations) for run in runs] if annotations else list(runs)


def _annotated(run: RunRow, annotations: Iterable[Annotation]) -> RunRow:
    fitting = [annotation for annotation in annotations if annotation.fits(run)]
    if not fitting:
        return run
    names = [annotation for annotation in fitting if annotation.kind == "name"]
    return replace(
        run,
        model=names[-1].value if names else run.model,
        is_named=bool(names) and names[-1].fields[1:] != (),
        is_hidden=any(annotation.kind == "hidden" for annotation in fitting),
    )


def stored_names(names: Collection[str], annotations: Iterable[Annotation]) -> set[str]:
    """Under which names the runs may be stored that have one of these."""
    named = (each for each in annotations if each.kind == "name" and each.value in names)
    return {*names, *(str(dict(each.fields)["model"]) for each in named)}


def annotations_digest(annotations: Iterable[Annotation]) -> str:
    """The same for the same annotations."""
    return digest([list(annotation) for annotation in annotations])
