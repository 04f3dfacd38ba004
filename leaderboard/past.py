"""Runs over time: where a seed was run more than once, every result that it gave."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from leaderboard.headline import headline_data, row_of
from leaderboard.result import RunRow
from leaderboard.store.schema import FINISHED, Headline, Predictions, Run

__all__ = ["PastRun", "past_runs"]


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """One result, also where a newer one has taken its place, and the code that made it.

    `code` is a version and the commit's first seven digits, "0.1.0 2aed800", with a "+" where files
    differed from the commit; empty where nothing was recorded.
    """

    row: RunRow
    code: str


def past_runs(session: Session, names: Set[tuple[str, str]] | None = None) -> list[PastRun]:
    """Every result of each model, task and seed that has several, oldest first.

    `names` are the models and suites to look at, None for all. They are attempts at one job
    (`--force`), or jobs that differ in recipe, data or method.
    """
    each = func.count().over(partition_by=(Run.model, Run.task, Run.seed)).label("each")
    asked = []
    if names is not None:
        asked.append(Headline.model.in_({model for model, _ in names}))
        asked.append(Headline.suite.in_({suite for _, suite in names}))
    ours = (
        select(Run.id, each)
        .join(Headline, Headline.job_key == Run.job_key)
        .where(*asked, Run.status == FINISHED)
        .subquery()
    )
    several = select(ours.c.id).where(ours.c.each > 1)
    scored = selectinload(Run.predictions).defer(Predictions.rows)
    query = select(Run).where(Run.id.in_(several)).order_by(Run.id).options(scored)
    return [_past(run) for run in session.scalars(query)]


def _past(run: Run) -> PastRun:
    return PastRun(row=row_of(run.job_key, headline_data(run)), code=_code(run.provenance or {}))


def _code(provenance: Mapping[str, Any]) -> str:
    found = provenance.get("code")
    if not isinstance(found, dict) or not found.get("version"):
        return ""
    commit = str(found.get("commit") or "")[:7]
    changed = "+" if found.get("dirty") else ""
    return f"{found['version']} {commit}{changed}".strip()
