"""A packed encoder gives padded batches the hidden states and gradients that it gave without."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModel, AutoModelForSeq2SeqLM

from benchharness.encoder import packing
from benchharness.encoder.cpu import groups_of
from benchharness.encoder.packing import PACKABLE, PACKING, Packing, is_packed, use_packed_rows
from tests.helpers.checkpoints import LENGTHS, make_config
from tests.helpers.families import FAMILIES

CHANGES: dict[str, dict[str, Any]] = {
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "mobilebert": FAMILIES["mobilebert"],
}
"""Every other layer sees four tokens to either side; MobileBERT's norms do not bound its states."""


TRIED = [*sorted(PACKABLE), "deberta-v2", "gpt2", "mobilebert"]
"""Of families with packed layers one for each kind of attention; test_gpu_rows.py has all."""

RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True}


def make_network(family: str) -> Any:
    """An encoder without dropout, computing in training mode."""
    torch.manual_seed(3)
    config = make_config(family, **{"max_position_embeddings": 64} | CHANGES.get(family, {}))
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
@pytest.mark.parametrize("family", TRIED)
def test_hidden_states_and_gradients_are_the_same(family: str, lengths: list[int]) -> None:
    padded = make_network(family)
    packed = copy.deepcopy(padded)
    use_packed_rows(packed, "cpu")
    assert is_packed(packed)
    inputs = make_inputs(lengths, family)
    real = inputs["attention_mask"].bool()
    states, expected = packed(**inputs)[0], padded(**inputs)[0]
    torch.testing.assert_close(states[real], expected[real], rtol=1e-5, atol=1e-5)
    assert family not in PACKABLE or not states[~real].any()
    weights = torch.randn(expected[real].shape)
    (states[real] * weights).sum().backward()
    (expected[real] * weights).sum().backward()
    gradients = [weight.grad for weight in padded.parameters()]
    size = max(gradient.abs().max() for gradient in gradients)
    for weight, gradient in zip(packed.parameters(), gradients, strict=True):
        torch.testing.assert_close(weight.grad / size, gradient / size, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("family", TRIED)
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


def test_other_families_keep_their_own() -> None:
    network = AutoModel.from_config(make_config("convbert"))
    use_packed_rows(network, "cpu")
    assert "benchharness" not in network.config._attn_implementation
    assert not is_packed(network)


def test_layers_without_a_known_attention_stay_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a version of transformers that calls it otherwise."""
    monkeypatch.setattr(packing, "LAYERS", {"mpnet": frozenset({"Unknown"})})
    network = make_network("mpnet")
    inputs = make_inputs(LENGTHS["mixed"], "mpnet")
    expected = network(**inputs)[0]
    use_packed_rows(network, "cpu")
    assert not is_packed(network)
    assert torch.equal(network(**inputs)[0], expected)


def test_an_encoder_with_its_decoder_stays_padded() -> None:
    network = AutoModelForSeq2SeqLM.from_config(make_config("t5"))
    use_packed_rows(network, "cpu")
    assert not is_packed(network)


@pytest.mark.parametrize("width", [24, 40, 70])
def test_deberta_reads_the_relative_positions_that_a_width_has(width: int) -> None:
    """Up to half of the buckets, 32, each is its own; the table has 128 rows."""
    config = make_config("deberta-v2", position_buckets=64, max_position_embeddings=128, **RELATIVE)
    padded = AutoModel.from_config(config).eval()
    packed = copy.deepcopy(padded)
    use_packed_rows(packed, "cpu")
    rows = []
    for module in packed.modules():
        if hasattr(module, "pos_ebd_size"):
            module.pos_dropout.register_forward_hook(lambda _, args, __: rows.append(len(args[0])))
    inputs = make_inputs([width, 3], "deberta-v2")
    real = inputs["attention_mask"].bool()
    with torch.inference_mode():
        states, expected = packed(**inputs)[0], padded(**inputs)[0]
    torch.testing.assert_close(states[real], expected[real], rtol=1e-5, atol=1e-5)
    assert rows == [48 if width == 24 else 128] * 2
    packed.train()(**inputs)[0].sum().backward()  # after positions that were made to predict


def test_groups_hold_every_token_once() -> None:
    lengths = torch.tensor([9, 1, 33, 16, 2, 40, 1])
    known = Packing.of((torch.arange(40) < lengths[:, None]).long())
    groups = groups_of(known)
    places = [g.places if g.is_real is None else g.places[g.is_real] for g in groups]
    found = torch.cat([each.flatten() for each in places])
    assert sorted(found.tolist()) == list(range(int(lengths.sum())))
    assert all(group.places.shape[1] % 8 == 0 for group in groups)
