"""Tests of training on examples of several rows, losses of several terms, logits per token."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from benchharness.encoder import Encoder
from benchharness.heads import choice, span, tag
from benchharness.training.batching import Features, pad
from benchharness.training.predict import PREDICTION_TOKENS, predict
from tests.helpers.checkpoints import make_config
from tests.helpers.training import CPU, backward

TASK: Any = SimpleNamespace(tags=("O", "B-X", "I-X"))
LENGTHS = np.array([9, 3, 20, 4, 12, 7, 7, 30, 5, 6])


def make_encoder() -> Encoder:
    torch.manual_seed(0)
    config = make_config("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    body = AutoModel.from_config(config)
    return Encoder(network=body, tokenizer=None, config=config, family="bert", max_tokens=40)


def make_rows() -> Features:
    ids = np.random.default_rng(4).integers(5, 900, LENGTHS.sum()).astype(np.int32)
    starts = np.cumsum([0, *LENGTHS])
    return Features(token_ids=ids, token_types=None, starts=starts, pad_id=0, max_tokens=40)


def logits_of(network: torch.nn.Module, features: Features, row: int) -> torch.Tensor:
    """Return the logits of one row computed alone, without padding."""
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.array([row])).items()}
    length = features.lengths[row]
    return network(**{name: values[:, :length] for name, values in inputs.items()})[0]


def gradients(network: torch.nn.Module) -> torch.Tensor:
    found = [w.grad.flatten() for w in network.parameters() if w.grad is not None]
    network.zero_grad()
    return torch.cat(found)


@pytest.mark.parametrize("parts", [[[0, 1, 2, 3]], [[2], [3, 0], [1]]])
def test_choice_gradients_of_micro_batches_equal_those_of_the_example_mean(parts: list[list[int]]):
    network = choice.network(make_encoder(), TASK)
    features = replace(make_rows(), items=np.array([0, 2, 5, 6, 10]))
    gold = torch.tensor([1, 2, 0, 3])
    expected = []
    for item, right in enumerate(gold):
        rows = range(features.item_starts[item], features.item_starts[item + 1])
        logits = torch.stack([logits_of(network, features, row) for row in rows])
        expected.append(-logits.log_softmax(0)[right])
    torch.stack(expected).mean().backward()
    plain = gradients(network)
    batch = [np.array(part) for part in parts]
    mean = backward(network, features, gold, choice.loss, batch)
    assert mean.item() == pytest.approx(torch.stack(expected).mean().item(), abs=1e-5)
    torch.testing.assert_close(gradients(network), plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("parts", [[range(10)], [[7], [2, 4], [0, 1, 3, 5, 6, 8, 9]]])
def test_tagging_gradients_of_micro_batches_equal_those_of_the_word_mean(parts: list[list[int]]):
    network = tag.network(make_encoder(), TASK)
    goals = np.full((10, 30), -100)
    for row, length in enumerate(LENGTHS):
        goals[row, 1 : length - 1 : 2] = row % 3
    features = replace(make_rows(), terms=(goals >= 0).sum(1))
    goal = torch.from_numpy(goals)
    logits = [logits_of(network, features, row) for row in range(10)]
    flat = torch.cat([goal[row, :length] for row, length in enumerate(LENGTHS)])
    expected = torch.nn.functional.cross_entropy(torch.cat(logits), flat)
    expected.backward()
    plain = gradients(network)
    batch = [np.array(part) for part in parts]
    mean = backward(network, features, goal, tag.loss, batch)
    assert mean.item() == pytest.approx(expected.item(), abs=1e-5)
    torch.testing.assert_close(gradients(network), plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("head", [span, tag])
def test_token_logits_are_in_the_order_of_the_tokens(head: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PREDICTION_TOKENS, "cpu", 40)
    network, features = head.network(make_encoder(), TASK).eval(), make_rows()
    found = predict(network, features, CPU, lambda _: None)
    assert found.shape == (LENGTHS.sum(), 2 if head is span else 3)
    for row, part in enumerate(np.split(found, features.starts[1:-1])):
        with torch.inference_mode():
            alone = logits_of(network, features, row).numpy()
        np.testing.assert_allclose(part, alone, atol=1e-5)
