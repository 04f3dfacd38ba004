"""The SQLite file or PostgreSQL schema that holds results, whole, one transaction each: its tables.

A new store is made of them; leaderboard/store/migrations brings an older one to the same schema.

    runs          one row per attempt at a job: a result, or a failure with its reason
    scores        one row per metric of a scored split
    predictions   one row per predicted split, the predictions in one compressed column
    headlines     one row per job: of the run that lists show, what they show (see record.py)
    annotations   what the user says of rows: a name, or that boards leave them out (below)

A result enters the first four in one transaction. JSON is kept as text, not in a database's own
JSON type, so that the same characters come back on every database.
"""

import json
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    delete,
    insert,
    select,
)

from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import digest, storable, to_text

FINISHED = "finished"
"""The status of a run that has a result; any other status is the kind of a failure."""


class DamagedError(Exception):
    """A column does not hold what was written into it."""


class _Words(TypeDecorator[str]):
    """Text from outside (names, paths, messages), with what databases refuse written out."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """From Python to the database."""
        return None if value is None else storable(value)


class _Json(TypeDecorator[Any]):
    """Plain data as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        """From Python to the database."""
        return None if value is None else to_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """From the database to Python."""
        return None if value is None else _parsed(value)


_SMALL = 512
"""Bytes: the smallest window of zlib (RFC 1950, 2.2: any reader takes it)."""


class PackedJson(TypeDecorator[Any]):
    """Plain data as JSON text under zlib: predictions shrink to about a fifth."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes:  # noqa: ARG002
        """From Python to the database."""
        text = to_text(value).encode("ascii")
        if len(text) >= _SMALL:
            return zlib.compress(text)
        # The usual window is a quarter of a megabyte, to clear which takes longer than all the rest
        # of storing an imported score, which has no predictions.
        packing = zlib.compressobj(wbits=_SMALL.bit_length() - 1, memLevel=1)
        return packing.compress(text) + packing.flush()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """From the database to Python."""
        return _parsed(value, packed=True)


def _parsed(value: Any, *, packed: bool = False) -> Any:
    try:
        return json.loads(zlib.decompress(value) if packed else value)
    except (TypeError, ValueError, RecursionError, zlib.error) as error:
        raise DamagedError(str(error)) from error


_needed = partial(Column, nullable=False)
SCHEMA = MetaData()

RUNS = Table(
    "runs",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _needed("job_key", Text),  # Job.key, 64 hex digits
    _needed("attempt", Integer),  # 1, 2, ... within a job key
    _needed("status", Text),  # "finished", or a Failure's kind
    Column("exit_code", Integer),  # of a failure
    _needed("digest", Text),  # SHA-256 of the run, to tell damage (see record.py)
    # Copied out of the job, to search and list by.
    _needed("model", _Words),
    _needed("weights", _Words),  # a hub revision, or "sha256:..."
    _needed("recipe", _Words),  # its name: "paper"
    _needed("recipe_digest", Text),  # of the values of its settings
    _needed("task", _Words),  # "glue/rte"
    _needed("suite", _Words),  # "glue"
    _needed("data", _Words),  # "hub", "mini" or a folder
    Column("limit", BigInteger),  # rows kept of each split
    _needed("seed", BigInteger),
    _needed("precision", _Words),
    Column("start_from", _Words),  # the key of the job it went on from
    # Copied out of the result; empty in a failure.
    Column("seconds", Double),
    Column("parameters", BigInteger),
    _needed("finished", _Words),  # UTC, ISO 8601
    _needed("error", _Words),  # a failure's sentence; "" in a result
    _needed("fingerprints", _Json),  # digest by "task:split"
    # The bulk. Only the job and the details are kept of a failure.
    _needed("job", _Json),  # Job.to_json
    Column("curve", _Json),  # CurvePoints
    Column("cost", _Json),  # Cost
    Column("provenance", _Json),
    _needed("details", _Words),  # a failure's traceback or log's end
    UniqueConstraint("job_key", "attempt", name="runs_attempt"),
    Index("runs_newest", "job_key", "status", "attempt"),
)
"""One attempt at a job."""


def _run_id(**more: Any) -> Column[int]:
    return _needed("run_id", Integer, ForeignKey("runs.id", ondelete="CASCADE"), **more)


SCORES = Table(
    "scores",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _run_id(),
    _needed("task", Text),
    _needed("split", Text),
    _needed("name", Text),  # as people see it: "accuracy_test_mm"
    _needed("value", Double),
    _needed("metric", Text),  # "accuracy"
    UniqueConstraint("run_id", "task", "split", "name", name="scores_metric"),
)
"""One metric of one scored split, in the metric's own unit; ids keep the metrics' order."""

PREDICTIONS = Table(
    "predictions",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _run_id(),
    _needed("task", Text),
    _needed("split", Text),
    _needed("fingerprint", Text),  # which rows
    _needed("flags", _Json),  # what to know
    _needed("rows", PackedJson),  # one object per example, in order
    UniqueConstraint("run_id", "task", "split", name="predictions_split"),
)
"""One predicted split."""

BETWEEN_NAMES = "\n"
"""Stands between the names in a headline's `suite` and `task`, where it has several."""

HEADLINES = Table(
    "headlines",
    SCHEMA,
    _run_id(primary_key=True, autoincrement=False),
    _needed("job_key", Text),
    _needed("suite", _Words),
    _needed("task", _Words),
    _needed("model", _Words),
    _needed("status", Text),
    _needed("shared", Text),  # JSON; see record.headline_columns
    _needed("content", _Json),
    UniqueConstraint("job_key", name="headlines_job"),
    Index("headlines_suite", "suite", "run_id"),
    Index("headlines_task", "task"),
    Index("headlines_model", "model"),
)
"""The run that lists show of a job: its newest result, or else its newest failure."""

ANNOTATIONS = Table(
    "annotations",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _needed("kind", Text),  # "name" or "hidden"
    _needed("runs", Text),  # JSON: which runs it is for, as pairs of a field and its value
    _needed("value", Text),  # the name; "" of what is hidden
    UniqueConstraint("kind", "runs", name="annotations_runs"),
)
"""An annotation, and which runs it is for."""


# An annotation is for the runs that its conditions fit, also for those that are stored later: a new
# seed of a row has the row's name.

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
    # The points of a sweep have other values each, and are one row.
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
    # The last name counts, since those of whole models come first; only these have no condition
    # but the model.
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
