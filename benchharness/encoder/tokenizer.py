"""An encoder's tokenizer, with what its network needs to see of it."""

from pathlib import Path
from typing import Any

from torch import nn

from benchharness.encoder.network import check_trusted, first_line
from benchharness.models.trust import NOTHING, Trust
from tasks.errors import ModelError

__all__ = ["load_tokenizer", "mark_texts"]

TYPES = "token_type_ids"

TYPED = ("albert", "funnel", "xlnet")
"""Families that were pretrained with token types, which their tokenizers in transformers 5 know and
do not give."""

GPT = ("gpt2", "openai-gpt")
START, DELIMITER, CLASSIFY = "_start_", "_delimiter_", "_classify_"
"""The tokens that openai/finetune-transformer-lm, train.py, adds to GPT's vocabulary."""


def load_tokenizer(folder: Path, config: Any, trust: Trust = NOTHING) -> Any:
    """The tokenizer of a checkpoint; ModelError where it is not usable.

    It gives token types where the network has learned any, and only there.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust.remote_code, local_files_only=True
        )
    except Exception as error:  # whatever a damaged file makes transformers run into
        check_trusted(folder, error)
        raise ModelError(f"the tokenizer in {folder} is not usable: {first_line(error)}") from error
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ModelError(
            f"the tokenizer in {folder} is not usable: its model_max_length is "
            f"{tokenizer.model_max_length!r}, expected a number."
        )
    names = [name for name in tokenizer.model_input_names if name != TYPES]
    gives_types = TYPES in tokenizer.model_input_names or config.model_type in TYPED
    types = [TYPES] if gives_types and _has_types(config) else []
    tokenizer.model_input_names = [*names, *types]
    return tokenizer


def _has_types(config: Any) -> bool:
    """Whether there are embeddings of several types; Funnel and XLNet compare types instead."""
    compares = config.model_type in ("funnel", "xlnet")
    return compares or getattr(config, "type_vocab_size", 0) > 1


def mark_texts(tokenizer: Any, network: Any) -> None:
    """Gives GPT, whose tokenizer puts nothing around texts, tokens to tell them apart.

    As Radford et al. 2018, section 3.3: a start, a delimiter between two texts, and an end at which
    the text is classified, all with embeddings that start from random numbers.
    """
    if network.config.model_type not in GPT or not tokenizer.is_fast:
        return
    from tokenizers import processors

    tokenizer.add_special_tokens(
        {"bos_token": START, "sep_token": DELIMITER, "cls_token": CLASSIFY}
    )
    marks = (START, DELIMITER, CLASSIFY)
    template = processors.TemplateProcessing(
        single=f"{START} $A {CLASSIFY}",
        pair=f"{START} $A {DELIMITER} $B {CLASSIFY}",
        special_tokens=list(zip(marks, tokenizer.convert_tokens_to_ids(marks), strict=True)),
    )
    own = tokenizer.backend_tokenizer.post_processor
    both = template if own is None else processors.Sequence([own, template])
    tokenizer.backend_tokenizer.post_processor = both
    _grow(network, len(tokenizer))


def _grow(network: Any, tokens: int) -> None:
    """Draws embeddings for tokens that the network has none for."""
    embeddings: nn.Embedding = network.get_input_embeddings()
    if tokens > embeddings.num_embeddings:
        network.resize_token_embeddings(tokens, mean_resizing=False)
