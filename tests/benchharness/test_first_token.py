"""Tests of the optimization that computes the last layer at the first token only.

The tests of packed rows are in test_packing.py.
"""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchharness.encoder import FAMILIES, use_first_token
from benchharness.encoder.packing import PACKABLE, use_packed_rows
from tests.helpers.families import make_config, make_network

PACKED = sorted(FAMILIES & PACKABLE)


def make_whole(family: str) -> Any:
    """Return an encoder without dropout, in training mode."""
    torch.manual_seed(3)
    network = make_network(make_config(family)).train()
    for module in network.modules():
        for name, child in module.named_children():
            if "Dropout" in type(child).__name__:
                setattr(module, name, nn.Dropout(0.0))
    network.pooler = None
    return network


def make_inputs(lengths: list[int], family: str) -> dict[str, Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    config = make_config(family)
    ids = torch.randint(5, config.vocab_size, mask.shape)
    return {"input_ids": ids.where(mask.bool(), config.pad_token_id), "attention_mask": mask}


def count_tokens(network: Any, kind: type[nn.Module], inputs: dict[str, Tensor]) -> list[int]:
    """Return how many tokens each of the network's modules of a class computes."""
    counts = []
    hooks = [
        module.register_forward_hook(lambda _m, _i, out: counts.append(out[..., 0].numel()))
        for module in network.modules()
        if isinstance(module, kind)
    ]
    network(**inputs)
    for hook in hooks:
        hook.remove()
    return counts


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_first_token_states_and_gradients_equal_those_of_the_full_encoder(family: str) -> None:
    whole = make_whole(family)
    narrow = copy.deepcopy(whole)
    use_first_token(narrow)
    inputs = make_inputs([9, 1, 30, 16], family)
    states, expected = narrow(**inputs)[0], whole(**inputs)[0]
    assert states.shape[1] == 1
    torch.testing.assert_close(states[:, 0], expected[:, 0], rtol=1e-5, atol=1e-5)
    weights = torch.randn(expected[:, 0].shape)
    (states[:, 0] * weights).sum().backward()
    (expected[:, 0] * weights).sum().backward()
    gradients = {name: weight.grad for name, weight in whole.named_parameters()}
    size = max(gradient.abs().max() for gradient in gradients.values() if gradient is not None)
    for name, weight in narrow.named_parameters():
        theirs = gradients[name]
        if theirs is not None:
            torch.testing.assert_close(weight.grad / size, theirs / size, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("family", PACKED)
def test_first_token_states_in_prediction_equal_those_of_the_full_encoder(family: str) -> None:
    whole = make_whole(family).eval()
    narrow = copy.deepcopy(whole)
    use_packed_rows(narrow, "cpu")
    use_first_token(narrow)
    inputs = make_inputs([9, 1, 30, 16], family)
    with torch.inference_mode():
        states, expected = narrow(**inputs)[0], whole(**inputs)[0]
    torch.testing.assert_close(states[:, 0], expected[:, 0], rtol=1e-5, atol=1e-5)


def test_first_token_optimization_computes_fewer_tokens_in_the_last_layer() -> None:
    inputs = make_inputs([9, 1, 30, 16], "bert")
    whole, narrow = make_whole("bert"), make_whole("bert")
    for network in (whole, narrow):
        use_packed_rows(network, "cpu")
    use_first_token(narrow)
    tokens, rows = 56, 4
    layers = len(whole.encoder.layer)
    assert count_tokens(whole, nn.Linear, inputs) == [tokens] * (6 * layers)
    expected = [tokens] * (6 * (layers - 1) + 3) + [rows] * 3
    assert count_tokens(narrow, nn.Linear, inputs) == expected


def test_first_token_optimization_does_not_change_unsupported_families() -> None:
    network = make_whole("mpnet")
    inputs = make_inputs([9, 30], "mpnet")
    expected = network(**inputs)[0]
    use_first_token(network)
    assert torch.equal(network(**inputs)[0], expected)
