"""Random encoder-decoders of each text-to-text family, and their tokenizers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from benchharness.leaderboard.job import Job
from tests.helpers.family_tokenizers import make_family_tokenizer
from tests.helpers.made_tokenizers import make_tokenizer
from tests.helpers.plans import plan_job

TEXT = {"as_text": "true"}

T5 = {
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}

KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "t5": ("t5", T5),
    "t5.1.1": ("t5", T5 | GATED),  # the architecture of Flan-T5 too
    "mt5": ("mt5", T5 | GATED),
    "bart": (
        "bart",
        {
            "d_model": 64,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "max_position_embeddings": 160,
            "init_std": 0.1,
        },
    ),
}
"""Family and fields of a small config, by kind."""

WILD = {"bart": {"init_std": 0.3}}
TOLD_APART = {kind: WILD.get(kind, {"initializer_factor": 3.0}) for kind in KINDS}
"""Config changes with which random weights predict different texts for different rows."""

BART_TEXTS = (
    "sst2 sentence: the movie is good. positive negative",
    "mnli hypothesis: premise: entailment neutral contradiction not_entailment",
    "stsb sentence1: sentence2: 0.0 1.2 3.4 5.0 copa choice1: choice2: question: True False",
) * 4


def save_text_model(folder: Path, kind: str = "t5", **changes: Any) -> Path:
    """Save a checkpoint of a kind; its random weights are always the same."""
    torch.manual_seed(7)
    family, sizes = KINDS[kind]
    if family == "bart":
        tokenizer = make_tokenizer("bytes", BART_TEXTS, 400)
        tokenizer.eos_token, tokenizer.bos_token = "</s>", "<s>"
        ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    else:
        tokenizer = make_family_tokenizer("t5")
        ids = {"pad_token_id": 0, "eos_token_id": 1}
    config = transformers.AutoConfig.for_model(
        family, vocab_size=len(tokenizer), **{**sizes, **ids, **changes}
    )
    network = transformers.AutoModelForSeq2SeqLM.from_config(config)
    if sizes.get("feed_forward_proj"):  # T5 1.1 has a separate output layer
        network.lm_head.weight = torch.nn.Parameter(network.lm_head.weight.detach().flip(0))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def text_job(
    checkpoint: Path, task: str = "glue/sst2", limit: int | None = 16, **settings: str
) -> Job:
    """Return a text-to-text job of a few steps on the packaged data."""
    quick = {"steps": "6", "batch_size": "8", "evaluations": "2", "learning_rate": "0.01"}
    return plan_job(
        str(checkpoint),
        task,
        overrides=TEXT | quick | settings,
        limit=limit,
        precision="fp32",
        test=True,
    )
