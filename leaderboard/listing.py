"""The queries behind lists and boards: runs with their scores, without their bulk."""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, Subquery, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, selectinload

from leaderboard.headline import headline_data, row_of
from leaderboard.result import RunRow
from leaderboard.store.schema import FINISHED, Headline, Predictions, Run

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
    table = Headline.__table__  # not by way of the mapper, which takes its time with ten thousand
    query = select(table.c.job_key, table.c.content).where(*conditions).order_by(table.c.run_id)
    return [row_of(key, content) for key, content in session.connection().execute(query)]


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
    known = _values_of(Headline.suite)
    newest = select(func.max(Headline.run_id)).where(Headline.suite == known.c.value)
    query = select(known.c.value).order_by(newest.scalar_subquery().desc())
    return list(session.scalars(query))


def model_names(session: Session) -> list[str]:
    """The names of all models that have runs, in their alphabetical order."""
    known = _values_of(Headline.model)
    return list(session.scalars(select(known.c.value).order_by(known.c.value)))


def _values_of(column: InstrumentedAttribute[str]) -> Subquery:
    """Every value of an indexed column, by a step into the index each; NULL ends the steps."""
    known = select(func.min(column).label("value")).cte(recursive=True)
    following = select(func.min(column)).where(column > known.c.value).scalar_subquery()
    steps = known.union_all(select(following).where(known.c.value.is_not(None)))
    return select(steps.c.value).where(steps.c.value.is_not(None)).subquery()


def count_rows(session: Session, *conditions: ColumnElement[bool]) -> int:
    """How many jobs are listed."""
    return session.scalar(select(func.count()).select_from(Headline).where(*conditions)) or 0


def _portions(keys: Iterable[str]) -> Iterator[Sequence[str]]:
    """The keys, each once, as many at a time as a statement takes."""
    wanted = sorted(set(keys))
    for start in range(0, len(wanted), KEYS_AT_ONCE):
        yield wanted[start : start + KEYS_AT_ONCE]
