"""Packed rows as a GPU computes them, on a CPU: the same states, losses, gradients, and no waiting.

What differs on a GPU is the kernel of attention alone, and tests marked `gpu` hold that.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchharness.encoder import cuda, packing
from benchharness.encoder.layers import FAMILIES, use_first_token
from benchharness.encoder.packing import PACKABLE, Packing, is_packed, use_packed_rows
from benchharness.heads import choice, pair, span, tag
from benchharness.training.batching import Features
from benchharness.training.compute import Compute
from benchharness.training.loop import Training
from benchharness.training.predict import predict
from tests.helpers.device_stand_in import Waits, recorded_on_a_cpu
from tests.helpers.families import make_config, make_network
from tests.helpers.parity import make_both, put_head
from tests.helpers.training import RECIPE, weights_of

KINDS = {"pair": pair, "choice": choice, "span": span, "tag": tag}
LENGTHS = [19, 3, 1, 30, 8, 17, 2, 25]
"""More than ModernBERT's small window sees, and less."""


def without_dropout(network: nn.Module) -> Any:
    for module in network.modules():
        for name in ("p", "dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return network


def make_inputs(config: Any, lengths: list[int], seed: int = 1, width: int | None = None) -> Any:
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.arange(width or max(lengths)) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 90, mask.shape, generator=generator)
    inputs = {"input_ids": ids.where(mask > 0, config.pad_token_id or 0), "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.randint(0, 2, mask.shape, generator=generator) * mask
    return inputs


def packed(lengths: list[int], width: int, tail: int = 0) -> Packing:
    return Packing.of_lengths(np.array(lengths), width, torch.device("cpu"), tail)


def compare_gradients(ours: nn.Module, theirs: nn.Module, within: float = 1e-5) -> None:
    """Of the weights by name; relative to the largest of all."""
    expected = {n: w.grad for n, w in theirs.named_parameters() if w.grad is not None}
    size = max(float(gradient.abs().max()) for gradient in expected.values())
    found = {n: w.grad for n, w in ours.named_parameters() if w.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name] / size, gradient / size, rtol=0, atol=within)


@pytest.mark.parametrize("tail", [0, 5])
@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_states_and_gradients_are_those_of_padded_rows(family: str, tail: int) -> None:
    torch.manual_seed(3)
    config = make_config(family)
    padded = without_dropout(make_network(config)).train()
    padded.pooler = None
    ours = copy.deepcopy(padded)
    use_packed_rows(ours, "cuda")
    assert is_packed(ours)
    inputs = make_inputs(config, LENGTHS, width=32)
    real = inputs["attention_mask"].bool()
    states = ours(**inputs, packing=packed(LENGTHS, 32, tail))[0]
    expected = padded(**inputs)[0]
    torch.testing.assert_close(states[real], expected[real], rtol=1e-5, atol=1e-5)
    assert not states[~real].any()
    weights = torch.randn(expected[real].shape)
    (states[real] * weights).sum().backward()
    (expected[real] * weights).sum().backward()
    compare_gradients(ours, padded)


@pytest.mark.parametrize("tail", [0, 5])
@pytest.mark.parametrize("family", sorted(FAMILIES & PACKABLE))
def test_a_last_layer_at_the_first_token_gives_the_same(family: str, tail: int) -> None:
    torch.manual_seed(3)
    config = make_config(family)
    padded = without_dropout(make_network(config)).train()
    padded.pooler = None
    ours = copy.deepcopy(padded)
    use_packed_rows(ours, "cuda")
    use_first_token(ours)
    inputs = make_inputs(config, LENGTHS, width=32)
    states = ours(**inputs, packing=packed(LENGTHS, 32, tail))[0]
    expected = padded(**inputs)[0][:, :1]
    torch.testing.assert_close(states, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(expected.shape)
    (states * weights).sum().backward()
    (expected * weights).sum().backward()
    compare_gradients(ours, padded)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", sorted(PACKABLE - {"eurobert"}))
def test_logits_losses_and_gradients_are_those_of_transformers_classes(
    family: str, kind: str
) -> None:
    theirs, ours = (without_dropout(network).train() for network in make_both(family, kind))
    use_packed_rows(ours.encoder, "cuda")
    if getattr(ours, "reads_first_token", False):
        use_first_token(ours.encoder)
    inputs = make_inputs(theirs.config, LENGTHS, width=32)
    real = inputs["attention_mask"].bool()
    if kind == "choice":
        logits = ours(**inputs, packing=packed(LENGTHS, 32)).view(2, 4)
        expected = theirs(**{n: v.view(2, 4, -1) for n, v in inputs.items()}).logits
    else:
        logits, output = ours(**inputs, packing=packed(LENGTHS, 32)), theirs(**inputs)
        expected = output.logits if kind != "span" else None
        if kind == "span":
            expected = torch.stack([output.start_logits, output.end_logits], dim=-1)
        if kind in ("span", "tag"):
            logits, expected = logits[real], expected[real]
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=2e-5)
    losses = [functional.cross_entropy(each, torch.arange(len(each)) % each.shape[-1])
              for each in (logits, expected)]
    torch.testing.assert_close(*losses, rtol=0, atol=1e-5)
    for loss in losses:
        loss.backward()
    sizes = [torch.cat([w.grad.flatten() for w in body.parameters() if w.grad is not None])
             for body in (ours.encoder, getattr(theirs, theirs.base_model_prefix))]
    torch.testing.assert_close(sizes[0].norm(), sizes[1].norm(), rtol=1e-4, atol=0)


# Dropout: the same masks for the same probabilities of the same tokens, whatever the layout.


class FixedDropout(TorchDispatchMode):
    """Draws the masks of the n-th dropout by the tokens they are for, padded or packed.

    On a CPU dropout draws by `bernoulli_`: of states (rows, width, size) or packed (1, tokens,
    size), of probabilities (rows, heads, width, width).
    """

    def __init__(self, packing: Packing) -> None:
        super().__init__()
        self._packing, self.calls = packing, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.overloadpacket is not torch.ops.aten.bernoulli_:
            return func(*args, **(kwargs or {}))
        self.calls += 1
        generator = torch.Generator().manual_seed(self.calls)
        noise, rows, width = args[0], self._packing.rows, self._packing.width
        is_packed_row = noise.shape[0] == 1 and noise.ndim == 3
        shape = (rows, width, noise.shape[-1]) if is_packed_row else noise.shape
        drawn = (torch.rand(shape, generator=generator) < args[1]).to(noise.dtype)
        if is_packed_row:
            drawn = drawn.flatten(0, 1)[self._packing.places][None]
        return noise.copy_(drawn)


@pytest.mark.parametrize("family", sorted(PACKABLE))
def test_with_dropout_by_the_same_masks_all_is_the_same(family: str) -> None:
    rates = ("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "dropout",
             "embedding_dropout", "mlp_dropout")
    torch.manual_seed(3)
    config = make_config(family)
    for name in rates:
        if hasattr(config, name):
            setattr(config, name, 0.3)
    padded = make_network(config).train()
    padded.pooler = None
    ours = copy.deepcopy(padded)
    padded.set_attn_implementation("eager")
    use_packed_rows(ours, "cuda")
    inputs, known = make_inputs(config, LENGTHS, width=32), packed(LENGTHS, 32)
    real = inputs["attention_mask"].bool()
    outputs = []
    for network, more in ((ours, {"packing": known}), (padded, {})):
        with FixedDropout(known) as mode:
            outputs.append(network(**inputs, **more)[0][real])
        assert mode.calls >= 2 * config.num_hidden_layers
        weights = torch.linspace(-1, 1, outputs[-1].numel()).view(outputs[-1].shape)
        (outputs[-1] * weights).sum().backward()
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)
    compare_gradients(ours, padded)
    with torch.no_grad(), FixedDropout(known):
        kept = without_dropout(copy.deepcopy(ours))(**inputs, packing=known)[0][real]
    assert (kept - outputs[0]).abs().max() > 0.1, "dropout did nothing"
