"""Runs over time: where a seed was run more than once, every result that it gave."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, selectinload

from leaderboard.headline import headline_data, row_of
from leaderboard.result import RunRow
from leaderboard.schema import FINISHED, Predictions, Run

__all__ = ["PastRun", "past_runs"]


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """One result, also where a newer one has taken its place, and the code that made it.

    `code` is a version and the commit's first seven digits, "0.1.0 2aed800", with a "+" where files
    differed from the commit; empty where nothing was recorded.
    """

    row: RunRow
    code: str


def past_runs(session: Session) -> list[PastRun]:
    """Every result of each model, task and seed that has several, oldest first.

    They are attempts at one job (`--force`), or jobs that differ in recipe, data or method.
    """
    names = (Run.model, Run.task, Run.seed)
    several = (
        select(*names)
        .where(Run.status == FINISHED)
        .group_by(*names)
        .having(func.count() > 1)
        .subquery()
    )
    same = and_(*(column == several.c[column.key] for column in names))
    scored = selectinload(Run.predictions).defer(Predictions.rows)
    query = select(Run).join(several, same).where(Run.status == FINISHED).order_by(Run.id)
    return [_past(run) for run in session.scalars(query.options(scored))]


def _past(run: Run) -> PastRun:
    return PastRun(row=row_of(run.job_key, headline_data(run)), code=_code(run.provenance or {}))


def _code(provenance: Mapping[str, Any]) -> str:
    found = provenance.get("code")
    if not isinstance(found, dict) or not found.get("version"):
        return ""
    commit = str(found.get("commit") or "")[:7]
    changed = "+" if found.get("dirty") else ""
    return f"{found['version']} {commit}{changed}".strip()
