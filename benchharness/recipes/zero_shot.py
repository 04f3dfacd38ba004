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
"""File in a sentence-transformers folder that contains its pooling; it is the source of that
setting."""


def _pooling(spec: ModelSpec) -> Setting:
    """Return the pooling of token states into the vector of a text, as set in the model's folder.

    If the folder does not contain it, a decoder uses its last state, and any other model the mean
    of its states.
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
    """Return whether the longest rows of a task are within the model's maximum length."""
    return task.longest <= (reach(spec) or task.longest)


def timed_recipes(
    task: Task, spec: ModelSpec, recipe: str | None, overrides: Mapping[str, str]
) -> Iterator[ResolvedRecipe]:
    """Yield the recipes for timing an encoder: the recipes of its training under another name.

    Raises:
        BenchError: `resolve_sweep` raises it.
    """
    for point in resolve_sweep(spec, task.name, recipe, overrides):
        reads = {MAX_TOKENS: Setting(value=task.longest, source=task.cite)} if task.longest else {}
        settings = {**point.settings, **reads}
        yield replace(point, name=TIMED, is_own=False, settings=settings)


def zero_shot_recipe(task: str, spec: ModelSpec) -> ResolvedRecipe:
    """Return the recipe with which a task is scored without training.

    If the task's head has no weights, the recipe has the pooling of the encoder and the maximum
    length. Otherwise a language model is asked, and an extension makes the recipe.

    Raises:
        BenchError: The task has no candidate answers that a language model could score.
    """
    found = find_task(task)
    if found.has_weights:
        return zero_shot_scoring().recipe(found, spec)
    settings = {POOLING: _pooling(spec), MAX_TOKENS: USUAL_MAX_TOKENS}
    return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))


class ZeroShotScoring(Protocol):
    """Functions of an extension that scores candidate answers with a language model."""

    def recipe(self, task: Task, spec: ModelSpec) -> ResolvedRecipe:
        """Return the recipe of a task; raise BenchError if it has no candidate answers."""

    def run(self, job: Job, report: Reporter) -> Result:
        """Run a job with this recipe."""


def zero_shot_scoring() -> ZeroShotScoring:
    """Import the functions of the extension that scores candidate answers.

    Raises:
        BenchError: No such extension is available.
    """
    for each in extensions():
        if each.zero_shot:
            return cast("ZeroShotScoring", import_module(f"{each.package}.{each.zero_shot}"))
    raise BenchError("tasks cannot be scored without training: the extension cloze is missing.")
