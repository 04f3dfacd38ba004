"""The schema of 0.1.0; stores of before have revisions 0001 to 0004."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = None


def upgrade() -> None:
    """Make the tables; leaderboard/store/schema.py says what is in them."""
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("job_key", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("weights", sa.Text(), nullable=False),
        sa.Column("recipe", sa.Text(), nullable=False),
        sa.Column("recipe_digest", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("limit", sa.BigInteger()),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("precision", sa.Text(), nullable=False),
        sa.Column("start_from", sa.Text()),
        sa.Column("seconds", sa.Double()),
        sa.Column("parameters", sa.BigInteger()),
        sa.Column("finished", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("fingerprints", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("curve", sa.Text()),
        sa.Column("cost", sa.Text()),
        sa.Column("provenance", sa.Text()),
        sa.Column("details", sa.Text(), nullable=False),
        sa.UniqueConstraint("job_key", "attempt", name="runs_attempt"),
    )
    op.create_index("runs_newest", "runs", ["job_key", "status", "attempt"])
    op.create_table(
        "scores",
        sa.Column("id", sa.Integer(), primary_key=True),
        _run_id(),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.UniqueConstraint("run_id", "task", "split", "name", name="scores_metric"),
    )
    op.create_table(
        "predictions",
        sa.Column("id", sa.Integer(), primary_key=True),
        _run_id(),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("rows", sa.LargeBinary(), nullable=False),
        sa.UniqueConstraint("run_id", "task", "split", name="predictions_split"),
    )
    op.create_table(
        "headlines",
        _run_id(is_key=True),
        sa.Column("job_key", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("shared", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.UniqueConstraint("job_key", name="headlines_job"),
    )
    op.create_index("headlines_suite", "headlines", ["suite", "run_id"])
    op.create_index("headlines_task", "headlines", ["task"])
    op.create_index("headlines_model", "headlines", ["model"])
    op.create_table(
        "annotations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("runs", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.UniqueConstraint("kind", "runs", name="annotations_runs"),
    )


def _run_id(*, is_key: bool = False) -> sa.Column[int]:
    owner = sa.ForeignKey("runs.id", ondelete="CASCADE")
    how: dict[str, Any] = {"primary_key": True, "autoincrement": False} if is_key else {}
    return sa.Column("run_id", sa.Integer(), owner, nullable=False, **how)
