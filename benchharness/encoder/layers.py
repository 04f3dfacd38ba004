"""What an encoder is made of from the bottom up, for whatever treats its layers differently."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

__all__ = ["Layers", "layers_of"]

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
