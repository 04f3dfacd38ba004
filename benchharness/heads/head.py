"""What every head type offers to the worker: the road from examples to predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.batching import Features
from benchharness.encoder import Encoder

__all__ = ["Head"]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The functions of one head type; `task` and the examples are of its own classes.

    `encode(examples, tokenizer, max_tokens)` makes the features, `targets(examples, task)`
    what is learned from them, `network(encoder, task)` the module from padded features to logits,
    `loss(logits, targets)` one loss per row, and `decode(logits, examples, task)` one prediction
    per example. Logits return to the head that made the features.
    """

    encode: Callable[[Sequence[Any], Any, int], Features]
    targets: Callable[[Sequence[Any], Any], NDArray[Any]]
    network: Callable[[Encoder, Any], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    decode: Callable[[NDArray[np.float32], Sequence[Any], Any], tuple[Any, ...]]
