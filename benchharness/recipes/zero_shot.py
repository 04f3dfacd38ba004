"""Recipes of jobs without training: zero-shot predictions and measurements."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from benchharness.discovery import extensions
from benchharness.errors import BenchError, ModelError
from benchharness.leaderboard.job import TIMED, ZERO_SHOT, Job, Setting
from benchharness.leaderboard.result import Result
from benchharness.models.folder import MEAN, POOLINGS, stated_pooling
from benchharness.models.spec import ModelSpec
from benchharness.models.weights import reach
from benchharness.progress import Reporter
from benchharness.recipes.resolve import (
    LAST_OF_DECODER,
    MAX_TOKENS,
    POOLING,
    ResolvedRecipe,
    is_decoder,
    resolve_sweep,
    within_reach,
)
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task

USUAL_MAX_TOKENS = Setting(value=512, source="arXiv:1810.04805, A.2: what most encoders take")


OF_FOLDER = "1_Pooling/config.json"
"""File in a sentence-transformers folder that defines the pooling of the model.

It is recorded as the source of the setting `pooling`.
"""


def _pooling(spec: ModelSpec) -> Setting:
    """Return the setting for pooling token states into the vector of a text.

    If the model's folder does not define the pooling, it is the last state for a decoder, and the
    mean of all states for any other model.
    """
    stated = stated_pooling(Path(spec.checkpoint)) if spec.is_folder else ""
    if not stated and is_decoder(spec):
        return LAST_OF_DECODER
    if not stated:
        return Setting(value=MEAN, source="ours: its folder specifies no pooling")
    if (known := POOLINGS.get(stated, stated)) not in POOLINGS.values():
        raise ModelError(
            f"{spec.name} uses the pooling {stated} (1_Pooling/config.json), but only "
            f"{', '.join(POOLINGS.values())} are supported: use another checkpoint."
        )
    return Setting(value=known, source=OF_FOLDER)


def is_readable(task: Task, spec: ModelSpec) -> bool:
    """Return whether a model can read inputs of the length that a task prescribes.

    The result is also true if the task prescribes no length (`Task.longest`), or if the maximum
    length of the model is unlimited or unknown.
    """
    return task.longest <= (reach(spec) or task.longest)


def timed_recipes(
    task: Task, spec: ModelSpec, recipe: str | None, overrides: Mapping[str, str]
) -> Iterator[ResolvedRecipe]:
    """Yield the recipes with which the speed of an encoder is measured on a task.

    These are the recipes with which the encoder would be trained on the task, with two changes:
    their name is "timed", and the maximum length is the one that the task prescribes, if any.

    Args:
        task: Task with the rows that are timed.
        spec: Model to time.
        recipe: Name or path of a recipe, as in `resolve_sweep`.
        overrides: Values as typed after `--set`, keyed by name.

    Raises:
        BenchError: Values are unknown, ill-typed or out of range.
    """
    for point in resolve_sweep(spec, task.name, recipe, overrides):
        reads = {MAX_TOKENS: Setting(value=task.longest, source=task.cite)} if task.longest else {}
        settings = {**point.settings, **reads}
        yield replace(point, name=TIMED, is_own=False, settings=settings)


def zero_shot_recipe(task: str, spec: ModelSpec) -> ResolvedRecipe:
    """Return the recipe with which a model is scored on a task without training.

    If the task's head has no weights, the recipe sets the pooling of the encoder's states and the
    maximum length. Otherwise, the model scores candidate answers as a language model, with a recipe
    from an extension.

    Args:
        task: Full name of the task.
        spec: Model to score.

    Raises:
        BenchError: The task has no candidate answers that a language model could score, or the
            extension is missing.
        ModelError: The model's folder specifies an unsupported pooling.
    """
    found = find_task(task)
    if found.has_weights:
        return zero_shot_scoring().recipe(found, spec)
    settings = {POOLING: _pooling(spec), MAX_TOKENS: USUAL_MAX_TOKENS}
    return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))


class ZeroShotScoring(Protocol):
    """Interface of the extension module that scores candidate answers with a language model."""

    def recipe(self, task: Task, spec: ModelSpec) -> ResolvedRecipe:
        """Return the recipe for scoring a model on a task.

        Args:
            task: Task to score.
            spec: The language model.

        Raises:
            BenchError: The task has no candidate answers.
        """

    def run(self, job: Job, report: Reporter) -> Result:
        """Run a job with a recipe from the method `recipe`, and return the result.

        Args:
            job: Job to run.
            report: Callback that gets the progress of the job.
        """


def zero_shot_scoring() -> ZeroShotScoring:
    """Return the extension module that scores candidate answers with a language model.

    Raises:
        BenchError: No available extension has such a module.
    """
    for each in extensions():
        if each.zero_shot:
            return cast("ZeroShotScoring", import_module(f"{each.package}.{each.zero_shot}"))
    raise BenchError(
        "tasks cannot be scored without training, because the extension cloze is missing: install "
        "the full benchharness package."
    )
