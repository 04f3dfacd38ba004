"""Tests of learning rate schedules against transformers, torch and ULMFiT's formula."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, PolynomialLR
from transformers import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
    get_polynomial_decay_schedule_with_warmup,
)

from benchharness.recipes.recipe import SCHEDULES, Recipe
from benchharness.training.optimizer import learning_rate
from tests.helpers.training import RECIPE, having

STEPS = 40
THEIRS: dict[str, Callable[[Any, int], Any]] = {
    "linear": lambda optimizer, warmup: get_linear_schedule_with_warmup(optimizer, warmup, STEPS),
    "cosine": lambda optimizer, warmup: get_cosine_schedule_with_warmup(optimizer, warmup, STEPS),
    "constant": get_constant_schedule_with_warmup,
    "polynomial": lambda optimizer, warmup: get_polynomial_decay_schedule_with_warmup(
        optimizer, warmup, STEPS, lr_end=0.0, power=2.5
    ),
}


def rates(recipe: Recipe, steps: int = STEPS) -> list[float]:
    return [learning_rate(step, steps, recipe) for step in range(steps)]


def stepped(make: Callable[[torch.optim.Optimizer], Any]) -> list[float]:
    """Return the learning rates that a scheduler sets, step by step."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=RECIPE.optim.learning_rate)
    scheduler, found = make(optimizer), []
    for _ in range(STEPS):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("warmup", [0, 1, 7, STEPS - 1])
@pytest.mark.parametrize("name", THEIRS)
def test_learning_rate_schedules_equal_those_of_transformers(name: str, warmup: int):
    recipe = having(RECIPE, schedule=name, schedule_power=2.5, warmup_ratio=warmup / STEPS)
    theirs = stepped(lambda optimizer: THEIRS[name](optimizer, warmup))
    assert rates(recipe) == pytest.approx(theirs, rel=1e-9, abs=1e-15)
    by_number = having(recipe, warmup_ratio=0.0, warmup_steps=warmup)
    assert rates(by_number) == rates(recipe)


def test_learning_rate_schedules_without_warmup_equal_those_of_torch():
    plain = having(RECIPE, warmup_ratio=0.0)
    cosine = stepped(lambda optimizer: CosineAnnealingLR(optimizer, T_max=STEPS))
    assert rates(having(plain, schedule="cosine")) == pytest.approx(cosine, rel=1e-6)
    power = stepped(lambda optimizer: PolynomialLR(optimizer, total_iters=STEPS, power=3.0))
    polynomial = having(plain, schedule="polynomial", schedule_power=3.0)
    assert rates(polynomial) == pytest.approx(power, rel=1e-6)


def slanted(step: int, steps: int, cut_frac: float, ratio: float = 32.0) -> float:
    """Compute equation 3 of arXiv:1801.06146."""
    cut = math.floor(steps * cut_frac)
    p = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
    return RECIPE.optim.learning_rate * (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize(("steps", "cut_frac"), [(40, 0.1), (1000, 0.1), (200, 0.25)])
def test_the_slanted_triangular_schedule_equals_that_of_ulmfit(steps: int, cut_frac: float):
    recipe = having(RECIPE, schedule="slanted-triangular", warmup_ratio=cut_frac)
    expected = [slanted(step, steps, cut_frac) for step in range(steps)]
    assert rates(recipe, steps) == pytest.approx(expected)
    assert max(expected) == expected[int(steps * cut_frac)] == RECIPE.optim.learning_rate


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_uses_the_full_learning_rate_in_a_training_of_one_step(name: str):
    for recipe in (RECIPE, having(RECIPE, warmup_ratio=0.0, warmup_steps=100)):
        assert learning_rate(0, 1, having(recipe, schedule=name)) == RECIPE.optim.learning_rate


def test_linear_schedule_equals_its_formula_bit_for_bit():
    recipe = having(RECIPE, learning_rate=3e-5, warmup_ratio=0.06)
    expected = [
        3e-5 * step / 3 if step < 3 else 3e-5 * (STEPS - step) / (STEPS - 3)
        for step in range(STEPS)
    ]
    assert rates(recipe) == expected
