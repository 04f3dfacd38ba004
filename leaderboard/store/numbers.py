"""Consistency checks for external runs, i.e. runs from an archive or another store.

The checks are needed although runs have digests: whoever changes a number in a run can also compute
a new digest.
"""

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
    """Identification of a run that has predicted a split, for comparisons and messages.

    Attributes:
        job_key: Key of the run's job.
        attempt: Number of the attempt at the job.
        model: Name of the model.
        finished: Time at which the run ended, in UTC as ISO 8601.
    """

    job_key: str
    attempt: int
    model: str
    finished: str

    def __str__(self) -> str:
        return f"{self.job_key[:12]} (attempt {self.attempt}, {self.model}, from {self.finished})"


Place = tuple[str, str, str]
"""Identity of a split: the name of the task, the name of the split, and the digest of its examples.
"""

Known = dict[Place, dict[str, list[Rows]]]
"""Runs that predicted each split. The outer keys are splits. The inner keys are digests of the ids
of the predicted examples: if runs on the same split have different digests, they contradict each
other, because they predicted different examples, or the same examples in another order.
"""


def fitting(runs: Iterable[Run], known: Known | None = None) -> Iterator[Run]:
    """Check the scores and the predictions of each run, then yield the run.

    The data set itself is not read, so only impossible scores and inconsistent predictions are
    found.

    Args:
        runs: Runs to check.
        known: Mapping to which each run is added, by the digest of its predicted example ids; None
            if this is not needed.

    Raises:
        StoreError: If a score is impossible (e.g. an accuracy of 1.2), or if predictions are
            inconsistent (e.g. two predictions for the same example).
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
                    f"{score.task} {score.split} has the {score.name} {score.value:g}, which is "
                    f"outside of {low:g} to {high:g}",
                )
        if known is not None:
            note_rows(run, known)
        yield run


def check_runs(runs: Iterable[StoredRun], known: Known) -> None:
    """Check runs from another store before any of them is stored.

    Args:
        runs: Runs to check.
        known: Mapping to which each run is added, by the digest of its predicted example ids.

    Raises:
        StoreError: If a run was changed, or has impossible scores or inconsistent predictions.
    """
    deque(fitting(map(stored_to_run, runs), known), maxlen=0)


def note_rows(run: Run, known: Known) -> None:
    """Add a run to `known` under each split that the run predicted.

    An imported score without predictions is not added.
    """
    for split in run.predictions:
        if not _is_score_alone(run, split):
            rows = Rows(run.job_key, run.attempt, run.model, run.finished)
            place = split.task, split.split, split.fingerprint
            known.setdefault(place, {}).setdefault(digest(_ids(split)), []).append(rows)


def differing(known: Known, here: Known) -> dict[Place, tuple[Rows, Rows]]:
    """Find the splits on which an external run (from another store) contradicts all stored runs.

    Two runs contradict each other if they claim to have predicted the same split, but predicted
    different examples, or the same examples in another order.

    Args:
        known: External runs that predicted each split.
        here: Stored runs that predicted each split.

    Returns:
        Pairs of an external run and a stored run that contradict each other, keyed by split. A
        split is left out if one of its external runs is stored here too, because the other store
        then contained the contradiction already.
    """
    found: dict[Place, tuple[Rows, Rows]] = {}
    for place, theirs in known.items():
        ours = here.get(place, {})
        new = [runs[0] for ids, runs in theirs.items() if ids not in ours]
        if new and ours and not _names(theirs) & _names(ours):
            found[place] = new[0], next(iter(ours.values()))[0]
    return found


def _names(runs: Mapping[str, Sequence[Rows]]) -> set[tuple[str, str]]:
    """Return (job key, end time) of each run, which identify the run in every store."""
    return {(run.job_key, run.finished) for some in runs.values() for run in some}


def contradictions(known: Known) -> Iterator[str]:
    """Yield messages about runs that contradict each other (see `differing`).

    On each split, runs with equal example ids form a set. For every set except the first, a message
    names one of its runs and one of the first set.
    """
    for place, runs in known.items():
        (first, *_), *others = runs.values()
        for other, *_ in others:
            yield (
                f"the runs {first} and {other} {contradict(place)}; `bench db delete KEY` removes "
                "the wrong one."
            )


def contradict(place: Place) -> str:
    """Return the phrase "contradict each other: ..." about two runs on a split.

    The caller puts the names of the two runs before it.
    """
    task, split, _ = place
    return (
        f"contradict each other: both claim to have predicted the same rows of {task} {split}, but "
        "their predictions have different ids or a different order"
    )


def _refused(run: Run, what: str) -> StoreError:
    return StoreError(
        f"the run {run.job_key[:12]} (attempt {run.attempt}) is inconsistent: {what}. Ask the "
        "author of the file for another export."
    )


def _is_score_alone(run: Run, split: SimpleNamespace) -> bool:
    """Return whether the run is only an imported score, without predictions."""
    return bool(run.job["kind"] == "imported" and not split.rows)


def _faults_of_split(run: Run, split: SimpleNamespace) -> Iterator[str]:
    """Check the predictions of a split, and yield a phrase for each problem.

    An example is "has two predictions for one row".
    """
    if _is_score_alone(run, split):
        return
    name = f"{split.task}:{split.split}"
    if run.fingerprints.get(name) != split.fingerprint:
        yield "was predicted on other rows than the run states"
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
    """Return the number of examples in a split according to the run's provenance.

    None if the run did not record it, or recorded it for another fingerprint.
    """
    splits: Any = provenance.get("data") if isinstance(provenance, Mapping) else None
    said: Any = splits.get(name) if isinstance(splits, Mapping) else None
    if not isinstance(said, Mapping) or said.get("fingerprint") != fingerprint:
        return None
    found = said.get("rows")
    return found if isinstance(found, int) else None


def _bounds(task: str, name: str) -> tuple[float, float]:
    """Return the lowest and highest possible value of a task's score; infinite if unknown."""
    measure = measures_of(task).get(name)
    if measure is None:
        return _ANY
    metrics = (*TASKS[task].metrics, *TASKS[task].details)
    return next((m.bounds for m in metrics if m.name == measure.metric), _ANY)


_ANY = (float("-inf"), float("inf"))
