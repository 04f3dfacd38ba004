"""The leaderboard's tables; leaderboard/store/migrations makes them, and must agree.

    runs          one row per attempt at a job: a result, or a failure with its reason
    scores        one row per metric of a scored split
    predictions   one row per predicted split, the predictions in one compressed column
    headlines     one row per job: of the run that lists show, what they show (see record.py)
    annotations   what the user says of rows: a name, or that boards leave them out (annotations.py)

A result enters the first four in one transaction. JSON is kept as text, not in a database's own
JSON type, so that the same characters come back on every database.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from sqlalchemy import (
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.text import storable
from benchharness.tasks.errors import StoreError

# One text for one value: the JSON that is stored, and digests that show damage and sameness.


def to_text(data: Any) -> str:
    """Compact ASCII JSON in the order given; NumPy's numbers become plain ones.

    Raises StoreError, naming the place, for what JSON cannot say: nan, infinity, other objects.
    """
    return _dump(data, sort_keys=False)


def plain(data: Any) -> Any:
    """The same data made of nothing but dict, list, str, int, float, bool and None."""
    return json.loads(to_text(data))


def digest(data: Any) -> str:
    """The SHA-256 (hex) of the data's JSON with sorted keys: equal data, equal digest."""
    return hashlib.sha256(_dump(data, sort_keys=True).encode("ascii")).hexdigest()


def recipe_digest(job: Job) -> str:
    """Twelve hex digits of the values of a job's settings: two recipes of one name differ here.

    Of tasks that are trained together their names are among the values.
    """
    together = job.trained_tasks if len(job.trained_tasks) > 1 else ()
    return digest([job.values, together] if together else job.values)[:12]


def _dump(data: Any, *, sort_keys: bool) -> str:
    try:
        return (_SORTED if sort_keys else _ORDERED).encode(data)
    except (TypeError, ValueError) as error:
        places = ", ".join(_unstorable(data)) or str(error)
        raise StoreError(
            f"this cannot be stored: {places}. The store takes text, finite numbers and what is "
            "made of them; a value that is undefined must be left out or given a flag."
        ) from error


def _number(value: object) -> int | float:
    """What JSON's encoder calls for objects it does not know."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


_SORTED, _ORDERED = (
    json.JSONEncoder(sort_keys=sort_keys, allow_nan=False, separators=(",", ":"), default=_number)
    for sort_keys in (True, False)
)


def _unstorable(data: Any, where: str = "value") -> Iterator[str]:
    """Every place inside the data that JSON cannot say, e.g. "value.scores.f1 is nan"."""
    if isinstance(data, Mapping):
        for name, item in data.items():
            yield from _unstorable(item, f"{where}.{name}")
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        for index, item in enumerate(data):
            yield from _unstorable(item, f"{where}[{index}]")
    elif isinstance(data, Real):
        if not math.isfinite(data):
            yield f"{where} is {float(data)}"
    elif not isinstance(data, str | None):
        yield f"{where} is a {type(data).__name__}"


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


class Base(DeclarativeBase):
    """The metadata that all tables share."""


class Run(Base):
    """One attempt at a job."""

    __tablename__ = "runs"
    __table_args__ = (
        UniqueConstraint("job_key", "attempt", name="runs_attempt"),
        Index("runs_newest", "job_key", "status", "attempt"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_key: Mapped[str] = mapped_column(Text)  # Job.key, 64 hex digits
    attempt: Mapped[int]  # 1, 2, ... within a job key
    status: Mapped[str] = mapped_column(Text)  # "finished", or a Failure's kind
    exit_code: Mapped[int | None]  # of a failure
    digest: Mapped[str] = mapped_column(Text)  # SHA-256 of the run, to tell damage (see record.py)

    # Copied out of the job, to search and list by.
    model: Mapped[str] = mapped_column(_Words)
    weights: Mapped[str] = mapped_column(_Words)  # a hub revision, or "sha256:..."
    recipe: Mapped[str] = mapped_column(_Words)  # its name: "paper"
    recipe_digest: Mapped[str] = mapped_column(Text)  # of the values of its settings
    task: Mapped[str] = mapped_column(_Words)  # "glue/rte"
    suite: Mapped[str] = mapped_column(_Words)  # "glue"
    data: Mapped[str] = mapped_column(_Words)  # "hub", "mini" or a folder
    limit: Mapped[int | None] = mapped_column(BigInteger)  # rows kept of each split
    seed: Mapped[int] = mapped_column(BigInteger)
    precision: Mapped[str] = mapped_column(_Words)
    start_from: Mapped[str | None] = mapped_column(_Words)  # the key of the job it went on from

    # Copied out of the result; empty in a failure.
    seconds: Mapped[float | None] = mapped_column(Double)
    parameters: Mapped[int | None] = mapped_column(BigInteger)

    finished: Mapped[str] = mapped_column(_Words)  # UTC, ISO 8601
    error: Mapped[str] = mapped_column(_Words)  # a failure's sentence; "" in a result
    fingerprints: Mapped[dict[str, str]] = mapped_column(_Json)  # digest by "task:split"

    # The bulk. Only the job and the details are kept of a failure.
    job: Mapped[dict[str, Any]] = mapped_column(_Json)  # Job.to_json
    curve: Mapped[list[Any] | None] = mapped_column(_Json)  # CurvePoints
    cost: Mapped[dict[str, Any] | None] = mapped_column(_Json)  # Cost
    provenance: Mapped[dict[str, Any] | None] = mapped_column(_Json)
    details: Mapped[str] = mapped_column(_Words)  # a failure's traceback or log's end

    scores: Mapped[list["Score"]] = relationship(order_by="Score.id")
    predictions: Mapped[list["Predictions"]] = relationship(order_by="Predictions.id")


class Score(Base):
    """One metric of one scored split, in the metric's own unit; ids keep the metrics' order."""

    __tablename__ = "scores"
    __table_args__ = (UniqueConstraint("run_id", "task", "split", "name", name="scores_metric"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    task: Mapped[str] = mapped_column(Text)
    split: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)  # as people see it: "accuracy_test_mm"
    value: Mapped[float] = mapped_column(Double)
    metric: Mapped[str] = mapped_column(Text)  # "accuracy"


class Predictions(Base):
    """One predicted split: which rows (`fingerprint`), what to know (`flags`), and the rows."""

    __tablename__ = "predictions"
    __table_args__ = (UniqueConstraint("run_id", "task", "split", name="predictions_split"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"))
    task: Mapped[str] = mapped_column(Text)
    split: Mapped[str] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(Text)
    flags: Mapped[list[str]] = mapped_column(_Json)
    rows: Mapped[list[Any]] = mapped_column(PackedJson)  # one object per example, in order


BETWEEN_NAMES = "\n"
"""Stands between the names in a headline's `suite` and `task`, where it has several."""


class Headline(Base):
    """The run that lists show of a job: its newest result, or else its newest failure."""

    __tablename__ = "headlines"
    __table_args__ = (
        UniqueConstraint("job_key", name="headlines_job"),
        Index("headlines_suite", "suite", "run_id"),
        Index("headlines_task", "task"),
        Index("headlines_model", "model"),
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    job_key: Mapped[str] = mapped_column(Text)
    suite: Mapped[str] = mapped_column(_Words)
    task: Mapped[str] = mapped_column(_Words)
    model: Mapped[str] = mapped_column(_Words)
    status: Mapped[str] = mapped_column(Text)
    shared: Mapped[str] = mapped_column(Text)  # JSON; see record.headline_columns
    content: Mapped[dict[str, Any]] = mapped_column(_Json)


class AnnotationRow(Base):
    """An annotation, and which runs it is for: pairs of a field and its value."""

    __tablename__ = "annotations"
    __table_args__ = (UniqueConstraint("kind", "runs", name="annotations_runs"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(Text)  # "name" or "hidden"
    runs: Mapped[str] = mapped_column(Text)  # JSON
    value: Mapped[str] = mapped_column(Text)  # the name; "" of what is hidden
