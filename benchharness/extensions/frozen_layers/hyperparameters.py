"""Hyperparameters of frozen layers."""

from dataclasses import dataclass

from benchharness.hyperparameter import COUNT_OR_NONE, hyperparameter


@dataclass(frozen=True, kw_only=True)
class FrozenLayersOptions:
    """Options for fine-tuning only the top layers of an encoder.

    Attributes:
        frozen_layers: Number of layers, counted from the lowest, that are not trained. The
            embeddings below them are not trained either. 0 to train all layers and the embeddings.
    """

    frozen_layers: int = hyperparameter(
        COUNT_OR_NONE,
        0,
        excludes={
            "features": "freezes the whole encoder",
            "as_text": "trains the whole encoder and decoder",
            "lora_rank": "freezes the whole encoder",
        },
        counts_layers=True,
        aliases="freeze freeze_layers num_frozen_layers n_frozen_layers",
    )
