"""Script that Alembic executes to run the migrations.

It uses the connection and transaction of leaderboard.store.database, so that the old schema is
unchanged if a migration fails.
"""

from alembic import context

from benchharness.leaderboard.store import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SCHEMA,
    render_as_batch=True,  # SQLite can alter most tables only by creating them again
)
context.run_migrations()
