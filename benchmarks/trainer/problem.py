"""What a head type hands to the Trainer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import AutoTokenizer

__all__ = ["Problem", "Request", "Scores"]

Scores = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checkpoint, the folder with a task's official files, and how rows are encoded.

    Rows have `max_tokens` at most, and exactly as many where `pads`; otherwise batches are padded
    to a multiple of `multiple`.
    """

    checkpoint: str
    folder: str
    task: str
    max_tokens: int
    pads: bool
    multiple: int | None

    @property
    def padding(self) -> Any:
        """The tokenizer's argument."""
        return "max_length" if self.pads else False

    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.checkpoint)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """`train` and `dev` have a column "length" beside a network's inputs; `lengths` are its real
    tokens, one list for the rows of both splits each.

    `network` loads the checkpoint with a new head, `collate` makes a batch, and `score` takes the
    logits in the order of `dev`.
    """

    train: Dataset
    dev: Dataset
    lengths: Mapping[str, list[int]]
    collate: Callable[[list[Any]], Any]
    network: Callable[[], Any]
    score: Callable[[Any], Scores]


def real_lengths(masks: list[list[int]]) -> list[int]:
    """Tokens of every row without padding."""
    return [int(np.sum(mask)) for mask in masks]
