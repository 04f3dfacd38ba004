"""Packed batches: an encoder computes one row of real tokens.

Only attention knows where a sequence begins and ends. A padded batch goes into the encoder and
padded hidden states come out, so heads see no difference; what lies between computes no padding.

    padded batch, (3, 5)        packed row, (1, 10), as every layer but attention sees it

    row 0  a b c . .            a b c D E F G H k l
    row 1  D E F G H            ^     ^         ^
    row 2  k l . . .            firsts = 0, 3, 8     position ids 0 1 2 0 1 2 3 4 0 1

What is known of a packing without looking at a tensor is known on the host, where lengths are: its
few tensors of indices go to the device with the batch, and nothing is read back from there.

On a GPU attention is given where sequences begin (cuda.py). On a CPU it takes them out again, in
groups of like length: widths are rounded up to multiples of ROUNDING (here of 4), so that few
places are padding.

    group of width 4: rows 0, 2         group of width 8: row 1

    places  0 1 2 0     is_real  1 1 1 0     places  3 4 5 6 7 0 0 0
            8 9 0 0              1 1 0 0     is_real 1 1 1 1 1 0 0 0

Within a group each head of a sequence is a matrix of its own, so the order of attention is group,
sequence, head, token (see HeadRows): with two heads, a b c . of head 0, a b c . of head 1, then
k l . . of head 0, and so on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

T = TypeVar("T")

PACKABLE = frozenset(
    {
        "albert",
        "bert",
        "camembert",
        "distilbert",
        "electra",
        "ernie",
        "eurobert",
        "modernbert",
        "roberta",
        "xlm-roberta",
    }
)
"""Families (transformers' model_type) whose tokens meet only in attention that goes through
transformers' attention interface, and that take position ids."""

ROUNDING = 8
"""Attention is computed at lengths that are multiples of it: matrix units like them."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Sequences that attention on a CPU computes together, each padded to `places.shape[1]` tokens.

    `rows` are their numbers in the batch. `places` (sequences, tokens) are where the tokens stand
    in the packed row, 0 at padding; `is_real` says which are no padding, None where all are.
    """

    rows: Tensor
    places: Tensor
    is_real: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The sequences of one packed row, of a padded batch (rows, width).

    `lengths` are the rows' on the host. The tensors are on the device: `places` where each packed
    token stands in the padded batch, row by row; `positions` which of its sequence's it is; and
    `offsets` (sequences + 1,) where the sequences begin and the last one ends.

    `tail` tokens of padding, not more than `width`, may follow as a sequence of their own, so that
    packed rows of many lengths have one shape. Their places are those of one more row of the batch.

    `kept` is what attention makes of it once for all layers.
    """

    lengths: NDArray[np.int64]
    width: int
    tail: int = 0
    places: Tensor
    positions: Tensor
    offsets: Tensor
    kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, mask: Tensor) -> "Packing":
        """The packing of a padded batch's attention mask (rows, tokens), padding at the end.

        Waits for the mask's device: what trains and predicts gives lengths, which it knows.
        """
        return cls.of_lengths(mask.sum(1).cpu().numpy(), mask.shape[1], mask.device)

    @classmethod
    def of_lengths(
        cls, lengths: NDArray[np.int64], width: int, device: torch.device, tail: int = 0
    ) -> "Packing":
        """The packing of rows of these lengths, each padded to the width."""
        tensors = send(cls.indices(lengths, width, tail), device)
        return cls.with_indices(lengths, width, tail, tensors)

    @staticmethod
    def indices(lengths: NDArray[np.int64], width: int, tail: int = 0) -> list[NDArray[np.int64]]:
        """The arrays of a packing's tensors, to be sent to the device with others."""
        sizes = np.append(lengths, tail) if tail else lengths  # (sequences,)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        sequences = np.repeat(np.arange(len(sizes)), sizes)  # (tokens,)
        positions = np.arange(offsets[-1]) - offsets[sequences]  # (tokens,)
        return [sequences * width + positions, positions, offsets]

    @classmethod
    def with_indices(
        cls, lengths: NDArray[np.int64], width: int, tail: int, indices: Sequence[Tensor]
    ) -> "Packing":
        """The packing whose `indices` have been sent to the device."""
        places, positions, offsets = indices
        return cls(
            lengths=lengths,
            width=width,
            tail=tail,
            places=places,
            positions=positions,
            offsets=offsets,
        )

    def __getitem__(self, rows: slice) -> "Packing":
        """The packing of some of the rows, as the slice of any other input is theirs."""
        return Packing.of_lengths(self.lengths[rows], self.width, self.places.device)

    @property
    def rows(self) -> int:
        """Rows of the padded batch."""
        return len(self.lengths)

    @property
    def sequences(self) -> int:
        """The rows, and one more for the tail."""
        return self.rows + (self.tail > 0)

    @property
    def tokens(self) -> int:
        """Tokens of the packed row."""
        return len(self.places)

    @property
    def firsts(self) -> Tensor:
        """Where the rows begin in the packed row, (rows,)."""
        return self.offsets[: self.rows]

    def once(self, name: Any, make: Callable[[], T]) -> T:
        """What `make` gives, made once under that name."""
        if name not in self.kept:
            self.kept[name] = make()
        found: T = self.kept[name]
        return found

    def pack(self, values: Tensor) -> Tensor:
        """The padded batch's values (rows, width) as (1, tokens); zero in the tail."""
        if self.tail:
            values = functional.pad(values, (0, 0, 0, 1))
        return values.reshape(-1).index_select(0, self.places)[None]

    def table(self, states: Tensor) -> Tensor:
        """Packed states (tokens, ...) as (sequences, width, ...), zero at padding."""
        shape = (self.sequences * self.width, *states.shape[1:])
        filled = states.new_zeros(shape).index_copy(0, self.places, states)
        return filled.view(self.sequences, self.width, *states.shape[1:])

    @property
    def groups(self) -> tuple[Group, ...]:
        """The sequences in groups of like length, for attention on a CPU."""
        return self.once("groups", self._groups)

    def _groups(self) -> tuple[Group, ...]:
        starts = np.cumsum(self.lengths) - self.lengths  # (rows,): each begins where all before end
        widths = -(-self.lengths // ROUNDING) * ROUNDING
        return tuple(
            _group(np.flatnonzero(widths == width), starts, self.lengths, width)
            for width in np.unique(widths)
        )


def _group(rows: NDArray[Any], starts: NDArray[Any], lengths: NDArray[Any], width: int) -> Group:
    columns = np.arange(width)
    is_real = columns < lengths[rows, None]  # (sequences, width)
    places = np.where(is_real, starts[rows, None] + columns, 0)  # (sequences, width)
    return Group(
        rows=torch.from_numpy(rows),
        places=torch.from_numpy(places),
        # Full groups need no mask, which is a pass over all scores: None tells attention so.
        is_real=None if is_real.all() else torch.from_numpy(is_real),
    )


def send(arrays: Sequence[NDArray[np.int64]], device: torch.device) -> list[Tensor]:
    """Arrays as tensors on a device, for which the host does not wait.

    To a GPU they go as one copy from pinned memory, which is queued behind what the GPU has to do
    before; torch keeps that memory until the copy is made.
    """
    if device.type != "cuda":
        return [torch.from_numpy(array).to(device) for array in arrays]
    pinned = torch.empty(sum(map(np.size, arrays)), dtype=torch.int64, pin_memory=True)
    np.concatenate([array.ravel() for array in arrays], out=pinned.numpy())
    return parts_of(pinned.to(device, non_blocking=True), [array.shape for array in arrays])


def parts_of(buffer: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The tensors of these shapes that stand end to end in a buffer, as views of it."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = torch.split(buffer, sizes)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


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
        return packing.once(("heads", heads), lambda: cls._of(packing, heads))

    @classmethod
    def _of(cls, packing: Packing, heads: int) -> "HeadRows":
        head = np.arange(heads)[:, None]  # (heads, 1)
        orders, reals = [], []
        for group in packing.groups:
            # Row token * heads + head of the packed states: (sequences, heads, tokens).
            rows = group.places.numpy()[:, None] * heads + head
            real = np.ones(1, bool) if group.is_real is None else group.is_real.numpy()[:, None]
            orders.append(rows.ravel())
            reals.append(np.broadcast_to(real, rows.shape).ravel())
        order, is_real = np.concatenate(orders), np.concatenate(reals)  # (places,)
        places = np.empty(packing.tokens * heads, np.int64)  # (tokens * heads,)
        places[order[is_real]] = np.flatnonzero(is_real)  # the inverse, where it is one
        return cls(
            order=torch.from_numpy(order),
            places=torch.from_numpy(places),
            padding=torch.from_numpy(np.flatnonzero(~is_real)),
            shapes=tuple((len(g.places) * heads, g.places.shape[1]) for g in packing.groups),
        )

    def gather(self, states: Tensor) -> Tensor:
        """Packed states (tokens, heads, size) in attention's order, (places, size).

        At padding stand the states of row 0, which attention has to mask.
        """
        rows = states.reshape(-1, states.shape[-1])  # (tokens * heads, size)
        return rows.index_select(0, self.order)  # (places, size)

    def scatter(self, states: Tensor, heads: int) -> Tensor:
        """States in attention's order as packed ones; what stands at padding is left out."""
        rows = states.index_select(0, self.places)  # (tokens * heads, size)
        return rows.view(-1, heads, states.shape[-1])  # (tokens, heads, size)

    def split(self, states: Tensor) -> Iterator[Tensor]:
        """The groups' parts of states in attention's order, (sequences * heads, tokens, size)."""
        parts = torch.split(states, [rows * tokens for rows, tokens in self.shapes])
        return (part.view(*shape, -1) for part, shape in zip(parts, self.shapes, strict=True))


def ordered(states: Tensor, rows: HeadRows) -> Tensor:
    """`rows.gather` with gradients, of which those at padding must be zero."""
    found: Tensor = _Ordered.apply(states, rows)  # type: ignore[no-untyped-call]
    return found


class _Ordered(torch.autograd.Function):
    """The gradient of a selection in which each row comes once is another selection.

    torch does not know that each comes once, and adds up row by row.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: HeadRows) -> Tensor:
        ctx.rows, ctx.heads = rows, states.shape[1]
        return rows.gather(states)  # (tokens, heads, size) -> (places, size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.scatter(gradient, ctx.heads), None  # (places, size) -> as states


PACKING: ContextVar[Packing | None] = ContextVar("PACKING", default=None)
"""The packing of what an encoder computes at this moment.

Attention and the last layer's narrowing look here, because no family passes a value of ours through
its layers.
"""

PER_TOKEN = ("input_ids", "token_type_ids")
"""What is packed of an encoder's inputs; the mask becomes the packing, the rest stays."""


def use_packing(network: Any) -> None:
    """Has an encoder of transformers compute packed rows, whose attention reads PACKING."""
    first = first_position(network)

    def pack(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
        mask = inputs.pop("attention_mask")
        packing = inputs.pop("packing", None) or Packing.of(mask)
        PACKING.set(packing)
        # (rows, width) -> (1, tokens)
        packed = {name: packing.pack(inputs.pop(name)) for name in PER_TOKEN if name in inputs}
        return args, {**packed, **inputs, "position_ids": packing.positions[None] + first}

    def unpack(_: nn.Module, _args: Any, _inputs: Any, output: Any) -> Any:
        packing = PACKING.get()
        PACKING.set(None)
        if packing is None or output is None:  # the encoder raised
            return output
        for name in ("last_hidden_state", "hidden_states"):
            states = getattr(output, name, None)
            if isinstance(states, Tensor):
                output[name] = _padded(states, packing)
            elif states is not None:
                output[name] = tuple(_padded(layer, packing) for layer in states)
        return output

    network.register_forward_pre_hook(pack, with_kwargs=True)
    # always_call: where the encoder raises, PACKING is not to stay for what is computed next.
    network.register_forward_hook(unpack, with_kwargs=True, always_call=True)
    network.is_packed = True


def is_packed(network: nn.Module) -> bool:
    """True for a network with an encoder that computes packed rows."""
    return any(getattr(module, "is_packed", False) for module in network.modules())


def first_position(network: nn.Module) -> int:
    """The position of a first token: RoBERTa and its kin count from behind the padding index."""
    return max(
        (
            module.padding_idx + 1
            for name, module in network.named_modules()
            if name.endswith("position_embeddings")
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ),
        default=0,
    )


def _padded(states: Tensor, packing: Packing) -> Tensor:
    """Packed states (1, tokens, size) as (rows, width, size).

    States of first tokens alone, (1, rows, size), become (rows, 1, size).
    """
    if states.shape[1] < packing.tokens:  # with one token a row, both ways give the same
        return states.transpose(0, 1)  # (rows, 1, size)
    return packing.table(states[0])[: packing.rows]
