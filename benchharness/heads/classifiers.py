"""Classification layers on hidden states: for a whole text, or for every token.

The layers are benchharness's own, so that every head works on every family. POOLINGS describes the
layers of each family.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

from benchharness.encoder import Encoder
from benchharness.encoder.network import is_foreign
from benchharness.errors import ModelError
from benchharness.models.families import CHECKED

# The layers with which each family was published to classify a text: one entry of POOLINGS.
#
# A test copies the weights of transformers' classes into these layers and compares the logits.


Activation = Callable[[Tensor], Tensor]


def rate_of(*names: str, default: float = 0.0) -> Callable[[Any], float]:
    """Return a function that reads the first rate set in a config under one of these names."""

    def find(config: Any) -> float:
        rates = (getattr(config, name, None) for name in names)
        return float(next((rate for rate in rates if rate is not None), default))

    return find


classifier_dropout = rate_of("classifier_dropout", "hidden_dropout_prob", default=0.1)
"""Dropout before a classifier, as most classes of transformers read it from a config."""

no_dropout = rate_of()


def activation_of(name: str) -> Callable[[Any], Activation]:
    """Return a function that looks up the activation named in a config's field `name`."""

    def find(config: Any) -> Activation:
        activation: Activation = ACT2FN[getattr(config, name)]
        return activation

    return find


def _always(activation: Activation) -> Callable[[Any], Activation]:
    return lambda _: activation


tanh = _always(torch.tanh)  # of BERT's pooler, and of most layers that stand in for it


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """Layers between the hidden states and the logits of a text.

    Functions read their value from a config. The order is: pick a state; dropout; dense layer;
    activation; norm, if the encoder's pooler has one; dropout; linear output layer.

    Attributes:
        reads: State that is classified: of the "first" or the "last" token, the "mean" of all
            tokens, or "late" for the mean after the dense layer, activation and norm.
        dropout_first: Dropout before the dense layer.
        dense: Dense layer: the encoder's own "pooler", a "fresh" one with random weights, or
            "none". Without a dense layer (also if the encoder's pooler has none) there is no
            activation either.
        activation: Activation after the dense layer.
        dropout: Dropout before the output layer.
        bias: Whether the output layer has a bias.
        tags: Dropout before the logits of every token for tags.
        spans: Dropout before the logits of every token for spans; 0 in most families.
    """

    reads: Callable[[Any], str] = lambda _: "first"
    dropout_first: Callable[[Any], float] = no_dropout
    dense: str = "fresh"
    activation: Callable[[Any], Activation] = tanh
    dropout: Callable[[Any], float] = classifier_dropout
    bias: bool = True
    tags: Callable[[Any], float] = classifier_dropout
    spans: Callable[[Any], float] = no_dropout


def _classifier_pooling(config: Any) -> str:
    """Read the pooling from a config of ModernBERT or EuroBERT, which have names for "first"."""
    name: str = config.classifier_pooling
    return "first" if name in ("cls", "bos") else name


DEFAULT = Pooling()
"""Layers of families without an entry: as for BERT, but with a dense layer of random weights."""

BERT = Pooling(dense="pooler")  # pretrained by next sentence prediction
ROBERTA = Pooling(dropout_first=classifier_dropout)
DEBERTA = Pooling(
    dropout_first=rate_of("pooler_dropout"),
    activation=activation_of("pooler_hidden_act"),
    dropout=rate_of("cls_dropout", "hidden_dropout_prob"),
)
GPT = Pooling(
    reads=lambda _: "last",
    dense="none",
    dropout=rate_of("classifier_dropout", default=0.1),
    bias=False,
)
"""Layers of GPT. Their dropout follows Radford et al. 2018, section 4.1, "Fine-tuning details";
transformers has none."""

DECODER = Pooling(
    reads=lambda _: "last", dense="none", dropout=rate_of("classifier_dropout"), bias=False
)
"""Layers of decoders without an entry: as in GenericForSequenceClassification in transformers'
modeling_layers.py, and in the classes of older families."""

T5 = Pooling(reads=lambda _: "mean", dropout_first=classifier_dropout)
"""Layers of T5, of which only the encoder is used. It reads the mean, which Ni et al.,
arXiv:2108.08877, found best; the layers are as in transformers' class with a decoder."""

ALBERT_RATE = rate_of("classifier_dropout_prob")
FUNNEL_RATE = rate_of("classifier_dropout", "hidden_dropout")
NEOBERT_RATE = rate_of("classifier_dropout", default=0.1)
OWN_RATE = rate_of("classifier_dropout")  # 0 if a config has no such rate

POOLINGS: Mapping[str, Pooling] = {
    "albert": Pooling(dense="pooler", dropout=ALBERT_RATE, tags=ALBERT_RATE),
    "bert": BERT,
    "big_bird": Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act")),
    "camembert": ROBERTA,
    "convbert": Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act")),
    "deberta": DEBERTA,
    "deberta-v2": DEBERTA,
    # Distilled without BERT's pooler: fine-tuning adds a fresh layer with relu.
    "distilbert": Pooling(
        activation=_always(torch.relu),
        dropout=rate_of("seq_classif_dropout"),
        tags=rate_of("classifier_dropout", "dropout"),
        spans=rate_of("qa_dropout"),
    ),
    "electra": Pooling(dropout_first=classifier_dropout, activation=_always(functional.gelu)),
    "ernie": BERT,
    "eurobert": Pooling(
        reads=_classifier_pooling,
        activation=_always(functional.gelu),
        dropout=OWN_RATE,
        tags=OWN_RATE,
    ),
    "funnel": Pooling(dropout=FUNNEL_RATE, tags=FUNNEL_RATE),
    "gpt2": GPT,
    "longformer": ROBERTA,
    "megatron-bert": BERT,
    "mobilebert": BERT,
    "modernbert": Pooling(
        reads=_classifier_pooling,
        dense="pooler",
        activation=activation_of("classifier_activation"),
        spans=classifier_dropout,
    ),
    "mpnet": ROBERTA,
    "mt5": T5,
    "neobert": Pooling(dropout_first=NEOBERT_RATE, dropout=NEOBERT_RATE, tags=NEOBERT_RATE),
    "new": BERT,  # Alibaba-NLP/new-impl, modeling.py, NewForSequenceClassification
    "nomic_bert": BERT,
    "openai-gpt": GPT,
    "roberta": ROBERTA,
    "t5": T5,
    "umt5": T5,
    "xlm-roberta": ROBERTA,
    # XLNet's tokenizer puts its classification token at the end.
    "xlnet": Pooling(
        reads=lambda _: "last",
        dropout=rate_of("summary_last_dropout"),
        tags=OWN_RATE,  # the encoder has applied a dropout to its states already
    ),
}
"""Pooling of each family, keyed by transformers' model_type."""


def find_pooling(family: str, *, is_choice: bool = False, is_causal: bool = False) -> Pooling:
    """Return the pooling of a family; BigBird has another one for scoring options."""
    if is_choice and family == "big_bird":
        return BERT
    return POOLINGS.get(family, DECODER if is_causal else DEFAULT)


# The classifiers.


class TextClassifier(nn.Module):
    """Text classifier from hidden states `[rows, tokens, size]` to logits `[rows, outputs]`.

    `pooler` is the encoder's pooler, or None. `extra` is the size of the additional vector per row
    that the output layer reads. The mask is `[rows, tokens]`.
    """

    def __init__(
        self, pooler: Any, pooling: Pooling, config: Any, outputs: int, extra: int = 0
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.reads = pooling.reads(config)
        # Keep the order of the layers: each draws random numbers, so another order would change
        # the results of all seeds.
        self.dropout_first = nn.Dropout(pooling.dropout_first(config))
        self.dense = _dense(pooler, pooling, config)
        has_dense = not isinstance(self.dense, nn.Identity)  # no dense layer, no activation
        self.activation = pooling.activation(config) if has_dense else nn.Identity()
        self.norm = getattr(pooler, "norm", None) or nn.Identity()
        self.dropout = nn.Dropout(pooling.dropout(config))
        self.output = fresh_linear(config.hidden_size + extra, outputs, config, pooling.bias)

    @classmethod
    def on(
        cls, encoder: Encoder, outputs: int, extra: int = 0, *, is_choice: bool = False
    ) -> "TextClassifier":
        """Return the classifier for an encoder, whose pooler is moved into it or dropped.

        If the pooler stayed in the encoder, it would be computed twice or in vain. With `extra`,
        the encoder has to give states of single tokens, from which the additional vectors are made.
        """
        pooling = find_pooling(encoder.family, is_choice=is_choice, is_causal=encoder.is_causal)
        pooler = _trim(encoder.network, per_token=extra > 0)
        return cls(pooler, pooling, encoder.config, outputs, extra)

    def read(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the state of each row that is classified, `[rows, size]`."""
        if self.reads == "late":
            return _mean(self._transform(hidden), mask)  # (rows, tokens, size) -> (rows, size)
        return STATES[self.reads](hidden, mask)

    def score(self, state: Tensor, extra: Tensor | None = None) -> Tensor:
        """Return the logits of every row from the states of `read` and the additional vectors."""
        if self.reads != "late":
            state = self._transform(state)
        if extra is not None:
            state = torch.cat([state, extra], dim=-1)  # (rows, size + extra)
        logits: Tensor = self.output(self.dropout(state))  # (rows, outputs)
        return logits

    def forward(self, hidden: Tensor, mask: Tensor, extra: Tensor | None = None) -> Tensor:
        """Return the logits of every row."""
        return self.score(self.read(hidden, mask), extra)

    def _transform(self, states: Tensor) -> Tensor:
        states = self.activation(self.dense(self.dropout_first(states)))  # the same shape
        normed: Tensor = self.norm(states)
        return normed


def _dense(pooler: Any, pooling: Pooling, config: Any) -> nn.Module:
    """Return the dense layer.

    The pooler of ALBERT and BigBird is a dense layer itself; MobileBERT's may have none.
    """
    if pooling.dense == "none":
        return nn.Identity()
    if pooling.dense == "pooler" and pooler is not None:
        dense = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
        return dense or nn.Identity()
    return fresh_linear(config.hidden_size, config.hidden_size, config)


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]  # (rows, size), also if the hidden states are of first tokens alone


def last_state(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the state of each row's last real token, `[rows, size]`.

    Padding may be on either side.
    """
    places = torch.arange(mask.shape[1], device=mask.device)  # (tokens,)
    rows = torch.arange(len(hidden), device=hidden.device)  # (rows,)
    return hidden[rows, (mask * places).argmax(-1)]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean state of each row.

    It is computed in fp32: a sum of hundreds of states does not fit bf16's three digits.
    """
    kept = mask[..., None].float()  # (rows, tokens, 1)
    return ((hidden.float() * kept).sum(1) / kept.sum(1)).to(hidden.dtype)


STATES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first": _first,
    "last": last_state,
    "mean": _mean,
}


# The logits of every token.


class TokenClassifier(nn.Module):
    """Token classifier from states `[rows, tokens, size]` to logits `[rows, tokens, outputs]`."""

    def __init__(self, transform: nn.Module, dropout: float, output: nn.Linear) -> None:
        super().__init__()
        self.transform = transform
        self.dropout = nn.Dropout(dropout)
        self.output = output

    @classmethod
    def for_tags(cls, network: Any, config: Any, outputs: int) -> "TokenClassifier":
        """Return the layers of transformers' TokenClassification classes; drop the pooler."""
        transform = _prediction_head(_trim(network, per_token=True), config)
        dropout = find_pooling(config.model_type).tags(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, outputs, config))

    @classmethod
    def for_spans(cls, network: Any, config: Any) -> "TokenClassifier":
        """Return the layers of transformers' QuestionAnswering classes.

        They give each token a logit for being the first and one for being the last. For XLNet these
        are the layers of QuestionAnsweringSimple, without a beam search.
        """
        pooler = _trim(network, per_token=True)
        is_big_bird = config.model_type == "big_bird"
        transform = _FeedForward(config) if is_big_bird else _prediction_head(pooler, config)
        dropout = find_pooling(config.model_type).spans(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, 2, config))

    def read(self, hidden: Tensor) -> Tensor:
        """Return the states `[rows, tokens, size]` that the output layer classifies."""
        states: Tensor = self.dropout(self.transform(hidden))  # (rows, tokens, size)
        return states

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits of every token."""
        logits: Tensor = self.output(self.read(hidden))  # (rows, tokens, outputs)
        return logits


class _PredictionHead(nn.Module):
    """ModernBERT's pretrained layers between the states and any logits."""

    def __init__(self, pooler: Any, config: Any) -> None:
        super().__init__()
        self.dense = pooler.dense
        self.activation = activation_of("classifier_activation")(config)
        self.norm = pooler.norm

    def forward(self, states: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.activation(self.dense(states)))  # (rows, tokens, size)
        return normed


def _prediction_head(pooler: Any, config: Any) -> nn.Module:
    has_head = config.model_type == "modernbert" and pooler is not None
    return _PredictionHead(pooler, config) if has_head else nn.Identity()


class _FeedForward(nn.Module):
    """BigBird's block before the logits of a span: two layers with a residual connection."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.wide = fresh_linear(size, inner, config)
        self.activation = activation_of("hidden_act")(config)
        self.narrow = fresh_linear(inner, size, config)
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: Tensor) -> Tensor:
        """Return the transformed states, in the same shape."""
        # (rows, tokens, size) -> (rows, tokens, inner) -> (rows, tokens, size)
        inner = self.narrow(self.activation(self.wide(self.dropout(states))))
        normed: Tensor = self.norm(self.dropout(inner) + states)
        return normed


# Removal of an encoder's pooler or decoder, and layers with random weights.


def _trim(network: Any, per_token: bool = False) -> Any:
    """Take the pooler off a network and return it, or None; drop Funnel's decoder if unused.

    Funnel shortens a text in its blocks; its decoder restores states of all tokens. Heads that read
    one state do not need it, as in Dai et al., arXiv:2006.03236. Raises ModelError if a head reads
    every token and the checkpoint has no decoder.
    """
    if network.config.model_type == "funnel":
        has_decoder = hasattr(network, "decoder")
        if per_token and not has_decoder:
            raise ModelError(
                "this Funnel checkpoint has no decoder, so it has no state for every token: use "
                "the one of the same size without -base in its name."
            )
        if not per_token and has_decoder:
            network.decoder = _NoDecoder()
    return take_pooler(network)


def take_pooler(network: Any) -> Any:
    """Take the pooler off a network and return it, or None if the network has none.

    Most encoders of transformers return None for a missing pooler. Some, such as SqueezeBERT, call
    it unconditionally, so they get a placeholder. A checkpoint's own code may do so too: it keeps
    its pooler.
    """
    pooler = getattr(network, "pooler", None)
    if pooler is not None and not is_foreign(network):
        network.pooler = None if network.config.model_type in CHECKED else _NoPooler()
    return pooler


class _NoPooler(nn.Module):
    """Placeholder for a pooler, which returns None."""

    def forward(self, *_: Any, **__: Any) -> None:
        return None


class _NoDecoder(nn.Module):
    """Placeholder for Funnel's decoder, which returns its input."""

    def forward(self, final_hidden: Tensor, **_: Any) -> tuple[Tensor]:
        return (final_hidden,)  # (rows, a quarter of the tokens, size), the first token's first


def fresh_linear(inputs: int, outputs: int, config: Any, bias: bool = True) -> nn.Linear:
    """Return a linear layer, initialized as transformers does for the family (`_init_weights`)."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=_spread(inputs, outputs, config))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def _spread(inputs: int, outputs: int, config: Any) -> float:
    if config.model_type == "funnel":
        return float(config.initializer_std or (inputs + outputs) ** -0.5)
    if config.model_type in ("modernbert", "t5"):
        return float(inputs**-0.5)  # keeps the variance of the inputs
    return float(getattr(config, "initializer_range", 0.02))


# Longformer: the tokens with global attention.


def attend_globally(network: nn.Module, config: Any, head: str) -> None:
    """Give some of Longformer's tokens attention to and from all others, as the head type needs.

    As in Beltagy et al., arXiv:2004.05150, section 3.1, these are the classification token for a
    pair and the question for a span; as in transformers' class, they are the second text for a
    choice. Other families are left unchanged.
    """
    if config.model_type != "longformer":
        return

    # A hook, so that no other code has to pass this family's extra mask along.
    def add_mask(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> tuple[Any, Any]:
        mask = GLOBAL_TOKENS[head](inputs["input_ids"], config.sep_token_id)  # (rows, tokens)
        return args, inputs | {"global_attention_mask": mask.long()}

    network.register_forward_pre_hook(add_mask, with_kwargs=True)


def _places(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)  # (rows, tokens)


def _first_token(ids: Tensor, separator: int) -> Tensor:
    return _places(ids) == 0


def _first_text(ids: Tensor, separator: int) -> Tensor:
    return (ids == separator).cumsum(1) == 0  # including special tokens before the text


def _second_text(ids: Tensor, separator: int) -> Tensor:
    """Mark the tokens after the separators between the first and the second text."""
    first = (ids == separator).int().argmax(1, keepdim=True)  # (rows, 1)
    return _places(ids) > first + 1  # RoBERTa and its relatives have two separators there


GLOBAL_TOKENS: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "pair": _first_token,
    "span": _first_text,
    "choice": _second_text,
}
"""Functions from ids `[rows, tokens]` and the separator's id to a mask, keyed by head type."""
