"""Tiny checkpoints of any family that transformers has a text classifier for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

from tests.helpers.made_tokenizers import make_tokenizer

SIZES: Mapping[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("embedding_hidden_size", "word_embed_proj_dim", "attention_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "n_head", "n_heads"), 2),
    **dict.fromkeys(("num_heads", "linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "d_inner", "hidden_dim"), 64),
    **dict.fromkeys(("ffn_hidden_size", "shared_expert_intermediate_size"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 128),
    **dict.fromkeys(("head_dim", "v_head_dim", "linear_key_head_dim", "linear_value_head_dim"), 16),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("state_size", "mamba_d_state", "hidden_size_per_layer_input"), 8),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts"), 2),
    **dict.fromkeys(("num_experts_per_tok", "n_shared_experts", "n_group", "topk_group"), 1),
    **dict.fromkeys(("moe_intermediate_size", "sliding_window"), 32),
    **dict.fromkeys(("entity_vocab_size", "entity_emb_size"), 16),
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "attention_window": 8,
    "block_size": 8,
    "initializer_range": 0.3,
    "init_std": 0.3,
}
"""Tiny value for each config field that is a size."""

OWN_SIZES: Mapping[str, Mapping[str, Any]] = {
    "convbert": {"conv_kernel_size": 3, "head_ratio": 1},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "funnel": {
        "block_sizes": [1, 1],
        "block_repeats": [1, 1],
        "d_head": 16,
        "architectures": ["FunnelModel"],
        "num_hidden_layers": None,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "cohere_compass_text": {
        "layer_types": ["full_attention"] * 2,
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}},
        "eos_token_id": 0,
    },
    "axk1": {"qk_rope_head_dim": 8, "head_dim": 8},
    "deepseek_v3": {"qk_rope_head_dim": 8, "head_dim": 8},
    "gptj": {"rotary_dim": 8},
    "zamba": {
        "num_hidden_layers": 3,
        "layers_block_type": ["linear_attention", "hybrid", "hybrid"],
        "attention_hidden_size": None,
        "attention_head_dim": None,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"],
        "attention_hidden_size": None,
    },
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 16]},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
}
"""Additional config fields that some families need."""


def make_tiny_config(family: str, vocabulary: int, **changes: Any) -> Any:
    """Return a config of a family with tiny layers.

    Raises ValueError or TypeError if there is no such config.
    """
    kind = CONFIG_MAPPING[family]
    usual = kind()
    if usual.get_text_config() is not usual:
        raise ValueError(f"{family} has a config for each of its parts")
    sizes = {name: value for name, value in SIZES.items() if name in usual.to_dict()}
    given = {"vocab_size": vocabulary, **sizes, **OWN_SIZES.get(family, {}), **changes}
    return kind(**{name: value for name, value in given.items() if value is not None})


def save_tiny(folder: Path, family: str, *, tokenizer: str = "", **changes: Any) -> Path:
    """Save a checkpoint with random weights and a tokenizer of the usual kind.

    A decoder's tokenizer adds no special tokens, like Qwen's; others are like BERT's. `tokenizer`
    is another kind of tests/helpers/made_tokenizers.py.
    """
    torch.manual_seed(7)
    is_decoder = family in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    made = make_tokenizer(tokenizer or ("decoder" if is_decoder else "wordpiece"))
    config = make_tiny_config(family, len(made), pad_token_id=made.pad_token_id, **changes)
    network = transformers.AutoModel.from_config(config)
    if is_decoder:
        # Qwen's padding token also ends documents, so its embedding is not zero.
        network.get_input_embeddings().weight.data.normal_(std=0.3)
    network.save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


CLASSIFYING = tuple(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)

REFUSED = {
    "bart": "an encoder with a decoder",
    "bigbird_pegasus": "an encoder with a decoder",
    "layoutlmv3": "cannot read texts that are given only as token ids",
    "lilt": "cannot read texts that are given only as token ids",
    "mbart": "an encoder with a decoder",
    "mra": "the same state for a token after different texts",
    "mvp": "an encoder with a decoder",
    "perceiver": "has no hidden_size",
    "plbart": "an encoder with a decoder",
    "reformer": "expected one state of hidden_size 32 per token",
}
"""Families that cannot encode a text, with the error message for each."""

NOT_MADE = {
    "gemma3": "pictures too",
    "layoutlmv2": "needs detectron2",
    "modernvbert": "pictures too",
    "qwen3_5": "pictures too",
    "t5gemma": "an encoder with a decoder",
    "t5gemma2": "pictures too",
    "ultravbert": "pictures too",
}
"""Families without a tiny config in tests/helpers/every_family.py."""

READ = sorted(set(CLASSIFYING) - REFUSED.keys() - NOT_MADE.keys())
"""Families that read a whole text."""
