"""Script that Alembic runs: the migrations, on the given connection and in its transaction.

leaderboard.store.database opens both, so that the old schema stays complete if a migration fails.
"""

from alembic import context

from benchharness.leaderboard.store import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SCHEMA,
    render_as_batch=True,  # SQLite alters a table by creating it again
)
context.run_migrations()
