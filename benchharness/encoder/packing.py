"""Packed batches: an encoder computes one row of real tokens.

Only attention knows where a sequence begins and ends. A padded batch goes into the encoder and
padded hidden states come out, so heads see no difference; what lies between computes no padding.
"""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["PACKABLE", "PACKING", "Group", "Packing", "is_packed", "use_packing"]

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
    """Sequences that attention computes together, each padded to `places.shape[1]` tokens.

    `rows` are their numbers in the batch. `places` (sequences, tokens) are where the tokens stand
    in the packed row, 0 at padding; `is_real` says which are no padding, None where all are.
    """

    rows: Tensor
    places: Tensor
    is_real: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The sequences of one packed row, in groups of like length.

    `mask` is the padded batch's, `tokens` how many of them are real, and `firsts` are where the
    sequences begin in the packed row. `head_rows` keeps what attention makes of it, by the number
    of heads.
    """

    mask: Tensor
    tokens: int
    firsts: Tensor
    groups: tuple[Group, ...]
    head_rows: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, mask: Tensor) -> "Packing":
        """The packing of a padded batch's attention mask (rows, tokens), padding at the end."""
        lengths = mask.sum(1).cpu().numpy()
        starts = np.cumsum(lengths) - lengths
        widths = -(-lengths // ROUNDING) * ROUNDING
        return cls(
            mask=mask.bool(),
            tokens=int(lengths.sum()),
            firsts=torch.from_numpy(starts).to(mask.device),
            groups=tuple(
                _group(np.flatnonzero(widths == width), starts, lengths, width, mask.device)
                for width in np.unique(widths)
            ),
        )


def _group(
    rows: NDArray[Any],
    starts: NDArray[Any],
    lengths: NDArray[Any],
    width: int,
    device: torch.device,
) -> Group:
    columns = np.arange(width)
    is_real = columns < lengths[rows, None]
    places = np.where(is_real, starts[rows, None] + columns, 0)
    return Group(
        rows=torch.from_numpy(rows).to(device),
        places=torch.from_numpy(places).to(device),
        is_real=None if is_real.all() else torch.from_numpy(is_real).to(device),
    )


PACKING: ContextVar[Packing | None] = ContextVar("PACKING", default=None)
"""The packing of what an encoder computes at this moment."""


def use_packing(network: Any) -> None:
    """Has an encoder of transformers compute packed rows, whose attention reads PACKING."""
    first = _first_position(network)

    def pack(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
        packing = Packing.of(inputs["attention_mask"])
        PACKING.set(packing)
        real = packing.mask
        positions = torch.arange(real.shape[1], device=real.device).expand(real.shape)
        packed = {name: inputs[name][real][None] for name in _PER_TOKEN if name in inputs}
        others = {n: v for n, v in inputs.items() if n not in (*_PER_TOKEN, "attention_mask")}
        return args, {**packed, **others, "position_ids": positions[real][None] + first}

    def unpack(_: nn.Module, _args: Any, _inputs: Any, output: Any) -> Any:
        packing = PACKING.get()
        PACKING.set(None)
        if packing is None or output is None:  # the encoder raised
            return output
        return _unpack(output, packing)

    network.register_forward_pre_hook(pack, with_kwargs=True)
    network.register_forward_hook(unpack, with_kwargs=True, always_call=True)
    network.is_packed = True


_PER_TOKEN = ("input_ids", "token_type_ids")


def is_packed(network: nn.Module) -> bool:
    """True for a network with an encoder that computes packed rows."""
    return any(getattr(module, "is_packed", False) for module in network.modules())


def _first_position(network: nn.Module) -> int:
    """The position of a first token: RoBERTa and its kin count from behind the padding index."""
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0


def _unpack(output: Any, packing: Packing) -> Any:
    """An encoder's output with padded hidden states, zero at padding."""
    for name in ("last_hidden_state", "hidden_states"):
        states = getattr(output, name, None)
        if isinstance(states, Tensor):
            output[name] = _padded(states, packing)
        elif states is not None:
            output[name] = tuple(_padded(layer, packing) for layer in states)
    return output


def _padded(states: Tensor, packing: Packing) -> Tensor:
    """Packed states (1, tokens, size) as (rows, tokens, size).

    States of first tokens alone, (1, rows, size), become (rows, 1, size).
    """
    rows, tokens = packing.mask.shape
    if states.shape[1] < packing.tokens:
        return states.transpose(0, 1)
    table = states.new_zeros(rows * tokens, states.shape[-1])
    places = packing.mask.flatten().nonzero()[:, 0]
    return table.index_copy(0, places, states[0]).view(rows, tokens, -1)
