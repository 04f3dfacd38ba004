"""Small random checkpoints of each family, made by transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from benchharness.tiny import folder as tiny_folder

VOCABULARY = json.loads((tiny_folder() / "config.json").read_text())["vocab_size"]
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
DISTILBERT_SIZES = {
    "vocab_size": VOCABULARY,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 32,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
}

LENGTHS = {
    "mixed": [9, 1, 33, 16, 2, 40],
    "one example": [12],
    "one token": [1, 1, 1],
    "longest": [40, 40],
}
"""Lengths of the examples of a batch; packed and padded encoders must agree on it."""


def make_config(family: str, **changes: Any) -> Any:
    """Return a tiny config of a family."""
    sizes = DISTILBERT_SIZES if family == "distilbert" else SIZES
    if family == "roberta":
        sizes = sizes | {"pad_token_id": 1, "type_vocab_size": 1}
    return transformers.AutoConfig.for_model(family, **sizes | changes)


def save_checkpoint(folder: Path, family: str = "bert", **changes: Any) -> Path:
    """Save a checkpoint with random weights and tiny's tokenizer; return its folder."""
    torch.manual_seed(7)
    network = transformers.AutoModel.from_config(make_config(family, **changes))
    network.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_folder()).save_pretrained(folder)
    return folder


def change_weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Apply `change` to the weights of a checkpoint, by name, and save them."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})
