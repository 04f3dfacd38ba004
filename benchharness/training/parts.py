"""What is computed at once, on its device: inputs, where their tokens stand, and what they are of.

All that a step needs of the host goes with its batch, in one copy that nothing waits for, and a
step ahead. So on a GPU the host does not stop before it reads a loss.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchharness.encoder.packing import Packing, send
from benchharness.training.batching import Features, Indices, in_bucket, pad

T = TypeVar("T")

OF_PACKING = ("places", "positions", "offsets")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some items of a batch: a micro-batch.

    `tensors` are on the device: the padded inputs, named in `inputs`; those of the packing; the
    `items`' numbers; and, where items have several rows, in which of the `slots` of a table (items,
    options) each row's logit stands. `packs` says whether the network computes packed rows.
    """

    tensors: dict[str, Tensor]
    named: tuple[str, ...]
    packs: bool
    lengths: NDArray[np.int64]
    width: int
    tail: int
    options: int

    @classmethod
    def of(
        cls,
        features: Features,
        items: Indices,
        device: torch.device,
        *,
        packs: bool,
        in_buckets: bool = False,
    ) -> Self:
        """The rows of some items; `in_buckets` packs them into one of few shapes."""
        rows = features.rows_of(items)
        lengths, sizes = features.lengths[rows], features.item_sizes[items]
        width, tail = in_bucket(lengths, features.max_tokens) if in_buckets else (None, 0)
        arrays = pad(features, rows, width)
        named, width = tuple(arrays), arrays["input_ids"].shape[1]
        arrays |= zip(OF_PACKING, Packing.indices(lengths, width, tail), strict=True)
        arrays["items"] = items
        options = 0
        if features.items is not None:
            options = int(sizes.max())
            numbers = np.repeat(np.arange(len(items)), sizes)  # (rows,): the item of each
            firsts = np.repeat(np.cumsum(sizes) - sizes, sizes)
            arrays["slots"] = numbers * options + np.arange(len(rows)) - firsts
        return cls(
            tensors=dict(zip(arrays, send([*arrays.values()], device), strict=True)),
            named=named,
            packs=packs,
            lengths=lengths,
            width=width,
            tail=tail,
            options=options,
        )

    def __len__(self) -> int:
        return len(self.tensors["items"])

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """What the network is called with."""
        inputs: dict[str, Any] = {name: self.tensors[name] for name in self.named}
        if self.packs:
            indices = [self.tensors[name] for name in OF_PACKING]
            inputs["packing"] = Packing.with_indices(self.lengths, self.width, self.tail, indices)
        return inputs

    @property
    def layout(self) -> tuple[Any, ...]:
        """All that shapes what is computed: two parts of one layout differ in tensors alone."""
        shapes = tuple((name, tensor.shape) for name, tensor in self.tensors.items())
        return (shapes, self.packs, self.width, self.tail > 0, self.options)

    def with_tensors(self, tensors: dict[str, Tensor]) -> Self:
        """The same computation of other tensors, of the same layout."""
        return replace(self, tensors=tensors)

    def side_by_side(self, logits: Tensor) -> Tensor:
        """Logits (rows,) of items of several rows as (items, options), -inf where one has fewer."""
        if not self.options:
            return logits
        table = logits.new_full((len(self) * self.options,), -torch.inf)
        filled = table.index_copy(0, self.tensors["slots"], logits)
        return filled.view(len(self), self.options)


def inputs_of(
    features: Features, rows: Indices, device: torch.device
) -> tuple[dict[str, Tensor], Packing]:
    """The padded inputs of a network for some rows, on its device, and their packing."""
    arrays, lengths = pad(features, rows), features.lengths[rows]
    width = arrays["input_ids"].shape[1]
    tensors = send([*arrays.values(), *Packing.indices(lengths, width)], device)
    packing = Packing.with_indices(lengths, width, 0, tensors[len(arrays) :])
    return dict(zip(arrays, tensors, strict=False)), packing


def a_step_ahead(made: Iterable[T]) -> Iterator[T]:
    """The same, each made before the one ahead of it is given."""
    waiting: list[T] = []
    for one in made:
        waiting.append(one)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting
