"""Consistency checks of runs from elsewhere, whose digests fit whatever numbers they contain."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from benchharness.errors import StoreError
from benchharness.leaderboard.result import measures_of
from benchharness.leaderboard.store.record import Run, StoredRun, stored_to_run
from benchharness.leaderboard.text import digest
from benchharness.tasks.suites import TASKS

_ROUNDING = 1e-9


class Rows(NamedTuple):
    """Run that has predicted the rows of a split."""

    job_key: str
    attempt: int
    model: str
    finished: str

    def __str__(self) -> str:
        return f"{self.job_key[:12]} (attempt {self.attempt}, {self.model}, of {self.finished})"


Place = tuple[str, str, str]
"""Task, split and fingerprint of the split's rows."""

Known = dict[Place, dict[str, list[Rows]]]
"""Runs of each place by a digest of the ids of their rows; consistent runs of a place have one
digest.
"""


def fitting(runs: Iterable[Run], known: Known | None = None) -> Iterator[Run]:
    """Yield the runs, each after a check of its numbers; raise StoreError if they are impossible.

    Rows are identified by their fingerprint and are not read. The rows that the runs predicted are
    added to `known`.
    """
    for run in runs:
        for split in run.predictions:
            for fault in _faults_of_split(run, split):
                raise _refused(run, f"{split.task} {split.split} {fault}")
        for score in run.scores:
            low, high = _bounds(score.task, score.name)
            if not low - _ROUNDING <= score.value <= high + _ROUNDING:
                raise _refused(
                    run,
                    f"{score.task} {score.split} has the {score.name} {score.value:g}, outside of "
                    f"{low:g} to {high:g}",
                )
        if known is not None:
            note_rows(run, known)
        yield run


def check_runs(runs: Iterable[StoredRun], known: Known) -> None:
    """Check runs from elsewhere before any is stored; raise StoreError like `fitting`."""
    deque(fitting(map(stored_to_run, runs), known), maxlen=0)


def note_rows(run: Run, known: Known) -> None:
    """Add the rows that a run has predicted to `known`."""
    for split in run.predictions:
        if not _is_score_alone(run, split):
            rows = Rows(run.job_key, run.attempt, run.model, run.finished)
            place = split.task, split.split, split.fingerprint
            known.setdefault(place, {}).setdefault(digest(_ids(split)), []).append(rows)


def differing(known: Known, here: Known) -> dict[Place, tuple[Rows, Rows]]:
    """Return the places where runs from elsewhere contradict all stored runs.

    The values are one run of each side. Places are left out if a run from elsewhere is also stored:
    both then come from one store, which had them all.
    """
    found: dict[Place, tuple[Rows, Rows]] = {}
    for place, theirs in known.items():
        ours = here.get(place, {})
        new = [runs[0] for ids, runs in theirs.items() if ids not in ours]
        if new and ours and not _names(theirs) & _names(ours):
            found[place] = new[0], next(iter(ours.values()))[0]
    return found


def _names(runs: Mapping[str, Sequence[Rows]]) -> set[tuple[str, str]]:
    """Return the identities of runs that do not depend on the number of the attempt in a store."""
    return {(run.job_key, run.finished) for some in runs.values() for run in some}


def contradictions(known: Known) -> Iterator[str]:
    """Yield a sentence for each run that contradicts another one, which their own store has too."""
    for place, runs in known.items():
        (first, *_), *others = runs.values()
        for other, *_ in others:
            yield (
                f"the runs {first} and {other} {contradict(place)}; `bench db delete KEY` removes "
                "the wrong one."
            )


def contradict(place: Place) -> str:
    """Return the predicate of a sentence about two contradictory runs."""
    task, split, _ = place
    return (
        f"contradict each other: both say that they have predicted the same rows of {task} {split},"
        " and these have other ids or another order"
    )


def _refused(run: Run, what: str) -> StoreError:
    return StoreError(
        f"the run {run.job_key[:12]} (attempt {run.attempt}) has numbers that do not fit: {what}; "
        "ask whoever has made it for another export."
    )


def _is_score_alone(run: Run, split: SimpleNamespace) -> bool:
    """Return whether the run is an imported score without predictions."""
    return bool(run.job["kind"] == "imported" and not split.rows)


def _faults_of_split(run: Run, split: SimpleNamespace) -> Iterator[str]:
    """Yield the faults of a split's predictions, as predicates of a sentence."""
    if _is_score_alone(run, split):
        return
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


def _ids(split: SimpleNamespace) -> list[Any]:
    return [row.get("id") if isinstance(row, dict) else None for row in split.rows]


def _rows_said(provenance: object, name: str, fingerprint: str) -> int | None:
    """Return the number of a split's rows with that fingerprint, if the run recorded it."""
    splits: Any = provenance.get("data") if isinstance(provenance, Mapping) else None
    said: Any = splits.get(name) if isinstance(splits, Mapping) else None
    if not isinstance(said, Mapping) or said.get("fingerprint") != fingerprint:
        return None
    found = said.get("rows")
    return found if isinstance(found, int) else None


def _bounds(task: str, name: str) -> tuple[float, float]:
    """Return the bounds of a task's score; infinite for an unknown score."""
    measure = measures_of(task).get(name)
    if measure is None:
        return _ANY
    metrics = (*TASKS[task].metrics, *TASKS[task].details)
    return next((m.bounds for m in metrics if m.name == measure.metric), _ANY)


_ANY = (float("-inf"), float("inf"))
