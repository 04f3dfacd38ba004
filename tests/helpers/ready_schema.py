"""The tables of a new SQLite file as the migrations made them in the first one of this process."""

from sqlalchemy.orm import Session

from benchharness.leaderboard.store import database

_made: dict[object, list[str]] = {}
"""By the migrations, the statements that make what they leave in an empty file."""


def run_migrations(session: Session) -> None:
    """Alembic's ways take 30 milliseconds, most of what many a test of the store takes."""
    connection, known = session.connection(), (database.MIGRATIONS, database.revisions())
    if connection.dialect.name != "sqlite" or not _is_empty(session):
        usual(session)
    elif known in _made:
        for statement in _made[known]:
            connection.exec_driver_sql(statement)
    else:
        usual(session)
        dump = connection.connection.driver_connection.iterdump()  # type: ignore[union-attr]
        _made[known] = [line for line in dump if line not in ("BEGIN TRANSACTION;", "COMMIT;")]


def _is_empty(session: Session) -> bool:
    found = session.connection().exec_driver_sql("SELECT count(*) FROM sqlite_master")
    return found.scalar() == 0


usual = database._run_migrations
