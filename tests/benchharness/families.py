"""A small random network of every family that we name, made by transformers itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import transformers

from tests.benchharness.checkpoints import VOCABULARY

__all__ = ["FAMILIES", "Family", "make_config", "make_network"]

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


@dataclass(frozen=True, kw_only=True)
class Family:
    """The sizes of a family's small config, and the kind of its tokenizer."""

    sizes: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=lambda: BERT_SIZES)
    tokenizer: str = "wordpiece"


ROBERTA = Family(sizes={"pad_token_id": 1, "type_vocab_size": 1}, tokenizer="bytes")
DEBERTA_SIZES = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}

FAMILIES: Mapping[str, Family] = {
    "bert": Family(),
    "roberta": ROBERTA,
    "distilbert": Family(
        base={
            "dim": 32,
            "n_layers": 2,
            "n_heads": 2,
            "hidden_dim": 64,
            "max_position_embeddings": 72,
            "initializer_range": 0.3,
        }
    ),
    "albert": Family(sizes={"embedding_size": 16}, tokenizer="unigram"),
    "xlnet": Family(
        base={"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64, "initializer_range": 0.3},
        tokenizer="unigram last",
    ),
    "electra": Family(sizes={"embedding_size": 16}),
    "deberta": Family(sizes={**DEBERTA_SIZES, "type_vocab_size": 0}, tokenizer="bytes"),
    "deberta-v2": Family(
        sizes={
            **DEBERTA_SIZES,
            "type_vocab_size": 0,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "conv_kernel_size": 3,
            "conv_act": "gelu",
        },
        tokenizer="unigram",
    ),
    "ernie": Family(sizes={"type_vocab_size": 4, "use_task_id": True}),
    "mpnet": Family(sizes={"pad_token_id": 1}),
    "mobilebert": Family(
        sizes={
            "embedding_size": 16,
            "true_hidden_size": 16,
            "intra_bottleneck_size": 16,
            "initializer_range": 0.12,
        }
    ),
    "funnel": Family(
        base={
            "architectures": ["FunnelModel"],
            "block_sizes": [1, 1],
            "block_repeats": [1, 1],
            "num_decoder_layers": 1,
            "d_model": 32,
            "n_head": 2,
            "d_head": 16,
            "d_inner": 64,
            "initializer_range": 0.3,
        }
    ),
    "megatron-bert": Family(),
    "convbert": Family(sizes={"embedding_size": 32, "conv_kernel_size": 3, "head_ratio": 1}),
    "longformer": Family(
        sizes={"pad_token_id": 1, "type_vocab_size": 1, "attention_window": 8}, tokenizer="bytes"
    ),
    "big_bird": Family(
        sizes={"block_size": 8, "num_random_blocks": 1, "sep_token_id": 2}, tokenizer="unigram"
    ),
    "xlm-roberta": Family(sizes=ROBERTA.sizes, tokenizer="unigram"),
    "camembert": Family(sizes=ROBERTA.sizes, tokenizer="unigram"),
    "modernbert": Family(
        sizes={
            "global_attn_every_n_layers": 2,
            "local_attention": 8,
            "cls_token_id": 2,
            "sep_token_id": 3,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        tokenizer="bytes",
    ),
    "eurobert": Family(
        sizes={"num_key_value_heads": 2, "head_dim": 16, "bos_token_id": 2, "eos_token_id": 3},
        tokenizer="bytes",
    ),
    "openai-gpt": Family(base=GPT_SIZES, tokenizer="bare"),
    "gpt2": Family(base=GPT_SIZES, tokenizer="bare"),
    "t5": Family(
        base={"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2},
        tokenizer="unigram",
    ),
}
"""By transformers' model_type."""


def make_config(family: str, **changes: Any) -> Any:
    """A config with two layers of 32, in which special tokens are in the vocabulary."""
    made = FAMILIES[family]
    sizes = {"vocab_size": VOCABULARY, **made.base, **made.sizes, **changes}
    return transformers.AutoConfig.for_model(family, **sizes)


def make_network(config: Any) -> Any:
    """The encoder alone, with random weights."""
    if config.model_type == "t5":
        return transformers.T5EncoderModel(config).encoder
    return transformers.AutoModel.from_config(config)
