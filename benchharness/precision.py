"""Where a network is computed, and in which number format.

"auto" is resolved where jobs are planned, because the answer is part of a job's key.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchharness.training.compute import ALONE, Ranks
from tasks.errors import BenchError

__all__ = ["Compute", "in_fp32"]


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A device and the precision of its matrix products; weights and optimizer stay in fp32.

    `ranks` are the processes among which the rows are divided.

    Raises BenchError for a precision that is neither "fp32" nor "bf16", or a GPU without bf16.
    """

    device: torch.device
    precision: str
    ranks: Ranks = ALONE

    def __post_init__(self) -> None:
        if self.precision not in ("fp32", "bf16"):
            raise BenchError(f"no precision is called {self.precision!r}: use auto, fp32 or bf16.")
        if self.precision == "bf16" and self.on_gpu and not torch.cuda.is_bf16_supported():
            name = torch.cuda.get_device_name(self.device)
            raise BenchError(f"{name} has no bf16: use --precision fp32.")

    @property
    def on_gpu(self) -> bool:
        """True where work is queued and the host runs ahead of it."""
        return self.device.type == "cuda"

    def autocast(self) -> torch.autocast:
        """The context in which the precision holds; each weight is cast once within it."""
        bf16 = self.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16)


def in_fp32(layer: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """What a layer makes of some states, in fp32 whatever the precision around it.

    For the last layer where many logits compete: bf16 has three digits, in which the best answers
    of a passage, or the options of a question, are often equal.
    """
    with torch.autocast(states.device.type, enabled=False):
        return layer(states.float())
