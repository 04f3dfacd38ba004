"""Fitting and predicting: batches go in, logits come out.

Knows neither task nor head: a network from padded features to logits, targets, and a loss per item.
"""

import math
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.batching import (
    Features,
    count_steps,
    cut_by_length,
    length_batches,
    pad,
    shuffled_batches,
)
from benchharness.encoder.packing import is_packed
from benchharness.meter import DivergedError, Fit, Meter, Plan
from benchharness.param_groups import param_groups, update_groups
from benchharness.precision import Compute
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe

__all__ = ["fit", "inputs_of", "learning_rate", "predict", "seed_everything"]

Loss = Callable[[Tensor, Tensor], Tensor]

CUT_OVERHEAD = {"cpu": 64, "cuda": 4096}
"""What starting one more micro-batch costs, in padded tokens; packed batches are not cut. The
CPU's: 16 to 128 are as fast (MiniLM on MRPC and CoLA). The GPU's is an estimate, not measured."""

PREDICTION_TOKENS = {"cpu": 2048, "cuda": 65536}
"""Padded tokens of a batch in prediction; the CPU's measured (MiniLM), the GPU's an estimate."""


def seed_everything(seed: int) -> None:
    """Seeds the generators of python, numpy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def fit(  # noqa: PLR0913  (what is trained, on what, how and where)
    network: nn.Module,
    features: Features,
    targets: NDArray[Any],
    loss: Loss,
    recipe: Recipe,
    *,
    seed: int,
    compute: Compute,
    report: Reporter,
    evaluate: Callable[[], Mapping[str, float]],
) -> Fit:
    """Trains the network in place with AdamW, and evaluates it `recipe.evaluations` times.

    The loss of a step is the mean over the items of its batch (over their terms, where they have
    several), however the batch is cut into micro-batches. On a CPU the same seed and number of
    threads give the same bits. Raises DivergedError at the first loss or gradient that is not
    finite.
    """
    seed_everything(seed)
    network.to(compute.device).train()
    goals = torch.from_numpy(targets).to(compute.device)
    optimizer = _adamw(network, recipe)
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    overhead = sys.maxsize if is_packed(network) else CUT_OVERHEAD[compute.device.type]
    items = len(features.item_sizes)
    per_epoch = count_steps(items, recipe.batch_size, epochs=1)
    plan = Plan.of(items, recipe, compute)
    meter = Meter(items=items, steps=plan.steps, report=report)
    batches = shuffled_batches(items, recipe.batch_size, recipe.epochs, seed)
    for step, batch in enumerate(batches, start=1):
        rate = learning_rate(step - 1, plan.steps, recipe)
        update_groups(optimizer.param_groups, rate, epoch=(step - 1) // per_epoch)
        parts = cut_by_length(
            batch, features.item_lengths, recipe.accumulation, overhead, features.item_sizes
        )
        with compute.autocast():
            mean = _backward(network, features, goals, loss, parts)
        norm = nn.utils.clip_grad_norm_(weights, recipe.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        tokens = features.lengths[features.rows_of(batch)].sum()
        meter.count(mean, norm, items=len(batch), tokens=int(tokens))
        if step in plan.reads:
            meter.read()
        if step in plan.points:
            scores = meter.pause(evaluate) if step in plan.evaluations else {}
            meter.mark(rate, scores)
            network.train()
    return meter.result()


def _backward(
    network: nn.Module, features: Features, goals: Tensor, loss: Loss, parts: Sequence[NDArray[Any]]
) -> Tensor:
    """Adds the gradients of a batch's mean loss and returns that loss, without waiting for it."""
    terms = features.count_terms(np.concatenate(parts))
    total = torch.zeros((), device=goals.device)
    for part in parts:
        logits = network(**inputs_of(features, features.rows_of(part), goals.device))
        if features.items is not None:
            logits = _side_by_side(logits, features.item_sizes[part])
        share = loss(logits, goals[torch.from_numpy(part).to(goals.device)]).sum() / terms
        share.backward()  # type: ignore[no-untyped-call]
        total += share.detach()
    return total


def _side_by_side(logits: Tensor, sizes: NDArray[np.int64]) -> Tensor:
    """Logits (rows,) of items of several rows as (items, rows), -inf where an item has fewer."""
    table = logits.new_full((len(sizes), int(sizes.max())), -torch.inf)
    is_row = torch.from_numpy(np.arange(table.shape[1]) < sizes[:, None])
    return table.masked_scatter(is_row.to(logits.device), logits)


def inputs_of(features: Features, rows: NDArray[Any], device: torch.device) -> dict[str, Tensor]:
    """The padded inputs of a network for some rows, on its device."""
    arrays = pad(features, rows).items()
    return {name: torch.from_numpy(a).to(device, non_blocking=True) for name, a in arrays}


def _adamw(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        param_groups(network, recipe),
        lr=recipe.learning_rate,
        betas=(recipe.adam_beta1, recipe.adam_beta2),
        eps=recipe.adam_epsilon,
        fused=True,
    )


def learning_rate(step: int, steps: int, recipe: Recipe) -> float:
    """The rate of a step counted from 0: up linearly to the warm-up's end, then down to zero.

    As in google-research/bert's optimization.py, the first step of a warm-up has the rate 0. A
    warm-up never takes all steps: the only step of a run would change no weight.
    """
    warmup = min(math.ceil(steps * recipe.warmup_ratio), steps - 1)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)


def predict(
    network: nn.Module, features: Features, compute: Compute, report: Reporter
) -> NDArray[np.float32]:
    """The logits of every row in its order, without dropout; DivergedError where one is NaN.

    A network that has logits for every token, (rows, tokens, outputs), gives them end to end
    without padding, as `token_ids` stand in the features.
    """
    network.to(compute.device).eval()
    batches = length_batches(features.lengths, PREDICTION_TOKENS[compute.device.type])
    start, done, outputs = time.monotonic(), 0, []
    with torch.inference_mode(), compute.autocast():
        for step, rows in enumerate(batches, start=1):
            inputs = inputs_of(features, rows, compute.device)
            logits = network(**inputs).float()
            per_token = logits.ndim == 3
            outputs.append(logits[inputs["attention_mask"].bool()] if per_token else logits)
            done += len(rows)
            speed = done / max(time.monotonic() - start, 1e-9)
            report(
                Progress(
                    phase="predicting", step=step, steps=len(batches), examples_per_second=speed
                )
            )
    logits = torch.cat(outputs).cpu().numpy()
    if not np.isfinite(logits).all():
        raise DivergedError("the trained model predicts NaN: try a lower --set learning_rate.")
    order = np.concatenate(batches)
    ordered: NDArray[np.float32] = np.empty_like(logits)
    ordered[features.tokens_of(order) if per_token else order] = logits
    return ordered
