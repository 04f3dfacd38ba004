"""Activation checkpointing: a layer keeps its input alone, and is computed again going backward.

Chen et al., arXiv:1604.06174. Dropout is drawn alike both times, so a CPU's gradients are the same
bits as without; a step takes a forward pass more.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from benchharness.encoder.network import is_foreign
from benchharness.encoder.packing import PACKING, Packing
from benchharness.tasks.errors import ModelError


def can_checkpoint(network: nn.Module) -> bool:
    """Whether layers in a network that are trained can be computed again."""
    return any(True for _ in _encoders(network))


def checkpoint_activations(network: nn.Module) -> None:
    """Has the layers in a network computed again in each backward pass, while it trains.

    Raises ModelError where its family has no layers that can be.
    """
    encoders = list(_encoders(network))
    if not encoders:
        raise ModelError(
            "activation_checkpointing is on, and this encoder has no layers that transformers can "
            "compute again: leave it out, or --set accumulation to more."
        )
    options = {"use_reentrant": False, "context_fn": _contexts}
    for encoder in encoders:
        # The second is its name in transformers before 5.23, and goes with 6.
        name = "activation_checkpointing_enable"
        name = name if hasattr(encoder, name) else "gradient_checkpointing_enable"
        getattr(encoder, name)(options)


def _encoders(network: nn.Module) -> Iterator[Any]:
    """Those of transformers in a network: a checkpoint's own code may lose gradients."""
    for module in network.modules():
        known = isinstance(module, PreTrainedModel) and module.supports_gradient_checkpointing
        can_be = any(hasattr(part, "gradient_checkpointing") for part in module.modules())
        learns = any(weight.requires_grad for weight in module.parameters())
        if known and can_be and learns and not is_foreign(module):
            yield module


def _contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """What surrounds a layer in the forward pass, and where it is computed again."""
    return nullcontext(), _in_packing(PACKING.get())


@contextmanager
def _in_packing(packing: Packing | None) -> Iterator[None]:
    # The encoder's own is over by then; a GPU's backward pass has a thread without any.
    before = PACKING.set(packing)
    try:
        yield
    finally:
        PACKING.reset(before)
