"""Database tables of the store (an SQLite file or a PostgreSQL schema), and its annotations.

A new store is created from these tables. The migrations in leaderboard/store/migrations upgrade an
older store to the same schema.

    runs          one row per attempt at a job: a result, or a failure with its reason
    scores        one row per metric of a scored split
    predictions   one row per predicted split, with all predictions in one compressed column
    headlines     one row per job: the fields of a run that lists show (see record.py)
    annotations   names that the user gave to leaderboard entries, and marks that hide entries

A result is written to the first four tables in one transaction. JSON is stored as text and not in a
database's JSON type, so that every database returns the same characters.
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
"""Status of a run that has a result. The status of a failed run is `Failure.kind`."""


class DamagedError(Exception):
    """Exception for a damaged database, e.g. a stored value that differs from what was written."""


class _Words(TypeDecorator[str]):
    """Column type for arbitrary text (names, paths, messages).

    Characters that databases refuse are escaped.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Convert a Python value to the value that is stored in the database."""
        return None if value is None else storable(value)


class _Json(TypeDecorator[Any]):
    """Column type that stores plain data as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Convert a Python value to the value that is stored in the database."""
        return None if value is None else to_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Convert a value that is stored in the database to a Python value."""
        return None if value is None else _parsed(value)


_SMALL = 512
"""Size in bytes of a small window for zlib, with which shorter texts are compressed. Every
decompressor supports this size (RFC 1950, 2.2).
"""


class PackedJson(TypeDecorator[Any]):
    """Column type that stores plain data as JSON text, compressed with zlib.

    Compression reduces predictions to about a fifth of their size.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes:  # noqa: ARG002
        """Convert plain data (dicts, lists, strings, numbers) to compressed JSON."""
        text = to_text(value).encode("ascii")
        if len(text) >= _SMALL:
            return zlib.compress(text)
        # Use a small window, because allocating zlib's default window (a quarter of a megabyte)
        # would take longer than all other steps of storing an imported score.
        packing = zlib.compressobj(wbits=_SMALL.bit_length() - 1, memLevel=1)
        return packing.compress(text) + packing.flush()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Convert compressed JSON to plain data; raise DamagedError if it cannot be read."""
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
    _needed("attempt", Integer),  # 1, 2, ... for the same job key
    _needed("status", Text),  # "finished", or a Failure's kind
    Column("exit_code", Integer),  # Failure.exit_code; NULL for a result
    _needed("digest", Text),  # SHA-256 of the run, to detect damage (see record.py)
    # Copied from the job, for searching and listing.
    _needed("model", _Words),
    _needed("weights", _Words),  # identity of the weights, see Job.weights
    _needed("recipe", _Words),  # name of the recipe, e.g. "paper"
    _needed("recipe_digest", Text),  # digest of the values of the settings
    _needed("task", _Words),  # e.g. "glue/rte"
    _needed("suite", _Words),  # e.g. "glue"
    _needed("data", _Words),  # source of the data, see Job.data
    Column("limit", BigInteger),  # maximum number of rows per split; NULL for all rows
    _needed("seed", BigInteger),
    _needed("precision", _Words),
    Column("start_from", _Words),  # key of the job whose fine-tuned encoder this job started with
    # Copied from the result, the failure or the job; a failure has no `seconds` and `parameters`.
    Column("seconds", Double),
    Column("parameters", BigInteger),
    _needed("finished", _Words),  # time of the end, see Result.finished
    _needed("error", _Words),  # error message of a failure; "" for a result
    _needed("fingerprints", _Json),  # digests of the splits' examples, keyed by "task:split"
    # Large columns. For a failure, only the job and the details have a value.
    _needed("job", _Json),  # output of Job.to_json
    Column("curve", _Json),  # a list of CurvePoint
    Column("cost", _Json),  # fields of Cost
    Column("provenance", _Json),
    _needed("details", _Words),  # a failure's traceback, or the end of its log
    UniqueConstraint("job_key", "attempt", name="runs_attempt"),
    Index("runs_newest", "job_key", "status", "attempt"),
)
"""Table with one row per attempt at a job. An attempt has a result, or it has failed."""


def _run_id(**more: Any) -> Column[int]:
    return _needed("run_id", Integer, ForeignKey("runs.id", ondelete="CASCADE"), **more)


SCORES = Table(
    "scores",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _run_id(),
    _needed("task", Text),
    _needed("split", Text),
    _needed("name", Text),  # name of the score, e.g. "accuracy_test_mm"
    _needed("value", Double),
    _needed("metric", Text),  # name of the metric, e.g. "accuracy"
    UniqueConstraint("run_id", "task", "split", "name", name="scores_metric"),
)
"""Table with one row per score on a split, on the scale of its metric. Scores of the same run and
split, sorted by id, are in the order of the task's metrics."""

PREDICTIONS = Table(
    "predictions",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _run_id(),
    _needed("task", Text),
    _needed("split", Text),
    _needed("fingerprint", Text),  # digest of the split's examples
    _needed("flags", _Json),  # warnings about the scores
    _needed("rows", PackedJson),  # one prediction per example, in the order of the split
    UniqueConstraint("run_id", "task", "split", name="predictions_split"),
)
"""Table with one row per split that a run predicted. The row contains all predictions."""

BETWEEN_NAMES = "\n"
"""Separator between names in the columns `task` and `suite` of the table `headlines`. A multi-task
run has several names there.
"""

HEADLINES = Table(
    "headlines",
    SCHEMA,
    _run_id(primary_key=True, autoincrement=False),
    _needed("job_key", Text),
    _needed("suite", _Words),
    _needed("task", _Words),
    _needed("model", _Words),
    _needed("status", Text),
    _needed("shared", Text),  # JSON; fields that are equal for all seeds (see record.py)
    _needed("content", _Json),
    UniqueConstraint("job_key", name="headlines_job"),
    Index("headlines_suite", "suite", "run_id"),
    Index("headlines_task", "task"),
    Index("headlines_model", "model"),
)
"""Table with one row (called headline) per job. Lists of runs show these rows.

A headline summarizes the newest result of the job or, if the job has no result, its newest failure.
"""

ANNOTATIONS = Table(
    "annotations",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    _needed("kind", Text),  # "name" or "hidden"
    _needed("runs", Text),  # JSON: conditions on runs, as pairs of a field and a value
    _needed("value", Text),  # name that the runs get; "" if kind is "hidden"
    UniqueConstraint("kind", "runs", name="annotations_runs"),
)
"""Table with one row per annotation. An annotation renames runs on leaderboards, or hides them."""


# An annotation applies to all runs that fulfil its conditions, including runs that are stored
# later. So a run with a new seed gets the same name as the runs with other seeds.

AnnotationKind = Literal["name", "hidden"]

_ROW = ("model", "weights", "kind", "recipe", "overridden", "is_sweep", "precision")
"""Fields that are equal in all runs of a leaderboard entry, even in a sweep."""


class Annotation(NamedTuple):
    """Annotation of runs: a name that the user gave to them, or a mark that hides them.

    Attributes:
        kind: "name" if the runs get a name, "hidden" if they are hidden.
        fields: Conditions on runs, as pairs of a field of RunRow and the value that it must have.
            The annotation applies to every run that fulfils all conditions.
        value: Name that the runs get; empty if `kind` is "hidden".
    """

    kind: AnnotationKind
    fields: tuple[tuple[str, str | bool], ...]
    value: str

    def fits(self, run: RunRow) -> bool:
        """Return whether a run fulfils all conditions of the annotation.

        `run` must have the model name that is stored, not a name that the user gave later.
        """
        return all(getattr(run, name) == value for name, value in self.fields)


def fields_of(run: RunRow, *, whole_model: bool) -> tuple[tuple[str, str | bool], ...]:
    """Return the conditions of an annotation that applies to a run's leaderboard entry.

    Args:
        run: Run of the leaderboard entry.
        whole_model: Return the condition for all runs of the model instead.

    Returns:
        Pairs of a field of RunRow and the value that it must have.
    """
    names: tuple[str, ...] = ("model",) if whole_model else _ROW
    # The runs of a sweep have different hyperparameter values but form one entry.
    if not whole_model and not run.is_sweep:
        names += ("recipe_digest",)
    return tuple((name, getattr(run, name)) for name in names)


def read_annotations(db: Connection) -> list[Annotation]:
    """Return all annotations in the database.

    Annotations of whole models come before annotations of single leaderboard entries. This order is
    needed by `annotated`, which uses the last name that applies to a run.
    """
    rows = db.execute(select(ANNOTATIONS).order_by(ANNOTATIONS.c.id))
    found = [
        Annotation("hidden" if row.kind == "hidden" else "name", _fields(row.runs), row.value)
        for row in rows
    ]
    return sorted(found, key=lambda annotation: len(annotation.fields))


def _fields(text: str) -> tuple[tuple[str, str | bool], ...]:
    return tuple((str(name), value) for name, value in json.loads(text))


def put_annotation(db: Connection, annotation: Annotation) -> None:
    """Store an annotation; it replaces a stored one with the same kind and conditions."""
    take_annotations(db, [annotation])
    row = {"kind": annotation.kind, "runs": _text(annotation), "value": storable(annotation.value)}
    db.execute(insert(ANNOTATIONS), row)


def take_annotations(db: Connection, annotations: Iterable[Annotation]) -> None:
    """Delete annotations from the database.

    Every stored annotation is deleted that has the same kind and the same conditions as one of the
    given `annotations`. The values of annotations are not compared.
    """
    for annotation in annotations:
        of_runs = ANNOTATIONS.c.runs == _text(annotation)
        same = delete(ANNOTATIONS).where(ANNOTATIONS.c.kind == annotation.kind, of_runs)
        db.execute(same)


def _text(annotation: Annotation) -> str:
    return storable(json.dumps(annotation.fields))


def annotated(runs: Sequence[RunRow], annotations: Sequence[Annotation]) -> list[RunRow]:
    """Return the runs with the annotations applied, in the same order.

    In a run to which a name applies, `model` becomes this name, and `is_named` is True if the name
    is for a single leaderboard entry and not for the whole model. In a run that the user has
    hidden, `is_hidden` is True.

    Args:
        runs: Runs as they are stored.
        annotations: Annotations in the order of `read_annotations`.
    """
    return [_annotated(run, annotations) for run in runs] if annotations else list(runs)


def _annotated(run: RunRow, annotations: Iterable[Annotation]) -> RunRow:
    fitting = [annotation for annotation in annotations if annotation.fits(run)]
    if not fitting:
        return run
    # An entry's own name comes last in `annotations`, and has priority over the name of the whole
    # model. Annotations of a whole model have one condition (the model); others have more.
    names = [annotation for annotation in fitting if annotation.kind == "name"]
    return replace(
        run,
        model=names[-1].value if names else run.model,
        is_named=bool(names) and names[-1].fields[1:] != (),
        is_hidden=any(annotation.kind == "hidden" for annotation in fitting),
    )


def stored_names(names: Collection[str], annotations: Iterable[Annotation]) -> set[str]:
    """Return the stored names that `names` may refer to.

    These are `names` themselves, and the stored names of all models that the user has renamed to
    one of `names`.
    """
    named = (each for each in annotations if each.kind == "name" and each.value in names)
    return {*names, *(str(dict(each.fields)["model"]) for each in named)}


def annotations_digest(annotations: Iterable[Annotation]) -> str:
    """Return a digest of the annotations, to detect changes."""
    return digest([list(annotation) for annotation in annotations])
