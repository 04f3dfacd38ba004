"""Load a trained model from the folder to which a run wrote it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchharness.errors import BenchError, ModelError
from benchharness.heads import Head, Limits
from benchharness.kept_folders import HEAD, JOB, MANIFEST, TAKEN, DamagedError, check_folder
from benchharness.leaderboard.job import Job
from benchharness.machine import cpu_has_bf16
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.custom import define_task
from benchharness.tasks.task import Task
from benchharness.training.compute import Compute
from benchharness.worker.checkpoint import (
    KeptRun,
    UnfitError,
    folder_of_a_run,
    is_published,
    read_taken,
)
from benchharness.worker.job import find_compute
from benchharness.worker.kept_network import kept_network


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained network, with everything needed to encode rows for it and to decode its logits.

    Attributes:
        folder: Folder from which the model was loaded.
        job: Job of the run that trained the model.
        recipe: Hyperparameters of the run.
        task: Task that the model predicts.
        head: Functions that encode the task's examples and decode logits.
        network: Encoder and head, in evaluation mode on the device of `compute`.
        tokenizer: Tokenizer of transformers.
        limits: Maximum lengths of rows.
        compute: Device and number format.
        flags: Warnings about the scores of the run on the task.
    """

    folder: Path
    job: Job
    recipe: Recipe
    task: Task
    head: Head
    network: nn.Module
    tokenizer: Any
    limits: Limits
    compute: Compute
    flags: tuple[str, ...] = ()


def load_trained(
    folder: Path, task: str | None = None, *, trust: bool = False, precision: str | None = None
) -> TrainedModel:
    """Load the model in a folder that a run or `bench model` wrote.

    All files are compared with their stored digests.

    Args:
        folder: Folder of the model.
        task: Task to predict; None if the model was trained on only one.
        trust: True if the code that comes with the model's checkpoint may run.
        precision: Number format of the computation, such as "bf16". None for that of the run, or
            fp32 if this device does not support it.

    Raises:
        ModelError: The folder has no model, is damaged, was written by an incompatible version, or
            needs code of its checkpoint although `trust` is False.
        BenchError: The model was not trained on the task, was trained on several tasks although
            `task` is None, or needs a plugin that has changed.
    """
    job = read_job(folder)
    is_class = is_published(folder)
    if job.trust.remote_code and not is_class and not trust:
        raise ModelError(
            f"the model in {folder} needs the code in {job.checkpoint}, which runs only if you "
            "trust it: read the code, then pass --trust-remote-code."
        )
    with folder_of_a_run(folder):
        tasks = (str(read_taken(folder)["task"]),) if is_class else job.trained_tasks
    known = ", ".join(tasks)
    if task is None and len(tasks) > 1:
        raise BenchError(f"the model in {folder} was trained on {known}: choose one with --task.")
    task = task or tasks[0]
    if task not in tasks:
        raise BenchError(f"the model in {folder} was not trained on {task}, but on {known}.")
    compute = find_compute(precision or _precision_here(job.precision), deterministic=False)
    try:
        with torch.random.fork_rng(devices=[]):  # restore the caller's random state
            run = kept_network(folder, job, compute, task=task)
    except UnfitError as error:  # leave out its advice, after the last colon, for `bench run`
        raise ModelError(f"{str(error).rpartition(': ')[0]}: train it again.") from error
    (setup,) = run.setups
    return TrainedModel(
        folder=folder,
        job=job,
        recipe=Recipe.from_settings(job.settings),
        task=setup.task,
        head=setup.head,
        network=setup.network,
        tokenizer=run.encoder.tokenizer,
        limits=run.limits,
        compute=compute,
        flags=tuple((KeptRun.read(folder).flags or {}).get(task, ())),
    )


def _precision_here(of_run: str) -> str:
    """Return the run's precision if this device computes it natively, else fp32."""
    if torch.cuda.is_available():
        return of_run if of_run != "bf16" or torch.cuda.is_bf16_supported() else "fp32"
    return "bf16" if of_run == "bf16" and cpu_has_bf16() else "fp32"


def read_job(folder: Path) -> Job:
    """Read the job of the run that trained the model in a folder.

    Raises:
        ModelError: The folder has no complete model, is damaged, or was written by an incompatible
            version.
    """
    if not (folder / MANIFEST).is_file():
        what = "has no manifest.json" if folder.is_dir() else "is not a folder"
        raise ModelError(
            f"{folder} {what}, so it has no model of a run: pass a folder that "
            "`bench run --keep-models` or `bench model` has written."
        )
    try:
        files = check_folder(folder)["files"]
        if not {HEAD, JOB} <= files.keys() and (JOB in files or TAKEN not in files):
            raise DamagedError("is an encoder without a head, which cannot predict")
    except DamagedError as error:
        raise ModelError(f"the model in {folder} {error}: train it again.") from None
    try:
        with folder_of_a_run(folder):
            job = KeptRun.read(folder).job
            Recipe.from_settings(job.settings)
            define_task(job.definition)
    except BenchError as error:
        raise ModelError(
            f"the model in {folder} is from another version of benchharness, and this version "
            f"cannot read its run ({error}): use the other version, or train the model again."
        ) from error
    return job
