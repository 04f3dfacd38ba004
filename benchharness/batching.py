"""Which examples share an optimizer step, and how they are cut and padded to be computed fast.

Only the first decides what is learned. The examples of a step are computed in micro-batches of like
length, so that little of the work is padding; their summed losses are those of the whole batch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Features",
    "count_steps",
    "cut_by_length",
    "length_batches",
    "pad",
    "shuffled_batches",
]

Indices = NDArray[np.int64]

ROUNDING = 8
"""Padded lengths are multiples of it: matrix units like them, and few shapes recur often."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """Encoded texts, end to end: those of row i stand at starts[i] to starts[i + 1].

    `token_types` is None for encoders without segments. Padding is `pad_id`, and no padded row is
    longer than `max_tokens`.
    """

    token_ids: NDArray[np.int32]
    token_types: NDArray[np.int32] | None
    starts: NDArray[np.int64]
    pad_id: int
    max_tokens: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every row, without padding."""
        return np.diff(self.starts)


def count_steps(rows: int, batch_size: int, epochs: float) -> int:
    """Optimizer steps of a run; a last, smaller batch of an epoch counts as one."""
    return max(1, math.ceil(epochs * math.ceil(rows / batch_size)))


def shuffled_batches(rows: int, batch_size: int, epochs: float, seed: int) -> Iterator[Indices]:
    """The rows of every optimizer step of a run.

    The order depends on the seed, the epoch and the number of rows, and on nothing else.
    """
    steps = count_steps(rows, batch_size, epochs)
    per_epoch = math.ceil(rows / batch_size)
    for step in range(steps):
        epoch, position = divmod(step, per_epoch)
        if position == 0:
            order = np.random.default_rng([seed, epoch]).permutation(rows)
        yield order[position * batch_size : (position + 1) * batch_size]


def cut_by_length(
    batch: Indices, lengths: NDArray[np.int64], parts: int, overhead: int
) -> list[Indices]:
    """A batch in micro-batches of like length, those with the least work, the longest first.

    The work of a micro-batch is its padded tokens plus `overhead`, what starting one costs, in
    tokens. None has more rows than the batch divided by `parts`, which bounds the memory.
    """
    order = batch[np.argsort(-lengths[batch], kind="stable")]
    limit = math.ceil(len(batch) / parts)
    pieces = np.split(order, _cheapest_cuts(_rounded(lengths[order]), overhead))
    return [chunk for piece in pieces for chunk in _chunks(piece, limit)]


def _cheapest_cuts(widths: NDArray[np.int64], overhead: int) -> list[int]:
    """Where to cut rows of falling widths, by dynamic programming over the widths that occur."""
    edges = [0, *(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(widths)]
    best: list[tuple[int, list[int]]] = [(0, [])]
    for end in range(1, len(edges)):
        options = (
            (best[i][0] + overhead + int(widths[edges[i]]) * (edges[end] - edges[i]), i)
            for i in range(end)
        )
        work, start = min(options)
        best.append((work, [*best[start][1], edges[start]]))
    return best[-1][1][1:]


def _chunks(rows: Indices, limit: int) -> list[Indices]:
    return np.array_split(rows, math.ceil(len(rows) / limit))


def length_batches(lengths: NDArray[np.int64], tokens: int) -> list[Indices]:
    """All rows in batches of like length and at most `tokens` padded tokens, the longest first.

    For prediction, where it does not matter which rows share a batch.
    """
    order = np.argsort(-lengths, kind="stable")
    widths = _rounded(lengths[order])
    batches, start = [], 0
    while start < len(order):
        end = start + max(1, tokens // int(widths[start]))
        batches.append(order[start:end])
        start = end
    return batches


def pad(features: Features, rows: Indices) -> dict[str, NDArray[Any]]:
    """The inputs of an encoder for some rows, each (rows, tokens): ids, mask and token types."""
    lengths = features.lengths[rows]
    width = min(int(_rounded(lengths.max())), max(features.max_tokens, int(lengths.max())))
    columns = np.arange(width)
    mask = columns < lengths[:, None]
    places = np.where(mask, features.starts[rows][:, None] + columns, 0)
    inputs = {
        "input_ids": np.where(mask, features.token_ids[places], features.pad_id).astype(np.int64),
        "attention_mask": mask.astype(np.int64),
    }
    if features.token_types is not None:
        inputs["token_type_ids"] = np.where(mask, features.token_types[places], 0).astype(np.int64)
    return inputs


def _rounded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-lengths // ROUNDING) * ROUNDING
