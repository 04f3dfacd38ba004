"""Tests that training only the occurring rows of a vocabulary gives the same weights."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchharness.training.batching import Features, pad
from benchharness.training.optimizer import cut_vocabulary
from tests.helpers.families import FAMILIES
from tests.helpers.parity import make_ours

LENGTHS = [9, 3, 30, 16, 5, 12, 21, 7]


def make_features(first: int, last: int, network: Any) -> Features:
    """Return texts of the tokens `first` to `last`."""
    ids = np.random.default_rng(first).integers(first, last, sum(LENGTHS)).astype(np.int32)
    config = network.encoder.config
    has_types = getattr(config, "type_vocab_size", 0) > 1
    return Features(
        token_ids=ids,
        token_types=np.zeros_like(ids) if has_types else None,
        starts=np.cumsum([0, *LENGTHS]),
        pad_id=config.pad_token_id or 0,
        max_tokens=30,
    )


def make_both_features(network: Any) -> dict[str, Features]:
    return {"train": make_features(20, 200, network), "dev": make_features(150, 300, network)}


def train(network: nn.Module, features: Features, steps: int = 4) -> None:
    """Take some steps of AdamW with a falling learning rate and dropout."""
    torch.manual_seed(2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.3, fused=True)
    goals = torch.arange(len(LENGTHS)) % 3
    network.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 / (step + 1)
        inputs = pad(features, np.arange(len(LENGTHS)))
        logits = network(**{name: torch.from_numpy(part) for name, part in inputs.items()})
        nn.functional.cross_entropy(logits, goals).backward()
        optimizer.step()
        optimizer.zero_grad()


def predict(network: nn.Module, features: Features) -> torch.Tensor:
    inputs = pad(features, np.arange(len(LENGTHS)))
    with torch.inference_mode():
        logits: torch.Tensor = network.eval()(
            **{name: torch.from_numpy(part) for name, part in inputs.items()}
        )
    return logits


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_training_with_a_reduced_vocabulary_gives_the_same_weights(family: str) -> None:
    whole, cut = make_ours(family, "pair"), make_ours(family, "pair")
    features = make_both_features(whole)
    fewer, used = cut_vocabulary(cut.encoder, features)
    train(whole, features["train"])
    train(cut, fewer["train"])
    expected = predict(whole, features["dev"])
    torch.testing.assert_close(predict(cut, fewer["dev"]), expected, rtol=1e-5, atol=1e-5)
    used.restore()
    torch.testing.assert_close(predict(cut, features["dev"]), expected, rtol=1e-5, atol=1e-5)
    theirs = dict(whole.named_parameters())
    assert [name for name, _ in cut.named_parameters()] == list(theirs)
    for name, weight in cut.named_parameters():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-5, atol=1e-6)


def test_reduced_vocabulary_has_only_occurring_and_special_tokens() -> None:
    network = make_ours("bert", "pair")
    features = make_both_features(network)
    whole = network.encoder.get_input_embeddings().weight
    fewer, used = cut_vocabulary(network.encoder, features)
    occurring = set(features["train"].token_ids) | set(features["dev"].token_ids)
    special = 1 + network.encoder.config.pad_token_id
    assert set(used.rows) == occurring | set(range(special))
    assert len(network.encoder.get_input_embeddings().weight) == len(used.rows) + 1 < len(whole)
    for name, part in fewer.items():
        assert (used.rows[part.token_ids] == features[name].token_ids).all()


def test_reduced_vocabulary_keeps_a_padding_token_unknown_to_the_config() -> None:
    network = make_ours("bert", "pair")
    features = make_features(20, 200, network)
    far = Features(**{**vars(features), "pad_id": 777})
    fewer, used = cut_vocabulary(network.encoder, {"train": far})
    assert used.rows[fewer["train"].pad_id] == 777
    assert torch.isfinite(predict(network, fewer["train"])).all()
