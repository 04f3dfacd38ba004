"""A network with its tokenizer, from wherever a checkpoint is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchharness.encoder.network import draw_network, load_config, load_network
from benchharness.encoder.tokenizer import load_tokenizer, mark_texts
from benchharness.models.folder import checkpoint_files
from benchharness.models.trust import NOTHING, Trust
from benchharness.models.weights import download
from benchharness.tiny import folder as tiny_folder
from tasks.errors import ModelError

__all__ = ["Encoder", "load_encoder"]

BUILTIN_FOLDERS = {"builtin:tiny": tiny_folder}


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A loaded encoder.

    `network` maps input ids, mask and token types to hidden states (rows, tokens, size) in fp32;
    layers that a family has pretrained above them are its `pooler`. `family` is transformers'
    model_type; `max_tokens` counts the special tokens.
    """

    network: nn.Module
    tokenizer: Any
    config: Any
    family: str
    max_tokens: int


def load_encoder(
    checkpoint: str, revision: str | None, seed: int, trust: Trust = NOTHING
) -> Encoder:
    """The encoder of a checkpoint: "builtin:tiny", an absolute folder, or a hub id at a revision.

    Weights that the checkpoint does not have (all of a built-in one's, a missing pooler) are drawn
    from the seed. Raises ModelError where the checkpoint is absent, unreadable, incomplete, not
    finite, or needs more trust than it has.
    """
    _silence_transformers()
    torch.manual_seed(seed)
    is_builtin = checkpoint in BUILTIN_FOLDERS
    folder = (
        BUILTIN_FOLDERS[checkpoint]() if is_builtin else _find_folder(checkpoint, revision, trust)
    )
    config = load_config(folder, trust)
    tokenizer = load_tokenizer(folder, config, trust)
    network = (
        draw_network(config) if is_builtin else load_network(folder, config, checkpoint, trust)
    )
    mark_texts(tokenizer, network)
    _check_vocabulary(network, tokenizer, checkpoint)
    return Encoder(
        network=network,
        tokenizer=tokenizer,
        config=config,
        family=config.model_type,
        max_tokens=_max_tokens(network, config, tokenizer),
    )


def _silence_transformers() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def _find_folder(checkpoint: str, revision: str | None, trust: Trust) -> Path:
    """The whole folder of a checkpoint; a hub id is never looked up in the current folder."""
    folder = Path(checkpoint)
    if not folder.is_absolute():
        folder = download(checkpoint, revision, trust)
    checkpoint_files(folder, trust)
    return folder


def _check_vocabulary(network: Any, tokenizer: Any, checkpoint: str) -> None:
    rows = network.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise ModelError(
            f"the tokenizer of {checkpoint} has {len(tokenizer)} tokens and its network only "
            f"{rows} embeddings: they do not belong together."
        )


def _max_tokens(network: nn.Module, config: Any, tokenizer: Any) -> int:
    """The longest input that both take.

    RoBERTa and its kin count positions from the padding index on, so 514 of them are 512 tokens.
    XLNet and T5 have no limit of their own, which transformers writes as -1 or leaves out.
    """
    limits = [int(min(tokenizer.model_max_length, 10**9))]
    positions = getattr(config, "max_position_embeddings", None) or -1
    if positions > 0:
        limits.append(positions - _reserved_positions(network))
    return min(limits)


def _reserved_positions(network: nn.Module) -> int:
    return max(
        (
            module.padding_idx + 1
            for name, module in network.named_modules()
            if name.endswith("position_embeddings")
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ),
        default=0,
    )
