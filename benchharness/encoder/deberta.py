"""DeBERTa v1's attention in fp32: transformers' code for it cannot be computed in bf16.

It fills the places of padding with the lowest number of the queries' type, which autocast leaves
fp32, in scores that autocast makes bf16, where that number does not exist. Version 2 is another
code without the fault.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention

__all__ = ["use_fp32_attention"]


class _Fp32Attention(DisentangledSelfAttention):
    def forward(self, hidden_states: Tensor, *args: Any, **options: Any) -> Any:
        with torch.autocast(hidden_states.device.type, enabled=False):
            return super().forward(hidden_states.float(), *args, **options)


def use_fp32_attention(network: nn.Module) -> None:
    """Computes the attention of every layer in fp32, whatever the precision around it."""
    for module in network.modules():
        if isinstance(module, DisentangledSelfAttention):
            module.__class__ = _Fp32Attention
