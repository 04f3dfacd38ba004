"""A checkpoint on the hub, brought into the local cache."""

from pathlib import Path

from tasks.errors import ModelError
from tasks.sources.hub import go_offline_if_unreachable

__all__ = ["CHECKPOINT_FILES", "download"]

CHECKPOINT_FILES = (
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece*",
)
"""What is fetched of a hub repository; never pickled weights, never code."""


def download(hub_id: str, revision: str) -> Path:
    """The cached folder of a hub repository's revision, fetched where it is not there yet.

    Raises ModelError where the hub does not give it, or cannot be reached and the cache lacks it.
    """
    offline = go_offline_if_unreachable()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HTTPError,
        LocalEntryNotFoundError,
    )

    try:
        return Path(
            snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=list(CHECKPOINT_FILES),
                local_files_only=offline,
            )
        )
    except LocalEntryNotFoundError:
        raise ModelError(
            f"the checkpoint {hub_id} is not in the cache and the hub cannot be reached: give a "
            "folder with --model, or run `bench fetch` where there is a network."
        ) from None
    except (HTTPError, ValueError, OSError) as error:
        raise ModelError(f"the hub does not give the checkpoint {hub_id}: {error}") from error
