"""Tests of the layers and dropout rates of text classifiers, and of unused encoder parts."""

import pytest
import torch
import transformers
from torch import nn

from benchharness.encoder import Encoder, layers_of
from benchharness.heads.classifiers import (
    DEFAULT,
    POOLINGS,
    STATES,
    TextClassifier,
    TokenClassifier,
)
from benchharness.models.families import CHECKED, CLASSIFIED
from tests.helpers.families import FAMILIES, make_config, make_network

MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])


def encoder_of(body: nn.Module, config: object) -> Encoder:
    family = config.model_type
    return Encoder(network=body, tokenizer=None, config=config, family=family, max_tokens=72)


def make_classifier(family: str, outputs: int = 2, **settings: object) -> TextClassifier:
    config = make_config(family, **settings)
    return TextClassifier.on(encoder_of(make_network(config), config), outputs)


def test_pooling_is_defined_for_exactly_the_supported_and_checked_families():
    assert {*FAMILIES, "mt5", "umt5", "neobert", "new", "nomic_bert"} == CHECKED
    assert set(POOLINGS) == CHECKED | CLASSIFIED
    assert not CHECKED & CLASSIFIED


@pytest.mark.parametrize(
    ("family", "settings", "first", "rate"),
    [
        ("bert", {"hidden_dropout_prob": 0.2}, 0.0, 0.2),
        ("bert", {"hidden_dropout_prob": 0.2, "classifier_dropout": 0.3}, 0.0, 0.3),
        ("roberta", {"classifier_dropout": 0.0}, 0.0, 0.0),
        ("distilbert", {"seq_classif_dropout": 0.4}, 0.0, 0.4),
        ("albert", {"hidden_dropout_prob": 0.2, "classifier_dropout_prob": 0.3}, 0.0, 0.3),
        ("deberta-v2", {"hidden_dropout_prob": 0.2, "pooler_dropout": 0.4}, 0.4, 0.2),
        ("deberta-v2", {"hidden_dropout_prob": 0.2, "cls_dropout": 0.15}, 0.0, 0.15),
        ("electra", {"hidden_dropout_prob": 0.2}, 0.2, 0.2),
        ("funnel", {"hidden_dropout": 0.2}, 0.0, 0.2),
        ("gpt2", {}, 0.0, 0.1),
        ("xlnet", {"summary_last_dropout": 0.3}, 0.0, 0.3),
        ("modernbert", {"classifier_dropout": 0.25}, 0.0, 0.25),
        ("t5", {"classifier_dropout": 0.3}, 0.3, 0.3),
    ],
)
def test_classifier_dropout_rates_are_read_from_the_model_config(
    family: str, settings: dict[str, float], first: float, rate: float
):
    classifier = make_classifier(family, **settings)
    assert (classifier.dropout_first.p, classifier.dropout.p) == (first, rate)


@pytest.mark.parametrize("family", ["bert", "ernie", "megatron-bert", "mobilebert", "albert"])
def test_a_pretrained_pooler_is_moved_into_the_classifier(family: str):
    config = make_config(family)
    body = make_network(config)
    dense = body.pooler if family == "albert" else body.pooler.dense
    classifier = TextClassifier.on(encoder_of(body, config), 2)
    assert classifier.dense is dense
    assert body.pooler is None


@pytest.mark.parametrize("family", ["roberta", "mpnet", "longformer", "big_bird"])
def test_an_unused_pooler_is_removed(family: str):
    config = make_config(family)
    body = make_network(config)
    unused = {id(weight) for weight in body.pooler.parameters()}
    classifier = TextClassifier.on(encoder_of(body, config), 2)
    assert not unused & {id(weight) for weight in classifier.parameters()}
    assert body.pooler is None


def test_funnel_decoder_is_removed_for_text_but_not_for_token_classification():
    config = make_config("funnel")
    for_text, for_tags = make_network(config), make_network(config)
    TextClassifier.on(encoder_of(for_text, config), 2)
    TokenClassifier.for_tags(for_tags, config, 2)
    assert len(layers_of(for_text).layers) == 2
    assert len(layers_of(for_tags).layers) == 3


def test_the_output_layer_of_gpt_has_no_bias_and_no_dense_layer():
    classifier = make_classifier("gpt2")
    assert classifier.output.bias is None
    assert isinstance(classifier.dense, nn.Identity)


def test_an_unknown_family_has_the_default_pooling():
    config = transformers.MraConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1)
    classifier = TextClassifier.on(
        encoder_of(transformers.AutoModel.from_config(config), config), 2
    )
    assert classifier.pooling is DEFAULT
    assert classifier(torch.randn(2, 4, 16), MASK).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "expected"), [("first", [0.0, 4.0]), ("last", [2.0, 7.0]), ("mean", [1.0, 5.5])]
)
def test_every_pooling_ignores_padding(name: str, expected: list[float]):
    hidden = torch.arange(8.0).reshape(2, 4, 1)
    assert STATES[name](hidden, MASK).flatten().tolist() == expected


def test_mean_pooling_of_1000_tokens_is_exact_in_half_precision():
    hidden = torch.full((1, 1000, 1), 1.0, dtype=torch.bfloat16)
    assert STATES["mean"](hidden, torch.ones(1, 1000)).item() == 1.0


@pytest.mark.parametrize(
    ("family", "settings", "spread"),
    [
        ("distilbert", {"initializer_range": 0.05}, 0.05),
        ("funnel", {}, (32 + 200) ** -0.5),
        ("funnel", {"initializer_std": 0.03}, 0.03),
        ("modernbert", {}, 32**-0.5),
    ],
)
def test_classifier_layers_are_initialized_as_in_transformers(
    family: str, settings: dict[str, float], spread: float
):
    torch.manual_seed(0)
    output = make_classifier(family, 200, **settings).output
    assert output.weight.std().item() == pytest.approx(spread, rel=0.1)
    assert not output.bias.any()
