"""Facts: what only labels said of a run, and which metric each score is of.

They are read out of the labels of old runs, once, by the rules of leaderboard/store/labels.py,
which never change; what a user has called a recipe's file is told from what a label means by the
sources of the run's values. The digest of a run stays what it is. What that does not cover has one
of its own.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from benchharness.leaderboard.store.labels import facts_of, metric_of
from benchharness.leaderboard.text import storable

revision = "0003"
down_revision = "0002"

RUNS = sa.table("runs", *map(sa.column, ("id", "digest", "job", "facts", "facts_digest")))
SCORES = sa.table(
    "scores", *map(sa.column, ("id", "run_id", "task", "split", "name", "value", "metric"))
)
HEADLINES = sa.table("headlines", *map(sa.column, ("run_id", "content")))

AT_ONCE = 500

Scores = Sequence[sa.Row[Any]]


def upgrade() -> None:
    """Add the columns, which SQLite takes only with a default, and fill them."""
    op.add_column("runs", sa.Column("facts", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("runs", sa.Column("facts_digest", sa.Text(), nullable=False, server_default=""))
    op.add_column("scores", sa.Column("metric", sa.Text(), nullable=False, server_default=""))
    connection = op.get_bind()
    names = sa.select(SCORES.c.split, SCORES.c.name).distinct()
    for split, name in connection.execute(names).all():
        which = (SCORES.c.split == split) & (SCORES.c.name == name)
        connection.execute(sa.update(SCORES).where(which).values(metric=metric_of(split, name)))
    numbers = connection.scalars(sa.select(RUNS.c.id).order_by(RUNS.c.id)).all()
    for start in range(0, len(numbers), AT_ONCE):
        ids = numbers[start : start + AT_ONCE]
        scores: defaultdict[int, list[sa.Row[Any]]] = defaultdict(list)
        query = sa.select(SCORES).where(SCORES.c.run_id.in_(ids)).order_by(SCORES.c.id)
        for score in connection.execute(query):
            scores[score.run_id].append(score)
        _fill_facts(connection, ids, scores)
        _fill_headlines(connection, ids, scores)


def _fill_facts(
    connection: sa.Connection, ids: Sequence[int], scores: Mapping[int, Scores]
) -> None:
    columns = (RUNS.c.id, RUNS.c.digest, RUNS.c.job)
    for run in connection.execute(sa.select(*columns).where(RUNS.c.id.in_(ids))).all():
        try:
            facts = facts_of(json.loads(run.job))
        except (AttributeError, KeyError, TypeError, ValueError):
            continue  # damaged, which is said when it is read
        covered = [run.digest, facts, [score.metric for score in scores.get(run.id, ())]]
        text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
        values = {
            "facts": json.dumps(facts, separators=(",", ":")),
            "facts_digest": hashlib.sha256(text.encode("ascii")).hexdigest(),
        }
        connection.execute(sa.update(RUNS).where(RUNS.c.id == run.id).values(**values))


def _fill_headlines(
    connection: sa.Connection, ids: Sequence[int], scores: Mapping[int, Scores]
) -> None:
    query = (
        sa.select(HEADLINES, RUNS.c.facts)
        .join_from(HEADLINES, RUNS, HEADLINES.c.run_id == RUNS.c.id)
        .where(RUNS.c.id.in_(ids))
    )
    for headline in connection.execute(query).all():
        content = json.loads(headline.content)
        facts = json.loads(headline.facts) or facts_of({**content, "settings": {}})
        content |= {name: facts[name] for name in ("kind", "overridden", "is_sweep")}
        content |= {name: storable(facts[name]) for name in ("recipe", "source")}
        content["scores"] = [
            [score.task, score.split, score.metric, score.name, score.value]
            for score in scores.get(headline.run_id, ())
        ]
        text = json.dumps(content, separators=(",", ":"))
        which = HEADLINES.c.run_id == headline.run_id
        connection.execute(sa.update(HEADLINES).where(which).values(content=text))
