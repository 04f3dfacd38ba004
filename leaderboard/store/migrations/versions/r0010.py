"""The schema of 0.1.0; stores of before have revisions 0001 to 0004."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = None


def upgrade() -> None:
    """Make the tables; leaderboard/store/__init__.py says what is in them."""
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), primary_key=True),
        *_texts("job_key"),
        sa.Column("attempt", sa.Integer(), nullable=False),
        *_texts("status"),
        sa.Column("exit_code", sa.Integer()),
        *_texts("digest", "model", "weights", "recipe", "recipe_digest", "task", "suite", "data"),
        sa.Column("limit", sa.BigInteger()),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        *_texts("precision"),
        sa.Column("start_from", sa.Text()),
        sa.Column("seconds", sa.Double()),
        sa.Column("parameters", sa.BigInteger()),
        *_texts("finished", "error", "fingerprints", "job"),
        sa.Column("curve", sa.Text()),
        sa.Column("cost", sa.Text()),
        sa.Column("provenance", sa.Text()),
        *_texts("details"),
        sa.UniqueConstraint("job_key", "attempt", name="runs_attempt"),
    )
    op.create_index("runs_newest", "runs", ["job_key", "status", "attempt"])
    op.create_table(
        "scores",
        sa.Column("id", sa.Integer(), primary_key=True),
        _run_id(),
        *_texts("task", "split", "name"),
        sa.Column("value", sa.Double(), nullable=False),
        *_texts("metric"),
        sa.UniqueConstraint("run_id", "task", "split", "name", name="scores_metric"),
    )
    op.create_table(
        "predictions",
        sa.Column("id", sa.Integer(), primary_key=True),
        _run_id(),
        *_texts("task", "split", "fingerprint", "flags"),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.UniqueConstraint("run_id", "task", "split", name="predictions_split"),
    )
    op.create_table(
        "headlines",
        _run_id(is_key=True),
        *_texts("job_key", "suite", "task", "model", "status", "shared", "content"),
        sa.UniqueConstraint("job_key", name="headlines_job"),
    )
    op.create_index("headlines_suite", "headlines", ["suite", "run_id"])
    op.create_index("headlines_task", "headlines", ["task"])
    op.create_index("headlines_model", "headlines", ["model"])
    op.create_table(
        "annotations",
        sa.Column("id", sa.Integer(), primary_key=True),
        *_texts("kind", "runs", "value"),
        sa.UniqueConstraint("kind", "runs", name="annotations_runs"),
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _run_id(*, is_key: bool = False) -> sa.Column[int]:
    owner = sa.ForeignKey("runs.id", ondelete="CASCADE")
    how: dict[str, Any] = {"primary_key": True, "autoincrement": False} if is_key else {}
    return sa.Column("run_id", sa.Integer(), owner, nullable=False, **how)
