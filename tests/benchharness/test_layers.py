"""Tests of the assignment of encoder weights to embeddings, layers and the part above them."""

from typing import Any

import pytest
import torch

from benchharness.encoder import layers_of
from tests.helpers.families import FAMILIES, make_config, make_network

LAYERS = {"albert": 1, "funnel": 3}
"""Number of layers where it is not 2: ALBERT shares one, and Funnel's decoder has another one."""

ABOVE = {
    "xlnet": {"mask_emb"},
    "megatron-bert": {"encoder.ln.weight", "encoder.ln.bias"},
    "modernbert": {"final_norm.weight"},
    "eurobert": {"norm.weight"},
    "gpt2": {"ln_f.weight", "ln_f.bias"},
    "t5": {"encoder.final_layer_norm.weight"},
}
"""Weights above the last layer; XLNet uses its weight only in pretraining."""


def names_in(network: Any, parts: Any) -> list[str]:
    names = {id(weight): name for name, weight in network.named_parameters()}
    return [names[id(weight)] for part in parts for weight in part.parameters()]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_encoder_weight_is_in_exactly_one_layer_or_in_the_embeddings(family: str):
    network = make_network(make_config(family))
    found = layers_of(network)
    below, inside = names_in(network, found.embeddings), names_in(network, found.layers)
    assert len(found.layers) == LAYERS.get(family, 2)
    assert len(below + inside) == len({*below, *inside})
    rest = {name for name, _ in network.named_parameters()} - {*below, *inside}
    assert {name for name in rest if not name.startswith("pooler")} == ABOVE.get(family, set())


@pytest.mark.parametrize("family", FAMILIES)
def test_detected_layers_are_computed_in_order_after_the_embeddings(family: str):
    network = make_network(make_config(family)).eval()
    found, calls = layers_of(network), []
    for number, part in enumerate([*found.embeddings[:1], *found.layers]):
        part.register_forward_hook(lambda *_, number=number: calls.append(number))
    with torch.inference_mode():
        network(input_ids=torch.full((2, 16), 7), attention_mask=torch.ones(2, 16).long())
    assert list(dict.fromkeys(calls)) == list(range(1 + len(found.layers)))


def test_encoder_weights_shared_by_all_layers_are_assigned_to_the_embeddings():
    network = make_network(make_config("deberta-v2"))
    below = names_in(network, layers_of(network).embeddings)
    assert "embeddings.word_embeddings.weight" in below
    assert "encoder.rel_embeddings.weight" in below
