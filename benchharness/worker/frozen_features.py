"""Techniques that leave an encoder's own weights as they are: frozen features, and adapters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from benchharness.progress import Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.training.compute import Compute
from benchharness.transfer.frozen import add_adapters, freeze, merge_adapters, source_of
from benchharness.worker.technique import Prepared, Technique


def frozen_techniques(recipe: Recipe, compute: Compute, report: Reporter) -> list[Technique]:
    """The one that a recipe asks for."""
    if recipe.encoder.is_frozen:
        return [FrozenFeatures(choice=recipe.encoder.features, compute=compute, report=report)]
    return [Adapters(rank=recipe.encoder.lora_rank)]


@dataclass(kw_only=True)
class FrozenFeatures(Technique):
    """The head alone is trained, on states of the encoder that are computed once."""

    choice: str
    compute: Compute
    report: Reporter
    whole_vocabulary = True  # it is not trained
    every_state = True  # they are computed for every layer, and kept for other heads

    def on_network(self, prepared: Prepared) -> None:
        """Puts the states where tokens were."""
        (task,) = (setup.task for setup in prepared.setups)
        network, splits = prepared.network, prepared.features
        source = source_of(network, splits, task.head, self.compute)
        prepared.features = freeze(network, splits, self.choice, source, self.report)


@dataclass(kw_only=True)
class Adapters(Technique):
    """Low-rank adapters are trained instead of the encoder's weights."""

    rank: int
    provenance: Mapping[str, Any] = field(default_factory=dict)
    whole_vocabulary = True  # it is not trained

    def on_network(self, prepared: Prepared) -> None:
        """Puts them next to queries and values."""
        self.provenance = {"adapters": add_adapters(prepared.network.encoder, self.rank)}

    def before_writing(self, network: nn.Module) -> None:
        """Adds what they have learned to the weights."""
        merge_adapters(network)
