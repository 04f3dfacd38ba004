"""Compute packed layers in families whose embeddings or attention support only padded rows.

The states have these shapes, from bottom to top:

    embeddings, masks, positions   (rows, width, size), as the family's own code makes them
    first to last layer            (1, tokens, size)
    modules where tokens mix       (rows, width, size), but their linear layers (1, tokens, size)
    norm, head                     (rows, width, size)
"""

from collections.abc import Callable, Collection
from sys import modules
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.encoder.packing import PACKING, Packing, padded, use_packing


def use_packed_layers(network: Any, classes: Collection[str]) -> None:
    """Make an encoder's layers compute packed rows (see packing.py).

    An encoder with a decoder is left unchanged.

    Args:
        network: Encoder of transformers.
        classes: Names of the classes of modules in the layers that still compute padded rows, such
            as attention. If `classes` is empty, all modules of the layers compute packed rows. If
            it is not empty, but the encoder has no such module (because this version of
            transformers has other names), the encoder is left unchanged. A changed encoder gets
            the attribute `attends_padded`, which is true if `classes` is not empty.
    """
    every = list(network.modules())
    parts = [m for m in every if any(kind.__name__ in classes for kind in type(m).__mro__)]
    # T5 is loaded with its decoder only to generate text. Its rows are then not packed.
    if (classes and not parts) or hasattr(network, "decoder"):
        return
    use_packing(network)
    # The first ModuleList holds the layers; modules before it compute padded rows.
    layers = next(module for module in every if isinstance(module, nn.ModuleList))
    layers[0].register_forward_pre_hook(lambda _, args: (_known().pack(args[0]), *args[1:]))
    layers[-1].register_forward_hook(lambda _, _args, output: _changed(output, _pad))
    if parts and hasattr(modules[type(network).__module__], "create_bidirectional_mask"):
        network.register_forward_pre_hook(_give_whole_mask, with_kwargs=True)
    for module in every:
        if getattr(module, "relative_attention", False):  # DeBERTa
            _use_known_positions(module)
    for part in parts:
        _compute_padded(part)
    network.attends_padded = bool(parts)


def _known() -> Packing:
    packing = PACKING.get()
    assert packing is not None
    return packing


def _pad(states: Any) -> Any:
    """Convert packed states to padded ones; return anything else, such as masks, unchanged."""
    is_states = isinstance(states, Tensor) and states.ndim == 3
    return padded(states, _known()) if is_states else states


def _changed(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a module's output with `change` applied to its states.

    The output is a tensor of states, or a tuple that begins with one.
    """
    if isinstance(output, Tensor):
        return change(output)
    return type(output)([change(output[0]), *output[1:]])  # the caller expects the same type


def _compute_padded(part: nn.Module) -> None:
    """Make a module compute padded states.

    Child modules that read the same states as the module compute packed states.
    """
    given: list[Any] = [None, None]  # the packed and the padded states, during forward

    def before(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        tables = tuple(map(_pad, args))
        given[:] = args[0], tables[0]
        return tables

    def after(_: nn.Module, _args: Any, output: Any) -> Any:
        given[:] = None, None
        return _changed(output, _known().pack)

    part.register_forward_pre_hook(before)
    part.register_forward_hook(after)
    # Query, key and value are computed for real tokens only, from the same packed states.
    for own in part.children():
        own.register_forward_pre_hook(lambda _, args: given[0] if args[0] is given[1] else None)
        own.register_forward_hook(
            lambda _, args, output: _pad(output) if args[0] is given[0] else None
        )


def _give_whole_mask(network: Any, args: Any, inputs: dict[str, Any]) -> Any:
    """Convert the attention mask to the form that is added to attention scores.

    transformers' own conversion reads from the GPU whether any position is masked, which would make
    the CPU wait.
    """
    # The lowest number, added to the score of a masked position, makes its softmax zero.
    hidden = 1.0 - inputs["attention_mask"][:, None, None].to(network.dtype)  # (rows, 1, 1, width)
    return args, {**inputs, "attention_mask": hidden * torch.finfo(hidden.dtype).min}


def _use_known_positions(module: Any) -> None:
    """Make DeBERTa compute relative positions once, and read only the embeddings that it needs.

    If relative positions were computed for each batch, the CPU would wait for the GPU each time.
    Relative positions up to half the number of buckets each have their own bucket, so for short
    texts version 2 needs only the rows near the middle of its table of embeddings. Version 1
    selects these rows itself, in its compute_attention_span.
    """
    if hasattr(module, "get_rel_pos"):
        device = next(module.parameters()).device
        longest = torch.empty(1, module.max_relative_positions, 0, device=device)
        module.register_buffer("positions", module.get_rel_pos(longest), persistent=False)
        module.register_forward_pre_hook(_give_positions, with_kwargs=True)
    elif hasattr(module, "pos_ebd_size"):
        module.register_forward_pre_hook(_give_near_embeddings, with_kwargs=True)


def _give_positions(encoder: Any, args: Any, inputs: dict[str, Any]) -> Any:
    width, known = args[0].shape[1], encoder.positions  # (1, longest, longest)
    of_width = known[:, :width, :width] if width <= known.shape[1] else None
    return args, {**inputs, "relative_pos": of_width}


def _give_near_embeddings(attention: Any, args: Any, inputs: dict[str, Any]) -> Any:
    table, width = inputs["rel_embeddings"], inputs["relative_pos"].shape[-1]
    buckets = len(table) // 2  # number of buckets for each sign of a relative position
    span = attention.pos_ebd_size = width if 2 * width <= buckets else buckets
    return args, {**inputs, "rel_embeddings": table[buckets - span : buckets + span]}
