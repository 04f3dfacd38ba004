"""The queries behind lists and boards: runs with their scores, without their bulk."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from leaderboard.collapse import curve_flags
from leaderboard.result import RunRow
from leaderboard.schema import FINISHED, Predictions, Run, Score

__all__ = ["finished_among", "newest_runs", "rows_of"]

KEYS_AT_ONCE = 500
"""SQLite takes at least 999 values in one statement (sqlite.org/limits.html, 9)."""

COLUMNS: tuple[Any, ...] = (
    Run.job_key.label("key"),
    Run.model,
    Run.weights,
    Run.recipe,
    Run.recipe_digest,
    Run.task,
    Run.data,
    Run.limit,
    Run.seed,
    Run.precision,
    Run.status,
    Run.fingerprints,
    func.coalesce(Run.seconds, 0.0).label("seconds"),
    func.coalesce(Run.parameters, 0).label("parameters"),
    Run.finished,
    Run.error,
    Run.start_from,
    Run.provenance,
    Run.curve,
)
"""What RunRow takes from `runs`; a failure has taken no seconds that count."""


def newest_runs(*conditions: ColumnElement[bool]) -> Select[Any]:
    """The ids of one run per job: its newest result, or its newest failure where it has none."""
    order = ((Run.status == FINISHED).desc(), Run.attempt.desc())
    place = func.row_number().over(partition_by=Run.job_key, order_by=order).label("place")
    ranked = select(Run.id, place).subquery()
    newest = select(ranked.c.id).where(ranked.c.place == 1)
    return select(Run.id).where(Run.id.in_(newest), *conditions)


def rows_of(session: Session, ids: Select[Any]) -> list[RunRow]:
    """The runs with these ids, in the order they were stored; three queries, however many."""
    scores = _scores(session, ids)
    flags = _flags(session, ids)
    found = session.execute(select(Run.id, *COLUMNS).where(Run.id.in_(ids)).order_by(Run.id))
    return [
        RunRow(
            scores=scores.get(run_id, {}),
            flags=_with_curve_flags(flags.get(run_id, {}), scores.get(run_id, ()), values),
            largest_split=_largest_split(values.pop("provenance")),
            **values,
        )
        for run_id, values in ((row.pop("id"), row) for row in map(dict, found.mappings()))
    ]


def _with_curve_flags(
    flags: Mapping[str, tuple[str, ...]], tasks: Iterable[str], values: dict[str, Any]
) -> Mapping[str, tuple[str, ...]]:
    """The flags by task, with what the run's learning curve says of all its tasks."""
    found = curve_flags([point["loss"] for point in values.pop("curve") or ()])
    named = dict.fromkeys([*flags, *tasks]) if found else flags
    return {task: (*flags.get(task, ()), *found) for task in named}


def _largest_split(provenance: Mapping[str, Any] | None) -> int:
    """The rows of the largest split that a run used; 0 for a failure, which counts none."""
    splits = (provenance or {}).get("data", {})
    return max((split["rows"] for split in splits.values()), default=0)


def finished_among(session: Session, keys: Iterable[str]) -> set[str]:
    """Which of these job keys have a result."""
    wanted = sorted(set(keys))
    found: set[str] = set()
    for start in range(0, len(wanted), KEYS_AT_ONCE):
        some = Run.job_key.in_(wanted[start : start + KEYS_AT_ONCE])
        found.update(session.scalars(select(Run.job_key).where(some, Run.status == FINISHED)))
    return found


def _scores(session: Session, ids: Select[Any]) -> dict[int, dict[str, dict[str, float]]]:
    """Scores by run, task and metric, in the order they were stored."""
    columns = (Score.run_id, Score.task, Score.name, Score.value)
    found: dict[int, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    query = select(*columns).where(Score.run_id.in_(ids)).order_by(Score.id)
    for run_id, task, name, value in session.execute(query):
        found[run_id][task][name] = value
    return {run_id: dict(by_task) for run_id, by_task in found.items()}


def _flags(session: Session, ids: Select[Any]) -> dict[int, dict[str, tuple[str, ...]]]:
    """Flags by run and task, each once for all splits of a task."""
    columns = (Predictions.run_id, Predictions.task, Predictions.flags)
    found: dict[int, dict[str, tuple[str, ...]]] = defaultdict(dict)
    query = select(*columns).where(Predictions.run_id.in_(ids)).order_by(Predictions.id)
    for run_id, task, flags in session.execute(query):
        known = found[run_id].get(task, ())
        if flags:
            found[run_id][task] = tuple(dict.fromkeys((*known, *flags)))
    return found
