"""What a run from elsewhere says, held against itself and the others: digests fit any numbers."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from benchharness.leaderboard.result import measures_of
from benchharness.leaderboard.store.record import Run, StoredRun, stored_to_run
from benchharness.leaderboard.text import digest
from benchharness.tasks.errors import StoreError
from benchharness.tasks.suites import TASKS

_ROUNDING = 1e-9


def fitting(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs, each after a look at its numbers; StoreError at one that cannot be of its rows.

    Rows are known by their fingerprint: they are not read here.
    """
    known: dict[str, str] = {}  # the ids that rows of a fingerprint have, as a digest
    for run in runs:
        for split in run.predictions:
            for fault in _faults_of_split(run, split, known):
                raise _refused(run, f"{split.task} {split.split} {fault}")
        for score in run.scores:
            low, high = _bounds(score.task, score.name)
            if not low - _ROUNDING <= score.value <= high + _ROUNDING:
                raise _refused(
                    run,
                    f"{score.task} {score.split} has the {score.name} {score.value:g}, outside of "
                    f"{low:g} to {high:g}",
                )
        yield run


def check_runs(runs: Iterable[StoredRun]) -> None:
    """Go through runs from elsewhere before any is taken in; StoreError as `fitting` raises it."""
    deque(fitting(map(stored_to_run, runs)), maxlen=0)


def _refused(run: Run, what: str) -> StoreError:
    return StoreError(
        f"the run {run.job_key[:12]} (attempt {run.attempt}) has numbers that do not fit: {what}; "
        "ask whoever has made it for another export."
    )


def _faults_of_split(run: Run, split: SimpleNamespace, known: dict[str, str]) -> Iterator[str]:
    """What is wrong with the predictions of a split."""
    if run.job["kind"] == "imported" and not split.rows:
        return  # somebody else has predicted, and says the score alone
    name = f"{split.task}:{split.split}"
    if run.fingerprints.get(name) != split.fingerprint:
        yield "was predicted on other rows than the run says"
    ids = [row.get("id") if isinstance(row, dict) else None for row in split.rows]
    if not all(isinstance(each, str) for each in ids):
        yield "has a prediction without the id of its row"
    elif len(set(ids)) < len(ids):
        yield "has two predictions for one row"
    said = _rows_said(run.provenance, name, split.fingerprint)
    if said is not None and said != len(ids):
        yield f"has {len(ids)} predictions for {said} rows"
    if known.setdefault(split.fingerprint, found := digest(ids)) != found:
        yield "has predictions for other rows than another run, and says that they are the same"


def _rows_said(provenance: object, name: str, fingerprint: str) -> int | None:
    """How many rows of that fingerprint a split had, where the run has noted it."""
    splits: Any = provenance.get("data") if isinstance(provenance, Mapping) else None
    said: Any = splits.get(name) if isinstance(splits, Mapping) else None
    if not isinstance(said, Mapping) or said.get("fingerprint") != fingerprint:
        return None
    found = said.get("rows")
    return found if isinstance(found, int) else None


def _bounds(task: str, name: str) -> tuple[float, float]:
    """Between what a task's score is; anything for one that nobody here knows."""
    measure = measures_of(task).get(name)
    if measure is None:
        return _ANY
    metrics = (*TASKS[task].metrics, *TASKS[task].details)
    return next((m.bounds for m in metrics if m.name == measure.metric), _ANY)


_ANY = (float("-inf"), float("inf"))
