"""Packed layers, in families whose attention takes padded states alone.

Embeddings, masks, biases and positions are of padded rows, as the family's own code makes them.
The first layer packs the states, the last one pads them again. In between, the modules in which
tokens meet get padded states and their outputs are packed, so no family's formula is written here.

    embeddings      (rows, width, size)
    layers          (1, tokens, size)
      attention     (rows, width, size), but its linear layers (1, tokens, size)
      all others    (1, tokens, size)
    norm, head      (rows, width, size)
"""

from collections.abc import Callable, Collection
from sys import modules
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.encoder.packing import PACKING, Packing, padded, use_packing


def use_packed_layers(network: Any, classes: Collection[str]) -> None:
    """Has an encoder's layers compute packed rows, and modules of these classes padded ones.

    All stays padded where it has none of them: other versions of transformers have others.
    """
    parts = [
        part
        for part in network.modules()
        if not {kind.__name__ for kind in type(part).__mro__}.isdisjoint(classes)
    ]
    # T5 with its decoder is asked for words, whose rows are not packed.
    if (classes and not parts) or hasattr(network, "decoder"):
        return
    use_packing(network)
    if parts and hasattr(modules[type(network).__module__], "create_bidirectional_mask"):
        network.register_forward_pre_hook(_whole_mask, with_kwargs=True)
    turn = _across if network.config.model_type == "xlnet" else _as_it_is
    layers = next(part for part in network.modules() if isinstance(part, nn.ModuleList))
    layers[0].register_forward_pre_hook(lambda _, args: (_pack(args[0], turn), *args[1:]))
    layers[-1].register_forward_hook(lambda _, _args, output: _changed(output, _pad, turn))
    for part in parts:
        _compute_padded(part, turn)
        if hasattr(part, "pos_ebd_size"):
            part.register_forward_pre_hook(_near_positions, with_kwargs=True)
    for encoder in network.modules():
        if hasattr(encoder, "get_rel_pos") and encoder.relative_attention:
            encoder.register_forward_pre_hook(_Positions(), with_kwargs=True)
    network.attends_padded = bool(parts)


def _whole_mask(
    network: Any, args: tuple[Any, ...], inputs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Gives the mask as attention adds it: making it, transformers asks a GPU if it hides any."""
    hidden = 1.0 - inputs["attention_mask"][:, None, None].to(network.dtype)  # (rows, 1, 1, width)
    return args, {**inputs, "attention_mask": hidden * torch.finfo(hidden.dtype).min}


def _as_it_is(states: Tensor) -> Tensor:
    return states


def _across(states: Tensor) -> Tensor:
    """XLNet's padded states are (width, rows, size)."""
    return states.transpose(0, 1)


Turn = Callable[[Tensor], Tensor]


def _known() -> Packing:
    packing = PACKING.get()
    assert packing is not None
    return packing


def _pack(states: Tensor, turn: Turn) -> Tensor:
    return _known().pack(turn(states))


def _pad(states: Any, turn: Turn) -> Any:
    """Packed states as padded ones; all else, such as masks and padded states, as it is."""
    if not isinstance(states, Tensor) or states.ndim != 3:
        return states
    table = padded(states, _known())
    return states if table is states else turn(table)


def _changed(output: Any, change: Callable[[Tensor, Turn], Tensor], turn: Turn) -> Any:
    """What a module gives, states or several values that begin with them, with changed states."""
    if isinstance(output, Tensor):
        return change(output, turn)
    return type(output)([change(output[0], turn), *output[1:]])


def _compute_padded(part: nn.Module, turn: Turn) -> None:
    """Has a module compute padded states; its own layers that are given these, packed ones."""

    def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        tables = tuple(_pad(each, turn) for each in args)
        _known().kept["given"] = args[0], tables[0]
        return tables

    def after(_: nn.Module, _args: Any, output: Any) -> Any:
        del _known().kept["given"]
        return _changed(output, _pack, turn)

    def before_own(_: nn.Module, args: tuple[Any, ...]) -> Any:
        packed, table = _known().kept["given"]
        return packed if args[0] is table else None

    def after_own(_: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        return _pad(output, turn) if args[0] is _known().kept["given"][0] else None

    part.register_forward_pre_hook(before)
    part.register_forward_hook(after)
    for own in part.children():
        own.register_forward_pre_hook(before_own)
        own.register_forward_hook(after_own)


class _Positions:
    """Gives DeBERTa's encoder the relative positions of its tokens, (1, width, width).

    Those of fewer tokens are a corner of the widest made so far: for making them a GPU's host
    waits.
    """

    def __init__(self) -> None:
        self._widest = torch.empty(1, 0, 0)

    def __call__(
        self, encoder: Any, args: tuple[Any, ...], inputs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        width, device = args[0].shape[1], args[0].device
        if self._widest.device != device or len(self._widest[0]) < width:
            with torch.inference_mode(mode=False):  # training saves them for its backward pass
                self._widest = encoder.get_rel_pos(torch.empty(1, width, 0, device=device))
        return args, {**inputs, "relative_pos": self._widest[:, :width, :width]}


def _near_positions(
    part: Any, args: tuple[Any, ...], inputs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Gives DeBERTa-v2's attention the relative positions that rows of this width have.

    Those up to half of the buckets are each their own. As DeBERTa-v1's compute_attention_span does.
    """
    table = inputs["rel_embeddings"]  # (2 * buckets, size)
    width, buckets = inputs["relative_pos"].shape[-1], len(table) // 2
    part.pos_ebd_size = width if 2 * width <= buckets else buckets
    near = table[buckets - part.pos_ebd_size : buckets + part.pos_ebd_size]
    return args, {**inputs, "rel_embeddings": near}
