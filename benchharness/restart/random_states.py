"""The states of every random number generator that training draws from."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["random_numbers", "random_tensors", "restore_random"]


def random_tensors() -> dict[str, Tensor]:
    """The states of torch's generators: the CPU's, which fast dropout uses too, and each GPU's."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda:{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def random_numbers() -> dict[str, Any]:
    """The states of python's and numpy's global generators as plain data."""
    state: Any = np.random.get_state()
    name, keys, *rest = state
    version, words, normal = random.getstate()
    return {"python": [version, list(words), normal], "numpy": [name, keys.tolist(), *rest]}


def restore_random(tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
    """Puts every generator where it was."""
    torch.set_rng_state(tensors["cpu"])
    for index in range(len(tensors) - 1):
        torch.cuda.set_rng_state(tensors[f"cuda:{index}"], index)
    version, words, normal = numbers["python"]
    random.setstate((version, tuple(words), normal))
    name, keys, *rest = numbers["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
