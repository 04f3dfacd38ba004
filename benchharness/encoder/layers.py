"""What an encoder is made of from the bottom up, for whatever treats its layers differently."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.encoder.load import Encoder
from benchharness.encoder.network import is_foreign
from benchharness.encoder.packing import NARROWED, PACKING
from benchharness.recipes.recipe import kept_layers
from benchharness.tasks.errors import ModelError

ON_TOP = {"pooler", "ln", "ln_f", "norm", "final_norm", "final_layer_norm"}
"""Names of what comes after the last layer: MegatronBERT, GPT-2, EuroBERT, ModernBERT and T5 end in
a norm."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The parts of an encoder: what stands below the first layer, and the layers in their order.

    `embeddings` have all that the layers share too, such as relative positions. A layer that is
    passed several times (ALBERT's) stands here once. What comes after the last layer is in neither:
    it belongs with the head.
    """

    embeddings: tuple[nn.Module, ...]
    layers: tuple[nn.Module, ...]


def layers_of(network: nn.Module) -> Layers:
    """The parts of an encoder's network, that of any family which lists its layers."""
    parts = list(_parts(network))
    below = {_weights(part): part for part, is_layer in parts if not is_layer}
    return Layers(
        embeddings=tuple(below.values()),
        layers=tuple(part for part, is_layer in parts if is_layer),
    )


def _weights(part: nn.Module) -> tuple[int, ...]:
    """What tells parts apart: T5 has its embeddings twice, and only the second ones are called."""
    return tuple(id(weight) for weight in part.parameters())


def _parts(module: nn.Module) -> Iterator[tuple[nn.Module, bool]]:
    """The parts in their order, each with whether it is a layer."""
    for name, child in module.named_children():
        # Every family keeps its layers in a ModuleList, at its top or further inside.
        if isinstance(child, nn.ModuleList):
            yield from ((layer, True) for layer in _flat(child))
        elif any(isinstance(inner, nn.ModuleList) for inner in child.modules()):
            yield from _parts(child)
        elif name not in ON_TOP and any(True for _ in child.parameters()):
            yield child, False


def _flat(layers: nn.ModuleList) -> Iterator[nn.Module]:
    """The layers of a list, or (Funnel) of its blocks one after another."""
    for layer in layers:
        if isinstance(layer, nn.ModuleList):
            yield from _flat(layer)
        else:
            yield layer


# An encoder of some of its layers.

CUT = frozenset({"distilbert"})
"""Families beside FAMILIES, below, of which some of the layers are an encoder too."""


def keep_layers(encoder: Encoder, wanted: int | str) -> None:
    """Takes all layers but some out of a loaded encoder; 0 keeps all.

    `wanted` is as `kept_layers` takes it. Raises ModelError as that does, and for a family whose
    layers do not stand for themselves.
    """
    if not wanted:
        return
    family, network = encoder.family, encoder.network
    if family not in FAMILIES | CUT or is_foreign(network):
        raise ModelError(
            f"layers can be left out of {', '.join(sorted(FAMILIES | CUT))}, and this model is "
            f"{family}: leave layers out."
        )
    layers = layers_of(network).layers
    kept = kept_layers(wanted, len(layers))
    # convbert, deberta and the others keep them in one list, wherever it is.
    name = next(n for n, part in network.named_modules() if list(part.children()) == [*layers])
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, nn.ModuleList(layers[i] for i in kept))
    encoder.config.num_hidden_layers = len(kept)  # DistilBERT's n_layers by another name


# The last layer of an encoder at the first token alone, where a head reads no other state.
#
# Its keys and values come from all tokens; its queries, its output and its feed-forward part are
# computed once a row: a sixth of the work of an encoder of six layers is nearly saved.

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
    if network.config.model_type not in FAMILIES or is_foreign(network):
        return
    layers = layers_of(network).layers
    # DeBERTa-v2's first layer is followed by a convolution over all tokens.
    if len(layers) < 2:
        return
    attention = layers[-1].get_submodule("attention")
    # Its inputs are attention's output and the residual: both are narrowed, and so all after it is.
    attention.get_submodule("output").register_forward_pre_hook(_narrow)
    setattr(attention.get_submodule("self"), NARROWED, True)


def _narrow(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The first tokens' states, of (rows, tokens, size) or of packed (1, tokens, size)."""
    packing = PACKING.get()
    # (1, tokens, size) -> (1, rows, size) of a packed row; (rows, tokens, size) -> (rows, 1, size)
    first = inputs[0].new_zeros(1, dtype=torch.long) if packing is None else packing.firsts
    return tuple(states.index_select(1, first) for states in inputs)
