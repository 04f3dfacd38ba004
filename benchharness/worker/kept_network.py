"""The network that a run has left in a folder, made again from that folder alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness.encoder import Encoder, load_encoder
from benchharness.leaderboard.job import Job, define_task
from benchharness.recipes.recipe import Recipe
from benchharness.training.compute import Compute
from benchharness.worker.checkpoint import (
    folder_of_a_run,
    is_published,
    load_class,
    load_head,
    load_kept,
)
from benchharness.worker.frozen import LiveEncoder
from benchharness.worker.task_setup import TaskSetup, load_pretrained, network_of
from benchharness.worker.technique import Work, techniques_of


def kept_network(
    folder: Path, job: Job, compute: Compute, *, task: str = "", every_state: bool = False
) -> tuple[TaskSetup, Encoder]:
    """A setup with the network of a checked folder, not to be trained, and the encoder in it.

    The folder is a run's own, or in transformers' form (bench model).

    `job` is the one that has left it; `task` is one of those that it was trained on, by default the
    only one, and `every_state` as for `network_of`. Raises JobError where the weights are not the
    network's, and ModelError where the encoder cannot be made or the folder is not a run's.
    """
    with folder_of_a_run(folder):
        setup, encoder = _made(folder, job, compute, task=task, every_state=every_state)
    setup.network.to(compute.device).eval().requires_grad_(False)
    return setup, encoder


def _made(
    folder: Path, job: Job, compute: Compute, *, task: str, every_state: bool
) -> tuple[TaskSetup, Encoder]:
    define_task(job.definition)
    recipe = Recipe.from_settings(job.settings)
    is_class = is_published(folder)
    if (
        job.trust.remote_code and not is_class
    ):  # the checkpoint's own code is in its own folder alone
        encoder = load_pretrained(job, recipe)
    else:
        whole = recipe.text is not None
        encoder = load_encoder(str(folder.absolute()), None, None, whole=whole)
    name = f"{job.model} (run {job.key[:12]})"
    if not is_class:
        load_kept(encoder, folder, name)  # before a head takes the pooler away
    alone = replace(job, teacher=None)  # who is not asked any more
    work = Work(job=alone, recipe=recipe, compute=compute, report=lambda _: None, folders={})
    techniques = techniques_of(work)
    setup = TaskSetup.of(task or job.task, job.fingerprints, recipe, encoder, techniques)
    network_of([setup], encoder, compute.device, techniques, every_state=every_state)
    network: Any = setup.network
    if is_class:
        pretrained: Any = encoder.network
        pretrained.tie_weights()  # a class's file has one of T5's embeddings
        is_body = recipe.text or recipe.ranking
        load_class(network, folder, "" if is_body else pretrained.base_model_prefix, name)
    if recipe.encoder.is_frozen:
        network.encoder = LiveEncoder(network.encoder, recipe.encoder.features)
    if not is_class:
        tasks = job.trained_tasks
        load_head(network, folder, name, tasks.index(task or job.task) if tasks[1:] else None)
    return setup, encoder
