"""Hyperparameters of adapters."""

from dataclasses import dataclass

from benchharness.hyperparameter import COUNT_OR_NONE, hyperparameter


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """Options for adapters: `lora_rank` above 0 trains adapters of this rank, not the encoder."""

    lora_rank: int = hyperparameter(
        COUNT_OR_NONE,
        0,
        excludes={
            "features": "freezes the encoder",
            "as_text": "trains the whole encoder and decoder",
        },
        aliases="lora_r rank",
    )
