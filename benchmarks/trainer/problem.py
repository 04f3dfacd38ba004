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

    Rows have at most `max_tokens` tokens, and are padded to that length if `pads` is true.
    Otherwise batches are padded to a multiple of `multiple`.
    """

    checkpoint: str
    folder: str
    task: str
    max_tokens: int
    pads: bool
    multiple: int | None

    @property
    def padding(self) -> Any:
        """Value of the tokenizer's argument `padding`."""
        return "max_length" if self.pads else False

    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.checkpoint)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A task for the Trainer.

    Attributes:
        train: The training rows.
        dev: The dev rows.
        lengths: The number of real tokens of each row, keyed by split.
        collate: Function that builds a batch.
        network: Function that loads the checkpoint with a new head.
        score: Function that scores logits, which are in the order of `dev`.
    """

    train: Dataset
    dev: Dataset
    lengths: Mapping[str, list[int]]
    collate: Callable[[list[Any]], Any]
    network: Callable[[], Any]
    score: Callable[[Any], Scores]


def real_lengths(masks: list[list[int]]) -> list[int]:
    """Return the number of real tokens of each row, given the rows' attention masks."""
    return [int(np.sum(mask)) for mask in masks]
