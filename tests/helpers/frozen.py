"""Encoders whose states are computed once, and predictions from these."""

from typing import Any

import numpy as np
import torch
from torch import nn

from benchharness.encoder import Encoder
from benchharness.extensions.frozen.technique import freeze, source_of
from benchharness.training.batching import Features
from benchharness.training.compute import Compute
from benchharness.training.predict import predict
from tests.helpers.families import make_config, make_network
from tests.helpers.training import CPU


def make_encoder(
    family: str = "bert", seed: int = 0, layers: int | None = 4, **changes: Any
) -> Encoder:
    """Return an encoder with `layers` layers, or None for those of the family's small config."""
    torch.manual_seed(seed)
    config = make_config(family, **({"num_hidden_layers": layers} if layers else {}), **changes)
    network = make_network(config)
    return Encoder(network=network, tokenizer=None, config=config, family=family, max_tokens=40)


def freeze_on(
    network: nn.Module,
    choice: str,
    *splits: Features,
    compute: Compute = CPU,
    head: str = "pair",
) -> list[Features]:
    named = {str(number): split for number, split in enumerate(splits)}
    source = source_of(network, named, head, compute)
    found = freeze(network, named, choice, source, lambda _: None)
    return list(found.values())


def predict_on(network: nn.Module, features: Features, compute: Compute = CPU) -> np.ndarray:
    return predict(network, features, compute, lambda _: None)
