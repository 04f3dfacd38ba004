"""Load the trained network of a run from the folder that the run has written."""

from pathlib import Path
from typing import Any

from benchharness.encoder import load_encoder
from benchharness.leaderboard.job import Job
from benchharness.plugins import plugins_for
from benchharness.training.compute import Compute
from benchharness.worker.checkpoint import (
    folder_of_a_run,
    is_published,
    load_class,
    load_head,
    load_kept,
)
from benchharness.worker.task_setup import LoadedRun, load_pretrained, load_run
from benchharness.worker.technique import Work


def kept_network(
    folder: Path, job: Job, compute: Compute, *, task: str = "", every_state: bool = False
) -> LoadedRun:
    """Load the trained network of one task from a folder, in evaluation mode and frozen.

    Args:
        folder: Folder that a run has written, or that `bench model` has written in transformers'
            format. The caller must have checked the digests of its files.
        job: Job that trained the network.
        compute: Device and precision.
        task: Name of one of the tasks that the job was trained on. By default, the job's only task
            or the first of several.
        every_state: Whether the last layer returns the states of all tokens, even if the head does
            not read all of them.

    Returns:
        The run, whose only setup contains the network.

    Raises:
        JobError: The weights do not fit the network.
        BenchError: A plugin has changed since the run.
        ModelError: The encoder cannot be loaded, or the contents of the folder are malformed.
    """
    with folder_of_a_run(folder):
        run = _made(folder, job, compute, task=task or job.task, every_state=every_state)
    run.setups[0].network.to(compute.device).eval().requires_grad_(False)
    return run


def _made(folder: Path, job: Job, compute: Compute, *, task: str, every_state: bool) -> LoadedRun:
    plugins_for(job, kept=True)
    work, is_class = Work.to_predict(job, compute), is_published(folder)
    recipe = work.recipe
    if job.trust.remote_code and not is_class:  # the network's code is only in the checkpoint
        encoder = load_pretrained(job, recipe)
    else:
        encoder = load_encoder(str(folder.absolute()), None, None, whole=recipe.uses_decoder)
    name = f"{job.model} (run {job.key[:12]})"
    if not is_class:
        load_kept(encoder, folder, name)  # must precede load_run, whose heads may remove the pooler
    run = load_run(work, encoder, task=task, every_state=every_state)
    network: Any = run.setups[0].network
    if is_class:
        pretrained: Any = encoder.network
        pretrained.tie_weights()  # transformers' format stores T5's shared embeddings only once
        is_body = recipe.uses_decoder or not run.setups[0].task.has_weights
        load_class(network, folder, name, is_body=is_body)
    run.to_predict()
    if not is_class:
        tasks = job.trained_tasks
        load_head(network, folder, name, tasks.index(task) if tasks[1:] else None)
    return run
