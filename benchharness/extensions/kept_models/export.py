"""Export a stored run's model, given by its key or leaderboard entry, to transformers' format."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_high, median_low
from typing import TYPE_CHECKING, Any

from benchharness.driver.start_checkpoints import kept_model
from benchharness.errors import BenchError
from benchharness.kept_folders import check_place
from benchharness.leaderboard.boards.board import select_entry_or_run
from benchharness.leaderboard.result import Failure, Result, predictions_of
from benchharness.leaderboard.statistics import standing
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.progress import duration, job_name
from benchharness.stored import ANYWHERE, Within, find_rows
from benchharness.stored.predictions import StoredPredictions
from benchharness.tasks.suites import distinct_title, find_task

if TYPE_CHECKING:
    from benchharness.extensions.kept_models.save_pretrained import Taken

_KEY = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """Stored run that was found by its key, or as one seed of a leaderboard entry.

    Attributes:
        store: Store that contains the run.
        db: The store's database, as in `--db`.
        result: Result of the run.
        task: Task to export if the run was trained on several; empty for all tasks.
        note: Sentence with the seed of the run and with whether its score is the best of all seeds;
            empty if the run was found by its key, or if there is only one seed.
        seeds: Scores of the runs with all seeds, keyed by seed; empty if the run was found by its
            key.
    """

    store: Store
    db: str
    result: Result
    task: str = ""
    note: str = ""
    seeds: Mapping[int, float] = field(default_factory=dict)


def find_run(store: Store, db: str, name: str, within: Within = ANYWHERE) -> Found:
    """Find a run by its key, or by the name of a leaderboard entry.

    Of a leaderboard entry, the run whose score is nearest to the median over seeds is returned.

    Args:
        store: Store that contains the run.
        db: The store's database, as in `--db`.
        name: First characters of the run's key, or the name of the entry.
        within: Suites, tasks and data in which the entry is searched. If it has exactly one task,
            only this task will be exported.

    Raises:
        BenchError: There is no such run or entry, the entry has runs of several tasks, or the run
            did not train a model.
    """
    task = within.tasks[0] if len(within.tasks) == 1 else ""
    if _KEY.fullmatch(name) and store.runs(key=name):
        return replace(_trained(store, db, store.result(name)), task=task)
    rows = find_rows(store, [name], within, select=select_entry_or_run)
    cells = [cell for each in rows for cell in each.entries[0].cells.values()]
    cells = [cell for cell in cells if any(cell.task in each.tasks for each in rows)]
    if len({tuple(run.key for run in cell.runs) for cell in cells}) > 1:
        tasks = ", ".join(dict.fromkeys(cell.task for cell in cells))
        raise BenchError(f"{name} has runs of several tasks: pass --task with one of {tasks}.")
    scores = zip((run.key for run in cells[0].runs), cells[0].values, strict=True)
    return replace(find_seed(store, db, dict(scores)), task=task)


def find_seed(store: Store, db: str, scores: Mapping[str, float], seed: int | None = None) -> Found:
    """Find the run with a given seed among runs that differ only in their seed.

    Args:
        store: Store that contains the runs.
        db: The store's database, as in `--db`.
        scores: Scores of the runs, keyed by run key.
        seed: Seed to find; None for the seed whose score is nearest to the median. If two are
            equally near, it is the one with the lower score.

    Raises:
        BenchError: No run has this seed, or the run did not train a model.
    """
    rows = {row.seed: row.key for row in store.runs_with(scores)}
    seeds = {number: scores[key] for number, key in sorted(rows.items())}
    why = "is"
    if seed is None:
        # If the number of seeds is even, the two middle scores are equally near to the median, and
        # the lower one is used. Distances are not compared, because rounding makes them unequal.
        middle = median_low(seeds.values())
        seed = next(number for number, score in seeds.items() if score == middle)
        is_tie = middle != median_high(seeds.values())
        why = f"is the {'lower of the two' if is_tie else 'one'} nearest to the median,"
    if seed not in seeds:
        known = ", ".join(map(str, seeds))
        raise BenchError(f"no run has seed {seed}: choose one of {known}, or omit the seed.")
    note = ""
    if len(seeds) > 1:
        count, best = len(seeds), standing(seeds[seed], seeds.values())
        note = (
            f"this is the model of seed {seed}, whose score {why} {100 * seeds[seed]:.2f}. "
            f"It is {best} of {count} seeds."
        )
    return replace(_trained(store, db, store.result(rows[seed])), note=note, seeds=seeds)


def _trained(store: Store, db: str, found: Result | Failure) -> Found:
    if isinstance(found, Failure):
        raise BenchError(
            f"run {found.job.key[:12]} ({job_name(found.job)}) failed, so it has no model: "
            f"{found.error}"
        )
    if found.job.kind != "model":
        raise BenchError(f"run {found.job.key[:12]} of {found.job.model} did not train a model.")
    return Found(store=store, db=db, result=found)


def folder_of_key(db: str, key: str) -> Path:
    """Return the folder with the kept model of a run.

    Args:
        db: The database, as in `--db`.
        key: First characters of the run's key.

    Raises:
        BenchError: There is no such run, it did not train a model, or the model was not kept.
    """
    with open_store(db, create=False) as store:
        return kept_folder(_trained(store, db, store.result(key)))


def kept_folder(found: Found) -> Path:
    """Return the folder of a run's kept model.

    Raises:
        BenchError: The model was not kept.
    """
    job, took = found.result.job, found.result.cost.seconds
    folder = kept_model(found.db, job.key)
    if folder is None:
        raise BenchError(
            f"the model of {job.key[:12]} ({job_name(job)}) was not kept: `bench model "
            f"{job.key[:12]} --retrain` trains it again (about {duration(took)}) "
            "and compares its predictions with the stored ones."
        )
    return folder


def check_learned(found: Found) -> None:
    """Raise BenchError if a run has learned nothing on one of the tasks that are exported."""
    result = found.result
    for name in _tasks_of(found):
        if result.has_collapsed(name):
            key, flags = result.job.key[:12], ", ".join(result.flags[name])
            raise BenchError(
                f"the run {key} ({job_name(result.job)}) learned nothing on "
                f"{distinct_title(name)} ({flags}), so its model was not exported. To export it "
                f"with a warning, run `bench model {key} --to DIR --collapsed-too` (in Python, "
                "pass collapsed_too=True)."
            )


def _tasks_of(found: Found) -> tuple[str, ...]:
    tasks = found.result.job.trained_tasks
    return (found.task,) if found.task in tasks else tasks


def take_run(
    found: Found,
    to: Path,
    *,
    trust: bool = False,
    collapsed_too: bool = False,
    anyway: bool = False,
) -> "Iterator[Taken]":
    """Export a run's model; yield the exported folder of each task.

    Args:
        found: Run to export.
        to: Folder to write. If several tasks are exported, each gets a subfolder.
        trust: True if code that comes with the checkpoint may run.
        collapsed_too: True to export a model even if it has learned nothing.
        anyway: True to export a model even if its predictions differ from the stored ones by more
            than rounding explains.

    Raises:
        BenchError: The model was not kept or cannot be loaded, it has learned nothing, or the
            folder contains other files than an earlier export of this run.
        JobError: The exported model computes something else than the run, its predictions differ
            from the stored ones by more than rounding explains, or the disk is full.
    """
    # This is imported late because of torch, which commands that only read the store do not need.
    from benchharness.extensions.kept_models import check, load, save_pretrained

    result = found.result
    if not collapsed_too:
        check_learned(found)
    folder, is_one = kept_folder(found), found.task or len(result.job.trained_tasks) == 1
    for name in _tasks_of(found):
        place = to if is_one else to / name.replace("/", "-")
        check_place(place, result.job.key)
        model = load.load_trained(folder, name, trust=trust, precision="fp32")
        rows = [check.Dev(*each) for each in _dev_rows(found, name)]
        yield save_pretrained.take(model, result, place, rows, anyway=anyway)


def _dev_rows(found: Found, name: str) -> Iterator[tuple[Any, ...]]:
    """Yield (name, rows, stored predictions) for each split on which the model is evaluated."""
    stored, task, result = StoredPredictions(found.store), find_task(name), found.result
    known = {each.name: each for each in result.evaluations if each.task == name}
    wanted = [f"{name}:{split}" for split in task.dev_splits] or [*known]
    for split in wanted:
        if split in known:
            rows = stored.rows(result.job, split)
            yield split, rows, predictions_of(known[split], rows.examples)
