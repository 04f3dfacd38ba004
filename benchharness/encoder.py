"""An encoder with its tokenizer, whole and checked, or one sentence on why it cannot be used."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchharness.models.download import download
from benchharness.models.folder import checkpoint_files
from benchharness.tiny import folder as tiny_folder
from tasks.errors import ModelError

__all__ = ["Encoder", "load_encoder"]

BUILTIN_FOLDERS = {"builtin:tiny": tiny_folder}

NOT_ENCODER = ("pooler", "classifier", "pre_classifier", "head", "lm_head", "cls", "qa_outputs")
"""Names of layers on top of an encoder: a checkpoint without them is still a whole encoder."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A loaded encoder.

    `network` maps input ids, mask and token types to hidden states (rows, tokens, size) in fp32.
    `family` is transformers' model_type; `max_tokens` counts the special tokens.
    """

    network: nn.Module
    tokenizer: Any
    config: Any
    family: str
    max_tokens: int


def load_encoder(checkpoint: str, revision: str | None, seed: int) -> Encoder:
    """The encoder of a checkpoint: "builtin:tiny", an absolute folder, or a hub id at a revision.

    Weights that the checkpoint does not have (all of a built-in one's, a missing pooler) are drawn
    from the seed. Raises ModelError where the checkpoint is absent, unreadable, pickled, incomplete
    or not finite.
    """
    _silence_transformers()
    torch.manual_seed(seed)
    if checkpoint in BUILTIN_FOLDERS:
        folder = BUILTIN_FOLDERS[checkpoint]()
        config, tokenizer = _load_config(folder), _load_tokenizer(folder)
        network = _draw(config)
    else:
        folder = _find_folder(checkpoint, revision)
        config, tokenizer = _load_config(folder), _load_tokenizer(folder)
        network = _load_weights(folder, checkpoint)
    _check_vocabulary(network, tokenizer, checkpoint)
    return Encoder(
        network=network,
        tokenizer=tokenizer,
        config=config,
        family=config.model_type,
        max_tokens=_max_tokens(network, tokenizer),
    )


def _silence_transformers() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def _find_folder(checkpoint: str, revision: str | None) -> Path:
    """The whole folder of a checkpoint; a hub id is never looked up in the current folder."""
    folder = Path(checkpoint)
    if not folder.is_absolute():
        folder = download(checkpoint, revision)
    checkpoint_files(folder)
    return folder


def _load_config(folder: Path) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder / 'config.json'} is not usable: {_first_line(error)}") from error


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(
            f"the tokenizer in {folder} is not usable: {_first_line(error)}"
        ) from error


def _draw(config: Any) -> nn.Module:
    from transformers import AutoModel

    network: nn.Module = AutoModel.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
    return network


def _load_weights(folder: Path, checkpoint: str) -> nn.Module:
    """The network with the checkpoint's weights; fp32 whatever they were saved in."""
    from safetensors import SafetensorError
    from transformers import AutoModel

    network: nn.Module
    try:
        network, info = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise ModelError(
            f"the weights in {folder} cannot be loaded ({_first_line(error)}): copy the checkpoint "
            "again."
        ) from error
    _check_whole(network, info["missing_keys"], checkpoint)
    return network


def _check_whole(network: nn.Module, missing: set[str], checkpoint: str) -> None:
    """Refuses weights that transformers would make up, and weights that are not numbers."""
    lost = sorted(key for key in missing if not _is_on_top(key))
    if lost:
        shown = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        raise ModelError(
            f"{checkpoint} lacks {len(lost)} weights of its encoder ({shown}): it is damaged, or "
            "not of the family that its config.json says."
        )
    broken = [name for name, weight in network.named_parameters() if not weight.isfinite().all()]
    if broken:
        raise ModelError(
            f"{checkpoint} has NaN or infinite numbers in {broken[0]} "
            f"({len(broken)} weights in all): get an undamaged copy."
        )


def _is_on_top(key: str) -> bool:
    names = key.split(".")
    return names[0] in NOT_ENCODER or "position_ids" in names


def _check_vocabulary(network: Any, tokenizer: Any, checkpoint: str) -> None:
    rows = network.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise ModelError(
            f"the tokenizer of {checkpoint} has {len(tokenizer)} tokens and its network only "
            f"{rows} embeddings: they do not belong together."
        )


def _max_tokens(network: nn.Module, tokenizer: Any) -> int:
    """The longest input that both take.

    RoBERTa and its kin count positions from the padding index on, so 514 of them are 512 tokens.
    """
    limits = [int(min(tokenizer.model_max_length, 10**9))]
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            limits.append(module.num_embeddings - reserved)
    return min(limits)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
