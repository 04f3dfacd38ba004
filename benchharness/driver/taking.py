"""The model of a stored run, by its key or by a row of a board, in transformers' own form."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchharness.driver.start_checkpoints import kept_model
from benchharness.leaderboard.boards.board import select_entry_or_run
from benchharness.leaderboard.result import Failure, Result, predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.progress import duration, job_name
from benchharness.stored import ANYWHERE, Within, find_rows
from benchharness.stored.predictions import StoredPredictions
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import find_task

if TYPE_CHECKING:
    from benchharness.trained.take import Taken

_KEY = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run of a store, which is the database `db`; `note` says of which seeds it is one.

    `seeds` are the scores of these, by seed.
    """

    store: Store
    db: str
    result: Result
    note: str = ""
    seeds: Mapping[int, float] = field(default_factory=dict)


def find_run(store: Store, db: str, name: str, within: Within = ANYWHERE) -> Found:
    """The run that a key begins, or of a row's seeds the one nearest to their median.

    Raises BenchError where a row has runs of
    several tasks, or where nothing was trained.
    """
    note, seeds = "", {}
    if _KEY.fullmatch(name) and store.runs(key=name):
        found = store.result(name)
    else:
        rows = find_rows(store, [name], within, select=select_entry_or_run)
        cells = [cell for each in rows for cell in each.entries[0].cells.values()]
        cells = [cell for cell in cells if any(cell.task in each.tasks for each in rows)]
        if len({tuple(run.key for run in cell.runs) for cell in cells}) > 1:
            tasks = ", ".join(dict.fromkeys(cell.task for cell in cells))
            raise BenchError(f"{name} has runs of several tasks: say --task and one of {tasks}.")
        cell = cells[0]
        apart = [abs(value - cell.median) for value in cell.values]
        run = cell.runs[apart.index(min(apart))]
        seeds = {each.seed: value for each, value in zip(cell.runs, cell.values, strict=True)}
        if len(cell.runs) > 1:
            note = (
                f"this is seed {run.seed} of {len(cell.runs)}, the nearest to their median: its "
                f"score is one of {len(cell.runs)}, not the best of them."
            )
        found = store.result(run.key)
    if isinstance(found, Failure):
        raise BenchError(
            f"run {found.job.key[:12]} ({job_name(found.job)}) left no model: {found.error}"
        )
    if found.job.kind != "model":
        raise BenchError(f"run {found.job.key[:12]} of {found.job.model} trained no model.")
    return Found(store=store, db=db, result=found, note=note, seeds=seeds)


def kept_folder(found: Found) -> Path:
    """Where a run's model is kept; BenchError where it was not."""
    job, took = found.result.job, found.result.cost.seconds
    folder = kept_model(found.db, job.key)
    if folder is None:
        raise BenchError(
            f"the model of {job.key[:12]} ({job_name(job)}) was not kept: bench model "
            f"{job.key[:12]} --retrain trains it again (about {duration(took)}) "
            "and compares its answers with the stored ones."
        )
    return folder


def take_run(found: Found, to: Path, *, task: str = "", trust: bool = False) -> "Iterator[Taken]":
    """Writes the model of a run into `to`, or those of several tasks into a folder each in it.

    `task` is the only one that is wanted of these. Raises BenchError as `trained.take.take` does.
    """
    # With torch, which commands that read the store do without.
    trained, load = (import_module(f"benchharness.trained.{name}") for name in ("take", "load"))
    folder, result = kept_folder(found), found.result
    tasks = result.job.trained_tasks
    for name in (task,) if task in tasks else tasks:
        place = to if len(tasks) == 1 or task else to / name.replace("/", "-")
        trained.check_place(place, result.job.key)
        model = load.load_trained(folder, name, trust=trust, precision="fp32")
        dev = () if trained.class_of(model).lacking else _dev_rows(found, name)
        yield trained.take(model, result, place, [trained.Dev(*each) for each in dev])


def _dev_rows(found: Found, name: str) -> Iterator[tuple[Any, ...]]:
    """The splits by which a model is judged, as the run has predicted them."""
    stored, task, result = StoredPredictions(found.store), find_task(name), found.result
    known = {each.name: each for each in result.evaluations if each.task == name}
    wanted = [f"{name}:{split}" for split in task.dev_splits] or [*known]
    for split in wanted:
        if split in known:
            yield split, stored.rows(result.job, split), predictions_of(known[split])
