"""Compare trainings of BERT in benchharness and in transformers with identical dropout masks.

benchharness draws its masks in packed rows (encoder/cpu.py). Here they are recorded and rearranged
for transformers' padded batches. Then nothing is random, because a mask is applied to the same
values on both sides, and losses and weights are compared as without dropout.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchharness.encoder.cpu import HeadRows, RandomBits
from benchharness.encoder.packing import PACKING, Packing
from benchmarks.certificate import Start, compare, train_ours, train_theirs

__all__ = ["same_masks_apart"]


def same_masks_apart(start: Start, folder: Path) -> float:
    """Train `start` on both sides with the same masks; return the largest relative difference.

    `start` must be a pair head on BERT, without accumulation.
    """
    drawn: list[tuple[Packing | None, Tensor]] = []
    draw = RandomBits.draw

    def written(self: RandomBits, shape: torch.Size, rate: float) -> Tensor:
        numbers = draw(self, shape, rate)
        drawn.append((PACKING.get(), numbers >= 0))
        return numbers

    with mock.patch.object(RandomBits, "draw", written):
        ours = train_ours(start, folder)
    start.config._attn_implementation = "eager"  # eager attention uses torch's dropout function
    with mock.patch("torch.nn.functional.dropout", _Masks(start.config, iter(drawn))):
        theirs = train_theirs(start, longest_first=True)
    return compare(ours, theirs).largest


class _Masks:
    """Replacement for torch's dropout function in BERT that applies recorded masks in order."""

    def __init__(self, config: Any, drawn: Iterator[tuple[Packing | None, Tensor]]) -> None:
        self.heads, self.layers = config.num_attention_heads, config.num_hidden_layers
        self.drawn = drawn
        self.packing: Packing | None = None  # the packing of this batch
        self.layer = 0

    def __call__(
        self, states: Tensor, p: float = 0.5, training: bool = True, _inplace: bool = False
    ) -> Tensor:
        if not training or p == 0.0:
            return states
        kept = self.shares(states.shape) if states.ndim == 4 else self.states(states.shape)
        return states * kept / (1 - p)

    def states(self, shape: torch.Size) -> Tensor:
        """Return the mask for states [rows, tokens, size] or for classifier inputs [rows, size]."""
        packing, mask = next(self.drawn)
        if packing is None:
            return mask
        if packing is not self.packing:  # a new batch begins with its embeddings
            self.layer, self.packing = 0, packing
        kept = torch.zeros(shape, dtype=torch.bool)
        if self.layer == self.layers:  # the last layer computes first tokens only
            kept[:, 0] = mask[0]
        else:
            kept[packing.places // packing.width, packing.places % packing.width] = mask[0]
        return kept

    def shares(self, shape: torch.Size) -> Tensor:
        """Return the mask for attention weights [rows, heads, tokens, tokens]."""
        assert self.packing is not None
        self.layer += 1
        kept = torch.zeros(shape, dtype=torch.bool)
        for group in HeadRows.of(self.packing, self.heads).groups:
            rows, width = len(group.rows), group.width
            # In the last layer only first tokens are queries, so the matrix has one row.
            asked = width if self.layer < self.layers else 1
            parts: list[Tensor] = []
            while sum(part.numel() for part in parts) < rows * self.heads * asked * width:
                parts.append(next(self.drawn)[1].flatten())
            mask = torch.cat(parts).view(rows, self.heads, asked, width)
            tokens = min(width, shape[-1])
            kept[group.rows, :, : min(asked, tokens), :tokens] = mask[:, :, :tokens, :tokens]
        return kept
