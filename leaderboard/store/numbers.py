"""What a run from elsewhere says, held against itself and the others: digests fit any numbers."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchharness.leaderboard.result import measures_of
from benchharness.leaderboard.store.record import Run, StoredRun, stored_to_run
from benchharness.leaderboard.text import digest
from benchharness.tasks.errors import StoreError
from benchharness.tasks.suites import TASKS

_ROUNDING = 1e-9


class Rows(NamedTuple):
    """The ids of a split's rows, as a digest, and the run that has them."""

    job_key: str
    attempt: int
    task: str
    split: str
    ids: str


Known = dict[str, Rows]
"""The rows that runs have predicted, by their fingerprint."""


def fitting(runs: Iterable[Run], known: Known | None = None) -> Iterator[Run]:
    """The runs, each after a look at its numbers; StoreError at one that cannot be of its rows.

    Rows are known by their fingerprint: they are not read here. Those met go into `known`.
    """
    known = {} if known is None else known
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


def check_runs(runs: Iterable[StoredRun], known: Known) -> None:
    """Go through runs from elsewhere before any is taken in; StoreError as `fitting` raises it."""
    deque(fitting(map(stored_to_run, runs), known), maxlen=0)


def check_against(known: Known, ours: Iterable[Run]) -> None:
    """Hold the rows of runs from elsewhere against those of the store's own, as `fitting` does."""
    for run in ours:
        for split in run.predictions:
            theirs = known.get(split.fingerprint)
            if theirs and theirs.ids != digest(_ids(split)):
                raise _refused(theirs, f"{theirs.task} {theirs.split} {_OTHER_ROWS}")


_OTHER_ROWS = "has predictions for other rows than another run, and says that they are the same"


def _refused(run: Run | Rows, what: str) -> StoreError:
    return StoreError(
        f"the run {run.job_key[:12]} (attempt {run.attempt}) has numbers that do not fit: {what}; "
        "ask whoever has made it for another export."
    )


def _faults_of_split(run: Run, split: SimpleNamespace, known: Known) -> Iterator[str]:
    """What is wrong with the predictions of a split."""
    if run.job["kind"] == "imported" and not split.rows:
        return  # somebody else has predicted, and says the score alone
    name = f"{split.task}:{split.split}"
    if run.fingerprints.get(name) != split.fingerprint:
        yield "was predicted on other rows than the run says"
    ids = _ids(split)
    if not all(isinstance(each, str) for each in ids):
        yield "has a prediction without the id of its row"
    elif len(set(ids)) < len(ids):
        yield "has two predictions for one row"
    said = _rows_said(run.provenance, name, split.fingerprint)
    if said is not None and said != len(ids):
        yield f"has {len(ids)} predictions for {said} rows"
    rows = Rows(run.job_key, run.attempt, split.task, split.split, digest(ids))
    if known.setdefault(split.fingerprint, rows).ids != rows.ids:
        yield _OTHER_ROWS


def _ids(split: SimpleNamespace) -> list[Any]:
    return [row.get("id") if isinstance(row, dict) else None for row in split.rows]


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
