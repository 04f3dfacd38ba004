"""Low-rank adapters (LoRA, Hu et al., arXiv:2106.09685), added with peft, for fine-tuning."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from benchharness.encoder import layers_of
from benchharness.errors import BenchError, ModelError
from benchharness.extensions.adapters.hyperparameters import ALL_LINEAR, AdapterOptions
from benchharness.worker.technique import Prepared, Technique


class Adapters(Technique):
    """Technique that trains low-rank adapters, and merges them into the encoder at the end."""

    whole_vocabulary = True  # embeddings are not trained, so leaving out unused ones saves nothing

    def on_network(self, prepared: Prepared) -> None:
        """Add adapters to the encoder, as the recipe says, and freeze the encoder's own weights."""
        options = self.work.recipe.added["adapters"]
        self.provenance = {"adapters": add_adapters(prepared.network.encoder, options)}

    def before_writing(self, network: nn.Module) -> None:
        """Merge the adapters of a network into the weights of the layers that they adapt."""
        merge_adapters(network)


ADAPTED = {
    *("query", "value"),  # BERT and most others
    *("q_lin", "v_lin"),  # DistilBERT
    *("q", "v"),  # MPNet, T5
    *("q_proj", "v_proj"),  # EuroBERT
    *("query_proj", "value_proj"),  # DeBERTa v2 and v3
    *("q_head", "v_head"),  # Funnel
    *("in_proj", "Wqkv", "c_attn"),  # DeBERTa, ModernBERT, GPT: one layer that includes keys
    *("qkv_proj", "query_key_value"),  # Phi-3, GPT-NeoX: one layer that includes keys
}
"""Names, in different model families, of the layers that compute queries and values. Section 7.1 of
LoRA's paper finds that these are the best layers to adapt."""


def add_adapters(network: Any, options: AdapterOptions) -> Mapping[str, str]:
    """Add adapters to linear layers of an encoder, and freeze the encoder's own weights.

    At the start, the output of the adapters is zero. It is added to the output of the layer, by
    default without scaling: alpha / r is 1, as for RoBERTa-base in appendix D of LoRA's paper.

    Args:
        network: Encoder to change.
        options: Rank of the adapters (r in the paper), their scale and dropout, and which layers
            are adapted.

    Returns:
        Version of the library peft, keyed by "peft".

    Raises:
        BenchError: If peft is not installed.
        ModelError: If the encoder has no suitable layers (XLNet).
    """
    try:
        import_module("torch.distributed.tensor")  # peft assumes that this module is imported
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415  (optional)
    except ImportError:
        raise BenchError(
            "lora_rank needs the library peft, which is not installed: "
            "pip install 'benchharness[lora]'."
        ) from None
    targets = _targets(network, options.lora_targets)
    if not targets:
        raise ModelError(
            f"{network.config.model_type} has no layers for queries and values, which adapters "
            "need: omit lora_rank."
        )
    config = LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.lora_alpha or options.lora_rank,
        lora_dropout=options.lora_dropout,
        target_modules=list(targets),
        fan_in_fan_out=not all(isinstance(layer, nn.Linear) for layer in targets.values()),
    )
    inject_adapter_in_model(config, network)
    return {"peft": version("peft")}


def _targets(network: Any, wanted: str) -> dict[str, nn.Module]:
    """Return the layers to adapt by name: linear layers, or GPT's Conv1D (a transposed one)."""
    found = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | Conv1D)
    }
    if wanted == ALL_LINEAR:  # without the pooler, which belongs to the head
        inner = {id(each) for layer in layers_of(network).layers for each in layer.modules()}
        return {name: module for name, module in found.items() if id(module) in inner}
    return {name: each for name, each in found.items() if name.rpartition(".")[2] in ADAPTED}


def merge_adapters(network: Any) -> None:
    """Merge the adapters of a network into the weights of the layers that they adapt."""
    for module in network.modules():
        if hasattr(module, "lora_A"):  # a layer that peft has replaced
            module.merge()
