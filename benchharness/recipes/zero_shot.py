"""Prompts for scoring tasks with a language model without training.

A prompt is a pattern and, for a classification task, a word for each label.

The patterns from papers are in fixed/zero_shot.toml, and `heads/cloze.py` fills in an example.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from benchharness.errors import BenchError, ModelError
from benchharness.leaderboard.job import TIMED, ZERO_SHOT, Setting
from benchharness.models.folder import MEAN, POOLINGS, stated_pooling
from benchharness.models.spec import ModelSpec
from benchharness.models.weights import reach
from benchharness.recipes.resolve import (
    LAST_OF_DECODER,
    MAX_TOKENS,
    POOLING,
    ResolvedRecipe,
    for_own_rows,
    is_decoder,
    resolve_sweep,
    within_reach,
)
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import ChoiceTask, Task

PATTERN, WORD = "pattern", "word "
"""Name of the setting that contains the pattern, and prefix of the names of settings that contain
the word for a label."""

_MAX_TOKENS = Setting(value=512, source="arXiv:1810.04805, A.2: what most encoders take")


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    text: str
    source: str
    words: Mapping[str, str] = field(default_factory=dict)


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


_OPTION = _Pattern(text="{asked}", source="arXiv:1910.14659: the option's tokens, after its text")
"""Pattern for multiple-choice tasks that fixed/zero_shot.toml does not list."""

_FILE = Path(__file__).parent / "fixed" / "zero_shot.toml"


@cache
def _patterns() -> Mapping[str, _Pattern]:
    """Return the patterns from papers, keyed by task."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {task: _Pattern(**lines) for task, lines in tables.items()}


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
    """Return the zero-shot recipe of a task: its pattern, the labels' words and the maximum length.

    If the head has no weights, the recipe has a pooling instead of a pattern.

    Raises:
        BenchError: The task has no candidate answers that a language model could score.
    """
    found = find_task(task)
    if not found.has_weights:
        settings = {POOLING: _pooling(spec), MAX_TOKENS: _MAX_TOKENS}
        return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))
    known = _patterns().get(found.name, _OPTION if isinstance(found, ChoiceTask) else None)
    if known is None:
        raise BenchError(
            f"{found.name} has no prompt for a language model, so it cannot be scored without "
            "training: remove the task, or train on it with --shots above 0."
        )
    words = {WORD + label: word for label, word in known.words.items()}
    asked = {PATTERN: known.text, **words}
    settings = {name: Setting(value=value, source=known.source) for name, value in asked.items()}
    is_own = found.definition or (isinstance(found, ChoiceTask) and found.weighs_tokens)
    settings = {**settings, MAX_TOKENS: for_own_rows(spec) if is_own else _MAX_TOKENS}
    return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))
