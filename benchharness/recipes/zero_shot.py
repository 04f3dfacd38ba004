"""How a task is asked of a language model that nobody trained for it: patterns and words.

The patterns of papers are in fixed/zero_shot.toml, the fields of an example in `heads/cloze.py`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from benchharness.leaderboard.job import TIMED, ZERO_SHOT, Setting
from benchharness.models.folder import stated_pooling
from benchharness.models.spec import ModelSpec
from benchharness.models.weights import reach
from benchharness.recipes.recipe import FIRST, LAST, MEAN
from benchharness.recipes.resolve import (
    LAST_OF_DECODER,
    MAX_TOKENS,
    ResolvedRecipe,
    for_own_rows,
    is_decoder,
    resolve_sweep,
    within_reach,
)
from benchharness.tasks.errors import BenchError, ModelError
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import ChoiceTask, RankingTask, Task, TimedTask

PATTERN, WORD = "pattern", "word "
"""The names of its settings: the pattern's, and what stands before a label in that of its word."""

_MAX_TOKENS = Setting(value=512, source="arXiv:1810.04805, A.2: what most encoders take")


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    text: str
    source: str
    words: Mapping[str, str] = field(default_factory=dict)


POOLING = "pooling"
OF_FOLDER = "1_Pooling/config.json"
"""The source of a pooling that a folder of sentence-transformers states."""

POOLINGS = {"mean_tokens": MEAN, "cls_token": FIRST, "lasttoken": LAST}
"""What sentence-transformers calls them."""


def _pooling(spec: ModelSpec) -> Setting:
    """Return how states become a text's vector: as the folder says, else their mean.

    Where the folder of a decoder says nothing it is the last one.
    """
    stated = stated_pooling(Path(spec.checkpoint)) if spec.is_folder else ""
    if not stated and is_decoder(spec):
        return LAST_OF_DECODER
    if not stated:
        return Setting(value=MEAN, source="ours: its folder says nothing else")
    if (known := POOLINGS.get(stated, stated)) not in POOLINGS.values():
        raise ModelError(
            f"{spec.name} makes a text's vector by {stated} (1_Pooling/config.json), and here are "
            f"{', '.join(POOLINGS.values())}: take another checkpoint."
        )
    return Setting(value=known, source=OF_FOLDER)


_OPTION = _Pattern(text="{asked}", source="arXiv:1910.14659: the option's tokens, after its text")
"""Of every task with options but those of the file."""

_FILE = Path(__file__).parent / "fixed" / "zero_shot.toml"


@cache
def _patterns() -> Mapping[str, _Pattern]:
    """Those of papers, by task."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {task: _Pattern(**lines) for task, lines in tables.items()}


TIMED_DOCUMENTS = {"cpu": 8, "cuda": 1024}
"""How many are timed where no limit is given: some seconds a pass, some minutes in all."""


def is_readable(task: Task, spec: ModelSpec) -> bool:
    """Whether a model reads rows as long as a task's."""
    return task.longest <= (reach(spec) or task.longest)


def timed_recipes(
    task: TimedTask, spec: ModelSpec, recipe: str | None, overrides: Mapping[str, str]
) -> Iterator[ResolvedRecipe]:
    """How an encoder is timed: by the recipe that it is trained by.

    Raises BenchError as `resolve_sweep` does.
    """
    for point in resolve_sweep(spec, task.name, recipe, overrides):
        reads = {MAX_TOKENS: Setting(value=task.longest, source=task.cite)} if task.longest else {}
        settings = {**point.settings, **reads}
        yield replace(point, name=TIMED, is_own=False, settings=settings)


def zero_shot_recipe(task: str, spec: ModelSpec) -> ResolvedRecipe:
    """The pattern of a task, the word for each label, and how much a model reads of an example.

    Raises BenchError for a task without candidates that a language model could score.
    """
    found = find_task(task)
    if isinstance(found, RankingTask):
        settings = {POOLING: _pooling(spec), MAX_TOKENS: _MAX_TOKENS}
        return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))
    known = _patterns().get(found.name, _OPTION if isinstance(found, ChoiceTask) else None)
    if known is None:
        raise BenchError(
            f"{found.name} has no pattern by which a language model could be asked for its "
            "answers: leave the task out, or train on it, with --shots above 0."
        )
    words = {WORD + label: word for label, word in known.words.items()}
    asked = {PATTERN: known.text, **words}
    settings = {name: Setting(value=value, source=known.source) for name, value in asked.items()}
    is_own = found.definition or (isinstance(found, ChoiceTask) and found.weighs_tokens)
    settings = {**settings, MAX_TOKENS: for_own_rows(spec) if is_own else _MAX_TOKENS}
    return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))
