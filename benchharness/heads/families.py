"""How each family was published to classify a text: one entry of POOLINGS.

A test copies the weights of transformers' own classes into our layers, and gets their logits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.activations import ACT2FN

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


def _tanh(config: Any) -> Activation:  # noqa: ARG001  (as every activation)
    return torch.tanh


def _always(activation: Activation) -> Callable[[Any], Activation]:
    return lambda _: activation


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """What happens to the hidden states on their way to a text's logits.

    The state that `reads` names is taken: the "first" or the "last" token's, the "mean" of all, or
    the mean "late", after the dense layer. Dropout at the rate `dropout_first`, the `dense` layer,
    `activation`, dropout at the rate `dropout`, a linear layer with or without `bias`. The dense
    layer is the encoder's own "pooler", which may have a norm behind its activation, "fresh" from
    random numbers, or with its activation absent ("none"; also where the encoder's pooler has no
    layer). Functions read their value from the config.
    """

    reads: Callable[[Any], str] = lambda _: "first"
    dropout_first: Callable[[Any], float] = no_dropout
    dense: str = "fresh"
    activation: Callable[[Any], Activation] = _tanh
    dropout: Callable[[Any], float] = classifier_dropout
    bias: bool = True


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

T5 = Pooling(reads=lambda _: "mean", dropout_first=classifier_dropout)
"""Of T5 only the encoder is used, whose mean is what Ni et al., arXiv:2108.08877, found best; the
layers are those of transformers' class with a decoder."""

POOLINGS: Mapping[str, Pooling] = {
    "albert": Pooling(dense="pooler", dropout=rate_of("classifier_dropout_prob")),
    "bert": BERT,
    "big_bird": Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act")),
    "camembert": ROBERTA,
    "convbert": Pooling(dropout_first=classifier_dropout, activation=activation_of("hidden_act")),
    "deberta": DEBERTA,
    "deberta-v2": DEBERTA,
    # Distilled without BERT's pooler, and then with relu behind a layer that is new.
    "distilbert": Pooling(activation=_always(torch.relu), dropout=rate_of("seq_classif_dropout")),
    "electra": Pooling(dropout_first=classifier_dropout, activation=_always(functional.gelu)),
    "ernie": BERT,
    "eurobert": Pooling(
        reads=_classifier_pooling,
        activation=_always(functional.gelu),
        dropout=rate_of("classifier_dropout"),
    ),
    "funnel": Pooling(dropout=rate_of("classifier_dropout", "hidden_dropout")),
    "gpt2": GPT,
    "longformer": ROBERTA,
    "megatron-bert": BERT,
    "mobilebert": BERT,
    "modernbert": Pooling(
        reads=_classifier_pooling, dense="pooler", activation=activation_of("classifier_activation")
    ),
    "mpnet": ROBERTA,
    "mt5": T5,
    "openai-gpt": GPT,
    "roberta": ROBERTA,
    "t5": T5,
    "umt5": T5,
    "xlm-roberta": ROBERTA,
    # XLNet's tokenizer puts its classification token at the end.
    "xlnet": Pooling(reads=lambda _: "last", dropout=rate_of("summary_last_dropout")),
}
"""By transformers' model_type."""

CHOICE_POOLINGS: Mapping[str, Pooling] = {"big_bird": BERT}
"""Where the options of a choice are scored in another way than a text."""


def find_pooling(family: str, is_choice: bool = False) -> Pooling:
    """The way of a family to classify a text, or to score an option."""
    pooling = POOLINGS.get(family, DEFAULT)
    return CHOICE_POOLINGS.get(family, pooling) if is_choice else pooling
