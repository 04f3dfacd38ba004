"""Ways of training as hooks: what each changes of a job, at the points where `run_job` asks.

A technique is a class of its own. Those that a job has not are neither asked nor, where they need
modules of their own, imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from benchharness.encoder import Encoder
from benchharness.heads import Head, Limits
from benchharness.progress import Reporter
from benchharness.recipes.recipe import Recipe, TextOptions
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import Task
from benchharness.tasks.text_to_text import rows_to_learn
from benchharness.training.batching import Features
from benchharness.training.compute import Compute
from benchharness.training.vocabulary import UsedVocabulary

if TYPE_CHECKING:
    from benchharness.worker.task_setup import TaskSetup


@dataclass(kw_only=True)
class Prepared:
    """A job's network with the features and rows of its splits, by "task:split"."""

    setups: Sequence["TaskSetup"]
    network: Any
    rows: Mapping[str, SplitRows]
    features: dict[str, Features]
    limits: Limits


class Technique:
    """The hooks, in the order in which a job asks for them; by default they change nothing."""

    provenance: Mapping[str, Any] = {}
    """What a result says of it; read last."""

    whole_vocabulary = False
    """Whether all of the vocabulary is needed, and not the used rows alone."""

    every_state = False
    """Whether the states of all tokens are needed of the last layer, whatever the head reads."""

    def head(self, task: Task, encoder: Encoder) -> Head | None:  # noqa: ARG002
        """The head of a task, None for the one of its type."""
        return None

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:  # noqa: ARG002
        """The rows of a train split as they are trained on."""
        return rows

    def feature_key(self, task: Task) -> str:  # noqa: ARG002
        """What features depend on, besides their head, its limits and the tokenizer."""
        return ""

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Changes the heads, before there is a network."""

    def on_network(self, prepared: Prepared) -> None:
        """Changes the network or the features, once there are both."""

    def on_vocabulary(self, vocabulary: UsedVocabulary) -> None:
        """Learns which rows of the vocabulary are left."""

    def before_writing(self, network: nn.Module) -> None:
        """Makes the encoder one that others can load."""


@dataclass(kw_only=True)
class TextToText(Technique):
    """A task is answered in words, by an encoder with its decoder."""

    options: TextOptions
    whole_vocabulary = True  # words are predicted out of all

    def head(self, task: Task, encoder: Encoder) -> Head:
        """The head that speaks."""
        # What decodes takes a moment to import.
        from benchharness.heads.text import text_head  # noqa: PLC0415

        room = self.options.max_target_tokens or encoder.max_tokens
        return text_head(task, encoder.tokenizer, room)

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """A row for each answer."""
        return rows_to_learn(rows, task)

    def feature_key(self, task: Task) -> str:
        """The task's words, and how long an answer may be."""
        return f" {task.name} {self.options.max_target_tokens}"


class LanguageModelLoss(Technique):
    """The language model's loss is added, which needs every word; the head has it."""

    whole_vocabulary = True


def techniques_of(recipe: Recipe, compute: Compute, report: Reporter) -> list[Technique]:
    """What a recipe asks for."""
    found: list[Technique] = []
    if recipe.text is not None:
        found.append(TextToText(options=recipe.text))
    if recipe.pair is not None and recipe.pair.lm_weight:
        found.append(LanguageModelLoss())
    if recipe.encoder.is_frozen or recipe.encoder.lora_rank:
        from benchharness.worker.frozen_features import frozen_techniques  # noqa: PLC0415  (few do)

        found += frozen_techniques(recipe, compute, report)
    return found
