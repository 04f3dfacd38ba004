"""The tables of a new SQLite file as the migrations made them in the first one of this process."""

from sqlalchemy import Connection

from benchharness.leaderboard.store import database

_made: dict[object, list[str]] = {}
"""By the migrations, the statements that make what they leave in an empty file."""


def run_migrations(connection: Connection) -> None:
    """Alembic's ways take 30 milliseconds, most of what many a test of the store takes."""
    known = (database.MIGRATIONS, database.revisions())
    if connection.dialect.name != "sqlite" or not _is_empty(connection):
        usual(connection)
    elif known in _made:
        for statement in _made[known]:
            connection.exec_driver_sql(statement)
    else:
        usual(connection)
        dump = connection.connection.driver_connection.iterdump()  # type: ignore[union-attr]
        _made[known] = [line for line in dump if line not in ("BEGIN TRANSACTION;", "COMMIT;")]


def _is_empty(connection: Connection) -> bool:
    return connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar() == 0


usual = database._run_migrations
