"""Low-rank adapters instead of fine-tuning: those of Hu et al., arXiv:2106.09685, through peft."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from benchharness.tasks.errors import BenchError, ModelError
from benchharness.worker.technique import Prepared, Technique


class Adapters(Technique):
    """They alone are trained of the encoder, and added to its weights in the end."""

    whole_vocabulary = True  # it is not trained

    def on_network(self, prepared: Prepared) -> None:
        """Puts them next to queries and values."""
        rank = self.work.recipe.encoder.lora_rank
        self.provenance = {"adapters": add_adapters(prepared.network.encoder, rank)}

    def before_writing(self, network: nn.Module) -> None:
        """Adds what they have learned to the weights."""
        merge_adapters(network)


technique = Adapters


ADAPTED = {
    *("query", "value"),  # BERT and most others
    *("q_lin", "v_lin"),  # DistilBERT
    *("q", "v"),  # MPNet, T5
    *("q_proj", "v_proj"),  # EuroBERT
    *("query_proj", "value_proj"),  # DeBERTa v2 and v3
    *("q_head", "v_head"),  # Funnel
    *("in_proj", "Wqkv", "c_attn"),  # DeBERTa, ModernBERT, GPT: one layer with the keys too
}
"""Names of the layers that make queries and values: the pair that section 7.1 finds best."""


def add_adapters(network: Any, rank: int) -> Mapping[str, str]:
    """Puts adapters of this rank next to an encoder's queries and values; they alone are trained.

    They start as zero and are added as they are: the scale alpha / r is 1, as the paper's appendix
    D has it for RoBERTa-base. Gives the version of the library that makes them. Raises BenchError
    where peft is not installed, ModelError for an encoder that has no layers of its own for them
    (XLNet).
    """
    try:
        import_module("torch.distributed.tensor")  # peft takes it for imported
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415  (an extra)
    except ImportError:
        raise BenchError(
            "lora_rank needs the library peft, which is not installed: "
            "pip install 'benchharness[lora]'."
        ) from None
    # The adapted layers by name: linear ones, or GPT's, which keep their weights transposed.
    targets: dict[str, nn.Module] = {
        name: module
        for name, module in network.named_modules()
        if name.rpartition(".")[2] in ADAPTED and isinstance(module, nn.Linear | Conv1D)
    }
    if not targets:
        raise ModelError(
            f"{network.config.model_type} has no layers for queries and values that adapters can "
            "stand next to: leave lora_rank out."
        )
    config = LoraConfig(
        r=rank,
        lora_alpha=rank,
        target_modules=list(targets),
        fan_in_fan_out=not all(isinstance(layer, nn.Linear) for layer in targets.values()),
    )
    inject_adapter_in_model(config, network)
    return {"peft": version("peft")}


def merge_adapters(network: Any) -> None:
    """Adds what the adapters have learned to the weights that they stand next to."""
    for module in network.modules():
        if hasattr(module, "lora_A"):  # what peft has put instead of a layer
            module.merge()
