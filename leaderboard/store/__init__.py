"""Tables of the store, an SQLite file or PostgreSQL schema with complete results.

A new store is created from these tables; leaderboard/store/migrations upgrades an older one to the
same schema.

    runs          one row per attempt at a job: a result, or a failure with its reason
    scores        one row per metric of a scored split
    predictions   one row per predicted split, the predictions in one compressed column
    headlines     one row per job: the fields that lists show of its listed run (see record.py)
    annotations   names that the user gives to rows, and rows that boards hide (see below)

One transaction writes a result to the first four. JSON is kept as text, not in a database's own
JSON type, so that every database returns the same characters.
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
"""Status of a run with a result; any other status is the kind of a failure."""


class DamagedError(Exception):
    """Error: a column does not contain what was written into it."""


class _Words(TypeDecorator[str]):
    """Text from outside (names, paths, messages), with characters that databases refuse escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Convert a value from Python for the database."""
        return None if value is None else storable(value)


class _Json(TypeDecorator[Any]):
    """Plain data as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Convert a value from Python for the database."""
        return None if value is None else to_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Convert a value from the database to Python."""
        return None if value is None else _parsed(value)


_SMALL = 512
"""Smallest window of zlib in bytes, which every reader supports (RFC 1950, 2.2)."""


class PackedJson(TypeDecorator[Any]):
    """Plain data as JSON text, compressed by zlib: predictions shrink to about a fifth."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Convert a value from Python for the database."""
        text = to_text(value).encode("ascii")
        if len(text) >= _SMALL:
            return zlib.compress(text)
        # Clearing zlib's usual window (a quarter of a megabyte) takes longer than all other steps
        # of storing an imported score, which has no predictions.
        packing = zlib.compressobj(wbits=_SMALL.bit_length() - 1, memLevel=1)
        return packing.compress(text) + packing.flush()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Convert a value from the database to Python."""
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
    Column("exit_code", Integer),  # for a failure
    _needed("digest", Text),  # SHA-256 of the run, to detect damage (see record.py)
    # Copied from the job, for searching and listing.
    _needed("model", _Words),
    _needed("weights", _Words),  # a hub revision, or "sha256:..."
    _needed("recipe", _Words),  # name: "paper"
    _needed("recipe_digest", Text),  # digest of the values of the settings
    _needed("task", _Words),  # "glue/rte"
    _needed("suite", _Words),  # "glue"
    _needed("data", _Words),  # "hub", "mini" or a folder
    Column("limit", BigInteger),  # rows kept of each split
    _needed("seed", BigInteger),
    _needed("precision", _Words),
    Column("start_from", _Words),  # key of the job from which it continued
    # Copied from the result; empty for a failure.
    Column("seconds", Double),
    Column("parameters", BigInteger),
    _needed("finished", _Words),  # UTC, ISO 8601
    _needed("error", _Words),  # a failure's sentence; "" for a result
    _needed("fingerprints", _Json),  # digest by "task:split"
    # Large columns. A failure has only the job and the details.
    _needed("job", _Json),  # Job.to_json
    Column("curve", _Json),  # CurvePoints
    Column("cost", _Json),  # Cost
    Column("provenance", _Json),
    _needed("details", _Words),  # a failure's traceback or log's end
    UniqueConstraint("job_key", "attempt", name="runs_attempt"),
    Index("runs_newest", "job_key", "status", "attempt"),
)
"""Attempts at jobs."""


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
"""Metrics of scored splits, in the metrics' own units; ids keep the order of the metrics."""

PREDICTIONS = Table(
    "predictions",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _run_id(),
    _needed("task", Text),
    _needed("split", Text),
    _needed("fingerprint", Text),  # of the split's examples
    _needed("flags", _Json),  # warnings
    _needed("rows", PackedJson),  # one object per example, in order
    UniqueConstraint("run_id", "task", "split", name="predictions_split"),
)
"""Predicted splits."""

BETWEEN_NAMES = "\n"
"""Separator of the names in a headline's `suite` and `task`, if there are several."""

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
"""Listed run of each job: its newest result, or its newest failure if it has no result."""

ANNOTATIONS = Table(
    "annotations",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _needed("kind", Text),  # "name" or "hidden"
    _needed("runs", Text),  # JSON: the conditions on its runs, as pairs of a field and a value
    _needed("value", Text),  # the name; "" if kind is "hidden"
    UniqueConstraint("kind", "runs", name="annotations_runs"),
)
"""Annotations with the conditions on the runs that they are for."""


# An annotation is for all runs that fulfil its conditions, including those stored later: a new seed
# of a row gets the row's name.

AnnotationKind = Literal["name", "hidden"]

_ROW = ("model", "weights", "kind", "recipe", "overridden", "is_sweep", "precision")
"""Fields that all runs of a row share; the points of a sweep share only these."""


class Annotation(NamedTuple):
    """Annotation: a name (`value`), and conditions on runs as pairs of a field and a value."""

    kind: AnnotationKind
    fields: tuple[tuple[str, str | bool], ...]
    value: str

    def fits(self, run: RunRow) -> bool:
        """Return whether a run, as it was stored, fulfils the conditions."""
        return all(getattr(run, name) == value for name, value in self.fields)


def fields_of(run: RunRow, *, whole_model: bool) -> tuple[tuple[str, str | bool], ...]:
    """Return the conditions of an annotation for a run's row, or for all rows of its model."""
    names: tuple[str, ...] = ("model",) if whole_model else _ROW
    # The points of a sweep have different values and form one row.
    if not whole_model and not run.is_sweep:
        names += ("recipe_digest",)
    return tuple((name, getattr(run, name)) for name in names)


def read_annotations(db: Connection) -> list[Annotation]:
    """Return every annotation, first those for models, so that those for rows override them."""
    rows = db.execute(select(ANNOTATIONS).order_by(ANNOTATIONS.c.id))
    found = [
        Annotation("hidden" if row.kind == "hidden" else "name", _fields(row.runs), row.value)
        for row in rows
    ]
    return sorted(found, key=lambda annotation: len(annotation.fields))


def _fields(text: str) -> tuple[tuple[str, str | bool], ...]:
    return tuple((str(name), value) for name, value in json.loads(text))


def put_annotation(db: Connection, annotation: Annotation) -> None:
    """Write an annotation; replace one for the same runs."""
    take_annotations(db, [annotation])
    row = {"kind": annotation.kind, "runs": _text(annotation), "value": storable(annotation.value)}
    db.execute(insert(ANNOTATIONS), row)


def take_annotations(db: Connection, annotations: Iterable[Annotation]) -> None:
    """Delete the annotations of the same kinds and for the same runs."""
    for annotation in annotations:
        of_runs = ANNOTATIONS.c.runs == _text(annotation)
        same = delete(ANNOTATIONS).where(ANNOTATIONS.c.kind == annotation.kind, of_runs)
        db.execute(same)


def _text(annotation: Annotation) -> str:
    return storable(json.dumps(annotation.fields))


def annotated(runs: Sequence[RunRow], annotations: Sequence[Annotation]) -> list[RunRow]:
    """Return the runs with the names that the user gave them, and marked if boards hide them."""
    return [_annotated(run, annotations) for run in runs] if annotations else list(runs)


def _annotated(run: RunRow, annotations: Iterable[Annotation]) -> RunRow:
    fitting = [annotation for annotation in annotations if annotation.fits(run)]
    if not fitting:
        return run
    # The last name counts, because names of whole models are first; only these have the model as
    # their single condition.
    names = [annotation for annotation in fitting if annotation.kind == "name"]
    return replace(
        run,
        model=names[-1].value if names else run.model,
        is_named=bool(names) and names[-1].fields[1:] != (),
        is_hidden=any(annotation.kind == "hidden" for annotation in fitting),
    )


def stored_names(names: Collection[str], annotations: Iterable[Annotation]) -> set[str]:
    """Return the stored names of the models that may now have one of these names."""
    named = (each for each in annotations if each.kind == "name" and each.value in names)
    return {*names, *(str(dict(each.fields)["model"]) for each in named)}


def annotations_digest(annotations: Iterable[Annotation]) -> str:
    """Return a digest of the annotations: equal annotations have an equal digest."""
    return digest([list(annotation) for annotation in annotations])
