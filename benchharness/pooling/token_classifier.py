"""From hidden states to the logits of every token."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from benchharness.heads.families import activation_of, classifier_dropout, no_dropout, rate_of
from benchharness.pooling.body import trim
from benchharness.pooling.fresh import fresh_linear

__all__ = ["TokenClassifier"]

TAG_DROPOUTS: Mapping[str, Callable[[Any], float]] = {
    "albert": rate_of("classifier_dropout_prob"),
    "distilbert": rate_of("classifier_dropout", "dropout"),
    "eurobert": rate_of("classifier_dropout"),
    "funnel": rate_of("classifier_dropout", "hidden_dropout"),
    "xlnet": rate_of("classifier_dropout"),
}
"""Where the dropout before the tags is not the classifier's; XLNet's states have been through one,
and EuroBERT has none."""

SPAN_DROPOUTS: Mapping[str, Callable[[Any], float]] = {
    "distilbert": rate_of("qa_dropout"),
    "modernbert": classifier_dropout,
}
"""Most families have no dropout before the two logits of a span."""


class TokenClassifier(nn.Module):
    """Hidden states (rows, tokens, size) to logits (rows, tokens, outputs)."""

    def __init__(self, transform: nn.Module, dropout: float, output: nn.Linear) -> None:
        super().__init__()
        self.transform = transform
        self.dropout = nn.Dropout(dropout)
        self.output = output

    @classmethod
    def for_tags(cls, network: Any, config: Any, outputs: int) -> "TokenClassifier":
        """As transformers' TokenClassification classes; the encoder's pooler goes away."""
        transform = _prediction_head(trim(network, per_token=True), config)
        dropout = TAG_DROPOUTS.get(config.model_type, classifier_dropout)(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, outputs, config))

    @classmethod
    def for_spans(cls, network: Any, config: Any) -> "TokenClassifier":
        """As transformers' QuestionAnswering classes: the logits of the first and the last token.

        For XLNet it is the one called simple, without a beam search.
        """
        pooler = trim(network, per_token=True)
        is_big_bird = config.model_type == "big_bird"
        transform = FeedForward(config) if is_big_bird else _prediction_head(pooler, config)
        dropout = SPAN_DROPOUTS.get(config.model_type, no_dropout)(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, 2, config))

    def read(self, hidden: Tensor) -> Tensor:
        """The states that `output` classifies, (rows, tokens, size)."""
        states: Tensor = self.dropout(self.transform(hidden))
        return states

    def forward(self, hidden: Tensor) -> Tensor:
        """The logits of every token."""
        logits: Tensor = self.output(self.read(hidden))
        return logits


class _PredictionHead(nn.Module):
    """ModernBERT's layers between the states and any logits, which are pretrained."""

    def __init__(self, pooler: Any, config: Any) -> None:
        super().__init__()
        self.dense = pooler.dense
        self.activation = activation_of("classifier_activation")(config)
        self.norm = pooler.norm

    def forward(self, states: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.activation(self.dense(states)))
        return normed


def _prediction_head(pooler: Any, config: Any) -> nn.Module:
    has_head = config.model_type == "modernbert" and pooler is not None
    return _PredictionHead(pooler, config) if has_head else nn.Identity()


class FeedForward(nn.Module):
    """BigBird's block before the logits of a span: two layers beside a path around them."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.wide = fresh_linear(size, inner, config)
        self.activation = activation_of("hidden_act")(config)
        self.narrow = fresh_linear(inner, size, config)
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: Tensor) -> Tensor:
        """The transformed states, of the same shape."""
        inner = self.narrow(self.activation(self.wide(self.dropout(states))))
        normed: Tensor = self.norm(self.dropout(inner) + states)
        return normed
