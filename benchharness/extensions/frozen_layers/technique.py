"""Technique that keeps the embeddings and the lowest layers of an encoder as they are.

Lee et al., arXiv:1911.03090, compare numbers of frozen layers of BERT and RoBERTa.
"""

from typing import Any

from benchharness.encoder import layers_of
from benchharness.errors import ModelError
from benchharness.leaderboard.text import counted
from benchharness.worker.technique import Prepared, Technique


class FrozenLayers(Technique):
    """Technique that trains the head and the top layers, and leaves all weights below unchanged."""

    whole_vocabulary = True  # the embeddings are not trained, so cutting them would save nothing

    def on_network(self, prepared: Prepared) -> None:
        """Freeze the embeddings and the lowest layers of the encoder.

        Raises:
            ModelError: The encoder has fewer layers than should be frozen, or all its layers are
                frozen although a stage of distillation trains only layers.
        """
        recipe, encoder = self.work.recipe, prepared.network.encoder
        count = recipe.added["frozen_layers"].frozen_layers
        freeze_layers(encoder, count)
        first, _ = recipe.first_stage
        if first and count == len(layers_of(encoder).layers):
            raise ModelError(
                f"frozen_layers is {count}, which are all layers, but layer_epochs is {first:g}, "
                "which trains only layers: freeze fewer layers."
            )


def freeze_layers(network: Any, count: int) -> None:
    """Exclude the embeddings and the lowest layers of an encoder from training.

    Their weights get `requires_grad=False`, as in a training program that uses transformers. No
    weight below the lowest trained layer is then trained, so the backward pass ends there. The
    dropout of the frozen layers stays on.

    Modules that all layers share, such as the relative positions of DeBERTa, count as embeddings
    (see `benchharness.encoder.Layers`). The pooler and a final norm belong to the head, and are
    trained.

    Args:
        network: Encoder to freeze.
        count: Number of layers to freeze, from the lowest.

    Raises:
        ModelError: The encoder has fewer layers.
    """
    found = layers_of(network)
    if count > (most := len(found.layers)):
        is_shared = most < getattr(network.config, "num_hidden_layers", 0)
        raise ModelError(
            f"frozen_layers is {count}, but this {network.config.model_type} encoder has only "
            f"{counted(most, 'layer')}{' with weights of its own' * is_shared}: use "
            f"frozen_layers={most} or less."
        )
    for part in (*found.embeddings, *found.layers[:count]):
        part.requires_grad_(False)
