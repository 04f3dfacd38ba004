"""Small random checkpoints of every named family, made by transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from benchharness.encoder.network import SETTINGS
from benchharness.encoder.packing import LAYERS, PACKABLE
from benchharness.recipes.classes import SHARED
from tests.helpers.checkpoints import VOCABULARY
from tests.helpers.family_tokenizers import make_family_tokenizer

BERT_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 72,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
GPT_SIZES = {
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 72,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


ROBERTA_SIZES = BERT_SIZES | {"pad_token_id": 1, "type_vocab_size": 1}
DEBERTA_SIZES = BERT_SIZES | {
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "type_vocab_size": 0,
}

FAMILIES: Mapping[str, Mapping[str, Any]] = {
    "albert": BERT_SIZES | {"embedding_size": 16},
    "bert": BERT_SIZES,
    "big_bird": BERT_SIZES
    | {"block_size": 8, "num_random_blocks": 1, "sep_token_id": 2, **SETTINGS["big_bird"]},
    "camembert": ROBERTA_SIZES,
    "convbert": BERT_SIZES | {"embedding_size": 32, "conv_kernel_size": 3, "head_ratio": 1},
    "deberta": DEBERTA_SIZES,
    "deberta-v2": DEBERTA_SIZES
    | {
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "conv_kernel_size": 3,
        "conv_act": "gelu",
    },
    "distilbert": {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 64,
        "max_position_embeddings": 72,
        "initializer_range": 0.3,
    },
    "electra": BERT_SIZES | {"embedding_size": 16},
    "ernie": BERT_SIZES | {"type_vocab_size": 4, "use_task_id": True},
    "eurobert": BERT_SIZES
    | {"num_key_value_heads": 2, "head_dim": 16, "bos_token_id": 2, "eos_token_id": 3},
    "funnel": {
        "architectures": ["FunnelModel"],
        "block_sizes": [1, 1],
        "block_repeats": [1, 1],
        "num_decoder_layers": 1,
        "d_model": 32,
        "n_head": 2,
        "d_head": 16,
        "d_inner": 64,
        "initializer_range": 0.3,
    },
    "gpt2": GPT_SIZES,
    "longformer": ROBERTA_SIZES | {"attention_window": 8},
    "megatron-bert": BERT_SIZES,
    "mobilebert": BERT_SIZES
    | {
        "embedding_size": 16,
        "true_hidden_size": 16,
        "intra_bottleneck_size": 16,
        "initializer_range": 0.12,
    },
    "modernbert": BERT_SIZES
    | {
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
    "mpnet": BERT_SIZES | {"pad_token_id": 1},
    "openai-gpt": GPT_SIZES,
    "roberta": ROBERTA_SIZES,
    "t5": {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2},
    "xlm-roberta": ROBERTA_SIZES,
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "initializer_range": 0.3},
}
"""Fields of a small config, by transformers' model_type."""

DECODER_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 64,
    "max_position_embeddings": 72,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}

DECODERS: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": DECODER_SIZES
    | {
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "llama": DECODER_SIZES,
    "modernbert-decoder": DECODER_SIZES
    | {"local_attention": 16, "layer_types": ["full_attention", "sliding_attention"]},
    "olmo2": DECODER_SIZES,
    "qwen3": DECODER_SIZES | {"head_dim": 16},
    "smollm3": DECODER_SIZES | {"no_rope_layers": [1, 0]},
}
"""Fields of a small config of decoders; tests/helpers/every_family.py makes those of all others."""

PACKED = sorted(PACKABLE | LAYERS.keys())
"""Families that can compute packed rows, in their layers or throughout."""

ID_NAMES = [f"{name}_token_id" for name in ("pad", "cls", "sep", "bos", "eos")]


WITH_HEAD: Mapping[str, Any] = {
    "modernbert": transformers.AutoModelForMaskedLM,
    "modernbert-decoder": transformers.AutoModelForCausalLM,
}
"""Classes with the pretrained head of a family, with which its checkpoints are saved."""

RATES = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "dropout"),
    *("embedding_dropout", "mlp_dropout", "dropout_rate"),
    *("resid_pdrop", "attn_pdrop", "embd_pdrop"),
)
"""Config fields that are dropout rates."""


def make_config(family: str, **changes: Any) -> Any:
    """Return a config with two layers of width 32 and special tokens within the vocabulary."""
    known = DECODERS.get(family) or FAMILIES[SHARED.get(family, family)]
    sizes = {"vocab_size": VOCABULARY, **known, **changes}
    return transformers.AutoConfig.for_model(family, **sizes)


def make_network(config: Any) -> Any:
    """Return the encoder without a head, with random weights."""
    if SHARED.get(config.model_type, config.model_type) == "t5":
        return transformers.AutoModelForTextEncoding.from_config(config)
    return transformers.AutoModel.from_config(config)


def save_family(folder: Path, family: str, kind: Any = None, **changes: Any) -> Path:
    """Save a checkpoint with random weights and a tokenizer of the family's own class.

    `kind` is the class that it is saved from; by default, the encoder, or the class in WITH_HEAD.
    """
    torch.manual_seed(7)
    tokenizer = make_family_tokenizer(family)
    ids = {name: getattr(tokenizer, name) for name in ID_NAMES}
    known = {name: number for name, number in ids.items() if number is not None}
    config = make_config(family, **{"vocab_size": len(tokenizer), **known, **changes})
    if kind is None:
        kind = WITH_HEAD.get(family, transformers.AutoModel)
    network = kind.from_config(config) if hasattr(kind, "from_config") else kind(config)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
