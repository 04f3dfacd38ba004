"""Retrain a stored run whose model was not kept, and compare its predictions with the old ones."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchharness.driver.drive import Watch, drive, unwatched
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.schedule import schedule_missing
from benchharness.driver.start_checkpoints import IS_NO_NETWORK, compared, kept_model, with_needs
from benchharness.engines.local import LocalEngine, Placement
from benchharness.engines.process import ended_at_last, worker_command
from benchharness.engines.slots import find_slots
from benchharness.errors import BenchError, JobError
from benchharness.kept_folders import is_whole
from benchharness.leaderboard.job import METHOD
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import open_store
from benchharness.machine import OF_FILES, OF_GPUS, capability, versions, what_differs
from benchharness.progress import job_name
from benchharness.version import package_version, release_of


def retrain(
    key: str, options: RunOptions, watch: Watch = unwatched, *, anyway: bool = False
) -> tuple[Path, str]:
    """Train the model of a stored run again, unless the model was kept; return the model's folder.

    The model is trained on the same examples and with the same number of threads as before. The
    stored result is not changed.

    Args:
        key: The key of the run, or its first characters.
        options: The options for training; `db` is the database that contains the run.
        watch: A function that creates the watcher, which shows the progress.
        anyway: Whether to train even if the new model would not be bit-identical to the old one.

    Returns:
        The folder of the model, and a sentence that compares the new predictions with the stored
        ones. The sentence is empty if the model was kept or another process has trained it.

    Raises:
        BenchError: The run has no trained network, or retraining would not give the same model and
            `anyway` is not set.
        JobError: Training failed.
    """
    with open_store(options.db, create=False) as store:
        stored = store.result(key)
        if isinstance(stored, Failure):
            what = f"run {stored.job.key[:12]} of {job_name(stored.job)}"
            raise BenchError(
                f"{what} did not finish ({stored.kind}), so it has no model: {stored.error}"
            )
        kind = "zero-shot" if stored.job.is_zero_shot else stored.job.kind
        if kind in IS_NO_NETWORK:
            what = f"run {stored.job.key[:12]} of {stored.job.model}"
            raise BenchError(f"{what} is {IS_NO_NETWORK[kind]}: it has no trained network.")
        jobs = with_needs(store, stored.job)
    folder = kept_model(options.db, stored.job.key)
    if folder is not None and is_whole(folder, stored.job.key):
        return folder, ""
    if not anyway and (differs := _what_differs(stored)):
        raise BenchError(
            f"retraining would not reproduce the model bit by bit: {differs}. Pass "
            "--retrain-anyway to retrain it nevertheless and see how many predictions differ."
        )
    asked = replace(options, keep_models=True, force=False, dry_run=False)
    placement = _placement(stored.provenance["machine"])
    with ended_at_last():
        plan = Plan(jobs=jobs, rows={})
        todo = schedule_missing(plan, placement.slots, asked, only={stored.job.key})
        with drive(todo, placement, asked, watch) as driven:
            found = [each for each in driven.again if each.job.key == stored.job.key]
            failed = [each for each in driven.outcomes if isinstance(each, Failure)]
    folder = kept_model(options.db, stored.job.key)
    if failed or folder is None:
        said = [f"{job_name(each.job)}: {each.error}" for each in failed]
        raise JobError(*(said or [f"{job_name(stored.job)} was not trained: try again."]))
    # `found` is empty if another process has trained the model meanwhile.
    return folder, compared(stored, found[0]) if found else ""


def _what_differs(stored: Result) -> str:
    """Describe the changes since a run because of which a retrained model may have other bits.

    Library versions and the hardware are compared. Returns "" if nothing relevant has changed.
    """
    then = stored.provenance
    idle = {*OF_FILES, *((OF_GPUS,) if then["machine"]["device"] == "cpu" else ())}
    kept = {
        "benchharness": release_of(then["code"]["version"]),
        "method": then["code"]["method"],
        **{name: version for name, version in then["versions"].items() if name not in idle},
        "the processor": then["machine"]["capability"],
        "the device": then["machine"]["device"],
    }
    now = {
        "benchharness": release_of(package_version()),
        "method": METHOD,
        **{name: version for name, version in versions().items() if name not in idle},
        "the processor": capability(),
        "the device": "cpu" if kept["the device"] == "cpu" else "a GPU without bit-identical sums",
    }
    return what_differs(*({n: str(v) for n, v in each.items()} for each in (kept, now)))


def _placement(machine: Mapping[str, Any]) -> Placement:
    """Return a placement with the same numbers of threads and processes as the run had."""
    processes = machine.get("processes", 1)
    found = find_slots("cpu" if machine["device"] == "cpu" else "auto", 1, processes=processes)
    slots = tuple(
        replace(each, environment={**each.environment, "OMP_NUM_THREADS": str(machine["threads"])})
        for each in found
    )
    engine = partial(LocalEngine, slots, command=worker_command(processes))
    return Placement(slots=slots, engine=engine)
