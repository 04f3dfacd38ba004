"""Hyperparameters of adapters."""

from dataclasses import dataclass

from benchharness.hyperparameter import COUNT_OR_NONE, hyperparameter


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """Options for low-rank adapters (LoRA).

    Attributes:
        lora_rank: Rank of the adapters; 0 to train the encoder's own weights without adapters.
    """

    lora_rank: int = hyperparameter(
        COUNT_OR_NONE,
        0,
        excludes={
            "features": "freezes the encoder",
            "as_text": "trains the whole encoder and decoder",
        },
        aliases="lora_r rank",
    )
