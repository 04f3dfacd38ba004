"""Options for timing an encoder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import COUNT, hyperparameter, one_of

SHAPES: Mapping[str, tuple[int, int]] = {
    "bert-base": (12, 768),
    "bert-large": (24, 1024),
    "bert-small": (4, 512),
    "bert-mini": (4, 256),
}
"""Number of layers and hidden size of BERT's variants, keyed by the name of the variant
(arXiv:1810.04805, section 3; arXiv:1908.08962, table 1)."""


@dataclass(frozen=True, kw_only=True)
class TimedOptions:
    """Options for timing an encoder in comparison with a BERT that has random weights.

    The two models take turns, pass by pass.

    Attributes:
        heads: Head types of the tasks to which these options apply.
        reference: Size of the BERT: a key of `SHAPES`.
        passes: Number of times that each of the two models predicts all documents, and number of
            times that it trains on them.
    """

    heads: ClassVar = ("timed",)
    reference: str = hyperparameter(
        one_of(*SHAPES),
        "bert-base",
        stated=True,
        excludes=dict.fromkeys(("features", "lora_rank"), "is not supported when models are timed"),
    )
    passes: int = hyperparameter(COUNT, 5, stated=True)
