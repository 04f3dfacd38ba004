"""The queries behind lists and boards: runs with their scores, without their bulk."""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, selectinload

from leaderboard.headline import headline_data, row_of
from leaderboard.result import RunRow
from leaderboard.schema import FINISHED, Headline, Predictions, Run

__all__ = [
    "attempts_at",
    "count_rows",
    "finished_among",
    "listed_rows",
    "listed_with",
    "model_names",
    "suite_names",
]

KEYS_AT_ONCE = 500
"""SQLite takes at least 999 values in one statement (sqlite.org/limits.html, 9)."""


def listed_rows(session: Session, *conditions: ColumnElement[bool]) -> list[RunRow]:
    """One row per job, oldest first: its newest result, or its newest failure if it has none."""
    query = select(Headline.job_key, Headline.content).where(*conditions).order_by(Headline.run_id)
    return [row_of(key, content) for key, content in session.execute(query)]


def listed_with(session: Session, keys: Iterable[str]) -> list[RunRow]:
    """The listed rows of these jobs, as far as they are stored."""
    return [
        row for some in _portions(keys) for row in listed_rows(session, Headline.job_key.in_(some))
    ]


def attempts_at(session: Session, key: str) -> list[RunRow]:
    """Every attempt at a job, oldest first."""
    scored = selectinload(Run.predictions).defer(Predictions.rows)
    query = select(Run).where(Run.job_key == key).order_by(Run.attempt).options(scored)
    return [row_of(run.job_key, headline_data(run)) for run in session.scalars(query)]


def finished_among(session: Session, keys: Iterable[str]) -> set[str]:
    """Which of these job keys have a result."""
    found: set[str] = set()
    for some in _portions(keys):
        query = select(Run.job_key).where(Run.job_key.in_(some), Run.status == FINISHED)
        found.update(session.scalars(query))
    return found


def suite_names(session: Session) -> list[str]:
    """The suites that have runs, that of the newest run first."""
    newest = {
        name: session.scalar(select(func.max(Headline.run_id)).where(Headline.suite == name)) or 0
        for name in _distinct(session, Headline.suite)
    }
    return sorted(newest, key=lambda suite: -newest[suite])


def model_names(session: Session) -> list[str]:
    """The names of all models that have runs, in their alphabetical order."""
    return list(_distinct(session, Headline.model))


def _distinct(session: Session, column: InstrumentedAttribute[str]) -> Iterator[str]:
    """Every value of an indexed column: one step into the index each, however many runs have it."""
    value = session.scalar(select(func.min(column)))
    while value is not None:
        yield value
        value = session.scalar(select(func.min(column)).where(column > value))


def count_rows(session: Session, *conditions: ColumnElement[bool]) -> int:
    """How many jobs are listed."""
    return session.scalar(select(func.count()).select_from(Headline).where(*conditions)) or 0


def _portions(keys: Iterable[str]) -> Iterator[Sequence[str]]:
    """The keys, each once, as many at a time as a statement takes."""
    wanted = sorted(set(keys))
    for start in range(0, len(wanted), KEYS_AT_ONCE):
        yield wanted[start : start + KEYS_AT_ONCE]
