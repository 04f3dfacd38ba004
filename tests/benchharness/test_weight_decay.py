"""Tests of weight decay relative to the learning rate (torch) and per step (Composer)."""

import math

import pytest
import torch
from torch import Tensor

from benchharness.models import MODELS
from benchharness.recipes import Recipe, resolve_recipe
from benchharness.training.optimizer import learning_rate, make_optimizer, update_groups
from tests.helpers.training import RECIPE, having, make_network

DECOUPLED = having(RECIPE, weight_decay=0.0, decoupled_weight_decay=0.01)


class Slow:
    """mosaicml/composer's DecoupledAdamW in fp64, one weight at a time, as in its source."""

    def __init__(self, weight: Tensor, highest: float, recipe: Recipe) -> None:
        self.weight, self.initial_lr, self.recipe = weight.detach().double(), highest, recipe
        self.first, self.second, self.steps = 0.0, 0.0, 0
        self.decay = recipe.optim.decoupled_weight_decay if weight.ndim > 1 else 0.0

    def step(self, gradient: Tensor, rate: float) -> None:
        recipe, gradient = self.recipe, gradient.double()
        self.steps += 1
        self.weight *= 1 - rate / self.initial_lr * self.decay
        self.first = recipe.adam.adam_beta1 * self.first + (1 - recipe.adam.adam_beta1) * gradient
        self.second = (
            recipe.adam.adam_beta2 * self.second + (1 - recipe.adam.adam_beta2) * gradient**2
        )
        corrected = math.sqrt(1 - recipe.adam.adam_beta2**self.steps)
        size = torch.as_tensor(self.second).sqrt() / corrected + recipe.adam.adam_epsilon
        self.weight -= rate / (1 - recipe.adam.adam_beta1**self.steps) * self.first / size


@pytest.mark.parametrize(
    "recipe",
    [DECOUPLED, having(DECOUPLED, layer_decay=0.5), having(DECOUPLED, schedule="cosine")],
    ids=["plain", "layers", "cosine"],
)
def test_decoupled_weight_decay_equals_that_of_decoupled_adamw_in_composer(recipe: Recipe):
    """The learning rate rises and falls over the schedule; each layer has its own maximum."""
    network, steps = make_network(dropout=0.0), 12
    optimizer = make_optimizer(network, recipe)
    groups = optimizer.param_groups
    slow = [
        (w, group, Slow(w, recipe.optim.learning_rate * group["scale"], recipe))
        for group in groups
        for w in group["params"]
    ]
    torch.manual_seed(5)
    for step in range(steps):
        update_groups(groups, learning_rate(step, steps, recipe), epoch=0)
        for weight, group, reference in slow:
            weight.grad = torch.randn_like(weight)
            reference.step(weight.grad, group["lr"])
        optimizer.step()
    for weight, _, reference in slow:
        torch.testing.assert_close(weight.double(), reference.weight, atol=2e-6, rtol=1e-5)
    taken = [
        1 - learning_rate(s, steps, recipe) / recipe.optim.learning_rate * 0.01
        for s in range(steps)
    ]
    assert math.prod(taken) < 0.96, "the decay must be large enough to be seen"


def test_decoupled_weight_decay_is_converted_by_dividing_it_by_the_learning_rate():
    """A weight decay of 0.1 at a learning rate of 5e-5 removes 5e-6 of a weight per step."""
    usual = having(RECIPE, learning_rate=5e-5, weight_decay=0.1)
    per_step = having(usual, weight_decay=0.0, decoupled_weight_decay=5e-6)
    decays = [
        [group["weight_decay"] for group in make_optimizer(make_network(), recipe).param_groups]
        for recipe in (usual, per_step)
    ]
    assert decays[0] == [0.1, 0.0]
    assert decays[1] == pytest.approx(decays[0])


@pytest.mark.parametrize(
    ("name", "task", "decay"),
    [("modernbert-base", "cola", 1e-6), ("modernbert-large", "mnli", 1e-5)],
)
def test_modernbert_recipes_have_decoupled_weight_decay(name: str, task: str, decay: float):
    settings = resolve_recipe(MODELS[name], f"glue/{task}", None, {}).settings
    assert settings["decoupled_weight_decay"].value == decay
    assert settings["weight_decay"].value == 0.0
    assert "decoupled_weight_decay is in its place" in settings["weight_decay"].source
    recipe = Recipe.from_settings(settings)
    group = make_optimizer(make_network(), recipe).param_groups[0]
    assert group["weight_decay"] == pytest.approx(decay / recipe.optim.learning_rate)
