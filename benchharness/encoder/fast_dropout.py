"""Dropout for CPUs: the same probabilities as torch's, from cheaper random numbers.

torch draws a double for every element, which is a third of a training step of a small encoder. Here
one draw of 64 bits serves four elements, and what is left is integer arithmetic on their bits.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

__all__ = ["FastDropout", "RandomBits", "use_fast_dropout"]

STEPS = 1 << 15
"""A probability is a whole number of these parts: 0.1 is 3277 / 32768, wrong by 6 in a million."""


class RandomBits:
    """Random bits for one call, from numpy's quickest generator: a third of what torch's take.

    It is seeded from torch's CPU generator, so a seed and a checkpoint of its state cover it.
    """

    def __init__(self) -> None:
        self._generator: np.random.SFC64 | None = None

    def draw(self, shape: torch.Size, rate: float) -> Tensor:
        """int16 of that shape, negative with the probability `rate`."""
        if self._generator is None:
            self._generator = np.random.SFC64(int(torch.randint(2**63 - 1, ())))
        count = math.prod(shape)
        words = self._generator.random_raw((count + 3) // 4)
        numbers = torch.from_numpy(words.view(np.int16)[:count])
        return numbers.bitwise_and_(STEPS - 1).sub_(round(rate * STEPS)).view(shape)


class FastDropout(nn.Module):
    """nn.Dropout on a CPU, for fp32 and bf16; the rate is rounded to 1 / 32768."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.p = rate  # where transformers' attention modules look for it

    def forward(self, states: Tensor) -> Tensor:
        """The states with some at 0 and the others multiplied by 1 / (1 - p), while training."""
        if not self.training or self.p == 0.0:
            return states
        return states * _noise(states.shape, self.p).to(states.dtype)


def _noise(shape: torch.Size, rate: float) -> Tensor:
    """bf16 of that shape: 0 where dropped, 1 / (1 - rate) elsewhere, rounded as torch rounds it."""
    kept = RandomBits().draw(shape, rate).bitwise_right_shift_(15).bitwise_not_()
    scale = torch.tensor(1.0 / (1.0 - rate), dtype=torch.bfloat16).view(torch.int16)
    return kept.bitwise_and_(scale).view(torch.bfloat16)


def use_fast_dropout(network: nn.Module) -> None:
    """Puts FastDropout in the place of every nn.Dropout of a network."""
    for module in network.modules():
        for name, child in module.named_children():
            if type(child) is nn.Dropout and child.p < 1.0:
                setattr(module, name, FastDropout(child.p))
