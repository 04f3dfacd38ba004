"""Where the states of packed rows stand while attention computes them, head by head."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchharness.encoder.packing import Packing

__all__ = ["HeadRows", "ordered"]


@dataclass(frozen=True, kw_only=True)
class HeadRows:
    """The rows (token, head) of a packed row in attention's order: group, sequence, head, token.

    `order` says which row of the packed states (tokens * heads) stands at each place of that order,
    0 at padding; `places` says at which place each packed row stands, and `padding` where padding
    does. `shapes` are the groups' (sequences * heads, tokens).

    Both ways are one selection of rows for all groups: writing states to their places, group by
    group, takes torch several times as long.
    """

    order: Tensor
    places: Tensor
    padding: Tensor
    shapes: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, packing: Packing, heads: int) -> "HeadRows":
        """The order of a packing's groups; made once for all layers with so many heads."""
        if heads not in packing.head_rows:
            packing.head_rows[heads] = cls._of(packing, heads)
        rows: HeadRows = packing.head_rows[heads]
        return rows

    @classmethod
    def _of(cls, packing: Packing, heads: int) -> "HeadRows":
        head = np.arange(heads)[:, None]
        orders, reals = [], []
        for group in packing.groups:
            rows = group.places.numpy()[:, None] * heads + head
            real = np.ones(1, bool) if group.is_real is None else group.is_real.numpy()[:, None]
            orders.append(rows.ravel())
            reals.append(np.broadcast_to(real, rows.shape).ravel())
        order, is_real = np.concatenate(orders), np.concatenate(reals)
        places = np.empty(packing.tokens * heads, np.int64)
        places[order[is_real]] = np.flatnonzero(is_real)
        return cls(
            order=torch.from_numpy(order),
            places=torch.from_numpy(places),
            padding=torch.from_numpy(np.flatnonzero(~is_real)),
            shapes=tuple((len(g.places) * heads, g.places.shape[1]) for g in packing.groups),
        )

    def gather(self, states: Tensor) -> Tensor:
        """Packed states (tokens, heads, size) in attention's order, (places, size)."""
        return states.reshape(-1, states.shape[-1]).index_select(0, self.order)

    def scatter(self, states: Tensor, heads: int) -> Tensor:
        """States in attention's order as packed ones; what stands at padding is left out."""
        return states.index_select(0, self.places).view(-1, heads, states.shape[-1])

    def split(self, states: Tensor) -> Iterator[Tensor]:
        """The groups' parts of states in attention's order, (sequences * heads, tokens, size)."""
        parts = torch.split(states, [rows * tokens for rows, tokens in self.shapes])
        return (part.view(*shape, -1) for part, shape in zip(parts, self.shapes, strict=True))


def ordered(states: Tensor, rows: HeadRows) -> Tensor:
    """`rows.gather` with gradients, of which those at padding must be zero."""
    found: Tensor = _Ordered.apply(states, rows)  # type: ignore[no-untyped-call]
    return found


class _Ordered(torch.autograd.Function):
    """The gradient of a selection in which each row comes once is another selection."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: HeadRows) -> Tensor:
        ctx.rows, ctx.heads = rows, states.shape[1]
        return rows.gather(states)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.scatter(gradient, ctx.heads), None
