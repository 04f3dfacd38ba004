"""Layers that start from random numbers."""

from typing import Any

from torch import nn

__all__ = ["fresh_linear"]


def fresh_linear(inputs: int, outputs: int, config: Any, bias: bool = True) -> nn.Linear:
    """A linear layer as transformers initialises its family's (_init_weights in modeling files)."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=_spread(inputs, outputs, config))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def _spread(inputs: int, outputs: int, config: Any) -> float:
    if config.model_type == "funnel":
        return float(config.initializer_std or (inputs + outputs) ** -0.5)
    if config.model_type in ("modernbert", "t5"):
        return float(inputs**-0.5)
    return float(getattr(config, "initializer_range", 0.02))
