"""Prompts for scoring a task with a language model.

A prompt is a text pattern and, for classification and regression, a word per label. The patterns
from papers are in patterns.toml, and `scoring.py` inserts an example into a pattern.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchharness.errors import BenchError
from benchharness.leaderboard.job import ZERO_SHOT, Setting
from benchharness.models.spec import ModelSpec
from benchharness.recipes.resolve import MAX_TOKENS, ResolvedRecipe, for_own_rows, within_reach
from benchharness.recipes.zero_shot import USUAL_MAX_TOKENS
from benchharness.tasks.task import ChoiceTask, Task

PATTERN, WORD = "pattern", "word "
"""PATTERN is the name of the setting that contains the pattern. WORD is the prefix of the settings
that contain the words for labels: the name of each is the prefix, followed by the label."""


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    text: str
    source: str
    words: Mapping[str, str] = field(default_factory=dict)


_OPTION = _Pattern(text="{asked}", source="arXiv:1910.14659: the option's tokens, after its text")
"""Pattern for multiple-choice tasks that patterns.toml does not list."""

_FILE = Path(__file__).parent / "patterns.toml"


@cache
def _patterns() -> Mapping[str, _Pattern]:
    """Return the patterns from papers, keyed by task."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {task: _Pattern(**lines) for task, lines in tables.items()}


def prompt_recipe(task: Task, spec: ModelSpec) -> ResolvedRecipe:
    """Return the settings with which a language model scores a task.

    They are the prompt's pattern, the word for each label, and the maximum number of tokens.

    Args:
        task: Task to score.
        spec: The language model, which may limit the number of tokens.

    Raises:
        BenchError: The task has no candidate answers that a language model could score.
    """
    known = _patterns().get(task.name, _OPTION if isinstance(task, ChoiceTask) else None)
    if known is None:
        raise BenchError(
            f"{task.name} has no prompt for a language model, so it cannot be scored without "
            "training: remove the task, or train on it with --shots above 0."
        )
    words = {WORD + label: word for label, word in known.words.items()}
    asked = {PATTERN: known.text, **words}
    settings = {name: Setting(value=value, source=known.source) for name, value in asked.items()}
    is_own = task.definition or (isinstance(task, ChoiceTask) and task.weighs_tokens)
    settings = {**settings, MAX_TOKENS: for_own_rows(spec) if is_own else USUAL_MAX_TOKENS}
    return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))
