"""From hidden states to the logits of a whole text, by the way each family was published with.

A family is one entry of POOLINGS. The layers are ours, so that every family has every head; a test
copies the weights of transformers' own classes and gets their logits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "DEFAULT",
    "POOLINGS",
    "Pooling",
    "TextClassifier",
    "classifier_dropout",
    "drop_pooler",
    "fresh_linear",
]


def classifier_dropout(config: Any) -> float:
    """The dropout before a classifier, as transformers reads it from a config."""
    rate = getattr(config, "classifier_dropout", None)
    return float(getattr(config, "hidden_dropout_prob", 0.1) if rate is None else rate)


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """What happens to the first token's state on its way to the classifier.

    Dropout (where `dropout_first`), a dense layer, `activation`, dropout, a linear layer.
    `pretrained` says that the dense layer is the encoder's own `pooler.dense`; otherwise it starts
    from random numbers. `dropout` reads the rate from the config, as transformers does.
    """

    activation: Callable[[Tensor], Tensor]
    dropout: Callable[[Any], float] = classifier_dropout
    dropout_first: bool = False
    pretrained: bool = False


DEFAULT = Pooling(activation=torch.tanh)
"""For families without an entry: BERT's way, with a dense layer that starts from random numbers."""

POOLINGS: Mapping[str, Pooling] = {
    "bert": Pooling(activation=torch.tanh, pretrained=True),
    "roberta": Pooling(activation=torch.tanh, dropout_first=True),
    "distilbert": Pooling(
        activation=torch.relu, dropout=lambda config: float(config.seq_classif_dropout)
    ),
}
"""By transformers' model_type."""


class TextClassifier(nn.Module):
    """Hidden states (rows, tokens, size) to logits (rows, outputs).

    `beside` is the size of what else the output layer reads of every row.
    """

    def __init__(
        self, dense: nn.Linear, pooling: Pooling, config: Any, outputs: int, beside: int = 0
    ) -> None:
        super().__init__()
        self.dense = dense
        self.pooling = pooling
        self.dropout = nn.Dropout(pooling.dropout(config))
        self.output = fresh_linear(dense.out_features + beside, outputs, config)

    @classmethod
    def on(cls, network: Any, config: Any, outputs: int, beside: int = 0) -> "TextClassifier":
        """The classifier for an encoder.

        The encoder's pooler moves into it, or away: left where it is, it would be computed twice or
        in vain.
        """
        pooling = POOLINGS.get(config.model_type, DEFAULT)
        pooler = drop_pooler(network)
        if pooling.pretrained and pooler is not None:
            return cls(pooler.dense, pooling, config, outputs, beside)
        size = config.hidden_size
        return cls(fresh_linear(size, size, config), pooling, config, outputs, beside)

    def forward(self, hidden: Tensor, beside: Tensor | None = None) -> Tensor:
        """The logits of every row, from its first token and what stands beside it, (rows, size)."""
        state = hidden[:, 0]  # (rows, size)
        if self.pooling.dropout_first:
            state = self.dropout(state)
        state = self.pooling.activation(self.dense(state))
        if beside is not None:
            state = torch.cat([state, beside], dim=-1)
        logits: Tensor = self.output(self.dropout(state))
        return logits


def drop_pooler(network: Any) -> Any:
    """Takes the pooler off an encoder and returns it; None where it has none."""
    pooler = getattr(network, "pooler", None)
    if pooler is not None:
        network.pooler = None
    return pooler


def fresh_linear(inputs: int, outputs: int, config: Any) -> nn.Linear:
    """A linear layer as transformers initialises it (modeling_utils, _init_weights)."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=float(getattr(config, "initializer_range", 0.02)))
    nn.init.zeros_(layer.bias)
    return layer
