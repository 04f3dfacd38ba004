"""Headlines: of each job's listed run, what lists and boards need, in one short row.

A run lies in the store with all its bulk, and of most jobs there is one run; a headline is a small
part of it, so that a list of ten thousand reads a few megabytes. It is written with its run, in one
transaction, and says nothing that the run does not say.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from leaderboard.collapse import curve_ends, flags_of_ends
from leaderboard.result import RunRow
from leaderboard.store.schema import FINISHED, Headline, Run
from tasks.errors import StoreError

__all__ = ["headline_data", "place_headline", "replace_headline", "row_of"]

COPIES = (
    "model",
    "weights",
    "recipe",
    "recipe_digest",
    "task",
    "data",
    "limit",
    "seed",
    "precision",
    "status",
    "fingerprints",
    "finished",
    "error",
    "start_from",
)
"""What a RunRow has under the same name as the run."""


def place_headline(session: Session, run: Run) -> None:
    """Let lists show this run in the place of its job's earlier ones.

    A result stays in its place where a newer attempt has failed.
    """
    listed = session.scalar(select(Headline.status).where(Headline.job_key == run.job_key))
    if listed != FINISHED or run.status == FINISHED:
        replace_headline(session, run)


def replace_headline(session: Session, run: Run) -> None:
    """Let lists show this run of its job."""
    session.execute(delete(Headline).where(Headline.job_key == run.job_key))
    session.execute(insert(Headline).values(headline_columns(run)))


def headline_columns(run: Run) -> dict[str, Any]:
    """A stored run's headline, column by column."""
    return {
        "run_id": run.id,
        "job_key": run.job_key,
        "suite": run.suite,
        "task": run.task,
        "model": run.model,
        "status": run.status,
        "content": headline_data(run),
    }


def headline_data(run: Run) -> dict[str, Any]:
    """What `row_of` makes a RunRow of; a failure has taken no seconds that count."""
    return {
        **{name: getattr(run, name) for name in COPIES},
        "seconds": run.seconds or 0.0,
        "parameters": run.parameters or 0,
        "largest_split": _largest_split(run.provenance),
        "scores": _scores(run),
        "flags": _flags(run),
        "losses": curve_ends([point["loss"] for point in run.curve or ()]),
    }


def row_of(key: str, data: Mapping[str, Any]) -> RunRow:
    """The row of a list that a headline's content describes.

    Raises StoreError where it is not what a headline has.
    """
    try:
        return _row(key, dict(data))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"what lists show of the stored run {key[:12]} is damaged ({error}): `bench db check` "
            "says what else is, and `bench db recover` saves the rest."
        ) from error


def _row(key: str, content: dict[str, Any]) -> RunRow:
    found = flags_of_ends(content.pop("losses"))
    flags, scores = content.pop("flags"), content["scores"]
    named = dict.fromkeys([*flags, *scores]) if found else flags
    return RunRow(
        key=key,
        flags={task: (*flags.get(task, ()), *found) for task in named},
        **content,
    )


def _scores(run: Run) -> dict[str, dict[str, float]]:
    """By task and metric, in the order they were stored."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for score in run.scores:
        found[score.task][score.name] = score.value
    return dict(found)


def _flags(run: Run) -> dict[str, list[str]]:
    """By task, each once for all splits of a task."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for predicted in run.predictions:
        if predicted.flags:
            found[predicted.task] += predicted.flags
    return {task: list(dict.fromkeys(flags)) for task, flags in found.items()}


def _largest_split(provenance: Any) -> int:
    """The rows of the largest split that a run used; 0 where it does not say."""
    splits = provenance.get("data") if isinstance(provenance, dict) else None
    counts = splits.values() if isinstance(splits, dict) else ()
    rows = (split.get("rows") for split in counts if isinstance(split, dict))
    return max((count for count in rows if isinstance(count, int)), default=0)
