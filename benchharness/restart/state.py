"""What a job must remember to go on as if nothing had stopped it, and the files it is kept in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

__all__ = ["State", "read_state", "write_state"]

NUMBERS = "numbers.json"


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a job between two steps.

    `tensors` are by group ("weights", "optimizer", "random") and name, where they are computed or
    on the CPU; `numbers` is plain data. JSON writes a float so that reading it gives the same bits.
    """

    tensors: Mapping[str, Mapping[str, Tensor]]
    numbers: Mapping[str, Any]

    @property
    def step(self) -> int:
        """How many steps were made before it."""
        return int(self.numbers["meter"]["step"])

    @property
    def position(self) -> tuple[int, int]:
        """How far the job has come: its steps, and what it has predicted after the last one."""
        return self.step, len(self.numbers["job"]["evaluations"])


def write_state(folder: Path, state: State) -> None:
    """Writes one file of safetensors for each group, and one of JSON; no pickle.

    Raises OSError or SafetensorError.
    """
    for group, tensors in state.tensors.items():
        on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(on_cpu, folder / f"{group}.safetensors")
    text = json.dumps(state.numbers, allow_nan=False)
    (folder / NUMBERS).write_text(text, encoding="utf-8")


def read_state(folder: Path) -> State:
    """The state that `write_state` has written, on the CPU. Whether it is whole is checked before.

    Raises OSError, ValueError or SafetensorError.
    """
    files = sorted(folder.glob("*.safetensors"))
    return State(
        tensors={file.stem: load_file(file) for file in files},
        numbers=json.loads((folder / NUMBERS).read_text(encoding="utf-8")),
    )
