"""A network with its tokenizer, from wherever a checkpoint is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import processors
from torch import Tensor, nn
from transformers import AutoTokenizer
from transformers.utils import logging

from benchharness.encoder.network import (
    check_trusted,
    draw_network,
    first_line,
    is_foreign,
    load_config,
    load_network,
    takes_input,
)
from benchharness.encoder.packing import first_position
from benchharness.models.folder import GPT, NO_LIMIT, check_tokens, checkpoint_files, is_unbounded
from benchharness.models.spec import NOTHING, Trust
from benchharness.models.weights import download
from benchharness.tasks.errors import ModelError
from benchharness.tiny import folder as tiny_folder

BUILTIN_FOLDERS = {"builtin:tiny": tiny_folder}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A loaded encoder.

    `network` maps input ids, mask and token types to hidden states (rows, tokens, size) in fp32;
    layers that a family has pretrained above them are its `pooler`. Loaded whole, it is an encoder
    with a decoder, as transformers' class for conditional generation has them. `family` is
    transformers' model_type; `max_tokens` counts the special tokens.
    """

    network: nn.Module
    tokenizer: Any
    config: Any
    family: str
    max_tokens: int


def load_encoder(
    checkpoint: str,
    revision: str | None,
    seed: int,
    trust: Trust = NOTHING,
    *,
    whole: bool = False,
) -> Encoder:
    """The encoder of a checkpoint: "builtin:tiny", an absolute folder, or a hub id at a revision.

    `whole` asks for its decoder too. Weights that the checkpoint does not have (all of a built-in
    one's, a missing pooler) are drawn from the seed. Raises ModelError where the checkpoint is
    absent, unreadable, incomplete, not finite, or needs more trust than it has.
    """
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.manual_seed(seed)  # for weights that the checkpoint lacks, and then for the head's
    is_builtin = checkpoint in BUILTIN_FOLDERS
    folder = (
        BUILTIN_FOLDERS[checkpoint]() if is_builtin else find_folder(checkpoint, revision, trust)
    )
    config = load_config(folder, trust)
    tokenizer = load_tokenizer(folder, config, trust)
    network: Any = (
        draw_network(config, whole=whole)
        if is_builtin
        else load_network(folder, config, checkpoint, trust, whole=whole)
    )
    if is_foreign(network):
        _check_sizes(config, checkpoint)
        _take_as_it_is(network, tokenizer)
    _mark_texts(tokenizer, network, config)
    check_tokens(checkpoint, len(tokenizer), _count_rows(network, config))
    return Encoder(
        network=network,
        tokenizer=tokenizer,
        config=config,
        family=config.model_type,
        max_tokens=longest_input(network, config, tokenizer),
    )


def _count_rows(network: Any, config: Any) -> int | None:
    """How many tokens a network knows; None where neither it nor its config says so."""
    try:
        rows = network.get_input_embeddings().num_embeddings
    except (NotImplementedError, AttributeError):  # code of the checkpoint's own without it
        rows = getattr(config, "vocab_size", None)
    return rows if isinstance(rows, int) else None


def _check_sizes(config: Any, checkpoint: str) -> None:
    if not isinstance(getattr(config, "hidden_size", None), int):
        raise ModelError(
            f"the config of {checkpoint} has no hidden_size, the width of what the encoder gives a "
            "head: add it to config.json, or to the attribute_map of its code."
        )


def _take_as_it_is(network: nn.Module, tokenizer: Any) -> None:
    """Gives a checkpoint's own code the inputs that it names, and takes a bare tensor from it."""
    if not takes_input(network, TYPES):
        tokenizer.model_input_names = [n for n in tokenizer.model_input_names if n != TYPES]
    network.register_forward_hook(
        lambda _network, _inputs, output: (output,) if isinstance(output, Tensor) else output
    )


def find_folder(checkpoint: str, revision: str | None, trust: Trust) -> Path:
    """The whole folder of a checkpoint; a hub id is never looked up in the current folder."""
    folder = Path(checkpoint)
    if not folder.is_absolute():
        folder = download(checkpoint, revision, trust)
    checkpoint_files(folder, trust)
    return folder


def longest_input(network: nn.Module, config: Any, tokenizer: Any) -> int:
    """The longest input that both take.

    RoBERTa and its kin count positions from the padding index on, so 514 of them are 512 tokens.
    Plans know it by `models.folder.longest_row`, from the files alone.
    """
    if is_unbounded(config.model_type, config.to_dict()):
        return NO_LIMIT
    limits = [int(min(tokenizer.model_max_length, NO_LIMIT))]
    positions = getattr(config, "max_position_embeddings", None) or -1
    if positions > 0:
        limits.append(positions - first_position(network))
    return min(limits)


def check_reach(max_tokens: int, reach: int) -> None:
    """Raises ModelError where a job was planned with longer rows than its checkpoint reads."""
    if max_tokens > reach:
        raise ModelError(
            f"this checkpoint reads at most {reach} tokens, and the job has max_tokens="
            f"{max_tokens}: --set max_tokens={reach}."
        )


# An encoder's tokenizer, with what its network needs to see of it.

TYPES = "token_type_ids"

TYPED = ("albert", "funnel", "xlnet")
"""Families that were pretrained with token types, which their tokenizers in transformers 5 know and
do not give."""

START, DELIMITER, CLASSIFY = "_start_", "_delimiter_", "_classify_"
"""The tokens that openai/finetune-transformer-lm, train.py, adds to GPT's vocabulary."""


def load_tokenizer(folder: Path, config: Any, trust: Trust = NOTHING) -> Any:
    """The tokenizer of a checkpoint; ModelError where it is not usable.

    It gives token types where the network has learned any, and only there.
    """
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


def _mark_texts(tokenizer: Any, network: Any, config: Any) -> None:
    """Gives GPT, whose tokenizer puts nothing around texts, tokens to tell them apart.

    As Radford et al. 2018, section 3.3: a start, a delimiter between two texts, and an end at which
    the text is classified, all with embeddings that start from random numbers.
    """
    if config.model_type not in GPT or not tokenizer.is_fast or tokenizer.cls_token == CLASSIFY:
        return  # a checkpoint that a run has left has them
    tokenizer.add_special_tokens(
        {"bos_token": START, "sep_token": DELIMITER, "cls_token": CLASSIFY}
    )
    marks = (START, DELIMITER, CLASSIFY)
    template = processors.TemplateProcessing(
        single=f"{START} $A {CLASSIFY}",
        pair=f"{START} $A {DELIMITER} $B {CLASSIFY}",
        special_tokens=list(zip(marks, tokenizer.convert_tokens_to_ids(marks), strict=True)),
    )
    # GPT-2's own makes offsets leave out the space that begins a token: it still runs, first.
    own = tokenizer.backend_tokenizer.post_processor
    both = template if own is None else processors.Sequence([own, template])
    tokenizer.backend_tokenizer.post_processor = both
    tokens = len(tokenizer)
    embeddings: nn.Embedding = network.get_input_embeddings()
    if tokens > embeddings.num_embeddings:
        # From the initial distribution, as in GPT's paper, not from the mean of all embeddings.
        network.resize_token_embeddings(tokens, mean_resizing=False)
        config.vocab_size = tokens  # the network has a copy


# Dropout other than the checkpoint's own: some papers fine-tune without it.

NUMBERS = ("dropout", "attention_dropout")
"""How modules of transformers call a rate that they keep as a number instead of as a layer."""

CLASSIFIER_RATES = (
    "classifier_dropout",
    "classifier_dropout_prob",
    "cls_dropout",
    "qa_dropout",
    "seq_classif_dropout",
    "summary_last_dropout",
)
"""How configs of transformers call the rate right before the output layer."""


def set_dropout(encoder: Encoder, rate: float | None, classifier_rate: float | None) -> None:
    """Gives an encoder, and the head that is made for it, these rates; None leaves its own.

    To be called before the head is made, which reads its rate from the config.
    """
    if rate is not None:
        for module in encoder.network.modules():
            _set_rate(module, rate)
    if classifier_rate is not None:
        for name in CLASSIFIER_RATES:
            setattr(encoder.config, name, classifier_rate)


def _set_rate(module: Any, rate: float) -> None:
    if isinstance(module, nn.Dropout):  # FastDropout takes its rate from here later
        module.p = rate
    for name in NUMBERS:
        if isinstance(getattr(module, name, None), float):
            setattr(module, name, rate)
