"""Predicting: features go into a trained network, logits come out. Knows neither task nor head."""

import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.precision import Compute
from benchharness.progress import Progress, Reporter
from benchharness.training.batching import Features, Indices, length_batches, pad
from benchharness.training.meter import DivergedError
from benchharness.training.predict import each_batch

__all__ = ["PREDICTION_TOKENS", "inputs_of", "predict"]

PREDICTION_TOKENS = {"cpu": 2048, "cuda": 65536}
"""Padded tokens of a batch in prediction; the CPU's measured (MiniLM), the GPU's an estimate."""


def predict(
    network: nn.Module, features: Features, compute: Compute, report: Reporter
) -> NDArray[np.float32]:
    """The logits of every row in its order, without dropout; DivergedError where one is NaN.

    A network that has logits for every token, (rows, tokens, outputs), gives them end to end
    without padding, as `token_ids` stand in the features. Where memory runs out, the rest is
    computed in smaller batches.
    """
    network.to(compute.device).eval()

    def logits_of(rows: Indices) -> Tensor:
        inputs = inputs_of(features, rows, compute.device)
        logits: Tensor = network(**inputs).float()
        return logits[inputs["attention_mask"].bool()] if logits.ndim == 3 else logits

    batches = length_batches(features.lengths, PREDICTION_TOKENS[compute.device.type])
    if is_shared := len(batches) >= compute.ranks.count > 1:
        batches = batches[compute.ranks.rank :: compute.ranks.count]
    start, done, outputs = time.monotonic(), 0, []
    with torch.inference_mode(), compute.autocast():
        for step, logits in enumerate(each_batch(batches, logits_of)):
            outputs.append(logits)
            done += len(batches[step])
            speed = done / max(time.monotonic() - start, 1e-9)
            report(
                Progress(
                    phase="predicting",
                    step=step + 1,
                    steps=len(batches),
                    examples_per_second=speed,
                )
            )
    ordered = _in_order(torch.cat(outputs).cpu(), np.concatenate(batches), features)
    if is_shared:
        ordered = compute.ranks.add_up(ordered)
    if not ordered.isfinite().all():
        raise DivergedError("the trained model predicts NaN: try a lower --set learning_rate.")
    return ordered.numpy()


def _in_order(logits: Tensor, rows: Indices, features: Features) -> Tensor:
    """Logits of the rows, or of their tokens where there are as many, in the features' order.

    What belongs to rows that are not among these is zero.
    """
    each_row = len(logits) == len(rows)
    total = len(features) if each_row else len(features.token_ids)
    ordered = logits.new_zeros((total, *logits.shape[1:]))
    ordered[torch.from_numpy(rows if each_row else features.tokens_of(rows))] = logits
    return ordered


def inputs_of(features: Features, rows: Indices, device: torch.device) -> dict[str, Tensor]:
    """The padded inputs of a network for some rows, on its device."""
    arrays = pad(features, rows).items()
    return {name: torch.from_numpy(a).to(device, non_blocking=True) for name, a in arrays}
