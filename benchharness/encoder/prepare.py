"""The door to what makes a network quick: packed rows on a CPU (cpu.py) and on a GPU (cuda.py).

transformers lets a model's attention be replaced by a registered function. Ours is given packed
rows (packing.py), which need no mask, and whose sequences each device takes its own way.
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from benchharness.encoder import cpu, cuda
from benchharness.encoder.layers import is_at_first_token
from benchharness.encoder.network import is_foreign
from benchharness.encoder.packing import PACKABLE, PACKING, use_packing

KERNELS: dict[str, ModuleType] = {"cpu": cpu, "cuda": cuda}
"""What computes attention, by the type of the device: `attend` and `attend_first` of each."""


def prepare_for(device: torch.device, network: Any) -> None:
    """Has a head's network computed as quickly as the device allows; its results stay the same.

    To be called when the head is on the encoder, which is `network.encoder`.
    """
    use_packed_rows(network.encoder, device.type)
    if device.type == "cpu":
        cpu.use_fast_dropout(network)


def use_packed_rows(network: nn.Module, device: str) -> None:
    """Has an encoder of transformers compute packed rows, where its family allows that."""
    config: Any = network.config
    if config.model_type not in PACKABLE or is_foreign(network):
        return
    if config._attn_implementation != "sdpa":
        return
    name = f"benchharness_{device}"  # what transformers calls this attention implementation
    AttentionInterface.register(name, _attention_by(KERNELS[device]))
    AttentionMaskInterface.register(name, _no_mask)
    network.set_attn_implementation(name)  # type: ignore[operator]
    use_packing(network)


def _no_mask(*_args: Any, **_options: Any) -> None:
    """The packing says what attends to what."""


def _attention_by(kernels: ModuleType) -> Callable[..., tuple[Tensor, None]]:
    """Attention by transformers' signature: states (1, heads, tokens, size) -> (1, tokens, ...)."""

    def attention(  # noqa: PLR0913, PLR0917  (transformers' signature of an attention function)
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,  # noqa: ARG001
        dropout: float = 0.0,
        scaling: float | None = None,
        sliding_window: int | None = None,
        **_options: Any,
    ) -> tuple[Tensor, None]:
        packing = PACKING.get()
        assert packing is not None
        scale = 1.0 / math.sqrt(query.shape[-1]) if scaling is None else scaling
        # (1, heads, tokens, size) -> (tokens, heads, size)
        query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
        if key.shape[1] < query.shape[1]:  # EuroBERT: several heads of queries share one of keys
            shares = query.shape[1] // key.shape[1]
            key, value = (tensor.repeat_interleave(shares, dim=1) for tensor in (key, value))
        states = (query, key, value)
        if is_at_first_token(module):
            return kernels.attend_first(*states, packing, scale, dropout)[None], None
        return kernels.attend(*states, packing, scale, dropout, sliding_window)[None], None

    return attention
