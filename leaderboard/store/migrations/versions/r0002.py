"""Headlines: what lists show, beside the runs; so lists need no index of the runs themselves."""

import json
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

COPIES = (
    *("model", "weights", "recipe", "recipe_digest", "task", "data", "limit", "seed", "precision"),
    *("status", "fingerprints", "finished", "error", "start_from"),
)

RUNS = sa.table("runs", *map(sa.column, ("id", "job_key", "attempt", "suite", *COPIES)))
BULK = sa.table("runs", *map(sa.column, ("id", "seconds", "parameters", "provenance", "curve")))
SCORES = sa.table("scores", *map(sa.column, ("id", "run_id", "task", "name", "value")))
PREDICTIONS = sa.table("predictions", *map(sa.column, ("id", "run_id", "task", "flags")))
HEADLINES = sa.table(
    "headlines",
    *map(sa.column, ("run_id", "job_key", "suite", "task", "model", "status", "content")),
)

AT_ONCE = 500


def upgrade() -> None:
    """Make the table and fill it with the newest result, or else failure, of each job."""
    owner = sa.ForeignKey("runs.id", ondelete="CASCADE")
    op.create_table(
        "headlines",
        sa.Column("run_id", sa.Integer(), owner, primary_key=True, autoincrement=False),
        sa.Column("job_key", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.UniqueConstraint("job_key", name="headlines_job"),
    )
    op.create_index("headlines_suite", "headlines", ["suite", "run_id"])
    op.create_index("headlines_task", "headlines", ["task"])
    op.create_index("headlines_model", "headlines", ["model"])
    connection = op.get_bind()
    for ids in _portions(connection.scalars(_newest()).all()):
        connection.execute(sa.insert(HEADLINES), list(_headlines(connection, ids)))
    op.drop_index("runs_task", "runs")
    op.drop_index("runs_model", "runs")


def _newest() -> sa.Select[Any]:
    order = ((RUNS.c.status == "finished").desc(), RUNS.c.attempt.desc())
    place = sa.func.row_number().over(partition_by=RUNS.c.job_key, order_by=order).label("place")
    ranked = sa.select(RUNS.c.id, place).subquery()
    return sa.select(ranked.c.id).where(ranked.c.place == 1).order_by(ranked.c.id)


def _portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), AT_ONCE):
        yield ids[start : start + AT_ONCE]


def _headlines(connection: sa.Connection, ids: Sequence[int]) -> Iterator[dict[str, Any]]:
    scores, flags = _scores(connection, ids), _flags(connection, ids)
    bulk = {row.id: row for row in connection.execute(sa.select(BULK).where(BULK.c.id.in_(ids)))}
    for row in connection.execute(sa.select(RUNS).where(RUNS.c.id.in_(ids))).mappings():
        number, more = row["id"], bulk[row["id"]]
        splits = json.loads(more.provenance or "{}").get("data")
        counts = splits.values() if isinstance(splits, dict) else ()
        rows = (split.get("rows") for split in counts if isinstance(split, dict))
        content = {
            **{name: row[name] for name in COPIES},
            "fingerprints": json.loads(row["fingerprints"]),
            "seconds": more.seconds or 0.0,
            "parameters": more.parameters or 0,
            "largest_split": max((count for count in rows if isinstance(count, int)), default=0),
            "scores": scores.get(number, {}),
            "flags": flags.get(number, {}),
            "losses": _ends([point["loss"] for point in json.loads(more.curve or "[]")]),
        }
        columns = {name: row[name] for name in ("job_key", "suite", "task", "model", "status")}
        text = json.dumps(content, separators=(",", ":"))
        yield {"run_id": number, **columns, "content": text}


def _scores(connection: sa.Connection, ids: Sequence[int]) -> dict[int, Any]:
    found: dict[int, dict[str, dict[str, float]]] = {}
    query = sa.select(SCORES).where(SCORES.c.run_id.in_(ids)).order_by(SCORES.c.id)
    for row in connection.execute(query):
        found.setdefault(row.run_id, {}).setdefault(row.task, {})[row.name] = row.value
    return found


def _flags(connection: sa.Connection, ids: Sequence[int]) -> dict[int, Any]:
    found: dict[int, dict[str, list[str]]] = {}
    query = sa.select(PREDICTIONS).where(PREDICTIONS.c.run_id.in_(ids))
    for row in connection.execute(query.order_by(PREDICTIONS.c.id)):
        for flag in json.loads(row.flags):
            said = found.setdefault(row.run_id, {}).setdefault(row.task, [])
            said += () if flag in said else (flag,)
    return found


def _ends(losses: Sequence[float]) -> tuple[float, float] | None:
    if len(losses) < 4:
        return None
    quarter = len(losses) // 4
    return fmean(losses[:quarter]), fmean(losses[-quarter:])
