"""From hidden states to logits: of a whole text, or of every token.

The layers are ours, so that every family has every head; POOLINGS says what each has.
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
from benchharness.models.families import CHECKED
from benchharness.tasks.errors import ModelError

# How each family was published to classify a text: one entry of POOLINGS.
#
# A test copies the weights of transformers' own classes into our layers, and gets their logits.


Activation = Callable[[Tensor], Tensor]


def rate_of(*names: str, default: float = 0.0) -> Callable[[Any], float]:
    """The first rate that a config has under one of these names."""

    def find(config: Any) -> float:
        rates = (getattr(config, name, None) for name in names)
        return float(next((rate for rate in rates if rate is not None), default))

    return find


classifier_dropout = rate_of("classifier_dropout", "hidden_dropout_prob", default=0.1)
"""The dropout before a classifier, as most classes of transformers read it from a config."""

no_dropout = rate_of()


def activation_of(name: str) -> Callable[[Any], Activation]:
    """The activation that a config names under `name`."""

    def find(config: Any) -> Activation:
        activation: Activation = ACT2FN[getattr(config, name)]
        return activation

    return find


def _always(activation: Activation) -> Callable[[Any], Activation]:
    return lambda _: activation


tanh = _always(torch.tanh)  # BERT's pooler has it, and most layers that are in its place


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """What happens to the hidden states on their way to a text's logits.

    The state that `reads` names is taken: the "first" or the "last" token's, the "mean" of all, or
    the mean "late", after the dense layer. Dropout at the rate `dropout_first`, the `dense` layer,
    `activation`, dropout at the rate `dropout`, a linear layer with or without `bias`. The dense
    layer is the encoder's own "pooler", which may have a norm behind its activation, "fresh" from
    random numbers, or with its activation absent ("none"; also where the encoder's pooler has no
    layer). Before the logits of every token there is dropout at the rate `tags`, and of a span at
    the rate `spans`, which is none in most families. Functions read their value from the config.
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
    """As ModernBERT's and EuroBERT's configs say it, who call the first token by its name."""
    name: str = config.classifier_pooling
    return "first" if name in ("cls", "bos") else name


DEFAULT = Pooling()
"""For families without an entry: BERT's way, with a dense layer that starts from random numbers."""

BERT = Pooling(dense="pooler")  # pretrained by its next sentence prediction
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
"""The dropout of the classifier is that of Radford et al. 2018, section 4.1, "Fine-tuning details":
transformers has none."""

DECODER = Pooling(
    reads=lambda _: "last", dense="none", dropout=rate_of("classifier_dropout"), bias=False
)
"""For decoders without an entry: as GenericForSequenceClassification in transformers'
modeling_layers.py, and the classes of older families."""

T5 = Pooling(reads=lambda _: "mean", dropout_first=classifier_dropout)
"""Of T5 only the encoder is used, whose mean is what Ni et al., arXiv:2108.08877, found best; the
layers are those of transformers' class with a decoder."""

ALBERT_RATE = rate_of("classifier_dropout_prob")
FUNNEL_RATE = rate_of("classifier_dropout", "hidden_dropout")
NEOBERT_RATE = rate_of("classifier_dropout", default=0.1)
OWN_RATE = rate_of("classifier_dropout")  # and none where a config has no such rate

POOLINGS: Mapping[str, Pooling] = {
    "albert": Pooling(dense="pooler", dropout=ALBERT_RATE, tags=ALBERT_RATE),
    "bert": BERT,
    "big_bird": Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act")),
    "camembert": ROBERTA,
    "convbert": Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act")),
    "deberta": DEBERTA,
    "deberta-v2": DEBERTA,
    # Distilled without BERT's pooler, and then with relu behind a layer that is new.
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
        tags=OWN_RATE,  # its states have been through a dropout already
    ),
}
"""By transformers' model_type."""


def find_pooling(family: str, *, is_choice: bool = False, is_causal: bool = False) -> Pooling:
    """Return how a family classifies a text, or scores an option: BigBird's differ."""
    if is_choice and family == "big_bird":
        return BERT
    return POOLINGS.get(family, DECODER if is_causal else DEFAULT)


# The classifiers.


class TextClassifier(nn.Module):
    """Hidden states (rows, tokens, size) and their mask (rows, tokens) to logits (rows, outputs).

    `pooler` is the encoder's own, or None; `extra` is the size of what else the output layer reads
    of every row. Rows are padded at their ends.
    """

    def __init__(
        self, pooler: Any, pooling: Pooling, config: Any, outputs: int, extra: int = 0
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.reads = pooling.reads(config)
        # Layers are drawn in this order: one that is drawn earlier changes what all seeds give.
        self.dropout_first = nn.Dropout(pooling.dropout_first(config))
        self.dense = _dense(pooler, pooling, config)
        has_dense = not isinstance(self.dense, nn.Identity)  # without it the activation goes too
        self.activation = pooling.activation(config) if has_dense else nn.Identity()
        self.norm = getattr(pooler, "norm", None) or nn.Identity()
        self.dropout = nn.Dropout(pooling.dropout(config))
        self.output = fresh_linear(config.hidden_size + extra, outputs, config, pooling.bias)

    @classmethod
    def on(
        cls, encoder: Encoder, outputs: int, extra: int = 0, *, is_choice: bool = False
    ) -> "TextClassifier":
        """Return the classifier for an encoder.

        The encoder's pooler moves into it, or away: left where it is, it would be computed twice or
        in vain. What is extra comes from the states of single tokens.
        """
        pooling = find_pooling(encoder.family, is_choice=is_choice, is_causal=encoder.is_causal)
        pooler = _trim(encoder.network, per_token=extra > 0)
        return cls(pooler, pooling, encoder.config, outputs, extra)

    def read(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """The state that is classified, (rows, size)."""
        if self.reads == "late":
            return _mean(self._transform(hidden), mask)  # (rows, tokens, size) -> (rows, size)
        return STATES[self.reads](hidden, mask)

    def score(self, state: Tensor, extra: Tensor | None = None) -> Tensor:
        """The logits of every row, from what was read and what is extra, (rows, size)."""
        if self.reads != "late":
            state = self._transform(state)
        if extra is not None:
            state = torch.cat([state, extra], dim=-1)  # (rows, size + extra)
        logits: Tensor = self.output(self.dropout(state))  # (rows, outputs)
        return logits

    def forward(self, hidden: Tensor, mask: Tensor, extra: Tensor | None = None) -> Tensor:
        """The logits of every row."""
        return self.score(self.read(hidden, mask), extra)

    def _transform(self, states: Tensor) -> Tensor:
        states = self.activation(self.dense(self.dropout_first(states)))  # the same shape
        normed: Tensor = self.norm(states)
        return normed


def _dense(pooler: Any, pooling: Pooling, config: Any) -> nn.Module:
    """The dense layer: ALBERT's and BigBird's pooler is one, MobileBERT's may have none."""
    if pooling.dense == "none":
        return nn.Identity()
    if pooling.dense == "pooler" and pooler is not None:
        dense = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
        return dense or nn.Identity()
    return fresh_linear(config.hidden_size, config.hidden_size, config)


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]  # (rows, size), also of hidden states that are first tokens' alone


def last_state(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the state of each row's last real token, (rows, size), padded on either side."""
    places = torch.arange(mask.shape[1], device=mask.device)  # (tokens,)
    rows = torch.arange(len(hidden), device=hidden.device)  # (rows,)
    return hidden[rows, (mask * places).argmax(-1)]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean in fp32: a sum of hundreds of states does not fit bf16's three digits."""
    kept = mask[..., None].float()  # (rows, tokens, 1)
    return ((hidden.float() * kept).sum(1) / kept.sum(1)).to(hidden.dtype)


STATES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first": _first,
    "last": last_state,
    "mean": _mean,
}


# The logits of every token.


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
        transform = _prediction_head(_trim(network, per_token=True), config)
        dropout = find_pooling(config.model_type).tags(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, outputs, config))

    @classmethod
    def for_spans(cls, network: Any, config: Any) -> "TokenClassifier":
        """As transformers' QuestionAnswering classes: the logits of the first and the last token.

        For XLNet it is the one called simple, without a beam search.
        """
        pooler = _trim(network, per_token=True)
        is_big_bird = config.model_type == "big_bird"
        transform = _FeedForward(config) if is_big_bird else _prediction_head(pooler, config)
        dropout = find_pooling(config.model_type).spans(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, 2, config))

    def read(self, hidden: Tensor) -> Tensor:
        """The states that `output` classifies, (rows, tokens, size)."""
        states: Tensor = self.dropout(self.transform(hidden))  # (rows, tokens, size)
        return states

    def forward(self, hidden: Tensor) -> Tensor:
        """The logits of every token."""
        logits: Tensor = self.output(self.read(hidden))  # (rows, tokens, outputs)
        return logits


class _PredictionHead(nn.Module):
    """ModernBERT's layers between the states and any logits, which are pretrained."""

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
    """BigBird's block before the logits of a span: two layers next to a path around them."""

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
        # (rows, tokens, size) -> (rows, tokens, inner) -> (rows, tokens, size)
        inner = self.narrow(self.activation(self.wide(self.dropout(states))))
        normed: Tensor = self.norm(self.dropout(inner) + states)
        return normed


# What both take from an encoder's network, and the layers that start from random numbers.


def _trim(network: Any, per_token: bool = False) -> Any:
    """Takes the pooler off a network, to be used or not, and returns it; None where it has none.

    Funnel shortens a text in its blocks, and has a decoder that makes states of all tokens again.
    It goes too where a head reads one state, as in Dai et al., arXiv:2006.03236. Raises
    ModelError where a head reads all and the checkpoint is one without a decoder.
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
    """Take the pooler off a network and return it; None where it has none.

    Most encoders of transformers then give None in its place; some, such as SqueezeBERT, call it
    without asking, and code of a checkpoint's own may, so that one keeps its pooler.
    """
    pooler = getattr(network, "pooler", None)
    if pooler is not None and not is_foreign(network):
        network.pooler = None if network.config.model_type in CHECKED else _NoPooler()
    return pooler


class _NoPooler(nn.Module):
    """Stands in place of a pooler and gives None for the states that it is given."""

    def forward(self, *_: Any, **__: Any) -> None:
        return None


class _NoDecoder(nn.Module):
    """Stands in place of Funnel's decoder and gives what it is given."""

    def forward(self, final_hidden: Tensor, **_: Any) -> tuple[Tensor]:
        return (final_hidden,)  # (rows, a quarter of the tokens, size), the first token's first


def fresh_linear(inputs: int, outputs: int, config: Any, bias: bool = True) -> nn.Linear:
    """A linear layer as transformers initialises its family's (_init_weights in modeling files)."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=_spread(inputs, outputs, config))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def _spread(inputs: int, outputs: int, config: Any) -> float:
    if config.model_type == "funnel":
        return float(config.initializer_std or (inputs + outputs) ** -0.5)
    if config.model_type in ("modernbert", "t5"):
        return float(inputs**-0.5)  # variance 1 of inputs stays 1
    return float(getattr(config, "initializer_range", 0.02))


# Longformer: which of its tokens see all others.


def attend_globally(network: nn.Module, config: Any, head: str) -> None:
    """Lets some of Longformer's tokens see and be seen by all others, as its head types need.

    Beltagy et al., arXiv:2004.05150, section 3.1: the classification token for a pair, the question
    for a span; and as in transformers' class the second text for a choice. Does nothing for other
    families.
    """
    if config.model_type != "longformer":
        return

    # A hook, so that nothing between a batch and this family needs to know of such a mask.
    def add_mask(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> tuple[Any, Any]:
        mask = GLOBAL_TOKENS[head](inputs["input_ids"], config.sep_token_id)  # (rows, tokens)
        return args, inputs | {"global_attention_mask": mask.long()}

    network.register_forward_pre_hook(add_mask, with_kwargs=True)


def _places(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)  # (rows, tokens)


def _first_token(ids: Tensor, separator: int) -> Tensor:
    return _places(ids) == 0


def _first_text(ids: Tensor, separator: int) -> Tensor:
    return (ids == separator).cumsum(1) == 0  # with what stands before the text


def _second_text(ids: Tensor, separator: int) -> Tensor:
    """What stands behind the two separators between the texts."""
    first = (ids == separator).int().argmax(1, keepdim=True)  # (rows, 1)
    return _places(ids) > first + 1  # RoBERTa's kin put two separators between texts


GLOBAL_TOKENS: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "pair": _first_token,
    "span": _first_text,
    "choice": _second_text,
}
"""By head type, from ids (rows, tokens) and the separator's id."""
