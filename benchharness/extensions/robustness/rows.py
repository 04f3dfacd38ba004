"""Read the rows of challenge sets, and the dev rows of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchharness.errors import BenchError, DataError
from benchharness.extensions.robustness.sets import ChallengeSet
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.sharing import path_label
from benchharness.stored.predictions import StoredPredictions, UnreadableError
from benchharness.tasks.examples import Example
from benchharness.tasks.read import SplitRows, read, subset
from benchharness.tasks.sources import Data, missing_files
from benchharness.tasks.suites import distinct_title
from benchharness.tasks.task import PairTask, Task, check_labels, suffix_of


@dataclass(frozen=True, kw_only=True)
class SetRows:
    """Rows of a challenge set.

    Attributes:
        challenge: Challenge set.
        rows: Rows of its split.
        data: Label of the source of the rows, in which the path of a folder is shortened.
    """

    challenge: ChallengeSet
    rows: SplitRows
    data: str


@dataclass(frozen=True, kw_only=True)
class DevRows:
    """Dev rows of a task, and the perturbations to apply to them.

    Attributes:
        splits: Rows of each English dev split, keyed by split.
        perturbations: Names of the perturbations to apply.
        seed: Seed of the perturbations.
    """

    splits: Mapping[str, tuple[Example, ...]]
    perturbations: tuple[str, ...]
    seed: int


def is_found(challenge: ChallengeSet, data: Data) -> bool:
    """Return whether a data source has the rows of a challenge set, without reading them."""
    source = challenge.task.source
    if data.files is None:
        return bool(source.hub)
    return not missing_files(source, [challenge.split], data, alone=False)


def read_set(challenge: ChallengeSet, data: Data, limit: int | None) -> SetRows:
    """Read the rows of a challenge set.

    Args:
        challenge: Challenge set.
        data: Source of the rows: the hub, or a folder with the official files.
        limit: Number of rows in a fixed stratified subset; None for all rows.

    Raises:
        BenchError: The labels are hidden.
        DataError: The rows are missing or malformed, or all have the same class.
    """
    task, title, split = challenge.task, challenge.title, challenge.split
    if data.files is None and not task.source.hub:
        lacking = f"{title} is not on the hub"
    else:
        missing = missing_files(task.source, [split], data)
        lacking = f"{data} has no rows of {title} ({missing})" if missing else ""
    if lacking:
        wanted = " or ".join(task.source.splits[split].files)
        raise DataError(f"{lacking}: pass --sets-data DIR, a folder with {wanted}.")
    rows = read(task, split, data, limit)
    check_labels(task, split, rows.examples)
    classes = {each.traits.stratum for each in rows.examples}
    if isinstance(task, PairTask) and len(classes) < 2:
        raise DataError(
            f"{title} in {data} has only rows of the class {classes.pop()!r} "
            f"({len(rows.examples)} rows), so a model that always gives this answer is right: get "
            "the complete official file."
        )
    label = data.source if data.folder is None else path_label(str(data.folder))
    return SetRows(challenge=challenge, rows=rows, data=label)


def read_dev(
    stored: StoredPredictions, task: Task, jobs: Sequence[Job], limit: int | None
) -> dict[str, tuple[Example, ...]]:
    """Read the labelled English dev rows that runs have predicted, keyed by split.

    Args:
        stored: Reader of the rows, which compares them with the digests that the runs recorded.
        task: Task of the runs.
        jobs: Jobs of the runs.
        limit: Maximum number of rows per split; None for all rows of the runs.

    Raises:
        BenchError: The task has no labelled rows in English, or they cannot be read.
    """
    is_multilingual = "test_en" in task.source.splits  # XTREME has a test split per language
    names = [
        name
        for name in task.dev_splits
        if not (is_multilingual and suffix_of(name) not in ("", "_en"))
        and all(f"{task.name}:{name}" in job.fingerprints for job in jobs)
    ]
    if not names:
        raise BenchError(
            f"{distinct_title(task.name)} has no dev rows with labels in English that can be "
            "changed: leave out --perturb."
        )
    try:
        found = {name: stored.labelled_examples(f"{task.name}:{name}", jobs) for name in names}
    except UnreadableError as error:
        raise DataError(f"{distinct_title(task.name)}: {error}") from error
    if limit is None:
        return found
    return {name: tuple(subset(examples, limit)) for name, examples in found.items()}
