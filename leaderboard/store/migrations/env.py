"""What Alembic runs: the migrations, on the connection and inside the transaction it is given.

leaderboard.store.database opens both, so that a migration that fails leaves the old schema whole.
"""

from alembic import context

from benchharness.leaderboard.store import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SCHEMA,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
context.run_migrations()
