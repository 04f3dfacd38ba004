"""Hyperparameters of adapters."""

from dataclasses import dataclass

from benchharness.hyperparameter import BELOW_ONE, COUNT_OR_NONE, hyperparameter, one_of

QUERY_VALUE, ALL_LINEAR = "query-value", "all-linear"


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """Options for low-rank adapters (LoRA).

    Attributes:
        lora_rank: Rank of the adapters; 0 to train the encoder's own weights without adapters.
        lora_alpha: Scale of the adapters: their output is multiplied by `lora_alpha / lora_rank`.
            0 for the value of `lora_rank`, so that the factor is 1.
        lora_dropout: Dropout rate of the input of each adapter in training.
        lora_targets: "query-value" to adapt the layers that compute queries and values, or
            "all-linear" to adapt all linear layers of the encoder's layers.
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
    lora_alpha: int = hyperparameter(COUNT_OR_NONE, 0, needs="lora_rank")
    lora_dropout: float = hyperparameter(BELOW_ONE, 0.0, needs="lora_rank")
    lora_targets: str = hyperparameter(
        one_of(QUERY_VALUE, ALL_LINEAR),
        QUERY_VALUE,
        needs="lora_rank",
        aliases="target_modules lora_modules",
    )
