"""The last layer of an encoder at the first token alone, where a head reads no other state.

Its keys and values come from all tokens; its queries, its output and its feed-forward part are
computed once a row: a sixth of the work of an encoder of six layers is nearly saved.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchharness.encoder.layers import layers_of
from benchharness.encoder.packing import PACKING

__all__ = ["FAMILIES", "is_at_first_token", "use_first_token"]

FAMILIES = frozenset(
    {
        "bert",
        "camembert",
        "convbert",
        "deberta",
        "deberta-v2",
        "electra",
        "ernie",
        "megatron-bert",
        "roberta",
        "xlm-roberta",
    }
)
"""Families (transformers' model_type) whose layers add the residual behind attention in a module of
its own, `attention.output`, and whose tokens meet nowhere after it."""


def use_first_token(network: Any) -> None:
    """Has the last layer give first tokens' states alone, (rows, 1, size), if its family allows.

    For heads that read nothing else. All other layers' states are of all tokens, as before.
    """
    layers = layers_of(network).layers
    # DeBERTa-v2's first layer is followed by a convolution over all tokens.
    if network.config.model_type not in FAMILIES or len(layers) < 2:
        return
    attention = layers[-1].get_submodule("attention")
    attention.get_submodule("output").register_forward_pre_hook(_narrow)
    attention.get_submodule("self").is_at_first_token = True  # type: ignore[assignment]


def is_at_first_token(attention: nn.Module) -> bool:
    """True for the attention of a layer whose other outputs than first tokens' are not used."""
    return bool(getattr(attention, "is_at_first_token", False))


def _narrow(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The first tokens' states, of (rows, tokens, size) or of packed (1, tokens, size)."""
    packing = PACKING.get()
    first = torch.zeros(1, dtype=torch.long) if packing is None else packing.firsts
    return tuple(states.index_select(1, first.to(states.device)) for states in inputs)
