"""From hidden states to the logits of a whole text."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.heads.families import Pooling, find_pooling
from benchharness.pooling.body import trim
from benchharness.pooling.fresh import fresh_linear

__all__ = ["TextClassifier"]


class TextClassifier(nn.Module):
    """Hidden states (rows, tokens, size) and their mask (rows, tokens) to logits (rows, outputs).

    `pooler` is the encoder's own, or None; `beside` is the size of what else the output layer reads
    of every row. Rows are padded at their ends.
    """

    def __init__(
        self, pooler: Any, pooling: Pooling, config: Any, outputs: int, beside: int = 0
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.reads = pooling.reads(config)
        self.dropout_first = nn.Dropout(pooling.dropout_first(config))
        self.dense = _dense(pooler, pooling, config)
        has_dense = not isinstance(self.dense, nn.Identity)
        self.activation = pooling.activation(config) if has_dense else nn.Identity()
        self.norm = getattr(pooler, "norm", None) or nn.Identity()
        self.dropout = nn.Dropout(pooling.dropout(config))
        self.output = fresh_linear(config.hidden_size + beside, outputs, config, pooling.bias)

    @classmethod
    def on(
        cls, network: Any, config: Any, outputs: int, beside: int = 0, is_choice: bool = False
    ) -> "TextClassifier":
        """The classifier for an encoder.

        The encoder's pooler moves into it, or away: left where it is, it would be computed twice or
        in vain. What stands beside comes from the states of single tokens.
        """
        pooling = find_pooling(config.model_type, is_choice)
        pooler = trim(network, per_token=beside > 0)
        return cls(pooler, pooling, config, outputs, beside)

    def read(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The state that is classified, (rows, size)."""
        if self.reads == "late":
            return _mean(self._transform(hidden), mask)
        return STATES[self.reads](hidden, mask)

    def score(self, state: Tensor, beside: Tensor | None = None) -> Tensor:
        """The logits of every row, from what was read and what stands beside it, (rows, size)."""
        if self.reads != "late":
            state = self._transform(state)
        if beside is not None:
            state = torch.cat([state, beside], dim=-1)
        logits: Tensor = self.output(self.dropout(state))
        return logits

    def forward(self, hidden: Tensor, mask: Tensor, beside: Tensor | None = None) -> Tensor:
        """The logits of every row."""
        return self.score(self.read(hidden, mask), beside)

    def _transform(self, states: Tensor) -> Tensor:
        states = self.activation(self.dense(self.dropout_first(states)))
        normed: Tensor = self.norm(states)
        return normed


def _dense(pooler: Any, pooling: Pooling, config: Any) -> nn.Module:
    """The dense layer: ALBERT's and BigBird's pooler is one, MobileBERT's may have none."""
    if pooling.dense == "none":
        return nn.Identity()
    if pooling.dense == "pooler" and pooler is not None:
        dense: nn.Module = pooler if isinstance(pooler, nn.Linear) else _inner(pooler)
        return dense
    return fresh_linear(config.hidden_size, config.hidden_size, config)


def _inner(pooler: Any) -> nn.Module:
    dense: nn.Module = getattr(pooler, "dense", None) or nn.Identity()
    return dense


def _first(hidden: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG001  (as every state)
    return hidden[:, 0]


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    rows = torch.arange(len(hidden), device=hidden.device)
    return hidden[rows, mask.sum(-1) - 1]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean in fp32: a sum of hundreds of states does not fit bf16's three digits."""
    kept = mask[..., None].float()
    return ((hidden.float() * kept).sum(1) / kept.sum(1)).to(hidden.dtype)


STATES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first": _first,
    "last": _last,
    "mean": _mean,
}
