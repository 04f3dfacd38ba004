"""Classification layers on hidden states: for a whole text, or for every token.

benchharness implements the layers itself, so that every head works with every model family.
POOLINGS describes the layers of each family.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import ACT2FN

from benchharness.encoder import Encoder
from benchharness.encoder.network import WITH_HEAD, is_foreign
from benchharness.errors import ModelError
from benchharness.models.families import CHECKED

# Each model family has the layers that its authors published for text classification.
#
# A test copies the weights of transformers' classes into these layers and compares the logits.


Activation = Callable[[Tensor], Tensor]


def rate_of(*names: str, default: float = 0.0) -> Callable[[Any], float]:
    """Return a function that gets a model's config and returns a dropout rate.

    Args:
        *names: Names of config values. The rate is the first of these values that is set.
        default: Rate if none of these values is set.
    """

    def find(config: Any) -> float:
        rates = (getattr(config, name, None) for name in names)
        return float(next((rate for rate in rates if rate is not None), default))

    return find


classifier_dropout = rate_of("classifier_dropout", "hidden_dropout_prob", default=0.1)
"""Function that gets a model's config and returns the dropout rate before a classifier, which most
of transformers' classes read in this way."""

no_dropout = rate_of()


def activation_of(name: str) -> Callable[[Any], Activation]:
    """Return a function that gets a model's config and returns the model's activation function.

    `name` is the name of the config value, such as "hidden_act", that contains the name of the
    activation function, such as "gelu".
    """

    def find(config: Any) -> Activation:
        activation: Activation = ACT2FN[getattr(config, name)]
        return activation

    return find


def _always(activation: Activation) -> Callable[[Any], Activation]:
    return lambda _: activation


tanh = _always(torch.tanh)  # used by BERT's pooler, and by most layers that replace a pooler


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """Description of the classification layers that a model family uses.

    The layers of a text classifier are, in this order: selection of a state; dropout; dense layer;
    activation; norm, if the encoder's pooler has one; dropout; linear output layer. Most values
    depend on the model's config. The attributes for these values are functions that get the config
    and return the value.

    Attributes:
        reads: Name of the state that enters the layers: "first" or "last" (state of the first or
            last token), "mean" (mean over all tokens), or "late" (the dense layer, activation and
            norm are applied to every token, and then the mean over all tokens is computed).
        dropout_first: Dropout rate before the dense layer.
        dense: Dense layer: the encoder's own "pooler", a "fresh" one with random weights, or
            "none". Without a dense layer (also if the encoder's pooler has none) there is no
            activation either.
        activation: Activation function after the dense layer.
        dropout: Dropout rate before the output layer.
        bias: Whether the output layer has a bias.
        tags: Dropout rate before the output layer of a token classifier for tags.
        spans: Dropout rate before the output layer of a token classifier for answer spans; 0 in
            most families.
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
    """Read the pooling from a config of ModernBERT or EuroBERT; "cls" and "bos" mean "first"."""
    name: str = config.classifier_pooling
    return "first" if name in ("cls", "bos") else name


DEFAULT = Pooling()
"""Layers for encoders of families that POOLINGS does not contain: like BERT's, but with random
weights in the dense layer."""

BERT = Pooling(dense="pooler")  # the pooler is pretrained by next sentence prediction
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
transformers uses no dropout here."""

DECODER = Pooling(
    reads=lambda _: "last", dense="none", dropout=rate_of("classifier_dropout"), bias=False
)
"""Layers for decoders of families that POOLINGS does not contain. They are the layers of
GenericForSequenceClassification in transformers' modeling_layers.py, and of the classes of older
families."""

T5 = Pooling(reads=lambda _: "mean", dropout_first=classifier_dropout)
"""Layers for the encoder of T5, without its decoder. The layers are those of transformers' class,
which uses the decoder's output; here they classify the mean of the encoder's states, which Ni et
al., arXiv:2108.08877, found best."""

BIG_BIRD = Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act"))

XLM = Pooling(dense="none", dropout=rate_of("summary_first_dropout"))
"""Layers of XLM, whose output layer reads the state of the first token directly (summary_type is
"first" and summary_activation is None in the published checkpoints)."""

ALBERT_RATE = rate_of("classifier_dropout_prob")
FUNNEL_RATE = rate_of("classifier_dropout", "hidden_dropout")
NEOBERT_RATE = rate_of("classifier_dropout", default=0.1)
OWN_RATE = rate_of("classifier_dropout")  # 0 if a config does not set it

POOLINGS: Mapping[str, Pooling] = {
    "albert": Pooling(dense="pooler", dropout=ALBERT_RATE, tags=ALBERT_RATE),
    "bert": BERT,
    "big_bird": BIG_BIRD,
    "camembert": ROBERTA,
    "convbert": BIG_BIRD,
    "data2vec-text": ROBERTA,
    "deberta": DEBERTA,
    "deberta-v2": DEBERTA,
    # DistilBERT was distilled without BERT's pooler: fine-tuning adds a fresh layer with relu.
    "distilbert": Pooling(
        activation=_always(torch.relu),
        dropout=rate_of("seq_classif_dropout"),
        tags=rate_of("classifier_dropout", "dropout"),
        spans=rate_of("qa_dropout"),
    ),
    "electra": Pooling(dropout_first=classifier_dropout, activation=_always(functional.gelu)),
    "ernie": BERT,
    "esm": ROBERTA,
    "esmc": ROBERTA,
    "eurobert": Pooling(
        reads=_classifier_pooling,
        activation=_always(functional.gelu),
        dropout=OWN_RATE,
        tags=OWN_RATE,
    ),
    "flaubert": XLM,
    "fnet": BERT,
    "funnel": Pooling(dropout=FUNNEL_RATE, tags=FUNNEL_RATE),
    "gpt2": GPT,
    "gte": DEFAULT,  # transformers loads its encoder without a pooler
    "ibert": ROBERTA,
    "jina_embeddings_v3": ROBERTA,
    "layoutlm": BERT,
    "longformer": ROBERTA,
    "luke": BERT,
    "markuplm": BERT,
    "megatron-bert": BERT,
    "mobilebert": BERT,
    "modernbert": Pooling(
        reads=_classifier_pooling,
        dense="pooler",
        activation=activation_of("classifier_activation"),
        spans=classifier_dropout,
    ),
    # The pretrained layers below the output of the language model, as in ModernBERT.
    "modernbert-decoder": Pooling(
        reads=lambda _: "last",
        dense="pooler",
        activation=activation_of("classifier_activation"),
        dropout=OWN_RATE,
        bias=False,
        tags=OWN_RATE,
    ),
    "mpnet": ROBERTA,
    "mt5": T5,
    "neobert": Pooling(dropout_first=NEOBERT_RATE, dropout=NEOBERT_RATE, tags=NEOBERT_RATE),
    "new": BERT,  # like NewForSequenceClassification in modeling.py of Alibaba-NLP/new-impl
    "nomic_bert": BERT,
    "nystromformer": BIG_BIRD,
    "openai-gpt": GPT,
    "rembert": Pooling(dense="pooler", dropout=ALBERT_RATE, tags=ALBERT_RATE),
    "roberta": ROBERTA,
    "roberta-prelayernorm": ROBERTA,
    "roc_bert": BERT,
    "roformer": BIG_BIRD,
    "squeezebert": BERT,
    "t5": T5,
    "tapas": BERT,
    "ultrabert": Pooling(reads=_classifier_pooling, dense="none", dropout=OWN_RATE, tags=OWN_RATE),
    "umt5": T5,
    "xlm": XLM,
    "xlm-roberta": ROBERTA,
    "xlm-roberta-xl": ROBERTA,
    # XLNet's tokenizer puts its classification token at the end.
    "xlnet": Pooling(
        reads=lambda _: "last",
        dropout=rate_of("summary_last_dropout"),
        tags=OWN_RATE,  # the encoder has applied a dropout to its states already
    ),
    "xmod": ROBERTA,
    "yoso": BIG_BIRD,
}
"""Text classification layers of each family, keyed by transformers' model_type."""


def find_pooling(family: str, *, is_choice: bool = False, is_causal: bool = False) -> Pooling:
    """Return the description of the classification layers of a family.

    Args:
        family: transformers' model_type.
        is_choice: Whether the layers are for multiple choice. Only for BigBird, these are other
            layers than those for text classification.
        is_causal: Whether the network is a decoder. It matters only for families that POOLINGS does
            not contain.
    """
    if is_choice and family == "big_bird":
        return BERT
    return POOLINGS.get(family, DECODER if is_causal else DEFAULT)


# Classifiers of a whole text.


class TextClassifier(nn.Module):
    """Text classifier from hidden states `[rows, tokens, size]` to logits `[rows, outputs]`.

    Args:
        pooler: The encoder's pooler, or None.
        pooling: Description of the layers.
        config: Config of the encoder.
        outputs: Number of logits per row.
        extra: Size of an additional vector per row that the output layer reads; 0 for no vector.
    """

    def __init__(
        self, pooler: Any, pooling: Pooling, config: Any, outputs: int, extra: int = 0
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.reads = pooling.reads(config)
        # Keep the order of the layers: each draws random numbers for its weights, so a different
        # order would change the results of all seeds.
        self.dropout_first = nn.Dropout(pooling.dropout_first(config))
        self.dense = _dense(pooler, pooling, config)
        has_dense = not isinstance(self.dense, nn.Identity)  # else there is no activation either
        self.activation = pooling.activation(config) if has_dense else nn.Identity()
        self.norm = getattr(pooler, "norm", None) or nn.Identity()
        self.dropout = nn.Dropout(pooling.dropout(config))
        self.output = fresh_linear(config.hidden_size + extra, outputs, config, pooling.bias)

    @classmethod
    def on(
        cls, encoder: Encoder, outputs: int, extra: int = 0, *, is_choice: bool = False
    ) -> "TextClassifier":
        """Return a classifier for an encoder, and remove the encoder's pooler.

        The classifier may contain the removed pooler (see Pooling). A pooler that stayed in the
        encoder would be computed twice, or without being used. Only a pooler that belongs to a
        checkpoint's own code stays in the encoder too. If `extra` is 0, Funnel's decoder is also
        removed, because the classifier needs only the state of the first token.

        Args:
            encoder: Encoder to change in place.
            outputs: Number of logits per row.
            extra: Size of an additional vector per row, which is computed from the states of some
                tokens; the encoder then has to return the states of all tokens. 0 for no vector.
            is_choice: Whether the classifier is for multiple choice.

        Raises:
            ModelError: `extra` is not 0, but the encoder is a Funnel without a decoder, which does
                not return the states of all tokens.
        """
        pooling = find_pooling(encoder.family, is_choice=is_choice, is_causal=encoder.is_causal)
        pooler = _trim(encoder.network, per_token=extra > 0)
        return cls(pooler, pooling, encoder.config, outputs, extra)

    def read(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the state of each row that `score` classifies: `[rows, size]`.

        `hidden` is `[rows, tokens, size]`, and `mask` `[rows, tokens]` is 0 at padding.
        """
        if self.reads == "late":
            return _mean(self._transform(hidden), mask)  # (rows, tokens, size) -> (rows, size)
        return STATES[self.reads](hidden, mask)

    def score(self, state: Tensor, extra: Tensor | None = None) -> Tensor:
        """Return the logits of each row: `[rows, outputs]`.

        `state` is the result of `read`. `extra` contains the additional vector of each row, if the
        output layer reads one: `[rows, size of the vector]`.
        """
        if self.reads != "late":
            state = self._transform(state)
        if extra is not None:
            state = torch.cat([state, extra], dim=-1)  # (rows, size + extra)
        logits: Tensor = self.output(self.dropout(state))  # (rows, outputs)
        return logits

    def forward(self, hidden: Tensor, mask: Tensor, extra: Tensor | None = None) -> Tensor:
        """Return the logits `[rows, outputs]` of hidden states; see `read` and `score`."""
        return self.score(self.read(hidden, mask), extra)

    def _transform(self, states: Tensor) -> Tensor:
        states = self.activation(self.dense(self.dropout_first(states)))  # keeps the shape
        normed: Tensor = self.norm(states)
        return normed


def _dense(pooler: Any, pooling: Pooling, config: Any) -> nn.Module:
    """Return the dense layer of a classifier; an identity if the classifier has none.

    The pooler of ALBERT and BigBird is a dense layer itself; MobileBERT's may have none.
    """
    if pooling.dense == "none":
        return nn.Identity()
    if pooling.dense == "pooler" and pooler is not None:
        dense = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
        return dense or nn.Identity()
    return fresh_linear(config.hidden_size, config.hidden_size, config)


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]  # (rows, size); the encoder may have returned only first tokens


def last_state(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the state of each row's last token, not counting padding: `[rows, size]`.

    `hidden` is `[rows, tokens, size]`, and `mask` `[rows, tokens]` is 0 at padding. Padding may be
    at the start or at the end of a row.
    """
    places = torch.arange(mask.shape[1], device=mask.device)  # (tokens,)
    rows = torch.arange(len(hidden), device=hidden.device)  # (rows,)
    return hidden[rows, (mask * places).argmax(-1)]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean state of each row.

    The mean is computed in fp32, because bf16's three digits are too few for a sum of hundreds of
    states.
    """
    kept = mask[..., None].float()  # (rows, tokens, 1)
    return ((hidden.float() * kept).sum(1) / kept.sum(1)).to(hidden.dtype)


STATES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first": _first,
    "last": last_state,
    "mean": _mean,
}


# Classifiers of every token.


class TokenClassifier(nn.Module):
    """Token classifier from states `[rows, tokens, size]` to logits `[rows, tokens, outputs]`.

    Args:
        transform: Layers before the dropout; they keep the shape of the states.
        dropout: Dropout rate before the output layer.
        output: Output layer.
    """

    def __init__(self, transform: nn.Module, dropout: float, output: nn.Linear) -> None:
        super().__init__()
        self.transform = transform
        self.dropout = nn.Dropout(dropout)
        self.output = output

    @classmethod
    def for_tags(cls, network: Any, config: Any, outputs: int) -> "TokenClassifier":
        """Return a classifier with the layers of transformers' TokenClassification classes.

        Args:
            network: Encoder, whose pooler is removed. Only the classifiers of ModernBERT and its
                decoder contain it.
            config: Config of the encoder.
            outputs: Number of logits per token.

        Raises:
            ModelError: The encoder is a Funnel without a decoder, which does not return the states
                of all tokens.
        """
        transform = _prediction_head(_trim(network, per_token=True), config)
        dropout = find_pooling(config.model_type).tags(config)
        return cls(transform, dropout, fresh_linear(config.hidden_size, outputs, config))

    @classmethod
    def for_spans(cls, network: Any, config: Any) -> "TokenClassifier":
        """Return a classifier with the layers of transformers' QuestionAnswering classes.

        Each token gets a logit for being the first token of the answer, and one for being the last.
        XLNet gets the layers of QuestionAnsweringSimple, without a beam search.

        Args:
            network: Encoder, whose pooler is removed. Only ModernBERT's classifier contains it.
            config: Config of the encoder.

        Raises:
            ModelError: The encoder is a Funnel without a decoder, which does not return the states
                of all tokens.
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
        """Return the logits of every token: `[rows, tokens, outputs]`."""
        logits: Tensor = self.output(self.read(hidden))  # (rows, tokens, outputs)
        return logits


class _PredictionHead(nn.Module):
    """Pretrained layers of ModernBERT or its decoder between the states and any output layer."""

    def __init__(self, pooler: Any, config: Any) -> None:
        super().__init__()
        self.dense = pooler.dense
        self.activation = activation_of("classifier_activation")(config)
        self.norm = pooler.norm

    def forward(self, states: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.activation(self.dense(states)))  # (rows, tokens, size)
        return normed


def _prediction_head(pooler: Any, config: Any) -> nn.Module:
    has_head = config.model_type in WITH_HEAD and pooler is not None
    return _PredictionHead(pooler, config) if has_head else nn.Identity()


class _FeedForward(nn.Module):
    """BigBird's block before the span output layer: two layers with a residual connection."""

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
    """Remove and return a network's pooler, if any; also remove Funnel's decoder if not needed.

    Funnel shortens a text in its blocks; its decoder restores states of all tokens. Heads that read
    one state do not need it, as in Dai et al., arXiv:2006.03236. Raises ModelError if a head reads
    every token and the checkpoint has no decoder.
    """
    if network.config.model_type == "funnel":
        has_decoder = hasattr(network, "decoder")
        if per_token and not has_decoder:
            raise ModelError(
                "this Funnel checkpoint has no decoder, so it does not return a state for each "
                "token: use the checkpoint of the same size without -base in its name."
            )
        if not per_token and has_decoder:
            network.decoder = _NoDecoder()
    return take_pooler(network)


def take_pooler(network: Any) -> Any:
    """Remove a network's pooler and return it; return None if the network has none.

    Encoders of families that benchharness does not know, such as SqueezeBERT, might call their
    pooler unconditionally. So it is replaced with a placeholder that returns None. Exception: if
    the network's code comes with the checkpoint, the pooler is returned but not removed.
    """
    pooler = getattr(network, "pooler", None)
    if pooler is not None and not is_foreign(network):
        network.pooler = None if network.config.model_type in CHECKED else _NoPooler()
    return pooler


class _NoPooler(nn.Module):
    """Placeholder for a removed pooler; it returns None."""

    def forward(self, *_: Any, **__: Any) -> None:
        return None


class _NoDecoder(nn.Module):
    """Placeholder for Funnel's removed decoder; it returns its input."""

    def forward(self, final_hidden: Tensor, **_: Any) -> tuple[Tensor]:
        return (final_hidden,)  # (rows, tokens / 4, size), beginning with the first token's state


def fresh_linear(inputs: int, outputs: int, config: Any, bias: bool = True) -> nn.Linear:
    """Return a linear layer with random weights, drawn as transformers does for the model family.

    Args:
        inputs: Size of the input.
        outputs: Size of the output.
        config: Config of the encoder. Its family and its `initializer_range` (or, for Funnel,
            `initializer_std`) determine the standard deviation of the weights.
        bias: Whether the layer has a bias, which is initialized to zeros.
    """
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=_spread(inputs, outputs, config))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def _spread(inputs: int, outputs: int, config: Any) -> float:
    if config.model_type == "funnel":
        return float(config.initializer_std or (inputs + outputs) ** -0.5)
    if config.model_type in ("t5", *WITH_HEAD):
        return float(inputs**-0.5)  # keeps the variance of the inputs
    return float(getattr(config, "initializer_range", 0.02))


# Longformer: the tokens with global attention.


def attend_globally(network: nn.Module, config: Any, head: str) -> None:
    """Make some tokens of a Longformer attend to all other tokens, and all other tokens to them.

    All other pairs of tokens attend to each other only within a window. Networks of other families
    are left unchanged.

    Args:
        network: Encoder to change in place.
        config: Config of the encoder.
        head: Head type: "pair", "span" or "choice". For "pair", the global tokens are the
            classification token, and for "span" those of the question, as in Beltagy et al.,
            arXiv:2004.05150, section 3.1. For "choice", they are those of the second text, as in
            transformers' class.
    """
    if config.model_type != "longformer":
        return

    # With a hook, no other code has to pass on the additional mask of this family.
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
    """Return a mask of the tokens after the separators between the first and the second text."""
    first = (ids == separator).int().argmax(1, keepdim=True)  # (rows, 1)
    return _places(ids) > first + 1  # RoBERTa and its relatives have two separators there


GLOBAL_TOKENS: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "pair": _first_token,
    "span": _first_text,
    "choice": _second_text,
}
"""Functions that return a mask of the tokens with global attention, keyed by head type. Their
arguments are the token ids `[rows, tokens]` and the id of the separator."""
