"""The SQLite file or PostgreSQL schema that holds results, whole, one transaction each: its tables.

A new store is made of them; leaderboard/store/migrations brings an older one to the same schema.

    runs          one row per attempt at a job: a result, or a failure with its reason
    scores        one row per metric of a scored split
    predictions   one row per predicted split, the predictions in one compressed column
    headlines     one row per job: of the run that lists show, what they show (see record.py)
    annotations   what the user says of rows: a name, or that boards leave them out (annotations.py)

A result enters the first four in one transaction. JSON is kept as text, not in a database's own
JSON type, so that the same characters come back on every database.
"""

import json
import zlib
from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
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
)

from benchharness.leaderboard.text import storable, to_text

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
