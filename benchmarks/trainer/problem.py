"""Interface between a head type and the Trainer."""

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
    """A checkpoint, the folder with a task's official files, and the encoding of rows.

    Rows have at most `max_tokens`, and are padded to that length if `pads`; otherwise batches are
    padded to a multiple of `multiple`.
    """

    checkpoint: str
    folder: str
    task: str
    max_tokens: int
    pads: bool
    multiple: int | None

    @property
    def padding(self) -> Any:
        """Argument `padding` of the tokenizer."""
        return "max_length" if self.pads else False

    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.checkpoint)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A task for the Trainer.

    Attributes:
        train: The training rows.
        dev: The dev rows.
        lengths: The number of real tokens of each row, by split.
        collate: Builds a batch.
        network: Loads the checkpoint with a new head.
        score: Scores logits in the order of `dev`.
    """

    train: Dataset
    dev: Dataset
    lengths: Mapping[str, list[int]]
    collate: Callable[[list[Any]], Any]
    network: Callable[[], Any]
    score: Callable[[Any], Scores]


def real_lengths(masks: list[list[int]]) -> list[int]:
    """Return the number of tokens of every row without padding."""
    return [int(np.sum(mask)) for mask in masks]
