"""Training of small networks: a classifier on synthetic rows, or any task's head."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModel

from benchharness.encoder import Encoder, use_first_token
from benchharness.encoder.packing import is_packed, use_packed_rows
from benchharness.heads import head_for, tag
from benchharness.heads.pair import PairNetwork, loss
from benchharness.progress import Progress
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.examples import Example
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.training.compute import Compute, Layout, Part
from benchharness.training.loop import Loss, TaskBatches, Training, _backward_part
from benchharness.training.meter import Meter
from tests.helpers.checkpoints import make_config
from tests.helpers.families import RATES
from tests.helpers.parity import NETWORKS, make_ours

CPU = Compute(device=torch.device("cpu"), precision="fp32")


def having(recipe: Recipe, **values: Any) -> Recipe:
    """Return the recipe with other values."""
    return Recipe.of(flat(recipe) | values)


def flat(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe's values by name."""
    groups = [getattr(recipe, field.name) for field in fields(recipe) if field.name != "added"]
    groups += recipe.added.values()
    return {f.name: getattr(g, f.name) for g in groups if g is not None for f in fields(g)}


RECIPE = Recipe.of(
    {
        "learning_rate": 1e-3,
        "epochs": 2,
        "batch_size": 32,
        "accumulation": 1,
        "warmup_ratio": 0.1,
        "weight_decay": 0.01,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "adam_epsilon": 1e-6,
        "max_grad_norm": 1.0,
        "max_tokens": 40,
        "evaluations": 1,
    }
)


def make_network(dropout: float = 0.1, seed: int = 0, outputs: int = 2) -> PairNetwork:
    torch.manual_seed(seed)
    config = make_config(
        "bert",
        initializer_range=0.02,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    encoder = Encoder(
        network=AutoModel.from_config(config),
        tokenizer=None,
        config=config,
        family="bert",
        max_tokens=40,
    )
    return PairNetwork(encoder, outputs)


def make_data(rows: int = 64) -> tuple[Features, np.ndarray]:
    """Return rows of 3 to 30 tokens whose class is determined by their second token."""
    generator = np.random.default_rng(4)
    lengths = generator.integers(3, 30, rows)
    ids = generator.integers(5, 900, lengths.sum()).astype(np.int32)
    starts = np.cumsum([0, *lengths])
    ids[starts[:-1] + 1] = 5 + np.arange(rows) % 2
    features = Features(token_ids=ids, token_types=None, starts=starts, pad_id=0, max_tokens=40)
    return features, (np.arange(rows) % 2).astype(np.int64)


def train(
    network: nn.Module,
    recipe: Recipe = RECIPE,
    *,
    data: tuple[Features, np.ndarray] | None = None,
    seed: int = 1,
    compute: Compute = CPU,
    report: Callable[[Progress], None] = lambda _: None,
    evaluate: Callable[[], Mapping[str, float]] = dict,
) -> Meter:
    return fit(begin(network, recipe, data, seed=seed, compute=compute, report=report), evaluate)


def begin(
    network: nn.Module,
    recipe: Recipe = RECIPE,
    data: tuple[Features, np.ndarray] | None = None,
    *,
    loss: Loss = loss,
    is_whole: bool = False,
    seed: int = 1,
    compute: Compute = CPU,
    report: Callable[[Progress], None] = lambda _: None,
) -> Training:
    features, targets = data or make_data()
    task = TaskBatches(
        network=network,
        features=features,
        targets=torch.from_numpy(targets),
        loss=loss,
        is_whole=is_whole,
    )
    return Training.begin(network, [task], recipe, seed=seed, compute=compute, report=report)


def begin_packed(family: str, kind: str, compute: Compute = CPU, dropout: float = 0.0) -> Training:
    """Return a training of 24 rows of 3 to 30 tokens; a choice has 2 to 5 options."""
    network = make_ours(family, kind, **dict.fromkeys(RATES, 0.0))
    for module in network.modules():
        if type(module) is nn.Dropout:
            module.p = dropout
    use_packed_rows(network.encoder, "cuda")
    if getattr(network, "reads_first_token", False):
        use_first_token(network.encoder)
    features, targets = make_data(24)
    if kind == "choice":
        features = replace(features, items=np.array([0, 2, 5, 9, 14, 16, 19, 24]))
        targets = np.array([0, 1, 2, 3, 1, 0, 4])
    if kind == "span":
        targets = np.stack([targets, targets + 1], axis=1)
    if kind == "tag":
        targets = np.where(np.arange(30) % 2, targets[:, None], tag.IGNORED)
        targets[np.arange(30) >= features.lengths[:, None]] = tag.IGNORED
        features = replace(features, terms=(targets >= 0).sum(1))
    recipe, losses = having(RECIPE, batch_size=5, epochs=3), NETWORKS[kind].loss
    return begin(network, recipe, (features, targets), loss=losses, compute=compute)


def backward(
    network: nn.Module, features: Features, goals: torch.Tensor, loss: Loss, parts: list[np.ndarray]
) -> torch.Tensor:
    """Add the gradients of the mean loss of some items, in these parts; return that loss."""
    terms = features.count_terms(np.concatenate(parts))
    layout: Layout = "packed" if is_packed(network) else "padded"
    made = [Part.of(features, part, CPU.device, terms=terms, layout=layout) for part in parts]
    return sum(_backward_part(network, goals, loss, part=part) for part in made)


def weights_of(network: nn.Module) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in network.parameters()])


def gradients_of(network: nn.Module) -> torch.Tensor:
    """Return all gradients; zero for weights without one."""
    weights = list(network.parameters())
    found = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    return torch.cat([gradient.flatten() for gradient in found])


def begin_task(
    task: Task, network: nn.Module, features: Features, examples: Sequence[Example], recipe: Recipe
) -> Training:
    """Return the training of a task's network on encoded examples, with seed 1."""
    head = head_for(task)
    goals = head.targets(features, examples, task)
    return begin(network, recipe, (features, goals), loss=head.loss)


def fit(
    training: Training,
    evaluate: Callable[[], Mapping[str, float]],
    after_step: Callable[[], None] = lambda: None,
    value: Callable[[int], float | None] = lambda _: None,
) -> Meter:
    """Make every remaining step, and evaluate when the plan requires it.

    `value` is the selection score of an evaluation, by its number from 0.
    """
    for step in training:
        if step in training.plan.evaluations:
            with training.meter.paused():
                scores = evaluate()
            training.mark(scores, value(len(training.meter.values)))
        after_step()
    return training.meter
