"""The moments of an optimizer as named tensors, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["moments", "restore_moments"]


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What the optimizer remembers of each weight: "12.exp_avg" is that of the twelfth."""
    remembered = optimizer.state_dict()["state"]
    return {
        f"{i}.{name}": value for i, state in remembered.items() for name, value in state.items()
    }


def restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Gives an optimizer of the same weights what another one remembered.

    Moments lie in memory as their weights do, because a fused step takes them in that order.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        weight = weights[int(number)]
        moment = (
            torch.empty_like(weight) if value.shape == weight.shape else torch.empty_like(value)
        )
        state.setdefault(int(number), {})[name] = moment.detach().copy_(value)
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )
