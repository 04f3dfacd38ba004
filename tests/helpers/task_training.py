"""Begins the training of any head."""

from collections.abc import Sequence

from torch import nn

from benchharness.heads import head_for
from benchharness.recipes.recipe import Recipe
from benchharness.training.batching import Features
from benchharness.training.loop import Training
from tasks.examples import Example
from tasks.task import Task
from tests.benchharness.test_training import CPU

__all__ = ["begin_task"]


def begin_task(
    task: Task,
    network: nn.Module,
    features: Features,
    examples: Sequence[Example],
    recipe: Recipe,
) -> Training:
    """The training of a task's network on what its head has made of examples, with seed 1."""
    head = head_for(task)
    return Training.begin(
        network,
        features,
        head.targets(features, examples, task),
        head.loss,
        recipe,
        seed=1,
        compute=CPU,
        report=lambda _: None,
    )
