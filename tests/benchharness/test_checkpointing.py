"""Tests of activation checkpointing: equal gradients with less memory, also for packed rows."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from benchharness.encoder import Encoder
from benchharness.encoder.packing import can_checkpoint, checkpoint_activations, prepare_for
from benchharness.errors import ModelError
from benchharness.heads.pair import PairNetwork
from benchharness.training.predict import trim_memory
from tests.helpers.checkpoints import make_config

pytestmark = pytest.mark.usefixtures("frozen_heap")


def make_network(family: str, **sizes: int) -> PairNetwork:
    """Return a network with dropout whose batches are packed if its family supports it."""
    torch.manual_seed(0)
    config = make_config(family, **sizes)
    network = AutoModel.from_config(config)
    found = PairNetwork(
        Encoder(network=network, tokenizer=None, config=config, family=family, max_tokens=4096), 2
    )
    prepare_for(torch.device("cpu"), found)
    return found.train()


def gradients(network: PairNetwork, tokens: int, rows: int = 3) -> torch.Tensor:
    """Return the gradients of a batch whose second row is shorter, as one vector."""
    network.zero_grad()
    torch.manual_seed(2)
    mask = torch.ones(rows, tokens, dtype=torch.long)
    mask[1, tokens // 2 :] = 0
    ids = torch.randint(5, 900, (rows, tokens))
    network(input_ids=ids, attention_mask=mask).square().sum().backward()
    return torch.cat([w.grad.flatten() for w in network.parameters() if w.grad is not None])


@pytest.mark.parametrize("family", ["bert", "modernbert", "deberta-v2"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_activation_checkpointing_does_not_change_gradients(family: str, precision: torch.dtype):
    network = make_network(family)
    with torch.autocast("cpu", dtype=precision, enabled=precision != torch.float32):
        expected = gradients(network, 24)
        checkpoint_activations(network)
        found = gradients(network, 24)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5 * expected.abs().max().item())
    assert expected.abs().max() > 0


def peak(network: PairNetwork) -> int:
    """Return the peak memory (bytes above the resident memory) of a step of 2 x 512 tokens."""
    trim_memory()
    # Resets the peak to the current memory, see proc(5).
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    gradients(network, 512, rows=2)
    return resident("VmHWM") - before


def resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone says peaks")
def test_activation_checkpointing_halves_the_memory_of_a_step():
    network = make_network(
        "modernbert",
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=24,
        num_attention_heads=2,
    )
    # Allocates the gradients, and memory that libraries keep, before the measurement.
    gradients(network, 64)
    kept = peak(network)
    checkpoint_activations(network)
    assert peak(network) < kept / 2


def test_activation_checkpointing_is_refused_for_unsupported_layers():
    network = make_network("mpnet")
    assert not can_checkpoint(network)
    with pytest.raises(ModelError, match=r"no layers that transformers can recompute"):
        checkpoint_activations(network)
    frozen = make_network("bert")
    frozen.encoder.requires_grad_(False)
    assert not can_checkpoint(frozen), "it keeps nothing for a backward pass"
