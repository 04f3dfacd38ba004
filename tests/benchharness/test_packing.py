"""A packed encoder gives padded batches the hidden states and gradients that it gave without."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel

from benchharness.encoder.cpu import groups_of
from benchharness.encoder.packing import PACKABLE, PACKING, Packing, is_packed, use_packed_rows
from tests.helpers.checkpoints import LENGTHS, make_config

WINDOWS = {"modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2}}
"""Every other layer sees four tokens to either side."""


def make_network(family: str) -> Any:
    """An encoder without dropout, computing in training mode."""
    torch.manual_seed(3)
    config = make_config(family, max_position_embeddings=64, **WINDOWS.get(family, {}))
    network = AutoModel.from_config(config).train()
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    network.pooler = None
    return network


def make_inputs(lengths: list[int], family: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    pad = make_config(family).pad_token_id or 0
    ids = torch.randint(5, 90, mask.shape) * mask + pad * (1 - mask)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if make_config(family).to_dict().get("type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.randint(0, 2, mask.shape) * mask
    return inputs


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_hidden_states_and_gradients_are_the_same(family: str, lengths: list[int]) -> None:
    padded = make_network(family)
    packed = copy.deepcopy(padded)
    use_packed_rows(packed, "cpu")
    assert is_packed(packed)
    inputs = make_inputs(lengths, family)
    real = inputs["attention_mask"].bool()
    states, expected = packed(**inputs)[0], padded(**inputs)[0]
    torch.testing.assert_close(states[real], expected[real], rtol=1e-5, atol=1e-5)
    assert not states[~real].any()
    weights = torch.randn(expected[real].shape)
    (states[real] * weights).sum().backward()
    (expected[real] * weights).sum().backward()
    gradients = [weight.grad for weight in padded.parameters()]
    size = max(gradient.abs().max() for gradient in gradients)
    for weight, gradient in zip(packed.parameters(), gradients, strict=True):
        torch.testing.assert_close(weight.grad / size, gradient / size, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_prediction_gives_the_same_hidden_states(family: str) -> None:
    padded = make_network(family).eval()
    packed = copy.deepcopy(padded)
    use_packed_rows(packed, "cpu")
    inputs = make_inputs(LENGTHS["mixed"], family)
    real = inputs["attention_mask"].bool()
    with torch.inference_mode():
        output = packed(**inputs, output_hidden_states=True)
        expected = padded(**inputs, output_hidden_states=True)
    for ours, theirs in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(ours[real], theirs[real], rtol=1e-5, atol=1e-5)


def test_a_failure_leaves_no_packing_behind() -> None:
    network = make_network("bert")
    use_packed_rows(network, "cpu")
    inputs = make_inputs([3, 2], "bert")
    inputs["input_ids"][0, 0] = 10**6
    with pytest.raises(IndexError):
        network(**inputs)
    assert PACKING.get() is None


def test_families_without_the_interface_keep_their_own() -> None:
    network = AutoModel.from_config(make_config("mpnet"))
    use_packed_rows(network, "cpu")
    assert "benchharness" not in network.config._attn_implementation
    assert not is_packed(network)


def test_groups_hold_every_token_once() -> None:
    lengths = torch.tensor([9, 1, 33, 16, 2, 40, 1])
    packing = Packing.of((torch.arange(40) < lengths[:, None]).long())
    groups = groups_of(packing)
    places = [g.places if g.is_real is None else g.places[g.is_real] for g in groups]
    found = torch.cat([each.flatten() for each in places])
    assert sorted(found.tolist()) == list(range(int(lengths.sum())))
    assert all(group.places.shape[1] % 8 == 0 for group in groups)
