"""Tests of layer-wise learning rates and gradual unfreezing."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from benchharness.encoder import Encoder, layers_of
from benchharness.heads.pair import PairNetwork
from benchharness.recipes.recipe import Recipe
from benchharness.training.optimizer import (
    clip_in_step,
    learning_rate,
    make_optimizer,
    param_groups,
    update_groups,
)
from tests.helpers.families import FAMILIES, make_config
from tests.helpers.families import make_network as make_family
from tests.helpers.training import RECIPE, having, make_data, make_network, train, weights_of

DECAYED = having(RECIPE, layer_decay=0.5)
GRADUAL = having(RECIPE, unfreeze="gradual", warmup_ratio=0.0)
PARTS = ("head", "layer.1.", "layer.0.", "embeddings.")
"""Name prefixes of the weights in each part of make_network, from the top."""


def part_of(name: str) -> str:
    return next((part for part in PARTS[1:] if part in name), "head")


def groups_by_name(network: nn.Module, recipe: Recipe) -> dict[str, dict[str, Any]]:
    """Return the group of every weight, and assert that each weight is in exactly one."""
    groups = param_groups(network, recipe)
    found = {id(weight): group for group in groups for weight in group["params"]}
    assert len(found) == sum(len(group["params"]) for group in groups)
    assert len(found) == sum(weight.requires_grad for weight in network.parameters())
    return {name: found[id(w)] for name, w in network.named_parameters() if w.requires_grad}


def values(network: nn.Module, recipe: Recipe, key: str) -> dict[str, set[Any]]:
    """Return the values of `key` in the groups of each part."""
    said: dict[str, set[Any]] = {part: set() for part in PARTS}
    for name, group in groups_by_name(network, recipe).items():
        said[part_of(name)].add(group[key])
    return said


def test_recipe_without_layer_decay_has_two_parameter_groups():
    groups = param_groups(make_network(), RECIPE)
    assert [group["weight_decay"] for group in groups] == [0.01, 0.0]
    assert {(group["scale"], group["from_epoch"]) for group in groups} == {(1.0, 0)}
    assert all(weight.ndim > 1 for weight in groups[0]["params"])
    assert all(weight.ndim == 1 for weight in groups[1]["params"])


@pytest.mark.parametrize(("top", "powers"), [(2, (0, 2, 3, 4)), (1, (0, 1, 2, 3))])
def test_layer_wise_learning_rates_equal_those_of_electra_and_ulmfit(
    top: int, powers: tuple[int, ...]
):
    """ELECTRA's _get_layer_lrs: task n + 2 - (n + 2), layer i n + 2 - (i + 1), embeddings n + 2."""
    scales = values(make_network(), having(DECAYED, top_layer_depth=top), "scale")
    assert scales == {part: {0.5**power} for part, power in zip(PARTS, powers, strict=True)}


def test_biases_and_norm_weights_have_no_weight_decay_in_any_layer():
    for name, group in groups_by_name(make_network(), DECAYED).items():
        is_small = name.endswith("bias") or "LayerNorm" in name
        assert group["weight_decay"] == (0.0 if is_small else 0.01), name


def test_schedule_multiplies_the_learning_rate_scale_of_each_group():
    groups = param_groups(make_network(), DECAYED)
    update_groups(groups, learning_rate(3, 10, DECAYED), epoch=0)
    assert {group["lr"] / group["scale"] for group in groups} == {learning_rate(3, 10, DECAYED)}


def moves(network: nn.Module, before: dict[str, torch.Tensor]) -> dict[str, float]:
    """Return the largest change of a weight of each part."""
    moved = dict.fromkeys(PARTS, 0.0)
    for name, weight in network.named_parameters():
        distance = float((weight.detach() - before[name]).abs().max())
        moved[part_of(name)] = max(moved[part_of(name)], distance)
    return moved


def copies(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in network.named_parameters()}


def test_layer_decay_scales_the_first_update_of_each_layer():
    """AdamW's first step is the learning rate for every weight, whatever its gradient."""
    network = make_network(dropout=0.0)
    before = copies(network)
    recipe = having(DECAYED, epochs=0.5, warmup_ratio=0.0, weight_decay=0.0, adam_epsilon=1e-12)
    train(network, having(recipe, batch_size=64, max_grad_norm=1e9))
    found = moves(network, before)
    expected = {"head": 1e-3, "layer.1.": 2.5e-4, "layer.0.": 1.25e-4, "embeddings.": 6.25e-5}
    assert found == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5])
def test_gradual_unfreezing_trains_one_more_layer_per_epoch(epochs: int):
    network = make_network()
    before = copies(network)
    train(network, having(GRADUAL, epochs=epochs))
    moved = [part for part, distance in moves(network, before).items() if distance > 0]
    assert moved == list(PARTS[:epochs])


def test_unfrozen_layer_gets_gradients_from_the_first_step_of_its_epoch():
    """Use two steps per epoch."""
    network, seen = make_network(), dict[str, list[int]]()
    steps = iter_steps(network)
    for name, weight in network.named_parameters():
        weight.register_post_accumulate_grad_hook(
            lambda _, name=name: seen.setdefault(part_of(name), []).append(steps[0])
        )
    train(network, having(GRADUAL, epochs=4))
    firsts = {part: min(numbers) for part, numbers in seen.items()}
    assert firsts == {"head": 1, "layer.1.": 3, "layer.0.": 5, "embeddings.": 7}


def iter_steps(network: nn.Module) -> list[int]:
    """Count forward passes, one per step because the batches of these tests have equal lengths."""
    counter = [0]
    rows = [0]

    def count(_: nn.Module, __: Any, inputs: dict[str, torch.Tensor]) -> None:
        rows[0] += len(inputs["input_ids"])
        counter[0] = -(-rows[0] // RECIPE.optim.batch_size)

    network.register_forward_pre_hook(count, with_kwargs=True)
    return counter


def test_gradual_unfreezing_does_not_train_permanently_frozen_weights():
    """Freeze the query weights first, as in an encoder with adapters."""
    network = make_network()
    fixed = [w for name, w in network.named_parameters() if name.endswith("query.weight")]
    for weight in fixed:
        weight.requires_grad_(False)
    train(network, having(GRADUAL, epochs=4))
    assert not any(weight.requires_grad for weight in fixed)
    untouched = dict(make_network().named_parameters())
    names = [name for name in untouched if name.endswith("query.weight")]
    assert all(torch.equal(w, untouched[name]) for w, name in zip(fixed, names, strict=True))


def test_gradual_unfreezing_is_deterministic():
    first, again = make_network(), make_network()
    train(first, having(GRADUAL, epochs=3))
    train(again, having(GRADUAL, epochs=3))
    assert torch.equal(weights_of(first), weights_of(again))


@pytest.mark.parametrize("accumulation", [1, 4])
def test_gradient_accumulation_equals_the_large_batch_in_gradual_unfreezing(accumulation: int):
    recipe = having(GRADUAL, epochs=3, layer_decay=0.8)
    whole, parts = make_network(dropout=0.0), make_network(dropout=0.0)
    train(whole, recipe, data=make_data(rows=32))
    train(parts, having(recipe, accumulation=accumulation), data=make_data(rows=32))
    torch.testing.assert_close(weights_of(parts), weights_of(whole), atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_weight_of_every_family_has_one_learning_rate(family: str):
    config = make_config(family)
    network = make_family(config)
    encoder = Encoder(network=network, tokenizer=None, config=config, family=family, max_tokens=40)
    groups = groups_by_name(PairNetwork(encoder, 2), DECAYED)
    layers = len(layers_of(network).layers)
    scales = {group["scale"] for group in groups.values()}
    assert (max(scales), len(scales)) == (1.0, layers + 2)


def test_gradients_of_an_optimizer_without_clipping_of_its_own_are_clipped_in_place() -> None:
    network = make_network(dropout=0.0)
    weights = list(network.parameters())
    for weight in weights:
        weight.grad = torch.full_like(weight, 0.5)
    expected = nn.utils.get_total_norm([weight.grad for weight in weights])
    norm = clip_in_step(torch.optim.SGD(weights, lr=0.1), weights, 1.0)
    assert torch.equal(norm, expected)
    after = nn.utils.get_total_norm([weight.grad for weight in weights])
    torch.testing.assert_close(after, torch.tensor(1.0), atol=1e-4, rtol=0)


@pytest.mark.parametrize("max_norm", [0.5, 1.0, 1e3, math.inf])
def test_gradient_clipping_in_the_optimizer_step_equals_clipping_of_torch(max_norm: float) -> None:
    """Use gradients of different sizes, so that the moments depend on how each was clipped."""
    recipe = having(RECIPE, max_grad_norm=max_norm, weight_decay=0.1)
    ours, plain = make_network(dropout=0.0), make_network(dropout=0.0)
    next(plain.parameters()).requires_grad_(False)
    next(ours.parameters()).requires_grad_(False)
    optimizers = make_optimizer(ours, recipe), make_optimizer(plain, recipe)
    for size in (10.0, 0.01, 1.0):
        torch.manual_seed(3)
        for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
            if one.requires_grad:
                one.grad = torch.randn_like(one) * size / 300
                other.grad = one.grad.clone()
        norm = clip_in_step(optimizers[0], list(ours.parameters()), max_norm)
        expected = nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
        assert torch.equal(norm, expected)
        for optimizer in optimizers:
            optimizer.step()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
