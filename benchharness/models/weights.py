"""A checkpoint on the hub, brought into the local cache."""

from pathlib import Path

from benchharness.models.trust import NOTHING, Trust
from tasks.errors import ModelError
from tasks.sources.hub import go_offline_if_unreachable
from tasks.sources.hub_files import arriving

__all__ = ["cache_folder", "download", "require_checkpoint", "unreachable"]

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
"""What is fetched of a hub repository; pickled weights and code only where they are trusted."""


def download(hub_id: str, revision: str | None, trust: Trust = NOTHING) -> Path:
    """The cached folder of a hub repository's revision, fetched where it is not there yet.

    Raises ModelError where the hub does not give it, or cannot be reached and the cache lacks it.
    """
    offline = go_offline_if_unreachable()
    from huggingface_hub import snapshot_download

    # HTTPError is the HTTP library's own (httpx or httpx2, by version): a refused connection is
    # neither a HfHubHTTPError nor an OSError.
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HTTPError,
        LocalEntryNotFoundError,
    )

    try:
        with arriving(cache_folder(hub_id)) as damaged:
            folder = snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=_patterns(trust),
                local_files_only=offline,
            )
    except LocalEntryNotFoundError:
        raise unreachable(hub_id) from None
    except (HTTPError, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"the hub does not give the checkpoint {hub_id} ({reason}); check its name, or give a "
            "folder with --model."
        ) from error
    if damaged:
        raise ModelError(
            f"{len(damaged)} files of the checkpoint {hub_id} were damaged on their way from the "
            "hub and are deleted: the same command fetches them again."
        )
    return Path(folder)


def _patterns(trust: Trust) -> list[str]:
    pickled = ["pytorch_model*.bin", "pytorch_model.bin.index.json"] if trust.pickle else []
    return [*CHECKPOINT_FILES, *pickled, *(["*.py"] if trust.remote_code else [])]


def require_checkpoint(hub_id: str, revision: str) -> None:
    """Raises ModelError where a checkpoint is neither cached nor within reach; fetches nothing."""
    snapshot = cache_folder(hub_id) / "snapshots" / revision
    weights = [*snapshot.glob("*.safetensors"), *snapshot.glob("pytorch_model*.bin")]
    if not weights and go_offline_if_unreachable():
        raise unreachable(hub_id)


def cache_folder(hub_id: str) -> Path:
    """Where the hub's library keeps a model, fetched or not."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"


def unreachable(hub_id: str) -> ModelError:
    """The error for a model that can be had from nowhere, with everything that needs no hub."""
    return ModelError(
        f"model {hub_id!r} is not in the cache and the hub cannot be reached: run `bench fetch` "
        "where there is a network, or give a checkpoint folder (`--model DIR`) with rows that need "
        "no hub either (`--data DIR` or `--data mini`)."
    )
